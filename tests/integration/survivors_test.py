"""Ranks that outlive a round: --restart failed starts again what has failed, the others keep their state.

Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/integration/survivors_test.py
"""

import json
import os
import pathlib
import re
import shutil
import signal
import tempfile
import time
import unittest

from processes import free_port
from run_files import records
from worker_job import WorkerTest

# Of all that a rank may remember; ten steps an epoch.
JOB = """
name: job
data: {name: digits, batch_per_rank: 16, train_size: 960, test_size: 60, workers: 2, augment: [{crop: {padding: 2}}, {cutout: {size: 4}}]}
optimizer: {name: adamw, lr: 0.003, ema_decay: 0.9}
schedule: {name: cosine, warmup: 0.5}
train: {epochs: 4, log_every: 1, accumulate: 2}
launch: {restart: failed, max_restarts: 9, nproc_per_node: 3}
"""


class SurvivorTest(WorkerTest):
    def setUp(self):
        super().setUp()
        (self.folder / "job.yaml").write_text(JOB, encoding="utf-8")

    def begin(self, *arguments, **variables):
        return self.start(self.bin / "ddp-launch", "job.yaml", *arguments, **variables)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.shared = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="ddp-survivors-")))

    def whole(self, *arguments):
        """What the others are compared with, trained once for all tests of a class."""
        place = self.shared / "-".join(("whole", *arguments))
        if not (place / "job" / "result.json").exists():
            shutil.rmtree(place, ignore_errors=True)  # of a test that failed in it
            self.run_program(self.bin / "ddp-launch", "job.yaml", f"output={place}", *arguments)
        return place / "job"

    def wait_for_step(self, running, step, run=None):
        metrics = (run or self.run_dir()) / "metrics.jsonl"

        def is_done():
            try:
                lines = metrics.read_text(encoding="utf-8").splitlines()
            except FileNotFoundError:
                return False
            return any(f'"step":{step},' in line for line in lines)

        running.wait_until(is_done, f"step {step}")

    def workers(self):
        """Rank, as each was started, to pid."""
        found = {}
        for pid in self.alive():
            try:
                process = pathlib.Path("/proc", str(pid))
                name = (process / "comm").read_text(encoding="utf-8").strip()
                rank = re.search(rb"\0RANK=(\d+)\0", (process / "environ").read_bytes())
            except OSError:
                continue  # it is gone
            if name == "ddp-worker" and rank:
                found[int(rank[1])] = pid
        return found

    def finish(self, running, expect=0):
        self.assertEqual(running.finish(), expect, running.text)
        self.assertEqual(self.alive(), [])
        return running.text


class KilledRanks(SurvivorTest):
    def test_each_rank_is_replaced_alone_and_the_run_is_the_undisturbed_one(self):
        whole = self.whole()
        for rank in range(3):
            with self.subTest(rank):
                running = self.begin(f"name=rank{rank}")
                run = self.run_dir(f"rank{rank}")
                self.wait_for_step(running, 13, run)
                before = self.workers()
                os.kill(before[rank], signal.SIGKILL)
                self.wait_for_step(running, 22, run)
                after = self.workers()
                text = self.finish(running)
                self.assertNotEqual(before.pop(rank), after.pop(rank))
                self.assertEqual(before, after, text)
                self.assertRegex(text, r"rank \d \(pid \d+\) has failed: signal SIGKILL \(9\); the round is over for the other 2 workers\.")
                self.assertRegex(text, r"round 1 starts now, 2 of 3 ranks go on from step \d+, 8 restarts are left\.")
                self.assertRegex(text, r"goes on at step \d+, epoch 2, with what rank [01] has kept in memory")
                self.assertNotIn("resumes at", text)
                self.assertEqual(json.loads((run / "result.json").read_text(encoding="utf-8"))["rounds"], 2)
                self.assert_same_run(whole, run)

    def test_again_and_again_and_two_at_once(self):
        whole = self.whole()
        running = self.begin()
        for step, ranks in ((3, (0,)), (10, (1,)), (17, (0, 2)), (24, (1, 2))):
            self.wait_for_step(running, step)
            pids = self.workers()
            for rank in ranks:
                os.kill(pids[rank], signal.SIGKILL)
        text = self.finish(running)
        self.assertEqual(text.count("goes on at step"), 4, text)
        self.assert_same_run(whole, self.run_dir())

    def test_all_at_once_begin_from_the_newest_checkpoint(self):
        whole = self.whole()
        running = self.begin()
        self.wait_for_saved(running, "epoch 2/4")
        for pid in self.workers().values():
            os.kill(pid, signal.SIGKILL)
        self.assertRegex(self.finish(running), r"resumes at step (20|30|40), ")
        self.assert_same_run(whole, self.run_dir())

    def test_in_an_evaluation(self):
        job = ("data.test_size=12000", "train.epochs=2", "eval.every=1")
        whole = self.whole(*job)
        running = self.begin(*job)
        self.wait_for_step(running, 10)
        os.kill(self.workers()[1], signal.SIGKILL)
        self.assertIn("goes on at step 10, epoch 1,", self.finish(running))
        self.assert_same_run(whole, self.run_dir())

    def test_while_a_checkpoint_is_written(self):
        whole = self.whole()
        running = self.begin("checkpoint.every_steps=3", DDP_FAILPOINTS="save.manifest=sleep:2000")
        self.wait_for_step(running, 4)
        os.kill(self.workers()[2], signal.SIGKILL)
        self.assertIn("goes on at step", self.finish(running))
        self.assert_same_run(whole, self.run_dir())


