"""What `ddp-worker eval` says of a COCO JSON with crowds, areas of outlines and photos that lie on their side, against
pycocotools on what `ddp-worker predict` finds.

Run by hand: DDP_PYTHON_DETECTOR=... DDP_BIN=build/release python3 tests/interop/coco_eval_test.py
"""

import contextlib
import io
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

import detector_python

IMAGES = {"train": 64, "val": 40}
SUMMARY = ("AP50:95", "AP50", "AP75", "AP_small", "AP_medium", "AP_large")
# One class: predict gives each box its best class, an evaluation all of them.
JOB = """
name: job
task: {name: detection}
data: {name: coco, root: set, batch: 8, image_size: 96, augment: [flip]}
model: {name: yolov8n, args: {depth: 0.33, width: 0.1}}
loss: {name: detection}
optimizer: {name: adamw, lr: 0.01, weight_decay: 0}
schedule: {warmup: 0}
train: {epochs: 20}
eval: {every: 0}
"""


def draw(numpy, dice, width, height):
    """Pixels, and what is in them as (left, top, width, height, area, is a crowd)."""
    pixels = numpy.full((height, width, 3), 60, numpy.uint8)
    objects = []
    for kind in dice.choices(("object", "crowd", "hollow"), (5, 2, 3), k=dice.randrange(5)):
        w, h = (int(side * dice.uniform(0.06, 0.6) ** 1.3) for side in (width, height))
        w, h = max(w, 14), max(h, 14)
        left, top = dice.randrange(width - w), dice.randrange(height - h)
        part = pixels[top : top + h, left : left + w]
        if kind == "crowd":  # many of them, which nobody drew one by one
            for _ in range(6):
                x, y = dice.randrange(w - 8), dice.randrange(h - 8)
                part[y : y + dice.randrange(8, 60), x : x + dice.randrange(8, 60)] = (200, 40, dice.randrange(100))
        else:
            part[:] = (220, 30, dice.randrange(60))
        # An outline covers a part of its box, and so may be of another size.
        area = w * h * (0.3 if kind == "hollow" else 1)
        objects.append((left, top, w, h, area, int(kind == "crowd")))
    return pixels, objects


def save(pixels, path):
    """Every third image lies on its side, and its EXIF data say so; the JSON and the boxes are of the picture as it is seen."""
    from PIL import Image

    image = Image.fromarray(pixels)
    if int(path.stem) % 3:
        image.save(path)
        return path
    path = path.with_suffix(".jpg")
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise
    image.transpose(Image.Transpose.ROTATE_90).save(path, quality=95, exif=exif)
    return path


def write_set(numpy, folder):
    dice = random.Random(5)
    (folder / "annotations").mkdir(parents=True)
    for half, count in IMAGES.items():
        (folder / half).mkdir()
        images, annotations = [], []
        for number in range(1, count + 1):
            width, height = dice.choice(((400, 240), (240, 400), (300, 300), (380, 90), (512, 384)))
            pixels, objects = draw(numpy, dice, width, height)
            file = save(pixels, folder / half / f"{number:06}.png")
            images.append({"id": number, "file_name": file.name, "width": width, "height": height})
            for *box, area, crowd in objects:
                annotations.append(
                    {"id": len(annotations) + 1, "image_id": number, "category_id": 0, "bbox": box, "area": area, "iscrowd": crowd}
                )
        content = {"images": images, "annotations": annotations, "categories": [{"id": 0, "name": "box"}]}
        (folder / "annotations" / f"instances_{half}.json").write_text(json.dumps(content), encoding="utf-8")


def judged_by_coco(annotations, predictions):
    """COCOeval's summary by our names."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    with contextlib.redirect_stdout(io.StringIO()):
        truths = COCO(str(annotations))
        judge = COCOeval(truths, truths.loadRes(str(predictions)), "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    return dict(zip(SUMMARY, judge.stats))


class Crowds(unittest.TestCase):
    def worker(self, *arguments):
        worker = pathlib.Path(os.environ["DDP_BIN"]).absolute() / "ddp-worker"
        environment = os.environ | {"OMP_NUM_THREADS": "1"}  # more threads make nothing sooner of so small a net
        run = subprocess.run([worker, *map(str, arguments)], cwd=self.folder, env=environment, capture_output=True, check=False, text=True)
        self.assertEqual(run.returncode, 0, run.stderr + run.stdout)
        return run.stdout

    def evaluated(self, *arguments):
        lines = self.worker("eval", "runs/job", "job.yaml", "--json", *arguments).splitlines()
        record = json.loads(next(line for line in reversed(lines) if line.startswith("{")))
        return {name: record[f"test_{name}"] for name in SUMMARY}

    def setUp(self):
        import numpy

        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        write_set(numpy, self.folder / "set")
        (self.folder / "job.yaml").write_text(JOB, encoding="utf-8")
        self.worker("job.yaml")

    def test_an_evaluation_is_cocos(self):
        annotations = self.folder / "set/annotations/instances_val.json"
        self.worker("predict", "runs/job", "set/val", "-o", "out", "--confidence", 0.001, "--iou", 0.7, "--top", 300)
        expected = judged_by_coco(annotations, self.folder / "out/predictions.json")
        ours = self.evaluated()
        self.assertGreater(expected["AP50:95"], 0.1)
        self.assertTrue(all(0 < expected[name] < 1 for name in SUMMARY), expected)
        for name in SUMMARY:
            self.assertAlmostEqual(ours[name], expected[name], delta=1e-3, msg=name)
        # Crowds and areas both count here: without either the numbers are others.
        content = json.loads(annotations.read_text(encoding="utf-8"))
        for key, value, name in (("iscrowd", 0, "AP50"), ("area", 5000, "AP_small")):
            changed = content | {"annotations": [one | {key: value} for one in content["annotations"]]}
            annotations.write_text(json.dumps(changed), encoding="utf-8")
            self.assertGreater(abs(self.evaluated()[name] - expected[name]), 5e-3, key)
            annotations.write_text(json.dumps(content), encoding="utf-8")
        # As little border as there may be changes what the model sees, but not how it is judged.
        rectangular = self.evaluated("eval.rectangular=true")
        self.assertAlmostEqual(rectangular["AP50"], ours["AP50"], delta=0.05)
        self.assertNotEqual(rectangular["AP50:95"], ours["AP50:95"])


if __name__ == "__main__":
    detector_python.enter(__file__)
    unittest.main()
