"""What the kit's cases share: jobs on the device under test, their records, and the reasons for which a case is not run."""

import json
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from processes import ProcessTest, end_with_parent, free_port  # noqa: E402
from run_files import read_tensors, records  # noqa: E402


SECONDS = 60  # that a case may take


def at_most(seconds):
    """A case with a limit of its own."""

    def mark(case):
        case.at_most = seconds
        return case

    return mark


class GpuCase(ProcessTest):
    """One rank per GPU over NCCL where the device has them, several ranks on one over Gloo. A rehearsal runs cases for GPUs on the CPU, with
    bf16 for fp16, Gloo for NCCL, and figures that only a GPU gives made up: so a wrong expectation is seen without one."""

    prepare = staticmethod(end_with_parent)  # a kit that is killed leaves nothing on the GPUs

    machine = None  # these two are set before any case runs
    out = None  # for files that a case leaves to the reader
    seconds = SECONDS  # that the case has here

    JOB = """
name: job
data: {{name: digits, batch_per_rank: 16, train_size: 800, test_size: 200}}
device: {device}
optimizer: {{lr: 0.02}}
schedule: {{warmup: 0.5}}
train: {{epochs: 2, log_every: 1}}
"""

    def setUp(self):
        super().setUp()
        self.device = self.machine.device
        self.runs = []
        (self.folder / "job.yaml").write_text(self.JOB.format(device=self.device), encoding="utf-8")

    def start(self, *command, **variables):
        self.runs.append(super().start(*command, **variables))
        return self.runs[-1]

    def need_gpu(self, rehearsed=False):
        """`rehearsed`: the case knows what to expect of a rehearsal."""
        if self.device != "cuda" and not (rehearsed and self.machine.rehearsal):
            self.skipTest("needs an NVIDIA GPU")

    def need_gpus(self, count, rehearsed=False):
        if (len(self.machine.gpus) < count or self.device != "cuda") and not (rehearsed and self.machine.rehearsal):
            self.skipTest(f"needs {count} GPUs, here are {len(self.machine.gpus)}")

    def unless_rehearsed(self, real, rehearsed):
        return rehearsed if self.machine.rehearsal else real

    def assert_devices(self, text, *local_ranks):
        """Each rank's, of a case for GPUs."""
        for rank, local_rank in enumerate(local_ranks):
            device = self.unless_rehearsed(f"cuda:{local_rank}", "cpu")
            self.assertRegex(text, rf"rank {rank} of {len(local_ranks)}: \S+, {device}\b")

    def worker(self, *arguments, **keywords):
        """A world of one."""
        return self.run_program(self.bin / "ddp-worker", "job.yaml", *arguments, **keywords)

    def launch_command(self, ranks, *arguments):
        """They may share a GPU, so gradients go by Gloo unless the arguments say otherwise."""
        return [self.bin / "ddp-launch", "--nproc-per-node", ranks, "job.yaml", "backend=gloo", *arguments]

    def launch(self, ranks, *arguments, **keywords):
        return self.run_program(*self.launch_command(ranks, *arguments), **keywords)

    def run_dir(self, output="runs", name="job"):
        return self.folder / output / name

    def records(self, kind, output="runs", name="job"):
        return records(self.run_dir(output, name), kind)

    def losses(self, output="runs", name="job"):
        return [record["loss"] for record in self.records("step", output, name)]

    def checkpoint(self, output="runs", name="job"):
        """The newest one."""
        checkpoints = self.run_dir(output, name) / "checkpoints"
        return checkpoints / (checkpoints / "latest").read_text(encoding="utf-8").strip()

    def assert_learned(self, output="runs", name="job"):
        losses = self.losses(output, name)
        self.assertTrue(all(map(math.isfinite, losses)), losses)
        self.assertLess(sum(losses[-10:]), 0.7 * sum(losses[:10]), "it learned nothing")

    def assert_close(self, ours, theirs, tolerance):
        """Relative, of each step."""
        self.assertEqual(len(ours), len(theirs))
        worst = max(abs(a - b) / max(abs(b), 0.1) for a, b in zip(ours, theirs, strict=True))
        print(f"{self.id()}: worst relative difference of a loss {worst:.2e}, allowed {tolerance:.0e}")
        self.assertLess(worst, tolerance)

    def assert_same_checkpoints(self, one, other):
        """Bit for bit."""
        for file in ("model.safetensors", "optimizer.safetensors"):
            self.assertEqual(read_tensors(one / file), read_tensors(other / file), file)

    def result(self, output="runs", name="job"):
        return json.loads((self.run_dir(output, name) / "result.json").read_text(encoding="utf-8"))

    def report_of(self, text):
        return text[text.index("Root Cause") :]
