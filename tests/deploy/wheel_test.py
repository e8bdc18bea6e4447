"""The packages of pip, as another user installs them into an environment that has torch: ./make.sh test-wheel.

For each Python of DDP_PYTHONS (with torch; by ':') an environment of another user is filled with links to its packages. Then: install,
a Python script and a job file on two ranks, a program that is built against the package's headers, all of it again after the environment has
been moved, another release over it, and an uninstall that leaves what was there before. The launcher alone is installed, upgraded and
uninstalled by uv and pipx, those of the environment DDP_INSTALLERS. Needs root, to be another user.

Run by hand: DDP_WHEELS=build/wheel DDP_PYTHONS=PYTHON[:PYTHON] [DDP_INSTALLERS=ENVIRONMENT] PYTHONPATH=tests/support python3 tests/deploy/wheel_test.py
"""

import email
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SITE = "import site; print(site.getsitepackages()[0])"
USER = 65534
# Its ranks end at once: torch now and then aborts where threads of Gloo meet the end of the interpreter.
SCRIPT = """
import os, sys, torch, torch.distributed as dist
if sys.argv[1] == "ddp_shm":
    import ddp_shm
dist.init_process_group(sys.argv[1])
ones = torch.ones(1)
dist.all_reduce(ones)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} has {ones.item()}, torch {torch.__version__}", flush=True)
dist.barrier()
os._exit(0)
"""


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


class Contents(unittest.TestCase):
    """What is in the packages."""

    PROGRAMS = {"ddp_launch": ["ddp-launch"], "ddp_worker": ["ddp-worker", "ddp-worker-start", "ddp-fetch", "libddp-shm.so", "libddp-worker-cuda.so"]}

    def setUp(self):
        self.packages = {path.name.split("-")[0]: zipfile.ZipFile(path) for path in pathlib.Path(os.environ["DDP_WHEELS"]).glob("*.whl")}
        self.assertEqual(set(self.packages), set(self.PROGRAMS))

    def test_the_notices_of_what_is_in_the_programs_are_in_them_and_in_the_metadata(self):
        for name, programs in self.PROGRAMS.items():
            (metadata,) = (path for path in self.packages[name].namelist() if path.endswith(".dist-info/METADATA"))
            fields = email.message_from_bytes(self.packages[name].read(metadata))
            files = {path.rpartition(".dist-info/licenses/")[2] for path in self.packages[name].namelist() if ".dist-info/licenses/" in path}
            self.assertEqual(set(fields.get_all("License-File")), files)
            for row in json.loads((ROOT / "cmake/third_party.json").read_text()):
                if any(row["in"].get(program, "shared") != "shared" for program in programs):
                    self.assertIn(f"licenses/{row['package']}", files)
                    self.assertLessEqual({f"licenses/common-licenses/{text}" for text in row["texts"]}, files)
            # That of the project is its owners' to choose.
            self.assertEqual((fields["License"], fields["License-Expression"]), (None, None))
            self.assertEqual(fields["Author"], "The maintainers of ddp-launch")

    def test_they_do_not_know_where_they_were_built(self):
        cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"), "ddp")
        for package in self.packages.values():
            for path in package.namelist():
                for place in (ROOT, cache):
                    self.assertNotIn(f"{place}/".encode(), package.read(path), f"{path}: {place}")


class AsUser(unittest.TestCase):
    """Of a user whose PATH begins with self.programs()."""

    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("this needs root, to be another user")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddp-wheel-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.folder.chmod(0o755)
        self.wheels = self.folder / "wheels"
        shutil.copytree(os.environ["DDP_WHEELS"], self.wheels)
        self.home = self.folder / "home"
        self.home.mkdir()
        os.chown(self.home, USER, USER)

    def as_user(self, *command, expect=0, cwd=None, **variables):
        """Its lines. Besides `variables` hardly anything is set."""
        env = {"PATH": f"{self.programs()}:/usr/bin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1", **variables}
        run = subprocess.run(
            ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *map(str, command)],
            env=env, cwd=cwd or self.home, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=900,
        )  # fmt: skip
        self.assertEqual(run.returncode, expect, f"{command}\n{run.stdout[-4000:]}")
        return run.stdout


