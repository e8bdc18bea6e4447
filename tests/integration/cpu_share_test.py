"""One line says where ranks have too few CPUs, and none where each of their threads has one.

Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/integration/cpu_share_test.py
"""

import os
import unittest

from processes import ProcessTest


class Shares(ProcessTest):
    def setUp(self):
        super().setUp()
        self.cpus = sorted(os.sched_getaffinity(0))
        self.taskset = ("taskset", "-c", str(self.cpus[0]))

    def test_two_ranks_on_one_core_by_an_inherited_mask(self):
        text = self.run_program(*self.taskset, self.bin / "ddp-launch", "--nproc-per-node", 2, "/bin/true")
        why = r", as the mask .* leaves no more of \d+\. Widen it, or start" if os.cpu_count() > 1 else r"\. Start"
        self.assertRegex(text, rf"\Addp-launch: 2 ranks share 1 CPU{why} fewer ranks\.\n\Z")

    def test_more_threads_than_cpus(self):
        text = self.run_program(self.bin / "ddp-launch", "/bin/true", OMP_NUM_THREADS="5000")
        self.assertIn("ddp-launch: 1 rank with OMP_NUM_THREADS=5000: 5000 threads for ", text)

    def test_no_warning_when_each_rank_has_a_core(self):
        self.assertEqual(self.run_program(*self.taskset, self.bin / "ddp-launch", "/bin/true"), "")
        self.assertEqual(self.run_program(self.bin / "ddp-launch", "--nproc-per-node", len(self.cpus), "/bin/true"), "")

    def test_agents_of_one_machine_divide_its_cores(self):
        (self.folder / "job.yaml").write_text("data: {batch_per_rank: 1}\n", encoding="utf-8")
        del self.environment["OMP_NUM_THREADS"]
        for program in ("ddp-worker", "train.sh"):
            (self.folder / program).write_text("#!/bin/sh\n", encoding="utf-8")
            (self.folder / program).chmod(0o755)
        nodes = len(self.cpus)
        flags = ("--dry-run", "--nnodes", nodes, "--node-rank", 0, "--master-addr")
        for address, threads in (("127.0.0.1", 1), ("192.0.2.1", nodes)):
            text = self.run_program(self.bin / "ddp-launch", *flags, address, "./ddp-worker", "job.yaml")
            self.assertIn(f"OMP_NUM_THREADS={threads}\n", text)
        text = self.run_program(self.bin / "ddp-launch", "--dry-run", "--nnodes", nodes + 1, "--node-rank", 0, "--master-addr", "127.0.0.1", "./train.sh")
        self.assertIn(f"{nodes + 1} ranks share {nodes} CPU", text)


if __name__ == "__main__":
    unittest.main()
