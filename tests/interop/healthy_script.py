"""A Python DDP job over Gloo that is healthy and often looks as if it were not. healthy_script.py SECONDS SEED LIMIT

After every few steps one rank, the other or both do something that makes no step and prints nothing: compute, in torch or in Python alone;
wait for a child that compiles; write a checkpoint to a disk that is slow; sleep; be stopped for a while. The others wait in a collective.
"""

import os
import random
import signal
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

LIMIT = float(sys.argv[3])  # seconds without a sign of life that are a hang
SHORT = 0.4 * LIMIT  # of what nobody can tell from one
LONG = (0.8 * LIMIT, 2.5 * LIMIT)  # of what shows that it lives
BUSY_CHILD = "import sys, time\nend = time.monotonic() + float(sys.argv[1])\nwhile time.monotonic() < end: pass"
SLOW_READER = "import os, sys, time\nend = time.monotonic() + float(sys.argv[1])\nwhile time.monotonic() < end: os.read(0, 65536); time.sleep(0.2)"
STOPPER = "import os, signal, sys, time\npid = int(sys.argv[1])\nos.kill(pid, signal.SIGSTOP); time.sleep(float(sys.argv[2])); os.kill(pid, signal.SIGCONT)"


def python(program, *arguments, **options):
    return subprocess.Popen([sys.executable, "-c", program, *map(str, arguments)], **options)


def evaluate(seconds):
    end, x = time.monotonic() + seconds, torch.randn(64, 64)
    while time.monotonic() < end:
        x = torch.tanh(x @ x)


def compute(seconds):
    end, number = time.monotonic() + seconds, 0.0
    while time.monotonic() < end:
        number += 1.0


def compile_something(seconds):
    python(BUSY_CHILD, seconds).wait()


def save(seconds):
    """As many bytes as a slow reader takes: a checkpoint to a disk that is slow."""
    reader = python(SLOW_READER, seconds, stdin=subprocess.PIPE, bufsize=0)
    end = time.monotonic() + seconds - 1
    while time.monotonic() < end:
        reader.stdin.write(b"x" * 32768)
    reader.stdin.close()
    reader.wait()


def sleep(_):
    time.sleep(SHORT)


def be_stopped(_):
    stopper = python(STOPPER, os.getpid(), SHORT)
    stopper.wait()


signal.signal(signal.SIGPIPE, signal.SIG_IGN)
length, seed = float(sys.argv[1]), int(sys.argv[2])
chance = random.Random(seed)  # the same on both ranks
dist.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
acts = [evaluate, compute, compile_something, save, sleep, be_stopped]
begin, count = time.monotonic(), 0
goes_on = torch.ones(1)
while True:
    goes_on[0] = float(time.monotonic() - begin < length)
    dist.broadcast(goes_on, 0)
    if goes_on.item() == 0:
        break
    for _ in range(20):
        loss = model(torch.randn(64, 256)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    act, seconds, who = chance.choice(acts), chance.uniform(*LONG), chance.choice([0, 1, None])
    if who in (None, dist.get_rank()):
        act(seconds)
    count += 1
if dist.get_rank() == 0:
    print(f"healthy to the end: {count} times something else than a step", flush=True)
sys.stdout.flush()
os._exit(0)  # Python's torch now and then aborts after destroy_process_group
