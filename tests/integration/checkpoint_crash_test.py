"""Saves, at their worst moments: killed before each of their steps, without power, on a disk that is full or slow, at the end of the time.

Run by hand: DDP_BIN=build/release DDP_FAULTY_WORKER=... DDP_UNSYNCED=... PYTHONPATH=tests/support python3 tests/integration/checkpoint_crash_test.py
"""

import json
import os
import pathlib
import re
import shutil
import time
import unittest

from processes import cases
from power_failure import lose_power
from run_files import records
from worker_job import WorkerTest

# In the order in which a save passes them, and whether the checkpoint is there when it dies before that.
STEPS = {
    "snapshot": False,
    "tensors": False,
    "manifest": False,
    "sync-file": False,
    "sync-directory": False,
    "rename": False,
    "sync-parent": True,
    "latest": True,
    "remove-old": True,
}
# Of those that differ in what is there then: half of a save, all of it without a name, a name that is not for good, a name for good.
DIFFERENT = ("tensors", "rename", "sync-parent", "latest")

# Ten steps an epoch, saved in the middle of it; all that a run may remember.
JOB = """
name: job
data: {name: digits, batch_per_rank: 16, train_size: 640, test_size: 60, workers: 2, augment: [{crop: {padding: 2}}, {cutout: {size: 4}}]}
optimizer: {name: adamw, lr: 0.003, ema_decay: 0.9}
schedule: {name: cosine, warmup: 0.5}
train: {epochs: 2, log_every: 1, accumulate: 2}
checkpoint: {every_steps: 3}
"""


class SavesTest(WorkerTest):
    def setUp(self):
        super().setUp()
        (self.folder / "job.yaml").write_text(JOB, encoding="utf-8")

    def newest(self, run):
        """The step of the newest checkpoint that has its name; 0: none."""
        names = (path.name for path in (run / "checkpoints").glob("step-*"))
        return max((int(name[5:]) for name in names if re.fullmatch(r"step-\d+", name)), default=0)


class KilledSaves(SavesTest):
    """K1."""

    def test_k1_a_kill_before_each_step_of_a_save_loses_no_more_than_that_save(self):
        self.launch(2, "output=whole")
        for step, is_there in cases(STEPS, DIFFERENT).items():
            with self.subTest(step):
                output = f"output={step}"
                run = self.folder / step / "job"
                self.launch(2, output, expect=137, DDP_FAILPOINTS=f"save.{step}=kill@2")
                self.assertEqual(self.newest(run), 6 if is_there else 3)
                text = self.launch(2, output)
                self.assertIn(f"resumes at step {6 if is_there else 3},", text)
                self.assertNotIn("damaged", text)
                self.assert_same_run(self.folder / "whole" / "job", run)
                self.assertEqual(list((run / "checkpoints").glob("*.tmp-*")), [])

    def test_k1_a_kill_before_an_evaluation_is_told_repeats_it(self):
        for ranks in (1, 2):
            self.launch(ranks, f"output=whole{ranks}")
            self.launch(ranks, f"output=cut{ranks}", expect=137, DDP_FAILPOINTS="save.amend=kill")
            self.assertIn(", epoch 1,", self.launch(ranks, f"output=cut{ranks}"))
            self.assert_same_run(self.folder / f"whole{ranks}" / "job", self.folder / f"cut{ranks}" / "job")

    def test_k1_a_kill_around_an_evaluation_between_steps_repeats_it(self):
        # What it decides, a rate that drops and when it was enough, must not depend on where the run was killed.
        job = ("schedule.name=plateau", "schedule.patience=0", "schedule.threshold=0.5", "schedule.factor=0.5",
               "eval.every_steps=3", "optimizer.ema_decay=0")  # fmt: skip
        for number, often in enumerate((("checkpoint.every_steps=3",), ("checkpoint.every_steps=null", "checkpoint.interval=1ms"))):
            whole = self.folder / f"whole{number}" / "job"
            self.launch(2, *job, *often, f"output=whole{number}")
            for place in ("amend=kill@2", "amend=kill@3", "snapshot=kill@4"):
                with self.subTest(often=often, place=place):
                    output = f"output={number}-{place}"
                    self.launch(2, *job, *often, output, expect=137, DDP_FAILPOINTS=f"save.{place}")
                    self.assertIn("resumes at step", self.launch(2, *job, *often, output))
                    run = self.folder / f"{number}-{place}" / "job"
                    self.assert_same_run(whole, run)
                    tests = [[(r["step"], r["test_loss"]) for r in records(one, "evaluation")] for one in (whole, run)]
                    self.assertEqual(tests[0], tests[1])

    def test_the_same_weights_are_judged_once(self):
        job = ("eval.every_steps=3", "eval.patience=2", "optimizer.lr=1e-9", "train.epochs=4")
        text = self.launch(2, *job)
        self.assertEqual(text.count("stops early: 2 evaluations without gain"), 1, text)

    def test_a_place_that_is_none_is_refused_with_those_that_are(self):
        for text in ("save.nowhere=kill", "save.rename=jump", "save.rename", "save.rename=kill@0", "save.rename=exit", "save.rename=exit:x"):
            refusal = self.worker(expect=2, DDP_FAILPOINTS=text)
            self.assertIn(f'DDP_FAILPOINTS: "{text}" is not NAME=ACTION[@N]', refusal)
            self.assertIn("save.rename, save.sync-parent", refusal)


