"""Data of files as ddp-worker meets it: folders of images, some of them bad; augmentations; memory shared by the ranks of a node.

Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/integration/data_test.py
"""

import itertools
import os
import pathlib
import re
import signal
import struct
import sys
import unittest
import zlib

from processes import ProcessTest
from run_files import losses, records
from tiny_sets import png_of

JOB = """
name: job
data: {name: image-folder, root: images, batch: 12, image_size: 16, augment: [{crop: {size: 16, padding: 2}}, flip]}
model: {name: mlp}
train: {epochs: 2, log_every: 1}
"""

SHARED = pathlib.Path(__file__).resolve().parent.parent.parent.parent / "shared" / "data"
CLASSES = ("ant", "bee", "cow")
IMAGES = 20  # of each class to train on


def png(height, width, color):
    """A picture of one colour."""
    return png_of([bytes(color) * width] * height)


class DataTest(ProcessTest):
    def setUp(self):
        super().setUp()
        (self.folder / "job.yaml").write_text(JOB, encoding="utf-8")
        for half, count in (("train", IMAGES), ("val", 5)):
            for number, name in enumerate(CLASSES):
                folder = self.folder / "images" / half / name
                folder.mkdir(parents=True)
                for i in range(count):
                    color = [20 + i, 20, 20]
                    color[number] = 200 + i
                    (folder / f"{i:02}.png").write_bytes(png(16 + i % 3, 18, color))

    def train_file(self, name):
        return self.folder / "images" / "train" / name

    def worker(self, *arguments, **keywords):
        return self.run_program(self.bin / "ddp-worker", "job.yaml", *arguments, **keywords)

    def launch(self, ranks, *arguments, **keywords):
        return self.run_program(self.bin / "ddp-launch", "--nproc-per-node", ranks, "job.yaml", *arguments, **keywords)

    def losses(self, output):
        return losses(self.folder / output / "job")


