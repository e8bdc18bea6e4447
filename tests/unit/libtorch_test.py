"""What cmake/libtorch.cmake and cmake/cuda.cmake make of the user's choices and of what lies at DDP_TORCH.

A project of four lines stands for ours, so that a configuration takes milliseconds. Run by hand: python3 tests/unit/libtorch_test.py
"""

import pathlib
import re
import subprocess
import tempfile
import unittest

MODULES = pathlib.Path(__file__).resolve().parent.parent.parent / "cmake"
TESTED = re.findall(r"(?m)^\d\S*", (MODULES / "torch_versions.txt").read_text())
PROJECT = f"""
cmake_minimum_required(VERSION 3.25)
project(choice LANGUAGES NONE)
set(DDP_BUILD_WORKER AUTO CACHE STRING "")
set(DDP_TORCH "" CACHE PATH "")
list(APPEND CMAKE_MODULE_PATH "{MODULES}")
include(libtorch)
include(cuda)
message(STATUS "worker=${{DDP_BUILD_WORKER}} choice=$CACHE{{DDP_BUILD_WORKER}}")
"""


def configure(choice, version=None, *more, prefix="tmp"):
    """Exit code and text of cmake with this choice, and with a torch of this version, or none."""
    with tempfile.TemporaryDirectory(prefix=prefix) as folder:
        root = pathlib.Path(folder)
        (root / "CMakeLists.txt").write_text(PROJECT)
        (root / "torch/lib").mkdir(parents=True)
        if version:
            (root / "torch/lib/libtorch_cpu.so").touch()
            (root / "torch/version.py").write_text(f"from typing import Optional\n__version__ = '{version}'\ndebug = False\n")
        command = ["cmake", "-G", "Ninja", "-S", folder, "-B", f"{folder}/build", f"-DDDP_BUILD_WORKER={choice}", f"-DDDP_TORCH={folder}", *more]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        return run.returncode, " ".join((run.stdout + run.stderr).split())


class LibTorchTest(unittest.TestCase):
    def assert_built(self, result, worker, choice):
        self.assertEqual(result[0], 0, result[1])
        self.assertIn(f"worker={worker} choice={choice}", result[1])

    def test_auto_builds_the_worker_exactly_when_there_is_a_torch(self):
        self.assert_built(configure("AUTO", "2.11.0+cu130"), "ON", "AUTO")
        self.assert_built(configure("AUTO"), "OFF", "AUTO")

    def test_on_without_a_torch_is_refused(self):
        self.assert_built(configure("ON", "2.11.0+cpu"), "ON", "ON")
        code, text = configure("ON")
        self.assertNotEqual(code, 0)
        self.assertIn("holds no torch/lib/libtorch_cpu.so. Run ./make.sh deps", text)

    def test_a_path_that_no_rpath_can_hold_is_refused(self):
        code, text = configure("AUTO", TESTED[0], prefix="a:b")
        self.assertNotEqual(code, 0)
        self.assertIn("cannot hold a path with ':' or ';'", text)

    def test_off_does_not_look(self):
        self.assert_built(configure("OFF", "1.0.0"), "OFF", "OFF")

    def test_another_choice_is_refused(self):
        code, text = configure("maybe", "2.11.0")
        self.assertNotEqual(code, 0)
        self.assertIn("DDP_BUILD_WORKER is 'maybe'. Give AUTO, ON or OFF.", text)

    def test_an_untested_torch_is_built_with_a_warning(self):
        for version in TESTED:
            self.assertNotIn("Warning", configure("AUTO", version)[1])
        for version in ("2.10.0+cu130", "2.11.1", "2.11.0a0+git1234", "12.11.0"):
            with self.subTest(version=version):
                result = configure("AUTO", version)
                self.assert_built(result, "ON", "AUTO")
                self.assertIn(f"holds torch '{version.partition('+')[0]}', tested are: {', '.join(TESTED)}. It may not compile", result[1])

    def test_cuda_is_left_out_when_its_wheels_are_not_there_unless_it_is_wanted(self):
        for choice in ("AUTO", "OFF"):
            code, text = configure("ON", "2.11.0+cu130", f"-DDDP_CUDA={choice}")
            self.assertEqual(code, 0, text)
            self.assertIn("ddp-worker-cuda: not built", text)
        code, text = configure("ON", "2.11.0+cu130", "-DDDP_CUDA=ON")
        self.assertNotEqual(code, 0)
        self.assertIn("DDP_CUDA=ON, but there is no nvidia/nccl/include/nccl.h", text)
        self.assertIn("Run DDP_CUDA=ON ./make.sh deps", text)
        code, text = configure("ON", "2.11.0+cu130", "-DDDP_CUDA=yes")
        self.assertNotEqual(code, 0)
        self.assertIn("DDP_CUDA is 'yes'. Give AUTO, ON or OFF.", text)


if __name__ == "__main__":
    unittest.main()
