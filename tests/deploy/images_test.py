"""The images of deploy/docker, from their Dockerfiles and the packages of pip, where there is no container engine: ./make.sh test-images.

tests/support/image.py carries the files out. What stands in for what an engine would get: a root of debootstrap for debian:bookworm-slim, the
package's ddp-launch for the stage of the launcher's file that compiles it, and the torch of DDP_PYTHON, which pip finds installed, for the one
that it would load (tests/support/linked_torch.py; that for CPUs is made from that for CUDA). Needs root, and a network for apt.

Run by hand: DDP_WHEELS=build/wheel DDP_DEBIAN=bookworm.tar DDP_PYTHON=PYTHON PYTHONPATH=tests/support python3 tests/deploy/images_test.py [SUITE]
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from image import Build, Image, instructions
from linked_torch import link_cpu_torch, link_torch
from processes import Running, end_with_parent

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LAUNCHER, WORKER = ROOT / "deploy/docker/launcher.Dockerfile", ROOT / "deploy/docker/worker.Dockerfile"
CONFIGS = "/opt/ddp/share/ddp/configs"
SMALL = ("data.train_size=640", "data.test_size=64", "train.epochs=1")
SCRIPT = """
import os, signal, subprocess, sys, time
rank = os.environ["RANK"]
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # for sigwait()
# Of an orphan its pid: process 1 gets it, and reaps it.
orphan = int(subprocess.run(["sh", "-c", "(exec true) >/dev/null & echo $!"], stdout=subprocess.PIPE).stdout)
deadline = time.monotonic() + 60
while os.path.exists(f"/proc/{orphan}") and time.monotonic() < deadline: os.sched_yield()
print(f"rank {rank} of {os.environ['WORLD_SIZE']}, user {os.getuid()}, orphan {'left' if os.path.exists(f'/proc/{orphan}') else 'reaped'}", flush=True)
if sys.argv[1:] == ["wait"]:
    signal.sigwait([signal.SIGTERM])
    print(f"rank {rank} is told to stop", flush=True)
sys.exit(7 if sys.argv[1:] == [rank] else 0)
"""
GLOO = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
ones = torch.ones(1)
dist.all_reduce(ones)
print(f"rank {dist.get_rank()} has {ones.item()}, torch {torch.__version__}", flush=True)
dist.barrier()
os._exit(0)
"""


FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="ddp-images-"))


def in_environment(link):
    """Has the packages of DDP_PYTHON put where the image's Python finds them."""
    return lambda image: link(os.environ["DDP_PYTHON"], next(image.root.glob("opt/ddp/lib/python3*/site-packages")))


def setUpModule():
    global build_launcher, build_worker
    unittest.addModuleCleanup(shutil.rmtree, FOLDER)
    if os.geteuid() != 0:
        raise unittest.SkipTest("this needs root, for roots of its own")
    FOLDER.chmod(0o755)
    context = FOLDER / "wheels"
    shutil.copytree(os.environ["DDP_WHEELS"], context)
    package = FOLDER / "package"
    subprocess.run(["unzip", "-q", *context.glob("ddp_launch-*.whl"), "-d", package], check=True)
    (program,) = package.glob("ddp_launch-*.data/scripts/ddp-launch")
    (package / "usr/local/bin").mkdir(parents=True)
    program.rename(package / "usr/local/bin/ddp-launch").chmod(0o755)
    (notices,) = package.glob("ddp_launch-*.dist-info/licenses/licenses")
    (package / "usr/local/share/doc").mkdir(parents=True)
    notices.rename(package / "usr/local/share/doc/ddp-launch")
    build_launcher = Build(LAUNCHER, FOLDER / "launcher", context, {}, stages={"build": Image(package)})
    bases = {"debian:bookworm-slim": os.environ.get("DDP_DEBIAN", "")}
    begun = {"cpu": in_environment(link_cpu_torch), "cuda": in_environment(link_torch)}
    build_worker = Build(WORKER, FOLDER / "worker", context, bases, begun=begun)


class Containers(unittest.TestCase):
    """Of one image."""

    @classmethod
    def take(cls, build, target):
        cls.image = build.image(target)
        size = subprocess.run(["du", "--summarize", "--block-size=1000000", cls.image.root], capture_output=True, text=True, check=True).stdout.split()[0]
        print(f"{cls.__name__}: the files of the image have {size} MB", flush=True)

    def setUp(self):
        self.runs = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
        self.runs.chmod(0o777)

    def start(self, *words, **options):
        """In self.runs, as the directory that the image works in."""
        options = {"volumes": [(self.runs, self.image.directory)], **options}
        command = self.image.start_command(*words, **options)
        return Running(command, dict(os.environ), FOLDER, end_with_parent)

    def run_container(self, *words, expect=0, **options):
        running = self.start(*words, **options)
        code = running.finish()
        self.assertEqual(code, expect, f"{words}\n{running.text}")
        return running.text

    @staticmethod
    def stop(running):
        """docker stop."""
        (process_1,) = pathlib.Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children").read_text().split()
        os.kill(int(process_1), signal.SIGTERM)


