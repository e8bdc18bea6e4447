"""Runs that are stopped or killed, and go on from a checkpoint.

Run by hand: DDP_BIN=build/release DDP_RANKS_TOOL=... PYTHONPATH=tests/support python3 tests/integration/resume_test.py
"""

import json
import os
import pathlib
import re
import shutil
import signal
import tempfile
import unittest

from run_files import records
from worker_job import JOB, WorkerTest


HOLD = 600_000  # milliseconds; longer than a test may take
PAUSE = 3_000  # in which a signal comes; it may end the pause


class ResumeTest(WorkerTest):
    """Three ranks (with two, a + b hides the order of sums), 100 steps an epoch: long enough to be met in the middle, which
    each test checks."""

    STEPS = 100
    COMMON = ("data.train_size=4800", "ddp.bucket=64KiB")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.shared = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="ddp-resume-")))

    def whole(self):
        """The directory of the run that nobody has interrupted, trained once for all tests of a class."""
        if not hasattr(type(self), "whole_text"):
            shutil.rmtree(self.shared / "job", ignore_errors=True)  # of a test that failed in it
            type(self).whole_text = self.train(f"output={self.shared}")
        return self.shared / "job"

    def train(self, *arguments):
        return self.launch(3, *self.COMMON, *arguments)

    def interrupt(self, signal_number, line, *arguments, **variables):
        """Starts a run and sends its launcher the signal once the line was printed."""
        running = self.start(self.bin / "ddp-launch", "--nproc-per-node", 3, "job.yaml", *self.COMMON, *arguments, **variables)
        if line.startswith("epoch") and signal_number == signal.SIGKILL:
            self.wait_for_saved(running, line)
        else:
            running.wait_for(line)
        running.process.send_signal(signal_number)
        return running, running.finish()

    def assert_resumed(self, text, first, last):
        """From a checkpoint of a step from `first` to `last`."""
        self.assertIn("continues the unfinished run", text)
        step = int(re.search(r"resumes at step (\d+)", text).group(1))
        self.assertTrue(first <= step <= last, f"resumed at step {step}, not from {first} to {last}\n{text}")

    def last_table(self, text):
        """Its rows, without images per second: of all epochs, and the best is marked."""
        rows = re.findall(r"^\[0:0\] +(\d+  .* %)  +\d+(?:  (best))?$", text, re.MULTILINE)
        self.assertEqual([int(row.split()[0]) for row, _ in rows], [1, 2], text)
        self.assertEqual(sum(best == "best" for _, best in rows), 1, text)
        return rows

    def assert_same_epochs(self, one, other):
        for a, b in zip(one, other, strict=True):
            self.assertEqual((a["epoch"], a["train_loss"], a["test_loss"]), (b["epoch"], b["train_loss"], b["test_loss"]))


