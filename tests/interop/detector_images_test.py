"""What a training of detectors does to its images, against OpenCV, which the Python loaders of the field use: a matrix and bilinear sampling with
a grey border, gains in HSV, and photos that their EXIF data turn.

Run by hand: DDP_PYTHON_DETECTOR=... DDP_IMAGE_TOOL=build/release/tests/image_tool python3 tests/interop/detector_images_test.py [-v]
"""

import math
import pathlib
import random
import sys
import tempfile
import unittest

import detector_python

detector_python.enter(__file__)

# pylint: disable=wrong-import-position
import cv2
import numpy
import PIL.Image

from image_tool import image_tool, images_of

GREY = 114


def smooth(height, width, seed):
    """[H, W, 3] of uint8, without noise: where a neighbour is taken is seen as a part of a step, and not as another value."""
    rng = numpy.random.default_rng(seed)
    y, x = numpy.mgrid[:height, :width]
    planes = [127.5 + 100 * numpy.sin(x / rng.uniform(9, 20) + rng.uniform(0, 6)) * numpy.cos(y / rng.uniform(9, 20)) for _ in range(3)]
    return numpy.stack(planes, -1).astype(numpy.uint8)


def ours(name, image, *numbers):
    given = (" ".join([name, *(repr(float(number)) for number in numbers)]) + "\n%d %d %d\n" % image.transpose(2, 0, 1).shape).encode()
    answer = next(images_of(image_tool("operate", given=given + image.transpose(2, 0, 1).tobytes())))
    return answer.transpose(1, 2, 0)


def shift(by):
    return numpy.array([[1, 0, by], [0, 1, by], [0, 0, 1.0]])


def draw_matrix(rng, height, width, size, degrees, shear, perspective):
    center = numpy.array([[1, 0, -width / 2], [0, 1, -height / 2], [0, 0, 1.0]])
    tilt = numpy.array([[1, 0, 0], [0, 1, 0], [rng.uniform(-perspective, perspective), rng.uniform(-perspective, perspective), 1]])
    angle, scale = math.radians(rng.uniform(-degrees, degrees)), rng.uniform(0.5, 1.5)
    turn = scale * numpy.array([[math.cos(angle), math.sin(angle), 0], [-math.sin(angle), math.cos(angle), 0], [0, 0, 1 / scale]])
    slant = numpy.array([[1, math.tan(math.radians(rng.uniform(-shear, shear))), 0], [math.tan(math.radians(rng.uniform(-shear, shear))), 1, 0], [0, 0, 1.0]])
    move = numpy.array([[1, 0, size * rng.uniform(0.4, 0.6)], [0, 1, size * rng.uniform(0.4, 0.6)], [0, 0, 1.0]])
    return move @ slant @ turn @ tilt @ center


class PerspectiveTest(unittest.TestCase):
    """OpenCV 5 rounds sums of float, ours adds parts of 1/128: 1 apart at most. OpenCV 4 rounds the place of a pixel to 1/32, which at the edge to the
    grey, a step of up to 140, is more."""

    def check(self, degrees=0.0, shear=0.0, perspective=0.0):
        rng = random.Random(1)
        size = 160
        differences = []
        for seed in range(20):
            height, width = rng.randint(100, 300), rng.randint(100, 300)
            image = smooth(height, width, seed)
            matrix = draw_matrix(rng, height, width, size, degrees, shear, perspective)
            # Ours has the middle of the first pixel at 0.5, OpenCV at 0.
            theirs_matrix = shift(-0.5) @ matrix @ shift(0.5)
            border = {"dsize": (size, size), "borderValue": (GREY, GREY, GREY)}
            if perspective:
                theirs = cv2.warpPerspective(image, theirs_matrix, **border)
            else:
                theirs = cv2.warpAffine(image, theirs_matrix[:2], **border)
            mine = ours("perspective", image, size, size, GREY, GREY, GREY, *matrix.flatten())
            differences.append(numpy.abs(mine.astype(int) - theirs).flatten())
        difference = numpy.concatenate(differences)
        if "-v" in sys.argv:
            shares = ", ".join(f"{(difference > most).mean():.5f} above {most}" for most in (0, 1, 2, 4, 8))
            print(f"degrees {degrees} shear {shear} perspective {perspective}: {shares}, at most {difference.max()}", file=sys.stderr)
        is_exact = int(cv2.__version__.split(".")[0]) >= 5
        self.assertLess((difference > 1).mean(), 0.01)
        self.assertLessEqual(difference.max(), 1 if is_exact else 8)

    def test_scale_and_translation(self):
        self.check()

    def test_rotation_and_shear(self):
        self.check(degrees=20, shear=8)

    def test_perspective(self):
        self.check(degrees=5, perspective=0.001)