class Folders(DataTest):
    def test_images_are_learned_from_their_folders(self):
        text = self.launch(2, "train.epochs=6", "optimizer.lr=0.1")
        self.assertIn("data wait", text)
        self.assertGreater(records(self.folder / "runs" / "job", "epoch")[-1]["test_accuracy"], 0.9)

    def test_batches_are_the_same_for_any_number_of_threads(self):
        for threads in (0, 1, 2, 8):
            self.launch(2, f"data.workers={threads}", f"output=threads{threads}")
            self.assertEqual(self.losses(f"threads{threads}"), self.losses("threads0"))

    def test_the_whole_batch_is_the_same_for_any_number_of_ranks(self):
        for ranks in (1, 2, 3, 4):
            self.launch(ranks, f"output=ranks{ranks}", "data.workers=2")
            for one, other in zip(self.losses(f"ranks{ranks}"), self.losses("ranks1"), strict=True):
                self.assertAlmostEqual(one, other, delta=1e-5)

    def test_a_resume_in_the_middle_of_an_epoch_goes_on_with_the_same_samples(self):
        job = ("train.epochs=3", "schedule.name=constant", "schedule.warmup=0", "checkpoint.every_steps=1")
        self.worker("output=whole", *job)
        self.worker("output=parts", *job, "train.max_steps=7")
        checkpoint = sorted((self.folder / "parts" / "job" / "checkpoints").glob("step-*"))[-1]
        self.worker("output=rest", *job, f"checkpoint.resume={checkpoint}")
        self.assertEqual(self.losses("rest"), self.losses("whole")[7:])

    def test_wrong_data_root_is_reported_once(self):
        text = self.launch(2, "data.root=job.yaml", expect=2)
        self.assertEqual(len(re.findall(r"(?m)^\[0:\d+\] ddp-worker: .*job.yaml is not a directory", text)), 1, text)

    def test_a_preview_is_drawn(self):
        text = self.run_program(self.bin / "ddp-worker", "preview", "job.yaml", "-o", "seen.png", "data.augment=[mixup]")
        self.assertIn("seen.png: 32 training samples", text)
        self.assertEqual((self.folder / "seen.png").read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
        self.assertFalse((self.folder / "runs").exists())
        text = self.run_program(self.bin / "ddp-worker", "preview", "job.yaml", "-o", "no/such/folder.png", expect=2)
        self.assertRegex(text, "cannot write no/such/folder.png: .*No such file or directory")

    def test_a_preview_that_cannot_be_written_leaves_what_was_there(self):
        os.mkfifo(self.folder / "pipe")
        (self.folder / "place").mkdir()
        for place in ("pipe", "place", "/dev/full"):
            text = self.run_program(self.bin / "ddp-worker", "preview", "job.yaml", "-o", place, expect=2)
            self.assertRegex(text, f"ddp-worker: cannot write {place}: .* is not a regular file. Give another path")
        self.assertEqual(list((self.folder / "place").iterdir()), [])


class BadFiles(DataTest):
    def test_d3_bad_images_are_replaced_and_listed(self):
        self.train_file("ant/03.png").write_bytes(b"")
        self.train_file("bee/04.png").write_bytes(self.train_file("bee/04.png").read_bytes()[:60])
        huge = struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)
        whole = self.train_file("cow/05.png").read_bytes()
        head = b"IHDR" + huge
        self.train_file("cow/05.png").write_bytes(whole[:12] + head + struct.pack(">I", zlib.crc32(head)) + whole[33:])
        text = self.launch(2, "data.max_bad=0.1")
        self.assertIn("image-folder train: 3 samples of 60 cannot be read, others take their place", text)
        for name, why in (("ant/03.png", "it is empty"), ("bee/04.png", ""), ("cow/05.png", "its header says 60000 x 60000")):
            self.assertEqual(len(re.findall(rf"images/train/{name}: {why}", text)), 1, text)
        self.launch(1, "data.max_bad=0.1", "output=alone")
        for one, other in zip(self.losses("alone"), self.losses("runs"), strict=True):
            self.assertAlmostEqual(one, other, delta=1e-5)

    def test_names_of_bad_files_are_one_line_each_whatever_is_in_them(self):
        names = ("new\nline.png", "\x1b[31mred.png", os.fsdecode(b"\xff.png"))
        for name in names:
            self.train_file(f"ant/{name}").write_bytes(b"")
        for text in (self.worker("data.max_bad=0.1"), self.launch(2, "data.max_bad=0.1", "output=two")):
            self.assertIn("3 samples of 63 cannot be read", text)
            for name in ("new?line.png", "?[31mred.png", "\ufffd.png"):
                self.assertIn(f"images/train/ant/{name}: it is empty", text)

    def test_an_image_that_would_be_of_gigabytes_is_a_bad_one(self):
        self.train_file("cow/06.png").write_bytes(png(1, 1 << 20, [1, 2, 3]))
        text = self.worker("data.max_bad=0.1", "data.image_size=224", "train.max_steps=5")
        self.assertIn("images/train/cow/06.png: its 1048576 x 1 pixels are too thin for data.image_size=224: resized it would have", text)

    def test_d3_too_many_bad_images_end_the_run_with_their_list(self):
        for i in range(4):
            self.train_file(f"ant/{i:02}.png").write_bytes(b"x")
        text = self.launch(2, "data.max_bad=0.05", expect=2)
        self.assertIn("cannot be read, more than data.max_bad allows", text)
        self.assertRegex(text, r"images/train/ant/0\d\.png: ")

    def test_d4_a_file_that_vanishes_while_it_trains_is_replaced(self):
        running = self.start(self.bin / "ddp-launch", "--nproc-per-node", 2, "job.yaml", "train.epochs=40", "data.max_bad=0.1")
        running.wait_for("epoch 2/40")
        self.train_file("bee/07.png").unlink()
        self.assertEqual(running.finish(), 0, running.text)
        self.assertIn("images/train/bee/07.png: No such file or directory", running.text)
        self.assertIn("epoch 40/40", running.text)

    def test_bad_test_images_are_left_out(self):
        (self.folder / "images" / "val" / "bee" / "01.png").write_bytes(b"")
        text = self.launch(2, "data.max_bad=0.1")
        self.assertIn("image-folder test: 1 sample of 15 cannot be read", text)

    def test_d6_ranks_that_see_different_files_are_named(self):
        other = self.folder / "other"
        (self.folder / "images").rename(other)
        script = self.folder / "place.sh"
        script.write_text(
            'cp -r other "images$RANK"\n[ "$RANK" = 0 ] || mv images1/train/bee/00.png images1/train/bee/99.png\n'
            f'exec {self.bin}/ddp-worker job.yaml data.root="images$RANK" data.augment="[]"\n',
            encoding="utf-8",
        )
        text = self.run_program(self.bin / "ddp-launch", "--nproc-per-node", 2, "--no-python", "sh", "place.sh", expect=203)
        self.assertRegex(text, r"rank 1 .*data|data.*rank 1")
        self.assertIn("image-folder train: 60 images", text)


