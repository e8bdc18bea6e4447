"""A healthy job must not be taken for one that hangs, whatever it does between its steps.

DDP_SOAK_SECONDS sets how long (a little, otherwise; ./make.sh soak healthy: an hour), DDP_SOAK_SEED repeats one.
"""

import os
import pathlib
import random
import sys
import time
import unittest

from processes import ProcessTest

SCRIPT = pathlib.Path(__file__).parent / "healthy_script.py"
SECONDS = float(os.environ.get("DDP_SOAK_SECONDS", "0"))
SEED = int(os.environ.get("DDP_SOAK_SEED", random.randrange(10**6)))
LIMIT = 10 if SECONDS else 5  # of a hang, to which all that the script does is in proportion


class Healthy(ProcessTest):
    def test_no_hang_is_seen_where_there_is_none(self):
        flags = ["--hang-timeout", f"{LIMIT}s", "--grace", "2s", "--nproc-per-node", "2"]
        seconds = SECONDS or 2 * LIMIT
        template = self.share_template("torch", "torch._dynamo")
        running = self.start(self.bin / "ddp-launch", *flags, SCRIPT, seconds, SEED, LIMIT, PYTHON_EXEC=sys.executable, **template)
        running.deadline = time.monotonic() + 2 * seconds + 120
        code = running.finish()
        print(f"DDP_SOAK_SEED={SEED}\n{running.text}", end="")
        self.assertEqual(code, 0)
        self.assertIn("healthy to the end: ", running.text)


if __name__ == "__main__":
    unittest.main()
