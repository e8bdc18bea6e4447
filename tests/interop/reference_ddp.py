"""A DDP script as people write it for torchrun: nothing in it knows of ddp-launch.

torchrun --nproc-per-node 2 reference_ddp.py --images FILE --count N --mean X --deviation X --batch N --out FILE
Trains the convnet, or the model of --script or --export, on `--count` images (a file of that many labels, then as many 28 x 28 images, all bytes) and writes the mean
loss of every step.
"""

import argparse
import json
import math
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 24, 5)
        self.conv2 = nn.Conv2d(24, 32, 3)
        self.fc1 = nn.Linear(800, 256)
        self.fc2 = nn.Linear(256, 10)

    def forward(self, x):
        x = torch.relu(torch.max_pool2d(self.conv1(x), 2))
        x = torch.relu(torch.max_pool2d(self.conv2(x), 2))
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


def loss_of(outputs, labels, factors):
    """`outputs`: scores, or several, of which `factors` says by name ("main", "1.aux") how much each counts."""
    if not factors:
        return nn.functional.cross_entropy(outputs.float(), labels)
    total = 0
    for name, factor in factors.items():
        output = outputs
        for part in name.split("."):
            output = output[int(part) if part.isdigit() else part]
        total = total + factor * nn.functional.cross_entropy(output.float(), labels)
    return total


def net_of(args):
    if args.script:
        return torch.jit.load(args.script)
    return torch.export.load(args.export).module() if args.export else ConvNet()


def to_low_precision(net, norms):
    """Weights and buffers in bfloat16, those of norms only with `norms`."""
    for name, module in net.named_modules():
        if "norm" in name and not norms:
            continue
        for tensor in [*module.parameters(recurse=False), *module.buffers(recurse=False)]:
            if tensor.is_floating_point():
                tensor.data = tensor.data.bfloat16()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--mean", type=float, required=True)
    parser.add_argument("--deviation", type=float, required=True)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--optimizer", choices=["sgd", "adam", "adamw"], default="sgd")
    parser.add_argument("--bf16", action="store_true", help="forward under autocast")
    parser.add_argument("--o2", action="store_true", help="weights in bfloat16 with float32 masters, as apex's O2")
    parser.add_argument("--o3", action="store_true", help="weights in bfloat16, without masters, as apex's O3")
    parser.add_argument("--first-weights", help="a file for the weights before the first step")
    parser.add_argument("--script", help="a file of torch.jit.save, instead of the convnet")
    parser.add_argument("--export", help="a file of torch.export.save, instead of the convnet")
    parser.add_argument("--gradients", help="a file for the gradients of the first step")
    parser.add_argument("--factors", type=json.loads, default={}, help='of its outputs in the loss, as {"main": 1, "aux": 0.4}')
    parser.add_argument("--out", required=True)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    with open(args.images, "rb") as file:
        raw = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
    images = (raw[args.count :].reshape(args.count, 1, 28, 28).float() / 255 - args.mean) / args.deviation
    data = TensorDataset(images, raw[: args.count].long())
    sampler = DistributedSampler(data, seed=args.seed)
    loader = DataLoader(data, batch_size=args.batch, sampler=sampler)

    torch.manual_seed(args.seed)
    net = net_of(args)
    if args.o2:
        masters = [one.detach().clone() for one in net.parameters()]
    if args.o2 or args.o3:
        to_low_precision(net, norms=args.o3)
    model = DistributedDataParallel(net)
    updated = masters if args.o2 else model.parameters()
    if args.first_weights and dist.get_rank() == 0:
        torch.save(model.module.state_dict(), args.first_weights)
    if args.optimizer == "sgd":
        optimizer = torch.optim.SGD(updated, lr=args.lr, momentum=0.9, weight_decay=1e-4)
    else:
        kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[args.optimizer]
        optimizer = kind(updated, lr=args.lr, weight_decay=1e-4)
    steps, losses = args.epochs * len(loader), []
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.param_groups[0]["lr"] = args.lr * (1 + math.cos(math.pi * len(losses) / steps)) / 2
            with torch.autocast("cpu", torch.bfloat16, enabled=args.bf16):
                loss = loss_of(model(x.bfloat16() if args.o2 or args.o3 else x), y, args.factors)
            model.zero_grad()
            loss.backward()
            if args.gradients and not losses and dist.get_rank() == 0:
                torch.save({name: one.grad for name, one in model.module.named_parameters()}, args.gradients)
            if args.o2:
                for master, one in zip(masters, net.parameters(), strict=True):
                    master.grad = one.grad.float()
            optimizer.step()
            if args.o2:
                for master, one in zip(masters, net.parameters(), strict=True):
                    one.data.copy_(master)
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            losses.append(mean.item() / dist.get_world_size())
    if dist.get_rank() == 0:
        with open(args.out, "w", encoding="utf-8") as file:
            json.dump(losses, file)
        print("trained", len(losses), "steps")
    dist.barrier()
    # Not destroy_process_group(): torch 2.11 then aborts now and then while the interpreter ends ("terminate called without an
    # active exception", seen under torchrun in 2 of about 30 runs), and this script is about what comes before.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