class BoxTest(DataTest):
    def box_set(self):
        for half in ("train", "val"):
            for i in range(12):
                for kind, name, content in (("images", f"{i}.png", png(20 + i, 30, (i, 9, 9))), ("labels", f"{i}.txt", b"1 .5 .5 .4 .4\n0 .2 .2 .1 .1\n")):
                    path = self.folder / "boxes" / kind / half / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content)

    def preview(self, *arguments, **keywords):
        return self.run_program(self.bin / "ddp-worker", "preview", "job.yaml", "-o", "seen.png", "data.name=coco", *arguments, **keywords)


class Boxes(BoxTest):
    def test_d2_wrong_labels_are_told_before_training(self):
        self.box_set()
        (self.folder / "boxes/labels/train/3.txt").write_text("1 .5 .5 .4 .4\n1 320 200 40 40\n", encoding="utf-8")
        text = self.preview("data.root=boxes", expect=2)
        self.assertRegex(text, r"1 of 12 images are wrong, more than data.max_bad allows[^\n]*\n.* boxes/labels/train/3.txt: line 2: the box 320 200 40 40")
        text = self.preview("data.root=boxes", "data.max_bad=0.1")
        self.assertIn("boxes/labels/train/3.txt: line 2: the box 320 200 40 40", text)
        self.assertIn("seen.png: 11 training samples", text)

    def test_augmented_pictures_are_equal_with_a_cache(self):
        self.box_set()
        augment = "data.augment=[mosaic, {random-perspective: {degrees: 5}}, hsv, flip, flip-vertical, {mixup: {share: 0.5}}]"
        pictures = []
        for size in ("0B", "1KiB", "1MiB"):
            self.assertIn("seen.png: 12 training samples", self.preview("data.root=boxes", "data.image_size=32", augment, f"data.cache={size}"))
            pictures.append((self.folder / "seen.png").read_bytes())
        self.assertEqual(pictures, pictures[:1] * 3)
        # Ten epochs are no more than mosaic and mixup end before the run does, so they stay.
        self.preview("data.root=boxes", "data.image_size=32", augment, "train.epochs=10")
        self.assertEqual((self.folder / "seen.png").read_bytes(), pictures[0])
        self.preview("data.root=boxes", "data.image_size=32", augment.replace("mosaic,", "{mosaic: {share: 0}},"))
        self.assertNotEqual((self.folder / "seen.png").read_bytes(), pictures[0])

    def test_a_task_that_needs_classes_refuses_boxes(self):
        self.box_set()
        text = self.launch(2, "data.name=coco", "data.root=boxes", "data.augment=[]", expect=2)
        self.assertIn("task.name: classification needs one class for each image, and coco train has boxes", text)
        text = self.launch(2, "data.name=coco", "data.root=boxes", "data.sampler=class-balanced", expect=2)
        self.assertIn("coco train", text)


class RealData(BoxTest):
    def test_a_preview_shows_the_boxes_of_real_photos(self):
        coco = SHARED / "coco128"
        augment = "data.augment=[{affine: {degrees: 10, translate: 0.1}}, flip, {color-jitter: {hue: 0.1}}]"
        text = self.preview(f"data.root={coco}", "data.args.val=images/train2017", "data.image_size=320", augment)
        self.assertIn("coco train: 128 images of 3x320x320 in 80 classes, 929 boxes", text)
        self.assertIn("seen.png: 32 training samples", text)


class LastBatch(DataTest):
    def test_d5_a_last_batch_that_cannot_be_normalised_is_named_or_left_out(self):
        # 13 samples in batches of 12; at the end of this network each image of 16 x 16 is one pixel.
        job = ("model.name=resnet18", "model.stem=imagenet", "data.train_size=13", "train.epochs=1", "data.augment=[]")
        text = self.launch(2, *job, expect=2)
        self.assertIn("batch norm: one value per channel", text)
        self.assertIn("data.drop_last=true", text)
        self.launch(2, *job, "data.drop_last=true")
        self.launch(2, *job, "model.norm=sync", "optimizer.lr=0.0001")


