"""What people's own programs read of a real run of two ranks: TensorBoard its curves, the first batch and the job; a table reader its
metrics.csv (pandas where this Python has it, else Python's csv: both take the first line for the names of the columns).

Run by hand: DDP_BIN=build/release python3 tests/interop/run_files_test.py
"""

import csv
import os
import pathlib
import subprocess
import tempfile
import unittest

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.metadata import SESSION_START_INFO_TAG, parse_session_start_info_plugin_data

try:
    import pandas
except ImportError:
    pandas = None

JOB = """
name: job
data: {name: digits, batch_per_rank: 16, train_size: 640, test_size: 64}
optimizer: {lr: 0.02}
train: {epochs: 2, log_every: 4, non_finite: skip}
"""


def read_table(path):
    """By column, what is not there as None."""
    if pandas is not None:
        table = pandas.read_csv(path)
        return {name: [None if pandas.isna(value) else value for value in table[name]] for name in table.columns}
    print("this Python has no pandas: metrics.csv is read by its csv module")
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {name: [row[name] if name == "kind" else float(row[name]) if row[name] else None for row in rows] for name in rows[0]}


class RunFiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        folder = pathlib.Path(folder.name)
        (folder / "job.yaml").write_text(JOB, encoding="utf-8")
        launch = pathlib.Path(os.environ["DDP_BIN"]).resolve() / "ddp-launch"
        subprocess.run([launch, "--nproc-per-node", "2", "job.yaml"], cwd=folder, check=True, timeout=200)
        cls.run_dir = folder / "runs" / "job"
        cls.events = EventAccumulator(str(cls.run_dir), size_guidance={"images": 0, "tensors": 0})
        cls.events.Reload()

    def values(self, tag):
        return [point.value for point in self.events.Scalars(tag)]

    def test_tensorboard_has_throughput_memory_and_what_differs_between_ranks(self):
        self.assertEqual([point.step for point in self.events.Scalars("images_per_s/step")], list(range(4, 41, 4)))
        for tag in ("images_per_s/step", "images_per_s/epoch", "memory/most_mib"):
            self.assertTrue(all(value > 1 for value in self.values(tag)), tag)
        skew = self.values("ranks/slowest_to_median")
        self.assertEqual(len(skew), 2)
        self.assertTrue(all(1 <= value < 1000 for value in skew), skew)
        self.assertEqual(self.values("amp/skipped_steps"), [0, 0])

    def test_tensorboard_has_the_images_of_the_first_batch(self):
        (image,) = self.events.Images("first_batch")
        self.assertEqual(image.encoded_image_string, (self.run_dir / "train_batch0.png").read_bytes())
        self.assertGreater(min(image.width, image.height), 4 * 28)

    def test_tensorboard_has_the_job_as_hyperparameters(self):
        data = self.events.SummaryMetadata(SESSION_START_INFO_TAG).plugin_data
        values = parse_session_start_info_plugin_data(data.content).hparams
        self.assertEqual(values["optimizer.lr"].number_value, 0.02)
        self.assertEqual(values["data.name"].string_value, "digits")

    def test_a_table_reader_takes_the_metrics(self):
        table = read_table(self.run_dir / "metrics.csv")
        self.assertEqual(table["kind"].count("step"), 10)
        epochs = [row for row, kind in enumerate(table["kind"]) if kind == "epoch"]
        self.assertEqual([table["epoch"][row] for row in epochs], [1, 2])
        self.assertTrue(all(0 < table["test_accuracy"][row] <= 1 for row in epochs))
        self.assertEqual([step for step, kind in zip(table["step"], table["kind"]) if kind == "step"], list(range(4, 41, 4)))
        losses = [loss for loss in table["loss"] if loss is not None]
        self.assertEqual([float(f"{loss:.5g}") for loss in losses], [float(f"{loss:.5g}") for loss in self.values("loss/step")])


if __name__ == "__main__":
    unittest.main()
