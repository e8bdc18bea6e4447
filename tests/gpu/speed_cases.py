"""How fast the device under test trains: the figures of tests/bench/gpu.py, in bench.json as each row comes."""

import json
import os
import pathlib
import sys

from gpu_case import GpuCase, at_most

LEAST = 45  # seconds: the start of CUDA in each program is part of it
BENCH = pathlib.Path(__file__).resolve().parent.parent / "bench/gpu.py"


class Speed(GpuCase):
    @at_most(100)
    def test_ddp_worker_beside_python(self):
        self.need_gpu(rehearsed=True)
        if self.seconds < LEAST:
            self.skipTest("no time left")
        words = ["--budget", self.seconds - 10, *self.unless_rehearsed((), ("--batches", "8", "--steps", "40"))]
        variables = {"DDP_BIN": str(self.bin), "OMP_NUM_THREADS": str(len(os.sched_getaffinity(0))), "TMPDIR": str(self.folder)}
        print(self.run_program(sys.executable, "-B", BENCH, "--device", self.device, "--json", self.out / "bench.json", *words, **variables))
        rows = json.loads((self.out / "bench.json").read_text(encoding="utf-8"))["rows"]
        for trainer in ("plain", "ours"):
            self.assertTrue(any(row["trainer"] == trainer and "not_run" not in row for row in rows), f"no figures of {trainer}")
