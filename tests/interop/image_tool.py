"""Runs image_tool (tests/interop/image_tool.cpp), which the environment names by DDP_IMAGE_TOOL, and reads its images."""

import io

import numpy
import PIL.Image
from tools import run_tool

MODES = {1: "L", 3: "RGB"}


def image_tool(*arguments, given=b"") -> bytes:
    return run_tool("DDP_IMAGE_TOOL", *arguments, given=given)


def images_of(stream):
    """Arrays [C, H, W]; the reason, as a string, where there is none."""
    stream = io.BytesIO(stream)
    while line := stream.readline():
        channels, height, width = map(int, line.split())
        if channels == 0:
            yield stream.read(width).decode()
        else:
            yield numpy.frombuffer(stream.read(channels * height * width), numpy.uint8).reshape(channels, height, width)


def decode(files, channels=3, at_least=(0, 0)):
    return list(images_of(image_tool("decode", channels, *at_least, *files)))


def decode_part(files, part, channels=3):
    """`part`: top, left, height, width."""
    return list(images_of(image_tool("decode-part", channels, *part, *files)))


def planes(image):
    array = numpy.asarray(image)
    return array[None] if array.ndim == 2 else array.transpose(2, 0, 1)


def pillow(path, channels=3):
    with PIL.Image.open(path) as image:
        return planes(image.convert(MODES[channels]))


def difference(ours, theirs):
    if isinstance(ours, str):
        raise AssertionError(f"not decoded: {ours}")
    if ours.shape != theirs.shape:
        raise AssertionError(f"{ours.shape} is not {theirs.shape}")
    return int(numpy.abs(ours.astype(int) - theirs.astype(int)).max())


def picture(height=61, width=83, seed=1):
    """Smooth and rough parts, in odd sizes."""
    random = numpy.random.default_rng(seed)
    y, x = numpy.mgrid[0:height, 0:width]
    smooth = numpy.stack([x * 255 // width, y * 255 // height, (x + y) * 255 // (height + width)], axis=-1)
    rough = random.integers(0, 256, (height, width, 3))
    return numpy.where((x // 16 % 2 == 0)[..., None], smooth, rough).astype(numpy.uint8)


def check(test, paths, channels=(1, 3)):
    """Each file is to Pillow what it is to us, to the last bit."""
    for count in channels:
        for path, ours in zip(paths, decode(paths, count), strict=True):
            with test.subTest(path.name, channels=count):
                test.assertEqual(difference(ours, pillow(path, count)), 0)
