"""Python's DDP as people write it, in each precision: reference.py --images FILE --count N --batch N --lr LR --device D --out FILE WAY...

A WAY is O0:fp32, or O1, O2, O3 with :bf16 or :fp16. O1 is autocast; at O2 the weights are low and the optimizer steps float32 copies;
at O3 all is low. fp16 has GradScaler at O1 and O2. Writes the losses of every step of every way, means over the ranks.
"""

import argparse
import json
import math
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "interop"))
from reference_ddp import ConvNet  # noqa: E402

MEAN, DEVIATION = 0.163, 0.23  # of the digits
LOW = {"bf16": torch.bfloat16, "fp16": torch.float16}


def steps_of(count, batch, seed):
    """Indices of this rank's samples, step by step."""
    sampler = DistributedSampler(range(count), seed=seed)
    sampler.set_epoch(0)
    mine = list(sampler)
    return [mine[i : i + batch] for i in range(0, len(mine), batch)]


class Run:
    def __init__(self, level, dtype, args):
        self.device = torch.device(args.device)
        self.level, self.low = level, LOW.get(dtype)
        torch.manual_seed(1)
        net = ConvNet().to(self.device)
        if level in ("O2", "O3"):
            net.to(self.low)
        self.model = DistributedDataParallel(net)
        self.weights = list(net.parameters())
        self.masters = [w.detach().float().clone().requires_grad_() for w in self.weights] if level == "O2" else self.weights
        self.optimizer = torch.optim.SGD(self.masters, lr=args.lr, momentum=0.9, weight_decay=1e-4)
        self.scaler = torch.amp.GradScaler(args.device, enabled=dtype == "fp16" and level in ("O1", "O2"))

    def step(self, x, y, lr):
        self.optimizer.param_groups[0]["lr"] = lr
        if self.level in ("O2", "O3"):
            x = x.to(self.low)
        with torch.autocast(self.device.type, self.low or torch.bfloat16, enabled=self.level == "O1"):
            scores = self.model(x)
            loss = nn.functional.cross_entropy(scores if self.level in ("O0", "O1") else scores.float(), y)
        for weight in self.weights:
            weight.grad = None
        self.scaler.scale(loss).backward()
        if self.level == "O2":
            for master, weight in zip(self.masters, self.weights, strict=True):
                master.grad = weight.grad.float()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if self.level == "O2":
            with torch.no_grad():
                for master, weight in zip(self.masters, self.weights, strict=True):
                    weight.copy_(master)
        return loss.detach()


def train(way, args):
    with open(args.images, "rb") as file:
        raw = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
    device = torch.device(args.device)
    images = (raw[args.count :].reshape(args.count, 1, 28, 28).float() / 255 - MEAN) / DEVIATION
    images, labels = images.to(device), raw[: args.count].long().to(device)
    run = Run(*way.split(":"), args)
    steps = steps_of(args.count, args.batch, seed=1)
    losses = []
    for number, indices in enumerate(steps):
        index = torch.tensor(indices, device=device)
        losses.append(run.step(images[index], labels[index], args.lr * (1 + math.cos(math.pi * number / len(steps))) / 2))
    mean = torch.stack(losses).double().cpu()
    dist.all_reduce(mean)
    return (mean / dist.get_world_size()).tolist()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--device", choices=["cpu", "cuda"], required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("ways", nargs="+")
    args = parser.parse_args()
    torch.backends.cudnn.allow_tf32 = False  # as ours
    dist.init_process_group("gloo")
    losses = {way: train(way, args) for way in args.ways}
    if dist.get_rank() == 0:
        with open(args.out, "w", encoding="utf-8") as file:
            json.dump(losses, file)
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)  # not by destroy_process_group(): see reference_ddp.py


if __name__ == "__main__":
    main()
