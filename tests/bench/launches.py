"""Operators that a steady step of PyTorch launches: plain, and under DDP in a world of one and of two. On a GPU each is a kernel or more.

The other side is what FakeGpuLaunches of unit_worker_device prints. Both count what computes: not views, not empty tensors.
yolov8n is the one of the package ultralytics; where that is missing it is left out, and said.
Run by hand: PYTHON tests/bench/launches.py
"""

import collections
import importlib.util
import os
import pathlib
import sys
import tempfile

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


def of_images(make, shape):
    """A net, its loss of a batch and the tensors that its meters get: the loss and how many are right."""
    net = make()
    images, labels = torch.rand(shape), torch.randint(10, shape[:1])

    def lesson(called):
        outputs = called(images)
        return torch.nn.functional.cross_entropy(outputs, labels), lambda: [(outputs.argmax(1) == labels).sum()]

    return net, lesson


def of_boxes():
    from ultralytics.cfg import get_cfg
    from ultralytics.nn.tasks import DetectionModel

    net = DetectionModel("yolov8n.yaml", ch=3, nc=80, verbose=False)
    net.args = get_cfg()
    batch = {"img": torch.rand(2, 3, 64, 64), "batch_idx": torch.tensor([0.0, 0.0, 1.0]), "cls": torch.tensor([[1.0], [5.0], [7.0]])}
    batch["bboxes"] = torch.tensor([[0.5, 0.5, 0.4, 0.4], [0.3, 0.3, 0.2, 0.2], [0.6, 0.5, 0.5, 0.3]])

    def lesson(called):
        losses, parts = called(batch)
        return losses.sum(), lambda: list(parts.values())

    return net, lesson


NETS = {
    "convnet": lambda: of_images(ConvNet, (16, 1, 28, 28)),
    "resnet18": lambda: of_images(lambda: build("resnet18", 3, 32, 10), (4, 3, 32, 32)),
    "yolov8n": of_boxes,
}


def count(make, is_parallel):
    net, lesson = make()
    called = DistributedDataParallel(net) if is_parallel else net
    optimizer = torch.optim.SGD(net.parameters(), lr=0.005, momentum=0.9, weight_decay=1e-4, fused=True)
    totals = collections.defaultdict(lambda: torch.zeros(()))

    def step():
        loss, measured = lesson(called)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        for number, value in enumerate([loss.detach(), *measured()]):
            totals[number] = totals[number].add_(value) if value.dim() == 0 else totals[number] + value

    for _ in range(WARM_UP):
        step()
    with Count() as counted:
        step()
    return counted.operators


def print_counts(rank, world_size, store):
    """Of rank 0: every rank launches as much."""
    dist.init_process_group("gloo", store=dist.FileStore(store, world_size), rank=rank, world_size=world_size)
    if rank > 0:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
    for name, make in NETS.items():
        if name == "yolov8n" and importlib.util.find_spec("ultralytics") is None:
            print("yolov8n: not counted, the package ultralytics is missing")
            continue
        for is_parallel in (False, True) if world_size == 1 else (True,):
            operators = count(make, is_parallel)
            most = ", ".join(f"{one} {times}" for one, times in operators.most_common(8))
            what = f"DDP, {world_size} ranks" if is_parallel else "plain"
            print(f"{name}, {what}: {sum(operators.values())} launches in a step ({most}, ...)", flush=True)
    dist.barrier()  # or a slower one loses its peer
    os._exit(0)  # not by destroy_process_group(): see reference_ddp.py


def main():
    for world_size in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(print_counts, (world_size, f"{folder}/store"), nprocs=world_size)


if __name__ == "__main__":
    main()