class PowerFailures(SavesTest):
    """K2: what was not synced is gone."""

    def fail_power(self, step, output, **variables):
        """Kills the run before that step of its second save and takes the power away. Returns what was lost."""
        run = self.folder / output / "job"
        log = self.folder / f"{output}.log"
        self.worker(f"output={output}", expect=137, LD_PRELOAD=os.environ["DDP_UNSYNCED"],
                    DDP_UNSYNCED_LOG=str(log), DDP_FAILPOINTS=f"save.{step}=kill@2", **variables)  # fmt: skip
        return lose_power(log, run / "checkpoints")

    def test_k2_synced_checkpoints_survive_a_power_failure(self):
        self.worker("output=whole")
        # A name is for good once its directory was synced: before "latest" is written, not before.
        for step in cases(STEPS, DIFFERENT):
            with self.subTest(step):
                lost = self.fail_power(step, step)
                run = self.folder / step / "job"
                is_there = step in ("latest", "remove-old")
                self.assertEqual(self.newest(run), 6 if is_there else 3, lost)
                text = self.worker(f"output={step}")
                self.assertIn(f"resumes at step {6 if is_there else 3},", text)
                self.assertNotIn("damaged", text)
                self.assert_same_run(self.folder / "whole" / "job", run)

    def test_k2_a_checkpoint_that_takes_the_place_of_another_is_one_of_the_two(self):
        # A hook changes the weights after the save of step 20, so it is saved again and the two change places.
        run_odd = (os.environ["DDP_FAULTY_WORKER"], "job.yaml", "checkpoint.every_steps=null")
        self.run_program(*run_odd, "output=whole", FAULTY_RANK="all-halve")
        for step in ("rename", "sync-parent", "latest"):
            with self.subTest(step):
                log = self.folder / f"{step}.log"
                self.run_program(*run_odd, f"output={step}", expect=137, FAULTY_RANK="all-halve", LD_PRELOAD=os.environ["DDP_UNSYNCED"],
                                 DDP_UNSYNCED_LOG=str(log), DDP_FAILPOINTS=f"save.{step}=kill@2")  # fmt: skip
                self.assertEqual("exchange " in log.read_text(encoding="utf-8"), step != "rename")
                run = self.folder / step / "job"
                lost = [pathlib.Path(path).name for path in lose_power(log, run / "checkpoints")]
                self.assertEqual("step-000020" in lost, step == "sync-parent", lost)
                text = self.run_program(*run_odd, f"output={step}", FAULTY_RANK="all-halve")
                self.assertIn(f"resumes at step 20, epoch {2 if step == 'latest' else 1},", text)
                self.assertNotIn("damaged", text)
                self.assert_same_run(self.folder / "whole" / "job", run)

    def test_k2_on_a_disk_that_lies_the_damage_is_seen(self):
        # Names are for good and bytes are not: nothing is left to go on from, and that is said.
        self.assertTrue(self.fail_power("remove-old", "lie", DDP_UNSYNCED_LIE="1"))
        text = self.worker("output=lie")
        self.assertIn("checkpoint step-000006 is damaged", text)
        self.assertIn("training starts from the beginning", text)


