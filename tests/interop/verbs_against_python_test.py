"""What the verbs of ddp-worker write and say of checkpoints, held against Python.

Run by hand: DDP_BIN=build/release DDP_FILES_TOOL=... python3 tests/interop/verbs_against_python_test.py
"""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import torch
import torchvision
from PIL import Image
from safetensors.torch import load_file

from run_files import records
from tools import files_tool, run_tests

JOB = """
name: job
output: {folder}/runs
data: {{name: image-folder, root: {folder}/photos, image_size: 32, batch: 8}}
model: {{name: resnet18, stem: imagenet}}
optimizer: {{lr: 0.01, ema_decay: 0.5}}
schedule: {{warmup: 0}}
train: {{epochs: 2}}
"""


class Verbs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.bin = pathlib.Path(os.environ["DDP_BIN"]).resolve()
        torch.manual_seed(1)
        torch.set_num_threads(1)
        for half, count in (("train", 8), ("val", 6)):
            for color, name in enumerate(("blue", "green", "red")):
                there = cls.folder / "photos" / half / name
                there.mkdir(parents=True)
                for i in range(count):
                    pixels = torch.randint(0, 128, (80, 70 + i, 3), dtype=torch.uint8)
                    pixels[:, :, 2 - color] += 100
                    Image.fromarray(pixels.numpy()).save(there / f"{i}.png")
        (cls.folder / "job.yaml").write_text(JOB.format(folder=cls.folder), encoding="utf-8")
        cls.run_worker("job.yaml")
        cls.run_dir = cls.folder / "runs/job"
        cls.checkpoint = cls.run_dir / "checkpoints" / (cls.run_dir / "checkpoints/latest").read_text(encoding="ascii").strip()

    @classmethod
    def run_worker(cls, *arguments):
        command = [str(cls.bin / "ddp-worker"), *map(str, arguments)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        run = subprocess.run(command, capture_output=True, text=True, cwd=cls.folder, env=environment, timeout=250, check=False)
        if run.returncode != 0:
            raise AssertionError(f"{command}\n{run.stdout}\n{run.stderr}")
        return run.stdout

    def check_equal(self, ours, theirs):
        self.assertEqual(list(ours), list(theirs))
        for name, tensor in theirs.items():
            self.assertEqual(ours[name].dtype, tensor.dtype, name)
            self.assertTrue(torch.equal(ours[name], tensor), name)

    def test_both_formats_hold_the_checkpoints_weights_and_load_strictly_into_torchvision(self):
        saved = load_file(self.checkpoint / "model.safetensors")
        self.run_worker("export", self.run_dir, "-o", "plain.pt")
        self.run_worker("export", self.checkpoint, "-o", "plain.safetensors")
        state = torch.load(self.folder / "plain.pt")
        self.check_equal(dict(sorted(state.items())), dict(sorted(saved.items())))
        self.check_equal(dict(sorted(load_file(self.folder / "plain.safetensors").items())), dict(sorted(saved.items())))
        model = torchvision.models.resnet18(num_classes=3)
        model.load_state_dict(state, strict=True)
        model.load_state_dict(load_file(self.folder / "plain.safetensors"), strict=True)
        self.assertEqual(model.bn1.num_batches_tracked.item(), 6)

    def test_the_average_is_what_the_optimizer_keeps_and_of_low_weights_in_their_type(self):
        kept = load_file(self.checkpoint / "optimizer.safetensors")
        saved = load_file(self.checkpoint / "model.safetensors")
        expected = {name: kept.get(f"{name}.ema", tensor) for name, tensor in saved.items()}
        self.assertFalse(torch.equal(expected["bn1.running_mean"], saved["bn1.running_mean"]))
        self.run_worker("export", self.run_dir, "--ema", "-o", "ema.pt")
        state = torch.load(self.folder / "ema.pt")
        self.check_equal(dict(sorted(state.items())), dict(sorted(expected.items())))
        torchvision.models.resnet18(num_classes=3).load_state_dict(state, strict=True)

        self.run_worker("job.yaml", "name=low", "amp.level=O3", "train.epochs=1")
        low = self.folder / "runs/low/checkpoints"
        self.run_worker("export", low, "--ema", "-o", "low.pt")
        state = torch.load(self.folder / "low.pt")
        (kept,) = (load_file(path) for path in low.glob("*/optimizer.safetensors"))
        self.assertEqual(state["conv1.weight"].dtype, torch.bfloat16)
        self.assertTrue(torch.equal(state["conv1.weight"], kept["conv1.weight.ema"].to(torch.bfloat16)))
        self.assertEqual(state["bn1.num_batches_tracked"].dtype, torch.int64)

    def test_an_exported_file_has_no_difference_and_another_one_has_that_of_python(self):
        self.run_worker("export", self.run_dir, "-o", "same.pt")
        (same,) = json.loads(self.run_worker("inspect", "same.pt", self.run_dir, "--json"))["files"]
        self.assertEqual((same["equal"], same["different"], same["only_in_second"]), (122, [], []))
        state = torch.load(self.folder / "same.pt")
        state["fc.weight"][1, 2] += 0.25
        del state["fc.bias"]
        torch.save(state, self.folder / "other.pt")
        (other,) = json.loads(self.run_worker("inspect", self.run_dir, "other.pt", "--json"))["files"]
        (changed,) = other["different"]
        self.assertEqual((other["equal"], changed["name"], other["only_in_first"]), (120, "fc.weight", ["fc.bias"]))
        saved = load_file(self.checkpoint / "model.safetensors")
        self.assertEqual(changed["largest_difference"], (state["fc.weight"].double() - saved["fc.weight"].double()).abs().max().item())

    def images(self):
        return sorted((self.folder / "photos/val").glob("*/*.png"))

    def lines(self, *arguments):
        return [json.loads(line) for line in self.run_worker("predict", *arguments, "--json").splitlines()]

    def test_classes_are_those_of_python_and_as_many_are_right_as_in_the_evaluation(self):
        answers = self.lines(self.run_dir, *self.images(), "--top", 3)
        self.assertEqual([answer["image"] for answer in answers], [str(path) for path in self.images()])
        self.run_worker("export", self.run_dir, "--ema", "-o", "evaluated.pt")
        model = torchvision.models.resnet18(num_classes=3).eval()
        model.load_state_dict(torch.load(self.folder / "evaluated.pt"))
        prepare = torchvision.transforms.Compose([
            torchvision.transforms.Resize(37), torchvision.transforms.CenterCrop(32), torchvision.transforms.ToTensor(),
            torchvision.transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ])  # fmt: skip
        with torch.no_grad():
            shares = model(torch.stack([prepare(Image.open(path).convert("RGB")) for path in self.images()])).softmax(1)
        for answer, theirs in zip(answers, shares, strict=True):
            ours = {one["number"]: one["probability"] for one in answer["classes"]}
            self.assertAlmostEqual(sum(ours.values()), 1)
            self.assertEqual([one["probability"] for one in answer["classes"]], sorted(ours.values(), reverse=True))
            for number, share in enumerate(theirs):
                self.assertAlmostEqual(ours[number], share.item(), delta=0.005)
        right = sum(answer["classes"][0]["class"] == path.parent.name for answer, path in zip(answers, self.images(), strict=True))
        tested = [record["test_accuracy"] for record in records(self.run_dir, "epoch")]
        self.assertAlmostEqual(right / len(answers), tested[-1])

    def test_an_image_that_cannot_be_read_is_named_and_the_others_go_on(self):
        (self.folder / "empty.png").write_bytes(b"")
        os.mkfifo(self.folder / "pipe.png")
        good = self.images()[0]
        odd = os.fsdecode(b"\xff.png")  # JSON has no such text
        command = [self.bin / "ddp-worker", "predict", self.run_dir, "empty.png", good, "gone.png", "pipe.png", odd, "--json"]
        run = subprocess.run(command, capture_output=True, encoding="utf-8", cwd=self.folder, timeout=100, check=False)
        self.assertEqual(run.returncode, 2)
        self.assertIn("ddp-worker: empty.png: it is empty\n", run.stderr)
        self.assertRegex(run.stderr, r"ddp-worker: gone.png: .*No such file")
        self.assertIn("ddp-worker: 4 of 5 images cannot be read\n", run.stderr)
        answers = {answer["image"]: answer for answer in map(json.loads, run.stdout.splitlines())}
        self.assertEqual({name for name, answer in answers.items() if "error" in answer}, {"empty.png", "gone.png", "pipe.png", "\ufffd.png"})
        self.assertIn("classes", answers[str(good)])
        (self.folder / "pipe.png").unlink()

    def test_digits_are_told_from_grey_images_of_their_size(self):
        (self.folder / "digits.yaml").write_text(
            f"name: digits\noutput: {self.folder}/runs\ndata: {{name: digits, batch: 64, train_size: 3200, test_size: 64}}\ntrain: {{epochs: 1}}\n",
            encoding="utf-8",
        )
        self.run_worker("digits.yaml")
        raw = files_tool("digits", 1, "test", 64)
        for i in range(64):
            pixels = torch.frombuffer(bytearray(raw[64 + i * 784 : 64 + (i + 1) * 784]), dtype=torch.uint8).reshape(28, 28)
            Image.fromarray(pixels.numpy()).save(self.folder / f"digit{i}.png")
        names = [f"digit{i}.png" for i in range(64)]
        text = self.run_worker("predict", "runs/digits", *names).splitlines()
        self.assertRegex(text[0], r"^digit0.png  \d \d+\.\d\d %$")
        right = sum(line.split()[1] == str(raw[i]) for i, line in enumerate(text))
        told = json.loads(self.run_worker("eval", "runs/digits", "digits.yaml", "--json").splitlines()[-1])
        self.assertEqual(right / 64, told["test_accuracy"])
        self.assertGreater(right, 30)


if __name__ == "__main__":
    run_tests()
