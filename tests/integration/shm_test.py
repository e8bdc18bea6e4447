"""backend: shm: ranks of one node sum through memory that they share.

Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/integration/shm_test.py
"""

import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import survivors_test
from processes import free_port
from run_files import records
from worker_job import WorkerTest

UNTIL_STOPPED = ("train.epochs=100000", "checkpoint.every=0", "eval.every=0")


class SharedMemory(WorkerTest):
    def started(self, ranks, *arguments):
        running = self.start(self.bin / "ddp-launch", "--nproc-per-node", ranks, "job.yaml", "backend=shm", *UNTIL_STOPPED, *arguments)
        running.wait_for("epoch 1/100000")
        return running, running.wait_for_pids(ranks)

    def test_two_ranks_learn_what_they_learn_over_gloo(self):
        self.launch(2, "name=gloo", "backend=gloo")
        self.launch(2, "name=shm", "backend=shm")
        self.assert_same_run(self.run_dir("gloo"), self.run_dir("shm"))

    def shares_memory(self, backend):
        """Whether each of two ranks has mapped it."""
        running, pids = self.started(2, f"backend={backend}", f"name={backend}")
        maps = [pathlib.Path(f"/proc/{pid}/maps").read_text(encoding="utf-8") for pid in pids.values()]
        os.kill(running.process.pid, signal.SIGTERM)
        running.finish()
        return ["/memfd:ddp-sums" in text for text in maps]

    def test_by_default_ranks_of_one_node_share_memory_but_not_over_gloo(self):
        self.assertEqual(self.shares_memory("auto"), [True, True])
        self.assertEqual(self.shares_memory("gloo"), [False, False])

    def test_more_ranks_than_cores_learn(self):
        text = self.launch(5, "backend=shm", "data.batch_per_rank=8")
        self.assertIn("epoch 2/2", text)

    def test_sync_batch_norm_and_low_types(self):
        # Two steps and one evaluation of small planes, as CPUs without units for bf16 are slow at it.
        few = ("model.stem=imagenet", "data.batch_per_rank=2", "data.train_size=8", "data.test_size=2", "train.epochs=1")
        self.launch(2, "backend=shm", "model.norm=sync", "model.name=resnet18", "amp.level=O1", "amp.dtype=bf16", *few)

    def test_a_killed_rank_ends_the_job_within_a_second(self):
        running, pids = self.started(3)
        begin = time.monotonic()
        os.kill(pids[1], signal.SIGKILL)
        self.assertEqual(running.finish(), 137, running.text)
        self.assertLess(time.monotonic() - begin, 1.0 if not os.environ.get("DDP_SANITIZE") else 10)
        self.assertIn(f"signal SIGKILL (9) received by pid {pids[1]}", running.text)
        self.assertEqual(self.alive(), [])

    def test_a_stopped_rank_is_named(self):
        running, pids = self.started(3, "ddp.timeout=5s")
        os.kill(pids[1], signal.SIGSTOP)
        self.assertEqual(running.finish(), 124, running.text)
        self.assertIn("rank 1 of 3 did not come", running.text)

    def test_shared_memory_has_no_name_and_is_freed(self):
        def named():
            return {path.name for path in pathlib.Path("/dev/shm").iterdir() if path.name.startswith("ddp")}

        before = named()
        running, pids = self.started(2)
        self.assertEqual(named(), before)
        maps = pathlib.Path(f"/proc/{pids[1]}/maps").read_text(encoding="utf-8")
        self.assertIn("/memfd:ddp-sums", maps)
        os.kill(running.process.pid, signal.SIGTERM)
        running.finish()
        self.assertEqual(self.alive(), [])

    def test_ranks_of_two_network_namespaces_share_memory_too_but_not_of_two_pid_namespaces(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, for a namespace")
        program = self.folder / "apart.sh"
        program.write_text(f'#!/bin/sh\nif [ "$RANK" = 1 ]; then exec unshare --pid --fork --kill-child {self.bin}/ddp-worker "$@"; fi\nexec {self.bin}/ddp-worker "$@"\n')
        program.chmod(0o755)
        text = self.launch(2, "backend=shm", f"launch.program={program}", expect=203)
        self.assertIn("backend: shm: no two ranks can share memory", text)
        self.launch(2, f"launch.program={program}")  # by Gloo


APART = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


class SeveralNodes(WorkerTest):
    """Two agents, each in a namespace of processes of its own, so that their ranks cannot share memory: as on two nodes."""

    def agents(self, *arguments, flags=()):
        port = free_port()
        nodes = ("--nnodes", 2, "--master-addr", "127.0.0.1", "--master-port", port, "--nproc-per-node", 2)
        return [self.start(*APART, self.bin / "ddp-launch", *nodes, *flags, "--node-rank", node, "job.yaml", *arguments) for node in range(2)]

    def losses(self, name):
        return [record["loss"] for record in records(self.run_dir(name), "step")]

    def test_they_learn_what_they_learn_over_gloo(self):
        seed = "seed=2"  # with 1 a rounded bit makes a pixel the largest of its neighbours, and the losses part
        self.launch(4, "name=gloo", "backend=gloo", seed)
        for name in ("shm", "auto"):
            for agent in self.agents(f"backend={name}", f"name={name}", seed):
                self.assertEqual(agent.finish(), 0, agent.text)
            ours, theirs = self.losses(name), self.losses("gloo")
            self.assertEqual(len(ours), len(theirs))
            for mine, other in zip(ours, theirs, strict=True):
                self.assertAlmostEqual(mine, other, delta=1e-6)
        self.assertEqual(self.losses("shm"), self.losses("auto"))

    def test_a_killed_rank_of_any_node_ends_all(self):
        for rank in (2, 3):  # the first rank of its node, which sums with the other node, and the other one
            with self.subTest(rank):
                agents = self.agents("backend=shm", *UNTIL_STOPPED, f"name=killed-{rank}")
                agents[0].wait_for("epoch 1/100000")
                maps = [path.joinpath("maps").read_text(encoding="utf-8") for path in self.ranks().values()]
                self.assertEqual(["/memfd:ddp-sums" in text for text in maps], [True] * 4)
                begin = time.monotonic()
                os.kill(int(self.ranks()[rank].name), signal.SIGKILL)
                for agent in agents:
                    self.assertEqual(agent.finish(), 137, agent.text)
                self.assertLess(time.monotonic() - begin, 3.0 if not os.environ.get("DDP_SANITIZE") else 15)
                self.assertRegex(agents[0].text, rf"Root Cause .*\n(.*\n){{1,9}}  rank +: {rank} \(local_rank: .*\n.*SIGKILL")
                self.assertEqual(self.alive(), [])

    def test_a_stopped_rank_of_another_node_is_named(self):
        agents = self.agents("backend=shm", "ddp.timeout=5s", *UNTIL_STOPPED)
        agents[0].wait_for("epoch 1/100000")
        stopped = int(self.ranks()[3].name)
        os.kill(stopped, signal.SIGSTOP)
        for agent in agents:
            self.assertEqual(agent.finish(), 124, agent.text)
        self.assertIn("rank 3 of 4 did not come", agents[0].text + agents[1].text)  # the first to say so ends the others
        self.assertEqual(self.alive(), [])

    def test_a_killed_rank_is_replaced_alone(self):
        for rank in (1, 2):
            with self.subTest(rank):
                flags = ("--restart", "failed", "--max-restarts", 1)
                agents = self.agents("backend=shm", "train.epochs=8", f"name=replaced-{rank}", flags=flags)
                agents[0].wait_for("epoch 2/8")
                os.kill(int(self.ranks()[rank].name), signal.SIGKILL)
                for agent in agents:
                    self.assertEqual(agent.finish(), 0, agent.text)
                self.assertIn("epoch 8/8", agents[0].text)
                self.assertRegex(agents[0].text, r"round 1 starts now, 3 of 4 ranks go on from step \d+")

    def ranks(self):
        """The folders in /proc of all ranks, by rank."""
        found = {}
        for pid in self.alive():
            path = pathlib.Path(f"/proc/{pid}")
            variables = dict(one.split("=", 1) for one in (path / "environ").read_text(encoding="utf-8", errors="replace").split("\0") if "=" in one)
            if variables.get("RANK", "").isdigit() and "ddp-worker" in (path / "cmdline").read_text(encoding="utf-8"):
                found[int(variables["RANK"])] = path
        return found


class Survivors(survivors_test.SurvivorTest):
    def setUp(self):
        super().setUp()
        (self.folder / "job.yaml").write_text(survivors_test.JOB + "backend: shm\n", encoding="utf-8")

    test_each = survivors_test.KilledRanks.test_each_rank_is_replaced_alone_and_the_run_is_the_undisturbed_one
    test_again = survivors_test.KilledRanks.test_again_and_again_and_two_at_once


if __name__ == "__main__":
    if "SeveralNodes" in sys.argv and subprocess.run([*APART, "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        sys.exit(77)  # it needs root and namespaces
    unittest.main(verbosity=2)
