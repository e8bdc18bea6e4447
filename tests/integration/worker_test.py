"""ddp-worker as a user meets it: alone and on several ranks, stopped, killed, resumed, and given nonsense.

Run by hand: DDP_BIN=build/release DDP_RANKS_TOOL=... PYTHONPATH=tests/support python3 tests/integration/worker_test.py
"""

import gzip
import json
import math
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import sys
import tempfile
import time
import unittest

from processes import ProcessTest
from run_files import read_tensors, records

JOB = """
name: job
data: {name: digits, batch_per_rank: 16, train_size: 800, test_size: 200}
schedule: {warmup: 0.5}
train: {epochs: 2, log_every: 1}
"""


class WorkerTest(ProcessTest):
    def setUp(self):
        super().setUp()
        (self.folder / "job.yaml").write_text(JOB, encoding="utf-8")

    def worker(self, *arguments, **keywords):
        return self.run_program(self.bin / "ddp-worker", "job.yaml", *arguments, **keywords)

    def launch(self, ranks, *arguments, **keywords):
        command = [self.bin / "ddp-launch", "--nproc-per-node", ranks, "job.yaml", *arguments]
        return self.run_program(*command, **keywords)

    def write_images(self, folder, count, missing=0):
        """MNIST's files with `count` black images to train on, the last `missing` bytes of them cut off."""
        folder.mkdir()
        for part, size, cut in (("train", count, missing), ("t10k", 10, 0)):
            images = struct.pack(">4i", 2051, size, 28, 28) + bytes(784 * size)
            (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 2049, size) + bytes(size))
            with gzip.open(folder / f"{part}-images-idx3-ubyte.gz", "wb") as file:
                file.write(images[: len(images) - cut])

    def run_dir(self, name="job"):
        return self.folder / "runs" / name

    def wait_for_saved(self, running, epoch, run_dir=None):
        """Reads until the line of an epoch ("epoch 2/4") was printed, and waits until its checkpoint is on the disk: it is written while
        training goes on."""
        running.wait_for(epoch)
        place = f'"epoch":{re.search("[0-9]+", epoch)[0]},"step_in_epoch":0,'

        def is_there():
            try:
                manifests = ((run_dir or self.run_dir()) / "checkpoints").glob("step-*[0-9]/manifest.json")
                return any(place in path.read_text(encoding="utf-8") for path in manifests)
            except FileNotFoundError:
                return False  # an old one that goes just now

        running.wait_until(is_there, f"the checkpoint of {epoch}")

    def assert_same_run(self, one, other):
        """Equal losses, epoch sums and final weights, bit for bit."""
        for kind in ("step", "epoch"):
            timeless = [
                [{k: v for k, v in r.items() if k not in ("images_per_s", "seconds") and not k.endswith("_ms")} for r in records(run, kind)]
                for run in (one, other)
            ]
            self.assertEqual(timeless[0], timeless[1])
        last = (one / "checkpoints" / "latest").read_text(encoding="utf-8").strip()
        for file in ("model.safetensors", "optimizer.safetensors"):
            self.assertEqual(read_tensors(one / "checkpoints" / last / file), read_tensors(other / "checkpoints" / last / file))


