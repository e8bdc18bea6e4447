"""A Python DDP script over Gloo whose rank 1 is slow in one part of each step. watch_script.py PART: data, forward, backward, no_sync, nothing

no_sync: slow in the backward of micro-steps that do not average. Each step is told to the launcher, and the model is watched.
"""

import contextlib
import os
import sys
import time

import torch
import torch.distributed as dist
from ddp_progress import progress
from torch import nn

PART = sys.argv[1]
SLOW = 0.06  # seconds
is_slow = os.environ["RANK"] == "1"


def delay(part):
    if is_slow and part == PART:
        time.sleep(SLOW)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(64, 64), nn.BatchNorm1d(64), nn.Linear(64, 10)

    def forward(self, x):
        delay("forward")
        x = self.norm(self.first(x))
        if self.training:
            x.register_hook(lambda _: delay("backward" if does_average else "no_sync"))
        return {"logits": self.last(x)}


dist.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(Net())
progress.watch(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
step = 0
while True:
    for does_average in (False, True):
        time.sleep(0.005)
        if not does_average:
            delay("data")
        with contextlib.nullcontext() if does_average else model.no_sync():
            model(torch.randn(32, 64))["logits"].square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    step += 1
    progress.step(step)
    if step % 200 == 0:
        model.eval()
        with progress.phase("evaluating"):
            inputs = torch.randn(32, 64, requires_grad=True)
            model.module(inputs)["logits"].sum().backward()  # as an adversarial evaluation
            assert progress._words[1] == 5, "a backward in it is part of the evaluation"
        optimizer.zero_grad()
        model.train()
