"""Our pixel operations and boxes against torchvision.transforms.v2.functional on uint8 tensors.

Run by hand: DDP_IMAGE_TOOL=build/release/tests/image_tool $DDP_PYTHON tests/interop/image_operations_test.py [-v]
"""

import itertools
import random
import sys
import unittest

import numpy
import torch
import torchvision.transforms.v2.functional as F
from image_tool import image_tool, images_of, picture
from tools import run_tests
from torchvision import tv_tensors
from torchvision.transforms import InterpolationMode

SIZES = ((1, 1), (2, 3), (3, 3), (17, 16), (32, 32), (61, 83), (120, 75))
BORDERS = ("constant", "reflect", "edge")
MODES = (InterpolationMode.NEAREST, InterpolationMode.BILINEAR)
# With AVX2 torch resizes bytes as bytes, and elsewhere by way of float32, which rounds once and not twice; and it multiplies and
# adds with one rounding.
FAST_CPU_MOST = 0 if torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512") else 1


def images(sizes=SIZES):
    for number, (height, width) in enumerate(sizes):
        image = torch.from_numpy(picture(height, width, number).transpose(2, 0, 1).copy())
        yield image
        yield image[:1].clone()
    yield torch.zeros(3, 20, 20, dtype=torch.uint8)  # one value: nothing to stretch
    yield torch.full((3, 20, 20), 255, dtype=torch.uint8)
    yield torch.arange(256, dtype=torch.uint8).reshape(1, 16, 16)
    levels = numpy.random.default_rng(9).choice([0, 1, 2, 127, 254, 255], (3, 40, 40)).astype(numpy.uint8)
    yield torch.from_numpy(levels)


def operate(requests):
    """Ours of [(name, numbers, tensor), ...], in one run of the tool."""
    given = b"".join(
        (" ".join([name, *(repr(float(number)) for number in numbers)]) + "\n%d %d %d\n" % tuple(image.shape)).encode() + image.numpy().tobytes()
        for name, numbers, image in requests
    )
    return [torch.from_numpy(image.copy()) for image in images_of(image_tool("operate", given=given))]


class Compared:
    """Cases of one operation: what to ask of ours, and what torchvision makes of it."""

    def __init__(self):
        self.requests = []
        self.theirs = []

    def add(self, theirs, name, image, *numbers):
        self.requests.append((name, numbers, image))
        self.theirs.append(theirs)

    def differences(self, test):
        ours = operate(self.requests)
        test.assertEqual(len(ours), len(self.theirs))
        for (name, numbers, image), mine, theirs in zip(self.requests, ours, self.theirs, strict=True):
            test.assertEqual(mine.shape, theirs.shape, (name, numbers, tuple(image.shape)))
            yield (name, numbers, tuple(image.shape)), (mine.int() - theirs.int()).abs()

    def require(self, test, most):
        """No pixel differs by more than `most`."""
        seen = different = count = 0
        for case, difference in self.differences(test):
            test.assertLessEqual(int(difference.max()), most, case)
            seen = max(seen, int(difference.max()))
            different += int((difference > 0).sum())
            count += difference.numel()
        if "-v" in sys.argv:
            print(f"{self.requests[0][0]}: {len(self.theirs)} cases, at most {seen} different, {different} of {count} bytes", file=sys.stderr)