class Launcher(Containers):
    @classmethod
    def setUpClass(cls):
        cls.take(build_launcher, "1")

    def test_there_is_one_file_and_its_notices(self):
        notices = self.image.root / "usr/local/share/doc/ddp-launch"
        files = [path for path in self.image.root.rglob("*") if path.is_file() and notices not in path.parents]
        self.assertEqual(files, [self.image.root / "usr/local/bin/ddp-launch"])
        self.assertTrue((notices / "libboost1.81-dev").exists())

    def test_without_words_it_says_how_it_is_used(self):
        self.assertIn("--nproc-per-node", self.run_container(volumes=()))

    def test_a_job_runs(self):
        own = "/usr/local/bin/ddp-launch"
        text = self.run_container("--nproc-per-node", 2, "--no-python", own, "--version", volumes=())
        self.assertEqual(len(re.findall(r"(?m)ddp-launch \d+\.\d+\.\d+$", text)), 2, text)


class Worker:
    """What the images for CPUs and GPUs have alike."""

    @classmethod
    def setUpClass(cls):
        if not os.path.exists(os.environ.get("DDP_DEBIAN", "")):
            raise unittest.SkipTest("there is no root of Debian: debootstrap makes one where there is a network")
        cls.take(build_worker, cls.target)

    def test_worker_reports_the_torch_of_the_image(self):
        (torch,) = (rest.removeprefix("TORCH=") for word, rest in instructions(WORKER) if word == "ARG" and rest.startswith("TORCH="))
        self.assertRegex(self.run_container("--version", entry="ddp-worker"), rf"\Addp-worker \S+, LibTorch {torch}\n\Z")

    def test_a_script_runs_as_the_image_s_user_and_orphans_are_reaped(self):
        (self.runs / "train.py").write_text(SCRIPT)
        text = self.run_container("--nproc-per-node", 2, "train.py")
        for rank in (0, 1):
            self.assertIn(f"rank {rank} of 2, user 1000, orphan reaped", text)

    def test_container_ends_with_the_code_of_the_failed_rank(self):
        (self.runs / "train.py").write_text(SCRIPT)
        self.assertIn("exitcode  : 7", self.run_container("--nproc-per-node", 2, "train.py", "1", expect=7))

    def test_docker_stop_reaches_a_script(self):
        (self.runs / "train.py").write_text(SCRIPT)
        running = self.start("--nproc-per-node", 2, "train.py", "wait")
        for rank in (0, 1):
            running.wait_for(f"rank {rank} of 2")
        self.stop(running)
        self.assertEqual(running.finish(), 143, running.text)
        for rank in (0, 1):
            self.assertIn(f"rank {rank} is told to stop", running.text)

    def test_docker_stop_saves_a_checkpoint_and_the_next_container_goes_on(self):
        job = ("--nproc-per-node", 2, f"{CONFIGS}/digits.yaml", "train.epochs=1000")
        running = self.start(*job)
        running.wait_for("epoch 1/1000")
        self.stop(running)
        self.assertEqual(running.finish(), 143, running.text)
        self.assertEqual({path.stat().st_uid for path in self.runs.rglob("*")}, {1000})
        again = self.start(*job)
        again.wait_for("resumes at step")
        self.stop(again)
        self.assertEqual(again.finish(), 143, again.text)

    def test_a_job_file_runs_for_any_user(self):
        text = self.run_container("--nproc-per-node", 2, f"{CONFIGS}/digits.yaml", *SMALL, user="4321:4321")
        self.assertRegex(text, r"epoch 1/1 \| train loss \d")
        self.assertEqual({path.stat().st_uid for path in self.runs.rglob("*")}, {4321})

    def test_published_data_can_be_fetched(self):
        self.assertIn("https://", self.run_container("fetch", "--dry-run", "mnist", "data", entry="ddp-worker"))

    def test_without_libcurl_one_line_says_what_to_type(self):
        for path in (self.image.root / "usr/lib/x86_64-linux-gnu").glob("libcurl-gnutls.so.4*"):
            path.rename(path.with_name("hidden-" + path.name))
            self.addCleanup(path.with_name("hidden-" + path.name).rename, path)
        text = self.run_container("fetch", "mnist", "data", entry="ddp-worker", expect=127)
        self.assertRegex(text, r"\Addp-worker: fetch needs libcurl, .*: No such file or directory\. .*apt-get install libcurl3-gnutls\n\Z")


class Cpu(Worker, Containers):
    target = "cpu"

    def test_image_holds_no_cuda(self):
        site = next((self.image.root / "opt/ddp/lib").glob("python3*")) / "site-packages"
        self.assertFalse((site / "nvidia").exists())
        self.assertEqual(list(site.glob("torch/lib/*_cuda*")), [])


class Cuda(Worker, Containers):
    target = "cuda"

    def test_ranks_of_python_meet(self):
        (self.runs / "train.py").write_text(GLOO)
        text = self.run_container("--nproc-per-node", 2, "train.py")
        for rank in (0, 1):
            self.assertIn(f"rank {rank} has 2.0, torch ", text)

    def test_without_a_driver_that_is_said(self):
        text = self.run_container("--nproc-per-node", "gpu", f"{CONFIGS}/digits.yaml", expect=2)
        self.assertIn("there is no NVIDIA driver", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
