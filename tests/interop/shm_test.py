"""The Python module ddp_shm: a script's process group whose sums go through memory that the ranks of a node share.

Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/interop/shm_test.py
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

from processes import ProcessTest, free_port
from tools import shm_variables

HERE = pathlib.Path(__file__).parent
SCRIPT = HERE / "shm_script.py"
MODULE = HERE.parent.parent / "deploy" / "shm" / "ddp_shm.py"
REFUSALS = """
import os, sys, traceback
for folder, library in zip(sys.argv[1::2], sys.argv[2::2]):
    sys.path[0] = folder
    os.environ.pop("DDP_SHM_LIBRARY", None)
    if library:
        os.environ["DDP_SHM_LIBRARY"] = library
    try:
        import ddp_shm
        print("imported")
    except Exception:
        print(traceback.format_exc().splitlines()[-1])
"""


# Ranks that no launcher watches, of one import of torch: their exit codes in a line, what each prints in a file of its number.
ALONE = """
import os, runpy, sys
import torch, torch._dynamo
import torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook
pids = []
for rank in range(int(os.environ["WORLD_SIZE"])):
    pids.append(os.fork())
    if pids[-1] == 0:
        output = os.open(f"{rank}.txt", os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.environ["RANK"] = str(rank)
        sys.argv = sys.argv[1:]
        runpy.run_path(sys.argv[0], run_name="__main__")
        sys.exit(0)
print(*[os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids])
"""


class Shm(ProcessTest):
    def setUp(self):
        super().setUp()
        self.variables = {"PYTHON_EXEC": sys.executable} | shm_variables(self.bin)

    def launch_command(self, ranks, *arguments):
        return [self.bin / "ddp-launch", "--nproc-per-node", ranks, SCRIPT, *arguments]

    def launch(self, ranks, *arguments):
        return self.run_program(*self.launch_command(ranks, *arguments), **self.preload)

    def digest(self, ranks, backend):
        return re.search(r"digest \S+ loss \S+", self.launch(ranks, backend))[0]

    def test_jobs_of_ddp_launch(self):
        """All of them share one import of torch, which is most of what each would cost."""
        self.preload = self.variables | self.share_template("torch", "torch._dynamo", "torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook")
        gloo = self.digest(2, "gloo")
        for backend in ("ddp_shm", "cpu:ddp_shm"):
            with self.subTest(f"two ranks compute what they compute over gloo: {backend}"):
                self.assertEqual(self.digest(2, backend), gloo)
        with self.subTest("more ranks than cores compute the same twice"):
            self.assertEqual(self.digest(5, "ddp_shm"), self.digest(5, "ddp_shm"))
        with self.subTest("a script that leaves its group open ends well"):
            self.launch(3, "ddp_shm", "leave")
        with self.subTest("a killed rank ends the sums of the others at once, and the memory has no name"):
            self.a_rank_is_killed()

    def pid_that_stays(self, running):
        """None until it is told."""
        found = re.search(r"stays (\d+)\n", running.text)
        return found and int(found[1])

    def a_rank_is_killed(self):
        before = set(os.listdir("/dev/shm"))
        running = self.start(*self.launch_command(3, "ddp_shm", "stay"), **self.preload)
        running.wait_for("trains")
        # Rank 1 waits in its fifth step, the others for its sum.
        running.wait_until(lambda: self.pid_that_stays(running), "the pid of rank 1")
        self.assertEqual([name for name in set(os.listdir("/dev/shm")) - before if "ddp" in name], [])
        begin = time.monotonic()
        os.kill(self.pid_that_stays(running), signal.SIGKILL)
        self.assertEqual(running.finish(), 137, running.text)
        self.assertRegex(running.text, r"rank +: 1 ")
        self.assertIn("signal SIGKILL (9)", running.text)
        self.assertLess(time.monotonic() - begin, 60)  # not the half hour of a collective
        self.run_program(self.bin / "ddp-launch", "warm", "--stop", **self.preload)
        self.assertEqual(self.alive(), [])

    def test_under_torchrun(self):
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        text = self.run_program(*torchrun, SCRIPT, "ddp_shm", **self.variables)
        self.assertIn("digest", text)

    def test_without_a_launcher_the_others_say_who_has_ended(self):
        world = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
        said = self.run_program(sys.executable, "-c", ALONE, SCRIPT, "ddp_shm", "crash", **self.variables, **world)
        texts = [(self.folder / f"{rank}.txt").read_text(encoding="utf-8") for rank in range(2)]
        self.assertEqual(said.split()[-2:], ["1", "-9"], texts)
        self.assertIn("rank 1 has ended", texts[0])

    def test_a_torch_without_a_library_and_a_library_of_another_release_are_one_line(self):
        alone, other = (self.folder / name / "deploy" / "shm" for name in ("alone", "other"))
        for folder in (alone, other):
            folder.mkdir(parents=True)
            shutil.copy(MODULE, folder)
        library = other / "ddp_worker" / "torch-1.0" / "lib" / "libddp-shm-1.0.so"
        library.parent.mkdir(parents=True)
        library.touch()
        text = self.folder / "libddp-shm-text.so"
        text.write_text("no library\n")
        foreign = re.search(r"/\S*/libc\.so\.6", pathlib.Path("/proc/self/maps").read_text())[0]
        near, far, *unfit = self.refusals((alone, ""), (other, ""), (MODULE.parent, text), (MODULE.parent, foreign))
        self.assertRegex(near, r"\AImportError: ddp_shm: no libddp-shm-\d+\.\d+\.so for torch \S+ near .*DDP_SHM_LIBRARY")
        self.assertRegex(far, r"there is one for torch 1\.0")
        for library, line in zip((text, foreign), unfit, strict=True):
            self.assertRegex(line, rf"\AImportError: ddp_shm: {re.escape(str(library))} does not fit .*Install the package again: pip install .*\Z")

    def refusals(self, *cases):
        """The last line of an import of the module from each folder, with that DDP_SHM_LIBRARY (none: ""). All by one process, as torch is slow
        to import."""
        words = [str(word) for case in cases for word in case]
        environment = {name: value for name, value in os.environ.items() if name not in ("DDP_SHM_LIBRARY", "PYTHONPATH")}
        return subprocess.run([sys.executable, "-c", REFUSALS, *words], env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


if __name__ == "__main__":
    unittest.main(verbosity=2)
