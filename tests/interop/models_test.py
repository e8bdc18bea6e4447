"""The built-in models against Python's: same seed, same weights; same weights, same scores.

Run by hand: DDP_MODELS_TOOL=... python3 tests/interop/models_test.py
With DDP_TORCHVISION=1, and torchvision installed, ResNets of 3 channels and more than 64 pixels are torchvision's own.
"""

import os
import pathlib
import tempfile
import unittest

import torch
from safetensors.torch import load_file, save_file

import reference_models
from tools import models_tool, models_tool_each, run_tests

# Channels, side, classes. Small sides keep it quick; above 64 pixels ResNets have ImageNet's stem.
CASES = [
    ("convnet", 1, 28, 10),
    ("lenet", 1, 28, 10),
    ("mlp", 1, 28, 10),
    ("resnet18", 3, 32, 10),
    ("resnet18", 1, 28, 10),
    ("resnet18", 3, 72, 1000),
    ("resnet34", 3, 72, 1000),
    ("resnet50", 3, 72, 1000),
]


def build(name, channels, side, classes):
    if os.environ.get("DDP_TORCHVISION") and name.startswith("resnet") and channels == 3 and side > 64:
        import torchvision  # pylint: disable=import-outside-toplevel

        return getattr(torchvision.models, name)(num_classes=classes)
    return reference_models.build(name, channels, side, classes)


class Models(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        torch.manual_seed(11)

    def test_the_same_seed_draws_the_same_weights(self):
        paths = [self.folder / f"{number}.safetensors" for number in range(len(CASES))]
        models_tool_each(("draw", *case, 5, path) for case, path in zip(CASES, paths, strict=True))
        for case, path in zip(CASES, paths, strict=True):
            with self.subTest(case):
                ours = load_file(path)
                torch.manual_seed(5)
                theirs = build(*case).state_dict()
                self.assertTrue(torch.equal(ours.pop("next"), torch.rand(4)), "the generators stand at different places")
                self.assertEqual(ours.keys(), theirs.keys())
                for name, tensor in theirs.items():
                    self.assertEqual(ours[name].dtype, tensor.dtype, name)
                    self.assertTrue(torch.equal(ours[name], tensor), name)

    def test_the_same_weights_give_the_same_scores(self):
        known, commands = [], []
        for number, case in enumerate(CASES):
            model = build(*case)
            with torch.no_grad():
                for name, buffer in model.named_buffers():  # as after some training
                    if buffer.is_floating_point():
                        buffer.add_(torch.rand_like(buffer))
            x = torch.randn(4, case[1], case[2], case[2])
            weights, images, out = (self.folder / f"{number}-{name}.safetensors" for name in ("weights", "x", "out"))
            save_file(model.state_dict(), weights)
            save_file({"x": x}, images)
            known.append((case, model, x, out))
            commands.append(("forward", *case, weights, images, out))
        models_tool_each(commands)
        for case, model, x, out in known:
            with self.subTest(case):
                ours = load_file(out)
                with torch.no_grad():
                    for mode in ("train", "eval"):
                        model.train(mode == "train")
                        self.compare(ours.pop(mode), model(x), f"scores, {mode} mode")
                for name, buffer in model.named_buffers():
                    self.compare(ours.pop(name), buffer, name)
                self.assertFalse(ours)

    def test_weights_of_1000_classes_start_a_model_of_10(self):
        theirs = build("resnet18", 3, 72, 1000).state_dict()
        weights, out = self.folder / "resnet18.pt", self.folder / "out.safetensors"
        torch.save({"epoch": 90, "state_dict": {f"module.{name}": tensor for name, tensor in theirs.items()}}, weights)
        said = models_tool("load", "resnet18", 3, 72, 10, weights, "partial", out)
        self.assertEqual(
            said.replace(str(self.folder), ""),
            "weights: loaded 120 of the model's 122 tensors from /resnet18.pt\n"
            "  prefix taken off: module.\n"
            "  skipped, they differ: fc.weight: F32 [1000, 512] in the file, F32 [10, 512] in the model, "
            "fc.bias: F32 [1000] in the file, F32 [10] in the model\n",
        )
        torch.manual_seed(5)
        drawn = build("resnet18", 3, 72, 10).state_dict()
        for name, tensor in load_file(out).items():
            self.assertTrue(torch.equal(tensor, (drawn if name.startswith("fc.") else theirs)[name]), name)
        with self.assertRaisesRegex(RuntimeError, r"fc.weight: F32 \[1000, 512\] in the file(.|\n)*model.strict: false"):
            models_tool("load", "resnet18", 3, 72, 10, weights, "strict", self.folder / "none")

    def test_half_precision_and_channels_last_weights_load(self):
        theirs = build("resnet18", 3, 72, 1000).to(memory_format=torch.channels_last).bfloat16().state_dict()
        weights, out = self.folder / "resnet18.pt", self.folder / "out.safetensors"
        torch.save(theirs, weights)
        said = models_tool("load", "resnet18", 3, 72, 1000, weights, "strict", out)
        self.assertIn("loaded 122 of the model's 122 tensors", said)
        self.assertIn("converted: BF16 to F32", said)
        for name, tensor in load_file(out).items():
            self.assertTrue(torch.equal(tensor, theirs[name].to(tensor.dtype)), name)

    def compare(self, ours, theirs, what):
        """Within 1e-5 of the largest value. In evaluation mode our weights are channels-last and Python's are not, so sums are
        taken in another order. In training mode both are not: the norms of an untrained ResNet-50 over 36 pixels make 3e-5 of
        the same roundings."""
        self.assertEqual(ours.dtype, theirs.dtype, what)
        difference = (ours - theirs).abs().max().item() / max(1, theirs.abs().max().item())
        self.assertLess(difference, 1e-5, what)


if __name__ == "__main__":
    run_tests()
