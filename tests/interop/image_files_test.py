"""Our reader of JPEG, PNG and WebP against Pillow's Image.open(file).convert("RGB"), and our writer of PNG.

Run by hand: DDP_IMAGE_TOOL=build/release/tests/image_tool $DDP_PYTHON tests/interop/image_files_test.py
"""

import io
import pathlib
import struct
import tempfile
import unittest
import zlib

import numpy
import PIL.Image
import PIL.ImageOps
from image_tool import MODES, check, decode, decode_part, difference, image_tool, images_of, picture, pillow, planes


class FilesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def saved(self, name, image, **options):
        path = self.folder / name
        image.save(path, **options)
        return path

    def test_jpegs_of_every_kind_are_pillow_s(self):
        rgb = PIL.Image.fromarray(picture())
        paths = [
            self.saved(f"{subsampling}-{progressive}-{quality}.jpg", rgb, subsampling=subsampling, progressive=progressive, quality=quality)
            for subsampling in (0, 1, 2)
            for progressive in (False, True)
            for quality in (30, 75, 95)
        ]
        paths += [
            self.saved("grey.jpg", rgb.convert("L")),
            self.saved("grey-progressive.jpg", rgb.convert("L"), progressive=True),
            self.saved("keep-rgb.jpg", rgb, keep_rgb=True),
            self.saved("restart.jpg", rgb, restart_marker_blocks=3),
            self.saved("optimized.jpg", rgb, optimize=True),
            self.saved("cmyk.jpg", rgb.convert("CMYK")),
            self.saved("profile.jpg", rgb, icc_profile=b"x" * 3000, comment=b"words"),
        ]
        check(self, [*paths, self.saved("one.jpg", rgb.crop((0, 0, 1, 1)))])
        for part in ((0, 0, 61, 83), (0, 0, 1, 1), (60, 82, 1, 1), (16, 16, 16, 16), (15, 17, 30, 33), (33, 31, 28, 52), (7, 40, 50, 1)):
            top, left, height, width = part
            for channels in (1, 3):
                for path, ours in zip(paths, decode_part(paths, part, channels), strict=True):
                    whole = pillow(path, channels)
                    with self.subTest(path.name, part=part, channels=channels):
                        self.assertEqual(difference(ours, whole[:, top : top + height, left : left + width]), 0)

    def test_the_decoder_alone_passes_the_orientation_in_exif_over(self):
        exif = PIL.Image.Exif()
        exif[0x0112] = 6
        check(self, [self.saved("turned.jpg", PIL.Image.fromarray(picture()), exif=exif)])

    def test_photos_of_a_set_are_turned_as_viewers_turn_them(self):
        files = []
        for number in (None, *range(10)):
            exif = PIL.Image.Exif()
            if number is not None:
                exif[0x0112] = number
            files.append(self.saved(f"{number}.jpg", PIL.Image.fromarray(picture()), exif=exif))
        for part in ((0, 0, 0, 0), (0, 0, 61, 61), (5, 7, 20, 33)):
            top, left, height, width = part
            for file, ours in zip(files, images_of(image_tool("decode-oriented", *part, *files)), strict=True):
                with PIL.Image.open(file) as image:
                    whole = planes(PIL.ImageOps.exif_transpose(image).convert("RGB"))
                theirs = whole[:, top : top + height, left : left + width] if height else whole
                with self.subTest(file.name, part=part):
                    self.assertEqual(difference(ours, theirs), 0)

    def test_pngs_of_every_kind_are_pillow_s(self):
        rgb = PIL.Image.fromarray(picture())
        grey = rgb.convert("L")
        alpha = rgb.copy()
        alpha.putalpha(grey)
        paths = [self.saved(f"{image.mode}.png", image) for image in (rgb, grey, alpha, grey.convert("LA"), grey.convert("1"))]
        palette = rgb.quantize(200)
        paths += [self.saved(f"palette-{bits}.png", rgb.quantize(2**bits), bits=bits) for bits in (1, 2, 4, 8)]
        paths += [
            self.saved("palette-alpha.png", palette, transparency=3),
            self.saved("palette-alphas.png", palette, transparency=bytes(range(200))),
            self.saved("rgb-key.png", rgb, transparency=(0, 0, 0)),
            self.saved("grey-key.png", grey, transparency=0),
            self.saved("one.png", rgb.crop((0, 0, 1, 1))),
        ]
        check(self, paths)

    def test_interlaced_pngs_and_those_of_16_bits_are_read(self):
        pixels = picture()
        deep = pixels.astype(numpy.uint16) * 256 + 77
        for interlaced in (False, True):
            for channels, kind in ((1, 0), (3, 2), (2, 4), (4, 6)):
                for depth in (8, 16):
                    source = numpy.concatenate([pixels, pixels[..., :1]], -1) if depth == 8 else numpy.concatenate([deep, deep[..., :1]], -1)
                    samples = source[..., [0, 3]] if channels == 2 else source[..., :channels]
                    path = self.folder / f"{interlaced}-{channels}-{depth}.png"
                    path.write_bytes(png_file(samples, kind, depth, interlaced))
                    colors = pixels if channels > 2 else pixels[..., :1].repeat(3, -1)
                    (ours,) = decode([path])
                    with self.subTest(path.name):
                        self.assertEqual(difference(ours, planes(colors)), 0)
                        if depth == 8 or channels > 1:  # of 16 bits of grey Pillow keeps 16
                            self.assertEqual(difference(ours, pillow(path)), 0)

    def test_webps_are_pillow_s(self):
        rgb = PIL.Image.fromarray(picture())
        alpha = rgb.copy()
        alpha.putalpha(rgb.convert("L").point(lambda value: max(value, 1)))
        paths = [self.saved(f"{quality}.webp", rgb, quality=quality) for quality in (20, 80, 100)]
        paths += [self.saved("lossless.webp", rgb, lossless=True), self.saved("one.webp", rgb.crop((0, 0, 1, 1)))]
        paths += [self.saved("alpha.webp", alpha), self.saved("alpha-lossless.webp", alpha, lossless=True, exact=True)]
        check(self, paths)

    def test_of_an_animated_file_the_first_frame_is_read(self):
        rgb = PIL.Image.fromarray(picture())
        alpha = rgb.copy()
        alpha.putalpha(rgb.convert("L"))
        frames = {name: {"save_all": True, "append_images": [first.rotate(90), first.rotate(180)]} for name, first in (("rgb", rgb), ("alpha", alpha))}
        paths = [self.saved(f"{name}.{ending}", first, **frames[name]) for name, first in (("rgb", rgb), ("alpha", alpha)) for ending in ("webp", "png")]
        paths.append(self.saved("lossless.webp", rgb, lossless=True, **frames["rgb"]))
        check(self, paths)

    def test_an_animated_webp_that_is_cut_or_damaged_is_refused(self):
        rgb = PIL.Image.fromarray(picture())
        whole = self.saved("whole.webp", rgb, save_all=True, append_images=[rgb.rotate(90)]).read_bytes()
        paths = [self.folder / f"{size}.webp" for size in range(40, len(whole) - 1, 97)]
        for path in paths:
            path.write_bytes(whole[: int(path.stem)])
        self.assertEqual([ours for ours in decode(paths) if not isinstance(ours, str)], [])

    def test_transparent_images_are_pasted_onto_a_background_as_by_pillow(self):
        rgb = PIL.Image.fromarray(picture())
        grey = rgb.convert("L")
        alpha = rgb.copy()
        alpha.putalpha(PIL.Image.fromarray(numpy.arange(61 * 83, dtype=numpy.uint32).reshape(61, 83).astype(numpy.uint8)))
        interlaced = self.folder / "interlaced.png"
        interlaced.write_bytes(png_file(numpy.asarray(alpha), 6, 8, True))
        paths = [
            interlaced,
            self.saved("rgb.png", rgb),
            self.saved("grey.png", grey),
            self.saved("alpha.png", alpha),
            self.saved("grey-alpha.png", alpha.convert("LA")),
            self.saved("palette.png", rgb.quantize(200)),
            self.saved("palette-alpha.png", rgb.quantize(200), transparency=3),
            self.saved("palette-alphas.png", rgb.quantize(200), transparency=bytes(range(200))),
            self.saved("rgb-key.png", rgb, transparency=rgb.getpixel((5, 5))),
            self.saved("grey-key.png", grey, transparency=grey.getpixel((5, 5))),
            self.saved("one-bit-key.png", grey.convert("1"), transparency=0),
            self.saved("frames.png", alpha, save_all=True, append_images=[alpha.rotate(90)]),
            self.saved("lossy.webp", alpha, exact=True),
            self.saved("lossless.webp", alpha, lossless=True, exact=True),
            self.saved("frames.webp", alpha, save_all=True, append_images=[alpha.rotate(90)], lossless=True, exact=True),
            self.saved("photo.jpg", rgb),
        ]
        for color in ((255, 255, 255), (0, 0, 0), (200, 3, 77)):
            for channels in (1, 3):
                for path, ours in zip(paths, images_of(image_tool("decode-on", *color, channels, *paths)), strict=True):
                    with PIL.Image.open(path) as image:
                        transparent = image.convert("RGBA")
                    theirs = PIL.Image.new("RGB", transparent.size, color)
                    theirs.paste(transparent, mask=transparent.getchannel("A"))
                    with self.subTest(path.name, color=color, channels=channels):
                        self.assertEqual(difference(ours, planes(theirs.convert(MODES[channels]))), 0)

    def test_of_16_bits_the_transparent_color_is_compared_before_it_is_shortened(self):
        pixels = picture().astype(numpy.uint16) * 256
        pixels[5, 5:7] = [[0x4200, 0x4200, 0x4200], [0x4201, 0x4200, 0x4200]]  # the first one alone is transparent
        grey, rgb, alphas = self.folder / "grey.png", self.folder / "rgb.png", self.folder / "alphas.png"
        grey.write_bytes(png_file(pixels[..., :1], 0, 16, False, (0x4200,)))
        rgb.write_bytes(png_file(pixels, 2, 16, True, (0x4200, 0x4200, 0x4200)))
        alphas.write_bytes(png_file(numpy.concatenate([pixels, pixels[..., ::-1][..., :1]], -1), 6, 16, False))
        white = (255, 255, 255)
        grey_key, rgb_key = (pixels[..., 0] == 0x4200), (pixels == 0x4200).all(-1)
        short = (pixels >> 8).astype(numpy.uint32)
        alpha = short[..., 2:3]
        total = short * alpha + 255 * (255 - alpha) + 128
        wanted = [
            numpy.where(grey_key[..., None], 255, short[..., :1].repeat(3, -1)),
            numpy.where(rgb_key[..., None], 255, short),
            (total + (total >> 8)) >> 8,
        ]
        for path, theirs, ours in zip((grey, rgb, alphas), wanted, images_of(image_tool("decode-on", *white, 3, grey, rgb, alphas)), strict=True):
            with self.subTest(path.name):
                self.assertEqual(difference(ours, planes(theirs.astype(numpy.uint8))), 0)

    def test_other_formats_are_named(self):
        rgb = PIL.Image.fromarray(picture())
        paths = [self.saved(f"x.{ending}", rgb) for ending in ("gif", "bmp", "tif", "ppm", "jp2")]
        names = [reason.split(",")[0] for reason in decode(paths)]
        self.assertEqual(names, ["it is a GIF", "it is a BMP", "it is a TIFF", "it is a PPM", "it is a JPEG 2000"])

    def test_a_jpeg_decoded_smaller_is_pillow_s_draft(self):
        path = self.saved("x.jpg", PIL.Image.fromarray(picture(301, 403)), quality=95)
        for at_least, wanted in (((302, 403), (301, 403)), ((301, 403), (301, 403)), ((151, 202), (151, 202)), ((152, 10), (301, 403)),
                                 ((100, 100), (151, 202)), ((70, 80), (76, 101)), ((1, 1), (38, 51))):
            with self.subTest(at_least), PIL.Image.open(path) as image:
                image.draft("RGB", (wanted[1] - 1, wanted[0] - 1))  # at 1/2 Pillow takes 151 for 150.5, and not for 151
                (ours,) = decode([path], at_least=at_least)
                self.assertEqual(ours.shape[1:], wanted)
                self.assertEqual(difference(ours, planes(image)), 0)

    def test_a_jpeg_cut_anywhere_is_refused_where_pillow_refuses_it(self):
        for progressive in (False, True):
            whole = self.saved("whole.jpg", PIL.Image.fromarray(picture()), progressive=progressive).read_bytes()
            sizes = [*range(0, len(whole), 97), *range(len(whole) - 8, len(whole) + 1)]
            paths = [self.folder / f"{size}.jpg" for size in sizes]
            for path, size in zip(paths, sizes, strict=True):
                path.write_bytes(whole[:size])
            refused = {path.name for path, ours in zip(paths, decode(paths), strict=True) if isinstance(ours, str)}
            self.assertEqual(refused, {path.name for path in paths if not is_read_by_pillow(path)})
            self.assertGreater(len(refused), len(sizes) - 5)

    def test_pillow_reads_what_we_write_and_each_pixel_is_the_same(self):
        for height, width in ((1, 1), (61, 83), (200, 3)):
            path = self.saved("x.png", PIL.Image.fromarray(picture(height, width)))
            for channels in (1, 3):
                with PIL.Image.open(io.BytesIO(image_tool("encode-png", channels, path))) as image:
                    self.assertEqual((image.format, image.mode), ("PNG", MODES[channels]))
                    self.assertEqual(difference(planes(image), pillow(path, channels)), 0)


def is_read_by_pillow(path):
    try:
        pillow(path)
    except OSError:
        return False
    return True


def png_file(samples, kind, depth, interlaced, key=()):
    """What Pillow does not write: interlaced, and colour of 16 bits. `key`: the color that is transparent."""
    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    height, width = samples.shape[:2]
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)] if interlaced else [(0, 0, 1, 1)]
    rows = b""
    for top, left, down, across in passes:
        part = samples[top::down, left::across]
        if part.size:
            rows += b"".join(b"\0" + row.astype(">u2" if depth == 16 else "u1").tobytes() for row in part)
    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlaced)
    transparent = chunk(b"tRNS", struct.pack(f">{len(key)}H", *key)) if key else b""
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + transparent + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


if __name__ == "__main__":
    unittest.main()