class Limits(SurvivorTest):
    """What ends a round for all."""

    def test_stopped_rank_keeps_no_other_from_going_on(self):
        whole = self.whole()
        running = self.begin("launch.grace=1s")
        self.wait_for_step(running, 13)
        pids = self.workers()
        os.kill(pids[2], signal.SIGSTOP)
        os.kill(pids[1], signal.SIGKILL)
        text = self.finish(running)
        self.assertRegex(text, r"1 of 3 ranks go on from step")
        self.assertIn("with what rank 0 has kept in memory", text)
        self.assert_same_run(whole, self.run_dir())

    def test_without_a_restart_left_the_job_ends_as_ever(self):
        running = self.begin("launch.max_restarts=0", "train.epochs=50")
        self.wait_for_step(running, 13)
        os.kill(self.workers()[1], signal.SIGKILL)
        text = self.finish(running, expect=137)
        self.assertIn("failed has no effect without rounds to restart in", text)
        self.assertIn("stopping the other 2 workers", text)

    def test_the_last_restart_is_the_last(self):
        running = self.begin("launch.max_restarts=1", "train.epochs=50")
        for step in (13, 30):
            self.wait_for_step(running, step)
            os.kill(self.workers()[1], signal.SIGKILL)
        text = self.finish(running, expect=137)
        self.assertIn("no further round: the one restart is used up", text)

    def test_a_stop_while_they_wait_leaves_nobody(self):
        running = self.begin("train.epochs=50")
        for step, rank in ((13, 1), (24, 2)):  # after the second short round there is a pause
            self.wait_for_step(running, step)
            os.kill(self.workers()[rank], signal.SIGKILL)
        running.wait_for("round 2 starts in 1s")
        running.process.send_signal(signal.SIGTERM)
        self.finish(running, expect=143)

    def test_one_that_dies_while_it_waits_is_replaced_too(self):
        whole = self.whole("train.epochs=6")
        running = self.begin("train.epochs=6")
        for step, rank in ((13, 1), (24, 2)):
            self.wait_for_step(running, step)
            os.kill(self.workers()[rank], signal.SIGKILL)
        running.wait_for("round 2 starts in 1s, 2 of 3 ranks go on from step")
        os.kill(self.workers()[0], signal.SIGKILL)
        self.assertIn("with what rank 1 has kept in memory", self.finish(running))
        self.assert_same_run(whole, self.run_dir())

    def test_a_program_of_others_is_started_again_whole_and_at_once(self):
        script = self.folder / "program"
        script.write_text('#!/bin/sh\n[ "$RANK$TORCHELASTIC_RESTART_COUNT" = 10 ] && sleep 0.3 && exit 7\n[ "$TORCHELASTIC_RESTART_COUNT" = 1 ] || sleep 60\n', encoding="ascii")  # fmt: skip
        script.chmod(0o700)
        begin = time.monotonic()
        command = ("--nproc-per-node", 3, "--max-restarts", 1, "--restart", "failed", "--no-python", script)
        text = self.run_program(self.bin / "ddp-launch", *command)
        self.assertLess(time.monotonic() - begin, 4)  # nobody is waited for that does not wait
        self.assertNotIn("go on from step", text)

    def test_a_store_in_rank_0_is_refused(self):
        text = self.run_program(self.bin / "ddp-launch", "--store", "worker", "job.yaml", expect=2)
        self.assertIn("--restart failed does not go with a store that rank 0 serves", text)


class Nodes(SurvivorTest):
    def agent(self, node, nodes, port, *arguments):
        return self.start(
            self.bin / "ddp-launch", "--nnodes", nodes, "--node-rank", node, "--nproc-per-node", 2,
            "--master-addr", "127.0.0.1", "--master-port", port, "job.yaml", *arguments,
        )  # fmt: skip

    def test_ranks_of_both_nodes_outlive_a_worker(self):
        port = free_port()
        self.run_program(self.bin / "ddp-launch", "--nproc-per-node", 4, "job.yaml", "output=whole")
        zero, one = (self.agent(node, 2, port) for node in range(2))
        self.wait_for_step(zero, 13)
        before = self.workers()
        os.kill(before[3], signal.SIGKILL)
        self.wait_for_step(zero, 22)
        after = self.workers()
        self.assertEqual({rank: before[rank] for rank in range(3)}, {rank: after[rank] for rank in range(3)})
        for agent in (zero, one):
            self.assertEqual(agent.finish(), 0, agent.text)
        self.assertIn("3 of 4 ranks go on from step", zero.text)
        self.assert_same_run(self.folder / "whole" / "job", self.run_dir())

    def test_a_node_that_is_lost_takes_no_step_with_it(self):
        port = free_port()
        self.run_program(self.bin / "ddp-launch", "--nproc-per-node", 4, "job.yaml", "output=whole")
        zero, one = (self.agent(node, "1:2", port, "launch.last_call=1s") for node in range(2))
        self.wait_for_step(zero, 13)
        mine = self.workers()
        one.process.kill()
        text_of_one = one.finish()
        self.assertEqual(text_of_one, 137)
        self.assertEqual(zero.finish(), 0, zero.text)
        self.assertRegex(zero.text, r"is lost: .*; the round is over for 2 workers\.")
        self.assertIn("2 of 4 ranks go on from step", zero.text)
        self.assertIn(f"rank 1 of 2: ", zero.text)
        self.assertIn(f"pid {mine[1]}\n", zero.text[zero.text.index("rank 1 of 2: ") :])
        whole, ours = (records(run, "step") for run in (self.folder / "whole" / "job", self.run_dir()))
        self.assertEqual([r["step"] for r in whole], [r["step"] for r in ours])
        for one_step, other in zip(whole, ours, strict=True):
            self.assertAlmostEqual(one_step["loss"], other["loss"], delta=0.02 * max(1, one_step["loss"]))
        self.assertEqual([r["lr"] for r in whole], [r["lr"] for r in ours])


if __name__ == "__main__":
    unittest.main()
