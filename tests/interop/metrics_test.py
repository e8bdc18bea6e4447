"""TensorBoard's own reader, and Python's json and csv, read what a run and its continuation wrote.

Run by hand: DDP_FILES_TOOL=... python3 tests/interop/metrics_test.py
"""

import csv
import json
import pathlib
import tempfile
import unittest

import numpy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from tensorboard.plugins.hparams.metadata import SESSION_START_INFO_TAG, parse_session_start_info_plugin_data
from tensorboard.util.tensor_util import make_ndarray

from tiny_sets import png_of
from tools import files_tool


def loss(step, resumed):
    return 1 / (step + resumed)


class Metrics(unittest.TestCase):
    """The first run writes steps 1 to 25; the second goes on at step 20 and ends at 30."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.picture = png_of([bytes(3 * 300)] * 2)
        (cls.folder / "train_batch0.png").write_bytes(cls.picture)
        files_tool("metrics", cls.folder, 0, 25)
        cls.accumulator = EventAccumulator(str(cls.folder))
        cls.accumulator.Reload()
        cls.first = cls.points("loss/step")
        files_tool("metrics", cls.folder, 20, 30)
        cls.accumulator = EventAccumulator(str(cls.folder), purge_orphaned_data=True)
        cls.accumulator.Reload()

    @classmethod
    def points(cls, tag):
        return [(point.step, point.value) for point in cls.accumulator.Scalars(tag)]

    expected_losses = [loss(step, 0) for step in range(1, 21)] + [loss(step, 20) for step in range(21, 31)]

    def test_tensorboard_reads_the_first_run(self):
        self.assertEqual(self.first, [(step, numpy.float32(loss(step, 0))) for step in range(1, 26)])

    def test_tensorboard_drops_the_points_that_were_done_again(self):
        expected = [(step, numpy.float32(value)) for step, value in enumerate(self.expected_losses, 1)]
        self.assertEqual(self.points("loss/step"), expected)

    def test_tensorboard_sees_all_curves(self):
        tags = {
            "loss/step", "loss/train", "loss/test", "accuracy/train", "accuracy/test", "lr", "images_per_s/step",
            "images_per_s/epoch",
        }  # fmt: skip
        self.assertEqual(set(self.accumulator.Tags()["scalars"]), tags)
        self.assertEqual([step for step, _ in self.points("accuracy/test")], [10, 20, 30])

    def test_tensorboard_has_the_job_as_text(self):
        tag = "job/text_summary"
        self.assertEqual(set(self.accumulator.Tags()["tensors"]), {tag, SESSION_START_INFO_TAG})
        self.assertEqual(self.accumulator.SummaryMetadata(tag).plugin_data.plugin_name, "text")
        first, second = self.accumulator.Tensors(tag)
        self.assertEqual((first.step, second.step), (0, 20))
        self.assertEqual(make_ndarray(second.tensor_proto).tolist(), [b"```yaml\nname: a\n```\n"])

    def test_every_checksum_is_right(self):
        files = sorted(self.folder.glob("events.out.tfevents.*"))
        self.assertEqual(len(files), 2)
        # Version, START, the job as hyperparameters and as text, then one event for each step and epoch, and the picture. The reader
        # checks both checksums of every record.
        counts = [sum(1 for _ in LegacyEventFileLoader(str(file)).Load()) for file in files]
        self.assertEqual(counts, [2 + 2 + 25 + 2 + 1, 2 + 2 + 10 + 1])

    def test_tensorboard_has_the_job_as_hyperparameters(self):
        data = self.accumulator.SummaryMetadata(SESSION_START_INFO_TAG).plugin_data
        self.assertEqual(data.plugin_name, "hparams")
        values = parse_session_start_info_plugin_data(data.content).hparams
        self.assertEqual(values["a.lr"].number_value, 0.1)
        self.assertEqual(values["a.name"].string_value, "sgd")
        self.assertIs(values["a.nesterov"].bool_value, True)
        self.assertEqual(len(values), 3)

    def test_tensorboard_shows_the_picture_of_the_first_batch_once(self):
        (image,) = self.accumulator.Images("first_batch")
        self.assertEqual((image.step, image.width, image.height), (0, 300, 2))
        self.assertEqual(image.encoded_image_string, self.picture)

    def test_jsonl_and_csv_hold_the_same_numbers_bit_for_bit(self):
        records = [json.loads(line) for line in (self.folder / "metrics.jsonl").read_text().splitlines()]
        rows = list(csv.DictReader((self.folder / "metrics.csv").open()))
        self.assertEqual(len(records), 30 + 3)
        self.assertEqual([record["loss"] for record in records if record["kind"] == "step"], self.expected_losses)
        for record, row in zip(records, rows, strict=True):
            self.assertEqual(row["kind"], record.pop("kind"))
            for name, value in record.items():
                self.assertEqual(float(row[name]), value)
            self.assertEqual({name for name in row if row[name] and name != "kind"}, record.keys())


if __name__ == "__main__":
    unittest.main()
