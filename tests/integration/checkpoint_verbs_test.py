"""The verbs of ddp-worker that look at checkpoints: export, inspect, eval; and what they say of bad ones.

Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/integration/checkpoint_verbs_test.py
"""

import collections
import io
import json
import os
import pathlib
import pickle
import resource
import subprocess
import sys
import unittest
import zipfile

from processes import ProcessTest
from run_files import records

JOB = """
name: job
data: {name: digits, batch_per_rank: 16, train_size: 320, test_size: 100}
optimizer: {lr: 0.01}
schedule: {warmup: 0.5}
train: {epochs: 3, log_every: 1}
"""


class KeysOnly(pickle.Unpickler):
    """A state_dict without torch: its names, and nothing for the tensors."""

    def find_class(self, module, name):
        return collections.OrderedDict if name == "OrderedDict" else lambda *arguments: None

    def persistent_load(self, pid):
        return None


class VerbTest(ProcessTest):
    def setUp(self):
        super().setUp()
        (self.folder / "job.yaml").write_text(JOB, encoding="utf-8")

    def worker(self, *arguments, **keywords):
        return self.run_program(self.bin / "ddp-worker", *arguments, **keywords)

    def train(self, *arguments):
        self.worker("job.yaml", *arguments)
        return self.folder / "runs/job/checkpoints"

    def json_of(self, *arguments):
        return json.loads(self.worker(*arguments, "--json").splitlines()[-1])

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())


