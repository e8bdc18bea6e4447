"""ddp-launch under a real Slurm of two nodes on this machine, by deploy/slurm/train.sbatch. Run it by ./make.sh test-slurm

After each test no process of the job lives.
"""

import json
import os
import pathlib
import re
import signal
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests/support")]

from cluster import Cluster, missing_tools, wait_until  # noqa: E402
from processes import ProcessTest  # noqa: E402

SCRIPT = ROOT / "deploy/slurm/train.sbatch"
DIGITS = """\
version: 1
name: digits
device: cpu
data: {name: digits, train_size: 4000, batch_per_rank: 32, workers: 0}
train: {epochs: 10, log_every: 10}
eval: {every: 10}
"""


class SlurmTest(ProcessTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="ddp-slurm-")
        cls.addClassCleanup(folder.cleanup)
        cls.cluster = Cluster(folder.name)
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()

    def setUp(self):
        super().setUp()
        self.launch = self.bin / "ddp-launch"
        self.fake_worker = self.bin / "tests/fake_worker"
        self.jobs = []
        self.addCleanup(self.clean_up)

    def clean_up(self):
        """Slurm's own processes of a job end a little after it."""
        if self.jobs:
            self.run_tool("scancel", *self.jobs)
            wait_until(lambda: not self.alive(), "the job's processes end", deadline=20)

    def variables(self):
        name, value = self.marker.split("=")
        return self.cluster.environment | {name: value, "DDP_LAUNCH": str(self.launch), "OMP_NUM_THREADS": "1"}

    def run_tool(self, *command):
        self.cluster.environment = self.variables()
        return self.cluster.run(*command)

    def submit(self, *arguments, script=SCRIPT, options=()):
        """Hands the job in. Returns its number."""
        done = self.run_tool(
            "sbatch", "--parsable", f"--chdir={self.folder}", f"--output={self.folder}/out", *options, script, *arguments
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        self.jobs.append(done.stdout.strip())
        return self.jobs[-1]

    def output(self):
        path = self.folder / "out"
        return path.read_text(errors="replace") if path.exists() else ""

    def field(self, job, name):
        words = self.run_tool("scontrol", "--oneliner", "show", "job", job).stdout.split()
        return next((word.split("=", 1)[1] for word in words if word.startswith(f"{name}=")), "")

    def wait_for(self, text, deadline=40):
        try:
            wait_until(lambda: text in self.output(), repr(text), deadline)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.output()}\n{self.cluster.last_lines()}") from None

    def finish(self, job, deadline=60):
        """Waits for the end of the job. Returns its state and exit code."""
        ends = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
        try:
            wait_until(lambda: self.field(job, "JobState") in ends, f"job {job} ends", deadline)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.output()}\n{self.cluster.last_lines()}") from None
        wait_until(lambda: not self.alive(), "the job's processes end", deadline=20)
        return self.field(job, "JobState"), self.field(job, "ExitCode").split(":")[0]


