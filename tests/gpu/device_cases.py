"""Which device a rank takes, and what is said when there is none: without a GPU the refusals."""

import os
import subprocess
import sys

from gpu_case import GpuCase
from machine import KIT

LOAD = """
import ctypes, sys
print(ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL).ddp_cuda_module is not None)
"""


class Devices(GpuCase):
    def visible(self, value, *arguments, **keywords):
        return self.worker("train.epochs=1", *arguments, CUDA_VISIBLE_DEVICES=value, **keywords)

    def test_the_module_for_gpus_loads_with_this_torch(self):
        place = next((path for path in (KIT / "lib", self.bin) if (path / "libddp-worker-cuda.so").exists()), None)
        self.assertIsNotNone(place, "the kit holds no libddp-worker-cuda.so")
        run = subprocess.run(
            [sys.executable, "-c", LOAD, place / "libddp-worker-cuda.so"], capture_output=True, text=True, env=os.environ, check=False
        )
        self.assertEqual((run.returncode, run.stdout), (0, "True\n"), run.stderr)

    def test_no_visible_gpu_is_refused_or_with_auto_the_cpu(self):
        why = "no GPU is visible" if self.device == "cuda" else "there is no NVIDIA driver|no GPU is visible"
        self.assertRegex(self.visible("", "device=cuda", expect=2), f"device: cuda cannot be used: ({why})")
        self.assertRegex(self.visible("", "backend=nccl", "device=auto", expect=2), f"backend: nccl needs a GPU, .*({why})")
        self.assertRegex(self.visible("", "device=auto"), r"rank 0 of 1: \S+, cpu\b")

    def test_cuda_visible_devices_chooses_by_number_and_by_uuid(self):
        self.need_gpu()
        run = [sys.executable, "-c", "import torch; print(torch.cuda.get_device_properties(0).uuid)"]
        uuid = subprocess.run(run, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        last = len(self.machine.gpus) - 1
        for value in ("0", str(last), f"GPU-{uuid}"):
            with self.subTest(value):
                self.assertRegex(self.visible(value, f"output={value}"), r"rank 0 of 1: \S+, cuda:0\b")
        self.assertIn("is not there", self.visible("0", "device=cuda:1", expect=2))

    def test_local_rank_chooses_the_gpu(self):
        self.need_gpus(2, rehearsed=True)
        self.assert_devices(self.launch(2, self.unless_rehearsed("backend=nccl", "backend=gloo"), "train.epochs=1"), 0, 1)

    def test_more_ranks_than_gpus_are_refused_for_nccl_with_the_list(self):
        self.need_gpu()
        count = len(self.machine.gpus)
        text = self.launch(count + 1, "backend=nccl", expect=2)
        self.assertRegex(text, rf"cannot give each of {count + 1} workers a GPU: {count}\b")

    def test_nproc_per_node_gpu_is_the_number_of_gpus(self):
        command = (self.bin / "ddp-launch", "--nproc-per-node", "gpu", "--dry-run", "job.yaml")
        if self.device == "cpu":
            self.assertRegex(self.run_program(*command, expect=2, CUDA_VISIBLE_DEVICES=""), "GPU")
            return
        text = self.run_program(*command)
        self.assertIn(f"WORLD_SIZE={len(self.machine.gpus)}", text)
