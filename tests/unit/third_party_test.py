"""THIRD_PARTY.md names what the programs are made of. Usage: third_party_test.py BUILD_DIRECTORY"""

import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(sys.argv.pop(1))
ROWS = json.loads((ROOT / "cmake/third_party.json").read_text())


PROGRAMS = sorted({program for row in ROWS for program in row["in"]})


def edges():
    """What ninja builds: {file: (rule, what it is made of)}; for a program the last are what is on its link line."""
    text = (BUILD / "build.ninja").read_text().replace("$\n", "")
    found = {}
    for output, rule, inputs, variables in re.findall(r"(?m)^build ([^:|\n]+?)(?: \|[^:\n]*)?: (\w+) ?([^\n]*)\n((?:  .*\n)*)", text):
        libraries = re.search(r"(?m)^  LINK_LIBRARIES = (.*)$", variables)
        found[output] = rule, re.split(r" \|\|? ", inputs)[0].split() + (libraries[1].split() if libraries else [])
    return found


EDGES = edges()
BUILT = {re.sub(r"-\d+\.\d+\.so$", ".so", output): output for output, (rule, _) in EDGES.items() if "LINKER" in rule and "/" not in output}


def parts(output):
    """The objects of a program and of the static libraries on its link line."""
    rule, inputs = EDGES[output]
    for one in inputs:
        if one.endswith(".o"):
            yield one
        elif one.endswith(".a") and "STATIC_LIBRARY" in EDGES.get(one, [""])[0]:
            yield from parts(one)


def linked_into(program):
    """The system's libraries on the program's link line."""
    return {name for word in EDGES[BUILT[program]][1] for name in re.findall(r"/usr/lib/[\w-]+/(lib[\w+-]+\.(?:a|so))", word)}


def headers():
    """The system's headers that went into each object, as far as it is built: {object: {"fmt/core.h"}}."""
    text = subprocess.run(["ninja", "-C", BUILD, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    found = {}
    for entry in text.split("\n\n"):
        output, _, files = entry.partition(":")
        found[output.strip()] = set(re.findall(r"(?m)^    /usr/include/(?:x86_64-linux-gnu/)?(.*)$", files))
    return found


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

    def test_linked_libraries_are_in_the_table(self):
        self.assertTrue(linked_into("ddp-launch"))
        for program in (program for program in PROGRAMS if program in BUILT):
            named = {file for row in ROWS if program in row["in"] for file in row["files"]}
            self.assertEqual(linked_into(program) - named, set(), program)

    def test_every_program_that_is_installed_is_in_the_table(self):
        text = (ROOT / "CMakeLists.txt").read_text()
        targets = set(re.search(r"foreach\(program (ddp-launch [\w -]+)\)", text)[1].split())
        names = {"ddp-shm": "libddp-shm.so", "ddp-worker-cuda": "libddp-worker-cuda.so"}
        self.assertEqual({names.get(target, target) for target in targets}, set(PROGRAMS))

    def test_whose_headers_are_included_is_in_the_table(self):
        included = headers()
        self.assertTrue(included)
        for program in (program for program in PROGRAMS if program in BUILT):
            seen = {header for part in parts(BUILT[program]) for header in included.get(part, ())}
            of_others = {row["name"] for row in ROWS if any(header.startswith(tuple(row["headers"])) for header in seen)}
            self.assertEqual(of_others - {row["name"] for row in ROWS if program in row["in"]}, set(), program)

    def test_debian_names_the_licences(self):
        for row in ROWS:
            text = pathlib.Path("/usr/share/doc", row["package"], "copyright").read_text(errors="replace")
            self.assertIn(row["says"], " ".join(text.split()), row["name"])
            for name in row["texts"]:
                self.assertIn(f"/usr/share/common-licenses/{name}", text)


if __name__ == "__main__":
    unittest.main()