class Packages(AsUser):
    def programs(self):
        return self.env / "bin"

    def make_environment(self, python):
        """Of the system's Python, with the packages of `python`."""
        shutil.rmtree(self.home / "first", ignore_errors=True)
        self.env = self.home / "first" / "env"
        self.as_user("/usr/bin/python3", "-m", "venv", self.env)
        source = pathlib.Path(output_of(python, "-c", SITE))
        site = pathlib.Path(self.as_user(self.env / "bin/python", "-c", SITE).strip())
        for one in source.iterdir():
            if not (site / one.name).exists():
                subprocess.run(["cp", "--archive", "--link", one, site], check=True)
        subprocess.run(["find", site, "-type", "d", "-exec", "chown", f"{USER}:{USER}", "{}", "+"], check=True)

    def files(self):
        return {str(path.relative_to(self.env)) for path in self.env.rglob("*") if "__pycache__" not in path.parts}

    def install(self, *more):
        self.as_user(self.env / "bin/pip", "install", "--quiet", "--no-index", "--find-links", self.wheels, *more, "ddp_launch", "ddp_worker")

    def train(self, torch):
        (self.home / "train.py").write_text(SCRIPT)
        for backend in ("gloo", "ddp_shm"):
            text = self.as_user("ddp-launch", "--nproc-per-node", 2, "train.py", backend)
            for rank in (0, 1):
                self.assertIn(f"rank {rank} of 2 has 2.0, torch {torch}", text)
        shutil.rmtree(self.home / "runs", ignore_errors=True)
        text = self.as_user("ddp-launch", self.env / "share/ddp/configs/digits.yaml", "data.train_size=640", "data.test_size=64", "train.epochs=1")
        self.assertRegex(text, r"epoch 1/1 \| train loss \d")
        self.assertEqual(self.as_user("ddp-worker", "--version").split(", ")[1], f"LibTorch {torch.partition('+')[0]}\n")
        for program in ("ddp-launch", "ddp-worker"):
            self.assertIn("--preload", (self.env / "share/doc" / program / "warm-start.md").read_text())
        self.assertIn("ddp-launch", self.as_user("man", "--where", "-M", self.env / "share/man", "ddp-launch") if shutil.which("man") else "ddp-launch")

    def build_a_program(self):
        prefix = self.as_user("python", "-c", "import ddp_worker; print(ddp_worker.cmake_prefix_path)").strip()
        source, build = self.home / "library", self.home / "build"
        shutil.rmtree(build, ignore_errors=True)
        shutil.copytree(ROOT / "tests/library", source, dirs_exist_ok=True)
        self.as_user("cmake", "-G", "Ninja", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_CXX_FLAGS=-O0")
        self.as_user("cmake", "--build", build, "--target", "stripes")
        text = self.as_user("ddp-launch", "--nproc-per-node", 2, source / "stripes.yaml", f"launch.program={build}/stripes")
        self.assertIn("epoch 2 is over", text)

    def test_they_work_are_moved_upgraded_and_leave_nothing(self):
        for python in os.environ["DDP_PYTHONS"].split(":"):
            torch = output_of(python, "-c", "import torch; print(torch.__version__)")
            with self.subTest(torch=torch):
                self.make_environment(python)
                before = self.files()
                self.install()
                self.train(torch)
                self.build_a_program()
                moved = self.home / "second"
                (self.home / "first").rename(moved)
                self.env = moved / "env"
                self.train(torch)
                moved.rename(self.home / "first")
                self.env = self.home / "first/env"
                self.install("--force-reinstall", "--no-deps")
                self.train(torch)
                self.as_user(self.env / "bin/pip", "uninstall", "--quiet", "--yes", "ddp_launch", "ddp_worker")
                left = self.files() - before
                self.assertFalse({path for path in left if not (self.env / path).is_dir() or "ddp" in path}, "left behind")
                shutil.rmtree(self.home / "first")

    def test_a_torch_that_is_not_served_is_one_line(self):
        self.make_environment(os.environ["DDP_PYTHONS"].split(":")[0])
        self.install()
        version = pathlib.Path(self.as_user(self.env / "bin/python", "-c", SITE).strip(), "torch/version.py")
        version.unlink()  # a link to a file of others
        version.write_text("__version__ = '2.10.0+cu128'\n")
        for words in (["ddp-worker", "--version"], ["ddp-worker", self.env / "share/ddp/configs/digits.yaml"]):
            self.assertRegex(self.as_user(*words, expect=2), r"\Addp-worker: torch 2.10.0\+cu128 is in .*, served are 2\.\d+.*\n\Z")


class Alone(AsUser):
    """The launcher, which needs no torch, by what puts a program into an environment of its own."""

    def setUp(self):
        super().setUp()
        source = pathlib.Path(os.environ.get("DDP_INSTALLERS", ""))
        if not (source / "bin/uv").exists():
            self.skipTest("there are no uv and pipx in DDP_INSTALLERS")
        self.tools = self.folder / "tools"  # which that user can read
        shutil.copytree(source, self.tools, symlinks=True)

    def programs(self):
        return self.home / ".local/bin"

    def files(self):
        return {str(path.relative_to(self.home)) for path in self.home.rglob("*") if ".cache" not in path.relative_to(self.home).parts}

    def publish_a_newer_one(self):
        (wheel,) = self.wheels.glob("ddp_launch-*.whl")
        version = wheel.name.split("-")[1]
        with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(self.wheels / wheel.name.replace(version, "99.0"), "w") as new:
            for entry in old.infolist():
                content = old.read(entry)
                if entry.filename.endswith(("/METADATA", "/RECORD")):
                    content = content.replace(version.encode(), b"99.0")
                entry.filename = entry.filename.replace(f"ddp_launch-{version}", "ddp_launch-99.0")
                new.writestr(entry, content)

    def check(self, installer, install, upgrade, uninstall, version, **variables):
        before = self.files()
        self.as_user(*installer, *install, **variables)
        (self.home / "train.py").write_text("import os\nprint('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])\n")
        for _ in range(2):
            text = self.as_user("ddp-launch", "--nproc-per-node", 2, "train.py")
            for rank in (0, 1):
                self.assertIn(f"rank {rank} of 2", text)
            if "99.0" not in self.as_user(*installer, *version, **variables):
                self.publish_a_newer_one()
                self.as_user(*installer, *upgrade, **variables)
        self.assertIn("99.0", self.as_user(*installer, *version, **variables))
        self.as_user(*installer, *uninstall, **variables)
        # pipx keeps an empty lock of its own.
        self.assertEqual({path for path in self.files() - before if "ddp" in path and not path.endswith(".lock")}, set(), "left behind")
        self.assertEqual(list(self.programs().glob("*")), [])

    def test_uv_installs_upgrades_and_removes_it(self):
        self.check(
            [self.tools / "bin/uv", "tool"], ["install", "ddp_launch"], ["upgrade", "ddp_launch"], ["uninstall", "ddp_launch"], ["list"],
            UV_OFFLINE="1", UV_NO_INDEX="1", UV_NO_CACHE="1", UV_FIND_LINKS=str(self.wheels),
        )  # fmt: skip

    def test_pipx_installs_upgrades_and_removes_it(self):
        (site,) = self.tools.glob("lib/python3*/site-packages")
        self.check(
            ["/usr/bin/python3", "-m", "pipx"], ["install", f"--pip-args=--no-index --find-links {self.wheels}", "ddp_launch"],
            ["upgrade", "ddp_launch"], ["uninstall", "ddp_launch"], ["list", "--short"], PYTHONPATH=str(site),
        )  # fmt: skip


if __name__ == "__main__":
    sys.exit(unittest.main())
