"""Average precision against pycocotools, non-maximum suppression against torchvision, both against ultralytics.

Run by hand: DDP_PYTHON_DETECTOR=... DDP_DETECTION_TOOL=... python3 tests/interop/detection_test.py
"""

import contextlib
import io
import pathlib
import tempfile
import unittest

import detector_python
from tools import run_tests, run_tool

CLASSES = 6
IMAGES = 40
SIDE = 640
ABSENT = CLASSES - 1  # no object is of this class
SUMMARY = ("AP50:95", "AP50", "AP75", "AP_small", "AP_medium", "AP_large")


def detection_tool(*arguments) -> str:
    return run_tool("DDP_DETECTION_TOOL", *arguments).decode()


class Scenes:
    """Objects and detections of images: most detections lie near an object. Rows are (image, class, left, top, right, bottom, ...)."""

    def __init__(self, numpy, seed, scores_in=0, crowds=True):
        self.random = numpy.random.default_rng(seed)
        self.truths, self.detections = [], []
        for image in range(IMAGES):
            objects = 0 if image % 7 == 0 else int(self.random.integers(1, 25))
            for _ in range(objects):
                self.add_object(image, crowds)
            if image == 3:  # more than COCO looks at
                for _ in range(260):
                    self.detections.append((image, 0, *self.box(), self.score(0.5)))
            for _ in range(0 if image % 11 == 5 else 12):
                self.detections.append((image, int(self.random.integers(CLASSES)), *self.box(), self.score(0.6)))
        if scores_in:
            self.detections = [(*row[:6], round(row[6] * scores_in) / scores_in) for row in self.detections]
        # As a float32 has them, so that both sides have the same.
        self.detections = [(*row[:2], *(float(numpy.float32(number)) for number in row[2:])) for row in self.detections]
        self.truths = [(*row[:2], *(float(numpy.float32(number)) for number in row[2:6]), *row[6:]) for row in self.truths]

    def score(self, most):
        return float(self.random.random() * most)

    def box(self):
        left, top = self.random.random(2) * SIDE * 0.8
        width, height = 4 + 250 * self.random.random(2) ** 3
        return left, top, left + width, top + height

    def add_object(self, image, crowds):
        box = self.box()
        label = int(self.random.integers(CLASSES - 1))
        # An outline fills a part of its box.
        area = float((box[2] - box[0]) * (box[3] - box[1]) * (0.5 + 0.5 * self.random.random()))
        is_crowd = bool(crowds and self.random.random() < 0.1)
        self.truths.append((image, label, *box, area, int(is_crowd)))
        for _ in range(int(self.random.integers(0, 5 if is_crowd else 3))):
            wide, high = box[2] - box[0], box[3] - box[1]
            moves = self.random.normal(size=4) * 0.12 * (wide, high, wide, high)
            near = [side + move for side, move in zip(box, moves)]
            near[2], near[3] = max(near[2], near[0] + 1), max(near[3], near[1] + 1)
            seen = label if self.random.random() < 0.85 else int(self.random.integers(CLASSES))
            self.detections.append((image, seen, *near, 0.2 + self.score(0.8)))

    def measured(self):
        """By the names that the tool prints."""
        with tempfile.TemporaryDirectory() as folder:
            truths, detections = pathlib.Path(folder) / "truths", pathlib.Path(folder) / "detections"
            truths.write_text("".join(" ".join(map(repr, row)) + "\n" for row in self.truths))
            detections.write_text("".join(" ".join(map(repr, row)) + "\n" for row in self.detections))
            lines = detection_tool("measure", truths, detections, IMAGES, CLASSES).splitlines()
        return {name: float(value) for name, value in (line.split() for line in lines)}


def box_as_coco(row):
    left, top, right, bottom = row[2:6]
    return [left, top, right - left, bottom - top]


