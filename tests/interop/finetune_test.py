"""Fine-tuning: two ranks start from what Python saved, with another head, and train a part of it.

Run by hand: DDP_BIN=build/release python3 tests/interop/finetune_test.py
"""

import os
import pathlib
import subprocess
import tempfile
import unittest

import torch
from safetensors.torch import load_file

import reference_models

JOB = """
name: tune
output: {folder}/runs
data: {{name: digits, train_size: 640, test_size: 64, batch_per_rank: 32}}
model: {{name: lenet, weights: {folder}/lenet.pt, strict: false, freeze: {freeze}}}
optimizer: {{lr: 0.05, weight_decay: 0.01}}
train: {{epochs: 1}}
"""


class FineTune(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        torch.manual_seed(77)
        self.saved = reference_models.build("lenet", 1, 28, 100).state_dict()
        torch.save({"model": {f"module.{name}": tensor for name, tensor in self.saved.items()}}, self.folder / "lenet.pt")

    def launch(self, freeze):
        job = self.folder / "job.yaml"
        job.write_text(JOB.format(folder=self.folder, freeze=freeze), encoding="utf-8")
        command = [pathlib.Path(os.environ["DDP_BIN"]) / "ddp-launch", "--nproc-per-node", "2", job]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    def test_frozen_weights_stay_those_of_the_file_and_the_rest_is_trained(self):
        run = self.launch("[conv*, fc1.*]")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("loaded 8 of the model's 10 tensors", run.stdout)
        self.assertIn("fc3.weight: F32 [100, 84] in the file, F32 [10, 84] in the model", run.stdout)
        (path,) = self.folder.glob("runs/tune/checkpoints/*/model.safetensors")
        trained = load_file(path)
        self.assertEqual(trained.keys(), self.saved.keys())
        for name in ("conv1.weight", "conv2.bias", "fc1.weight", "fc1.bias"):
            self.assertTrue(torch.equal(trained[name], self.saved[name]), name)
        self.assertFalse(torch.equal(trained["fc2.weight"], self.saved["fc2.weight"]))

    def test_a_pattern_for_nothing_is_refused(self):
        run = self.launch("[cnov1.*]")
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertIn('model.freeze: "cnov1.*" matches no parameter of the model, did you mean "conv1.*"?', run.stderr)


if __name__ == "__main__":
    unittest.main()
