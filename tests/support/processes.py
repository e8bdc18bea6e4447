"""Runs the real programs for a test, and proves that nothing of them is left alive.

Every process inherits a marker variable; at the end no /proc/*/environ may hold it.
"""

import ctypes
import os
import pathlib
import re
import select
import shlex
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import uuid

LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1
DEADLINE = 300  # seconds; on a busy machine, too, far above what any test needs, so that only a hang reaches it


def cases(every, some):
    """Those of `every` that are named in `some`; with DDP_EVERY_CASE, as by ./make.sh soak cases, all of them. `some` are chosen so that
    each other one is like one of them."""
    if "DDP_EVERY_CASE" in os.environ:
        return every
    assert set(some) <= set(every), some
    return {case: every[case] for case in some} if isinstance(every, dict) else [case for case in every if case in some]


def end_with_parent():
    """A preexec_fn: the program is killed with the thread that started it. ddp-launch takes its workers along."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port():
    """A port of the loopback that nobody has now."""
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return chosen.getsockname()[1]


def preload_variables(folder, *modules):
    """Variables with which all jobs of a test share one import of these modules. The template's socket lies in `folder`; `ddp-launch warm
    --stop` with these variables ends it."""
    runtime = folder / "runtime"
    runtime.mkdir(mode=0o700)
    return {"DDP_PRELOAD": ",".join(modules), "DDP_PRELOAD_IDLE": "1min", "XDG_RUNTIME_DIR": str(runtime)}


class Running:
    """A program under way. Its output is read into `text` by wait_for() and finish(). `prepare` is a preexec_fn."""

    def __init__(self, command, environment, folder, prepare=None):
        self.command = " ".join(shlex.quote(str(word)) for word in command)
        self.process = subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            env=environment, cwd=folder, start_new_session=True, preexec_fn=prepare,
        )  # fmt: skip
        self.text = ""
        self.deadline = time.monotonic() + DEADLINE

    def read_some(self):
        """Reads what is there, waiting for it until the deadline. False at the end of the output."""
        left = self.deadline - time.monotonic()
        if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
            self.process.kill()
            raise AssertionError(f"still running after {DEADLINE} s: {self.command}\n{self.text}")
        piece = os.read(self.process.stdout.fileno(), 65536)
        self.text += piece.decode(errors="replace")
        return bool(piece)

    def wait_for(self, what):
        """Reads until `what` was printed."""
        while what not in self.text:
            if not self.read_some():
                raise AssertionError(f"ended without printing {what!r}: {self.command}\n{self.text}")

    def wait_until(self, is_so, what):
        """Looks every few milliseconds, while it reads what is printed."""
        while not is_so():
            if time.monotonic() > self.deadline:
                raise AssertionError(f"not seen: {what}: {self.command}\n{self.text}")
            if select.select([self.process.stdout], [], [], 0.005)[0] and not self.read_some():
                raise AssertionError(f"ended without: {what}: {self.command}\n{self.text}")

    def wait_for_pids(self, ranks):
        """Reads until that many ranks of ddp-worker have told their pid. Each has a pipe of its own, so another's line tells nothing."""
        while len(found := re.findall(r"rank (\d+) of \d+: .*pid (\d+)\n", self.text)) < ranks:
            if not self.read_some():
                raise AssertionError(f"ended before {ranks} ranks had told their pid: {self.command}\n{self.text}")
        return {int(rank): int(pid) for rank, pid in found}

    def finish(self):
        """Reads to the end. Returns the exit code, 128+n for a signal."""
        while self.read_some():
            pass
        self.process.stdout.close()
        code = self.process.wait(timeout=10)
        return code if code >= 0 else 128 - code


class ProcessTest(unittest.TestCase):
    """A test with a folder of its own, the programs, and the proof at the end."""

    prepare = None  # of Running

    def setUp(self):
        self.bin = pathlib.Path(os.environ["DDP_BIN"]).resolve()
        folder = tempfile.TemporaryDirectory(prefix="ddp-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.marker = f"DDP_TEST_MARKER={uuid.uuid4()}"
        name, value = self.marker.split("=")
        self.environment = {key: text for key, text in os.environ.items() if not key.startswith(("PET_", "DDP_"))}
        self.environment |= {name: value, "OMP_NUM_THREADS": "1"}
        self.addCleanup(self.check_nothing_lives)

    def start(self, *command, **variables):
        return Running(command, {**self.environment, **variables}, self.folder, self.prepare)

    def run_program(self, *command, expect=0, **variables):
        """Runs it to the end and returns what it printed."""
        running = self.start(*command, **variables)
        code = running.finish()
        self.assertEqual(code, expect, f"exit code of: {running.command}\n{running.text}")
        return running.text

    def share_template(self, *modules):
        """preload_variables() for the jobs of this test; the template ends with it."""
        variables = preload_variables(self.folder, *modules)
        self.addCleanup(self.run_program, self.bin / "ddp-launch", "warm", "--stop", **variables)
        return variables

    def alive(self):
        """Pids of the processes that carry this test's marker."""
        pids = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                if self.marker.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    pids.append(int(entry.name))
            except OSError:
                continue  # gone, or not ours to read
        return pids

    def check_nothing_lives(self):
        pids = self.alive()
        names = [pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ") for pid in pids]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(names, [], "left alive")
