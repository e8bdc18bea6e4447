"""PyTorch's own tests of collectives and DDP, which its wheel holds, run by ranks on CPUs: pytorch_collectives.py gloo|ddp_shm [Collectives.test_NAME].

With ddp_shm each group that asks for Gloo gets that backend instead.
"""

import json
import logging
import os
import pathlib
import sys
import tempfile
import unittest

backend = sys.argv.pop(1)
folder = tempfile.TemporaryDirectory()
for name in ("barrier", "test_dir", "init_dir"):
    pathlib.Path(folder.name, name).mkdir()
os.environ |= {"CUDA_VISIBLE_DEVICES": "", "BACKEND": "gloo", "TEMP_DIR": folder.name, "INIT_METHOD": f"file://{folder.name}/shared_init_file"}
os.environ.setdefault("WORLD_SIZE", "3")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

if backend == "ddp_shm":
    import ddp_shm  # noqa: F401 - it registers itself

    logging.getLogger("ddp_shm").setLevel(logging.INFO)
    logging.getLogger("ddp_shm").addHandler(logging.StreamHandler(sys.stdout))

    def with_ours(function):
        def call(*arguments, **keywords):
            if keywords.get("backend") == "gloo":
                keywords["backend"] = "ddp_shm"
            return function(*arguments, **keywords)

        return call

    own_name = dist.get_backend
    dist.init_process_group, dist.new_group = with_ours(dist.init_process_group), with_ours(dist.new_group)
    dist.get_backend = lambda *arguments, **keywords: own_name(*arguments, **keywords).replace("ddp_shm", "gloo")

from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend  # noqa: E402


class Collectives(TestDistBackend, DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)  # so all share one import


if __name__ == "__main__":
    result = unittest.main(verbosity=2, exit=False).result
    failed, skipped = ([test.id().rpartition(".")[2] for test, _ in tests] for tests in (result.failures + result.errors, result.skipped))
    print("results", json.dumps({"run": result.testsRun, "failed": sorted(failed), "skipped": sorted(skipped)}), flush=True)
