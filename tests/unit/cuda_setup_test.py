"""What make.sh finds out about CUDA before it gets anything: driver, GPUs and torch, each wrong in its own way.

The machine is a folder in place of / and stand-ins for nvidia-smi and ldconfig; torch is a folder with the files that are read.
Run by hand: python3 tests/unit/cuda_setup_test.py
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent.parent / "cmake/cuda_setup.py"
VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build  (dvs-builder)  Tue\nGCC version:\n"
METADATA = """Metadata-Version: 2.4
Name: torch
Requires-Dist: filelock
Requires-Dist: cuda-toolkit[cublas,cudart]==13.0.2; platform_system == "Linux"
Requires-Dist: cuda-bindings<14,>=13.0.3; platform_system == "Linux"
Requires-Dist: nvidia-nccl-cu13==2.28.9; platform_system == "Linux"
Requires-Dist: triton==3.6.0; platform_system == "Linux"
Provides-Extra: optree
Requires-Dist: optree>=0.13.0; extra == "optree"
"""


class CudaSetup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.site = self.folder / "site"
        (self.folder / "bin").mkdir()
        self.stand_in("nvidia-smi", "exit 9")
        self.stand_in("ldconfig", "exit 0")
        self.put_torch()

    def stand_in(self, name, line):
        (self.folder / "bin" / name).write_text(f"#!/bin/sh\n{line}\n", encoding="ascii")
        (self.folder / "bin" / name).chmod(0o755)

    def put_torch(self, cuda="'13.0'", kernels=b"sm_75 sm_80 sm_86 sm_90 sm_100 sm_120", version="2.11.0+cu130"):
        (self.site / "torch/lib").mkdir(parents=True, exist_ok=True)
        text = f"from typing import Optional\n__version__ = '{version}'\ncuda: Optional[str] = {cuda}\nhip: Optional[str] = None\n"
        (self.site / "torch/version.py").write_text(text, encoding="ascii")
        (self.site / "torch/lib/libtorch_python.so").write_bytes(b"sm_10\0" + kernels + b"\0rest")
        (self.site / "torch/lib/libtorch_cuda.so").touch()
        (self.site / f"torch-{version}.dist-info").mkdir(exist_ok=True)
        (self.site / f"torch-{version}.dist-info/METADATA").write_text(METADATA, encoding="ascii")

    def put_driver(self, version):
        (self.folder / "root/proc/driver/nvidia").mkdir(parents=True, exist_ok=True)
        (self.folder / "root/proc/driver/nvidia/version").write_text(VERSION.format(version), encoding="ascii")

    def put_gpus(self, *lines):
        self.stand_in("nvidia-smi", "; ".join(f"echo '{line}'" for line in lines))

    def run_script(self, command, wish=None, **variables):
        environment = {"PATH": f"{self.folder}/bin", "DDP_SYSTEM_ROOT": f"{self.folder}/root"} | ({"DDP_CUDA": wish} if wish else {}) | variables
        run = subprocess.run(
            [sys.executable, SCRIPT, command, self.site], env=environment, cwd=self.folder, capture_output=True, text=True, check=False
        )
        return run.returncode, run.stdout.strip(), run.stderr.strip()

    def test_the_users_word_stands_and_without_one_the_driver_decides(self):
        self.assertEqual(self.run_script("choose"), (0, "AUTO", ""))
        self.assertEqual(self.run_script("choose", "OFF"), (0, "OFF", ""))
        self.assertEqual(self.run_script("choose", "ON"), (0, "ON", ""))  # a machine without GPUs builds for others
        self.put_driver("580.65.06")
        self.assertEqual(self.run_script("choose"), (0, "ON", ""))
        self.assertEqual(self.run_script("choose", "OFF"), (0, "OFF", ""))
        code, _, text = self.run_script("choose", "yes")
        self.assertEqual(code, 1)
        self.assertIn("DDP_CUDA is 'yes'. Give ON or OFF", text)

    def test_a_driver_without_its_file_is_seen_by_its_library(self):
        self.stand_in("ldconfig", 'echo "	libcuda.so.1 (libc6,x86-64) => /usr/lib/wsl/lib/libcuda.so.1"')
        self.assertEqual(self.run_script("choose"), (0, "ON", ""))

    def refused(self, *parts):
        """With DDP_CUDA=ON the end; else CUDA is left out. Each in one line that says why, and what to do."""
        for wish, expected in (("ON", (1, "")), (None, (0, "OFF"))):
            code, chosen, text = self.run_script("choose", wish)
            self.assertEqual((code, chosen), expected, text)
            self.assertEqual(len(text.splitlines()), 1, text)
            for part in (*parts, "make.sh: CUDA: ", "or go without: DDP_CUDA=OFF"):
                self.assertIn(part, text)

    def test_a_driver_that_is_too_old_is_refused_with_both_versions(self):
        self.put_driver("550.54.15")
        self.refused("the NVIDIA driver is 550.54.15", "CUDA 13.0 of torch 2.11.0+cu130 needs 580 or newer: update the driver")
        self.put_torch(cuda="'12.8'")
        self.assertEqual(self.run_script("choose", "ON"), (0, "ON", ""))

    def test_a_gpu_without_kernels_is_refused_by_name(self):
        self.put_driver("580.65.06")
        self.put_gpus("NVIDIA GeForce GTX 1080, 6.1")
        self.refused("no kernels for NVIDIA GeForce GTX 1080 (6.1)", "compute capability 7.5, 8.0, 8.6, 9.0, 10.0, 12.0: take another GPU")
        self.put_gpus("NVIDIA Thor, 11.0")
        self.refused("no kernels for NVIDIA Thor (11.0)")

    def test_gpus_of_a_later_minor_number_and_one_good_gpu_of_several_will_do(self):
        self.put_driver("580.65.06")
        for gpus in (["NVIDIA L4, 8.9"], ["NVIDIA H200, 9.0"], ["NVIDIA GeForce GTX 1080, 6.1", "NVIDIA H200, 9.0"], ["[N/A], [N/A]"]):
            with self.subTest(gpus):
                self.put_gpus(*gpus)
                self.assertEqual(self.run_script("choose", "ON"), (0, "ON", ""))

    def test_an_nvidia_smi_that_cannot_tell_is_not_waited_for(self):
        self.put_driver("580.65.06")
        self.stand_in("nvidia-smi", "read line < pipe")
        os.mkfifo(self.folder / "pipe")
        self.assertEqual(self.run_script("choose", "ON", DDP_PATIENCE="0.2"), (0, "ON", ""))
        for content in (b"\x7fELF no program", b"#!/bin/sh\nprintf '\\377\\376, 9.0'\n"):
            (self.folder / "bin/nvidia-smi").write_bytes(content)
            self.assertEqual(self.run_script("choose", "ON"), (0, "ON", ""))

    def test_a_torch_without_cuda_is_refused(self):
        self.put_driver("580.65.06")
        self.put_torch(cuda="None", version="2.11.0+cpu")
        self.refused("holds torch 2.11.0+cpu, which is built without CUDA: install one with it")

    def test_the_wheels_are_those_of_torch_s_metadata_and_the_headers_beside(self):
        code, text, _ = self.run_script("wheels")
        self.assertEqual((code, text.splitlines()), (0, ["cuda-toolkit[crt,cublas,cudart]==13.0.2", "nvidia-nccl-cu13==2.28.9"]))
        next(self.site.glob("*.dist-info/METADATA")).write_text("Name: torch\n", encoding="ascii")
        code, _, text = self.run_script("wheels")
        self.assertEqual(code, 1)
        self.assertIn("asks for no nvidia-nccl", text)

    def test_a_missing_library_is_named_with_its_wheel(self):
        # Two real libraries, of which one asks for the other: under a number that no machine has.
        environment = dict(os.environ)
        nccl = self.folder / "libnccl.so.0"
        compile_ = ["gcc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-Wl,--no-as-needed"]
        subprocess.run([*compile_, "-Wl,-soname,libnccl.so.0", "-o", nccl], env=environment, check=True)
        cuda = self.site / "torch/lib/libtorch_cuda.so"
        subprocess.run([*compile_, "-o", cuda, "-x", "none", nccl, f"-Wl,-rpath,{self.folder}"], env=environment, check=True)
        self.assertEqual(self.run_script("whole"), (0, "", ""))
        nccl.unlink()
        code, _, text = self.run_script("whole")
        self.assertEqual(code, 1)
        self.assertRegex(text, r"\Amake.sh: CUDA: \S+/libtorch_cuda.so cannot be loaded \(libnccl.so.0: .*\): install nvidia-nccl-cu13 beside it, or go")

    def test_used_setup_is_described_in_one_line(self):
        self.put_driver("580.65.06")
        self.put_gpus("NVIDIA H200, 9.0", "NVIDIA H200, 9.0")
        code, text, _ = self.run_script("describe")
        self.assertEqual((code, len(text.splitlines())), (0, 1))
        self.assertRegex(text, r"CUDA 13.0 of torch 2.11.0\+cu130, 0.0 GB of libraries in .*; NVIDIA driver 580.65.06, 2 x NVIDIA H200")


if __name__ == "__main__":
    unittest.main()
