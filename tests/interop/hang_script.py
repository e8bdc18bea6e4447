"""A Python DDP script in which rank 1 goes wrong at step 5, in the way that its first argument names.

hang_script.py WAY [--page]: forward, data, between: it waits for ever there; missing: it leaves out a collective; loop: rank 0 waits in a
loop for a collective that rank 1 does not join; compute: rank 1 computes for a while, and prints nothing; absent: it leaves before it
has joined; none. With --page each step is told to the launcher.
"""

import os
import sys
import time

WAY = sys.argv[1]
if WAY == "absent" and os.environ["RANK"] == "1":
    sys.exit(0)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

if "--page" in sys.argv:
    from ddp_progress import progress

STEPS = 12
BAD_STEP = 5
FOR_EVER = 1000
COMPUTE_FOR = float(os.environ.get("COMPUTE_FOR", "12"))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(64, 64)

    def forward(self, x):
        if goes_wrong("forward"):
            wait_in_forward()
        return self.fc(x)


def goes_wrong(way):
    bad = WAY == way and step == BAD_STEP and dist.get_rank() == 1
    if bad:
        print("rank 1 goes wrong", flush=True)
    return bad


def wait_in_forward():
    time.sleep(FOR_EVER)


def load_batch():
    if goes_wrong("data"):
        os.read(os.pipe()[0], 1)
    return torch.randn(32, 64)


def compute():
    number, end = 0.0, time.monotonic() + COMPUTE_FOR
    while time.monotonic() < end:
        number += 1.0


dist.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(STEPS):
    loss = model(load_batch()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if "--page" in sys.argv:
        progress.step(step, loss)
    if goes_wrong("between"):
        time.sleep(FOR_EVER)
    if goes_wrong("compute"):
        compute()
    if WAY == "missing" and step == BAD_STEP and not goes_wrong("missing"):
        dist.barrier()
    if WAY == "loop" and step == BAD_STEP:
        if goes_wrong("loop"):
            time.sleep(FOR_EVER)
        work = dist.all_reduce(torch.ones(1), async_op=True)
        while not work.is_completed():
            pass
print("done", flush=True)
sys.stdout.flush()
if "--page" in sys.argv:
    progress.finish()
os._exit(0)  # Python's torch now and then aborts after destroy_process_group