class Jobs(SlurmTest):
    def test_two_nodes_find_each_other(self):
        job = self.submit("--nproc-per-node", "2", self.fake_worker, "environment")
        self.assertEqual(self.finish(job), ("COMPLETED", "0"), self.output())
        text = self.output()
        for node in range(2):
            self.assertIn(f"from Slurm: node {node} of 2, master 127.0.0.1:", text)
        self.assertIn(f"run id slurm-{job}.0; --no-auto-env turns this off", text)
        for rank in range(4):
            self.assertRegex(text, rf"\] RANK={rank}\n")
        self.assertIn("WORLD_SIZE=4\n", text)
        self.assertNotIn("has no token", text)
        self.assertIn(f"TORCHELASTIC_RUN_ID=slurm-{job}.0\n", text)

    def test_each_node_starts_a_worker_per_gpu_that_slurm_gave_it(self):
        job = self.submit(self.fake_worker, "environment", options=("--gpus=4",))
        self.assertEqual(self.finish(job), ("COMPLETED", "0"), self.output())
        counts = re.findall(r"from Slurm: node \d of 2, .* (\d) workers?, one per GPU", self.output())
        self.assertEqual(sorted(counts), ["1", "3"], self.output())
        for rank in range(4):
            self.assertRegex(self.output(), rf"\] RANK={rank}\n")

    def test_a_failed_worker_ends_the_job_with_its_own_code(self):
        job = self.submit("--nproc-per-node", "1", self.fake_worker, "print", "up", "on", "1", "[", "exit", "7", "]", "hold")
        self.assertEqual(self.finish(job), ("FAILED", "7"), self.output())
        self.assertIn("rank 1", self.output())

    def test_a_killed_worker_ends_the_job_with_137(self):
        job = self.submit("--nproc-per-node", "1", self.fake_worker, "on", "0", "[", "raise", "KILL", "]", "hold")
        self.assertEqual(self.finish(job), ("FAILED", "137"), self.output())

    def test_a_cancelled_job_leaves_nothing(self):
        worker = (self.fake_worker, "spawn", "[", "session", "hold", "]", "print", "up", "hold")
        job = self.submit("--nproc-per-node", "2", *worker)
        wait_until(lambda: self.output().count("up\n") == 4, "four workers", deadline=30)
        self.run_tool("scancel", job)
        self.assertEqual(self.finish(job)[0], "CANCELLED", self.output())

    def test_a_stubborn_job_is_cancelled_too(self):
        job = self.submit("--nproc-per-node", "1", "--grace", "2s", self.fake_worker, "ignore", "TERM", "print", "up", "hold")
        wait_until(lambda: self.output().count("up\n") == 2, "two workers", deadline=30)
        self.run_tool("scancel", job)
        self.assertEqual(self.finish(job)[0], "CANCELLED", self.output())

    def test_a_job_that_slurm_kills_at_once_leaves_nothing(self):
        """SIGKILL to everything that Slurm knows of, guards too."""
        worker = (self.fake_worker, "spawn", "[", "session", "hold", "]", "lose", "[", "hold", "]", "print", "up", "hold")
        job = self.submit("--nproc-per-node", "2", *worker)
        wait_until(lambda: self.output().count("up\n") == 4, "four workers", deadline=30)
        self.run_tool("scancel", "--full", "--signal=KILL", job)
        self.assertIn(self.finish(job)[0], ("CANCELLED", "FAILED"), self.output())

    def test_a_killed_agent_ends_the_job_on_the_other_node(self):
        """By 201 there; of its tasks srun shows the one that died of a signal.

        What node 0 says is read from its file: srun, once it ends a step by force, may drop what a task prints last.
        """
        words = ("--nproc-per-node", "1", "--output", self.folder / "runs", self.fake_worker, "print", "up", "hold")
        job = self.submit(*words)
        wait_until(lambda: self.output().count("up\n") == 2, "two workers", deadline=30)
        agents = [pid for pid in self.alive() if self.node_of(pid) == "1"]
        self.assertEqual(len(agents), 1)
        os.kill(agents[0], signal.SIGKILL)
        self.assertEqual(self.finish(job), ("FAILED", "137"), self.output())
        result = json.loads((self.folder / "runs/latest/result.json").read_text())
        self.assertEqual((result["meaning"], result["root_cause"]["node_rank"]), ("node lost", 1), self.output())

    @staticmethod
    def node_of(pid):
        """The node of an agent; nothing for other processes, its guard too."""
        folder = pathlib.Path("/proc", str(pid))
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            variables = (folder / "environ").read_bytes().split(b"\0")
            parent = (folder / "stat").read_text().split(")")[1].split()[1]
            name = pathlib.Path("/proc", parent, "comm").read_text().strip()
        except OSError:
            return None
        if not words[0].endswith(b"/ddp-launch") or name != "slurmstepd":
            return None
        return next((text[13:].decode() for text in variables if text.startswith(b"SLURM_NODEID=")), None)

    def test_the_time_that_is_up_brings_the_job_back_into_the_queue(self):
        program = self.folder / "program"
        program.write_text(
            f'#!/bin/sh\nif [ -n "$SLURM_RESTART_COUNT" ]; then exec {self.fake_worker} print "goes on"; fi\n'
            f"exec {self.fake_worker} print begins wait USR1 exit 143\n"
        )
        program.chmod(0o755)
        job = self.submit("--nproc-per-node", "1", program)
        self.wait_for("begins")
        self.run_tool("scancel", "--batch", "--signal=USR1", job)
        self.wait_for("back into the queue")
        self.wait_for("goes on")
        self.assertEqual(self.finish(job), ("COMPLETED", "0"), self.output())

    def test_without_srun_it_says_so(self):
        script = self.folder / "script"
        script.write_text(f"#!/bin/sh\nexec {self.launch} {self.fake_worker} exit 3\n")
        job = self.submit(script=script, options=("--nodes=2",))
        self.assertEqual(self.finish(job), ("FAILED", "3"), self.output())
        self.assertIn("was not started by srun", self.output())

    def test_doctor_looks_at_both_nodes(self):
        done = self.run_tool("srun", "--nodes=2", "--ntasks-per-node=1", self.launch, "doctor")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("no problem found"), 2, done.stdout)
        self.assertEqual(done.stdout.count("1 of 1"), 4, "each of two tables has two nodes that reach the other one\n" + done.stdout)

    def test_steps_side_by_side_have_ports_of_their_own(self):
        script = self.folder / "script"
        step = f"srun --overlap --ntasks-per-node=1 {self.launch} {self.fake_worker} environment"
        script.write_text(f"#!/bin/sh\n{step} >a & {step} >b & wait %1 && wait %2\n")
        job = self.submit(script=script, options=("--nodes=2",))
        self.assertEqual(self.finish(job), ("COMPLETED", "0"), self.output())
        ports = {self.port_of(name) for name in "ab"}
        self.assertEqual(len(ports), 2, ports)

    def port_of(self, name):
        text = (self.folder / name).read_text()
        return text.split("MASTER_PORT=")[1].split("\n")[0]


