"""The installed library: a program with a model, a data set, a loss and a hook of its own is built from the prefix and trained;
so is the one that docs/own-models.md shows, by the command that stands there.

Run by hand: DDP_BIN=build/release DDP_CMAKE=cmake DDP_CXX=g++ PYTHONPATH=tests/support python3 tests/integration/library_test.py
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from pages import blocks
from processes import ProcessTest
from run_files import records

PAGE = pathlib.Path(__file__).resolve().parent.parent.parent / "docs/own-models.md"
EXAMPLE = pathlib.Path(__file__).resolve().parent.parent / "library"


class Library(ProcessTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="ddp-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.installed = pathlib.Path(folder.name) / "prefix"
        command = [os.environ["DDP_CMAKE"], "--install", os.environ["DDP_BIN"], "--prefix", cls.installed]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)

    def setUp(self):
        super().setUp()
        # Its folder has another name each time: to ccache, where there is one, it has none.
        if shutil.which("ccache"):
            self.environment |= {"CMAKE_CXX_COMPILER_LAUNCHER": "ccache", "CCACHE_BASEDIR": str(self.folder), "CCACHE_NOHASHDIR": "1"}

    def take_prefix(self):
        """Moves the installed prefix (a gigabyte) into this test's folder, and back after the test."""
        prefix = self.folder / "prefix"
        self.installed.rename(prefix)
        self.addCleanup(prefix.rename, self.installed)
        return prefix

    def build_example(self):
        cmake = os.environ["DDP_CMAKE"]
        prefix = self.take_prefix()
        build = self.folder / "build"
        self.run_program(
            cmake, "-G", "Ninja", "-S", EXAMPLE, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}",
            f"-DCMAKE_CXX_COMPILER={os.environ['DDP_CXX']}", "-DCMAKE_CXX_FLAGS=-O0",
        )  # fmt: skip
        self.run_program(cmake, "--build", build)
        return prefix, build

    def test_the_prefix_is_for_others_and_can_be_moved(self):
        prefix, moved = self.take_prefix(), self.folder / "moved"
        prefix.rename(moved)
        self.addCleanup(moved.rename, prefix)
        self.folder.chmod(0o755)
        home = self.folder / "home"
        home.mkdir(mode=0o777)
        home.chmod(0o777)
        other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        quick = ["data.train_size=640", "data.test_size=64", "train.epochs=1", f"output={home}"]
        # Another torch on that path is not taken.
        command = [*other, "env", "LD_LIBRARY_PATH=/nowhere", f"HOME={home}", moved / "bin/ddp-launch", moved / "share/ddp/configs/digits.yaml", *quick]
        self.assertIn("epoch 1/1", self.run_program(*command))
        rpath = re.search(r"\(RPATH\).*\[(.*)\]", self.run_program("readelf", "-d", moved / "bin/ddp-worker"))[1]
        self.assertEqual(rpath, "$ORIGIN/../lib/ddp/torch/lib")
        # A change of owner or mode is one of the prefix alone.
        for library in (moved / "lib/ddp").rglob("*.so*"):
            self.assertEqual(library.stat().st_nlink, 1, library)
        self.assertTrue(list(moved.glob("lib/ddp/torch-*.dist-info/licenses/*")), "torch's notices")
        for package, part in (("ddp-launch", "libboost1.81-dev"), ("ddp-worker", "libpng-dev")):
            self.assertTrue((moved / "share/doc" / package / "licenses" / part).exists(), part)

    def test_installed_files_hold_no_build_path(self):
        cache = (self.bin / "CMakeCache.txt").read_text()
        if re.search(r"(?m)^DDP_SANITIZE:\w+=.+$", cache):
            self.skipTest("a sanitizer's reports name the sources")
        prefix, wheel = self.take_prefix(), self.folder / "wheel"
        for component in ("wheel", "library"):
            self.run_program(os.environ["DDP_CMAKE"], "--install", self.bin, "--component", component, "--prefix", wheel)
        places = {EXAMPLE.parent.parent, *map(pathlib.Path, re.findall(r"(?m)^(?:DDP_TORCH|DDP_CUDA_HEADERS):\w+=(/.+)$", cache))}
        of_torch = prefix / "lib/ddp"
        for file in [*prefix.rglob("*"), *wheel.rglob("*")]:
            # A program is built with the headers of that torch.
            if file.is_file() and file.name != "ddp-config.cmake" and of_torch not in file.parents:
                content = file.read_bytes()
                for place in places:
                    self.assertNotIn(f"{place}/".encode(), content, f"{file}: {place}")

    def records(self, kind, name="stripes"):
        return records(self.folder / "runs" / name, kind)

    def test_programs_of_ones_own_are_built_from_the_prefix_and_train(self):
        prefix, build = self.build_example()
        stripes = build / "stripes"
        job = EXAMPLE / "stripes.yaml"
        launch = [prefix / "bin" / "ddp-launch", "--nproc-per-node", 2]
        text = self.run_program(*launch, job, f"launch.program={stripes}")
        self.assertIn("epoch 2 is over", text)
        # A file of that name which LD_LIBRARY_PATH names is not taken in LibTorch's place.
        other = self.folder / "other"
        other.mkdir()
        (other / "libtorch_cpu.so").symlink_to(next((prefix / "lib/ddp").rglob("libc10.so")))
        self.run_program("env", f"LD_LIBRARY_PATH={other}", stripes, "--version")
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

        # The job file chooses the optimizer and the metrics too.
        own = ["optimizer.name=lion", "optimizer.lr=0.01", "eval.metrics=[taken]", "name=lion", f"launch.program={stripes}"]
        self.run_program(*launch, job, *own, "train.epochs=2")
        saved = self.folder / "runs" / "lion" / "checkpoints" / "step-000032"
        text = self.run_program(*launch, job, *own, f"checkpoint.resume={saved}")
        self.assertIn("resumes at step 32", text, "with its state")
        last = self.records("epoch", "lion2")[-1]
        self.assertGreater(last["test_accuracy"], 0.95)
        self.assertTrue(40 < last["test_vertical"] < 90, last)
        self.assertIn("optimizer.args.beta: lion does not take it, did you mean", self.run_program(stripes, job, *own[:-1], "optimizer.args.beta=0.9", expect=2))
        self.assertIn('optimizer.name: this program has no "lyon"', self.run_program(stripes, job, "optimizer.name=lyon", expect=2))
        self.assertIn('eval.metrics: this program has no "take"', self.run_program(stripes, job, "eval.metrics=[take]", expect=2))
        self.assertIn("eval.metrics: top-5 needs 5 classes", self.run_program(stripes, job, "eval.metrics=[top-5]", expect=2))

        self.task_of_its_own(launch, build / "bumps")

    def task_of_its_own(self, launch, bumps):
        """Targets of any length over an odd number of ranks, that share 32 samples as 11, 11 and 10."""
        job = EXAMPLE / "bumps.yaml"
        launch = [*launch[:-1], 3]
        text = self.run_program(*launch, job, f"launch.program={bumps}")
        self.assertIn("rank 2 of 3", text)
        last = self.records("epoch", "bumps")[-1]
        self.assertEqual(last["step"], 301, "a hook of rank 1 asked for the end after step 300, and all heard of it one step later")
        self.assertIn("saved step 301", text)
        self.assertGreater(last["test_recall"], 0.9)
        self.assertIn("test_loss/cells", last)
        self.assertEqual(self.records("step", "bumps")[0]["steps_left"], 565)
        header = (self.folder / "runs" / "bumps" / "metrics.csv").read_text(encoding="utf-8").splitlines()[0]
        self.assertIn("train_loss,test_loss,test_recall,test_bumps,", header)
        # Every bump counts once, for any number of ranks.
        alone = self.run_program(bumps, job, "output=alone", "train.max_steps=1")
        self.assertIn(f"bumps {last['test_bumps']:.4f}", alone)
        self.assertIn('did you mean "bumps"?', self.run_program(bumps, job, "task.name=bump", expect=2))
        self.assertIn('data.augment: this program has no "blur"', self.run_program(bumps, job, "data.augment=[blur]", expect=2))

    def test_the_program_that_the_page_shows_is_built_and_trains(self):
        prefix = self.take_prefix()
        page = blocks(PAGE)
        for block in page:
            if block.file:
                (self.folder / block.file).write_text(block.text, encoding="utf-8")
        (command,) = [block.text for block in page if not block.language and "PREFIX" in block.text]
        self.assertEqual({path.name for path in self.folder.iterdir() if path.is_file()}, {"tiny.cpp", "loop.cpp", "CMakeLists.txt", "job.yaml"})
        path = f"{prefix / 'bin'}:{pathlib.Path(os.environ['DDP_CMAKE']).parent}:{os.environ['PATH']}"
        text = self.run_program(
            "bash", "-ec", re.sub(r"\bPREFIX\b", str(prefix), command), PATH=path, CXX=os.environ["DDP_CXX"], CXXFLAGS="-O0"
        )
        self.assertIn("run directory: ", text)
        self.assertIn("rank 1 of 2", text)
        self.assertLess(float(re.search(r"mean error (\S+)", text)[1]), 0.5)
        programs = {block.file: block.text.count("\n") for block in page if block.language == "cpp"}
        self.assertLessEqual(programs["tiny.cpp"], 40)
        self.assertLessEqual(programs["loop.cpp"], 30)
        if (prefix / "lib" / "libddp-worker-cuda.so").exists():
            # Without a GPU it is not loaded; but it is looked for where it is.
            header = self.run_program("readelf", "--dynamic", self.folder / "build" / "loop")
            self.assertRegex(header, rf"R(UN)?PATH.*{prefix}/lib")
        checkpoints = self.folder / "loop-run" / "checkpoints"
        self.assertEqual((checkpoints / "latest").read_text(encoding="utf-8").strip(), "step-000030")
        self.assertIn("job.yaml:4:35: model.args.units: 0 is not a whole number", self.refuse_units(prefix))

    def refuse_units(self, prefix):
        job = self.folder / "job.yaml"
        job.write_text(job.read_text(encoding="utf-8").replace("units: 64", "units: 0"), encoding="utf-8")
        return self.run_program(prefix / "bin" / "ddp-launch", job, expect=2)


if __name__ == "__main__":
    unittest.main()
