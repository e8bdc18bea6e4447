"""Runs reference_ddp.py beside our jobs."""

import json
import pathlib
import sys

from processes import preload_variables
from tools import run_program


class ReferenceDdp:
    """Python's DDP, reference_ddp.py, on two ranks of ddp-launch. All runs share one import of `modules`. close() ends the process that made it."""

    def __init__(self, programs, folder, *modules):
        self.launcher, self.folder = programs / "ddp-launch", folder
        self.template = preload_variables(folder, *modules)

    def close(self):
        run_program(self.launcher, "warm", "--stop", folder=self.folder, **self.template)

    def run(self, *flags):
        """What it writes: losses step by step, unless a flag asks for more."""
        out = self.folder / "python.json"
        out.unlink(missing_ok=True)
        script = [pathlib.Path(__file__).with_name("reference_ddp.py"), *flags, "--out", out]
        said = run_program(self.launcher, "--nproc-per-node", 2, *script, folder=self.folder, PYTHON_EXEC=sys.executable, **self.template)
        if "without it" in said:
            raise AssertionError(f"not by the shared import: {said}")
        return json.loads(out.read_text(encoding="utf-8"))