class Stopped(ResumeTest):
    """By a signal, with a checkpoint."""

    def test_a_stopped_run_goes_on_bit_for_bit(self):
        whole = self.whole()
        running, code = self.interrupt(signal.SIGTERM, "epoch 1/2")
        self.assertEqual(code, 143, running.text)
        self.assertIn("with a checkpoint", running.text)
        stopped = json.loads((self.run_dir() / "result.json").read_text(encoding="utf-8"))
        self.assertEqual(stopped["state"], "stopped")
        resumed = self.train()
        self.assert_resumed(resumed, self.STEPS + 1, 2 * self.STEPS - 1)
        self.assertEqual(self.last_table(resumed), self.last_table(self.whole_text))
        self.assert_same_run(whole, self.run_dir())

    def test_a_stop_in_an_evaluation_saves_the_epoch_and_it_is_evaluated_later(self):
        job = ("data.train_size=960", "data.test_size=15000", "train.epochs=2")
        last = 960 // (3 * 16)  # step of the first epoch
        self.train(*job, "output=whole")
        running = self.start(self.bin / "ddp-launch", "--nproc-per-node", 3, "job.yaml", *self.COMMON, *job)
        metrics = self.run_dir() / "metrics.jsonl"
        running.wait_until(lambda: metrics.exists() and f'"step":{last},' in metrics.read_text(encoding="utf-8"), "the last step of the epoch")
        running.process.send_signal(signal.SIGTERM)
        self.assertEqual(running.finish(), 143, running.text)
        self.assertIn(f"stopped after step {last} with a checkpoint", running.text)
        self.assertEqual(records(self.run_dir(), "epoch"), [])
        self.assert_resumed(self.train(*job), last, last)
        self.assert_same_run(self.folder / "whole" / "job", self.run_dir())

    def test_a_stop_that_comes_to_one_rank_stops_and_saves_all(self):
        for signal_number in (signal.SIGUSR1, signal.SIGTERM):
            output = f"output={int(signal_number)}"
            running = self.start(
                self.bin / "ddp-launch", "--nproc-per-node", 3, "job.yaml", *self.COMMON, "data.train_size=960", "train.epochs=45", output
            )
            running.wait_for("epoch 1/45")
            os.kill(running.wait_for_pids(3)[1], signal_number)
            self.assertEqual(running.finish(), 143, running.text)
            self.assertIn("with a checkpoint", running.text)
            self.assertIn("stopped after a checkpoint, asked for at rank 1; exit code 143", running.text)
            result = json.loads((self.folder / str(int(signal_number)) / "job/result.json").read_text(encoding="utf-8"))
            self.assertEqual((result["state"], result["asked_rank"]), ("stopped", 1))
            checkpoints = self.folder / str(int(signal_number)) / "job" / "checkpoints"
            self.assertEqual(list(checkpoints.glob("*.tmp-*")), [], "left in the middle of a save")
            step = int(re.search(r"stopped after step (\d+)", running.text).group(1))
            self.assertTrue((checkpoints / f"step-{step:06}").is_dir())

    def test_one_rank_goes_on_where_three_were_stopped(self):
        whole = self.whole()
        # The same whole batch: another number of ranks only rounds differently.
        (self.folder / "job.yaml").write_text(JOB.replace("batch_per_rank: 16", "batch: 48"), encoding="utf-8")
        self.interrupt(signal.SIGTERM, "epoch 1/2")
        self.assert_resumed(self.worker(*self.COMMON), self.STEPS + 1, 2 * self.STEPS - 1)
        steps, parts = (records(run, "step") for run in (whole, self.run_dir()))
        self.assertEqual([r["step"] for r in steps], [r["step"] for r in parts])
        for a, b in zip(steps, parts):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-2)