class Alone(WorkerTest):
    def test_trains_without_any_launcher_and_leaves_its_records(self):
        text = self.worker()
        self.assertIn("rank 0 of 1", text)
        self.assertIn("ddp-worker: not distributed: one process\n", text)
        self.assertIn("batch: 16 per rank x 1 rank x 1 accumulate = 16", text)
        self.assertRegex(text, r"epoch 2/2 \| train loss 0?\.?\d")
        run = self.run_dir()
        self.assertEqual(len(records(run, "step")), 100)
        self.assertEqual([r["epoch"] for r in records(run, "epoch")], [1, 2])
        self.assertGreater(min(r["images_per_s"] for r in records(run, "step")), 0)
        self.assertEqual(json.loads((run / "result.json").read_text(encoding="utf-8"))["state"], "finished")
        self.assertEqual(sorted(p.name for p in (run / "checkpoints").glob("step-*")), ["step-000050", "step-000100"])
        self.assertTrue(list(run.glob("events.out.tfevents.*")))
        self.assertEqual((self.folder / "runs" / "latest").readlink(), pathlib.Path("job"))

    def test_a_reader_that_leaves_does_not_end_the_run(self):
        closed = ["sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', self.bin / "ddp-worker", "job.yaml", "output=closed"]
        self.run_program(*closed)
        self.assertEqual(len(records(self.folder / "closed" / "job", "step")), 100)
        self.assertEqual((self.folder / "closed" / "job" / ".lock").read_bytes(), b"")
        early = ["bash", "-c", '"$0" "$@" | head -n 1; exit ${PIPESTATUS[0]}', self.bin / "ddp-worker", "job.yaml", "output=early"]
        self.run_program(*early)
        self.assertEqual(len(records(self.folder / "early" / "job", "step")), 100)

    def test_the_same_seed_gives_the_same_run(self):
        self.worker("output=a")
        self.worker("output=b")
        self.worker("output=c", "seed=2")
        self.assert_same_run(self.folder / "a" / "job", self.folder / "b" / "job")
        self.assertNotEqual(records(self.folder / "a" / "job", "step"), records(self.folder / "c" / "job", "step"))

    def test_a_set_that_lies_on_the_device_trains_as_one_that_is_loaded(self):
        moves = "data.augment=[{crop: {padding: 3, border: reflect}}, flip, {cutout: {size: 6, count: 2}}]"
        # 820 samples: the last step has 4, for three ranks.
        keys = ("data.train_size=820", "data.repeats=2", "schedule.name=constant", moves)
        for ranks, start in ((1, self.worker), (3, lambda *words: self.launch(3, *words))):
            loaded, resident = (self.folder / f"{kind}{ranks}" for kind in ("loaded", "resident"))
            start(*keys, "data.resident=false", f"output={loaded}")
            text = start(*keys, "data.resident=true", f"output={resident}")
            self.assertEqual(len(re.findall(r"data.resident: digits (?:train|test) lies on cpu", text)), 2, text)
            self.assert_same_run(loaded / "job", resident / "job")
        # From the middle of the second epoch of a run whose batches were loaded.
        self.worker(*keys, "output=stopped", "data.resident=false", "train.max_steps=70")
        end = self.folder / "stopped" / "job" / "checkpoints" / "step-000070"
        self.worker(*keys, "output=stopped", "data.resident=true", f"checkpoint.resume={end}")
        whole, rest = (records(self.folder / run, "step") for run in ("loaded1/job", "stopped/job2"))
        self.assertEqual([r["loss"] for r in whole[70:]], [r["loss"] for r in rest])
        self.assertEqual(len(rest), 104 - 70)

    def test_demanded_residence_is_refused_when_impossible(self):
        self.assertNotIn("data.resident", self.worker("data.augment=[rotate]", "train.epochs=1"))
        text = self.launch(2, "data.augment=[flip, rotate]", "data.resident=true", expect=2)
        why = "data.resident: digits train cannot lie on cpu: data.augment has rotate, and a device makes"
        self.assertEqual(len(re.findall(rf"(?m)^\[0:\d+\] ddp-worker: .*{why}", text)), 1, text)
        self.assertIn(why, self.worker("--check", "data.augment=[rotate, flip]", "data.resident=true", expect=2))
        self.assertNotIn("data.resident", self.worker("--check", "data.augment=[flip]", "data.resident=true"))

    def test_replicas_in_one_process_train_as_one_device_and_resume(self):
        split = ("parallel=data", "devices=[cpu, cpu, cpu]", "output_device=cpu")
        # At the default rate a rounding decides at step 41 which way the run takes.
        keys = ("model.freeze=[conv1.*]", "optimizer.ema_decay=0.9", "data.batch_per_rank=10", "optimizer.lr=0.005")
        self.worker(*keys, "output=one")
        self.worker(*keys, *split, "output=three")
        one, three = (records(self.folder / name / "job", "step") for name in ("one", "three"))
        self.assertEqual(len(one), len(three))
        for a, b in zip(one, three, strict=True):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-3 * max(1, a["loss"]))
        chosen = self.folder / "three" / "job" / "checkpoints" / "step-000080"
        self.worker(*keys, *split, "output=three", f"checkpoint.resume={chosen}")
        again = records(self.folder / "three" / "job2", "step")
        self.assertEqual([r["loss"] for r in three[80:]], [r["loss"] for r in again])
        self.assertIn("is not there", self.worker(*split[:1], "devices=[cpu, cuda:7]", expect=2))

    def test_check_says_what_a_job_takes_and_writes_nothing(self):
        text = self.worker("--check", "model.name=resnet50", "optimizer.name=adam")
        self.assertIn("model resnet50: 23519690 parameters", text)
        # 4 bytes each for weights and gradients, 8 for Adam's moments.
        self.assertIn("gradients 89.7 MiB, optimizer 179.4 MiB", text)
        self.assertFalse((self.folder / "runs").exists())
        text = self.worker("--check", "model.name=mlp", 'model.args={hidden: "1000000,1000000"}', expect=2)
        self.assertRegex(text, r"model.name: mlp cannot be built .*\b\d{12,} bytes")

    def test_a_second_run_gets_its_own_directory(self):
        self.worker("train.epochs=1")
        self.assertIn("runs/job2", self.worker("train.epochs=1"))

    def test_accumulation_changes_the_rounding_only(self):
        # 820 samples: the last step has 20, in micro-steps of 16 and 4. Each sample counts alike.
        common = ["train.epochs=1", "data.train_size=820"]
        self.worker("output=a", "data.batch_per_rank=32", *common)
        self.worker("output=b", "data.batch_per_rank=16", "train.accumulate=2", *common)
        whole, parts = (records(self.folder / name / "job", "step") for name in ("a", "b"))
        self.assertEqual(len(whole), 26)
        for a, b in zip(whole, parts):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-4)
        ours, theirs = (self.weights(name, "step-000026") for name in ("a", "b"))
        worst = max(abs(x - y) for name in ours for x, y in zip(ours[name], theirs[name]))
        self.assertLess(worst, 1e-5)

    def weights(self, output, checkpoint):
        """Name to numbers, of a float32 model."""
        tensors = read_tensors(self.folder / output / "job" / "checkpoints" / checkpoint / "model.safetensors")
        return {name: struct.unpack(f"<{len(raw) // 4}f", raw) for name, (_, _, raw) in tensors.items()}

    def test_weights_can_come_from_a_file(self):
        self.worker("output=a", "train.epochs=1")
        weights = self.folder / "a/job/checkpoints/step-000050/model.safetensors"
        self.worker("output=b", "train.epochs=1", f"model.weights={weights}", "optimizer.lr=1e-30", "optimizer.weight_decay=0")
        self.assertEqual(read_tensors(self.folder / "b/job/checkpoints/step-000050/model.safetensors"), read_tensors(weights))
        text = self.worker("output=c", "model.name=linear", f"model.weights={weights}", expect=2)
        self.assertIn("fc.weight", text)
        for content in ("optimizer", "state"):
            text = self.worker("output=c", f"model.weights={weights.parent}/{content}.safetensors", expect=2)
            self.assertIn(f"{content}.safetensors: it holds the {content} of a checkpoint, not weights", text)

    def test_files_of_a_run_are_never_wider_than_for_the_group_to_read(self):
        """Case A8."""
        self.run_program("sh", "-c", f"umask 0; exec '{self.bin}/ddp-launch' --nproc-per-node 2 job.yaml train.epochs=1")
        run = self.folder / "runs/job"
        wide = [path for path in (run, *run.rglob("*")) if path.lstat().st_mode & 0o027 and not path.is_symlink()]
        self.assertEqual(wide, [])
        self.assertEqual((run / "checkpoints/latest").stat().st_mode & 0o777, 0o640)


