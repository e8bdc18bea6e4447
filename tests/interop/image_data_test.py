"""The JPEG files of two real data sets, decoded by Pillow and by us."""

import pathlib
import sys
import unittest

from image_tool import check, decode_part, difference, pillow

DATA = pathlib.Path(__file__).resolve().parents[3] / "shared" / "data"


class DataTest(unittest.TestCase):
    def test_those_of_coco_are_pillow_s(self):
        files = sorted((DATA / "coco128" / "images").rglob("*.jpg"))
        self.assertEqual(len(files), 128)
        check(self, files)
        for path in files:
            whole = pillow(path)
            height, width = whole.shape[1:]
            for top, left in ((0, 0), (height // 3, width // 5), (height // 2 + 1, width // 2 - 1)):
                part = (top, left, (height - top) * 2 // 3, (width - left) * 3 // 4)
                (ours,) = decode_part([path], part)
                with self.subTest(path.name, part=part):
                    self.assertEqual(difference(ours, whole[:, top : top + part[2], left : left + part[3]]), 0)

    def test_those_of_cifar_are_pillow_s(self):
        files = sorted((DATA / "cifar10-jpeg-folders").rglob("*.jpg"))
        self.assertEqual(len(files), 600)
        check(self, files)


if __name__ == "__main__":
    if not DATA.is_dir():
        print(f"skipped: there is no {DATA}")
        sys.exit(77)
    unittest.main()
