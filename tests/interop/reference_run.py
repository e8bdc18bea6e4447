"""Runs reference_ddp.py beside our jobs."""

import json
import pathlib
import runpy
import sys

import torch
import torch._dynamo  # which DDP imports, in every rank
from processes import free_port
from tools import Fork

SCRIPT = pathlib.Path(__file__).with_name("reference_ddp.py")


def reference_losses(folder, *flags):
    """What Python's DDP, reference_ddp.py, writes on two ranks in `folder`: losses step by step, unless a flag asks for more. The ranks are
    forks of this process, which has imported torch; ddp_test.py has them by torchrun and ddp-launch."""
    assert torch.get_num_threads() == 1, "set OMP_NUM_THREADS=1: forks lack the other threads"
    out = folder / "python.json"
    out.unlink(missing_ok=True)

    def play():
        sys.argv = [str(SCRIPT), *map(str, flags), "--out", str(out)]
        runpy.run_path(str(SCRIPT), run_name="__main__")

    world = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ranks = [Fork(play, folder, RANK=str(rank), LOCAL_RANK=str(rank), **world) for rank in range(2)]
    for rank in ranks:
        rank.finish()
    return json.loads(out.read_text(encoding="utf-8"))
