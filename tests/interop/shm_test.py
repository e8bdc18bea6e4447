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


class Shm(ProcessTest):
    def setUp(self):
        super().setUp()
        self.variables = {"PYTHON_EXEC": sys.executable} | shm_variables(self.bin)
        # Ranks of jobs that end well share one import of torch.
        self.preload = self.variables | self.share_template("torch", "torch._dynamo", "torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook")

    def launch(self, ranks, *arguments, expect=0):
        return self.run_program(self.bin / "ddp-launch", "--nproc-per-node", ranks, SCRIPT, *arguments, expect=expect, **self.preload)

    def digest(self, ranks, backend):
        return re.search(r"digest \S+ loss \S+", self.launch(ranks, backend))[0]

    def test_a_script_of_two_ranks_computes_what_it_computes_over_gloo(self):
        gloo = self.digest(2, "gloo")
        for backend in ("ddp_shm", "cpu:ddp_shm"):
            with self.subTest(backend):
                self.assertEqual(self.digest(2, backend), gloo)

    def test_more_ranks_than_cores_compute_the_same_twice(self):
        self.assertEqual(self.digest(5, "ddp_shm"), self.digest(5, "ddp_shm"))

    def test_under_torchrun(self):
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        text = self.run_program(*torchrun, SCRIPT, "ddp_shm", **self.variables)
        self.assertIn("digest", text)

    def test_a_killed_rank_ends_the_sums_of_the_others_at_once_and_the_memory_has_no_name(self):
        before = set(os.listdir("/dev/shm"))
        running = self.start(self.bin / "ddp-launch", "--nproc-per-node", 3, SCRIPT, "ddp_shm", "stay", **self.variables)
        running.wait_for("trains")  # rank 1 waits in its fifth step, the others for its sum
        self.assertEqual([name for name in set(os.listdir("/dev/shm")) - before if "ddp" in name], [])
        begin = time.monotonic()
        os.kill(self.rank(1), signal.SIGKILL)
        self.assertEqual(running.finish(), 137, running.text)
        self.assertIn("signal SIGKILL (9)", running.text)
        self.assertLess(time.monotonic() - begin, 60)  # not the half hour of a collective
        self.assertEqual(self.alive(), [])

    def rank(self, number):
        """Its pid."""
        (pid,) = [pid for pid in self.alive() if f"RANK={number}".encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")]
        return pid

    def test_without_a_launcher_the_others_say_who_has_ended(self):
        variables = {**os.environ, **self.variables, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
        command = [sys.executable, SCRIPT, "ddp_shm", "crash"]
        ranks = [
            subprocess.Popen(command, env={**variables, "RANK": str(rank)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for rank in range(2)
        ]
        texts = [rank.communicate(timeout=120)[0] for rank in ranks]
        self.assertEqual(ranks[1].returncode, -9, texts[1])
        self.assertEqual(ranks[0].returncode, 1, texts[0])
        self.assertIn("rank 1 has ended", texts[0])

    def test_a_script_that_leaves_its_group_open_ends_well(self):
        self.launch(3, "ddp_shm", "leave")

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