class Ranks(WorkerTest):
    def parameters(self, ranks, steps, batch, accumulate, bucket):
        out = self.folder / f"{ranks}-{batch}-{accumulate}.safetensors"
        tool = os.environ["DDP_RANKS_TOOL"]
        text = self.run_program(
            self.bin / "ddp-launch", "--no-python", "--nproc-per-node", ranks, tool, steps, batch, accumulate, bucket, out
        )
        self.assertRegex(text, r"odd ranks:\n")
        self.assertNotIn("Warning", text)  # of LibTorch, of what a release of it deprecates
        return {name: struct.unpack(f"<{len(raw) // 8}d", raw) for name, (_, _, raw) in read_tensors(out).items()}

    def assert_close(self, ours, theirs):
        self.assertEqual(set(ours), set(theirs))
        for name, values in theirs.items():
            # Double precision: only the order of the sums differs.
            worst = max(abs(a - b) for a, b in zip(ours[name], values))
            self.assertLess(worst, 1e-12, name)

    def test_two_ranks_equal_one_with_twice_the_batch(self):
        # Small buckets: several all-reduces per step, started while backward runs.
        self.assert_close(self.parameters(2, 6, 16, 1, 65536), self.parameters(1, 6, 32, 1, 65536))

    def test_two_ranks_with_micro_steps_equal_one_with_the_whole_batch(self):
        self.assert_close(self.parameters(2, 4, 16, 2, 26214400), self.parameters(1, 4, 64, 1, 26214400))

    def test_three_ranks_too(self):
        self.assert_close(self.parameters(3, 4, 10, 1, 65536), self.parameters(1, 4, 30, 1, 65536))

    def test_gradients_travel_while_backward_computes(self):
        text = self.run_program(
            self.bin / "ddp-launch", "--no-python", "--nproc-per-node", 2, os.environ["DDP_RANKS_TOOL"],
            8, 16, 1, 65536, self.folder / "x",
        )  # fmt: skip
        rebuilt, overlap = re.search(r"rebuilt (\d) overlap (\S+)", text).groups()
        self.assertEqual(rebuilt, "1")
        self.assertGreater(float(overlap), 0, "all-reduces began only after backward")

    def test_each_way_to_train_learns_and_keeps_the_replicas_equal(self):
        ways = (
            ("optimizer.name=adam", "optimizer.lr=0.002", "amp.level=O1", "loss.label_smoothing=0.1", "ddp.hook=fp16"),
            ("amp.level=O3", "ddp.find_unused=true", "train.clip_norm=1", "optimizer.decay_norms_and_biases=false"),
            ("ddp.static_graph=true", "loss.reduction=sum", "optimizer.lr_factors={conv1.*: 0.5}", "model.freeze=[conv1.bias]"),
            ("model.name=lenet", "optimizer.lr=0.01", "train.accumulate=2", "ddp.broadcast_buffers=true"),
            ("model.name=resnet18", "model.norm=sync", "optimizer.lr=0.002", "data.train_size=96", "data.test_size=32"),
        )
        for number, way in enumerate(ways):
            self.launch(2, f"output={number}", "ddp.check_replicas_every=3", *way)
            first, last = records(self.folder / str(number) / "job", "epoch")
            with self.subTest(way):
                self.assertLess(last["train_loss"], first["train_loss"])

    def launch_odd(self, how, *arguments, expect):
        """Three ranks, of which rank 1 goes wrong."""
        program = f"launch.program={os.environ['DDP_FAULTY_WORKER']}"
        return self.launch(3, program, *arguments, expect=expect, FAULTY_RANK=how)

    def test_a_bit_that_turns_over_while_training_is_found_within_the_interval(self):
        text = self.launch_odd("flip", "ddp.check_replicas_every=4", expect=96)
        # An epoch has 17 steps; the comparison after it is that of step 20.
        self.assertIn("replicas differ at step 20: the weights of rank 1 are not those of the others", text)
        self.launch_odd("none", "ddp.check_replicas_every=4", "output=even", expect=0)

    def test_another_model_or_data_set_on_one_rank_is_refused_by_name(self):
        for how, what in (("model", "fc1.weight: Float [48, 784]"), ("data", "801 images")):
            start = time.monotonic()
            text = self.launch_odd(how, "model.name=mlp", "model.args={hidden: 32}", expect=203)
            self.assertLess(time.monotonic() - start, 10)  # loaded machines: without refusal it would be a hang, or minutes
            self.assertRegex(text, f"rank 1 .*{re.escape(what)}")

    def test_a_flipped_bit_is_found_and_its_rank_named(self):
        text = self.run_program(
            self.bin / "ddp-launch", "--no-python", "--nproc-per-node", 3, os.environ["DDP_RANKS_TOOL"],
            2, 8, 1, 65536, self.folder / "x", "flip",
        )  # fmt: skip
        self.assertIn("odd ranks: 1\n", text)

    def test_evaluation_counts_every_sample_once(self):
        # 200 test samples over 3 ranks: no padding. The same weights must give the same accuracy as alone.
        weights = self.folder / "a/job/checkpoints/step-000050/model.safetensors"
        self.worker("output=a", "train.epochs=1")
        frozen = ["train.epochs=1", f"model.weights={weights}", "optimizer.lr=1e-30", "optimizer.weight_decay=0"]
        self.worker("output=b", *frozen)
        self.launch(3, "output=c", *frozen)
        alone, three = (records(self.folder / name / "job", "epoch")[0] for name in ("b", "c"))
        self.assertEqual(alone["test_accuracy"], three["test_accuracy"])
        self.assertAlmostEqual(alone["test_loss"], three["test_loss"], delta=1e-9 + 1e-6 * alone["test_loss"])

    def test_the_whole_batch_is_divided(self):
        job = JOB.replace("batch_per_rank: 16", "batch: 48")
        (self.folder / "job.yaml").write_text(job, encoding="utf-8")
        self.assertIn("16 per rank x 3 ranks x 1 accumulate = 48", self.launch(3, "train.epochs=1"))
        self.assertIn("batch: 48 over 5 ranks x 1 accumulate, at most 10 at a time", self.launch(5, "train.epochs=1"))
        text = self.launch(5, "train.accumulate=10", expect=2)
        self.assertIn("data.batch: 48 is too few for 5 ranks x 10 micro-steps", text)


