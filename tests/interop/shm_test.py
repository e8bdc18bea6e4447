"""The Python module ddp_shm: a script's process group whose sums go through memory that the ranks of a node share.

Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/interop/shm_test.py
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import unittest

from processes import ProcessTest, free_port
from tools import shm_variables

HERE = pathlib.Path(__file__).parent
SCRIPT = HERE / "shm_script.py"
MODULE = HERE.parent.parent / "deploy" / "shm" / "ddp_shm.py"


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

    def test_a_killed_rank_ends_the_sums_of_the_others_at_once(self):
        begin = time.monotonic()
        text = self.run_program(self.bin / "ddp-launch", "--nproc-per-node", 3, SCRIPT, "ddp_shm", "crash", expect=137, **self.variables)
        self.assertIn("signal SIGKILL (9)", text)
        self.assertLess(time.monotonic() - begin, 60)  # not the half hour of a collective
        self.assertEqual(self.alive(), [])

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

    def test_shared_memory_has_no_name(self):
        before = set(os.listdir("/dev/shm"))
        running = self.start(self.bin / "ddp-launch", "--nproc-per-node", 2, SCRIPT, "ddp_shm", "stay", **self.variables)
        running.wait_for("trains")
        self.assertEqual([name for name in set(os.listdir("/dev/shm")) - before if "ddp" in name], [])
        running.process.terminate()
        running.finish()
        self.assertEqual(self.alive(), [])

    def test_a_torch_without_a_library_is_named(self):
        shutil.copy(MODULE, self.folder)
        environment = {name: value for name, value in os.environ.items() if name != "DDP_SHM_LIBRARY"}
        done = subprocess.run([sys.executable, "-c", "import ddp_shm"], cwd=self.folder, env=environment, capture_output=True, text=True)
        self.assertRegex(done.stderr, r"ImportError: ddp_shm: no libddp-shm-\d+\.\d+\.so for torch \S+ near .*DDP_SHM_LIBRARY")
        other = self.folder / "ddp_worker" / "torch-1.0" / "lib"
        other.mkdir(parents=True)
        (other / "libddp-shm-1.0.so").touch()
        done = subprocess.run([sys.executable, "-c", "import ddp_shm"], cwd=self.folder, env=environment, capture_output=True, text=True)
        self.assertRegex(done.stderr, r"there is one for torch 1\.0")

    def test_a_library_of_another_release_is_one_line(self):
        text = self.folder / "libddp-shm-text.so"
        text.write_text("no library\n")
        other = re.search(r"/\S*/libc\.so\.6", pathlib.Path("/proc/self/maps").read_text())[0]
        for library in (text, other):
            variables = {**os.environ, **self.variables, "DDP_SHM_LIBRARY": str(library)}
            done = subprocess.run([sys.executable, "-c", "import ddp_shm"], env=variables, capture_output=True, text=True)
            self.assertRegex(done.stderr.splitlines()[-1], rf"\AImportError: ddp_shm: {re.escape(str(library))} does not fit .*Install the package again: pip install .*\Z")


if __name__ == "__main__":
    unittest.main(verbosity=2)
