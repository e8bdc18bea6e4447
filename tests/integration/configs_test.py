"""Every job file of configs/: it is valid, says its batch, is in the table of configs/README.md, and trains by its own launch line.

A run is shortened by overrides, on data sets of a few images. DIR and HOST of a launch line become a folder and this machine, GPUs its CPU.
Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/integration/configs_test.py
"""

import json
import math
import pathlib
import re
import unittest

import jsonschema
import yaml

from processes import ProcessTest, free_port
from tiny_sets import write_boxes, write_cifar10, write_folders, write_mnist

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FILES = sorted((ROOT / "configs").glob("*.yaml"))
LAUNCH = re.compile(r"(?m)^#   ((?:ddp-worker|ddp-launch|sbatch) .*)$")
BATCH = re.compile(r"Batch: (\d+) per rank x (\d+) ranks? x (\d+) accumulate = (\d+)[;.] (\d+)(?: images)? / (\d+) = (\d+) steps an epoch")
SETS = {"mnist": write_mnist, "cifar10": write_cifar10, "image-folder": write_folders, "coco": write_boxes}
# What makes a run short: one epoch of a step or two, on a CPU, where bf16 takes a second for an image whose size the stem has not made smaller.
SMALL = ("train.epochs=1", "optimizer.lr=1e-6", "schedule.warmup=0", "device=cpu")
SHORT = {
    "cifar10": ("data.batch=4", "data.train_size=4", "data.test_size=4", "train.epochs=9", "eval.patience=1"),
    "cifar10-o1": ("data.batch=4", "data.train_size=4", "data.test_size=4", "model.stem=imagenet"),
    "cifar10-o2": ("data.batch=4", "data.train_size=4", "data.test_size=4", "model.stem=imagenet"),
    "coco128": ("data.batch=2", "data.image_size=64", "data.cache=1MiB", "schedule.min_lr=0"),
    "digits": ("data.train_size=256", "data.test_size=64"),
    "elastic": ("launch.nproc_per_node=1", "launch.last_call=1s"),
    "finetune": ("data.batch=4", "data.image_size=32", "model.stem=imagenet", "model.weights=weights.pt"),
    "image-folder": ("data.batch=8", "data.image_size=32"),
    "mnist": (),
    "mnist-data-parallel": ("devices=[cpu, cpu]",),
    "resnet34": ("data.batch_per_rank=4", "data.image_size=32", "model.stem=imagenet", "model.weights=weights.pt", "launch.nproc_per_node=2"),
    "synthetic": ("data.batch_per_rank=2", "data.train_size=4", "data.test_size=2", "data.image_size=64", "model.stem=imagenet", "eval.every=1"),
    "slurm": ("data.batch=4", "data.train_size=4", "data.test_size=4", "launch.nproc_per_node=2"),
}
# What each shows that others do not.
SHOWS = {
    "cifar10": "stops early: 1 evaluations without gain in accuracy",
    "elastic": "2 of 2:4 nodes",
    "finetune": "weights: loaded 120 of the model's 122 tensors",
    "mnist-data-parallel": "parallel: data copies the weights to 2 devices",
    "resnet34": "weights: loaded 216 of the model's 218 tensors",
}
# The first task of a step of one node: srun, to which train.sbatch hands the launcher.
SRUN = (
    "#!/bin/sh\n"
    'while case "$1" in --*) true;; *) false;; esac; do shift; done\n'
    "export SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_NNODES=1 SLURM_STEP_NUM_NODES=1 SLURM_STEP_NUM_TASKS=1 SLURM_NTASKS=1 SLURM_PROCID=0 "
    "SLURM_NODEID=0 SLURM_LOCALID=0 SLURM_STEP_NODELIST=localhost SLURM_JOB_NODELIST=localhost SLURM_STEP_TASKS_PER_NODE=1\n"
    'exec "$@"\n'
)