class HsvTest(unittest.TestCase):
    def test_gains_are_those_of_floats(self):
        """OpenCV's HSV of float32 has hues in degrees, and saturation and value from 0 to 1."""
        rng = random.Random(2)
        noise = numpy.random.default_rng(3).integers(0, 256, (50, 60, 3), numpy.uint8)
        for image in (noise, smooth(80, 70, 1), numpy.full((9, 9, 3), 77, numpy.uint8)):
            for _ in range(20):
                turn, saturation, value = rng.uniform(-0.5, 0.5), rng.uniform(0, 2), rng.uniform(0, 2)
                hsv = cv2.cvtColor(image.astype(numpy.float32) / 255, cv2.COLOR_RGB2HSV)
                hsv[..., 0] = (hsv[..., 0] + 360 * turn) % 360
                hsv[..., 1:] = numpy.clip(hsv[..., 1:] * numpy.float32([saturation, value]), 0, 1)
                theirs = numpy.round(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB) * 255)
                mine = ours("hsv", image, turn, saturation, value)
                self.assertLessEqual(numpy.abs(mine - theirs).max(), 1, (turn, saturation, value))

    def test_gains_are_near_those_of_tables(self):
        """With bytes in between, as the Python loaders have them: hues in steps of 2 degrees, saturations and values in 256. Ours is the exact one."""
        rng = random.Random(4)
        image = smooth(90, 110, 5)
        levels = numpy.arange(256)
        differences = []
        for _ in range(20):
            turn, saturation, value = rng.uniform(-0.015, 0.015), rng.uniform(0.3, 1.7), rng.uniform(0.6, 1.4)
            hue_table = ((levels + turn * 180) % 180).astype(numpy.uint8)
            tables = [hue_table, *(numpy.clip(levels * gain, 0, 255).astype(numpy.uint8) for gain in (saturation, value))]
            channels = cv2.split(cv2.cvtColor(image, cv2.COLOR_RGB2HSV))
            theirs = cv2.cvtColor(cv2.merge([cv2.LUT(c, table) for c, table in zip(channels, tables, strict=True)]), cv2.COLOR_HSV2RGB)
            differences.append(numpy.abs(ours("hsv", image, turn, saturation, value).astype(int) - theirs).flatten())
        difference = numpy.concatenate(differences)
        if "-v" in sys.argv:
            print(f"hsv by tables: mean {difference.mean():.2f}, at most {difference.max()}", file=sys.stderr)
        self.assertLess(difference.mean(), 2.5)


class OrientationTest(unittest.TestCase):
    def test_a_jpeg_lies_as_opencv_turns_it(self):
        """All numbers of EXIF, two that it does not have, and none. Libraries of JPEG differ by a step or two; a wrong turn by far more."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        image = PIL.Image.fromarray(smooth(60, 90, 1))
        files = []
        for number in (None, *range(10)):
            exif = PIL.Image.Exif()
            if number is not None:
                exif[0x010F] = "a maker"
                exif[0x0112] = number
            files.append(pathlib.Path(folder.name, f"{number}.jpg"))
            image.save(files[-1], quality=95, exif=exif)
        for file, mine in zip(files, images_of(image_tool("decode-oriented", 0, 0, 0, 0, *files)), strict=True):
            with self.subTest(file.name):
                theirs = cv2.imread(str(file))[..., ::-1]
                self.assertEqual(mine.transpose(1, 2, 0).shape, theirs.shape)
                self.assertLessEqual(numpy.abs(mine.transpose(1, 2, 0).astype(int) - theirs).max(), 8)


if __name__ == "__main__":
    unittest.main()
