"""A training that began in Python goes on here: the next losses are those that Python has when it goes on itself.

Run by hand: DDP_BIN=build/release DDP_FILES_TOOL=... python3 tests/interop/python_resume_test.py
"""

import os
import pathlib
import tempfile
import unittest

import torch
import torchvision
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from common_kernels import COMMON_KERNELS
from run_files import losses
from tools import files_tool, run_program, run_tests
from reference_ddp import ConvNet

COUNT, BATCH, MEAN, DEVIATION = 320, 32, 0.163, 0.23
STEPS = COUNT // BATCH
FEW = 96  # of a ResNet
# Both sides take the kernels that most CPUs have: those of newer ones differ by a rounding more, which a deep net's training makes 3e-3.
os.environ.update(COMMON_KERNELS)
NEAR = 1e-5  # measured: 3e-7; sums round otherwise here (channels-last), and that grows with the steps of a deep net

JOB = """
name: job
data: {name: digits, batch: 32, train_size: 320, test_size: 32}
model: {name: convnet}
optimizer: {name: sgd, lr: 0.02, momentum: 0.9, weight_decay: 1e-4}
schedule: {name: multistep, milestones: [1], gamma: 0.5, warmup: 0}
train: {epochs: 2, log_every: 1}
"""


class Evil:
    """Makes a file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def resnet():
    model = torchvision.models.resnet18(num_classes=10)
    model.conv1 = nn.Conv2d(1, 64, 7, 2, 3, bias=False)
    return model


def make_sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)


class PythonResume(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raw = torch.frombuffer(bytearray(files_tool("digits", 1, "train", COUNT)), dtype=torch.uint8)
        images = (raw[COUNT:].reshape(COUNT, 1, 28, 28).float() / 255 - MEAN) / DEVIATION
        cls.data = TensorDataset(images, raw[:COUNT].long())
        torch.set_num_threads(1)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.file = self.folder / "python.pt"
        (self.folder / "job.yaml").write_text(JOB, encoding="utf-8")

    def train(self, model, make_optimizer, count=COUNT):
        """Epoch by epoch of the first `count` images: yields the losses, the optimizer and the scheduler."""
        model.train()
        optimizer = make_optimizer(model)
        scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1], gamma=0.5)
        data = TensorDataset(*self.data[:count])
        sampler = DistributedSampler(data, num_replicas=1, rank=0, seed=1)
        for epoch in range(2):
            sampler.set_epoch(epoch)
            losses = []
            for x, y in DataLoader(data, batch_size=BATCH, sampler=sampler):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            scheduler.step()
            yield losses, optimizer, scheduler

    def save_and_go_on(self, make_model=ConvNet, make_optimizer=make_sgd, prefix="", names=None, count=COUNT, **more):
        """Saves after the first epoch. Returns the losses of the second."""
        torch.manual_seed(5)
        model = make_model()
        run = self.train(model, make_optimizer, count)
        _, optimizer, scheduler = next(run)
        saved = {
            "start_epoch": 1,
            "model_state_dict": {prefix + name: tensor for name, tensor in model.state_dict().items()},
            "optimizer_state_dict": optimizer.state_dict(),
            "scheduler_state_dict": scheduler.state_dict(),
        }
        torch.save({(names or {}).get(name, name): value for name, value in saved.items()} | more, self.file)
        return next(run)[0]

    def run_worker(self, *arguments, expect=0, program=("ddp-worker",)):
        command = [os.environ["DDP_BIN"] + "/" + program[0], *program[1:], "job.yaml", f"checkpoint.resume={self.file}", *arguments]
        return run_program(*command, folder=self.folder, expect=expect)

    def losses(self, name="job"):
        return losses(self.folder / "runs" / name)

    def check(self, theirs, later=NEAR, name="job"):
        ours = self.losses(name)
        self.assertEqual(len(ours), len(theirs))
        self.assertAlmostEqual(ours[0], theirs[0], delta=NEAR)
        for a, b in zip(ours, theirs, strict=True):
            self.assertAlmostEqual(a, b, delta=later)

    def test_sgd_goes_on_with_its_momentum(self):
        theirs = self.save_and_go_on()
        text = self.run_worker()
        self.assertIn("weights: loaded 8 of the model's 8 tensors", text)
        self.assertRegex(text, r"optimizer: 8 tensors of .*python.pt \(momentum_buffer\); the rate is the job's schedule at step 10, nothing of")
        self.assertIn(f"resumes at step {STEPS}, epoch 2, from {self.file}\n", text)
        self.assertNotIn("what the job says counts", text)
        self.check(theirs)
        self.run_worker("name=two", program=("ddp-launch", "--nproc-per-node", "2"))
        self.check(theirs, name="two")
        # Were the momentum lost, this would be seen.
        content = torch.load(self.file)
        for state in content["optimizer_state_dict"]["state"].values():
            state["momentum_buffer"].zero_()
        torch.save(content, self.file)
        self.run_worker("name=without")
        self.assertGreater(max(abs(a - b) for a, b in zip(self.losses("without"), theirs, strict=True)), 0.02)

    def test_adam_and_adamw_go_on_with_their_moments_and_steps(self):
        for name, kind in (("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)):
            theirs = self.save_and_go_on(
                make_optimizer=lambda model, kind=kind: kind(model.parameters(), lr=1e-3, weight_decay=1e-4)
            )
            self.run_worker(f"name={name}", f"optimizer.name={name}", "optimizer.lr=1e-3")
            self.check(theirs, name=name)

    def test_a_resnet_in_ddp_by_other_names_goes_on(self):
        """Parameters are numbered without the buffers between them; prefixes go; keys are as the job says."""
        names = {"start_epoch": "next", "model_state_dict": "net", "optimizer_state_dict": "Optimizer_state_dict"}
        theirs = self.save_and_go_on(
            resnet, lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01), "module.", names, FEW
        )
        job = (f"data.train_size={FEW}", "model.name=resnet18", "model.stem=imagenet", "optimizer.name=adamw", "optimizer.lr=1e-3", "optimizer.weight_decay=0.01")
        text = self.run_worker(*job, "checkpoint.keys={epoch: next, model: net}", "optimizer.ema_decay=0.9")
        self.assertIn("prefix taken off: module.", text)
        self.assertIn("optimizer: 186 tensors", text)
        self.check(theirs, later=2e-3)  # measured: 6e-6, and 9e-5 elsewhere

    def test_named_parameters_in_groups_are_told_apart_and_unnamed_ones_refused(self):
        def grouped(model, named):
            both = list(model.named_parameters())
            groups = [[one for one in both if (one[1].dim() > 1) == wide] for wide in (True, False)]
            if not named:
                groups = [[tensor for _, tensor in group] for group in groups]
            return torch.optim.SGD([{"params": group} for group in groups], lr=0.02, momentum=0.9, weight_decay=1e-4)

        theirs = self.save_and_go_on(make_optimizer=lambda model: grouped(model, True))
        self.run_worker()
        self.check(theirs)
        self.save_and_go_on(make_optimizer=lambda model: grouped(model, False))
        text = self.run_worker("name=other", expect=2)
        self.assertRegex(text, "keeps momentum_buffer of F32 .* It has several groups of parameters, and which is which it does not say")

    def test_differing_settings_of_the_script_are_printed(self):
        self.save_and_go_on(
            make_optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.8, nesterov=True)
        )
        text = self.run_worker("train.epochs=4", "checkpoint.keys={epoch: 3}")
        said = "initial_lr 0.03 (this job: 0.02), weight_decay 0 (this job: 0.0001), momentum 0.8 (this job: 0.9), nesterov 1 (this job: 0)"
        self.assertIn(said, text)
        self.assertIn("resumes at step 30, epoch 4", text)
        self.assertIn("its scheduler has made 1 steps, and this run goes on with epoch 4", text)

    def test_missing_or_misfit_entries_are_one_refusal(self):
        self.save_and_go_on(make_optimizer=lambda model: torch.optim.Adam(model.parameters()))
        whole = torch.load(self.file)
        self.assertRegex(self.run_worker(expect=2), "its optimizer keeps exp_avg, exp_avg_sq, step of parameters.*optimizer.name=sgd")
        self.assertIn("no tensor of it fits the model", self.run_worker("model.name=resnet18", "optimizer.name=adam", expect=2))
        text = self.run_worker("model.name=mlp", "optimizer.name=adam", expect=2)
        self.assertIn("its model is not this job's. Set model.name", text)
        self.assertIn("not in the model, skipped: conv1.bias", text)
        for name in ("start_epoch", "model_state_dict", "optimizer_state_dict"):
            torch.save({key: value for key, value in whole.items() if key != name}, self.file)
            text = self.run_worker("optimizer.name=adam", expect=2)
            self.assertRegex(text, rf"cannot resume from {self.file}: it has no entry {name}.*; it has .*checkpoint.keys=")
            self.assertEqual(text.count("cannot resume"), 1)
        self.assertIn("checkpoint.keys: optimiser: x is not", self.run_worker("checkpoint.keys={optimiser: x}", expect=2))
        torch.save(whole["model_state_dict"], self.file)
        self.assertIn("by model.weights", self.run_worker(expect=2))
        self.file.write_bytes(self.file.read_bytes()[:-100])
        self.run_worker(expect=2)
        self.file.write_text("hello", encoding="ascii")
        self.assertIn("neither a checkpoint nor a file of torch.save", self.run_worker(expect=2))

    def test_k6_content_of_the_file_is_not_executed(self):
        marker = self.folder / "executed"
        theirs = self.save_and_go_on(args=Evil(marker))
        content = torch.load(self.file, weights_only=False)
        self.assertTrue(marker.exists(), "Python runs it")
        content["args"].close()
        marker.unlink()
        content["args"] = Evil(marker)
        content["scheduler_state_dict"]["lambda"] = Evil(marker)
        content["optimizer_state_dict"]["param_groups"][0]["hook"] = Evil(marker)
        content["optimizer_state_dict"]["state"][0]["hook"] = Evil(marker)
        torch.save(content, self.file)
        self.run_worker()
        self.check(theirs)
        self.assertFalse(marker.exists())
        for name in ("start_epoch", "model_state_dict", "optimizer_state_dict"):
            torch.save({**content, name: Evil(marker)}, self.file)
            self.run_worker("name=other", expect=2)
            self.assertFalse(marker.exists(), name)


if __name__ == "__main__":
    run_tests()