class Files(unittest.TestCase):
    def setUp(self):
        self.schema = json.loads((ROOT / "configs" / "job.schema.json").read_text(encoding="utf-8"))

    def problems(self, job):
        return [error.message for error in jsonschema.Draft7Validator(self.schema).iter_errors(job)]

    def test_each_is_valid_and_a_misspelt_key_of_it_is_flagged(self):
        for path in FILES:
            job = yaml.safe_load(path.read_text(encoding="utf-8"))
            self.assertEqual(self.problems(job), [], path.name)
            for section in (name for name, value in job.items() if isinstance(value, dict)):
                wrong = job | {section: {key + "x": value for key, value in job[section].items()}}
                self.assertEqual(len(self.problems(wrong)), 1, f"{path.name}: {section}")
            self.assertEqual(len(self.problems(job | {"nane": "x"})), 1, path.name)

    def test_each_says_its_batch(self):
        for path in FILES:
            text = path.read_text(encoding="utf-8")
            job = yaml.safe_load(text)
            self.assertEqual(job["name"], path.stem)
            found = BATCH.findall(text)
            self.assertTrue(found, f"{path.name}: no line of its batch")
            for numbers in found:
                per_rank, ranks, accumulate, batch, samples, again, steps = map(int, numbers)
                self.assertEqual(per_rank * ranks * accumulate, batch, path.name)
                self.assertEqual(batch, again, path.name)
                self.assertEqual(math.ceil(samples / batch), steps, path.name)
                self.assertEqual(job.get("train", {}).get("accumulate", 1), accumulate, path.name)
                self.assertIn(("data", job["data"].get("batch", 0)), [("data", batch), ("data", 0)], path.name)
                self.assertIn(job["data"].get("batch_per_rank", per_rank), [per_rank], path.name)

    def test_the_table_has_each_with_its_launch_line(self):
        rows = re.findall(r"(?m)^\| \[([\w.-]+)\]\(([\w.-]+)\) \| .* \| `(.*)` \|$", (ROOT / "configs" / "README.md").read_text(encoding="utf-8"))
        self.assertEqual([name for name, link, _ in rows if name == link], [row[0] for row in rows])
        self.assertEqual(sorted(name for name, _, _ in rows), [path.name for path in FILES])
        for name, _, line in rows:
            lines = LAUNCH.findall((ROOT / "configs" / name).read_text(encoding="utf-8"))
            self.assertIn(line.replace("10.0.0.1", "HOST"), [known.replace("DIR", "data") for known in lines], name)


class Runs(ProcessTest):
    def setUp(self):
        super().setUp()
        for name in ("configs", "deploy"):
            (self.folder / name).symlink_to(ROOT / name)
        tools = self.folder / "tools"
        tools.mkdir()
        (tools / "srun").write_text(SRUN, encoding="utf-8")
        (tools / "sbatch").write_text('#!/bin/sh\nwhile case "$1" in --*) true;; *) false;; esac; do shift; done\nexec bash "$@"\n', encoding="utf-8")
        for tool in tools.iterdir():
            tool.chmod(0o755)
        self.environment["PATH"] = f"{tools}:{self.bin}:{self.environment['PATH']}"

    def run_file(self, path):
        text = path.read_text(encoding="utf-8")
        source = yaml.safe_load(text)["data"]["name"]
        if source in SETS:
            SETS[source](self.folder / source)
        if path.stem in ("finetune", "resnet34"):
            self.write_weights({"finetune": "resnet18", "resnet34": "resnet34"}[path.stem])
        lines = LAUNCH.findall(text)
        nodes = [line for line in lines if "HOST" in line]
        alone = [line for line in lines if line not in nodes]
        for number, line in enumerate(alone):
            self.check(path, self.start_line(line, path, source, f"name=alone-{number}"))
        if nodes:
            port = free_port()
            running = [self.start_line(line, path, source, "name=nodes", port) for line in (nodes * 2)[:2]]
            self.check(path, *running)

    def start_line(self, line, path, source, name, port=0):
        line = line.replace("DIR", source).replace("HOST", "127.0.0.1").replace("29500", str(port))
        overrides = " ".join(f"'{key}'" for key in (*SMALL, *SHORT[path.stem], name))
        return self.start("bash", "-c", f"exec {line} {overrides}", PET_MASTER_PORT=str(port) if "--master-addr" in line else "")

    def check(self, path, *running):
        text = ""
        for each in running:
            self.assertEqual(each.finish(), 0, each.command + "\n" + each.text)
            text += each.text
        self.assertRegex(text, r"epoch 1/\d \| train loss .*\| test ")
        self.assertIn(SHOWS.get(path.stem, "batch: "), text)

    def write_weights(self, model):
        """Of the model for another number of classes, instead of the published ones."""
        other = ("name=other", f"model.name={model}", "amp.level=O0", "checkpoint.every=1")
        self.run_program(self.bin / "ddp-worker", "configs/synthetic.yaml", *SMALL, *SHORT["synthetic"], *other)
        self.run_program(self.bin / "ddp-worker", "export", "runs/other", "-o", "weights.pt")


for each in FILES:
    setattr(Runs, f"test_{re.sub(r'[^a-z0-9]', '_', each.stem)}", lambda self, path=each: self.run_file(path))


if __name__ == "__main__":
    unittest.main(verbosity=2)