class Export(VerbTest):
    def test_every_way_to_name_a_checkpoint_is_understood(self):
        watch = ("eval.watch.metric=loss", "eval.watch.mode=max")  # the first is the best
        there = self.train(*watch)
        by_name = {}
        for name in ("latest", "best", "", "step-000040", "..", "../latest", "../best", "../step-000040"):
            self.worker("export", there / name, "-o", "out.safetensors")
            by_name[name] = (self.folder / "out.safetensors").read_bytes()
        steps = {step: (there / step / "model.safetensors").read_bytes() for step in ("step-000020", "step-000040", "step-000060")}
        raw = {step: data[-4 * 100 :] for step, data in steps.items()}  # the header's metadata differs
        ends = {name: data[-4 * 100 :] for name, data in by_name.items()}
        self.assertEqual(ends["latest"], raw["step-000060"])
        self.assertEqual(ends[""], raw["step-000060"])
        self.assertEqual(ends[".."], raw["step-000060"])
        self.assertEqual(ends["step-000040"], raw["step-000040"])
        self.assertEqual(ends["best"], raw["step-000020"])
        for name in ("latest", "best", "step-000040"):
            self.assertEqual(ends[f"../{name}"], ends[name])
        self.assertEqual(len(set(raw.values())), 3)
        # Where weights and checkpoints are taken, too.
        text = self.worker("job.yaml", "name=other", f"model.weights={there.parent / 'best'}", "train.epochs=1")
        self.assertIn("step-000020/model.safetensors", text)
        text = self.worker("job.yaml", "name=third", f"checkpoint.resume={there.parent / 'latest'}", "train.epochs=4", *watch)
        self.assertIn("resumes at step 60, epoch 4", text)

    def test_a_pt_lists_its_tensors_as_the_module_does(self):
        there = self.train("model.name=resnet18", "model.stem=cifar", "data.train_size=16", "data.test_size=16", "train.epochs=1")
        self.worker("export", there, "-o", "out.pt")
        with zipfile.ZipFile(self.folder / "out.pt") as archive:
            state = KeysOnly(io.BytesIO(archive.read("archive/data.pkl"))).load()
        self.assertIs(type(state), collections.OrderedDict)
        lines = (pathlib.Path(__file__).parents[1] / "unit/resnet_keys.txt").read_text(encoding="ascii").splitlines()
        self.assertEqual(list(state), [line.split()[1] for line in lines if line.startswith("resnet18 ")])

    def test_a_damaged_one_is_one_line_and_of_a_run_the_next_is_taken(self):
        there = self.train()
        model = there / "step-000060" / "model.safetensors"
        model.write_bytes(model.read_bytes()[:-1] + b"!")
        text = self.worker("export", there / "latest", "-o", "out.pt", expect=2)
        self.assertRegex(text, r"^ddp-worker: cannot load checkpoint \S+step-000060: model.safetensors: checksum differs\. [^\n]*\n$")
        self.assertNotIn("out.pt", self.names())
        text = self.worker("export", there, "-o", "out.pt")
        self.assertRegex(text, "step-000060: model.safetensors: checksum differs.* Taken is step-000040")
        self.assertIn("out.pt: 8 tensors", text)
        self.assertTrue(model.exists(), "nothing was set aside")
        for step in there.glob("step-*"):
            (step / "manifest.json").write_text("{}", encoding="ascii")
        self.assertEqual(self.worker("inspect", there, expect=2).count("manifest.json: "), 3)

    def test_k4_a_file_is_whole_or_not_there(self):
        there = self.train("train.epochs=1")
        (self.folder / "folder.pt").mkdir()
        os.mkfifo(self.folder / "pipe.pt")
        before = self.names()
        for place, why in (("folder.pt", "not a regular file"), ("pipe.pt", "not a regular file"), ("none/a.pt", "No such file or directory")):
            text = self.worker("export", there, "-o", place, expect=2)
            self.assertRegex(text, f"^ddp-worker: cannot write {place}: .*{why}.* Give another path behind -o.\n$")
            self.assertEqual(self.names(), before)
        self.assertIn(".safetensors or .pt", self.worker("export", there, "-o", "a.bin", expect=2))
        self.worker("export", there, "-o", "old.pt")
        old = (self.folder / "old.pt").read_bytes()
        (self.folder / "old.pt").chmod(0o600)
        before = self.names()
        for name in ("old.pt", "new.pt", "new.safetensors"):
            # The signal of the limit stays ignored, as Python has it: the write fails, as on a full disk.
            run = subprocess.run(
                [self.bin / "ddp-worker", "export", there, "-o", name], cwd=self.folder, env=self.environment, capture_output=True,
                text=True, check=False, restore_signals=False, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
            )  # fmt: skip
            self.assertEqual(run.returncode, 2, run.stderr)
            self.assertRegex(run.stderr, f"^ddp-worker: cannot write {name}: write, .*: File too large. Give another path behind -o.\n$")
            self.assertEqual(self.names(), before)
        self.assertEqual((self.folder / "old.pt").read_bytes(), old)

    def test_an_average_that_is_not_there_is_refused(self):
        there = self.train("train.epochs=1")
        text = self.worker("export", there, "--ema", "-o", "out.pt", expect=2)
        self.assertRegex(text, "holds no moving average: its run had no optimizer.ema_decay")


class FullDisk(VerbTest):
    def test_full_stdout_is_an_error(self):
        there = self.train("train.epochs=1")
        for words in (["inspect", there], ["inspect", there, "--json"], ["eval", there], ["--help"], ["eval", "--help"]):
            with open("/dev/full", "wb") as full:
                done = subprocess.run(
                    [self.bin / "ddp-worker", *words], stdout=full, stderr=subprocess.PIPE, text=True, env=self.environment, cwd=self.folder
                )  # fmt: skip
            self.assertEqual(done.returncode, 125, words)
            self.assertEqual(done.stderr.count("cannot write all of it to stdout"), 1, done.stderr)
        script = f"'{self.bin / 'ddp-worker'}' --help 2>said | head -n 1; echo ${{PIPESTATUS[0]}}"
        said = self.run_program("/bin/bash", "-c", script)
        self.assertIn("Usage: ddp-worker", said)
        self.assertEqual((self.folder / "said").read_text(encoding="utf-8"), "", "who has read enough is told nothing")


