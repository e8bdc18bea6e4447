"""The JPEG files of two real data sets, decoded by Pillow and by us."""

import pathlib
import sys
import unittest

from image_tool import check

DATA = pathlib.Path(__file__).resolve().parents[3] / "shared" / "data"


class DataTest(unittest.TestCase):
    def test_those_of_coco_are_pillow_s(self):
        files = sorted((DATA / "coco128" / "images").rglob("*.jpg"))
        self.assertEqual(len(files), 128)
        check(self, files)

    def test_those_of_cifar_are_pillow_s(self):
        files = sorted((DATA / "cifar10-jpeg-folders").rglob("*.jpg"))
        self.assertEqual(len(files), 600)
        check(self, files)


if __name__ == "__main__":
    if not DATA.is_dir():
        print(f"skipped: there is no {DATA}")
        sys.exit(77)
    unittest.main()
