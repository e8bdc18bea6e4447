"""A small job of ddp-worker for tests, and what they do with it."""

import gzip
import re
import struct

from processes import ProcessTest
from run_files import read_tensors, records

JOB = """
name: job
data: {name: digits, batch_per_rank: 16, train_size: 800, test_size: 200}
schedule: {warmup: 0.5}
train: {epochs: 2, log_every: 1}
"""


class WorkerTest(ProcessTest):
    def setUp(self):
        super().setUp()
        (self.folder / "job.yaml").write_text(JOB, encoding="utf-8")

    def worker(self, *arguments, **keywords):
        return self.run_program(self.bin / "ddp-worker", "job.yaml", *arguments, **keywords)

    def launch(self, ranks, *arguments, **keywords):
        command = [self.bin / "ddp-launch", "--nproc-per-node", ranks, "job.yaml", *arguments]
        return self.run_program(*command, **keywords)

    def write_images(self, folder, count, missing=0):
        """MNIST's files with `count` black images to train on, the last `missing` bytes of them cut off."""
        folder.mkdir()
        for part, size, cut in (("train", count, missing), ("t10k", 10, 0)):
            images = struct.pack(">4i", 2051, size, 28, 28) + bytes(784 * size)
            (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 2049, size) + bytes(size))
            with gzip.open(folder / f"{part}-images-idx3-ubyte.gz", "wb") as file:
                file.write(images[: len(images) - cut])

    def run_dir(self, name="job"):
        return self.folder / "runs" / name

    def wait_for_saved(self, running, epoch, run_dir=None):
        """Reads until the line of an epoch ("epoch 2/4") was printed, and waits until its checkpoint is on the disk: it is written while
        training goes on."""
        running.wait_for(epoch)
        place = f'"epoch":{re.search("[0-9]+", epoch)[0]},"step_in_epoch":0,'

        def is_there():
            try:
                manifests = ((run_dir or self.run_dir()) / "checkpoints").glob("step-*[0-9]/manifest.json")
                return any(place in path.read_text(encoding="utf-8") for path in manifests)
            except FileNotFoundError:
                return False  # an old one that goes just now

        running.wait_until(is_there, f"the checkpoint of {epoch}")

    def assert_same_run(self, one, other):
        """Equal losses, epoch sums and final weights, bit for bit."""
        for kind in ("step", "epoch"):
            timeless = [
                [{k: v for k, v in r.items() if k not in ("images_per_s", "seconds") and not k.endswith("_ms")} for r in records(run, kind)]
                for run in (one, other)
            ]
            self.assertEqual(timeless[0], timeless[1])
        last = (one / "checkpoints" / "latest").read_text(encoding="utf-8").strip()
        for file in ("model.safetensors", "optimizer.safetensors"):
            self.assertEqual(read_tensors(one / "checkpoints" / last / file), read_tensors(other / "checkpoints" / last / file))