class Inspect(VerbTest):
    def test_inspect_prints_what_a_checkpoint_holds(self):
        there = self.train("optimizer.ema_decay=0.9")
        told = self.json_of("inspect", there / "latest")
        manifest = json.loads((there / "step-000060/manifest.json").read_text(encoding="utf-8"))["content"]
        for field in ("step", "epoch", "step_in_epoch", "planned", "world_size", "batch", "torch_version", "job"):
            self.assertEqual(told["head"][field], manifest[field], field)
        self.assertEqual(told["head"]["best"], float(manifest["best"]))
        self.assertEqual(told["head"]["data"]["shape"], [1, 28, 28])
        for ours, theirs in zip(told["files"], manifest["files"], strict=True):
            self.assertEqual((ours["name"], ours["size"], ours["verified"]), (theirs["name"], theirs["size"], True))
            shapes = {one["name"]: (one["dtype"], one["shape"]) for one in theirs["tensors"]}
            self.assertEqual({one["name"]: (one["dtype"], one["shape"]) for one in ours["tensors"]}, shapes)
        text = self.worker("inspect", there)
        for line in ("step 60 of 60: 3 epochs and 0 steps of the next are done", "world size 1, batch 16, torch " + told["head"]["torch_version"], "  optimizer.ema_decay: 0.9",
                     "  conv1.weight  F32 [24, 1, 5, 5]", "  ema.updates  F64 []"):  # fmt: skip
            self.assertIn(f"\n{line}\n", text)
        self.assertRegex(text, r"step-000060: whole; sizes and checksums of all files are right\n")
        self.assertNotIn("train.clip_norm", text)

    def test_two_differ_in_keys_and_tensors(self):
        there = self.train()
        same = self.json_of("inspect", there / "latest", there)
        self.assertEqual((same["head"], same["job"]), ({}, {}))
        self.assertEqual([len(file["different"]) for file in same["files"]], [0, 0, 0])
        self.assertEqual(same["files"][0]["equal"], 8)
        self.worker("job.yaml", "name=other", "model.name=mlp", "optimizer.lr=0.02")
        told = self.json_of("inspect", there / "step-000020", "runs/other")
        self.assertEqual(told["head"]["step"], ["20", "60"])
        self.assertEqual(told["job"]["optimizer.lr"], ["0.01", "0.02"])
        self.assertEqual(told["job"]["model.name"], ["convnet", "mlp"])
        self.assertIn("conv1.weight", told["files"][0]["only_in_first"])
        steps = self.worker("inspect", there / "step-000020", there / "step-000040")
        self.assertRegex(steps, r"model.safetensors: 0 tensors equal, 8 differ\n  conv1.weight  F32, by 0\.\d+ at most\n")

    def test_a_file_of_weights_is_told_and_what_is_none_is_refused(self):
        there = self.train("train.epochs=1")
        self.worker("export", there, "-o", "w.pt")
        text = self.worker("inspect", "w.pt")
        self.assertIn("w.pt: readable; such a file has no checksum of ours\n", text)
        self.assertIn("  fc2.bias  F32 [10]\n", text)
        told = self.json_of("inspect", there, "w.pt")
        self.assertEqual([(file["name"], file["equal"]) for file in told["files"]], [("model.safetensors", 8)])
        (self.folder / "text").write_text("hello", encoding="ascii")
        os.mkfifo(self.folder / "pipe")
        for name in ("text", "pipe", "nothing", "."):
            self.assertEqual(self.worker("inspect", name, expect=2).count("\n"), 1)


