"""Models that Python has written as TorchScript, trained by ddp-worker and by Python's DDP: the same losses, and back to Python.

Run by hand: DDP_BIN=build/release DDP_FILES_TOOL=... PYTHONPATH=tests/support python3 tests/interop/script_test.py
"""

import functools
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest
import warnings

import torch
from run_files import losses
from safetensors.torch import load_file
from tools import files_tool, run_program
from torch import nn
from torchvision import models
from torchvision.models.convnext import CNBlockConfig
from torchvision.models.efficientnet import MBConvConfig

HERE = pathlib.Path(__file__).parent
COUNT, BATCH, MEAN, DEVIATION = 640, 16, 0.163, 0.23  # 20 steps of two ranks
OUTPUTS = {"main": 1.0, "aux": 0.4}

JOB = """
name: script
launch: {nproc_per_node: 2}
data: {name: digits, batch_per_rank: 16, train_size: 640, test_size: 64}
model: {memory_format: contiguous}
optimizer: {lr: 0.02, momentum: 0.9, weight_decay: 1e-4}
schedule: {name: cosine, warmup: 0}
train: {epochs: 1, log_every: 1}
"""


# As like those that always run as they are to each other.
EVERY_CASE = unittest.skipUnless("DDP_EVERY_CASE" in os.environ, "is one of ./make.sh soak cases")


class Branches(nn.Module):
    """As a user may write one: control flow, and a dictionary of outputs."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, stride=2)
        self.blocks = nn.ModuleList([nn.Conv2d(8, 8, 3, padding=1) for _ in range(3)])
        self.norm = nn.BatchNorm2d(8)
        self.main = nn.Linear(8, 10)
        self.aux = nn.Linear(8, 10)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        aux = x.mean([2, 3])
        for i, block in enumerate(self.blocks):
            if i > 0 and x.size(2) > 2:
                x = torch.max_pool2d(x, 2)
            x = x + torch.relu(block(x))
        return {"main": self.main(x.mean([2, 3])), "aux": self.aux(aux)}


def one_channel(net, first):
    """With its first convolution (a name) for images of one channel."""
    name, _, leaf = first.rpartition(".")
    parent = net.get_submodule(name)
    old = getattr(parent, leaf)
    setattr(parent, leaf, nn.Conv2d(1, old.out_channels, old.kernel_size, old.stride, old.padding, bias=old.bias is not None))
    return net


def no_dropout(net):
    """Python and ddp-worker draw other random numbers."""
    for module in net.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return net


NETS = {
    "vit": lambda: one_channel(
        models.VisionTransformer(image_size=28, patch_size=7, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64, num_classes=10),
        "conv_proj",
    ),
    "convnext": lambda: one_channel(
        models.ConvNeXt([CNBlockConfig(16, 32, 2), CNBlockConfig(32, None, 1)], stochastic_depth_prob=0.0, num_classes=10),
        "features.0.0",
    ),
    # The first blocks of efficientnet_b0: the last ones would have norms of one pixel, where rounding grows a thousandfold in a step.
    "efficientnet": lambda: no_dropout(
        one_channel(
            models.EfficientNet(
                [MBConvConfig(1, 3, 1, 32, 16, 1, 1.0, 1.0), MBConvConfig(6, 3, 2, 16, 24, 2, 1.0, 1.0), MBConvConfig(6, 5, 2, 24, 40, 2, 1.0, 1.0)],
                dropout=0.0, stochastic_depth_prob=0.0, num_classes=10,
            ),
            "features.0.0",
        )
    ),
    "swin": lambda: one_channel(
        models.SwinTransformer([2, 2], 16, [2, 2], [2, 4], [2, 2], stochastic_depth_prob=0.0, num_classes=10), "features.0.0"
    ),
    "mobilenet": lambda: no_dropout(one_channel(models.mobilenet_v3_small(num_classes=10), "features.0.0")),
    "branches": Branches,
}


class ScriptTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bin = pathlib.Path(os.environ["DDP_BIN"]).resolve()
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        (cls.path / "digits.bin").write_bytes(files_tool("digits", 1, "train", COUNT))
        (cls.path / "job.yaml").write_text(JOB, encoding="utf-8")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    @functools.cache
    def script(cls, name):
        torch.manual_seed(7)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "torch.jit.script is deprecated"
            torch.jit.save(torch.jit.script(NETS[name]()), cls.path / f"{name}.pt")
        return f"{name}.pt"

    def launch(self, script, output, *more, **keywords):
        """Losses of each step, of the job with that script."""
        named = ["model.args.outputs.main=1", "model.args.outputs.aux=0.4"] if script == "branches.pt" else []
        run_program(
            self.bin / "ddp-launch", "job.yaml", f"model.script={script}", f"output={output}", *named, *more, folder=self.path, **keywords
        )
        return losses(self.path / output / "script")

    def python(self, script, *more):
        out = self.path / "python.json"
        factors = json.dumps(OUTPUTS) if script == "branches.pt" else "{}"
        run_program(
            sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", HERE / "reference_ddp.py",
            "--images", "digits.bin", "--count", COUNT, "--mean", MEAN, "--deviation", DEVIATION, "--batch", BATCH,
            "--script", script, "--factors", factors, "--out", out, *more, folder=self.path,
        )  # fmt: skip
        return json.loads(out.read_text(encoding="utf-8"))

    def assert_same(self, ours, theirs, tolerance):
        self.assertEqual(len(ours), len(theirs))
        for step, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            self.assertAlmostEqual(a, b, delta=tolerance * max(1, abs(b)), msg=f"step {step}")


class Page(ScriptTest):
    """docs/any-model.md, as a reader follows it."""

    def test_a_model_of_ones_own_is_a_trained_file_in_python(self):
        page = (HERE.parents[1] / "docs" / "any-model.md").read_text(encoding="utf-8")
        blocks = re.findall(r"```(\w*)\n(.*?)```", page, re.DOTALL)
        folder = self.path / "page"
        folder.mkdir()
        (folder / "net.py").write_text(next(text for kind, text in blocks if kind == "python"), encoding="utf-8")
        (folder / "job.yaml").write_text(next(text for kind, text in blocks if kind == "yaml"), encoding="utf-8")
        commands = next(text for kind, text in blocks if not kind).replace("python3", f"{sys.executable} -W ignore")
        said = run_program("sh", "-ec", f"export PATH={self.bin}:$PATH\n{commands}", folder=folder)
        self.assertIn("torch.Size([1, 10])", said)


class Losses(ScriptTest):
    """20 steps of two ranks against Python's DDP of the same file."""

    def same_as_python(self, name):
        script = self.script(name)
        ours = self.launch(script, name)
        theirs = self.python(script)
        self.assertEqual(len(ours), 20)
        self.assert_same(ours, theirs, 1e-5)
        self.assertLess(min(theirs[-5:]), theirs[0], "it learned nothing, so equality says little")

    def test_vision_transformer(self):
        self.same_as_python("vit")

    @EVERY_CASE
    def test_convnext(self):
        self.same_as_python("convnext")

    @EVERY_CASE
    def test_efficientnet(self):
        self.same_as_python("efficientnet")

    @EVERY_CASE
    def test_swin_transformer(self):
        self.same_as_python("swin")

    @EVERY_CASE
    def test_mobilenet(self):
        self.same_as_python("mobilenet")

    def test_control_flow_and_a_dictionary_of_outputs(self):
        self.same_as_python("branches")

    def test_bf16_by_autocast_inside_the_interpreter(self):
        script = self.script("convnext")
        ours = self.launch(script, "bf16", "amp.level=O1", "amp.dtype=bf16")
        plain = self.launch(script, "plain")
        self.assertNotEqual(ours, plain, "nothing was computed in 16 bits")
        self.assert_same(ours, self.python(script, "--bf16"), 2e-2)


