"""Programs of others under torchrun and under ddp-launch, side by side, two ranks on CPUs over Gloo: accelerate's own tests, Lightning,
Hugging Face's Trainer, tqdm, and PyTorch's @record. Each ends as under torchrun, and says the same, with --preload, too; when rank 1 is killed, ours is not later (but for one).

`./make.sh test-others` installs the libraries and runs all of it (a quarter of an hour); `./make.sh test` has PyTorch's own part. By hand:
DDP_PYTHON_OTHERS=PYTHON DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/interop/libraries_test.py [Libraries.test_NAME]
PYTHON imports torch, accelerate, lightning, transformers and tqdm. DDP_PAIRS: how often both are killed (3).
"""

import dataclasses
import os
import pathlib
import re
import shlex
import signal
import statistics
import subprocess
import sys
import threading
import time
import unittest

from processes import ProcessTest

PROGRAMS = pathlib.Path(__file__).with_name("libraries_programs.py").resolve()
PYTHON = os.environ.get("DDP_PYTHON_OTHERS") or sys.executable
PAIRS = int(os.environ.get("DDP_PAIRS", "3"))
PATIENCE = 600  # seconds for one run, far above what any needs
# In a rank's lines, what differs from run to run under the same launcher: rates and times.
VOLATILE = re.compile(r"it/s|'train_runtime'")


@dataclasses.dataclass
class Program:
    words: list  # what is started
    killed_at: str = "rank 1 is at step 5"  # rank 1 is killed when this was printed
    code: int = 0  # ours; torchrun's is 0 or 1
    steps: tuple = ()  # to the end, and for a run that is killed on the way
    report: str = ""  # stands in both launchers' reports
    preload: str = "torch"  # modules that are fit for it
    most: float = 1  # how often torchrun's time from the kill of rank 1 to the exit is allowed


def ours(name, **more):
    return Program([PROGRAMS, name], steps=(20, 1_000_000), **more)


def accelerates(name, killed_at):
    return Program(["-m", f"accelerate.test_utils.scripts.{name}"], killed_at)


ELASTIC = {"record": ours("record", code=1, report="ValueError: this is what went wrong")}
LIBRARIES = {
    "tqdm": ours("bar", preload="torch,torch._dynamo,tqdm"),
    # It takes SIGTERM itself. Ours comes at once, and its rank 0 ends by its own traceback and the interpreter's end. torchrun's comes a
    # tenth of a second later, when Lightning has given its handler back, and ends the process where it stands.
    "lightning": ours("lightning", most=4),
    "trainer": ours("trainer", preload="torch,torch._dynamo,transformers.trainer"),
    "accelerate_ops": Program([PROGRAMS, "ops"], "testing gather", steps=(0, 0), preload="torch,accelerate"),
    "accelerate_sync": accelerates("test_sync", "**Test Distributed `no_sync` context manager**"),
    "accelerate_script": accelerates("test_script", "**DataLoader integration test**"),
}
VARIABLES = {
    "ACCELERATE_USE_CPU": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "PYTHON_EXEC": PYTHON,
    "TOKENIZERS_PARALLELISM": "false",
}