class Eval(VerbTest):
    def recorded(self, run="job"):
        """What the run's epochs say of the test set, by step."""
        epochs = records(self.folder / "runs" / run, "epoch")
        return {record["step"]: {key: value for key, value in record.items() if key == "epoch" or key.startswith("test_")} for record in epochs}

    def told(self, text):
        line = next(line for line in text.splitlines() if "{" in line)
        record = json.loads(line[line.index("{") :])
        return {key: value for key, value in record.items() if key == "epoch" or key.startswith("test_")}

    def test_eval_equals_the_recorded_values_of_each_checkpoint(self):
        for name, keys in (("plain", ()), ("average", ("optimizer.ema_decay=0.8", "eval.metrics=[top-5]", "model.name=lenet"))):
            self.worker("job.yaml", f"name={name}", *keys)
            recorded = self.recorded(name)
            self.assertEqual(len({record["test_loss"] for record in recorded.values()}), 3)
            before = sorted(self.folder.rglob("*"))
            for step, record in recorded.items():
                checkpoint = self.folder / "runs" / name / "checkpoints" / f"step-{step:06}"
                self.assertEqual(self.told(self.worker("eval", checkpoint, "job.yaml", *keys, "--json")), record)
            self.assertEqual(sorted(self.folder.rglob("*")), before, "nothing is written")
        for place in ("", "/", "/latest", "/checkpoints", "/checkpoints/step-000060"):
            text = self.worker("eval", f"runs/plain{place}")  # by the job file that the run keeps
            self.assertTrue(text.startswith("step 60 | test loss "), text)
        self.worker("eval", "runs/average", "model.name=mlp", expect=2)
        text = self.worker("eval", "runs/plain", "job.yaml")
        record = self.recorded("plain")[60]
        self.assertIn(f"step 60 | test loss {record['test_loss']:.4f} accuracy {100 * record['test_accuracy']:.2f} %\n", text)

    def test_eval_on_two_ranks_equals_the_recorded_values(self):
        launch = (self.bin / "ddp-launch", "--nproc-per-node", 2)
        self.run_program(*launch, "job.yaml", "optimizer.ema_decay=0.8")
        recorded = self.recorded()
        step = max(recorded)
        text = self.run_program(*launch, self.bin / "ddp-worker", "eval", "runs/job", "job.yaml", "--json")
        self.assertEqual(self.told(text), recorded[step])
        self.assertEqual(text.count("test_loss"), 1, text)
        alone = self.told(self.worker("eval", "runs/job", "job.yaml", "--json"))
        self.assertAlmostEqual(alone["test_loss"], recorded[step]["test_loss"], delta=1e-5)
        self.assertEqual(alone["test_accuracy"], recorded[step]["test_accuracy"])

    def test_another_test_set_or_batch_is_fine_and_another_model_is_refused(self):
        there = self.train("train.epochs=1")
        self.worker("eval", there, "job.yaml", "data.test_size=40", "eval.batch=7", "optimizer.name=adam")
        text = self.worker("eval", there, "job.yaml", "model.name=mlp", expect=2)
        self.assertRegex(text, "step-000020: was made with model.name: convnet, this job has mlp. Use the same value.")
        (there / "step-000020/model.safetensors").write_bytes(b"")
        launch = (self.bin / "ddp-launch", "--nproc-per-node", 2, self.bin / "ddp-worker")
        for command in ((self.bin / "ddp-worker",), launch):
            text = self.run_program(*command, "eval", there / "latest", "job.yaml", expect=2)
            self.assertRegex(text, "ddp-worker: cannot load checkpoint .*model.safetensors: expected ")
        (self.folder / "runs/job/job.yaml").unlink()
        self.assertIn("runs/job/checkpoints: no run keeps a job.yaml there.", self.worker("eval", there, expect=2))


class Access(VerbTest):
    """Case A1. Needs root, to give files to another user."""

    def test_checkpoints_of_another_user_need_the_flag(self):
        there = self.train("train.epochs=1")
        os.chown(there / "step-000020" / "model.safetensors", 65534, 65534)
        for verb in (("export", there, "-o", "a.pt"), ("inspect", there)):
            self.assertIn("it belongs to user 65534", self.worker(*verb, expect=2))
            self.worker(*verb, "--trust-checkpoint")


if __name__ == "__main__":
    if "Access" in sys.argv and os.geteuid() != 0:
        print("needs root, to give files to another user")
        sys.exit(77)
    unittest.main(verbosity=2)
