"""ddp-worker given nonsense, and files of other users.

Run by hand: DDP_BIN=build/release DDP_RANKS_TOOL=... PYTHONPATH=tests/support python3 tests/integration/bad_input_test.py
"""

import math
import os
import re
import shutil
import signal
import socket
import struct
import time
import unittest

from run_files import read_tensors, records
from worker_job import WorkerTest

OTHER_USER = 65534  # nobody


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
            # The bound is 1 s after the group is there, on an idle machine.
            self.assertLess(time.monotonic() - begin, 25 if os.environ.get("DDP_SANITIZE") else 5)
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


if __name__ == "__main__":
    unittest.main()