class Remembered(ResumeTest):
    """What a run began with, and what it has of its steps."""

    # Ten steps an epoch: a run that is stopped waits for that in a save in the middle of an epoch.
    STEPS = 10
    COMMON = ("data.train_size=480", "ddp.bucket=64KiB")

    def stop(self, epoch, *arguments, run_dir=None):
        """In the middle of that epoch, the second of those that it trains."""
        step = (epoch - 1) * self.STEPS + self.STEPS // 2
        command = [self.bin / "ddp-launch", "--nproc-per-node", 3, "job.yaml", *self.COMMON, *arguments, f"checkpoint.every_steps={step}"]
        running = self.start(*command, DDP_FAILPOINTS=f"save.snapshot=sleep:{PAUSE}@2")
        metrics = (run_dir or self.run_dir()) / "metrics.jsonl"
        running.wait_until(lambda: metrics.exists() and f'"step":{step},' in metrics.read_text(encoding="utf-8"), f"step {step}")
        running.process.send_signal(signal.SIGTERM)
        self.assertEqual(running.finish(), 143, running.text)

    def test_a_checkpoint_of_the_users_choice_starts_a_new_run(self):
        self.train()
        chosen = self.run_dir() / "checkpoints" / "step-000010"
        text = self.train(f"checkpoint.resume={chosen}")
        self.assertIn("resumes at step 10", text)
        self.assert_same_epochs(records(self.run_dir(), "epoch")[1:], records(self.run_dir("job2"), "epoch"))

    def test_a_run_goes_on_without_the_weights_it_began_with(self):
        self.train("train.epochs=1", "output=first")
        weights = self.folder / "first.safetensors"
        (self.folder / "first/job/checkpoints/step-000010/model.safetensors").rename(weights)
        self.train(f"model.weights={weights}", "output=whole")
        self.stop(2, f"model.weights={weights}")
        weights.unlink()
        text = self.train(f"model.weights={weights}")
        self.assert_resumed(text, self.STEPS + 1, 2 * self.STEPS - 1)
        self.assertRegex(text, r"this run goes on with the weights of its checkpoint: model.weights: \S+/first.safetensors: No such file or directory")
        self.assert_same_run(self.folder / "whole" / "job", self.run_dir())
        self.assertIn("first.safetensors: No such file", self.launch(3, *self.COMMON, f"model.weights={weights}", "output=fresh", expect=2))

    def test_an_interrupted_run_goes_on_whatever_it_began_with(self):
        self.launch(3, *self.COMMON, "train.epochs=1", "output=other")
        for start, last in (("never", 2), (self.folder / "other/job/checkpoints/step-000010", 3)):
            output = f"output={pathlib.Path(start).name}"
            begun = (f"train.epochs={last}", f"checkpoint.resume={start}", output)
            self.stop(last, *begun, run_dir=self.folder / pathlib.Path(start).name / "job")
            self.assert_resumed(self.train(*begun), (last - 1) * self.STEPS + 1, last * self.STEPS - 1)
            self.assertFalse((self.folder / pathlib.Path(start).name / "job2").exists())

    def test_a_finished_run_goes_on_with_more_epochs_and_tells_its_learning_rate(self):
        job = ("data.train_size=480", "schedule.warmup=0")
        self.launch(3, *job)
        text = self.launch(3, *job, "train.epochs=3", "train.log_every=5", "checkpoint.keep=9")
        self.assertIn(f"continues the finished run in {self.run_dir()}: train.epochs was 2, is 3", text)
        self.assertIn("resumes at step 20, epoch 3,", text)
        rates = {r["step"]: r["lr"] for r in records(self.run_dir(), "step")}
        self.assertEqual(sorted(rates), [*range(1, 21), 25, 30])
        change = re.search(
            r"planned for 20 steps and now has 30: the schedule changes with it, and the learning rate goes from (\S+) in step 20 to (\S+) in step 21$",
            text, re.MULTILINE,
        )  # fmt: skip
        self.assertIsNotNone(change, text)
        self.assertAlmostEqual(float(change[1]), rates[20], delta=1e-2 * rates[20])
        self.assertGreater(float(change[2]), 10 * rates[20])
        # Under another name, from a path: no key of these is part of what is trained.
        saved = self.run_dir() / "checkpoints" / "step-000020"
        text = self.launch(3, *job, "name=other", "train.epochs=1", f"checkpoint.resume={saved}")
        self.assertIn("planned for 20 steps and now has 10: 20 are done, so it ends here; with more it goes on", text)
        self.assertIn("nothing is left to train", text)
        self.assertNotIn("per step:", text)
        self.assertNotIn("images/s\n", text)
        # From the middle of an epoch that this job does not have.
        self.launch(3, *job, "name=longer", "train.epochs=4", "checkpoint.every_steps=5", "checkpoint.keep=9")
        saved = self.run_dir("longer") / "checkpoints" / "step-000035"
        text = self.launch(3, *job, "name=shorter", "train.epochs=3", f"checkpoint.resume={saved}")
        self.assertIn("nothing is left to train: 3 epochs are done, train.epochs is 3", text)
        self.assertRegex(text, r"epoch 4, beyond train.epochs=3 \| test ")
        self.assertNotIn("4/3", text)
        self.assertNotRegex(text, r"\b0 images/s|  0\n")
        # The same once more is a new run, as ever.
        notice = f"new run directory {self.run_dir('job2')} ({self.run_dir()} is not continued: it is finished)\n"
        self.assertIn(notice, self.launch(3, *job, "train.epochs=3"))

    def test_a_static_graph_goes_on_bit_for_bit(self):
        # Its buckets have their final layout after the second backward, not after the first.
        job = ("data.train_size=480", "ddp.bucket=20KiB", "ddp.static_graph=true")
        self.launch(3, *job)
        chosen = self.run_dir() / "checkpoints" / "step-000010"
        self.launch(3, *job, f"checkpoint.resume={chosen}")
        self.assert_same_epochs(records(self.run_dir(), "epoch")[1:], records(self.run_dir("job2"), "epoch"))

    def test_everything_that_a_run_remembers_goes_on_bit_for_bit(self):
        remembers = {
            "moments, step counts, averages and the plateau": (
                "optimizer.name=adamw", "optimizer.lr=0.003", "optimizer.ema_decay=0.9", "optimizer.ema_ramp=8",
                "train.non_finite=skip",
                "schedule.name=plateau", "schedule.patience=0", "schedule.threshold=0.5",
            ),
            "masters of low weights": ("amp.level=O2", "ddp.hook=bf16", "data.batch_per_rank=4", "data.train_size=120", "data.test_size=50"),
        }  # fmt: skip
        for number, (what, keys) in enumerate(remembers.items()):
            job = ("data.train_size=480", "train.epochs=3", "ddp.check_replicas_every=5", f"output={number}", *keys)
            self.launch(3, *job)
            whole = self.folder / str(number) / "job"
            self.launch(3, *job, f"checkpoint.resume={whole / 'checkpoints' / 'step-000010'}")
            with self.subTest(what):
                self.assert_same_epochs(records(whole, "epoch")[1:], records(self.folder / str(number) / "job2", "epoch"))
        rates = [record["lr"] for record in records(self.folder / "0" / "job2", "step")]
        self.assertLess(rates[-1], rates[0], "the plateau never dropped the rate, so its memory was not needed")

    def test_dropout_goes_on_bit_for_bit_and_knows_no_threads(self):
        job = ("data.train_size=480", "model.name=mlp", "model.args.dropout=0.4", "train.epochs=3")
        losses = {}
        for threads in (1, 2, 4):
            settings = {"OMP_NUM_THREADS": str(threads)}
            self.launch(3, *job, f"output={threads}", **settings)
            whole = self.folder / str(threads) / "job"
            losses[threads] = [record["loss"] for record in records(whole, "step")]
            if threads == 2:
                self.launch(3, *job, f"output={threads}", f"checkpoint.resume={whole / 'checkpoints' / 'step-000010'}", **settings)
                self.assert_same_epochs(records(whole, "epoch")[1:], records(self.folder / str(threads) / "job2", "epoch"))
        self.launch(3, *job, "output=dry", "model.args.dropout=0")
        dry = [record["loss"] for record in records(self.folder / "dry" / "job", "step")]
        for threads in (2, 4):
            # Other masks would differ as those of no dropout do: in the first digits.
            for one, other in zip(losses[1], losses[threads], strict=True):
                self.assertAlmostEqual(one, other, delta=1e-4 * one)
        self.assertGreater(max(abs(a - b) / a for a, b in zip(losses[1], dry, strict=True)), 1e-2)


