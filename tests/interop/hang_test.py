"""Real Python DDP scripts over Gloo that hang, with and without a progress page: how soon that is seen, and who is blamed.

Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/interop/hang_test.py
COMPUTE_FOR=60 makes the script that computes in silence compute for so long.
"""

import os
import pathlib
import sys
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from processes import ProcessTest, cases

HERE = pathlib.Path(__file__).parent
SCRIPT = HERE / "hang_script.py"
PAGES = HERE.parent.parent / "deploy" / "progress"
LIMIT = 3
AT_ONCE = 2  # they mostly wait
# The function of the script in which rank 1 stands.
PLACES = {"forward": "wait_in_forward", "data": "load_batch", "between": "<module>", "missing": "<module>", "loop": "<module>"}
# Where rank 1 stands, by the report: its own line, whatever it has called.
LINES = {
    "forward": r"\n  stands in : hang_script.py:\d+ in wait_in_forward\n",
    "data": r"\n  stands in : hang_script.py:\d+ in load_batch\n",
    "between": r"\n  stands in : hang_script.py:\d+ in <module>\n",
    "missing": r"(?s)\n  stands in : hang_script.py:\d+ in <module>\n.*\n  rank 0:\n    main thread\n      torch/distributed/.* in barrier\n",
    "loop": r"\n  stands in : hang_script.py:\d+ in <module>\n",
}


class Hangs(ProcessTest):
    def launch(self, *arguments, **variables):
        flags = ["--hang-timeout", f"{LIMIT}s", "--grace", "2s", "--nproc-per-node", "2"]
        return self.start(
            self.bin / "ddp-launch", *flags, SCRIPT, *arguments, PYTHON_EXEC=sys.executable, PYTHONPATH=str(PAGES), **variables
        )

    def end_of(self, way, *page, **variables):
        """Exit code, what was printed, and the seconds from the fault to the verdict."""
        running = self.launch(way, *page, **variables)
        running.wait_for("rank 1 goes wrong")
        begin = time.monotonic()
        running.wait_for("; stopping")
        took = time.monotonic() - begin
        return running.finish(), running.text, took

    def test_a_rank_that_hangs_is_seen_in_time_and_named(self):
        every = [(way, *page) for way in ("forward", "data", "between", "missing") for page in ((), ("--page",))] + [("loop",)]
        chosen = cases(every, [("forward",), ("data", "--page"), ("between",), ("missing", "--page"), ("loop",)])
        template = self.share_template("torch", "torch._dynamo")
        # Some ranks import torch themselves.
        variables = [{} if case[0] == "missing" else template for case in chosen]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            ends = list(pool.map(lambda case, variables: self.end_of(*case, **variables), chosen, variables))
        for case, (code, text, took) in zip(chosen, ends, strict=True):
            print(f"{' '.join(case):18} {took:5.1f} s from the fault to the verdict, limit {LIMIT} s")
            with self.subTest(case=case):
                self.assertEqual(code, 124, text)
                self.assertIn("  rank      : 1 (local_rank: 1)", text)
                self.assertEqual(text.count("Root Cause (first observed failure):"), 1, text)
                self.assertRegex(text, rf"stands in : hang_script.py:\d+ in {PLACES[case[0]]}")
                self.assertIn("made no step for" if "--page" in case else "neither ran nor printed for", text)
                self.assertRegex(text, LINES[case[0]])
                self.assertGreater(took, LIMIT - 1.5, text)
                self.assertLess(took, LIMIT + 2, text)

    def test_a_rank_that_computes_in_silence_is_no_hang(self):
        template = self.share_template("torch", "torch._dynamo")
        running = self.launch("compute", **template, COMPUTE_FOR=os.environ.get("COMPUTE_FOR", str(2.5 * LIMIT)))
        self.assertEqual(running.finish(), 0, running.text)

    def test_a_rank_that_left_before_it_had_joined_is_named(self):
        running = self.launch("absent")
        self.assertEqual(running.finish(), 124, running.text)
        self.assertIn("  rank      : 1 (local_rank: 1)", running.text)
        self.assertIn("left with exit code 0 before it had joined the others", running.text)


if __name__ == "__main__":
    unittest.main()
