"""Data sets of a few images in the published forms, for tests that need files and not what is in them."""

import gzip
import random
import struct
import zlib


def write_mnist(folder):
    """192 black images to train on and 32 to test with, in MNIST's four files."""
    folder.mkdir()
    for part, size in (("train", 192), ("t10k", 32)):
        with gzip.open(folder / f"{part}-images-idx3-ubyte.gz", "wb") as file:
            file.write(struct.pack(">4i", 2051, size, 28, 28) + bytes(784 * size))
        with gzip.open(folder / f"{part}-labels-idx1-ubyte.gz", "wb") as file:
            file.write(struct.pack(">2i", 2049, size) + bytes(i % 10 for i in range(size)))


def write_cifar10(folder):
    """As many records as CIFAR-10 has, which its reader insists on, all but the first black: six names of one file."""
    noise = random.Random(1)
    folder.mkdir()
    first = folder / "test_batch.bin.gz"
    with gzip.open(first, "wb", compresslevel=1) as file:
        file.write(b"".join(bytes([i % 10]) + (noise.randbytes(3072) if i < 100 else bytes(3072)) for i in range(10000)))
    for number in range(1, 6):
        (folder / f"data_batch_{number}.bin.gz").hardlink_to(first)


def png_of(rows, channels=3):
    """A PNG of rows of bytes."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    pixels = zlib.compress(b"".join(b"\0" + row for row in rows))
    head = struct.pack(">IIBBBBB", len(rows[0]) // channels, len(rows), 8, {1: 0, 3: 2}[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def write_png(path, width=40, height=30):
    """A noisy image in shades of grey."""
    noise = random.Random(1)
    path.write_bytes(png_of([noise.randbytes(width) for _ in range(height)], channels=1))


def write_folders(folder):
    """Two classes with 8 images each to train on, and 4 each to test with."""
    for part, count in (("train", 8), ("val", 4)):
        for name in ("cat", "dog"):
            (folder / part / name).mkdir(parents=True)
            for number in range(count):
                write_png(folder / part / name / f"{number}.png")


def write_boxes(folder):
    """Four images with one box each, in YOLO's form."""
    for kind in ("images", "labels"):
        (folder / kind / "train2017").mkdir(parents=True)
    for number in range(4):
        write_png(folder / f"images/train2017/{number}.png")
        (folder / f"labels/train2017/{number}.txt").write_text("0 0.5 0.5 0.4 0.4\n", encoding="utf-8")
    (folder / "names.txt").write_text("cat\ndog\n", encoding="utf-8")