class GeometryTest(unittest.TestCase):
    def test_flips_are_torchvision_s(self):
        cases = Compared()
        for image in images((*SIZES, (5, 15), (5, 17), (4, 31), (3, 33), (2, 64))):
            cases.add(F.horizontal_flip(image), "flip", image)
        cases.require(self, 0)

    def test_crops_are_torchvision_s_outside_of_the_image_too(self):
        cases = Compared()
        rng = random.Random(1)
        for image in images():
            height, width = image.shape[1:]
            for _ in range(20):
                # torchvision gives another size when nothing of the image is in the region
                top, left = rng.randint(-5, height - 1), rng.randint(-5, width - 1)
                size = (rng.randint(max(1, 1 - top), height + 8), rng.randint(max(1, 1 - left), width + 8))
                cases.add(F.crop(image, top, left, *size), "crop", image, 0, 0, 0, 0, top, left, *size)
        cases.require(self, 0)

    def test_borders_are_torchvision_s(self):
        cases = Compared()
        rng = random.Random(2)
        for image in images():
            height, width = image.shape[1:]
            for kind, mode in enumerate(BORDERS):
                for _ in range(5):
                    # torch reflects once only
                    left, right = (rng.randint(0, width - 1 if mode == "reflect" else 9) for _ in range(2))
                    top, bottom = (rng.randint(0, height - 1 if mode == "reflect" else 9) for _ in range(2))
                    color = [rng.randint(0, 255) if mode == "constant" else 0 for _ in range(3)]
                    fill = color[: image.shape[0]]
                    theirs = F.pad(image, [left, top, right, bottom], fill=fill if mode == "constant" else 0, padding_mode=mode)
                    cases.add(theirs, "pad", image, kind, *color, left, top, right, bottom)
        cases.require(self, 0)

    def test_center_crops_are_torchvision_s(self):
        cases = Compared()
        for image in images():
            for size in ((1, 1), (2, 2), (16, 17), (31, 20), (33, 200), (200, 5)):
                cases.add(F.center_crop(image, list(size)), "center-crop", image, *size)
        cases.require(self, 0)

    def test_erased_rectangles_are_torchvision_s(self):
        cases = Compared()
        for image in images():
            height, width = image.shape[1:]
            for top, left, tall, wide in ((0, 0, 1, 1), (height // 2, width // 3, 5, 7), (0, 0, height, width), (height - 1, width - 1, 1, 1)):
                tall, wide = min(tall, height - top), min(wide, width - left)
                color = torch.tensor([7, 80, 200][: image.shape[0]], dtype=torch.uint8).view(-1, 1, 1)
                theirs = F.erase(image, top, left, tall, wide, color.expand(-1, tall, wide))
                cases.add(theirs, "erase", image, top, left, tall, wide, 7, 80, 200)
        cases.require(self, 0)


class ResizeTest(unittest.TestCase):
    most = FAST_CPU_MOST

    def test_resizes_are_torchvision_s(self):
        cases = Compared()
        for image in images():
            for size in ((1, 2), (2, 3), (16, 16), (17, 40), (32, 32), (64, 33), (100, 150), (224, 224)):
                cases.add(F.resize(image, list(size), antialias=True), "resize", image, *size)
        cases.require(self, self.most)

    def test_an_image_becomes_one_pixel(self):
        cases = Compared()
        for image in images():
            # Of bytes torch makes no single pixel of three channels (an internal assert).
            theirs = F.resize(image.float(), [1, 1], antialias=True).round().to(torch.uint8)
            cases.add(theirs, "resize", image, 1, 1)
        cases.require(self, 1)

    def test_a_smaller_side_is_given_as_in_torchvision(self):
        cases = Compared()
        for image in images():
            for side in (5, 32, 97):
                cases.add(F.resize(image, [side], antialias=True), "resize-smaller-side", image, side)
        cases.require(self, self.most)

    def test_large_images_become_small_ones(self):
        cases = Compared()
        for image in images(((700, 900), (1000, 333))):
            for size in ((7, 5), (224, 224), (450, 450), (699, 899)):
                cases.add(F.resize(image, list(size), antialias=True), "resize", image, *size)
        cases.require(self, self.most)

    def test_a_crop_and_a_resize_are_one(self):
        cases = Compared()
        rng = random.Random(3)
        for image in images():
            height, width = image.shape[1:]
            for _ in range(10):
                tall, wide = rng.randint(1, height), rng.randint(1, width)
                top, left = rng.randint(0, height - tall), rng.randint(0, width - wide)
                size = [rng.randint(1, 60), rng.randint(1, 60)]
                theirs = F.resized_crop(image, top, left, tall, wide, size, antialias=True)
                cases.add(theirs, "resized-crop", image, top, left, tall, wide, *size)
        cases.require(self, self.most)


def moves(count, seed):
    """angle, translate, scale, shear, center or None"""
    rng = random.Random(seed)
    yield 0.0, [0, 0], 1.0, [0.0, 0.0], None
    yield 0.0, [3, -2], 1.0, [0.0, 0.0], None
    for angle in (90.0, 180.0, -90.0, 45.0):
        yield angle, [0, 0], 1.0, [0.0, 0.0], None
    for scale in (0.5, 2.0, 0.25, 1e-3, 50.0):
        yield 0.0, [0, 0], scale, [0.0, 0.0], None
    for magnitude in (0.3, -17.0):
        yield 0.0, [0, 0], 1.0, [magnitude, 0.0], [0.0, 0.0]
        yield 0.0, [0, 0], 1.0, [0.0, magnitude], [0.0, 0.0]
    for _ in range(count):
        center = rng.choice([None, [rng.uniform(-10, 90), rng.uniform(-10, 90)]])
        yield (
            rng.uniform(-180, 180),
            [rng.randint(-20, 20), rng.randint(-20, 20)],
            rng.uniform(0.3, 3),
            [rng.uniform(-40, 40), rng.uniform(-40, 40)],
            center,
        )


def move_numbers(angle, translate, scale, shear, center):
    return [angle, *translate, scale, *shear, center is not None, *(center or (0, 0))]


class AffineTest(unittest.TestCase):
    fills = (None, [0, 0, 0], [255, 10, 128])

    def cases(self, mode):
        cases = Compared()
        sizes = ((1, 1), (2, 3), (17, 16), (32, 32), (61, 83), (120, 75))
        for image in images(sizes):
            for move, fill in itertools.product(moves(15, image.shape[1]), self.fills):
                angle, translate, scale, shear, center = move
                theirs = F.affine(
                    image, angle, translate, scale, shear, interpolation=MODES[mode], fill=fill and fill[: image.shape[0]], center=center
                )
                cases.add(theirs, "affine", image, mode, fill is not None, *(fill or (0, 0, 0)), *move_numbers(*move))
        return cases

    def test_bilinear_moves_are_torchvision_s(self):
        self.cases(1).require(self, 1)

    def test_nearest_moves_are_torchvision_s(self):
        self.cases(0).require(self, 0)

    def test_rotations_are_torchvision_s(self):
        for mode in (0, 1):
            cases = Compared()
            for image in images():
                for angle in (0, 90, 180, 270, -90, 30, 1.5, -77.7, 400):
                    cases.add(F.rotate(image, angle, interpolation=MODES[mode]), "rotate", image, mode, angle)
            cases.require(self, mode)


class ColorTest(unittest.TestCase):
    def test_values_by_a_table_are_torchvision_s(self):
        cases = Compared()
        for image in images():
            cases.add(F.autocontrast(image), "autocontrast", image)
            cases.add(F.equalize(image), "equalize", image)
            for bits in range(9):
                cases.add(F.posterize(image, bits), "posterize", image, bits)
            for threshold in (0, 0.5, 1, 100, 127.5, 128, 255):
                cases.add(F.solarize(image, threshold), "solarize", image, threshold)
        cases.require(self, 0)

    def test_every_autocontrast_of_two_values_is_torchvision_s(self):
        cases = Compared()
        for least in range(0, 256, 5):
            for most in range(least, 256, 3):
                image = torch.arange(least, most + 1).to(torch.uint8).reshape(1, 1, -1)
                cases.add(F.autocontrast(image), "autocontrast", image)
        cases.require(self, 0)

    def adjust(self, name, theirs, factors, most):
        cases = Compared()
        for image in images():
            for factor in factors:
                cases.add(theirs(image, float(factor)), name, image, factor)
        cases.require(self, most)

    factors = (0, 0.1, 0.25, 1 / 3, 0.5, 0.9, 1, 1.1, 1.5, 1.9, 2, 7.3)

    def test_brightness_is_torchvision_s(self):
        self.adjust("brightness", F.adjust_brightness, self.factors, 0)

    def test_contrast_is_torchvision_s(self):
        self.adjust("contrast", F.adjust_contrast, self.factors, 1)

    def test_the_grey_of_every_color_is_torchvision_s(self):
        cases = Compared()
        values = torch.arange(256, dtype=torch.uint8)
        for red in range(256):
            green, blue = torch.meshgrid(values, values, indexing="ij")
            image = torch.stack([torch.full_like(green, red), green, blue])
            cases.add(F.adjust_saturation(image, 0.0), "saturation", image, 0)
        cases.require(self, FAST_CPU_MOST)

    def test_saturation_is_torchvision_s(self):
        self.adjust("saturation", F.adjust_saturation, self.factors, 1)

    def test_sharpness_is_torchvision_s(self):
        self.adjust("sharpness", F.adjust_sharpness, self.factors, 1)

    def test_hue_is_torchvision_s(self):
        self.adjust("hue", F.adjust_hue, (-0.5, -0.4, -0.1, -1 / 3, -1e-3, 0, 0.01, 1 / 6, 0.25, 1 / 3, 0.5), 1)


def boxes_of(count, height, width, seed):
    rng = random.Random(seed)
    for _ in range(count):
        left, right = sorted(rng.uniform(0, width) for _ in range(2))
        top, bottom = sorted(rng.uniform(0, height) for _ in range(2))
        yield tuple(numpy.float32([left, top, right, bottom]).tolist())


class BoxesTest(unittest.TestCase):
    """Units: pixels. Float32 has 24 bits, and sums of a few hundred pixels some more rounding: 1e-3 of a pixel."""

    height, width = 61, 83

    def check(self, requests, theirs, least=0.0):
        """theirs: [N, 4] each. A box that is empty then is dropped, which torchvision leaves to others."""
        lines = [" ".join([name, *map(repr, box), str(self.height), str(self.width), *(repr(float(n)) for n in numbers)]) for name, box, numbers in requests]
        answers = image_tool("boxes", given="\n".join(lines).encode()).decode().splitlines()
        kept = 0
        for line, answer, box in zip(lines, answers, theirs, strict=True):
            area = float((box[2] - box[0]).clamp(min=0) * (box[3] - box[1]).clamp(min=0))
            if answer == "dropped":
                self.assertLessEqual(area, least + 1e-3, line)
            else:
                kept += 1
                self.assertGreater(area, least - 1e-3, line)
                ours = torch.tensor([float(number) for number in answer.split()])
                self.assertLess(float((ours - box).abs().max()), 1e-3, line)
        self.assertGreater(kept, len(theirs) // 3)

    def test_boxes_move_as_torchvision_s(self):
        boxes = list(boxes_of(60, self.height, self.width, 5))
        tensor = tv_tensors.BoundingBoxes(torch.tensor(boxes), format="XYXY", canvas_size=(self.height, self.width))
        ways = [("flip", [], F.horizontal_flip(tensor))]
        for size in ((30, 200), (61, 40)):
            ways.append(("resize", size, F.resize(tensor, list(size))))
        for region in ((0, 0, 61, 83), (10, 20, 30, 40), (-5, -8, 100, 100), (-5, 40, 30, 60)):
            ways.append(("crop", (*region, 0), F.crop(tensor, *region)))
        for move in moves(30, 8):
            if 0.3 < move[2] < 4:
                angle, translate, scale, shear, center = move
                ways.append(("affine", move_numbers(*move), F.affine(tensor, angle, translate, scale, shear, center=center)))
                unclipped = tv_tensors.BoundingBoxes(torch.tensor(boxes), format="XYXY", canvas_size=(self.height, self.width), clamping_mode=None)
                ways.append(("hull", move_numbers(*move), F.affine(unclipped, angle, translate, scale, shear, center=center)))
        requests = [(name, box, numbers) for name, numbers, _ in ways for box in boxes]
        self.check(requests, [box.as_subclass(torch.Tensor) for _, _, theirs in ways for box in theirs])


if __name__ == "__main__":
    torch.set_num_threads(1)
    run_tests()
