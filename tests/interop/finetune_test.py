"""Fine-tuning: two ranks start from what Python saved, with another head, and train a part of it.

Run by hand: DDP_BIN=build/release python3 tests/interop/finetune_test.py
"""

import gzip
import io
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import torch
from safetensors.torch import load_file, save_file

import reference_models
from tools import run_tests

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


class KindsOfFiles(unittest.TestCase):
    """What people call the weights of a model: 15 kinds are loaded, 10 refused with what to do instead."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        torch.manual_seed(77)
        self.net = reference_models.build("lenet", 1, 28, 10)
        self.state = self.net.state_dict()

    def with_prefix(self, prefix):
        return {prefix + name: tensor for name, tensor in self.state.items()}

    def to(self, kind):
        return {name: tensor.to(kind) for name, tensor in self.state.items()}

    def train(self, path):
        job = self.folder / "job.yaml"
        frozen = [name for name in self.state if name != "fc3.bias"]
        job.write_text(
            f"name: kinds\noutput: {self.folder}/runs\n"
            "data: {name: digits, train_size: 32, test_size: 16, batch: 32}\ntrain: {epochs: 1}\n"
            f"model: {{name: lenet, weights: {path}, freeze: {json.dumps(frozen)}}}\n",
            encoding="utf-8",
        )
        command = [pathlib.Path(os.environ["DDP_BIN"]) / "ddp-worker", job, "checkpoint.resume=never", "device=cpu"]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    def test_those_that_hold_weights_are_loaded(self):
        optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1).state_dict()
        average = {"ema_state": 1, "model_ema": self.state}
        kinds = {
            "state.pt": self.state,
            "state.pth": self.state,
            "state_dict.pth": {"state_dict": self.state, "epoch": 3, "arch": "lenet"},
            "checkpoint.tar": {"model": self.state, "optimizer": optimizer, "epoch": 3},
            "ema.pt": {"ema": self.state, "epoch": 1},
            "model_ema.pt": average,
            "net.pt": {"net": self.state, "acc": 0.5},
            "data_parallel.pt": self.with_prefix("module."),
            "compiled.pt": self.with_prefix("_orig_mod."),
            "compiled_ddp.pt": {"model": self.with_prefix("_orig_mod.module.")},
            "lightning.ckpt": {"state_dict": self.with_prefix("model."), "pytorch-lightning_version": "2.5.0"},
            "half.pt": self.to(torch.float16),
            "tied.pt": self.state | {"again.weight": self.state["fc3.weight"]},
        }
        prefixes = {
            "data_parallel.pt": "module.",
            "compiled.pt": "_orig_mod.",
            "compiled_ddp.pt": "_orig_mod., module.",
            "lightning.ckpt": "model.",
        }
        for name, content in kinds.items():
            torch.save(content, self.folder / name)
        save_file(self.state, self.folder / "model.safetensors")
        save_file(self.to(torch.bfloat16), self.folder / "bf16.safetensors")
        for name in (*kinds, "model.safetensors", "bf16.safetensors"):
            with self.subTest(name):
                run = self.train(self.folder / name)
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertIn("loaded 10 of the model's 10 tensors", run.stdout)
                if name in prefixes:
                    self.assertIn(f"prefix taken off: {prefixes[name]}\n", run.stdout)
                (path,) = self.folder.glob("runs/kinds/checkpoints/*/model.safetensors")
                rounded = {"half.pt": torch.float16, "bf16.safetensors": torch.bfloat16}.get(name, torch.float32)
                for key, tensor in load_file(path).items():
                    if key != "fc3.bias":
                        self.assertTrue(torch.equal(tensor, self.state[key].to(rounded).float()), key)
                shutil.rmtree(self.folder / "runs")

    def test_the_others_are_refused_with_what_to_do(self):
        torch.save(self.state, self.folder / "old.pt", _use_new_zipfile_serialization=False)
        torch.save(self.net, self.folder / "module.pt")
        torch.jit.script(self.net).save(self.folder / "script.pt")
        torch.save({"epoch": 3}, self.folder / "numbers.pt")
        whole = io.BytesIO()
        torch.save(self.state, whole)
        (self.folder / "cut.pt").write_bytes(whole.getvalue()[:-1000])
        (self.folder / "weights.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(1000))
        (self.folder / "pointer.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n", encoding="utf-8")
        (self.folder / "page.pt").write_text("<!DOCTYPE html><title>Sign in</title>", encoding="utf-8")
        (self.folder / "denied.pt").write_text("\ufeff\n<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", encoding="utf-8")
        (self.folder / "packed.pt").write_bytes(gzip.compress(whole.getvalue()))
        reasons = {
            "old.pt": "from before torch 1.6",
            "module.pt": "save model.state_dict()",
            "script.pt": "TorchScript archive",
            "numbers.pt": "holds no state_dict",
            "cut.pt": "it is cut off, the table of contents at its end is missing. Get it again.",
            "weights.h5": "it is an HDF5 file, as Keras writes them: save a state_dict from torch.",
            "pointer.safetensors": "it is a pointer of Git LFS and not the file: git lfs pull gets that.",
            "page.pt": "it is a page of a server (HTML or XML) and not the file",
            "denied.pt": "it is a page of a server (HTML or XML) and not the file",
            "packed.pt": "it is compressed by gzip: unpack it.",
        }
        for name, reason in reasons.items():
            with self.subTest(name):
                run = self.train(self.folder / name)
                self.assertEqual(run.returncode, 2, run.stderr)
                self.assertIn(reason, run.stderr)


if __name__ == "__main__":
    run_tests()
