"""Python's safetensors and torch.load read our files, and we read Python's; the files of a checkpoint are such files.

Run by hand: DDP_FILES_TOOL=... python3 tests/interop/safetensors_test.py
"""

import collections
import io
import json
import pathlib
import tempfile
import unittest
import zipfile

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from tools import files_tool, run_tests

# As SampleTensors of files_tool.cpp.
SAMPLE = {
    "bool": torch.tensor([True, False, True]),
    "u8": torch.tensor([[0], [1], [2], [254], [255]], dtype=torch.uint8),
    "i8": torch.tensor([-128, 0, 127], dtype=torch.int8),
    "i16": torch.tensor([-1, 0, 1], dtype=torch.int16),
    "i32": torch.tensor([-1, 1], dtype=torch.int32),
    "i64": torch.tensor(-(2**63)),
    "bf16": torch.tensor([1, -2], dtype=torch.bfloat16),
    "f16": torch.tensor([1, -2], dtype=torch.float16),
    "f32": torch.tensor([[0, 1, 2], [3, 4, float("inf")]]),
    "f64": torch.tensor([[1 / 3, -0.0]], dtype=torch.float64),
    "empty": torch.zeros(0, 3),
}


def bytes_of(tensor) -> bytes:
    return tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes()


class Safetensors(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def check_sample(self, tensors):
        self.assertEqual(tensors.keys(), SAMPLE.keys())
        for name, expected in SAMPLE.items():
            self.assertEqual(tensors[name].dtype, expected.dtype, name)
            self.assertEqual(tensors[name].shape, expected.shape, name)
            self.assertEqual(bytes_of(tensors[name]), bytes_of(expected), name)

    def test_python_reads_ours(self):
        path = self.folder / "ours.safetensors"
        files_tool("write-safetensors", path)
        self.check_sample(load_file(path))
        with safe_open(path, framework="pt") as file:
            self.assertEqual(file.metadata(), {"format": "pt", "note": '"ü"'})

    def test_python_reads_our_state_dict(self):
        """By torch.load's defaults, which run no code; mapped too, and as a zip archive by another reader."""
        path = self.folder / "ours.pt"
        files_tool("write-torch", path)
        self.check_sample(torch.load(path))
        self.check_sample(torch.load(path, mmap=True))
        self.check_sample(torch.load(io.BytesIO(path.read_bytes())))
        self.assertIs(type(torch.load(path)), collections.OrderedDict)
        with zipfile.ZipFile(path) as archive:
            self.assertIsNone(archive.testzip())
        lines = files_tool("read-tensors", path).decode().splitlines()
        self.assertEqual([line.split()[0] for line in lines], list(SAMPLE))

    def test_we_read_pythons(self):
        path = self.folder / "theirs.safetensors"
        save_file(SAMPLE, path, metadata={"format": "pt"})
        lines = files_tool("read-tensors", path).decode().splitlines()
        self.assertIn("metadata format pt", lines)
        ours = {line.split()[0]: line for line in lines if not line.startswith("metadata ")}
        self.assertEqual(ours.keys(), SAMPLE.keys())
        for name, tensor in SAMPLE.items():
            shape = "".join(f" {size}" for size in tensor.shape)
            dtype = "F32" if name == "empty" else name.upper()
            self.assertEqual(ours[name], f"{name} {dtype}{shape} : {bytes_of(tensor).hex()}")

    def test_python_reads_a_checkpoint(self):
        files_tool("checkpoint", self.folder, 600)
        checkpoints = self.folder / "checkpoints"
        checkpoint = checkpoints / (checkpoints / "latest").read_text().strip()
        self.assertEqual(checkpoint.name, "step-000600")
        self.check_sample(load_file(checkpoint / "model.safetensors"))
        self.assertEqual(load_file(checkpoint / "optimizer.safetensors"), {})
        manifest = json.loads((checkpoint / "manifest.json").read_text())["content"]
        self.assertEqual(manifest["step"], 600)
        self.assertEqual(manifest["job"], {"model.name": "convnet"})
        self.assertEqual(float(manifest["best"]), 1 / 3)
        for file in manifest["files"]:
            self.assertEqual(file["size"], (checkpoint / file["name"]).stat().st_size)


if __name__ == "__main__":
    run_tests()