def evaluated_by_coco(numpy, scenes):
    """COCOeval's summary by our names, and the precision of each class; nothing where it says -1."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    with contextlib.redirect_stdout(io.StringIO()):
        truths = COCO()
        truths.dataset = {
            "images": [{"id": image} for image in range(IMAGES)],
            "categories": [{"id": label} for label in range(CLASSES)],
            "annotations": [
                {"id": i + 1, "image_id": row[0], "category_id": row[1], "bbox": box_as_coco(row), "area": row[6], "iscrowd": row[7]}
                for i, row in enumerate(scenes.truths)
            ],
        }
        truths.createIndex()
        found = truths.loadRes(
            [{"image_id": row[0], "category_id": row[1], "bbox": box_as_coco(row), "score": row[6]} for row in scenes.detections]
        )
        judge = COCOeval(truths, found, "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    result = dict(zip(SUMMARY, judge.stats))
    precision = judge.eval["precision"][:, :, :, 0, 2]  # thresholds, recalls, classes
    for label in range(CLASSES):
        of_class = precision[:, :, label]
        if (of_class > -1).all():
            result[f"class/{label}/AP50:95"] = of_class.mean()
    return result


class AveragePrecision(unittest.TestCase):
    def expect_equal(self, scenes, least=0.05):
        expected = evaluated_by_coco(self.numpy, scenes)
        ours = scenes.measured()
        self.assertEqual(len(expected), len(SUMMARY) + CLASSES - 1, "one class has no objects")
        self.assertGreater(expected["AP50:95"], least)
        for name, value in expected.items():
            # Of boxes as left, top, right, bottom, the sums round otherwise.
            self.assertAlmostEqual(ours[name], value, delta=1e-9, msg=name)

    def setUp(self):
        import numpy

        self.numpy = numpy

    def test_random_scenes_with_crowds_and_empty_images(self):
        for seed in range(5):
            with self.subTest(seed=seed):
                self.expect_equal(Scenes(self.numpy, seed))

    def test_equal_scores_count_in_the_order_of_images(self):
        for tenths in (10, 3, 1):
            with self.subTest(tenths=tenths):
                self.expect_equal(Scenes(self.numpy, 11, scores_in=tenths), least=0.02)

    def test_without_detections(self):
        scenes = Scenes(self.numpy, 1)
        scenes.detections = scenes.detections[:1]
        self.expect_equal(scenes, least=-1)


class FieldsPackage(unittest.TestCase):
    def setUp(self):
        import numpy
        import torch
        from ultralytics.utils import metrics

        self.numpy, self.torch, self.metrics = numpy, torch, metrics

    def by_image(self, rows, image):
        table = self.numpy.array([row[1:] for row in rows if row[0] == image], dtype=self.numpy.float32).reshape(-1, len(rows[0]) - 1)
        return self.torch.from_numpy(table)

    def test_the_confusion_matrix_is_equal(self):
        for seed in range(3):
            scenes = Scenes(self.numpy, seed, crowds=False)
            matrix = self.metrics.ConfusionMatrix(names=dict(enumerate(map(str, range(CLASSES)))), task="detect")
            for image in range(IMAGES):
                found = self.by_image(scenes.detections, image)
                there = self.by_image(scenes.truths, image)
                matrix.process_batch(
                    {"bboxes": found[:, 1:5], "conf": found[:, 5], "cls": found[:, 0]},
                    {"bboxes": there[:, 1:5], "cls": there[:, 0]},
                    conf=0.25,
                    iou_thres=0.45,
                )
            ours = scenes.measured()
            side = CLASSES + 1
            table = [[ours[f"confusion/{row * side + column}"] for column in range(side)] for row in range(side)]
            self.assertEqual(table, matrix.matrix.tolist())

    def test_precision_and_recall_are_near(self):
        """It reads them between detections and smooths F1 over confidence; ours are those of a confidence."""
        scenes = Scenes(self.numpy, 3, crowds=False)
        hits, scores, seen, there = [], [], [], []
        ious = self.numpy.linspace(0.5, 0.95, 10)
        for image in range(IMAGES):
            found, objects = self.by_image(scenes.detections, image), self.by_image(scenes.truths, image)
            correct = self.numpy.zeros((len(found), len(ious)), dtype=bool)
            for label in range(CLASSES):
                mine = [i for i in range(len(found)) if found[i, 0] == label]
                mine.sort(key=lambda i: -found[i, 5])
                boxes = objects[objects[:, 0] == label][:, 1:5]
                overlaps = self.metrics.box_iou(found[mine][:, 1:5], boxes)
                for threshold, iou in enumerate(ious):
                    free = list(range(len(boxes)))
                    for row, i in enumerate(mine):
                        best = max(free, key=lambda j: overlaps[row, j], default=None)
                        if best is not None and overlaps[row, best] >= iou:
                            free.remove(best)
                            correct[i, threshold] = True
            hits.append(correct)
            scores.append(found[:, 5].numpy())
            seen.append(found[:, 0].numpy())
            there.append(objects[:, 0].numpy())
        joined = [self.numpy.concatenate(part) for part in (hits, scores, seen, there)]
        theirs = self.metrics.ap_per_class(*joined)
        ours = scenes.measured()
        for name, values, tolerance in (("precision", theirs[2], 0.05), ("recall", theirs[3], 0.05), ("F1", theirs[4], 0.02)):
            self.assertAlmostEqual(ours[name], values.mean(), delta=tolerance, msg=name)
        # It integrates over 101 recalls where COCO reads, and has no limit of 100 detections.
        self.assertAlmostEqual(ours["AP50"], theirs[5][:, 0].mean(), delta=0.01)


class Suppression(unittest.TestCase):
    def setUp(self):
        import torch
        from safetensors.torch import load_file, save_file

        self.torch, self.load_file, self.save_file = torch, load_file, save_file

    def draw(self, seed, boxes=400, classes=4):
        """Corners are multiples of a quarter pixel: moving them by a class's offset, as others do, is exact then."""
        generator = self.torch.Generator().manual_seed(seed)
        place = self.torch.randint(0, 1200, (2, boxes, 2), generator=generator)
        size = self.torch.randint(1, 1200, (2, boxes, 2), generator=generator)
        scores = self.torch.rand(2, boxes, classes, generator=generator) ** 2
        return self.torch.cat([place, place + size], 2) / 4, scores

    def ours(self, boxes, scores, confidence, iou, *words, candidates=30000, kept=300):
        with tempfile.TemporaryDirectory() as folder:
            source, target = pathlib.Path(folder) / "in.safetensors", pathlib.Path(folder) / "out.safetensors"
            self.save_file({"boxes": boxes, "scores": scores.contiguous()}, source)
            detection_tool("suppress", source, target, confidence, iou, candidates, kept, *words)
            found = self.load_file(target)
        return [found[str(image)] for image in range(len(boxes))]

    def test_suppression_equals_torchvision(self):
        from torchvision.ops import batched_nms, nms

        for seed, iou in ((1, 0.7), (2, 0.5), (3, 0.3)):
            boxes, scores = self.draw(seed)
            for words in (("multi-label",), ("multi-label", "class-agnostic")):
                ours = self.ours(boxes, scores, 0.1, iou, *words, kept=10000)
                for image, found in enumerate(ours):
                    place, label = (scores[image] > 0.1).nonzero(as_tuple=True)
                    sure, where = scores[image][place, label], boxes[image][place]
                    kept = nms(where, sure, iou) if len(words) > 1 else batched_nms(where, sure, label, iou)
                    expected = self.torch.cat([where, sure[:, None], label[:, None].float()], 1)[kept]
                    self.assertGreater(len(expected), 50)
                    self.assertTrue(self.torch.equal(found, expected), f"{seed} {words} image {image}")

    def test_suppression_equals_ultralytics(self):
        from ultralytics.utils.nms import non_max_suppression

        for multi_label in (True, False):
            for agnostic in (True, False):
                for limits in ({}, {"candidates": 200, "kept": 30}):
                    boxes, scores = self.draw(7)
                    low, high = boxes[..., :2], boxes[..., 2:]
                    raw = self.torch.cat([(low + high) / 2, high - low, scores], 2).transpose(1, 2)
                    expected = non_max_suppression(
                        raw.contiguous(),
                        conf_thres=0.1,
                        iou_thres=0.6,
                        agnostic=agnostic,
                        multi_label=multi_label,
                        max_time_img=1000,
                        max_nms=limits.get("candidates", 30000),
                        max_det=limits.get("kept", 300),
                    )
                    words = ["multi-label"] * multi_label + ["class-agnostic"] * agnostic
                    for found, theirs in zip(self.ours(boxes, scores, 0.1, 0.6, *words, **limits), expected):
                        self.assertGreater(len(theirs), 20)
                        self.assertTrue(self.torch.equal(found, theirs), f"{words} {limits}")


if __name__ == "__main__":
    detector_python.enter(__file__)
    run_tests()
