"""MNIST as people write it for torchrun: DataLoader, transforms, DDP over Gloo. `torchrun --nproc-per-node 2 plain_mnist.py ROOT EPOCHS`.

Net, batch, rates and schedule are those of configs/mnist.yaml; buckets are DDP's own. Prints each epoch's seconds and its accuracy on all test images.
"""

import sys
import time

import torch
import torch.distributed as dist
from reference_ddp import ConvNet
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Subset
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets, transforms


def main(root, epochs):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
    train_set, test_set = (datasets.MNIST(root, train=train, transform=transform) for train in (True, False))
    sampler = DistributedSampler(train_set)
    loader = DataLoader(train_set, batch_size=64, sampler=sampler)
    test_loader = DataLoader(Subset(test_set, range(rank, len(test_set), dist.get_world_size())), batch_size=1000)
    net = DistributedDataParallel(ConvNet())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    warm_up = len(loader) // 2
    rise = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / warm_up, total_iters=warm_up)
    fall = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(loader) - warm_up)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [rise, fall], [warm_up])
    for epoch in range(epochs):
        begin = time.perf_counter()
        sampler.set_epoch(epoch)
        net.train()
        for images, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(images), labels).backward()
            optimizer.step()
            schedule.step()
        taken = time.perf_counter() - begin
        net.eval()
        with torch.no_grad():
            right = sum((net.module(images).argmax(1) == labels).sum() for images, labels in test_loader)
        dist.all_reduce(right)
        if rank == 0:
            print(f"epoch {epoch}: {taken:.2f} s, accuracy {100 * right / len(test_set):.2f} %", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
