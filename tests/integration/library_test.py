"""The installed library: a program with a model, a data set, a loss and a hook of its own is built from the prefix and trained;
so is the one that README.md shows, by the command that stands there.

Run by hand: DDP_BIN=build/release DDP_CMAKE=cmake DDP_CXX=g++ PYTHONPATH=tests/support python3 tests/integration/library_test.py
"""

import json
import os
import pathlib
import re
import unittest

from pages import blocks
from processes import ProcessTest

README = pathlib.Path(__file__).resolve().parent.parent.parent / "README.md"
EXAMPLE = pathlib.Path(__file__).resolve().parent.parent / "library"


class Library(ProcessTest):
    def install(self):
        prefix = self.folder / "prefix"
        self.run_program(os.environ["DDP_CMAKE"], "--install", self.bin, "--prefix", prefix)
        return prefix

    def build_example(self):
        cmake = os.environ["DDP_CMAKE"]
        prefix = self.install()
        build = self.folder / "build"
        self.run_program(
            cmake, "-S", EXAMPLE, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}",
            f"-DCMAKE_CXX_COMPILER={os.environ['DDP_CXX']}", "-DCMAKE_CXX_FLAGS=-O0",
        )  # fmt: skip
        self.run_program(cmake, "--build", build)
        return prefix, build / "stripes"

    def records(self, kind):
        text = (self.folder / "runs" / "stripes" / "metrics.jsonl").read_text(encoding="utf-8")
        return [record for record in map(json.loads, text.splitlines()) if record["kind"] == kind]

    def test_a_program_of_ones_own_is_built_from_the_prefix_and_trains(self):
        prefix, stripes = self.build_example()
        job = EXAMPLE / "stripes.yaml"
        launch = [prefix / "bin" / "ddp-launch", "--nproc-per-node", 2]
        text = self.run_program(*launch, job, f"launch.program={stripes}")
        self.assertIn("epoch 2 is over", text)
        last = self.records("epoch")[-1]
        self.assertGreater(last["test_accuracy"], 0.95)
        self.assertLess(last["train_loss"], 0.3)
        margins = [record["loss/margin"] for record in self.records("step")]
        self.assertEqual(len(margins), 12)
        self.assertGreater(margins[-1], margins[0])
        # Its own names are known to it alone, and each program names what it has.
        self.assertIn("model.name: two-layers is not one of convnet", self.run_program(*launch, job, expect=2))
        self.assertIn('did you mean "two-layers"?', self.run_program(stripes, job, "model.name=two-layer", expect=2))
        self.assertIn("unit", self.run_program(stripes, job, "model.args.unit=3", expect=2))

    def test_the_program_that_the_readme_shows_is_built_and_trains(self):
        prefix = self.install()
        page = blocks(README)
        for block in page:
            if block.file:
                (self.folder / block.file).write_text(block.text, encoding="utf-8")
        (command,) = [block.text for block in page if not block.language and "PREFIX" in block.text]
        self.assertEqual({path.name for path in self.folder.iterdir() if path.is_file()}, {"tiny.cpp", "CMakeLists.txt", "job.yaml"})
        path = f"{prefix / 'bin'}:{pathlib.Path(os.environ['DDP_CMAKE']).parent}:{os.environ['PATH']}"
        text = self.run_program(
            "bash", "-c", re.sub(r"\bPREFIX\b", str(prefix), command), PATH=path, CXX=os.environ["DDP_CXX"], CXXFLAGS="-O0"
        )
        self.assertIn("run directory: ", text)
        self.assertIn("rank 1 of 2", text)


if __name__ == "__main__":
    unittest.main()
