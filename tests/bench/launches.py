"""Operators that a steady step of plain PyTorch launches, with DDP in a world of one: launches.py. On a GPU each is a kernel or more.

The other side is what SecondDeviceLaunches of unit_worker_device prints. Both count what computes: not views, not empty tensors.
"""

import collections
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "interop"))
from reference_ddp import ConvNet  # noqa: E402
from reference_models import build  # noqa: E402

WARM_UP = 3
FREE = {"_record_function_enter_new", "_record_function_exit", "empty", "empty_like", "empty_strided", "new_empty", "lift_fresh", "detach", "is_pinned", "_local_scalar_dense"}


class Count(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.operators = collections.Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        if not function.is_view and name not in FREE:
            self.operators[name] += 1
        return function(*args, **(kwargs or {}))


def count(net, images, labels, is_parallel):
    called = DistributedDataParallel(net) if is_parallel else net
    optimizer = torch.optim.SGD(net.parameters(), lr=0.005, momentum=0.9, weight_decay=1e-4, fused=True)
    total, right = torch.zeros(()), torch.zeros((), dtype=torch.long)

    def step():
        outputs = called(images)
        loss = torch.nn.functional.cross_entropy(outputs, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total.add_(loss.detach())
        right.add_((outputs.argmax(1) == labels).sum())

    for _ in range(WARM_UP):
        step()
    with Count() as counted:
        step()
    return counted.operators


def main():
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    for name, make, shape in (("convnet", ConvNet, (16, 1, 28, 28)), ("resnet18", lambda: build("resnet18", 3, 32, 10), (4, 3, 32, 32))):
        for is_parallel in (False, True):
            operators = count(make(), torch.rand(shape), torch.randint(10, shape[:1]), is_parallel)
            most = ", ".join(f"{one} {times}" for one, times in operators.most_common(8))
            print(f"{name}, {'DDP' if is_parallel else 'plain'}: {sum(operators.values())} launches in a step ({most}, ...)")
    sys.stdout.flush()
    os._exit(0)  # not by destroy_process_group(): see reference_ddp.py


if __name__ == "__main__":
    main()