class Evaluations(WorkerTest):
    """How often the test set is asked, what decides, and when it was enough."""

    def test_patience_ends_the_run_on_all_ranks(self):
        frozen = ("optimizer.lr=1e-30", "optimizer.weight_decay=0", "train.epochs=9", "eval.patience=2")
        text = self.launch(2, *frozen)
        self.assertIn("stops early: 2 evaluations without gain in accuracy", text)
        self.assertEqual(len(records(self.run_dir(), "epoch")), 3)
        result = json.loads((self.run_dir() / "result.json").read_text(encoding="utf-8"))
        self.assertEqual((result["state"], result["exit_code"]), ("finished", 0))
        latest = (self.run_dir() / "checkpoints/latest").read_text(encoding="utf-8").strip()
        self.assertEqual(latest, "step-000075")

    def test_steps_in_place_of_epochs(self):
        often = ("eval.every_steps=10", "checkpoint.every_steps=15", "checkpoint.keep=9", "checkpoint.every=0")
        job = (*often, "train.epochs=9", "schedule.name=constant")
        text = self.launch(2, *job, "train.max_steps=33")
        self.assertIn("step 20 | test loss", text)
        self.assertEqual([r["step"] for r in records(self.run_dir(), "evaluation")], [10, 20, 30])
        self.assertEqual([r["step"] for r in records(self.run_dir(), "epoch")], [25, 33])
        self.assertEqual(len(records(self.run_dir(), "step")), 33)
        kept = {int(p.name[5:]) for p in (self.run_dir() / "checkpoints").glob("step-*")}
        self.assertLessEqual({15, 30, 33}, kept)
        # From the end in the middle of an epoch, as if it had never ended.
        end = self.run_dir() / "checkpoints" / "step-000033"
        self.assertIn("resumes at step 33", self.launch(2, *job, "train.max_steps=45", f"checkpoint.resume={end}"))
        self.launch(2, *job, "train.max_steps=45", "output=whole")
        parts, whole = self.run_dir("job2"), self.folder / "whole" / "job"
        self.assertEqual(records(parts, "epoch")[-1]["train_loss"], records(whole, "epoch")[-1]["train_loss"])
        weights = "checkpoints/step-000045/model.safetensors"
        self.assertEqual(read_tensors(parts / weights), read_tensors(whole / weights))

    def test_the_watched_number_decides_what_is_best(self):
        self.launch(2, "eval.watch.metric=loss", "train.epochs=3")
        epochs = records(self.run_dir(), "epoch")
        best = min(epochs, key=lambda record: record["test_loss"])
        self.assertEqual((self.run_dir() / "checkpoints/best").read_text(encoding="utf-8").strip(), f"step-{best['step']:06}")
        text = self.launch(2, "eval.watch.metric=map50", "output=other", expect=2)
        self.assertIn("eval.watch.metric: an evaluation of this task has no map50. It has: loss, accuracy.", text)

    def test_the_test_loss_is_without_smoothing_and_small_batches_change_nothing(self):
        frozen = ("optimizer.lr=1e-30", "optimizer.weight_decay=0", "train.epochs=1")
        self.worker(*frozen)
        self.worker(*frozen, "loss.label_smoothing=0.2", "output=smooth")
        self.worker(*frozen, "eval.batch=7", "output=small")
        plain, smooth, small = (records(self.folder / name / "job", "epoch")[0] for name in ("runs", "smooth", "small"))
        self.assertEqual(plain["test_loss"], smooth["test_loss"])
        self.assertNotEqual(plain["train_loss"], smooth["train_loss"])
        self.assertEqual(plain["test_accuracy"], small["test_accuracy"])
        self.assertAlmostEqual(plain["test_loss"], small["test_loss"], delta=1e-6)


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

    def interrupt(self, signal_number, line, *arguments):
        """Starts a run and sends its launcher the signal once the line was printed."""
        running = self.start(self.bin / "ddp-launch", "--nproc-per-node", 3, "job.yaml", *self.COMMON, *arguments)
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
        job = ("data.train_size=960", "data.test_size=30000", "train.epochs=2")
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
                self.bin / "ddp-launch", "--nproc-per-node", 3, "job.yaml", *self.COMMON, "train.epochs=9", output
            )
            running.wait_for("epoch 1/9")
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

    def test_a_checkpoint_of_the_users_choice_starts_a_new_run(self):
        self.train()
        chosen = self.run_dir() / "checkpoints" / "step-000100"
        text = self.train(f"checkpoint.resume={chosen}")
        self.assertIn("resumes at step 100", text)
        self.assert_same_epochs(records(self.run_dir(), "epoch")[1:], records(self.run_dir("job2"), "epoch"))

    def test_a_run_goes_on_without_the_weights_it_began_with(self):
        self.train("train.epochs=1", "output=first")
        weights = self.folder / "first.safetensors"
        (self.folder / "first/job/checkpoints/step-000100/model.safetensors").rename(weights)
        self.train(f"model.weights={weights}", "output=whole")
        running, code = self.interrupt(signal.SIGTERM, "epoch 1/2", f"model.weights={weights}")
        self.assertEqual(code, 143, running.text)
        weights.unlink()
        text = self.train(f"model.weights={weights}")
        self.assert_resumed(text, self.STEPS + 1, 2 * self.STEPS - 1)
        self.assertRegex(text, r"this run goes on with the weights of its checkpoint: model.weights: \S+/first.safetensors: No such file or directory")
        self.assert_same_run(self.folder / "whole" / "job", self.run_dir())
        self.assertIn("first.safetensors: No such file", self.launch(3, *self.COMMON, f"model.weights={weights}", "output=fresh", expect=2))

    def test_an_interrupted_run_goes_on_whatever_it_began_with(self):
        self.launch(3, *self.COMMON, "train.epochs=1", "output=other")
        for start in ("never", self.folder / "other/job/checkpoints/step-000100"):
            output = f"output={pathlib.Path(start).name}"
            begun = ("train.epochs=3", f"checkpoint.resume={start}", output)
            self.interrupt(signal.SIGTERM, "epoch 2/3", *begun)
            self.assert_resumed(self.train(*begun), 2 * self.STEPS + 1, 3 * self.STEPS - 1)
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
            "masters of low weights": ("amp.level=O2", "ddp.hook=bf16"),
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

    def test_a_killed_run_goes_on_from_its_last_checkpoint(self):
        whole = self.whole()
        self.interrupt(signal.SIGKILL, "epoch 1/2")
        self.assert_resumed(self.train(), self.STEPS, self.STEPS)
        self.assert_same_run(whole, self.run_dir())

    def test_an_interval_checkpoint_inside_an_epoch_goes_on_bit_for_bit(self):
        # Both runs save by the clock alone, at nearly every step; where they do changes nothing.
        often = ["checkpoint.every=0", "checkpoint.interval=1ms"]
        self.train("output=whole", *often)
        self.interrupt(signal.SIGKILL, "epoch 1/2", *often)
        self.assert_resumed(self.train(*often), self.STEPS - 10, 2 * self.STEPS - 1)
        self.assert_same_run(self.folder / "whole" / "job", self.run_dir())

    def test_a_run_killed_before_its_first_checkpoint_starts_over_in_its_directory(self):
        whole = self.whole()
        self.interrupt(signal.SIGKILL, "batch:")
        text = self.train()
        self.assertIn("continues the unfinished run", text)
        self.assertNotIn("resumes at step", text)
        self.assert_same_run(whole, self.run_dir())

    def test_a_best_checkpoint_that_cannot_be_saved_leaves_the_best_of_the_others(self):
        # The highest loss is the best here: that of the first epoch.
        job = ("train.epochs=4", "checkpoint.keep=2", "eval.watch.metric=loss", "eval.watch.mode=max")
        self.interrupt(signal.SIGKILL, "batch:", *job)
        (self.run_dir() / "checkpoints").mkdir(exist_ok=True)
        (self.run_dir() / "checkpoints" / "step-000100").write_text("in the way", encoding="utf-8")
        text = self.train(*job)
        self.assertIn("the checkpoint of step 100 was not saved, training goes on", text)
        first, *others = records(self.run_dir(), "epoch")
        expected = max(others, key=lambda record: record["test_loss"])
        self.assertGreater(first["test_loss"], expected["test_loss"])
        best = (self.run_dir() / "checkpoints" / "best").read_text(encoding="utf-8").strip()
        self.assertEqual(best, f"step-{expected['step']:06}")
        self.assertTrue((self.run_dir() / "checkpoints" / best / "manifest.json").exists())

    def test_best_is_marked_at_the_next_start_after_a_kill(self):
        self.interrupt(signal.SIGKILL, "epoch 2/3", "train.epochs=3")
        best = self.run_dir() / "checkpoints" / "best"
        best.write_text("step-000007\n", encoding="utf-8")
        running, _ = self.interrupt(signal.SIGKILL, "resumes at step", "train.epochs=3")
        self.assertTrue((best.parent / best.read_text(encoding="utf-8").strip()).is_dir(), running.text)
        self.train("train.epochs=3")

    def test_a_damaged_checkpoint_is_named_and_an_older_one_used(self):
        self.interrupt(signal.SIGKILL, "epoch 2/3", "train.epochs=3")
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
        self.interrupt(signal.SIGKILL, "epoch 2/3", "train.epochs=3")
        names = self.damage_all()
        self.assertGreater(len(names), 1)
        text = self.train("train.epochs=3")
        for name in names:
            self.assertRegex(text, rf"(?m)checkpoint {name} is damaged \(.*\)$")
        self.assertEqual(text.count("none of this run's checkpoints can be used: training starts from the beginning\n"), 1, text)
        self.assertNotIn("resumes at step", text)

    def test_the_checkpoint_that_the_job_names_is_started_from_again_and_refused_when_damaged(self):
        self.train("output=other")
        there = self.folder / "other" / "job" / "checkpoints"
        saved = min(there.glob("step-*"))
        # A later round goes on with its own, or else from that one again.
        launch = (self.bin / "ddp-launch", "--nproc-per-node", 3, "--max-restarts", 1, "job.yaml", *self.COMMON)
        running = self.start(*launch, "train.epochs=4", f"checkpoint.resume={saved}")
        self.wait_for_saved(running, "epoch 2/4")
        pids = running.wait_for_pids(3)
        self.damage_all()
        os.kill(pids[1], signal.SIGKILL)
        self.assertEqual(running.finish(), 0, running.text)
        self.assertIn(f"training starts from {saved}, as checkpoint.resume says\n", running.text)
        self.assertEqual(running.text.count(f"from {saved}\n"), 2, running.text)
        (saved / "model.safetensors").write_bytes(b"")
        text = self.launch(3, *self.COMMON, "name=again", f"checkpoint.resume={saved}", expect=2)
        self.assertIn(f"cannot load checkpoint {saved}: model.safetensors: expected ", text)