class FailedSaves(SavesTest):
    """K4, by the error that a full disk gives."""

    def test_k4_training_goes_on_past_a_save_that_fails(self):
        text = self.launch(2, "checkpoint.keep=9", DDP_FAILPOINTS="save.manifest=error:28@2")
        self.assertRegex(text, r"the checkpoint of step 6 was not saved, training goes on: failpoint.*No space left on device")
        kept = sorted(int(path.name[5:]) for path in (self.run_dir() / "checkpoints").glob("step-*"))
        self.assertEqual(kept, [3, 9, 10, 12, 15, 18, 20])

    def test_k4_a_disk_that_is_full_for_a_second_ends_nothing(self):
        points = ",".join(f"save.tensors=error:28@{n}" for n in range(2, 8))
        text = self.launch(2, DDP_FAILPOINTS=points)
        self.assertEqual(text.count("was not saved, training goes on"), 6, text)
        self.assertEqual(self.newest(self.run_dir()), 20)

    def test_k4_a_run_whose_saves_fail_for_a_minute_ends(self):
        # The third save takes so long that the sixth, the fifth that fails, is a minute after the second.
        points = ",".join(["save.tensors=sleep:61000@3", *(f"save.manifest=error:28@{n}" for n in range(2, 9))])
        began = time.monotonic()
        text = self.worker(expect=125, DDP_FAILPOINTS=points)
        self.assertGreater(time.monotonic() - began, 60)
        self.assertRegex(text, r"the checkpoint of step 1[58] was not saved, nor were the [45] before it")
        self.assertEqual(self.newest(self.run_dir()), 3)
        self.worker("output=whole")
        self.assertIn("resumes at step 3,", self.worker())
        self.assert_same_run(self.folder / "whole" / "job", self.run_dir())

    def test_k4_a_run_directory_that_is_removed_ends_the_run_and_is_told(self):
        running = self.start(self.bin / "ddp-launch", "--nproc-per-node", 2, "job.yaml", "train.epochs=1000")
        running.wait_until(lambda: self.newest(self.run_dir()) > 0, "a checkpoint")
        while self.run_dir().exists():
            shutil.rmtree(self.run_dir(), ignore_errors=True)
        self.assertEqual(running.finish(), 125, running.text)
        self.assertRegex(running.text, r"The run directory \S+/runs/job was removed while the run was in it")
        self.assertNotIn("Make room", running.text)

    def test_k4_the_last_save_is_tried_once_more(self):
        # Saves are those of steps 3, 6, 9, 10, 12, 15, 18 and 20.
        text = self.launch(2, DDP_FAILPOINTS="save.tensors=error:28@8")
        self.assertIn("the checkpoint of step 20 was not saved, training goes on", text)
        self.assertEqual(self.newest(self.run_dir()), 20)

    def test_k4_a_slow_disk_holds_nobody_up(self):
        # A save by the clock would wait for the one before it; there is just this one until the end of the epoch.
        running = self.start(
            self.bin / "ddp-launch", "--nproc-per-node", 2, "job.yaml", "data.train_size=6400", DDP_FAILPOINTS="save.tensors=sleep:4000"
        )  # fmt: skip
        metrics = self.run_dir() / "metrics.jsonl"
        running.wait_until(lambda: metrics.exists() and '"step":5,' in metrics.read_text(encoding="utf-8"), "step 5")
        self.assertEqual(self.newest(self.run_dir()), 0, "step 5 was done before the checkpoint of step 3 was there")
        running.process.terminate()
        self.assertEqual(running.finish(), 143, running.text)
        stopped = int(re.search(r"stopped after step (\d+) with a checkpoint", running.text).group(1))
        self.assertEqual(self.newest(self.run_dir()), stopped)


    def test_k4_a_checkpoint_that_is_gone_at_the_end_is_made_anew(self):
        for how in ("save.amend=error:28@2", "moved"):
            output = how.replace(":", "-")
            job = ("checkpoint.every_steps=null", "data.test_size=6000", f"output={output}")
            points = "" if how == "moved" else how
            running = self.start(self.bin / "ddp-worker", "job.yaml", *job, "train.epochs=1", "eval.batch=1", DDP_FAILPOINTS=points)
            checkpoints = self.folder / output / "job" / "checkpoints"
            if how == "moved":
                running.wait_until(lambda: (checkpoints / "step-000020" / "manifest.json").exists(), "the save before the evaluation")
                checkpoints.rename(self.folder / "away")
            self.assertEqual(running.finish(), 0, running.text)
            content = json.loads((checkpoints / "step-000020" / "manifest.json").read_text(encoding="utf-8"))["content"]
            self.assertIsNotNone(content["result"], running.text)
            self.assertEqual((checkpoints / "best").read_text(encoding="utf-8"), "step-000020\n")


