"""Our detectors against ultralytics: the same seed draws the same weights, the same weights give the same outputs, and from
these outputs come the same loss and gradients.

Run by hand: DDP_PYTHON_DETECTOR=... DDP_MODELS_TOOL=... python3 tests/interop/yolo_test.py
"""

import pathlib
import tempfile
import types
import unittest

import detector_python

detector_python.enter(__file__)

# pylint: disable=wrong-import-position
import torch
from safetensors.torch import load_file, save_file
from ultralytics.nn.tasks import DetectionModel
from ultralytics.utils.loss import v8DetectionLoss

from tools import models_tool, models_tool_each, run_tests

CLASSES = 80
GAINS = types.SimpleNamespace(box=7.5, cls=0.5, dfl=1.5)


def build(name):
    return DetectionModel(f"{name}.yaml", nc=CLASSES, verbose=False)


def raw_outputs(model, images):
    outputs = model(images)
    parts = outputs[1] if isinstance(outputs, tuple) else outputs
    return torch.cat([parts["boxes"], parts["scores"]], 1).transpose(1, 2)


def some_boxes(images, most, side):
    """Rows of image, class, centre and size in shares of the side; many are small, some images have none."""
    rows = []
    for image in range(images):
        for _ in range(int(torch.randint(0, most + 1, ()))):
            size = torch.rand(2) ** 2 * 0.9 + 2 / side
            centre = size / 2 + torch.rand(2) * (1 - size)
            rows.append([image, int(torch.randint(0, CLASSES, ())), *centre.tolist(), *size.tolist()])
    return torch.tensor(rows, dtype=torch.float32).reshape(-1, 6)


class Yolo(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        torch.manual_seed(11)

    def test_the_same_seed_draws_the_same_weights(self):
        names = ("yolov5n", "yolov5s", "yolov5m", "yolov8n", "yolov8s", "yolov8m")
        models_tool_each(("draw", name, 3, 64, CLASSES, 5, self.folder / f"{name}.safetensors") for name in names)
        for name in names:
            with self.subTest(name):
                ours = load_file(self.folder / f"{name}.safetensors")
                torch.manual_seed(5)
                theirs = build(name)
                self.assertTrue(torch.equal(ours.pop("next"), torch.rand(4)), "the generators stand at different places")
                state = theirs.state_dict()
                self.assertEqual(ours.keys(), state.keys())
                for key, tensor in state.items():
                    self.assertEqual(ours[key].dtype, tensor.dtype, key)
                    self.assertTrue(torch.equal(ours[key], tensor), key)

    def test_the_same_weights_give_the_same_outputs(self):
        known, commands = [], []
        for name in ("yolov5n", "yolov8n", "yolov8m"):
            model = build(name)
            with torch.no_grad():
                for _, buffer in model.named_buffers():  # as after some training
                    if buffer.is_floating_point():
                        buffer.add_(torch.rand_like(buffer))
            images = torch.rand(2, 3, 64, 96)
            weights, x, out = (self.folder / f"{name}-{kind}.safetensors" for kind in ("weights", "x", "out"))
            save_file({key: tensor.contiguous() for key, tensor in model.state_dict().items()}, weights)
            save_file({"x": images}, x)
            known.append((name, model, images, out))
            commands.append(("forward", name, 3, 64, CLASSES, weights, x, out))
        models_tool_each(commands)
        for name, model, images, out in known:
            with self.subTest(name):
                ours = load_file(out)
                with torch.no_grad():
                    for mode in ("train", "eval"):
                        model.train(mode == "train")
                        self.compare(ours.pop(mode), raw_outputs(model, images), 1e-4, f"{name}, {mode} mode")
                for key, buffer in model.named_buffers():
                    self.compare(ours.pop(key).float(), buffer.float(), 1e-5, key)

    def test_the_same_outputs_have_the_same_loss_and_gradient(self):
        model = build("yolov8n")
        model.args = GAINS
        criterion = v8DetectionLoss(model)
        for most, side, spread in ((4, 64, 1.0), (12, 128, 2.0), (40, 160, 3.0), (0, 64, 1.0)):
            with self.subTest(most=most, side=side):
                self.compare_losses(criterion, most, side, spread)

    def compare_losses(self, criterion, most, side, spread):
        images = 3
        cells = [side // stride for stride in (8, 16, 32)]
        places = sum(cell * cell for cell in cells)
        raw = (torch.randn(images, places, 64 + CLASSES) * spread).requires_grad_()
        boxes = some_boxes(images, most, side)
        parts = raw.transpose(1, 2).split((64, CLASSES), 1)
        features = [torch.zeros(images, 1, cell, cell) for cell in cells]
        batch = {"batch_idx": boxes[:, 0], "cls": boxes[:, 1:2], "bboxes": boxes[:, 2:]}
        theirs = criterion({"boxes": parts[0], "scores": parts[1], "feats": features}, batch)[0] / images
        theirs.sum().backward()

        corners = torch.cat([boxes[:, 2:4] - boxes[:, 4:] / 2, boxes[:, 2:4] + boxes[:, 4:] / 2], 1) * side
        rows = torch.bincount(boxes[:, 0].long(), minlength=images)
        given, out = self.folder / f"{most}-given.safetensors", self.folder / f"{most}-out.safetensors"
        save_file({"raw": raw.detach(), "boxes": torch.cat([boxes[:, 1:2], corners], 1), "rows": rows}, given)
        models_tool("detection-loss", side, given, out)
        ours = load_file(out)
        divisor = ours["weight"].clamp(min=1)
        if most > 0:
            self.assertGreater(ours["weight"], 0.01, "too few objects were assigned to tell")
        for part, value in zip(("box", "cls", "dfl"), theirs.detach()):
            self.compare(ours[part] / divisor, value, 1e-4, part)
        self.compare(ours["total"] / divisor, theirs.detach().sum(), 1e-4, "total")
        scale = raw.grad.abs().max()
        self.compare(ours["gradient"] / divisor / scale, raw.grad / scale, 1e-3, "gradient")

    def compare(self, ours, theirs, tolerance, what):
        """Relative to the numbers, of which those below 1 count as 1."""
        self.assertEqual(ours.shape, theirs.shape, what)
        off = ((ours - theirs).abs() / theirs.abs().clamp(min=1)).max()
        self.assertLessEqual(off.item(), tolerance, what)


if __name__ == "__main__":
    run_tests()