class SideBySide(ProcessTest):
    def setUp(self):
        super().setUp()
        (self.folder / "runtime").mkdir(mode=0o700)
        self.environment["XDG_RUNTIME_DIR"] = str(self.folder / "runtime")

    def launch(self, launcher, program, *flags, to_the_end=True):
        command = {"torchrun": [PYTHON, "-m", "torch.distributed.run"], "ddp-launch": [self.bin / "ddp-launch"]}[launcher]
        steps = [program.steps[0 if to_the_end else 1]] if program.steps else []
        run = self.start(*command, "--standalone", "--nproc-per-node", 2, *flags, *program.words, *steps, **VARIABLES)
        run.deadline = time.monotonic() + PATIENCE
        return run

    def outcome(self, launcher, program, *flags):
        """Exit code, the lines of stdout of each rank that wrote some, and all that the console got."""
        logs = self.folder / f"logs-{launcher}-{len(list(self.folder.glob('logs-*')))}"
        run = self.launch(launcher, program, "--log-dir", logs, "--tee", "3", *flags)
        code = run.finish()
        files = {path.parent.name: path.read_text(encoding="utf-8", errors="replace") for path in logs.rglob("stdout.log")}
        lines = {rank: [line for line in text.split("\n") if line and not VOLATILE.search(line)] for rank, text in files.items()}
        return code, {rank: said for rank, said in lines.items() if said}, run.text

    def child_of_rank_1(self, launcher_pid):
        for pid in self.alive():
            variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            parent = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
            if b"RANK=1" in variables and int(parent) == launcher_pid:
                return pid
        raise AssertionError("there is no rank 1")

    def kill_to_exit(self, launcher, program):
        """Seconds from SIGKILL of rank 1, in mid-training, to the launcher's exit, and its code."""
        run = self.launch(launcher, program, to_the_end=False)
        run.wait_for(program.killed_at)
        victim = self.child_of_rank_1(run.process.pid)
        reader = threading.Thread(target=lambda: [None for _ in iter(run.read_some, False)])
        reader.start()
        begin = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        code = run.process.wait(timeout=PATIENCE)
        seconds = time.monotonic() - begin
        reader.join()
        run.process.stdout.close()
        self.assertIn("SIGKILL", run.text)
        self.assertEqual(code, 137 if launcher == "ddp-launch" else 1, run.text)
        return seconds

    def check(self, name, program):
        theirs, ours = self.outcome("torchrun", program), self.outcome("ddp-launch", program)
        self.assertEqual((theirs[0], ours[0]), (min(1, program.code), program.code), theirs[2] + ours[2])
        self.assertEqual(theirs[1], ours[1])
        self.assertTrue(ours[1])
        for job in ("makes the template", "finds it warm"):
            copies = self.outcome("ddp-launch", program, "--preload", program.preload)
            self.assertEqual(copies[:2], ours[:2], job + copies[2])
            self.assertNotIn("starting without it", copies[2])
        stopped = subprocess.run([self.bin / "ddp-launch", "warm", "--stop"], env={**self.environment, **VARIABLES}, stdout=subprocess.PIPE, text=True)
        self.assertIn("; 2 jobs in", stopped.stdout)
        for text in (theirs[2], ours[2]):
            self.assertIn(program.report, text)
        seconds = {"torchrun": [], "ddp-launch": []}
        for _ in range(PAIRS):
            for launcher, samples in seconds.items():
                samples.append(self.kill_to_exit(launcher, program))
        medians = {launcher: statistics.median(samples) for launcher, samples in seconds.items()}
        print(f"{name}: SIGKILL of rank 1 to exit, median of {PAIRS}:", ", ".join(f"{key} {value:.2f} s" for key, value in medians.items()))
        self.assertLessEqual(medians["ddp-launch"], program.most * medians["torchrun"], seconds)


class Terminal(SideBySide):
    def test_the_bar_of_rank_0_is_drawn_in_place(self):
        """tqdm as it is: the bar moves below all lines, its end stays; the other rank's is in its file."""
        words = [self.bin / "ddp-launch", "--nproc-per-node", 2, "--output", self.folder / "runs", PROGRAMS, "bar", 3000]
        run = self.start("script", "-qefc", shlex.join(map(str, words)), "/dev/null", NO_COLOR="1", **VARIABLES)
        run.deadline = time.monotonic() + PATIENCE
        self.assertEqual(run.finish(), 0, run.text)
        self.assertGreater(len(re.findall(r"\r\x1b\[K\[0:0\] +\d+%\|[^\r]*it/s\]", run.text)), 3, run.text)
        self.assertRegex(run.text, r"\r\x1b\[K\[0:0\] 100%\|[^\r]* 3000/3000 [^\r]*it/s\]\r\n")
        self.assertRegex(run.text, r"\[0:1\] rank 1 is at step 5\r\n")
        self.assertNotRegex(run.text, r"\[0:1\][^\r]*it/s")
        (file,) = self.folder.rglob("rank-1.err")
        self.assertIn("3000/3000", file.read_text(encoding="utf-8"))


def tests(programs):
    """A test for each program."""
    return {f"test_{name}": lambda self, name=name, program=program: self.check(name, program) for name, program in programs.items()}


Elastic = type("Elastic", (SideBySide,), tests(ELASTIC))
Libraries = type("Libraries", (SideBySide,), tests(LIBRARIES))


if __name__ == "__main__":
    unittest.main(verbosity=2)