class Runs(ScriptTest):
    """What every model can: resume, other numbers of ranks, verbs, and the way back to Python."""

    def test_a_resumed_run_has_the_same_losses_bit_for_bit(self):
        script = self.script("branches")
        steady = ["schedule.name=constant", "train.epochs=2"]  # a schedule knows the last step
        whole = self.launch(script, "whole", *steady)
        self.launch(script, "cut", *steady, "train.max_steps=13")
        both = self.launch(script, "cut", *steady)
        self.assertEqual(both, whole)

    def test_two_ranks_are_one_with_the_joined_batch(self):
        script = self.script("vit")  # without batch norms
        two = self.launch(script, "two", "data.batch_per_rank=null", "data.batch=32")
        one = self.launch(script, "one", "data.batch_per_rank=null", "data.batch=32", "launch.nproc_per_node=1")
        self.assert_same(two, one, 1e-5)

    def test_python_loads_what_was_trained_and_computes_the_same(self):
        script = self.script("branches")
        self.launch(script, "back")
        run_program(
            self.bin / "ddp-worker", "export", "back/script", "--script", script, "-o", "trained.pt", folder=self.path
        )
        trained = torch.jit.load(self.path / "trained.pt").eval()
        saved = load_file(self.path / "back" / "script" / "checkpoints" / "step-000020" / "model.safetensors")
        state = trained.state_dict()
        self.assertEqual(set(saved), set(state))
        for name, tensor in state.items():
            self.assertTrue(torch.equal(tensor, saved[name]), name)
        theirs = NETS["branches"]().eval()
        theirs.load_state_dict(saved)
        x = torch.randn(4, 1, 28, 28)
        with torch.no_grad():
            for name, output in theirs(x).items():
                self.assertTrue(torch.allclose(trained(x)[name], output, atol=1e-6), name)

    def test_weights_freezing_and_a_moving_average(self):
        script = self.script("branches")
        torch.manual_seed(8)
        weights = NETS["branches"]().state_dict()
        torch.save(weights, self.path / "weights.pt")
        self.launch(
            script, "frozen", "model.weights=weights.pt", "model.freeze=[\"first.*\"]", "optimizer.ema_decay=0.9",
            "optimizer.decay_norms_and_biases=false",
        )  # fmt: skip
        saved = load_file(self.path / "frozen" / "script" / "checkpoints" / "step-000020" / "model.safetensors")
        for name, tensor in saved.items():
            is_frozen = name.startswith("first.")
            self.assertEqual(torch.equal(tensor, weights[name]), is_frozen, name)

    def test_predict_and_eval(self):
        script = self.script("branches")
        self.launch(script, "seen")
        said = run_program(self.bin / "ddp-worker", "eval", "seen/script", folder=self.path)
        self.assertIn("test loss", said)

    def test_another_file_on_one_rank_is_refused(self):
        torch.manual_seed(9)
        shutil.copy(self.path / self.script("vit"), self.path / "one.pt")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.jit.save(torch.jit.script(NETS["vit"]()), self.path / "two.pt")
        # Each rank reads the file at its own time: a link that changes stands for a node with another file.
        job = (
            "import os; script = ('one.pt', 'two.pt')[int(os.environ['RANK'])]; "
            f"os.execv('{self.bin / 'ddp-worker'}', ['ddp-worker', 'job.yaml', 'output=odd', 'model.script=' + script])"
        )
        (self.path / "odd.py").write_text(job, encoding="utf-8")
        said = run_program(self.bin / "ddp-launch", "--nproc-per-node", "2", "odd.py", folder=self.path, expect=203)
        self.assertIn("model.script", said)