class Sampling(DataTest):
    def test_classes_with_a_weight_of_zero_are_never_drawn(self):
        weights = "data.class_weights={ant: 0, bee: 1, cow: 0}"
        self.worker("data.sampler=weighted", weights, "train.epochs=3", "optimizer.lr=0.1")
        self.assertGreater(records(self.folder / "runs" / "job", "epoch")[-1]["train_accuracy"], 0.95)
        text = self.worker("data.sampler=weighted", "data.class_weights={wasp: 2}", expect=2)
        self.assertIn("data.class_weights.wasp: image-folder train has no such class", text)
        text = self.worker("data.class_weights={ant: 2}", expect=2)
        self.assertIn("nobody reads them", text)

    def test_images_of_a_size_that_the_model_does_not_take_are_refused_before_training(self):
        digits = ("data.name=digits", "data.root=null", "data.train_size=96", "data.test_size=20", "train.epochs=1")
        for ranks in (1, 2):
            text = self.launch(ranks, *digits, "model.name=convnet", "data.augment=[{resize: {size: 20}}]", expect=2)
            self.assertIn("data.augment: it makes images of 1x20x20 from those of digits train, which are 1x28x28, and model.name=convnet", text)
            self.assertIn("End the list with {resize: {height: 28, width: 28}}", text)
        self.worker(*digits, "model.name=convnet", "data.augment=[{resize: {size: 20}}, {resize: {height: 28, width: 28}}]")
        self.worker(*digits, "model.name=resnet18", "data.augment=[{resize: {size: 20}}]", "output=any_size")

    def test_limit_repeats_and_drop_last_make_the_steps_that_are_asked_for(self):
        self.worker("data.limit=2", "output=limited")
        self.assertEqual(len(self.losses("limited")), 4)
        self.worker("data.batch=25", "data.drop_last=true", "output=dropped")
        self.assertEqual(len(self.losses("dropped")), 4)
        self.worker("data.repeats=3", "output=repeated")
        self.assertEqual(len(self.losses("repeated")), 10)
        self.assertNotEqual(self.losses("repeated"), self.losses("dropped"))
        text = self.worker("data.batch=61", "data.drop_last=true", expect=2)
        self.assertIn("no step would be left", text)


class Memory(DataTest):
    def test_d6_ranks_whose_sets_hold_other_images_or_labels_are_named(self):
        for part, folder in itertools.product(("images", "labels"), ("a", "b")):
            for half, size in (("train", 600), ("t10k", 10)):
                content = {"images": bytes(i % 251 for i in range(784 * size)), "labels": bytes(i % 10 for i in range(size))}
                if folder == "b":
                    content[part] = bytes(len(content[part]))
                directory = self.folder / part / folder
                directory.mkdir(parents=True, exist_ok=True)
                (directory / f"{half}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 2049, size) + content["labels"])
                (directory / f"{half}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 2051, size, 28, 28) + content["images"])
        for part in ("images", "labels"):
            script = (
                f'root={part}/a; [ "$RANK" != 1 ] || root={part}/b; '
                f'exec {self.bin}/ddp-worker job.yaml data.name=mnist "data.root=$root" data.augment="[]" train.epochs=1'
            )
            text = self.run_program(self.bin / "ddp-launch", "--nproc-per-node", 3, "--no-python", "sh", "-c", script, expect=203)
            self.assertRegex(text, r'in their data: rank 1 has "mnist train: 600 images[^"]*, contents \w{32}", ranks? 0[^"]* "mnist train: 600 images')

    def test_a_set_in_memory_is_there_once_for_the_ranks_of_a_node(self):
        count = 40000
        folder = self.folder / "mnist"
        folder.mkdir()
        for part, size in (("train", count), ("t10k", 10)):
            (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 2049, size) + bytes(size))
            (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 2051, size, 28, 28) + bytes(784 * size))
        running = self.start(
            self.bin / "ddp-launch", "--nproc-per-node", 4, "job.yaml", "data.name=mnist", "data.root=mnist", "data.augment=[]", "data.batch=4000",
            "train.epochs=2000"
        )
        running.wait_for("epoch 3/2000")
        sizes = []
        for pid in running.wait_for_pids(4).values():
            smaps = pathlib.Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8")
            for mapping in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", smaps):
                if "ddp-data" in mapping.partition("\n")[0]:
                    sizes.append({key: int(size) << 10 for key, size in re.findall(r"(?m)^(Rss|Pss): +(\d+) kB", mapping)})
        os.kill(running.process.pid, signal.SIGTERM)
        self.assertEqual(running.finish(), 143, running.text)
        self.assertEqual(len(sizes), 4)
        for size in sizes:
            self.assertGreater(size["Rss"], 0.9 * 784 * count, "each rank has read it")
        total = sum(size["Pss"] for size in sizes)
        self.assertLess(total, 1.2 * 784 * count)
        self.assertGreater(total, 0.8 * 784 * count)


if __name__ == "__main__":
    if "RealData" in sys.argv and not SHARED.exists():
        print("skipped: no ../shared/data beside the checkout")
        sys.exit(77)
    sys.exit(unittest.main(verbosity=2))
