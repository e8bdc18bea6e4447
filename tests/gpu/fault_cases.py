"""Checkpoints, stops and faults with tensors on the device under test: nothing is lost, the right rank is named, by the right code."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

from gpu_case import GpuCase, end_with_parent
from machine import used_memory

HOLD = """
import sys, torch
held = torch.empty(int(sys.argv[1]), dtype=torch.uint8, device="cuda")
print("held", flush=True)
sys.stdin.read()
"""


class Checkpoints(GpuCase):
    """In deterministic mode, so that two runs can be compared bit for bit."""

    COMMON = ("train.deterministic=true", "model.memory_format=contiguous")

    def resume(self, *ways):
        """Of 30 steps."""
        few = ("data.batch_per_rank=4", "data.train_size=120", "data.test_size=50")
        for number, keys in enumerate(ways):
            with self.subTest(keys):
                job = (*self.COMMON, *few, *keys, f"output={number}")
                self.launch(2, *job)
                self.launch(2, *job, f"checkpoint.resume={self.run_dir(str(number)) / 'checkpoints/step-000015'}")
                self.assertEqual(self.losses(str(number))[15:], self.losses(str(number), "job2"))
                self.assert_same_checkpoints(self.checkpoint(str(number)), self.checkpoint(str(number), "job2"))

    def test_a_run_goes_on_from_a_checkpoint_bit_for_bit(self):
        moments = ("optimizer.name=adamw", "optimizer.lr=0.003", "optimizer.ema_decay=0.9")
        masters = ("amp.level=O2", "amp.dtype=bf16")
        # A rehearsal has all that a checkpoint holds in one job.
        self.resume(*self.unless_rehearsed(((), moments, masters), ((*moments, *masters),)))

    def test_the_loss_scale_of_fp16_goes_on_bit_for_bit(self):
        self.need_gpu(rehearsed=True)
        # The case above has O2 in bf16.
        self.resume(*self.unless_rehearsed((("amp.level=O1", "amp.dtype=fp16"), ("amp.level=O2", "amp.dtype=fp16")), (("amp.level=O1", "amp.dtype=bf16"),)))

    def test_a_stopped_run_saves_and_goes_on_bit_for_bit(self):
        job = (*self.COMMON, "data.train_size=1600", "train.epochs=4")
        self.launch(2, *job, "output=whole")
        running = self.start(*self.launch_command(2, *job))
        running.wait_for("epoch 1/4")
        running.process.send_signal(signal.SIGTERM)
        self.assertEqual(running.finish(), 143, running.text)
        self.assertIn("with a checkpoint", running.text)
        self.assertEqual(self.result()["state"], "stopped")
        text = self.launch(2, *job)
        step = int(re.search(r"resumes at step (\d+)", text)[1])
        self.assertTrue(50 <= step < 200, f"stopped at step {step} of 200, not in the middle")
        self.assertEqual(self.losses("whole"), self.losses())
        self.assert_same_checkpoints(self.checkpoint("whole"), self.checkpoint())

    def test_checkpoint_of_the_device_resumes_on_the_cpu(self):
        self.worker("train.epochs=1")
        text = self.worker("device=cpu", f"checkpoint.resume={self.checkpoint()}")
        self.assertIn("resumes at step 50", text)
        self.assertEqual(len(self.losses("runs", "job2")), 50)


class Faults(GpuCase):
    """Long enough that the fault comes in the middle."""

    LONG = ("data.train_size=1600", "train.epochs=900", "eval.every=0", "checkpoint.every=0")

    def started(self, ranks, *arguments):
        running = self.start(*self.launch_command(ranks, *self.LONG, *arguments))
        running.wait_for("epoch 1/900")
        return running, running.wait_for_pids(ranks)

    def test_a_killed_rank_ends_the_job_and_is_named(self):
        running, pids = self.started(2)
        begin = time.monotonic()
        os.kill(pids[1], signal.SIGKILL)
        self.assertEqual(running.finish(), 137, running.text)
        print(f"killed rank: the launcher ended after {time.monotonic() - begin:.2f} s")
        self.assertLess(time.monotonic() - begin, 5.0)  # a GPU's memory is given back before a process is gone
        report = self.report_of(running.text)
        self.assertRegex(report, r"(?m)^  rank      : 1 ")
        self.assertIn(f"signal SIGKILL (9) received by pid {pids[1]}", report)

    def test_a_hang_is_named_with_the_rank_that_hangs(self):
        limit = 3 if self.device == "cpu" else 20  # a first step on a GPU takes seconds
        running, pids = self.started(2, f"launch.hang_timeout={limit}s")
        os.kill(pids[1], signal.SIGSTOP)
        self.assertEqual(running.finish(), 124, running.text)
        self.assertRegex(running.text, rf"rank 1 \(pid {pids[1]}\) made no step for {limit} s, phase .*, step \d+; it is stopped")

    def limit(self):
        """Of a collective, in seconds. Two ranks on one GPU begin their first steps seconds apart."""
        return 5 if self.device == "cpu" else 20

    def check_time_out(self, ranks, code, why, *arguments):
        """Ranks that no launcher watches: their own limit of a collective ends them. `why` is what rank 0 says."""
        log = self.folder / "errors"
        log.mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            world = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
        started = [
            self.start(
                self.bin / "ddp-worker", "job.yaml", *self.LONG, f"ddp.timeout={self.limit()}s", *arguments, RANK=str(rank), LOCAL_RANK=str(rank),
                TORCHELASTIC_ERROR_FILE=str(log / f"{rank}.json"), **world,
            )
            for rank in range(ranks)
        ]  # fmt: skip
        started[0].wait_for("epoch 1/900")
        begin = time.monotonic()
        started[1].process.send_signal(signal.SIGSTOP)
        codes = [running.finish() for running in started if running is not started[1]]
        print(f"time-out of {self.limit()} s: the others ended after {time.monotonic() - begin:.2f} s")
        started[1].process.kill()
        started[1].finish()
        self.assertEqual(codes, [code] * (ranks - 1), started[0].text)
        self.assertRegex(started[0].text, why)
        error = json.loads((log / "0.json").read_text(encoding="utf-8"))["message"]
        self.assertRegex(error["message"], why)
        self.assertEqual(error["extraInfo"]["rank"], 0)

    def test_a_collective_that_times_out_names_the_missing_rank(self):
        self.check_time_out(2, 124, rf"time-out in [a-z0-9 ]+ after {self.limit()}s \(ddp.timeout\): rank 1 of 2 did not come", "backend=gloo")

    def test_a_rank_that_hangs_under_nccl_is_named_at_the_time_out(self):
        self.need_gpus(2)
        self.check_time_out(2, 124, r"rank 1 of 2", "backend=nccl")

    def test_more_memory_than_there_is_is_named_with_sizes(self):
        if self.device == "cpu":
            text = self.worker("model.name=mlp", 'model.args={hidden: "1,1000000,1000000"}', expect=125)
            self.assertRegex(text, r"ddp-worker: LibTorch: .*you tried to allocate \d{12,} bytes")
            return
        batch = self.machine.gpus[0][2] // (2 << 20)  # an image of resnet18 takes more than 2 MiB
        keys = (f"data.train_size={batch}", f"data.batch_per_rank={batch}", "model.name=resnet18", "train.epochs=1")
        text = self.worker(*keys, expect=125)
        self.assertRegex(text, r"ddp-worker: LibTorch: .*out of memory.*\d [GM]iB")

    def test_a_restarted_round_goes_on_and_has_the_memory_of_the_last_one(self):
        job = ("data.train_size=1200", "train.epochs=4", "eval.every=0")
        before = self.used_memory() or 0
        running = self.start(self.bin / "ddp-launch", "--nproc-per-node", 2, "--max-restarts", 1, "job.yaml", "backend=gloo", *job)
        running.wait_for("epoch 2/4")
        first = self.used_memory()
        os.kill(running.wait_for_pids(2)[1], signal.SIGKILL)
        running.wait_for("round 1 starts now")
        running.wait_for("resumes at step")
        running.wait_for("epoch 3/4")
        second = self.used_memory()
        self.assertEqual(running.finish(), 0, running.text)
        self.assertEqual(self.result()["rounds"], 2)
        if first is not None:
            print(f"memory of the GPU beside others': {(first - before) >> 20} MiB in round 0, {(second - before) >> 20} MiB in round 1")
            self.assertLess(second - before, 1.3 * (first - before) + (64 << 20), "of the last round something is still there")


    def used_memory(self):
        """Bytes of the first GPU; a rehearsal makes them up."""
        return self.unless_rehearsed(used_memory() if self.device == "cuda" else None, 1 << 30)


class BusyGpus(GpuCase):
    def hold(self, size):
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(size)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment,
            preexec_fn=end_with_parent,
        )  # fmt: skip
        self.addCleanup(holder.communicate)  # which closes its stdin
        self.assertEqual(holder.stdout.readline(), "held\n")
        return holder

    def test_a_gpu_that_others_use_is_said_once_with_its_free_memory(self):
        self.need_gpu()
        self.hold(1 << 30)
        text = self.worker("train.epochs=1")
        # In a container of its own the driver's pids are others than ours.
        self.assertEqual(len(re.findall(r"cuda:0 .*is used by others \(pid [\d, ]+\), [\d.]+ GiB of [\d.]+ GiB are free", text)), 1, text)

    def test_less_free_memory_than_the_job_wants_is_refused_with_the_owners(self):
        self.need_gpu()
        self.hold(1 << 30)
        text = self.worker(f"device_min_free={self.machine.gpus[0][2] >> 20}MiB", expect=2)
        self.assertRegex(text, r"only [\d.]+ GiB of [\d.]+ GiB are free, device_min_free is .*; pids on it: \d+")
