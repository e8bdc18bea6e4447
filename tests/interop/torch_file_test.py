"""We read what torch.save writes, and refuse what is damaged or of another kind in one line.

Run by hand: DDP_FILES_TOOL=... python3 tests/interop/torch_file_test.py
"""

import collections
import io
import os
import pathlib
import pickle
import random
import subprocess
import tempfile
import unittest
import zipfile

import torch
from torch import nn

from tools import files_tool, run_tests

NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


class Evil:
    """Makes a file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def net():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 2))
    return model.to(memory_format=torch.channels_last)


def bytes_of(tensor) -> bytes:
    return tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes()


class TorchFile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path = self.folder / "saved.pt"

    def saved(self, what, **options):
        torch.save(what, self.path, **options)
        return self.read()

    def read(self):
        """The tensors of self.path by name, as our reader sees them."""
        tensors = {}
        for line in files_tool("read-tensors", self.path).decode().splitlines():
            words, raw = line.rsplit(" : ", 1) if " : " in line else (line.removesuffix(" :"), "")
            name, dtype, *sizes = words.split()
            strides = [int(size[1:]) for size in sizes if size.startswith("/")]
            sizes = [int(size) for size in sizes if not size.startswith("/")]
            kind = next(kind for kind, known in NAMES.items() if known == dtype)
            storage = torch.frombuffer(bytearray.fromhex(raw) or bytearray(8), dtype=kind)
            count = len(raw) // 2 // kind.itemsize
            tensors[name] = storage.as_strided(sizes, strides) if strides else storage[:count].reshape(sizes)
        return tensors

    def refusal(self):
        run = subprocess.run([os.environ["DDP_FILES_TOOL"], "read-tensors", self.path], capture_output=True, check=False)
        self.assertEqual(run.returncode, 2, (run.returncode, run.stderr))
        self.assertEqual(run.stderr.count(b"\n"), 1, run.stderr)
        self.assertIn(self.path.name, run.stderr.decode())
        return run.stderr.decode()

    def compare(self, ours, theirs):
        self.assertEqual(ours.keys(), theirs.keys())
        for name, tensor in theirs.items():
            self.assertEqual(ours[name].dtype, tensor.dtype, name)
            self.assertEqual(ours[name].shape, tensor.shape, name)
            self.assertEqual(bytes_of(ours[name].detach()), bytes_of(tensor.detach()), name)

    def test_a_state_dict_and_what_wraps_it(self):
        state = net().state_dict()
        self.assertFalse(state["0.weight"].is_contiguous(), "a weight with strides of its own")
        for protocol in (2, 4, 5):
            self.compare(self.saved(state, pickle_protocol=protocol), state)
        self.compare(self.saved({"epoch": 3, "best": 0.5, "state_dict": state}), state)
        self.compare(self.saved({"model": state, "optimizer": torch.optim.SGD(net().parameters()).state_dict()}), state)
        for wrapped in ({"model_state_dict": state}, {"ema": state, "epoch": 1}, {"net": state}, {"state_dict": {"model": state}}):
            self.compare(self.saved(wrapped), state)
        parameters = collections.OrderedDict(net().named_parameters())
        self.compare(self.saved(parameters), parameters)
        self.compare(self.saved({"epoch": 3, **state}), state)

    def test_every_dtype_views_and_shared_storages(self):
        base = torch.arange(24, dtype=torch.float32)
        state = {name: torch.ones(3, 2).to(kind) for kind, name in NAMES.items()}
        state |= {"view": base[4:16].reshape(3, 4), "transposed": base.reshape(4, 6).t(), "same": base}
        state |= {"scalar": torch.tensor(7), "empty": torch.zeros(0, 3), "every_second": base[1::2]}
        self.compare(self.saved(state), state)

    def test_content_of_the_file_is_not_executed(self):
        marker = self.folder / "executed"
        state = net().state_dict()
        self.compare(self.saved({"state_dict": state, "args": Evil(str(marker))}), state)
        self.assertFalse(marker.exists())
        torch.save(Evil(str(marker)), self.path)
        self.assertIn("holds no state_dict", self.refusal())
        self.assertFalse(marker.exists())

    def test_foreign_files_are_refused_with_what_to_do(self):
        state = net().state_dict()
        torch.save(state, self.path, _use_new_zipfile_serialization=False)
        self.assertIn("from before torch 1.6", self.refusal())
        torch.jit.script(net()).save(self.path)
        self.assertIn("TorchScript archive", self.refusal())
        torch.save(net(), self.path)
        self.assertIn("save model.state_dict()", self.refusal())
        torch.save({"weight": torch.ones(2).to_sparse()}, self.path)
        self.assertIn("tensor weight is built by torch._utils._rebuild_sparse_tensor", self.refusal())
        torch.save({"weight": torch.ones(2, dtype=torch.complex64)}, self.path)
        self.assertIn("torch.ComplexFloatStorage", self.refusal())
        torch.save({"weight": torch.ones(1).expand(1000)}, self.path)
        self.assertIn("reaches beyond its storage", self.refusal())
        with zipfile.ZipFile(self.path, "w") as archive:
            archive.writestr("a/readme.txt", "hello")
        self.assertIn("not one of torch.save", self.refusal())
        self.path.write_bytes(pickle.dumps(state["1.bias"].tolist(), protocol=4))
        self.refusal()
        self.path.write_bytes(b"")
        self.refusal()
        with self.path.open("wb") as file:
            file.truncate(1 << 43)
        self.assertIn("more than this node's memory", self.refusal())

    def test_a_lie_about_a_size_names_no_byte_outside_the_file(self):
        torch.save({"weight": torch.arange(8, dtype=torch.float32)}, self.path)
        with zipfile.ZipFile(self.path) as archive:
            records = {info.filename: archive.read(info) for info in archive.infolist()}
        name = next(name for name in records if name.endswith("data.pkl"))
        for lie in (b"K\x09", b"M\xff\xff", b"J\xff\xff\xff\x7f", b"J\xff\xff\xff\xff", b"\x8a\x08" + b"\xff" * 7 + b"\x7f"):
            with zipfile.ZipFile(self.path, "w") as archive:
                for record, content in records.items():
                    # Size (8,), the only tuple of one number that is followed by one more, the stride.
                    archive.writestr(record, content.replace(b"K\x08\x85", lie + b"\x85") if record == name else content)
            self.refusal()

    def test_damaged_files_are_refused_or_read_but_never_crash(self):
        torch.save(net().state_dict(), self.path)
        whole = self.path.read_bytes()
        draw = random.Random(1)
        for size in sorted(draw.sample(range(len(whole)), 200)):
            self.path.write_bytes(whole[:size])
            self.refusal()
        tensors = self.whole_lines(whole)
        harmless = 0
        for _ in range(300):
            place = draw.randrange(len(whole))
            self.path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << draw.randrange(8))]) + whole[place + 1 :])
            run = subprocess.run([os.environ["DDP_FILES_TOOL"], "read-tensors", self.path], capture_output=True, check=False)
            self.assertIn(run.returncode, (0, 2), (place, run.stderr))
            if run.returncode == 0:  # padding, a time, a version
                self.assertEqual(run.stdout, tensors, place)
                harmless += 1
        self.assertLess(harmless, 250)

    def whole_lines(self, whole):
        self.path.write_bytes(whole)
        return files_tool("read-tensors", self.path)

    def test_damaged_lists_of_tensors_are_refused_or_read_but_never_crash(self):
        """As above, with checksums that fit, so that the pickle itself is what is read."""
        torch.save(net().state_dict(), self.path)
        with zipfile.ZipFile(self.path) as archive:
            records = {info.filename: archive.read(info) for info in archive.infolist()}
        name = next(name for name in records if name.endswith("data.pkl"))
        draw = random.Random(2)
        for _ in range(300):
            listing = bytearray(records[name])
            for _ in range(draw.choice((1, 1, 3))):
                listing[draw.randrange(len(listing))] = draw.randrange(256)
            if draw.random() < 0.3:
                listing = listing[: draw.randrange(len(listing))]
            content = io.BytesIO()
            with zipfile.ZipFile(content, "w") as archive:
                for record, bytes_ in (records | {name: bytes(listing)}).items():
                    archive.writestr(record, bytes_)
            self.path.write_bytes(content.getvalue())
            run = subprocess.run([os.environ["DDP_FILES_TOOL"], "read-tensors", self.path], capture_output=True, check=False)
            self.assertIn(run.returncode, (0, 2), run.stderr)


if __name__ == "__main__":
    run_tests()
