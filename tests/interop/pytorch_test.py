"""PyTorch's own tests of collectives and DDP with the backend ddp_shm: those that pass over Gloo pass.

`./make.sh test-others` runs it. By hand: DDP_PYTHON_OTHERS=PYTHON DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/interop/pytorch_test.py
PYTHON imports torch, numpy and expecttest.
"""

import json
import os
import pathlib
import re
import sys
import time
import unittest

from processes import ProcessTest
from tools import shm_variables

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = os.environ.get("DDP_PYTHON_OTHERS") or sys.executable
LEAST = 80  # of 285: the others need GPUs, or another number of ranks
DIFFERENT = ["test_ddp_logging_data_cpu"]  # asks for the name of the backend, which c10d calls "custom"


class PyTorch(ProcessTest):
    def results(self, backend, ranks):
        variables = shm_variables(self.bin) | {"WORLD_SIZE": str(ranks)}
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, [variables["PYTHONPATH"], os.environ.get("PYTHONPATH")]))
        running = self.start(PYTHON, "-W", "ignore", "-B", HERE / "pytorch_collectives.py", backend, **variables)
        running.deadline = time.monotonic() + 800
        running.finish()
        found = re.search(r"^results (.*)$", running.text, re.MULTILINE)
        self.assertTrue(found, running.text)
        return json.loads(found[1]), running.text

    def test_what_passes_over_gloo_passes(self):
        for ranks in (3, 4):
            with self.subTest(ranks=ranks):
                gloo, text = self.results("gloo", ranks)
                self.assertEqual(gloo["failed"], [], text)
                ours, text = self.results("ddp_shm", ranks)
                print(f"{ranks} ranks: {ours['run'] - len(ours['skipped'])} tests run, failed {ours['failed']}")
                self.assertEqual(ours["failed"], DIFFERENT, text)
                self.assertEqual(ours["skipped"], gloo["skipped"])
                self.assertGreater(text.count(f"{ranks} ranks: sums go through the shared memory of nodes"), LEAST)
                self.assertNotRegex(text, r"(?m)^[2-9] ranks: sums go by Gloo", "not in memory")
                self.assertGreater(ours["run"] - len(ours["skipped"]), LEAST)


if __name__ == "__main__":
    unittest.main()