class Refusals(ScriptTest):
    """Each says what is wrong, and starts nothing."""

    def refuses(self, *arguments):
        said = run_program(self.bin / "ddp-worker", "--check", "job.yaml", *arguments, folder=self.path, expect=2)
        self.assertEqual(said.count("model.script"), said.count("\n") or 1, said)
        return said

    def test_outputs_that_are_not_named(self):
        said = self.refuses(f"model.script={self.script('branches')}")
        self.assertIn("main [2x10], aux [2x10]", said)

    def test_an_output_that_it_does_not_have(self):
        said = run_program(
            self.bin / "ddp-worker", "--check", "job.yaml", f"model.script={self.script('branches')}", "model.args.outputs.mian=1",
            folder=self.path, expect=2,
        )  # fmt: skip
        self.assertIn("main [2x10], aux [2x10]", said)

    def test_another_number_of_classes(self):
        said = self.refuses(f"model.script={self.script('vit')}", "data.name=synthetic", "data.image_size=28", "data.args.channels=1")
        self.assertIn("torch.nn.Linear", said)

    def test_images_of_another_size(self):
        said = self.refuses(f"model.script={self.script('vit')}", "data.name=synthetic", "data.image_size=32", "data.args.channels=1")
        self.assertIn("does not take images of 1x32x32", said)

    def test_a_frozen_module_and_weights_alone(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.jit.save(torch.jit.freeze(torch.jit.script(NETS["vit"]().eval())), self.path / "frozen.pt")
        torch.save(NETS["vit"]().state_dict(), self.path / "state.pt")
        self.assertIn("torch.jit.freeze", self.refuses("model.script=frozen.pt"))
        self.assertIn("model.weights", self.refuses("model.script=state.pt"))

    def test_files_that_are_damaged(self):
        whole = (self.path / self.script("vit")).read_bytes()
        weight = whole.find(torch.jit.load(self.path / "vit.pt").class_token.detach().numpy().tobytes()) + 8
        flipped = whole[:weight] + bytes([whole[weight] ^ 1]) + whole[weight + 1 :]
        for number, damaged in enumerate([b"", b"not a zip", whole[:1000], whole[:-100], flipped]):
            (self.path / f"bad{number}.pt").write_bytes(damaged)
            with self.subTest(number):
                self.refuses(f"model.script=bad{number}.pt")

    def test_keys_that_are_for_other_models(self):
        for key in ("model.norm=sync", "model.name=resnet18", "model.stem=cifar"):
            said = run_program(self.bin / "ddp-worker", "--check", "job.yaml", "model.script=x.pt", key, folder=self.path, expect=2)
            self.assertIn(key.split("=")[0], said)

    def test_a_traced_module_says_that_its_mode_is_fixed(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.jit.save(torch.jit.trace(NETS["mobilenet"]().eval(), torch.zeros(2, 1, 28, 28)), self.path / "traced.pt")
        said = run_program(self.bin / "ddp-worker", "--check", "job.yaml", "model.script=traced.pt", folder=self.path)
        self.assertIn("stay in evaluation mode", said)


if __name__ == "__main__":
    unittest.main()