class OtherJobs(SavesTest):
    """K5."""

    def seconds_of(self, *arguments):
        """The least of three tries, and what was said."""
        tries = []
        for _ in range(3):
            start = time.monotonic()
            text = self.worker("output=other", *arguments, expect=2)
            tries.append(time.monotonic() - start)
        return min(tries), text

    def test_k5_a_checkpoint_that_does_not_fit_is_refused_within_a_second(self):
        self.worker("output=made", "train.epochs=1")
        resume = f"checkpoint.resume={self.folder}/made/job/checkpoints/step-000020"
        # What a worker takes for its start alone: here it finds no checkpoint.
        start, text = self.seconds_of(f"checkpoint.resume={self.folder}/nowhere")
        self.assertIn("nowhere", text)
        for other in ("model.name=mlp", "optimizer.name=sgd", "amp.level=O3", "data.batch_per_rank=8"):
            with self.subTest(other):
                seconds, text = self.seconds_of(resume, other)
                self.assertIn("was made with", text)
                self.assertIn(other.partition("=")[0] if "batch" not in other else "a whole batch of 32", text)
                self.assertLess(seconds - start, 1)


    def test_allowed_differences_are_printed_and_training_resumes(self):
        self.worker("output=made", "train.epochs=1")
        resume = ("train.epochs=2", f"checkpoint.resume={self.folder}/made/job/latest")
        other = ("optimizer.lr=0.01", "schedule.name=constant", "schedule.warmup=0")
        text = self.worker("output=refused", *resume, *other, expect=2)
        self.assertIn("was made with optimizer.lr: 0.003, this job has 0.01. Use the same value, or allow the change: "
                      "checkpoint.allow=[optimizer.lr].\n", text)  # fmt: skip
        self.assertFalse((self.folder / "refused" / "job").exists())
        text = self.worker("output=allowed", *resume, *other, "checkpoint.allow=[optimizer.lr, schedule]")
        self.assertRegex(text, r"resumes at step 20, epoch 2, from \S+step-000020\n  optimizer.lr: 0.003 -> 0.01\n"
                               r"  schedule.name: cosine -> constant\n  schedule.warmup: 0.5 -> 0\n")  # fmt: skip
        self.assertEqual({record["lr"] for record in records(self.folder / "allowed/job", "step")}, {0.01})
        # Once it has begun, the run is its own: what is left of it needs no more leave.
        text = self.worker("output=allowed", "train.epochs=3", *other, "checkpoint.resume=auto")
        self.assertIn("resumes at step 40, epoch 3", text)
        self.assertNotIn("->", text)

    def test_an_optimizer_that_is_allowed_to_differ_begins_with_what_is_there(self):
        self.worker("output=made", "train.epochs=1", "optimizer.ema_decay=null")
        resume = ("train.epochs=2", f"checkpoint.resume={self.folder}/made/job", "checkpoint.allow=[optimizer]")
        text = self.worker("output=sgd", *resume, "optimizer.name=sgd", "optimizer.lr=0.01")
        self.assertRegex(text, r"  optimizer.ema_decay: null -> 0.9\n  optimizer.lr: 0.003 -> 0.01\n  optimizer.name: adamw -> sgd\n"
                               r"  of the optimizer's 17 tensors 17 are not in the checkpoint and start again\n")  # fmt: skip
        # The averages begin at the weights: the first step after it is as good as the last one before.
        before, after = (records(self.folder / name / "job", "epoch")[-1]["test_loss"] for name in ("made", "sgd"))
        self.assertLess(after, before)
        text = self.worker("output=more", *resume, "data.train_size=320", "checkpoint.allow=[data, optimizer]", expect=2)
        self.assertIn("was made with 20 steps an epoch, this job has 10. Use the same data, or start a new run from its weights "
                      f"alone: model.weights={self.folder}/made/job/checkpoints/step-000020.\n", text)  # fmt: skip


