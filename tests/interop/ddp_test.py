"""Python's DDP against ours, under either launcher: the same seed, weights, samples and losses.

Run by hand: DDP_BIN=build/release DDP_FILES_TOOL=... python3 tests/interop/ddp_test.py
"""

import functools
import json
import os
import pathlib
import sys
import tempfile
import unittest

import torch
from safetensors.torch import load_file

from processes import preload_variables
from run_files import losses
from tools import files_tool, run_program, run_tests
from reference_ddp import ConvNet
from torchrun_zygote import run_jobs

HERE = pathlib.Path(__file__).parent
COUNT, BATCH, EPOCHS = 1000, 32, 4
MEAN, DEVIATION = 0.163, 0.23

JOB = """
name: same
launch: {nproc_per_node: 2}
data: {name: digits, batch_per_rank: 32, train_size: 1000, test_size: 100}
optimizer: {lr: 0.02, momentum: 0.9, weight_decay: 1e-4}
schedule: {name: cosine, warmup: 0}
train: {epochs: 4, log_every: 1}
"""


class SameAsPython(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bin = pathlib.Path(os.environ["DDP_BIN"]).resolve()
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        (cls.path / "digits.bin").write_bytes(files_tool("digits", 1, "train", COUNT))
        (cls.path / "job.yaml").write_text(JOB, encoding="utf-8")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def run_program(cls, *command):
        return run_program(*command, folder=cls.path)

    ARGUMENTS = (
        "--images", "digits.bin", "--count", COUNT, "--mean", MEAN, "--deviation", DEVIATION, "--epochs", EPOCHS, "--batch", BATCH,
    )  # fmt: skip

    @classmethod
    @functools.cache
    def under_torchrun(cls):
        """The losses of reference_ddp.py."""
        cls.torchrun(HERE / "reference_ddp.py", *cls.ARGUMENTS, "--out", "torchrun.json")
        return json.loads((cls.path / "torchrun.json").read_text(encoding="utf-8"))

    @classmethod
    @functools.cache
    def launched(cls):
        """The losses of the worker under our launcher."""
        cls.run_program(cls.bin / "ddp-launch", "job.yaml", f"output={cls.path / 'a'}")
        return losses(cls.path / "a" / "same")

    @classmethod
    def torchrun(cls, *arguments):
        """Two ranks of it. Its agent is a fork of this process, which has imported torch; torchrun_test.py starts it as users do."""
        files = {name: str(cls.path / f"torchrun.{name}") for name in ("stdout", "stderr")}
        words = ["--standalone", "--nproc-per-node", "2", *map(str, arguments)]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        job = {"module": "torch.distributed.run", "arguments": words, "folder": cls.path, "environment": environment} | files
        assert run_jobs([job]) == [0], "".join(pathlib.Path(file).read_text(encoding="utf-8") for file in files.values())

    def assert_same(self, ours, theirs, tolerance):
        self.assertEqual(len(ours), len(theirs))
        for step, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            self.assertAlmostEqual(a, b, delta=tolerance * max(1, abs(b)), msg=f"step {step}")

    def test_a_script_written_for_torchrun_runs_unchanged(self):
        shared = {"PYTHON_EXEC": sys.executable} | preload_variables(self.path, "torch", "torch._dynamo")  # one import for both ranks
        self.addCleanup(run_program, self.bin / "ddp-launch", "warm", "--stop", folder=self.path, **shared)
        command = [self.bin / "ddp-launch", "--nproc-per-node", 2, HERE / "reference_ddp.py", *self.ARGUMENTS, "--out", "ours.json"]
        self.assertNotIn("without it", run_program(*command, folder=self.path, **shared))
        ours = json.loads((self.path / "ours.json").read_text(encoding="utf-8"))
        # The same program on the same ranks: the same numbers.
        self.assert_same(ours, self.under_torchrun(), 1e-6)

    def test_the_worker_has_the_losses_of_python_ddp(self):
        theirs = self.under_torchrun()
        # Convolutions run channels-last here and not there, so sums round differently; that grows with the steps.
        self.assert_same(self.launched(), theirs, 2e-3)
        self.assertLess(theirs[-1], 0.7 * theirs[0], "it learned nothing, so equality says little")

    def test_the_worker_runs_under_torchrun(self):
        self.torchrun("--no-python", self.bin / "ddp-worker", "job.yaml", f"output={self.path / 'b'}")
        # The same program, ranks and threads: the same bits.
        self.assertEqual(losses(self.path / "b" / "same"), self.launched())

    def test_the_first_weights_are_those_of_python(self):
        # One step at a rate that no float32 weight can feel.
        self.run_program(
            self.bin / "ddp-worker", "job.yaml", f"output={self.path / 'd'}", "optimizer.lr=1e-30", "optimizer.weight_decay=0",
            "train.epochs=1", "data.train_size=32",
        )  # fmt: skip
        ours = load_file(self.path / "d" / "same" / "checkpoints" / "step-000001" / "model.safetensors")
        torch.manual_seed(1)
        theirs = ConvNet().state_dict()
        self.assertEqual(set(ours), set(theirs))
        for name, tensor in theirs.items():
            self.assertTrue(torch.equal(ours[name], tensor), name)


if __name__ == "__main__":
    run_tests()
