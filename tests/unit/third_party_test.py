"""THIRD_PARTY.md names what the programs are made of. Usage: third_party_test.py BUILD_DIRECTORY"""

import importlib.util
import json
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(sys.argv.pop(1))
ROWS = json.loads((ROOT / "cmake/third_party.json").read_text())


def linked_into(program):
    """The system's libraries on the program's link line; none: it is not built here."""
    text = (BUILD / "build.ninja").read_text()
    block = re.search(rf"(?m)^build {program}: CXX_EXECUTABLE_LINKER.*\n((?:  .*\n)*)", text)
    return set(re.findall(r"/usr/lib/[\w-]+/(lib[\w+-]+\.(?:a|so))", block[1])) if block else set()


class ThirdParty(unittest.TestCase):
    def test_the_page_is_made_of_the_table(self):
        spec = importlib.util.spec_from_file_location("third_party", ROOT / "docs/third_party.py")
        maker = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(maker)
        self.assertEqual((ROOT / "THIRD_PARTY.md").read_text(), maker.page(), "run: python3 -B docs/third_party.py")

    def test_all_that_cmake_looks_for_is_in_the_table(self):
        text = (ROOT / "cmake/libraries.cmake").read_text()
        looked_for = set(re.findall(r"find_package\(([\w-]+)", text)) | set(re.findall(r"find_path\(\w+ ([\w./]+)", text))
        self.assertEqual(looked_for - {"Threads"}, {name for row in ROWS for name in row["found_by"]})

    def test_what_is_linked_is_in_the_table(self):
        self.assertTrue(linked_into("ddp-launch"))
        for program in ("ddp-launch", "ddp-worker", "ddp-fetch"):
            named = {file for row in ROWS if program in row["in"] for file in row["files"]}
            self.assertEqual(linked_into(program) - named, set(), program)

    def test_debian_names_the_licences(self):
        for row in ROWS:
            text = pathlib.Path("/usr/share/doc", row["package"], "copyright").read_text(errors="replace")
            self.assertIn(row["says"], " ".join(text.split()), row["name"])


if __name__ == "__main__":
    unittest.main()