class TimeLimit(SavesTest):
    """train.time_limit: a stop with a checkpoint, whatever the job does just then."""

    def test_the_same_command_goes_on_where_the_time_was_over(self):
        # Training takes many times longer than its start, so that one of these limits ends in the middle of it, on any machine: each of
        # its eight saves waits.
        slow = ",".join(f"save.snapshot=sleep:1200@{n}" for n in range(1, 9))
        stops = ""
        for seconds in (2**n for n in range(1, 9)):
            running = self.start(
                self.bin / "ddp-launch", "--nproc-per-node", 2, "job.yaml", f"train.time_limit={seconds}s", DDP_FAILPOINTS=slow
            )  # fmt: skip
            code = running.finish()
            if code == 0:
                break
            self.assertEqual(code, 143, running.text)
            self.assertIn("train.time_limit is over", running.text)
            stops += running.text
        self.assertEqual(code, 0, running.text)
        self.assertRegex(stops, r"stopped after step \d+ with a checkpoint")
        self.assertIn("continues the unfinished run", running.text)
        self.launch(2, "output=whole")
        self.assert_same_run(self.folder / "whole" / "job", self.run_dir())

    def test_time_limit_stops_an_evaluation_and_keeps_the_epoch(self):
        text = ""
        for seconds in (2**n for n in range(1, 9)):
            if "over before training began" not in text and text:
                break
            # Sample by sample it takes many times longer than all that is before it.
            job = ("data.train_size=64", "data.test_size=30000", "eval.batch=1", f"train.time_limit={seconds}s")
            text = self.worker(*job, expect=143)
        self.assertIn("stopped after step 2 with a checkpoint", text)
        self.assertEqual(self.newest(self.run_dir()), 2)
        self.assertEqual(records(self.run_dir(), "epoch"), [])

    def test_time_limit_counts_from_the_start_of_the_job(self):
        an_hour_ago = time.monotonic_ns() - 3600 * 10**9
        text = self.worker("train.time_limit=30min", expect=143, DDP_JOB_START=str(an_hour_ago))
        self.assertIn("train.time_limit is over before training began", text)
        self.assertEqual(list(self.folder.glob("runs/*/checkpoints")), [])


class Hooks(SavesTest):
    """A program of its own, whose rank 1 goes wrong (faulty_worker)."""

    def launch_odd(self, how, *arguments, expect):
        program = f"launch.program={os.environ['DDP_FAULTY_WORKER']}"
        return self.launch(3, program, *arguments, expect=expect, FAULTY_RANK=how)

    def test_a_hook_that_throws_loses_no_epoch(self):
        self.launch_odd("throw", "checkpoint.every_steps=null", "train.accumulate=1", expect=1)
        self.assertIn("resumes at step 14,", self.launch(3, "checkpoint.every_steps=null", "train.accumulate=1"))

    def test_changes_of_the_model_by_a_hook_are_saved(self):
        # On every rank: that is allowed.
        job = ("checkpoint.every_steps=null", "train.accumulate=1", f"launch.program={os.environ['DDP_FAULTY_WORKER']}")
        self.launch(3, *job, "output=whole", FAULTY_RANK="all-halve")
        self.launch(3, *job, expect=137, FAULTY_RANK="all-halve", DDP_FAILPOINTS="save.snapshot=kill@3")
        self.assertIn("resumes at step 14, epoch 2", self.launch(3, *job, FAULTY_RANK="all-halve"))
        self.assert_same_run(self.folder / "whole" / "job", self.run_dir())

    def test_a_hook_that_changes_one_replica_is_found_at_once(self):
        job = ("checkpoint.every_steps=null", "train.accumulate=1")
        for how, what in (("halve", "weights"), ("eval", r"modes of modules \(train or eval\)")):
            text = self.launch_odd(how, *job, f"output={how}", expect=96)
            self.assertRegex(text, f"replicas differ at step 14: the {what} of rank 1 are not those of the others")
            self.assertEqual(self.newest(self.folder / how / "job"), 14, "that of before")
        self.launch_odd("none", *job, "output=none", expect=0)

    def test_weights_that_differ_at_a_save_are_no_checkpoint(self):
        # A bit of rank 1 turns over in step 18, the step that is saved. That is found while training goes on.
        text = self.launch_odd("flip", "checkpoint.every_steps=18", "train.accumulate=1", expect=96)
        self.assertRegex(text, r"replicas differ at step (18|19|2\d): the weights of rank 1 are not those of the others")
        self.assertEqual(self.newest(self.run_dir()), 14, "that of before")


if __name__ == "__main__":
    unittest.main()
