"""A detector as a user trains it: on a set of painted rectangles, by several ranks, killed in an epoch of mosaics, and set up wrongly.

Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support:tests/integration python3 tests/integration/detector_test.py
"""

import ctypes
import json
import math
import os
import random
import re
import struct
import unittest
import zlib

from run_files import losses, records
from tiny_sets import png_of
from worker_job import WorkerTest

# 24 images, 6 steps an epoch, saved within it; all that a run may remember.
JOB = """
name: job
task: {name: detection}
data:
  name: coco
  root: scenes
  batch: 4
  image_size: 64
  workers: 2
  args: {train: images/train, val: images/train, names: names.txt}
  augment: [{mosaic: {close: 1}}, {random-perspective: {degrees: 5}}, {mixup: {share: 0.3}}, hsv, flip]
model: {name: yolov8n, args: {width: 0.1}}
loss: {name: detection}
optimizer: {lr: 0.005, momentum: 0.9, nesterov: true, decay_norms_and_biases: false, ema_decay: 0.9, ema_ramp: 5}
schedule: {warmup: 1, warmup_bias_lr: 0.02, warmup_momentum: 0.8}
train: {epochs: 3, log_every: 1, clip_norm: 10}
checkpoint: {every_steps: 4}
"""
COLORS = ((220, 40, 40), (40, 220, 40), (60, 60, 220))


def obey_rights():
    """A preexec_fn: root, too, writes only where the mode of a folder says so."""
    drop_from_bounding_set, dac_override = 24, 1  # prctl(2), capabilities(7)
    ctypes.CDLL(None).prctl(drop_from_bounding_set, dac_override)


def picture(height, width, rectangles):
    """PNG of coloured rectangles (color, left, top, right, bottom) on black."""
    rows = [bytearray(3 * width) for _ in range(height)]
    for color, left, top, right, bottom in rectangles:
        for row in rows[top:bottom]:
            row[3 * left : 3 * right] = bytes(color) * (right - left)
    return png_of(rows)


