"""torch 1.x beside torch 2: its client speaks an older protocol, so rank 0 serves the store, and without the flag one line says so.

DDP_PYTHON_TORCH1 names a Python with torch 1.13 and numpy. Run by hand:
DDP_PYTHON_TORCH1=... DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/interop/store_torch1_test.py
"""

import os
import pathlib
import sys
import unittest

from processes import ProcessTest

SCRIPT = pathlib.Path(__file__).parent / "store_script.py"
PYTHON = os.environ.get("DDP_PYTHON_TORCH1", "")


class Torch1(ProcessTest):
    def command(self, *flags):
        return [self.bin / "ddp-launch", "--nproc-per-node", "2", *flags, SCRIPT]

    def test_a_group_whose_store_is_with_rank_0(self):
        text = self.run_program(*self.command("--store", "worker"), PYTHON_EXEC=PYTHON)
        for rank in range(2):
            self.assertIn(f"rank {rank} sum 3.0 agent store False", text)

    def test_without_the_flag_it_is_named(self):
        text = self.run_program(*self.command(), PYTHON_EXEC=PYTHON, expect=1)
        self.assertEqual(text.count("--store worker"), 1, text)


if __name__ == "__main__":
    if not PYTHON:
        print("DDP_PYTHON_TORCH1 names no Python with torch 1.13")
        sys.exit(77)
    unittest.main()
