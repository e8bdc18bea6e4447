"""ddp-worker as a user meets it: alone and on several ranks, and with a rank that dies, hangs or never comes.

Run by hand: DDP_BIN=build/release DDP_RANKS_TOOL=... PYTHONPATH=tests/support python3 tests/integration/worker_test.py
"""

import json
import os
import pathlib
import re
import resource
import signal
import socket
import struct
import time
import unittest

from run_files import read_tensors, records
from worker_job import JOB, WorkerTest


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

    def test_a_step_takes_the_memory_of_the_one_before(self):
        def page_faults(output, **variables):
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
            self.worker("data.batch_per_rank=64", "data.train_size=1920", f"output={output}", **variables)
            return resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt - before

        for name in ("GLIBC_TUNABLES", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_TOP_PAD_"):
            self.environment.pop(name, None)
        kept = page_faults("kept")
        returned = page_faults("returned", MALLOC_TRIM_THRESHOLD_="131072")  # a user's choice: ours is off
        if not os.environ.get("DDP_SANITIZE"):  # there ours is always off
            self.assertGreater(returned, 2 * kept)
        self.assert_same_run(self.folder / "kept" / "job", self.folder / "returned" / "job")

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
        text = self.worker("--check", "model.name=mlp", 'model.args={hidden: "1,1000000,1000000"}', expect=2)
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
            ("model.name=lenet", "optimizer.lr=0.05", "train.accumulate=2", "ddp.broadcast_buffers=true"),
            ("model.name=resnet18", "model.stem=imagenet", "model.norm=sync", "optimizer.lr=0.002", "data.train_size=96"),
        )
        for number, way in enumerate(ways):
            self.launch(2, f"output={number}", "ddp.check_replicas_every=3", "data.train_size=320", "data.test_size=32", *way)
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


class Faults(WorkerTest):
    """Long enough that the fault comes in the middle, by epochs short enough that the first is soon over."""

    LONG = ("data.train_size=1600", "train.epochs=250")

    def started(self, ranks, *arguments):
        running = self.start(self.bin / "ddp-launch", "--nproc-per-node", ranks, "job.yaml", *self.LONG, *arguments)
        running.wait_for("epoch 1/250")
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
        job = ("data.train_size=1600", "train.epochs=4", "seed=7")
        self.launch(2, *job, "name=straight", "checkpoint.resume=never")
        # The rounds of one job continue whatever checkpoint.resume says of its start.
        arguments = ["--nproc-per-node", 2, "--max-restarts", 1, "job.yaml", *job, "name=broken", "checkpoint.resume=never"]
        running = self.start(self.bin / "ddp-launch", *arguments)
        self.wait_for_saved(running, "epoch 1/4", self.run_dir("broken"))
        pids = running.wait_for_pids(2)
        os.kill(pids[1], signal.SIGKILL)
        self.assertEqual(running.finish(), 0, running.text)
        self.assertIn("round 1 starts now, 0 restarts are left", running.text)
        self.assertRegex(running.text, r"resumes at step (50|100|150), epoch ")
        self.assert_same_run(self.run_dir("straight"), self.run_dir("broken"))
        self.assertEqual(json.loads((self.run_dir("broken") / "result.json").read_text(encoding="utf-8"))["rounds"], 2)

    def test_a_restarted_round_without_a_checkpoint_says_that_it_begins_anew(self):
        running = self.start(self.bin / "ddp-launch", "--nproc-per-node", 2, "--max-restarts", 1, "job.yaml", "data.train_size=6400", "train.epochs=1")
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
            self.bin / "ddp-launch", "--nproc-per-node", 2, "job.yaml", "data.train_size=1600", "train.epochs=4", "checkpoint.keep=9"
        )
        self.wait_for_saved(running, "epoch 1/4")
        pids = running.wait_for_pids(2)
        os.kill(pids[1], signal.SIGKILL)
        self.assertEqual(running.finish(), 137, running.text)
        command = re.search(r"(?m)^  alone     : (.*)$", running.text)[1]
        self.assertRegex(command, r" checkpoint.resume=\S+/checkpoints/step-\d+ --as-rank 1/2$")
        self.assertNotIn("MASTER_PORT=29500", command)
        before = self.tree()
        text = self.run_program("sh", "-c", command)
        self.assertRegex(text, r"(?m)^as rank 1 of 2, alone: ")
        self.assertRegex(text, r"resumes at step (50|100|150), epoch ")
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
        ranks[0].wait_for("epoch 1/250")
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
    unittest.main()
