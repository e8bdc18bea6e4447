"""ddp-worker predict with a detector: what it prints, draws and writes of images whose pixels are known.

Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/integration/predict_test.py
"""

import json
import random
import resource
import struct
import subprocess
import unittest
import zlib

from common_kernels import COMMON_KERNELS
from processes import ProcessTest
from tiny_sets import png_of

JOB = """
name: job
task: {name: detection}
data: {name: coco, root: set, batch: 8, image_size: 64}
model: {name: yolov8n, args: {depth: 0.33, width: 0.1}}
loss: {name: detection}
optimizer: {name: adamw, lr: 0.01, weight_decay: 0}
schedule: {warmup: 0}
train: {epochs: 1}
"""
NAMES = ("red box", "blue box")
COLORS = ((230, 20, 20), (20, 20, 230))
GREY = (114, 114, 114)
ALL = ("--confidence", 0, "--iou", 1)


def png(rows):
    """A picture of rows of (red, green, blue)."""
    return png_of([b"".join(map(bytes, row)) for row in rows])


def paeth(left, up, corner):
    """The predictor of PNG's filter 4 (PNG specification, 9.4)."""
    guess = left + up - corner
    return min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]


def read_png(data):
    """Rows of (red, green, blue) of a PNG of that kind without interlacing."""
    width, height = struct.unpack(">II", data[16:24])
    packed, at = b"", 8
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            packed += data[at + 8 : at + 8 + size]
        at += size + 12
    raw, above, rows = zlib.decompress(packed), [0] * (3 * width), []
    for y in range(height):
        kind, *line = raw[y * (3 * width + 1) : (y + 1) * (3 * width + 1)]
        for i in range(3 * width):
            left, up, corner = (line[i - 3] if i >= 3 else 0), above[i], (above[i - 3] if i >= 3 else 0)
            line[i] = (line[i] + (0, left, up, (left + up) // 2, paeth(left, up, corner))[kind]) % 256
        rows.append([tuple(line[x : x + 3]) for x in range(0, 3 * width, 3)])
        above = line
    return rows


def plain(height, width, color=(90, 160, 40)):
    return [[color] * width for _ in range(height)]


def with_border(rows, above, below):
    width = len(rows[0])
    return plain(above, width, GREY) + rows + plain(below, width, GREY)


def iou(one, other):
    left, top, right, bottom = max(one[0], other[0]), max(one[1], other[1]), min(one[2], other[2]), min(one[3], other[3])
    shared = max(right - left, 0) * max(bottom - top, 0)
    area = lambda box: (box[2] - box[0]) * (box[3] - box[1])
    return shared / (area(one) + area(other) - shared)


class Detect(ProcessTest):
    def setUp(self):
        super().setUp()
        (self.folder / "job.yaml").write_text(JOB, encoding="utf-8")
        self.write("set/names.txt", "\n".join(NAMES).encode())

    def write(self, name, data):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def write_scene(self, half, number, dice):
        """A rectangle on grey, and its label file. Returns (class, box)."""
        height, width, kind = dice.choice((48, 64, 128)), dice.choice((64, 96)), dice.randrange(2)
        h, w = dice.randrange(height // 4, height // 2), dice.randrange(width // 4, width // 2)
        top, left = dice.randrange(height - h), dice.randrange(width - w)
        rows = plain(height, width, (200, 200, 200))
        for y in range(top, top + h):
            rows[y][left : left + w] = [COLORS[kind]] * w
        self.write(f"set/images/{half}/{number}.png", png(rows))
        label = (kind, (left + w / 2) / width, (top + h / 2) / height, w / width, h / height)
        self.write(f"set/labels/{half}/{number}.txt", " ".join(map(str, label)).encode())
        return kind, (left, top, left + w, top + h)

    def train(self, *arguments, images=8):
        """Returns what is in the images of the test half, by number."""
        dice = random.Random(1)
        for number in range(images):
            self.write_scene("train", number, dice)
        scenes = {number: self.write_scene("val", number, dice) for number in range(8)}
        # What so few epochs learn depends on roundings: the kernels that most CPUs have.
        self.worker("job.yaml", *arguments, **COMMON_KERNELS)
        return scenes

    def worker(self, *arguments, **keywords):
        return self.run_program(self.bin / "ddp-worker", *arguments, **keywords)

    def predict(self, *arguments, **keywords):
        return self.worker("predict", "runs/job", *arguments, **keywords)

    def objects(self, *arguments):
        lines = map(json.loads, self.predict(*arguments, "--json").splitlines())
        return {line["image"]: line["objects"] for line in lines}

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())


class Boxes(Detect):
    def test_rectangles_are_found_where_their_pixels_are(self):
        scenes = self.train("train.epochs=24", images=64)
        found = self.objects("set/images/val", "--top", 1, "--confidence", 0.01)
        self.assertEqual(list(found), [f"set/images/val/{number}.png" for number in scenes])
        shares = []
        for number, (kind, box) in scenes.items():
            for one in found[f"set/images/val/{number}.png"]:
                self.assertEqual(one["class"], NAMES[one["number"]])
                shares.append(iou(one["box"], box) * (one["number"] == kind))
        self.assertEqual(len(shares), len(scenes))
        self.assertGreater(sum(shares) / len(shares), 0.6, shares)
        # The evaluation sees the same boxes: by the field's word, too.
        told = self.worker("val", "runs/job", "job.yaml", "--json").splitlines()[-1]
        self.assertEqual(told, self.worker("eval", "runs/job", "job.yaml", "--json").splitlines()[-1])
        self.assertGreater(json.loads(told)["test_AP50"], 0.5)

    def test_boxes_come_back_out_of_the_letterbox_and_end_at_the_image(self):
        self.train()
        # The model sees the same pixels in all of them.
        for name, rows in (("32x64", plain(32, 64)), ("96x192", plain(96, 192)), ("64x64", with_border(plain(32, 64), 16, 16))):
            self.write(f"plain/{name}.png", png(rows))
        found = {name[6:-4]: objects for name, objects in self.objects("plain", *ALL).items()}
        square = [one for one in found["64x64"] if one["box"][1] < 48 and one["box"][3] > 16]
        self.assertGreater(len(square), 20)
        self.assertTrue(any(one["box"][1] < 16 or one["box"][3] > 48 for one in square), "nothing is clipped")
        for name, scale in (("32x64", 1), ("96x192", 3)):
            self.assertEqual(len(found[name]), len(square))
            for ours, theirs in zip(found[name], square, strict=True):
                self.assertEqual((ours["number"], ours["score"]), (theirs["number"], theirs["score"]))
                left, top, right, bottom = theirs["box"]
                expected = (left * scale, max(top - 16, 0) * scale, right * scale, min(bottom - 16, 32) * scale)
                for edge, other in zip(ours["box"], expected, strict=True):
                    self.assertAlmostEqual(edge, other, delta=0.005)

    def test_very_thin_images_have_boxes_inside(self):
        self.train()
        self.write("thin/row.png", png(plain(1, 1000)))
        self.write("thin/column.png", png(plain(777, 1)))
        found = self.objects("thin", *ALL, "-o", "out")
        for name, width, height in (("row", 1000, 1), ("column", 1, 777)):
            self.assertGreater(len(found[f"thin/{name}.png"]), 0)
            for left, top, right, bottom in (one["box"] for one in found[f"thin/{name}.png"]):
                self.assertTrue(0 <= left <= right <= width and 0 <= top <= bottom <= height)
            rows = read_png((self.folder / f"out/{name}.png").read_bytes())
            self.assertEqual((len(rows), len(rows[0])), (height, width))


class Files(Detect):
    def test_images_are_drawn_and_objects_written_as_the_field_does(self):
        self.train()
        self.write("out/notes.txt", b"mine")
        self.write("photos/000012.png", png(plain(40, 80)))
        self.write("photos/deep/b.v2.png", png(plain(80, 50)))
        self.write("photos/notes.txt", b"no image")
        found = self.objects("photos", "--confidence", 0, "--top", 3, "-o", "out")
        self.assertEqual(list(found), ["photos/000012.png", "photos/deep/b.v2.png"])
        files = sorted(str(path.relative_to(self.folder / "out")) for path in (self.folder / "out").rglob("*") if path.is_file())
        self.assertEqual(files, ["000012.png", "deep/b.v2.png", "labels/000012.txt", "labels/deep/b.v2.txt", "notes.txt", "predictions.json"])
        results = json.loads((self.folder / "out/predictions.json").read_text(encoding="utf-8"))
        self.assertEqual([one["image_id"] for one in results], [12] * 3 + ["deep/b.v2"] * 3)
        for name, width, height, entries in (("000012", 80, 40, results[:3]), ("deep/b.v2", 50, 80, results[3:])):
            objects = found[f"photos/{name}.png"]
            self.assertEqual([one["score"] for one in objects], sorted((one["score"] for one in objects), reverse=True))
            lines = (self.folder / f"out/labels/{name}.txt").read_text(encoding="ascii").splitlines()
            rows = read_png((self.folder / f"out/{name}.png").read_bytes())
            self.assertEqual((len(rows), len(rows[0])), (height, width))
            for one, line, entry in zip(objects, lines, entries, strict=True):
                left, top, right, bottom = one["box"]
                self.assertEqual((entry["category_id"], entry["score"]), (one["number"], one["score"]))
                for ours, theirs in zip(entry["bbox"], (left, top, right - left, bottom - top), strict=True):
                    self.assertAlmostEqual(ours, theirs, delta=0.002)
                number, *shares, score = line.split()
                self.assertEqual((int(number), float(score)), (one["number"], one["score"]))
                expected = ((left + right) / 2 / width, (top + bottom) / 2 / height, (right - left) / width, (bottom - top) / height)
                for ours, theirs in zip(map(float, shares), expected, strict=True):
                    self.assertAlmostEqual(ours, theirs, delta=1e-4)
            left, top, right, bottom = (min(round(edge), most) for edge, most in zip(objects[0]["box"], (width, height) * 2, strict=True))
            color = ((255, 96, 96), (64, 208, 64))[objects[0]["number"]]
            for x, y in ((left, top), (right - 1, top), (left, bottom - 1), (right - 1, bottom - 1)):
                self.assertEqual(rows[y][x], color, (objects[0], x, y))
            colors = {pixel for row in rows for pixel in row}
            self.assertLessEqual(colors, {(90, 160, 40), (0, 0, 0), (255, 96, 96), (64, 208, 64)})

    def test_without_an_object_that_is_said_and_written(self):
        self.train()
        self.write("photos/a.png", png(plain(40, 80)))
        self.predict("photos/a.png", "--confidence", 0, "-o", "out")
        self.assertNotEqual((self.folder / "out/labels/a.txt").read_bytes(), b"")
        self.assertEqual(self.predict("photos/a.png", "--confidence", 1, "-o", "out"), "photos/a.png  no objects\n")
        self.assertEqual((self.folder / "out/labels/a.txt").read_bytes(), b"")
        self.assertEqual((self.folder / "out/predictions.json").read_bytes(), b"[]\n")
        self.assertEqual(read_png((self.folder / "out/a.png").read_bytes()), plain(40, 80))
        text = self.predict("photos/a.png", "--confidence", 0, "--top", 2)
        self.assertRegex(text, r"^photos/a.png(  (red|blue) box \d+\.\d %){2}\n$")

    def test_no_image_takes_the_place_of_another(self):
        self.train()
        for name in ("one/a.png", "two/a.png"):
            self.write(name, png(plain(40, 80)))
        before = self.names()
        text = self.predict("one", "two/a.png", "-o", "out", expect=2)
        self.assertRegex(text, r"^ddp-worker: one/a.png and two/a.png would both be out/a.png\. [^\n]*\n$")
        text = self.predict("one", "two", "-o", "two", expect=2)
        self.assertIn("one/a.png and two/a.png would both be two/a.png", text)
        text = self.predict("one", "-o", "two/../one", expect=2)
        self.assertRegex(text, r"^ddp-worker: two/../one/a.png: is one of the images, and would be written over\. [^\n]*\n$")
        self.assertEqual(self.names(), before)
        self.assertEqual((self.folder / "one/a.png").read_bytes(), png(plain(40, 80)))
        self.predict(".", "-o", "out")  # the folders are kept
        self.assertTrue((self.folder / "out/one/a.png").exists() and (self.folder / "out/two/a.png").exists())


class BadInput(Detect):
    def test_unreadable_images_are_named_and_the_others_predicted(self):
        self.train()
        self.write("photos/a.png", b"")
        self.write("photos/b.png", png(plain(40, 80)))
        text = self.predict("photos", "gone.png", "--json", "-o", "out", expect=2)
        self.assertIn("ddp-worker: photos/a.png: it is empty\n", text)
        self.assertRegex(text, r"ddp-worker: gone.png: .*No such file")
        self.assertIn("ddp-worker: 2 of 3 images cannot be read\n", text)
        self.assertIn('{"image":"photos/b.png","objects":[', text)
        self.assertEqual(sorted(path.name for path in (self.folder / "out").iterdir()), ["b.png", "labels", "predictions.json"])
        (self.folder / "none").mkdir()
        for folder in ("none", "set/labels"):
            text = self.predict("photos", folder, "-o", "other", expect=2)
            self.assertRegex(text, rf"^ddp-worker: the folder {folder} holds no image [^\n]*\n$")
        self.assertNotIn("other", self.names())

    def test_d11_failed_writes_are_one_line_and_leave_whole_files(self):
        self.train()
        self.write("photos/a.png", png([[(x % 256, y, x * y % 256) for x in range(300)] for y in range(200)]))
        self.write("file", b"mine")
        for place in ("file", "file/below", "/proc/none"):
            text = self.predict("photos", "-o", place, expect=2)
            self.assertRegex(text, r"^ddp-worker: cannot write \S+: .*(Not a directory|No such file|File exists).* Give another directory behind -o.\n$")
        self.assertEqual((self.folder / "file").read_bytes(), b"mine")
        self.predict("photos", "-o", "out")
        before = {path: path.read_bytes() for path in (self.folder / "out").rglob("*") if path.is_file()}
        # The signal of the limit stays ignored, as Python has it: the write fails, as on a full disk.
        run = subprocess.run(
            [self.bin / "ddp-worker", "predict", "runs/job", "photos", "-o", "out", "--confidence", "0"], cwd=self.folder, env=self.environment,
            capture_output=True, text=True, check=False, restore_signals=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384)),
        )  # fmt: skip
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertRegex(run.stderr, r"^ddp-worker: cannot write out/a.png: write, .*: File too large. Give another directory behind -o.\n$")
        self.assertEqual({path: path.read_bytes() for path in (self.folder / "out").rglob("*") if path.is_file()}, before)

    def test_options_of_objects_are_refused_where_classes_are_named(self):
        self.write("digits.yaml", b"name: job\ndata: {name: digits, batch: 16, train_size: 32, test_size: 16}\ntrain: {epochs: 1}\n")
        self.worker("digits.yaml")
        self.write("photos/a.png", png(plain(28, 28)))
        for words in (("-o", "out"), ("--iou", 0.5), ("--confidence", 0.5)):
            text = self.predict("photos", *words, expect=2)
            self.assertRegex(text, r"^ddp-worker: \S+: names the class of an image; -o, --confidence and --iou are for [^\n]*\n$")
        self.assertNotIn("out", self.names())
        self.assertRegex(self.predict("photos", "--top", 2), r"^photos/a.png(  \d \d+\.\d\d %){2}\n$")


if __name__ == "__main__":
    unittest.main(verbosity=2)
