"""README.md stays two pages; the functions that ARCHITECTURE.md walks through are there; docs/job-file.md has every key of the schema, and is found out when it is not what the schema says.

Run by hand: python3 tests/unit/docs_test.py
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def all_keys(section, path=""):
    for name, key in section["properties"].items():
        yield from all_keys(key, f"{path}{name}.") if "properties" in key else [path + name]


class Readme(unittest.TestCase):
    def test_readme_is_two_pages_and_links_every_page_of_docs(self):
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        self.assertLessEqual(text.count("\n"), 130)
        for page in sorted((ROOT / "docs").glob("*.md")):
            self.assertIn(f"(docs/{page.name})", text)


# "///   rotate          {degrees: 15}: by at most that": an augmentation in the list of worker/data/augment/augment.h.
AUGMENTATION = re.compile(r"///   (?P<name>[a-z-]+) +\{(?P<arguments>[^}]*)\}")


class Augmentations(unittest.TestCase):
    def test_the_page_has_them_with_their_arguments(self):
        header = re.sub(r"\n/// {10,}", " ", (ROOT / "worker/data/augment/augment.h").read_text(encoding="utf-8"))
        listed = {found["name"]: re.findall(r"(\w+)(?:: [^,|]|\b)", re.sub(r"(: )[^,]*", r"\1", found["arguments"])) for found in AUGMENTATION.finditer(header)}
        page = (ROOT / "docs/data.md").read_text(encoding="utf-8")
        told = {name: re.findall(r"(\w+)", re.sub(r": [^,]*", "", arguments)) for name, arguments in re.findall(r"(?m)^\| `([a-z-]+)` \| `([^`]*)` \|", page)}
        self.assertGreater(len(listed), 15)
        self.assertEqual(told, listed)


# `launcher/plan/round/round`: `stop` and `conclude`, or (`stop`, `conclude`): these are functions or types of that file.
STEP = re.compile(r"`(?P<file>(?:common|launcher|worker)/[\w./-]+)`(?::|\s+\()\s*(?P<names>`\w+`(?:(?:,|\s+and|,\s+and)?\s+`\w+`(?!:))*)")


def sources(name):
    """The text of `name`, or of its header and its source."""
    found = [ROOT / (name + end) for end in ("", ".h", ".cpp") if (ROOT / (name + end)).is_file()]
    return "".join(path.read_text(encoding="utf-8") for path in found)


def missing_names(page):
    for step in STEP.finditer(page):
        for name in re.findall(r"\w+", step["names"]):
            if not re.search(rf"\b{name}\b", sources(step["file"])):
                yield f"{step['file']}: {name}"


class Architecture(unittest.TestCase):
    def test_functions_of_its_walks_are_there(self):
        page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
        self.assertGreater(len(STEP.findall(page)), 80)
        self.assertEqual(list(missing_names(page)), [])

    def test_one_that_is_not_there_is_found_out(self):
        page = "1. `launcher/plan/round/round`: `stop`, `take_off` and\n`land`. 2. `launcher/plan/round/fence` (`find_fence_cause`, `jump`)."
        self.assertEqual(list(missing_names(page)), ["launcher/plan/round/round: take_off", "launcher/plan/round/round: land", "launcher/plan/round/fence: jump"])


class JobFilePage(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in ("docs/job_file.py", "docs/job-file.md", "configs/job.schema.json"):
            (self.root / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)

    def run_it(self, *arguments):
        return subprocess.run(
            [sys.executable, "-B", self.root / "docs" / "job_file.py", *arguments], capture_output=True, text=True, check=False, timeout=60
        )  # fmt: skip

    def test_job_file_page_equals_the_schema(self):
        checked = self.run_it("--check")
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))
        page = (self.root / "docs/job-file.md").read_text(encoding="utf-8")
        for key in all_keys(json.loads((self.root / "configs/job.schema.json").read_text(encoding="utf-8"))):
            self.assertEqual(page.count(f"\n| `{key}` |"), 1 + (f"\n| `{key}` |" in page.partition("## All keys")[0]), key)

    def test_another_schema_makes_another_page(self):
        path = self.root / "configs/job.schema.json"
        schema = json.loads(path.read_text(encoding="utf-8"))
        schema["properties"]["train"]["properties"]["epochs"]["default"] = 77
        schema["properties"]["name"]["description"] = "a | b"
        path.write_text(json.dumps(schema), encoding="utf-8")
        checked = self.run_it("--check")
        self.assertEqual(checked.returncode, 1)
        self.assertIn("Write it again: python3 docs/job_file.py", checked.stderr)
        before = (self.root / "docs/job-file.md").read_text(encoding="utf-8").splitlines()
        self.assertEqual(self.run_it().returncode, 0)
        after = (self.root / "docs/job-file.md").read_text(encoding="utf-8").splitlines()
        self.assertEqual(
            [line for line in after if line not in before],
            ["| `name` | a \\| b | `run` | letters, digits, `_`, `.`, `-` |", "| `train.epochs` | epochs of the run | `77` | a whole number from 1 |"],
        )
        self.assertEqual(self.run_it("--check").returncode, 0)


if __name__ == "__main__":
    unittest.main()
