"""Real Python DDP scripts over Gloo with a slow rank: progress.watch() tells the launcher in which part of a step it loses the time.

Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/interop/watch_test.py
"""

import json
import pathlib
import re
import signal
import sys
import unittest

from processes import ProcessTest, cases

HERE = pathlib.Path(__file__).parent
PAGES = HERE.parent.parent / "deploy" / "progress"
WORDS = {"data": "its wait for data", "forward": "its forward", "backward": "its backward", "no_sync": "its backward"}
AT_ONCE = 2  # beside the job without a slow rank; they mostly wait


class Watched(ProcessTest):
    def setUp(self):
        super().setUp()
        self.template = self.share_template("torch", "torch._dynamo")

    def start_job(self, part):
        return self.start(self.bin / "ddp-launch", "--nproc-per-node", "2", HERE / "watch_script.py", part,
                          PYTHON_EXEC=sys.executable, PYTHONPATH=str(PAGES), **self.template)  # fmt: skip

    def test_the_slow_part_is_named(self):
        healthy = self.start_job("nothing")
        healthy.wait_until(lambda: "torch" in self.run_program(self.bin / "ddp-launch", "warm", **self.template), "the template")
        chosen = list(cases(WORDS, ["backward", "no_sync"]))
        for begin in range(0, len(chosen), AT_ONCE):
            jobs = {part: self.start_job(part) for part in chosen[begin : begin + AT_ONCE]}
            for part, job in jobs.items():
                with self.subTest(part=part):
                    job.wait_for(" is the slowest: ")
                    job.wait_for(".\n")
                    line = re.search(r"rank 1 is the slowest: others wait for it (\d+)% of the time, for (.*) \((\d+) ms a step, of other ranks ([\d.]+) ms\)", job.text)
                    self.assertIsNotNone(line, job.text)
                    self.assertEqual(line[2], WORDS[part])
                    self.assertGreater(int(line[1]), 30)
                    self.assertGreaterEqual(int(line[3]) - float(line[4]), 40, "of the 60 ms that it sleeps")
            for job in jobs.values():
                self.end(job)
        jobs = json.loads(self.run_program(self.bin / "ddp-launch", "status", "--json", **self.template))
        for worker in next(job for job in jobs if job["pid"] == healthy.process.pid)["workers"]:
            for part in ("waiting", "data", "forward", "backward", "training"):
                self.assertGreater(worker["spent_seconds"][part], 0, part)
            self.assertIn(worker["phase"], ("data", "forward", "backward", "training", "evaluating"))
        self.end(healthy)
        self.assertNotIn(" is the slowest: ", healthy.text)

    def end(self, job):
        job.process.send_signal(signal.SIGTERM)
        job.finish()


if __name__ == "__main__":
    unittest.main()