class DetectorTest(WorkerTest):
    def setUp(self):
        super().setUp()
        (self.folder / "job.yaml").write_text(JOB, encoding="utf-8")
        images, labels = (self.folder / "scenes" / kind / "train" for kind in ("images", "labels"))
        images.mkdir(parents=True)
        labels.mkdir(parents=True)
        (self.folder / "scenes/names.txt").write_text("red\ngreen\nblue\n", encoding="utf-8")
        draw = random.Random(3)
        for number in range(24):
            height, width = 40 + number, 80 - number
            rectangles, lines = [], []
            for _ in range(number % 4):  # some images have none
                kind = draw.randrange(3)
                left, top = draw.randrange(width // 2), draw.randrange(height // 2)
                right, bottom = draw.randrange(left + 8, width), draw.randrange(top + 8, height)
                rectangles.append((COLORS[kind], left, top, right, bottom))
                center = ((left + right) / 2 / width, (top + bottom) / 2 / height)
                lines.append(f"{kind} {center[0]:.6f} {center[1]:.6f} {(right - left) / width:.6f} {(bottom - top) / height:.6f}\n")
            (images / f"{number:02}.png").write_bytes(picture(height, width, rectangles))
            (labels / f"{number:02}.txt").write_text("".join(lines), encoding="utf-8")


class Training(DetectorTest):
    def test_an_epoch_of_two_ranks_is_judged_by_average_precision(self):
        text = self.launch(2)
        self.assertRegex(text, r"epoch 3/3 \| train loss [\d.]+ \| test loss [\d.]+ precision [\d.]+ recall ")
        last = records(self.run_dir(), "epoch")[-1]
        for name in ("test_AP50", "test_AP50:95", "test_precision", "test_recall"):
            self.assertTrue(0 <= last[name] <= 1, name)
        step = records(self.run_dir(), "step")[-1]
        parts = [step[f"loss/{name}"] for name in ("box", "cls", "dfl")]
        self.assertTrue(all(math.isfinite(part) and part > 0 for part in parts), parts)
        self.assertAlmostEqual(sum(parts), step["loss"], places=4)

    def test_a_kill_in_an_epoch_of_mosaics_loses_nothing(self):
        for ranks in (1, 2):
            with self.subTest(ranks):
                self.launch(ranks, f"output=whole{ranks}")
                self.launch(ranks, f"output=cut{ranks}", expect=137, DDP_FAILPOINTS="save.latest=kill@3")
                text = self.launch(ranks, f"output=cut{ranks}")
                self.assertRegex(text, r"resumes at step 8, epoch 2")
                self.assert_same_run(self.folder / f"whole{ranks}" / "job", self.folder / f"cut{ranks}" / "job")

    def test_two_ranks_see_what_one_sees(self):
        same = ("model.norm=sync", "train.epochs=1", "optimizer.lr=0.0005")
        self.worker(*same, "output=one")
        self.launch(2, *same, "output=two")
        losses = [[step["loss"] for step in records(self.folder / name / "job", "step")] for name in ("one", "two")]
        for one, two in zip(*losses):
            self.assertAlmostEqual(one, two, delta=1e-3 * one)


class ManySizes(DetectorTest):
    SCALE = "task.args={multi_scale: 0.5}"

    def test_a_kill_between_sizes_loses_nothing(self):
        self.launch(2, self.SCALE, "output=whole")
        self.launch(2, self.SCALE, "output=cut", expect=137, DDP_FAILPOINTS="save.latest=kill@3")
        self.assertRegex(self.launch(2, self.SCALE, "output=cut"), r"resumes at step 8, epoch 2")
        self.assert_same_run(self.folder / "whole/job", self.folder / "cut/job")

    def test_two_ranks_train_at_the_sizes_of_one(self):
        same = ("model.norm=sync", "train.epochs=1", "optimizer.lr=0.0005")
        self.worker(*same, "output=plain")
        self.worker(*same, self.SCALE, "output=one")
        self.launch(2, *same, self.SCALE, "output=two")
        losses = {name: [step["loss"] for step in records(self.folder / name / "job", "step")] for name in ("plain", "one", "two")}
        for one, two in zip(losses["one"], losses["two"], strict=True):
            self.assertAlmostEqual(one, two, delta=1e-3 * one)
        differences = [abs(one - plain) / one for one, plain in zip(losses["one"], losses["plain"], strict=True)]
        self.assertGreater(max(differences), 0.02, differences)

    def test_a_share_of_the_size_that_is_none_is_refused(self):
        for share in ("1.5", "-0.1", "much", "0.01"):
            self.assertIn("task.args.multi_scale", self.worker(f"task.args={{multi_scale: {share}}}", expect=2))
        self.assertIn("task.args.scale: detection does not take it", self.worker("task.args={scale: 0.5}", expect=2))


class Rectangular(DetectorTest):
    def judged(self, ranks, *arguments):
        command = [self.bin / "ddp-launch", "--nproc-per-node", ranks, self.bin / "ddp-worker", "eval", "runs/job", "job.yaml", "--json", *arguments]
        lines = [line for line in self.run_program(*command).splitlines() if "{" in line]
        return json.loads(lines[-1][lines[-1].index("{") :])

    def test_an_evaluation_is_the_same_for_any_number_of_ranks(self):
        self.launch(2, "train.epochs=8", "eval.rectangular=true", "checkpoint.every_steps=null", "data.augment=[hsv]")
        trained = records(self.run_dir(), "epoch")[-1]
        one = self.judged(1, "eval.rectangular=true")
        self.assertGreater(one["test_AP50"], 0.01)
        for other in (self.judged(2, "eval.rectangular=true"), self.judged(3, "eval.rectangular=true", "eval.batch=2"), trained):
            # Batches of another size add the same numbers in another order, and an IoU beside a threshold may come to its other side.
            for name in ("test_loss", "test_AP50", "test_AP50:95", "test_precision", "test_recall"):
                self.assertAlmostEqual(other[name], one[name], delta=2e-4, msg=name)
        square = self.judged(1)
        self.assertNotEqual(square["test_loss"], one["test_loss"])
        self.assertAlmostEqual(square["test_AP50"], one["test_AP50"], delta=0.1)

    def test_rectangular_is_refused_without_boxes(self):
        digits = ("data.name=digits", "data.root=null", "data.augment=[]", "data.args={}", "data.train_size=200", "data.test_size=50")
        classes = ("task.name=classification", "loss.name=cross-entropy", "model.name=mlp", "model.args={}")
        text = self.launch(2, *digits, *classes, "eval.rectangular=true", expect=2)
        self.assertIn("eval.rectangular: is for images with boxes", text)


def png_size(path):
    """(width, height) of a PNG that is whole. Fails for any other file."""
    raw = path.read_bytes()
    assert raw[:8] == b"\x89PNG\r\n\x1a\n", path
    at, data = 8, b""
    while at < len(raw):
        (size,) = struct.unpack(">I", raw[at : at + 4])
        kind, content = raw[at + 4 : at + 8], raw[at + 8 : at + 8 + size]
        assert struct.unpack(">I", raw[at + 8 + size : at + 12 + size])[0] == zlib.crc32(kind + content), path
        data += content if kind == b"IDAT" else b""
        at += 12 + size
    assert kind == b"IEND", path
    width, height, _, color = struct.unpack(">IIBB", raw[16:26])
    assert len(zlib.decompress(data)) == height * (1 + (3 if color == 2 else 1) * width), path
    return width, height


def pictures(run_dir):
    return {path.stem: png_size(path) for path in run_dir.glob("*.png")}


class Pictures(DetectorTest):
    ALL = {f"train_batch{i}" for i in range(3)} | {"labels", "val_batch0_labels", "val_batch0_pred", "PR_curve", "F1_curve", "confusion_matrix"}
    SHORT = ("train.epochs=1", "checkpoint.every_steps=null")

    def test_a_run_leaves_them(self):
        self.launch(2, *self.SHORT)
        found = pictures(self.run_dir())
        self.assertEqual(set(found), self.ALL)
        # Of 64 x 64 pixels, enlarged to 192, with 4 between them: of rank 0's 2 of 4 images, and its 12 of 24.
        self.assertEqual(found["train_batch0"], (2 * 196 + 4, 196 + 4))
        self.assertEqual(found["val_batch0_pred"], (4 * 196 + 4, 3 * 196 + 4))
        self.assertEqual(found["val_batch0_labels"], found["val_batch0_pred"])
        self.assertFalse(list(self.run_dir().glob(".*png*")))

    def test_each_evaluation_renews_its_own_and_no_others(self):
        self.worker("train.epochs=2")
        first = {path.name: (path.stat().st_mtime_ns, path.stat().st_ino) for path in self.run_dir().glob("*.png")}
        self.worker("train.epochs=3")
        for path in self.run_dir().glob("*.png"):
            is_new = (path.stat().st_mtime_ns, path.stat().st_ino) != first[path.name]
            self.assertEqual(is_new, not path.name.startswith(("train", "labels")), path.name)

    def test_one_that_cannot_be_written_is_one_warning(self):
        self.worker(*self.SHORT)
        for name in ("PR_curve", "F1_curve", "val_batch0_pred"):
            (self.run_dir() / f"{name}.png").unlink()
            (self.run_dir() / f"{name}.png").mkdir()
        text = self.worker("train.epochs=2")
        self.assertIn("epoch 2/2", text)
        self.assertEqual(text.count("cannot write "), 1, text)
        self.assertEqual(text.count("Training goes on without it"), 1, text)
        self.assertTrue((self.run_dir() / "PR_curve.png").is_dir())
        png_size(self.run_dir() / "confusion_matrix.png")

    def test_a_classification_has_its_first_batch_alone(self):
        digits = ("data.name=digits", "data.root=null", "data.augment=[]", "data.args={}", "data.train_size=200", "data.test_size=50")
        self.worker(*self.SHORT, *digits, "task.name=classification", "loss.name=cross-entropy", "model.name=mlp", "model.args={}")
        self.assertTrue((self.run_dir() / "metrics.csv").exists())
        self.assertEqual(set(pictures(self.run_dir())), {"train_batch0"})


class LabelCache(DetectorTest):
    """Labels of many files in one file beside their folder."""

    SHORT = ("train.epochs=1", "data.train_size=8", "data.test_size=4", "checkpoint.every_steps=null")

    def setUp(self):
        super().setUp()
        images, self.labels = (self.folder / "scenes" / kind / "train" for kind in ("images", "labels"))
        for number in range(24, 1000):
            os.link(images / "00.png", images / f"more{number:03}.png")
            (self.labels / f"more{number:03}.txt").touch()
        for path in self.labels.iterdir():
            os.utime(path, (1e9, 1e9))
        self.labels.parent.chmod(0o755)  # beside a folder that others may write it would not be kept
        self.cache = self.labels.with_suffix(".ddp-labels")

    def losses(self, output, *arguments):
        """What two ranks learn."""
        self.text = self.launch(2, *self.SHORT, f"output={output}", *arguments)
        learned = losses(self.folder / output / "job")
        self.assertEqual(len(learned), 2, self.text)
        return learned

    def test_two_ranks_learn_the_same_with_it_and_without_it(self):
        without = self.losses("without", "data.cache_labels=false")
        self.assertFalse(self.cache.exists())
        self.assertEqual(self.losses("cold"), without)
        written = self.cache.stat()
        self.assertEqual(self.losses("warm"), without)
        self.assertEqual(self.cache.stat(), written)
        # 03.txt is as long as before.
        label = self.labels / "03.txt"
        label.write_text(re.sub("(?m)^.", lambda kind: str((int(kind[0]) + 1) % 3), label.read_text(encoding="utf-8")), encoding="utf-8")
        edited = self.losses("edited")
        self.assertNotEqual(edited, without)
        self.assertEqual(self.losses("edited_without", "data.cache_labels=false"), edited)

    def test_label_problems_are_equal_with_and_without_a_cache(self):
        (self.labels / "more050.txt").write_text("0 .5 .5 .1 .1\n1 320 200 40 40\n", encoding="utf-8")
        os.utime(self.labels / "more050.txt", (1e9, 1e9))
        preview = lambda *more, expect=2: self.run_program(self.bin / "ddp-worker", "preview", "job.yaml", "-o", "seen.png", *more, expect=expect)
        without = preview("data.max_bad=0", "data.cache_labels=false")
        self.assertIn("scenes/labels/train/more050.txt: line 2: the box 320 200 40 40 is not inside of the image", without)
        self.assertEqual(preview("data.max_bad=0"), without)
        self.assertTrue(self.cache.exists())
        self.assertEqual(preview("data.max_bad=0"), without)
        (self.folder / "scenes/names.txt").write_text("red\n", encoding="utf-8")
        without = preview("data.max_bad=0", "data.cache_labels=false")
        self.assertRegex(without, r"scenes/labels/train/\d\d.txt: line \d: class \d, and the classes are 0 to 0")
        self.assertEqual(preview("data.max_bad=0"), without)

    def test_a_damaged_one_is_told_once_and_made_anew(self):
        self.cache.write_text("not ours", encoding="utf-8")
        losses = self.losses("damaged")
        self.assertEqual(self.text.count("train.ddp-labels: it is not a cache of labels. All labels are read again"), 1, self.text)
        self.assertEqual(self.losses("mended"), losses)
        self.assertNotIn("ddp-labels", self.text)

    def test_a_folder_that_cannot_be_written_is_told_once(self):
        without = self.losses("without", "data.cache_labels=false")
        self.labels.parent.chmod(0o555)
        self.addCleanup(self.labels.parent.chmod, 0o755)
        self.prepare = obey_rights
        self.assertEqual(self.losses("closed"), without)
        self.assertEqual(self.text.count("there is no cache of labels for the next start: "), 1, self.text)
        self.assertRegex(self.text, r"\[0:\d\] ddp-worker: .*labels/train.ddp-labels.tmp-\w+: Permission denied")
        self.assertEqual([path.name for path in self.labels.parent.iterdir()], ["train"])


class WrongSetUps(DetectorTest):
    def refused(self, expected, *arguments):
        text = self.launch(2, *arguments, expect=2)
        self.assertIn(expected, text)
        self.assertFalse(self.run_dir().exists())

    def test_incompatible_keys_are_refused_before_training(self):
        self.refused("images of 100 x 100 pixels: a yolo needs sides that are multiples of 32", "data.image_size=100", "data.augment=[]")
        self.refused("loss.name: cross-entropy is not a loss of boxes. Take loss.name=detection", "loss.name=cross-entropy")
        self.refused("model.name: convnet finds no objects. Take a detector", "model.name=convnet", "model.args={}")
        self.refused("task.name: detection needs images with boxes", "data.name=digits", "data.root=null", "data.augment=[]", "data.args={}")
        for half in ("train", "val"):
            (self.folder / "folders" / half / "red").mkdir(parents=True)
            (self.folder / "folders" / half / "red/1.png").write_bytes(picture(64, 64, []))
        folders = ("data.name=image-folder", "data.root=folders", "data.augment=[]", "data.args={}", "task.name=classification")
        self.refused("model.name: yolov8n finds objects. Take a model of scores", *folders, "loss.name=cross-entropy")
        self.refused("loss.name: detection needs boxes", *folders, "model.name=mlp", "model.args={}")
        self.refused("loss.args.boxes: detection does not take it", "loss.args={boxes: 1}")
        self.refused("data.augment: a mosaic comes behind a mosaic. It puts", "data.augment=[mosaic, flip, {mosaic: {share: 0.5}}]")
        self.refused("data.augment: a mosaic comes behind a mixup. It puts", "data.augment=[mixup, mosaic]")
        self.refused("mosaic.size: 16 pixels are too few", "data.augment=[{mosaic: {size: 16}}]")
        self.refused("a number from 0 to 0.999", "data.augment=[{random-perspective: {scale: 1}}]")
        self.refused('"world" is neither all', "loss.args={normalise: world}")
        self.refused("eval.metrics: top-5 is of images in classes, and coco train has boxes", "eval.metrics=[top-5]")
        self.refused("loss.label_smoothing: the scores of boxes are not labels", "loss.label_smoothing=0.1")


if __name__ == "__main__":
    unittest.main()
