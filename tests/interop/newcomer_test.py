"""What a newcomer does, by the commands of README.md and docs/checkpoints.md as they stand there, and how long each takes.

MNIST is trained, interrupted, continued; its best checkpoint is evaluated by `eval` and in Python, which must agree; two agents meet.
Where MNIST's files lie beside the checkout they are put where `fetch` puts them, so that no network is needed.
With DDP_CLONE=1 all of it happens in a fresh clone that builds itself first: ./make.sh bench newcomer
Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support PYTHON tests/interop/newcomer_test.py    PYTHON has torch
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

from pages import blocks
from processes import ProcessTest, free_port

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MNIST = ROOT.parent / "shared" / "data" / "mnist"
CLONE = "DDP_CLONE" in os.environ


def commands(page, *starts):
    """The commands of a page that begin so, without their comments: one each."""
    lines = [re.sub(r"\s{2,}#.*", "", line) for block in blocks(ROOT / page) if not block.language for line in block.lines]
    found = [[line for line in lines if line.startswith(start)] for start in starts]
    assert all(len(each) == 1 for each in found), f"{page}: {found}"
    return [line for (line,) in found]


class Newcomer(ProcessTest):
    def setUp(self):
        super().setUp()
        self.checkout = self.folder / "ddp"
        self.times = []
        # Their `python3` is the one with torch.
        self.environment["PATH"] = f"{pathlib.Path(sys.executable).parent}:{self.environment['PATH']}"
        if CLONE:
            self.timed("clone", lambda: subprocess.run(["git", "clone", "--quiet", ROOT, self.checkout], check=True))
        else:
            (self.checkout / "build").mkdir(parents=True)
            (self.checkout / "build" / "release").symlink_to(self.bin)
            (self.checkout / "configs").symlink_to(ROOT / "configs")
        if MNIST.exists():
            shutil.copytree(MNIST, self.checkout / "data" / "MNIST" / "raw")
        self.folder = self.checkout

    def timed(self, what, action):
        begin = time.monotonic()
        result = action()
        self.times.append((what, time.monotonic() - begin))
        return result

    def type(self, line, **variables):
        """Starts what a shell would start for the line."""
        return self.start("bash", "-c", f"exec {line}", **variables)

    def run_line(self, line):
        running = self.type(line)
        self.assertEqual(self.timed(line, running.finish), 0, running.command + "\n" + running.text)
        return running.text

    def build(self):
        (line,) = commands("README.md", "./make.sh run")
        self.timed(line, lambda: subprocess.run(line, shell=True, check=True, cwd=self.folder, env=self.environment))
        self.assertTrue((self.folder / "runs/digits/checkpoints/best").exists())

    def interrupt(self, line):
        """Ctrl-C after the first epoch."""

        def action():
            running.wait_for("epoch 1/2 |")
            os.kill(running.process.pid, signal.SIGINT)
            return running.finish()

        running = self.type(line)
        self.assertIn(self.timed(f"{line}, and Ctrl-C after an epoch", action), (130, 143), running.text)

    def meet(self, *lines):
        port = str(free_port())
        agents = [self.type(line, PET_MASTER_PORT=port) for line in lines]
        codes = self.timed("two agents: " + lines[0], lambda: [agent.finish() for agent in agents])
        text = "".join(agent.text for agent in agents)
        self.assertEqual(codes, [0, 0], text)
        return text

    def test_readme_works_as_it_stands(self):
        if CLONE:
            self.build()
        fetch, train, inspect, evaluate, node_0, node_1 = commands(
            "README.md",
            "build/release/ddp-worker fetch mnist",
            "build/release/ddp-launch configs/mnist.yaml",
            "build/release/ddp-worker inspect",
            "build/release/ddp-worker eval",
            "build/release/ddp-launch --nnodes 2 --node-rank 0",
            "build/release/ddp-launch --nnodes 2 --node-rank 1",
        )
        self.run_line(fetch)
        self.interrupt(train)
        text = self.run_line(train)
        self.assertRegex(text, r"resumes at step \d+")
        self.assertIn("epoch 2/2 |", text)
        self.run_line(inspect)
        by_eval = re.search(r"accuracy\s+(\d+\.\d+) %", self.run_line(evaluate))
        self.assertGreater(float(by_eval[1]), 98.5)

        (python,) = commands("docs/checkpoints.md", "python3 accuracy.py")
        (script,) = [block for block in blocks(ROOT / "docs/checkpoints.md") if block.file == "accuracy.py"]
        (self.folder / script.file).write_text(script.text, encoding="utf-8")
        in_python = re.search(r"accuracy (\d+\.\d+)%", self.run_line(python))
        self.assertAlmostEqual(float(in_python[1]), float(by_eval[1]), delta=0.011, msg="of 10,000 images one may lie on the edge")

        self.assertIn("rank 1 of 2", self.meet(node_0, node_1))
        for what, seconds in self.times:
            print(f"{seconds:7.1f} s  {what}")
        print(f"{sum(seconds for _, seconds in self.times):7.1f} s  all")


if __name__ == "__main__":
    if not MNIST.exists() and not CLONE:
        print(f"skipped: MNIST's files are not in {MNIST}")
        sys.exit(77)
    unittest.main(verbosity=2)
