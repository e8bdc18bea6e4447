"""The rank that slows a job down is named, with its phase and with what its host does to it.

Each job is three Python processes with a progress page that step together. All jobs run at once, as they mostly sleep.
Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/integration/slow_rank_test.py
"""

import json
import os
import pathlib
import re
import signal
import sys
import unittest
import urllib.request
import uuid

from processes import ProcessTest, cases, free_port

SCRIPT = """
import os, signal, socket, subprocess, sys, threading, time
from ddp_progress import progress
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
what, slow = sys.argv[1], rank == int(sys.argv[2])
address = os.environ["MASTER_ADDR"], int(sys.argv[3])
PULSES = "import os, signal, sys, time\\nwhile True:\\n for each in (signal.SIGSTOP, signal.SIGCONT):\\n  os.kill(int(sys.argv[1]), each); time.sleep(0.2)"
SPINS = "while True: pass"

def meet():  # as a barrier
    with progress.collective():
        for peer in peers:
            if not peer.recv(1):
                sys.exit(0)
        for peer in peers:
            peer.sendall(b".")
        if rank:
            server.sendall(b".")
            if not server.recv(1):
                sys.exit(0)

def work(seconds, part):
    if slow and what in ("quota", "core"):  # as on a core of its own
        begin = time.thread_time()
        while time.thread_time() - begin < seconds / 2:
            pass
    else:
        time.sleep(seconds)
    if slow and what == part:
        time.sleep(0.06)

peers = []
if rank == 0:
    with socket.create_server(address) as listening:
        peers = [listening.accept()[0] for _ in range(world - 1)]
else:
    while True:
        try:
            server = socket.create_connection(address)
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
if slow and what == "stops":
    subprocess.Popen([sys.executable, "-c", PULSES, str(os.getpid())])
if slow and what == "quota":
    with open(sys.argv[4] + "/cgroup.procs", "w") as file:
        file.write(str(os.getpid()))
if slow and what == "core":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for _ in range(2):
        subprocess.Popen([sys.executable, "-c", SPINS])
step = 0
while True:
    for part in ("data", "forward", "backward"):
        with progress.phase(part):
            work(0.01, part)
    if slow and what == "evaluating" and step == 100:
        with progress.phase("evaluating"):
            time.sleep(30)
    meet()
    step += 1
    progress.step(step, 0.5)
"""

# What is done to a rank, and what must be said of it.
CASES = {
    "backward": (1, "its backward (", ""),
    "data": (2, "its wait for data (", ""),
    "evaluating": (0, "the other ranks wait for rank 0, which is evaluating", ""),
    "stops": (1, "", " Its node: it is stopped again and again (state T)."),
    "quota": (2, "", " Its node: the CPU quota of its cgroup is used up in "),
    "core": (0, "", " Its node: it is ready and has no core "),
    "nothing": (1, "", ""),
}
SAID = re.compile(r"^.*(?:others wait for it|the other ranks wait for rank) .*\.$", re.M)
SOME = ("backward", "evaluating", "stops", "quota", "nothing")


class Quota:
    """A cgroup whose processes have a tenth of a core, v1 or v2; None where none can be made."""

    def __init__(self, path, version):
        self.path = path
        path.mkdir()
        if version == 1:
            (path / "cpu.cfs_quota_us").write_text("5000", encoding="utf-8")
            (path / "cpu.cfs_period_us").write_text("50000", encoding="utf-8")
        else:
            (path / "cpu.max").write_text("5000 50000", encoding="utf-8")

    @staticmethod
    def make():
        name = f"ddp-test-{uuid.uuid4()}"
        for root, version in ((pathlib.Path("/sys/fs/cgroup/cpu"), 1), (pathlib.Path("/sys/fs/cgroup"), 2)):
            try:
                return Quota(root / name, version)
            except OSError:
                pass
        return None


class SlowRanks(ProcessTest):
    def setUp(self):
        super().setUp()
        helper = pathlib.Path(__file__).parents[2] / "deploy/progress/ddp_progress.py"
        (self.folder / "ddp_progress.py").symlink_to(helper)
        (self.folder / "train.py").write_text(SCRIPT, encoding="utf-8")
        self.quota = Quota.make()
        if self.quota:
            self.addCleanup(self.quota.path.rmdir)

    def start_job(self, what, rank, *flags):
        group = self.quota.path if self.quota else ""
        return self.start(self.bin / "ddp-launch", "--nproc-per-node", 3, *flags, "train.py", what, rank, free_port(), group,
                          PYTHON_EXEC=sys.executable)  # fmt: skip

    def end(self, job):
        job.process.send_signal(signal.SIGTERM)
        job.finish()

    def test_each_is_named_by_its_cause(self):
        chosen = cases(CASES, SOME)
        if not self.quota:
            chosen.pop("quota")  # not root, or in a container
        jobs = {what: self.start_job(what, expected[0]) for what, expected in chosen.items()}
        for what, (rank, work, cause) in chosen.items():
            with self.subTest(what=what):
                if what == "nothing":
                    continue
                jobs[what].wait_until(lambda job=jobs[what]: SAID.search(job.text), "a line")
                line = SAID.search(jobs[what].text)[0]
                if what != "evaluating":
                    self.assertRegex(line, rf"^ddp-launch: rank {rank} is the slowest: others wait for it \d+% of the time, for its ")
                self.assertIn(work, line)
                self.assertIn(cause, line)
        for what, job in jobs.items():
            with self.subTest(what=what):
                self.end(job)
                self.assertEqual(len(SAID.findall(job.text)), 0 if what == "nothing" else 1, job.text)

    def test_status_and_page_name_it(self):
        job = self.start_job("backward", 1, "--web=0")
        job.wait_for("page about the job: ")
        job.wait_for("\n")
        url = re.search(r"page about the job: (\S+)", job.text)[1]
        told = {}

        def is_named():
            with urllib.request.urlopen(f"{url}api/status", timeout=30) as answer:
                told.update(json.load(answer))
            return "slowest_rank" in told

        job.wait_until(is_named, "a slowest rank")
        status = self.run_program(self.bin / "ddp-launch", "status")
        line = re.search(r"\n  rank 1 is the slowest: others wait for it \d+% of the time, for its backward \(([\d.]+) ms a step, of other ranks ([\d.]+) ms\)\.", status)
        self.assertIsNotNone(line, status)
        self.assertGreaterEqual(float(line[1]) - float(line[2]), 40, "of the 60 ms that it sleeps")
        self.assertEqual((told["slowest_rank"]["rank"], told["slowest_rank"]["phase"]), (1, "backward"))
        spent = {worker["rank"]: worker["spent_seconds"] for worker in told["workers"]}
        self.assertGreater(spent[1]["backward"], 3 * spent[0]["backward"])
        self.assertGreater(spent[0]["waiting"], 3 * spent[1]["waiting"])
        with urllib.request.urlopen(f"{url}metrics", timeout=30) as answer:
            self.assertRegex(answer.read().decode(), r'\nddp_slowest_rank_ratio\{rank="1",phase="backward"\} 0\.\d+\n')
        self.end(job)


if __name__ == "__main__":
    unittest.main()