@unittest.skipUnless(pathlib.Path(os.environ["DDP_BIN"], "ddp-worker").exists(), "there is no ddp-worker")
class Training(SlurmTest):
    def test_training_goes_on_after_the_time_was_up(self):
        (self.folder / "job.yaml").write_text(DIGITS)
        job = self.submit("--nproc-per-node", "1", "job.yaml")
        self.wait_for("epoch 1")
        self.run_tool("scancel", "--batch", "--signal=USR1", job)
        self.wait_for("back into the queue")
        self.wait_for("resum")
        wait_until(lambda: self.field(job, "Restarts") == "1", "one restart")
        self.assertEqual(self.finish(job), ("COMPLETED", "0"), self.output())


    def test_workers_without_an_agent_find_each_other(self):
        (self.folder / "job.yaml").write_text(DIGITS)
        script = self.folder / "script"
        script.write_text(f"#!/bin/sh\nsrun --ntasks=3 --overcommit {self.bin}/ddp-worker job.yaml train.epochs=1 eval.every=1\n")
        job = self.submit(script=script, options=("--nodes=2", "--ntasks=3", "--overcommit"))
        self.assertEqual(self.finish(job), ("COMPLETED", "0"), self.output())
        for rank in range(3):
            self.assertIn(f"ddp-worker: rank {rank} of 3, from Slurm", self.output())
        self.assertIn("32 per rank x 3 ranks", self.output())


class NodeLists(SlurmTest):
    def test_are_read_as_by_slurm(self):
        """The lists of tests/unit/node_list_test.cpp."""
        unit = (ROOT / "tests/unit/node_list_test.cpp").read_text()
        for text, names in re.findall(r'read_node_list\("([^"]+)"\).names,\s+ElementsAre\(([^)]*)\)', unit):
            slurms = self.run_tool("scontrol", "show", "hostnames", text).stdout.split()
            if slurms:  # some lists are ours alone, as n[1-2]-ib
                self.assertEqual(slurms, re.findall(r'"([^"]+)"', names), text)


if __name__ == "__main__":
    if missing := missing_tools():
        sys.exit(f"slurm_test.py: {', '.join(missing)} not found. ./make.sh test-slurm installs them.")
    unittest.main(verbosity=2)
