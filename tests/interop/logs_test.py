"""torchrun's log files, filters, prefixes and its grammar of -r and -t, against ours.

Run by hand: DDP_BIN=build/release python3 tests/interop/logs_test.py
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from tools import run_tests
from torch.distributed.elastic.multiprocessing.api import Std

SCRIPT = """
import os, sys
print("hello", os.environ["RANK"], flush=True)
print("apple, pear", flush=True)
print("apple on stderr", file=sys.stderr, flush=True)
"""


class SameLogs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        (self.path / "script.py").write_text(SCRIPT, encoding="utf-8")
        bins = pathlib.Path(os.environ["DDP_BIN"]).resolve()
        self.launchers = {
            "torchrun": [sys.executable, "-m", "torch.distributed.run", "--standalone"],
            "ddp-launch": [bins / "ddp-launch", "--standalone"],
        }

    def run_both(self, *flags, variables=None):
        """For each launcher: its lines on stdout, sorted, and its log files with their lines, sorted."""
        results = []
        for name, launcher in self.launchers.items():
            logs = self.path / name
            command = [*launcher, "--nproc-per-node=2", f"--log-dir={logs}", *flags, "script.py"]
            run = subprocess.run(
                list(map(str, command)), capture_output=True, text=True, cwd=self.path, timeout=120, check=False,
                env={**os.environ, "PYTHON_EXEC": sys.executable, "OMP_NUM_THREADS": "1", **(variables or {})},
            )  # fmt: skip
            self.assertEqual(run.returncode, 0, f"{command}\n{run.stdout}\n{run.stderr}")
            (own,) = logs.iterdir()
            files = {str(file.relative_to(own)): sorted(file.read_text().splitlines()) for file in own.rglob("*.log")}
            results.append((sorted(run.stdout.splitlines()), files))
        return results

    def test_teed_streams_and_filtered_files(self):
        flags = ("-t3", "--duplicate-stdout-filters=hello,apple,, pear", "--duplicate-stderr-filters=none,apple")
        theirs, ours = self.run_both(*flags)
        self.assertEqual(len(theirs[1]), 6)
        self.assertEqual(len(theirs[1]["attempt_0/filtered_stdout.log"]), 4)
        self.assertEqual(ours, theirs)

    def test_redirects_by_rank(self):
        theirs, ours = self.run_both("-r", "0:3,1:2")
        # What is not redirected carries no prefix under torchrun.
        self.assertEqual(theirs[0], ["apple, pear", "hello 1"])
        self.assertEqual(ours[0], ["[0:1] apple, pear", "[0:1] hello 1"])
        self.assertEqual(ours[1], theirs[1])

    def test_a_template_and_ranks_that_are_not_shown(self):
        template = {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "<${role_name} ${rank} ${local_rank} ${unknown} $$> "}
        theirs, ours = self.run_both("-t1", "--role=trainer", "--local-ranks-filter=1", variables=template)
        self.assertEqual(theirs[0], ["<trainer 1 1 ${unknown} $> apple, pear", "<trainer 1 1 ${unknown} $> hello 1"])
        # A hidden rank of torchrun's has no file either; ours keeps it.
        self.assertEqual(ours[0], theirs[0])
        self.assertEqual(ours[1]["attempt_0/1/stdout.log"], theirs[1]["attempt_0/1/stdout.log"])
        self.assertEqual(ours[1]["attempt_0/0/stdout.log"], ["apple, pear", "hello 0"])

    def test_the_grammar_of_redirects(self):
        # Not the empty text: with us every flag and variable that is empty counts as not given.
        for text in ("0", "3", "0:1", "0:1,1:0", "9:3,0:2", "4", "0:4", "00", ",", "0:1,", "0:", ":1", "0;1", "a", "-1", "0:1 "):
            try:
                Std.from_str(text)
                theirs = 0
            except ValueError:
                theirs = 2
            command = [*self.launchers["ddp-launch"], "--dry-run", "--nproc-per-node=10", "--tee", text, "--no-python", "/bin/true"]
            ours = subprocess.run(list(map(str, command)), capture_output=True, timeout=60, check=False).returncode
            self.assertEqual(ours, theirs, repr(text))


if __name__ == "__main__":
    run_tests()
