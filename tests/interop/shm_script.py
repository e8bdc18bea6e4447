"""A DDP script like many: shm_script.py BACKEND [crash | stay | leave]. Rank 0 prints what it has computed, as one digest."""

import hashlib
import os
import pickle
import signal
import sys

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

backend, *ways = sys.argv[1:]
if "ddp_shm" in backend:
    import ddp_shm  # noqa: F401 - it registers itself

dist.init_process_group(backend)
rank, world_size = dist.get_rank(), dist.get_world_size()
results = []


def keep(*tensors):
    results.extend(tensor.tolist() for tensor in tensors)


def numbers(dtype, seed, count=1003):
    values = torch.randn(count, dtype=torch.float64, generator=torch.Generator().manual_seed(1000 * seed + rank))
    return (values * (1 if dtype.is_floating_point else 1000)).to(dtype)


for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8):
    summed = numbers(dtype, 1)
    dist.all_reduce(summed)
    keep(summed.double())
operations = [dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT]
for operation in operations:
    reduced = numbers(torch.float32, 2)
    dist.all_reduce(reduced, op=operation)
    keep(reduced)
# Many under way at once, waited for in another order.
tensors = [numbers(torch.float32, 3, 1 + 7001 * (i % 3)) for i in range(30)]
works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
for work in reversed(works):
    work.wait()
keep(*tensors)
# Other collectives, and other groups of the same ranks, one of them of a part.
copy = numbers(torch.float32, 4)
dist.broadcast(copy, src=world_size - 1)
parts = [torch.empty(1003) for _ in range(world_size)]
dist.all_gather(parts, copy + rank)
objects = [None] * world_size
dist.all_gather_object(objects, {"rank": rank})
large_parts = [torch.empty(400_003, dtype=torch.bfloat16) for _ in range(world_size)]
dist.all_gather(large_parts, numbers(torch.bfloat16, 9, 400_003), async_op=True).wait()
keep(copy, *parts, *[part.double().sum() for part in large_parts])
results.append(objects)
pair = dist.new_group([0, 1])
everybody = dist.new_group()
if rank < 2:
    inside = numbers(torch.float32, 5)
    dist.all_reduce(inside, group=pair)
    keep(inside)
outside = numbers(torch.float32, 6)
dist.all_reduce(outside, group=everybody)
keep(outside)
if rank == 0:
    dist.send(copy, dst=1)
elif rank == 1:
    dist.recv(copy, src=0)
# A barrier waits for what is under way; a callback may wait for another sum; who drops a sum has started it.
large = numbers(torch.float32, 7, 3_000_001)
under_way = dist.all_reduce(large, async_op=True)
dist.barrier()
results.append(under_way.is_completed())
keep(large[:7], large[-7:])


def sum_again(done):
    again = done.value()[0] * 2
    dist.all_reduce(again, async_op=True).get_future().wait()
    return again


keep(dist.all_reduce(numbers(torch.float32, 8), async_op=True).get_future().then(sum_again).wait())  # Gloo has two threads for it
# torch's profiler shows each of them once.
with torch.autograd.profiler.profile() as profile:
    dist.all_reduce(torch.ones(3))
    dist.all_reduce(torch.ones(3), async_op=True).wait()
    dist.broadcast(torch.ones(3), src=0)
    dist.all_gather([torch.ones(3) for _ in range(world_size)], torch.ones(3))
results.append(sorted(event.name for event in profile.function_events if event.name.startswith("gloo:")))
assert len(results[-1]) == 4, results[-1]
torch.manual_seed(0)
# What autograd would refuse to change in place.
conv = torch.nn.Conv2d(4, 4, 3).to(memory_format=torch.channels_last)
saved = conv.weight.transpose(0, 1).exp()
dist.broadcast(conv.weight, src=0)
dist.all_reduce(conv.weight)
saved.sum().backward()
keep(conv.weight.detach() / world_size)
for root in (-1, world_size + 3):
    try:
        dist.broadcast(copy, group_src=root)
    except Exception as error:  # noqa: BLE001 - its type is compared
        results.append(type(error).__name__)
dist.barrier()

layers = [torch.nn.Conv2d(1, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 26 * 26, 10)]
compressed = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)))
compressed.register_comm_hook(PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2), powerSGD_hook)
for step in range(4):
    compressed(torch.ones(2, 64) * (rank + 1)).square().mean().backward()
keep(*[parameter.grad for parameter in compressed.parameters()])
model = DistributedDataParallel(torch.nn.Sequential(*layers), broadcast_buffers=not ways, gradient_as_bucket_view=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
random = torch.Generator().manual_seed(rank)
images, labels = torch.randn(32, 1, 28, 28, generator=random), torch.randint(0, 10, (32,), generator=random)
for step in range(1, 100000 if ways else 11):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    if step == 3 and rank == 0:
        print("trains", flush=True)
    if step == 5 and rank == 1 and "crash" in ways:
        os.kill(os.getpid(), signal.SIGKILL)
    if step == 5 and rank == 1 and "stay" in ways:
        print(f"stays {os.getpid()}", flush=True)
        signal.pause()
    if step == 10 and "leave" in ways:
        sys.exit(0)  # without destroy_process_group()
if "ddp_shm" in backend:
    cpu = torch.device("cpu")
    own = dist.group.WORLD._get_backend(cpu).allocate_tensor(100_000, dtype=torch.float32, device=cpu).fill_(rank)
    dist.all_reduce(own)
    assert own.eq(sum(range(world_size))).all()
    address = model.module[0].weight.grad.data_ptr()
    found = [line for line in open("/proc/self/maps") if "ddp-sums" in line and int(line.split("-")[0], 16) <= address < int(line.split()[0].split("-")[1], 16)]
    assert found, "DDP's buckets are not in shared memory"
keep(loss.detach(), *[parameter.detach() for parameter in model.parameters()])
if rank == 0:
    print(f"digest {hashlib.sha256(pickle.dumps(results)).hexdigest()} loss {loss.item()}", flush=True)
dist.destroy_process_group()