class Killed(ResumeTest):
    """Whatever is left of its checkpoints."""

    # Ten steps an epoch: the run waits before a save of the test's choice until it is killed, for as long as that takes.
    STEPS = 10
    COMMON = ("data.train_size=480", "ddp.bucket=64KiB")

    def kill_in_save(self, number, line, *arguments):
        """Before the save of that number, once the line was printed, and what comes before it is on the disk."""
        self.interrupt(signal.SIGKILL, line, *arguments, DDP_FAILPOINTS=f"save.snapshot=sleep:{HOLD}@{number}")

    def kill_in_the_third_epoch(self):
        """A run of three epochs, once for all tests of the class: each has what is left of it in run_dir()."""
        left = self.shared / "killed"
        if left.exists():
            shutil.copytree(left, self.run_dir(), symlinks=True)
            return
        self.kill_in_save(3, "epoch 2/3", "train.epochs=3")
        shutil.copytree(self.run_dir(), left, symlinks=True)

    def test_a_killed_run_goes_on_from_its_last_checkpoint(self):
        whole = self.whole()
        self.kill_in_save(2, "epoch 1/2")
        self.assert_resumed(self.train(), self.STEPS, self.STEPS)
        self.assert_same_run(whole, self.run_dir())

    def test_an_interval_checkpoint_inside_an_epoch_goes_on_bit_for_bit(self):
        # Both runs save by the clock alone, at nearly every step; where they do changes nothing.
        often = ["checkpoint.every=0", "checkpoint.interval=1ms", "data.train_size=4800"]
        steps = 100  # long enough to be met in the middle
        self.train("output=whole", *often)
        self.interrupt(signal.SIGKILL, "epoch 1/2", *often)
        self.assert_resumed(self.train(*often), steps - 10, 2 * steps - 1)
        self.assert_same_run(self.folder / "whole" / "job", self.run_dir())

    def test_a_run_killed_before_its_first_checkpoint_starts_over_in_its_directory(self):
        whole = self.whole()
        self.kill_in_save(1, "batch:")
        text = self.train()
        self.assertIn("continues the unfinished run", text)
        self.assertNotIn("resumes at step", text)
        self.assert_same_run(whole, self.run_dir())

    def test_a_best_checkpoint_that_cannot_be_saved_leaves_the_best_of_the_others(self):
        # The highest loss is the best here: that of the first epoch.
        job = ("train.epochs=4", "checkpoint.keep=2", "eval.watch.metric=loss", "eval.watch.mode=max")
        self.kill_in_save(1, "batch:", *job)
        (self.run_dir() / "checkpoints").mkdir(exist_ok=True)
        (self.run_dir() / "checkpoints" / "step-000010").write_text("in the way", encoding="utf-8")
        text = self.train(*job)
        self.assertIn("the checkpoint of step 10 was not saved, training goes on", text)
        first, *others = records(self.run_dir(), "epoch")
        expected = max(others, key=lambda record: record["test_loss"])
        self.assertGreater(first["test_loss"], expected["test_loss"])
        best = (self.run_dir() / "checkpoints" / "best").read_text(encoding="utf-8").strip()
        self.assertEqual(best, f"step-{expected['step']:06}")
        self.assertTrue((self.run_dir() / "checkpoints" / best / "manifest.json").exists())

    def test_best_is_marked_at_the_next_start_after_a_kill(self):
        self.kill_in_the_third_epoch()
        best = self.run_dir() / "checkpoints" / "best"
        best.write_text("step-000007\n", encoding="utf-8")
        running, _ = self.interrupt(signal.SIGKILL, "resumes at step", "train.epochs=3", DDP_FAILPOINTS=f"save.snapshot=sleep:{HOLD}")
        self.assertTrue((best.parent / best.read_text(encoding="utf-8").strip()).is_dir(), running.text)
        self.train("train.epochs=3")

    def test_a_damaged_checkpoint_is_named_and_an_older_one_used(self):
        self.kill_in_the_third_epoch()
        newest = max(p for p in (self.run_dir() / "checkpoints").iterdir() if re.fullmatch(r"step-\d+", p.name))
        file = newest / "model.safetensors"
        raw = bytearray(file.read_bytes())
        raw[-5] ^= 1
        file.write_bytes(raw)
        text = self.train("train.epochs=3")
        self.assertIn(f"checkpoint {newest.name} is damaged", text)
        self.assertTrue(newest.with_name(newest.name + ".bad").exists())
        self.assert_resumed(text, self.STEPS, self.STEPS)

    def damage_all(self):
        """Of the newest run. Returns their names."""
        names = [p.name for p in (self.run_dir() / "checkpoints").iterdir() if re.fullmatch(r"step-\d+", p.name)]
        for name in names:
            file = self.run_dir() / "checkpoints" / name / "model.safetensors"
            file.write_bytes(file.read_bytes()[:-1])
        return names

    def test_when_all_are_damaged_each_is_named_and_training_says_from_where_it_starts(self):
        self.kill_in_the_third_epoch()
        names = self.damage_all()
        self.assertGreater(len(names), 1)
        text = self.train("train.epochs=3")
        for name in names:
            self.assertRegex(text, rf"(?m)checkpoint {name} is damaged \(.*\)$")
        self.assertEqual(text.count("none of this run's checkpoints can be used: training starts from the beginning\n"), 1, text)
        self.assertNotIn("resumes at step", text)

    def test_the_checkpoint_that_the_job_names_is_started_from_again_and_refused_when_damaged(self):
        self.train("train.epochs=1", "output=other")
        there = self.folder / "other" / "job" / "checkpoints"
        saved = min(there.glob("step-*"))
        # A later round goes on with its own, or else from that one again. The first waits before it saves its second epoch.
        program = self.folder / "held.sh"
        program.write_text(
            f'#!/bin/sh\n[ "$TORCHELASTIC_RESTART_COUNT" = 0 ] && export DDP_FAILPOINTS=save.snapshot=sleep:{HOLD}@2\nexec {self.bin}/ddp-worker "$@"\n',
            encoding="ascii",
        )
        program.chmod(0o700)
        launch = (self.bin / "ddp-launch", "--nproc-per-node", 3, "--max-restarts", 1, "job.yaml", *self.COMMON)
        running = self.start(*launch, "train.epochs=3", f"checkpoint.resume={saved}", f"launch.program={program}")
        self.wait_for_saved(running, "epoch 2/3")
        pids = running.wait_for_pids(3)
        self.damage_all()
        os.kill(pids[1], signal.SIGKILL)
        self.assertEqual(running.finish(), 0, running.text)
        self.assertIn(f"training starts from {saved}, as checkpoint.resume says\n", running.text)
        self.assertEqual(running.text.count(f"from {saved}\n"), 2, running.text)
        (saved / "model.safetensors").write_bytes(b"")
        text = self.launch(3, *self.COMMON, "name=again", f"checkpoint.resume={saved}", expect=2)
        self.assertIn(f"cannot load checkpoint {saved}: model.safetensors: expected ", text)


if __name__ == "__main__":
    unittest.main()
