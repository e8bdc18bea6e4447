"""A rank of launcher.py: with a progress page under ddp-launch; rank 1 has 1 GiB in the kernel's small pages. Says when SIGTERM comes."""

import mmap
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "deploy/progress"))
import ddp_progress  # noqa: E402, F401  (opens the page)

GIB = 1 << 30


def told(*_):
    print(f"told {time.monotonic()}", flush=True)
    os._exit(143)


signal.signal(signal.SIGTERM, told)
if os.environ["RANK"] == "1":
    memory = mmap.mmap(-1, GIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    memory[:: mmap.PAGESIZE] = b"x" * (GIB // mmap.PAGESIZE)
print(f"pid {os.environ['RANK']} 0 {os.getpid()}", flush=True)
while True:
    signal.pause()