class BadInput(WorkerTest):
    def test_a_port_where_somebody_else_listens_is_no_store(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            join = ("--init-method", f"tcp://127.0.0.1:{silent.getsockname()[1]}", "--rank", 1, "--world-size", 2)
            text = self.worker(*join, "ddp.join_timeout=2s", expect=202)
        self.assertIn("Somebody listens there, but it is not a store", text)

    def assert_said_once(self, what, text):
        """By one rank; the launcher's report may quote it."""
        self.assertEqual(len(re.findall(rf"(?m)^\[0:\d+\] ddp-worker: .*{what}", text)), 1, text)

    def test_every_mistake_of_a_job_file_is_said_at_once(self):
        (self.folder / "bad.yaml").write_text("epoch: 3\ndata: {batch_per_rank: -1}\noptimizer:\n  momentun: 0.9\n", encoding="utf-8")
        for program in ("ddp-worker", "ddp-launch"):
            text = self.run_program(self.bin / program, "bad.yaml", expect=2)
            self.assertIn('bad.yaml:1:1: epoch: unknown key, did you mean "train.epochs"?', text)
            self.assertIn("bad.yaml:2:24: data.batch_per_rank: -1 is not a whole number", text)
            self.assertIn('bad.yaml:4:3: optimizer.momentun: unknown key, did you mean "optimizer.momentum"?', text)
            self.assertFalse((self.folder / "runs").exists(), "nothing was started")

    def test_a_truncated_file_of_images_is_named_once(self):
        self.write_images(self.folder / "mnist", 60, missing=100)
        text = self.launch(2, "data.name=mnist", "data.root=mnist", "data.train_size=null", "data.test_size=null", expect=2)
        self.assert_said_once("train-images-idx3-ubyte", text)
        self.assertIn(f"found {16 + 60 * 784 - 100}", text)
        self.assertIn(f"expected {16 + 60 * 784}", text)
        self.assertRegex(text, r"rank 0 \(pid \d+\) has refused the job before its first step; exit code 2\.")

    def test_a_job_that_is_refused_before_its_first_step_leaves_no_directory(self):
        (self.folder / "bad.pt").write_bytes(b"x")
        for wrong in ("model.weights=bad.pt", 'model.freeze=["nothere.*"]'):
            for text in (self.launch(2, wrong, expect=2), self.worker(wrong, expect=2)):
                self.assertIn(f"no step was made: removed {self.folder}/runs/job", text)
                self.assertFalse((self.folder / "runs").exists())

    def test_a_missing_data_directory_is_one_message(self):
        text = self.launch(2, "data.name=mnist", "data.root=nowhere", expect=2)
        self.assertEqual(text.count("data.root nowhere does not exist"), 1, text)
        self.assertNotIn("[0:", text)  # no worker was started

    def test_data_that_cannot_be_read_is_one_message(self):
        """Case Y6, all but a missing directory."""
        for make, what in (
            (lambda file: file.write_bytes(b""), "train-images-idx3-ubyte"),
            (lambda file: file.mkdir(), "train-images-idx3-ubyte"),
            (lambda file: file.symlink_to(file.name), "train-images-idx3-ubyte"),
        ):
            folder = self.folder / "mnist"
            folder.mkdir()
            make(folder / "train-images-idx3-ubyte")
            for name in ("train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"):
                (folder / name).write_bytes(b"")
            begin = time.monotonic()
            text = self.launch(2, "data.name=mnist", "data.root=mnist", expect=2)
            self.assert_said_once(what, text)
            self.assertLess(time.monotonic() - begin, 5)  # the bound is 1 s after the group is there, on an idle machine
            shutil.rmtree(folder)

    def test_a_rank_by_hand_without_its_numbers_is_told_what_to_type(self):
        for method, why in (("tcp://127.0.0.1:29500", "no rank is known"), ("file:///tmp/x", "a file is not a meeting place")):
            text = self.worker("--init-method", method, expect=2)
            self.assertIn(why, text)
            self.assertIn("ddp-worker JOB.yaml --init-method tcp://HOST:29500 --rank 0 --world-size 2", text)

    @unittest.skipIf(os.path.exists("/proc/driver/nvidia/version"), "this machine has an NVIDIA driver")
    def test_a_gpu_that_is_not_there_is_refused_with_the_reason(self):
        text = self.worker("device=cuda", expect=2)
        self.assertIn("device: cuda cannot be used: there is no NVIDIA driver", text)
        self.assertIn("backend: nccl needs a GPU", self.worker("backend=nccl", expect=2))

    @unittest.skipIf(os.path.exists("/proc/driver/nvidia/version"), "this machine has an NVIDIA driver")
    def test_a_driver_without_files_tells_what_it_has(self):
        """As on WSL2: a stub of its library for CUDA, whose cuInit gives what the driver's could."""
        reasons = {
            "100": r"the NVIDIA driver \(cuInit: 100\) finds no GPU\. See nvidia-smi",
            "803": r"the NVIDIA driver \(cuInit: 803\) and the one in the kernel are of two versions",
            "999": r"the NVIDIA driver \(cuInit: 999\) fails for a reason that it does not know",
            "34": r"the NVIDIA driver \(cuInit: 34\) is not one: libcuda\.so\.1 is the stub",
        }
        for result, reason in reasons.items():
            with self.subTest(result):
                stub = {"LD_LIBRARY_PATH": os.environ["DDP_FAKE_CUDA_DIR"], "DDP_FAKE_CUINIT": result}
                text = self.worker("device=cuda", expect=2, **stub)
                self.assertRegex(text, rf"device: cuda cannot be used: {reason}")
                # On a node without GPUs the library alone is nothing to say; one that is out of order is.
                self.assertEqual("device: auto takes the cpu" in self.worker("--check", **stub), result != "100")
        # Its two GPUs are taken for such: what is missing now is the module for them, or a real driver behind it.
        text = self.worker("device=cuda", expect=2, LD_LIBRARY_PATH=os.environ["DDP_FAKE_CUDA_DIR"])
        self.assertNotIn("cuInit", text)
        self.assertRegex(text, r"device: cuda(:0)? (cannot be used: (?!there is no NVIDIA driver)|is not there: CUDA sees)")

    @unittest.skipIf(os.path.exists("/proc/driver/nvidia/version"), "this machine has an NVIDIA driver")
    def test_a_driver_that_hangs_keeps_nobody_from_the_cpu(self):
        stub = {"LD_LIBRARY_PATH": os.environ["DDP_FAKE_CUDA_DIR"], "DDP_FAKE_CUINIT": "hang"}
        begin = time.monotonic()
        text = self.worker("train.epochs=1", **stub)
        self.assertLess(time.monotonic() - begin, 60)  # ten seconds and the run, on an idle machine
        self.assertEqual(text.count("device: auto takes the cpu, as the NVIDIA driver has not answered within 10 s"), 1, text)
        self.assertIn("epoch 1/1", text)
        text = self.worker("device=cuda", expect=2, **stub)
        self.assertIn("device: cuda cannot be used: the NVIDIA driver has not answered within 10 s", text)

    def test_half_an_identity_is_refused(self):
        self.assertIn("WORLD_SIZE is not", self.worker(expect=2, RANK="0"))

    def test_nonsense_arguments_are_all_named(self):
        text = self.run_program(self.bin / "ddp-worker", "job.yaml", "other.yaml", "nonsense", expect=2)
        self.assertIn("other.yaml", text)
        self.assertIn("nonsense", text)
        self.assertIn("no job file", self.run_program(self.bin / "ddp-worker", expect=2))

    def test_non_finite_loss_ends_the_run_and_is_in_no_checkpoint(self):
        # By time as well as at the end of an epoch: nothing may hold a NaN.
        text = self.launch(2, "optimizer.lr=1e6", "checkpoint.interval=1ms", expect=96)
        self.assertIn("is not finite", text)
        # Rank 0 says it for all; anyone who is the root cause has it in its error file.
        self.assertIn("is not finite", text[text.index("Root Cause"):])
        self.assertIn("is not finite", (self.run_dir() / "report.html").read_text(encoding="utf-8"))
        for file in (self.run_dir() / "checkpoints").glob("*/model.safetensors"):
            for name, (_, _, raw) in read_tensors(file).items():
                self.assertTrue(all(math.isfinite(x) for x in struct.unpack(f"<{len(raw) // 4}f", raw)), (file, name))

    def test_steps_that_are_not_finite_are_skipped_when_asked_but_not_for_ever(self):
        job = ("optimizer.lr=1e6", "eval.every=0", "train.epochs=20")
        text = self.launch(2, *job, "train.non_finite=skip", expect=96)
        self.assertIn("is not finite", text)
        self.assertGreater(len(records(self.run_dir(), "step")), 40)
        self.assertGreater(records(self.run_dir(), "epoch")[-1]["skipped_steps"], 0)
        # One that was stopped goes on, with such steps left out.
        self.launch(2, "output=stopped", "train.epochs=1")
        stopped = self.folder / "stopped" / "job" / "checkpoints"
        resume = f"checkpoint.resume={stopped / (stopped / 'latest').read_text(encoding='utf-8').strip()}"
        self.assertIn("resumes at step", self.launch(2, "output=stopped", "train.non_finite=skip", resume))
        self.assertEqual(records(self.folder / "stopped" / "latest", "epoch")[-1]["skipped_steps"], 0)

    def test_a_norm_that_no_layer_takes_is_refused(self):
        text = self.launch(2, "model.norm=sync", expect=2)
        self.assertIn("model.norm: sync: nothing in model convnet uses it", text)


OTHER_USER = 65534  # nobody


class Access(WorkerTest):
    """Case A1: others on the node, and the files of a run. Needs root, to give files to another user."""

    def make_a_checkpoint(self):
        """Of another user, in a folder of his."""
        self.worker("train.epochs=1")
        checkpoint = self.folder / "his"
        shutil.copytree(next((self.folder / "runs/job/checkpoints").glob("step-*")), checkpoint)
        shutil.rmtree(self.folder / "runs")
        return checkpoint

    def give_away(self, *paths):
        for path in paths:
            os.chown(path, OTHER_USER, OTHER_USER)

    def check_refused(self, text, path):
        self.assertIn(f"{path}", text)
        self.assertIn("it belongs to user 65534, not to you (user 0). If you trust them, give --trust-checkpoint", text)
        self.assertEqual(self.alive(), [])

    def test_a_run_whose_checkpoints_cannot_be_read_does_not_begin_anew(self):
        running = self.start(self.bin / "ddp-launch", "--nproc-per-node", 2, "job.yaml", "train.epochs=300")
        self.wait_for_saved(running, "epoch 2/300")
        os.kill(running.process.pid, signal.SIGINT)
        self.assertEqual(running.finish(), 143, running.text)
        numbers = (self.run_dir() / "metrics.csv").read_bytes()
        steps = list((self.run_dir() / "checkpoints").glob("step-*"))
        self.give_away(*steps)
        text = self.launch(2, "train.epochs=300", expect=125)
        self.assertIn("cannot be read (it belongs to user 65534)", text)
        self.assertIn("or begin again in another directory.", text)
        self.assertEqual((self.run_dir() / "metrics.csv").read_bytes(), numbers)
        self.assertEqual(set((self.run_dir() / "checkpoints").glob("step-*")), set(steps))

    def test_checkpoints_of_another_user_need_a_flag(self):
        his = self.make_a_checkpoint()
        resume = (f"checkpoint.resume={his}", "train.epochs=2")
        self.assertIn("resumes at step", self.worker(*resume))
        self.give_away(his)
        self.check_refused(self.worker(*resume, expect=2), his)
        os.chown(his, 0, 0)
        self.give_away(his / "model.safetensors")  # one of its files is enough
        self.check_refused(self.launch(1, *resume, expect=2), "model.safetensors")
        self.assertIn("resumes at step", self.worker("--trust-checkpoint", *resume))
        command = (self.bin / "ddp-launch", "--nproc-per-node=1", "--trust-checkpoint", "job.yaml")
        self.assertIn("resumes at step", self.run_program(*command, *resume))

    def test_weights_of_another_user_need_a_flag(self):
        weights = self.make_a_checkpoint() / "model.safetensors"
        job = (f"model.weights={weights}", "train.epochs=1")
        self.give_away(weights)
        self.check_refused(self.worker(*job, expect=2), weights)
        self.check_refused(self.launch(2, *job, expect=2), weights)
        self.assertIn("weights: loaded", self.worker(*job, "checkpoint.trust=true"))
        self.assertIn("weights: loaded", self.worker(*job, "--trust-checkpoint"))

    def test_a_run_that_is_swapped_while_it_trains_is_written_to_all_the_same(self):
        self.folder.chmod(0o755)
        private = self.folder / "private"
        private.write_text("mine", encoding="ascii")
        for name in ("alone", "launched"):
            running = self.start(*(
                (self.bin / "ddp-worker", "job.yaml", "train.epochs=8", f"name={name}")
                if name == "alone"
                else (self.bin / "ddp-launch", "--nproc-per-node=2", "job.yaml", "train.epochs=8", f"name={name}")
            ))
            running.wait_for("epoch 1/8")
            run, away = self.folder / "runs" / name, self.folder / "runs/away"
            run.rename(away)
            run.mkdir()
            for file in ("metrics.jsonl", "metrics.csv", "result.json", "checkpoints"):
                (run / file).symlink_to(private)
            self.give_away(run)
            self.assertEqual(running.finish(), 0, running.text)
            self.assertEqual(private.read_text(encoding="ascii"), "mine")
            self.assertEqual(sorted(path.name for path in run.iterdir()), sorted(["metrics.jsonl", "metrics.csv", "result.json", "checkpoints"]))
            self.assertEqual([record["epoch"] for record in records(away, "epoch")], [*range(1, 9)])
            self.assertEqual((away / "checkpoints/latest").read_text(encoding="ascii"), "step-000400\n" if name == "alone" else "step-000200\n")
            self.assertIn('"state":"finished"', (away / "result.json").read_text(encoding="ascii"))
            shutil.rmtree(away)


class Faults(WorkerTest):
    """Long enough that the fault comes in the middle."""

    LONG = ("data.train_size=8000", "train.epochs=50")

    def started(self, ranks, *arguments):
        running = self.start(self.bin / "ddp-launch", "--nproc-per-node", ranks, "job.yaml", *self.LONG, *arguments)
        running.wait_for("epoch 1/50")
        pids = running.wait_for_pids(ranks)
        return running, pids

    def test_a_killed_rank_ends_the_job_within_a_second(self):
        running, pids = self.started(2)
        if not os.environ.get("DDP_SANITIZE"):  # which takes memory of its own
            self.assertLess(self.resident_kib(running.process.pid), 12 << 10, "the launcher's memory while a job runs")
        begin = time.monotonic()
        os.kill(pids[1], signal.SIGKILL)
        self.assertEqual(running.finish(), 137, running.text)
        self.assertLess(time.monotonic() - begin, 1.0)
        self.assertIn(f"signal SIGKILL (9) received by pid {pids[1]}", running.text)
        self.assertRegex(running.text, r"rank +: 1 ")
        self.assertEqual(self.alive(), [])

    def test_a_restarted_round_goes_on_from_the_newest_checkpoint(self):
        job = ("data.train_size=3200", "train.epochs=4", "seed=7")
        self.launch(2, *job, "name=straight", "checkpoint.resume=never")
        # The rounds of one job continue whatever checkpoint.resume says of its start.
        arguments = ["--nproc-per-node", 2, "--max-restarts", 1, "job.yaml", *job, "name=broken", "checkpoint.resume=never"]
        running = self.start(self.bin / "ddp-launch", *arguments)
        self.wait_for_saved(running, "epoch 2/4", self.run_dir("broken"))
        pids = running.wait_for_pids(2)
        os.kill(pids[1], signal.SIGKILL)
        self.assertEqual(running.finish(), 0, running.text)
        self.assertIn("round 1 starts now, 0 restarts are left", running.text)
        self.assertRegex(running.text, r"resumes at step (100|200|300), epoch ")
        self.assert_same_run(self.run_dir("straight"), self.run_dir("broken"))
        self.assertEqual(json.loads((self.run_dir("broken") / "result.json").read_text(encoding="utf-8"))["rounds"], 2)

    def test_a_restarted_round_without_a_checkpoint_says_that_it_begins_anew(self):
        running = self.start(self.bin / "ddp-launch", "--nproc-per-node", 2, "--max-restarts", 1, "job.yaml", "data.train_size=16000", "train.epochs=1")
        pids = running.wait_for_pids(2)
        # The first checkpoint comes with the end of the epoch.
        running.wait_until((self.run_dir("job") / "rounds.jsonl").exists, "the record of the first round")
        os.kill(pids[1], signal.SIGKILL)
        self.assertEqual(running.finish(), 0, running.text)
        self.assertEqual(running.text.count("begins again at step 0: this run has no checkpoint to go on from"), 1, running.text)

    def test_a_hang_is_named_with_phase_step_and_every_ranks_stacks(self):
        running, pids = self.started(2, "launch.hang_timeout=3s")
        os.kill(pids[1], signal.SIGSTOP)
        self.assertEqual(running.finish(), 124, running.text)
        self.assertRegex(running.text, rf"rank 1 \(pid {pids[1]}\) made no step for 3 s, phase .*, step \d+; it is stopped")
        # Its stack and that of the other, by names, in the report alone.
        report = running.text[running.text.index("Root Cause") :]
        # It was stopped anywhere, perhaps in a kernel that was generated at run time.
        self.assertRegex(report, r"(?m)^  stands in : \S+ \(|^    main thread\n      in calls without names$")
        self.assertRegex(report, r"(?ms)its stack, .*ddp::worker::TrainingLoop::run \(ddp-worker\)")
        self.assertRegex(report, r"(?ms)\n  rank 0:( as rank 1$|\n.*ddp::worker::)")
        self.assertNotIn("stack of thread", running.text)
        self.assertEqual(self.alive(), [])

    def test_a_hang_in_a_function_of_the_user_s_program_is_named(self):
        """The rank that does not come to the others' collective, with the name of the function, though they all wait."""
        running = self.start(
            self.bin / "ddp-launch", "--nproc-per-node", 2, "--hang-timeout=3s", "--no-python", self.bin / "tests" / "faulty_worker",
            "job.yaml", "train.epochs=3", FAULTY_RANK="hang",
        )
        self.assertEqual(running.finish(), 124, running.text)
        report = running.text[running.text.index("Root Cause") :]
        self.assertRegex(report, r"(?m)^  rank      : 1 ")
        self.assertRegex(report, r"(?m)^  stands in : faulty::wait_for_nobody \(faulty_worker\)$")
        self.assertRegex(report, r"(?s)\n  rank 0:\n    main thread\n.*ddp::worker::SharedSums::")
        self.assertNotRegex(report, r"(?i)another thread.*gloo")
        self.assertEqual(self.alive(), [])

    def test_the_report_s_command_plays_the_failed_rank_alone_from_the_newest_checkpoint(self):
        running = self.start(
            self.bin / "ddp-launch", "--nproc-per-node", 2, "job.yaml", "data.train_size=3200", "train.epochs=4", "checkpoint.keep=9"
        )
        self.wait_for_saved(running, "epoch 2/4")
        pids = running.wait_for_pids(2)
        os.kill(pids[1], signal.SIGKILL)
        self.assertEqual(running.finish(), 137, running.text)
        command = re.search(r"(?m)^  alone     : (.*)$", running.text)[1]
        self.assertRegex(command, r" checkpoint.resume=\S+/checkpoints/step-\d+ --as-rank 1/2$")
        self.assertNotIn("MASTER_PORT=29500", command)
        before = self.tree()
        text = self.run_program("sh", "-c", command)
        self.assertRegex(text, r"(?m)^as rank 1 of 2, alone: ")
        self.assertRegex(text, r"resumes at step (100|200|300), epoch ")
        self.assertIn("epoch 4/4", text)
        self.assertEqual(self.tree(), before, "it writes nothing")
        self.assertEqual(self.alive(), [])

    def tree(self):
        return {path: path.stat().st_mtime_ns for path in self.folder.rglob("*") if path.is_file()}

    def test_a_rank_that_is_played_sees_that_rank_s_data(self):
        """One step of two ranks from the same weights: the job's loss is the mean of theirs."""
        job = ("data.train_size=32", "train.epochs=1")
        losses = [
            float(re.search(r"epoch 1/1 .*?loss (\d+\.\d+)", text)[1])
            for text in (self.launch(2, *job), self.worker(*job, "--as-rank", "0/2"), self.worker(*job, "--as-rank", "1/2"))
        ]
        self.assertNotEqual(losses[1], losses[2])
        self.assertAlmostEqual(losses[0], (losses[1] + losses[2]) / 2, delta=2e-4)
        world = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
        text = self.run_program(self.bin / "ddp-worker", "job.yaml", "--as-rank", "1/2", expect=2, **world)
        self.assertIn("--as-rank is for one process alone", text)

    def test_a_rank_that_never_joins_is_named(self):
        """Case W5: the program of rank 1 is not ddp-worker, and waits for ever."""
        script = self.folder / "one_never_joins"
        script.write_text('#!/bin/sh\n[ "$RANK" = 1 ] && exec tail -f /dev/null\nexec "$DDP" "$@"\n', encoding="ascii")
        script.chmod(0o700)
        begin = time.monotonic()
        job = ("job.yaml", "ddp.join_timeout=1500ms")
        text = self.run_program(
            self.bin / "ddp-launch", "--nproc-per-node", 3, "--no-python", script, *job, expect=124, DDP=self.bin / "ddp-worker"
        )
        self.assertLess(time.monotonic() - begin, 10)
        self.assertRegex(text, r"(?m)^\[0:[02]\] ddp-worker: rank 1 of 3 did not join within 1500ms")
        self.assertEqual(self.alive(), [])

    def world(self, size):
        """The variables of ranks that no launcher of ours starts: nobody ends them from outside."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        return {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}

    def test_a_rank_with_another_job_is_named_by_both_and_all_end_with_203(self):
        """Found over the store, before a collective could hang."""
        world = self.world(2)
        begin = time.monotonic()
        ranks = [
            self.start(self.bin / "ddp-worker", "job.yaml", f"optimizer.lr=0.{rank + 1}", RANK=str(rank), **world)
            for rank in (0, 1)
        ]
        for running in ranks:
            self.assertEqual(running.finish(), 203, running.text)
            self.assertIn('rank 1 has "optimizer.lr: 0.2", rank 0 has "optimizer.lr: 0.1"', running.text)
        self.assertLess(time.monotonic() - begin, 5)  # two starts of LibTorch on a busy machine are in it

    def test_a_rank_of_another_world_is_named_though_a_third_is_missing(self):
        world = self.world(3)
        ranks = [
            self.start(self.bin / "ddp-worker", "job.yaml", **(world | {"RANK": str(rank), "WORLD_SIZE": size}))
            for rank, size in ((0, "3"), (1, "2"))
        ]
        for running in ranks:
            self.assertEqual(running.finish(), 203, running.text)
            self.assertIn('rank 1 has "world size 2", rank 0 has "world size 3"', running.text)

    def test_ranks_started_by_hand_meet_at_tcp(self):
        at = "tcp://127.0.0.1:" + self.world(2)["MASTER_PORT"]
        ranks = [
            self.start(self.bin / "ddp-worker", "job.yaml", "train.epochs=1", "--init-method", at, "--rank", rank, "--world-size=2")
            for rank in (0, 1)
        ]
        for rank, running in enumerate(ranks):
            self.assertEqual(running.finish(), 0, running.text)
            self.assertIn(f"ddp-worker: rank {rank} of 2, from RANK and WORLD_SIZE", running.text)
        self.assertIn("batch: 16 per rank x 2 ranks", ranks[0].text)

    def test_a_rank_started_twice_is_refused_with_both_processes(self):
        at = "tcp://127.0.0.1:" + self.world(3)["MASTER_PORT"]
        ranks = [
            self.start(self.bin / "ddp-worker", "job.yaml", "ddp.join_timeout=4s", "--init-method", at, "--rank", rank, "--world-size=3")
            for rank in (0, 1, 1)
        ]
        codes = [running.finish() for running in ranks]
        self.assertEqual(sorted(codes[1:]), [124, 203], [running.text for running in ranks])
        second = ranks[1 + codes[1:].index(203)]
        first = ranks[1 + codes[1:].index(124)]
        self.assertRegex(second.text, rf"rank 1 is taken by pid {first.process.pid} on \S+, this is pid {second.process.pid} on ")
        self.assertEqual(codes[0], 124)
        self.assertIn("rank 2 of 3 did not join within 4s", ranks[0].text)

    def test_a_rank_with_other_data_is_named_by_both(self):
        """Where data comes from may differ by node; what is in it may not."""
        for name, count in (("a", 60), ("b", 64)):
            self.write_images(self.folder / name, count)
        world = self.world(2)
        ranks = [
            self.start(
                self.bin / "ddp-worker", "job.yaml", "data.name=mnist", f"data.root={self.folder / name}",
                "data.train_size=null", "data.test_size=null", RANK=str(rank), **world,
            )
            for rank, name in enumerate("ab")
        ]  # fmt: skip
        for running in ranks:
            self.assertEqual(running.finish(), 203, running.text)
            self.assertRegex(running.text, r'in their data: rank 1 has "[^"]*: 64 images[^"]*", rank 0 has "[^"]*: 60 images')

    def test_a_rank_that_lost_its_peer_says_so_and_leaves_by_97(self):
        world = self.world(2)
        ranks = [
            self.start(self.bin / "ddp-worker", "job.yaml", *self.LONG, RANK=str(rank), LOCAL_RANK=str(rank), **world)
            for rank in (0, 1)
        ]
        ranks[0].wait_for("epoch 1/50")
        ranks[1].process.kill()
        self.assertEqual(ranks[1].finish(), 137)
        self.assertEqual(ranks[0].finish(), 97, ranks[0].text)
        self.assertRegex(ranks[0].text, r"ddp-worker: lost a peer during [^\n]*\n$")

    def test_a_run_whose_last_checkpoint_is_not_saved_has_not_finished(self):
        running = self.start(self.bin / "ddp-launch", "--nproc-per-node", 2, "job.yaml", "data.train_size=4800")
        self.wait_for_saved(running, "epoch 1/2")
        # A file where the directory was: every save from now on fails.
        checkpoints = self.run_dir() / "checkpoints"
        checkpoints.rename(self.folder / "away")
        checkpoints.write_text("in the way", encoding="utf-8")
        self.assertEqual(running.finish(), 125, running.text)
        self.assertRegex(running.text, r"traceback : rank 0 could not save: the checkpoint of step \d+, the last of this run, was not saved: ")
        result = json.loads((self.run_dir() / "result.json").read_text(encoding="utf-8"))
        self.assertNotEqual(result["state"], "finished")
        self.assertEqual(result["root_cause"]["rank"], 0, running.text)

    def test_a_stop_whose_checkpoint_cannot_be_saved_is_no_good_stop(self):
        running = self.start(self.bin / "ddp-launch", "--nproc-per-node", 2, "job.yaml", "train.epochs=300")
        self.wait_for_saved(running, "epoch 1/300")
        checkpoints = self.run_dir() / "checkpoints"
        checkpoints.rename(self.folder / "away")
        checkpoints.write_text("in the way", encoding="utf-8")
        os.kill(running.process.pid, signal.SIGTERM)
        self.assertEqual(running.finish(), 125, running.text)
        self.assertIn("was not saved", running.text)

    def resident_kib(self, pid):
        return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")).group(1))


if __name__ == "__main__":
    if "Access" in sys.argv and os.geteuid() != 0:
        print("needs root, to give files to another user")
        sys.exit(77)
    unittest.main()
