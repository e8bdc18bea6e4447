"""What the tests of models from Python share: nets as people write them, and a job that trains the file of one beside Python's DDP."""

import json
import os
import pathlib
import re
import runpy
import shlex
import tempfile
import unittest
import warnings

import torch
import torch.export
from reference_run import reference_losses
from run_files import losses
from safetensors.torch import load_file
from tools import Fork, files_tool, run_program
from torch import nn
from torchvision import models
from torchvision.models.convnext import CNBlockConfig
from torchvision.models.efficientnet import MBConvConfig
from torchvision.ops import StochasticDepth

HERE = pathlib.Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "any-model.md"
STEPS = 20 if "DDP_EVERY_CASE" in os.environ else 10
BATCH, MEAN, DEVIATION = 16, 0.163, 0.23
COUNT = STEPS * 2 * BATCH  # images, of two ranks
OUTPUTS = {"branches": {"main": 1.0, "aux": 0.4}, "nested": {"0": 1.0, "1.middle": 0.5, "1.early": 0.3}}

JOB = f"""
name: net
launch: {{nproc_per_node: 2}}
data: {{name: digits, batch_per_rank: {BATCH}, train_size: {COUNT}, test_size: 64}}
model: {{memory_format: contiguous}}
optimizer: {{lr: 0.02, momentum: 0.9, weight_decay: 1e-4}}
schedule: {{name: cosine, warmup: 0}}
train: {{epochs: 1, log_every: 1}}
"""
LAST = f"checkpoints/step-{STEPS:06}"


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


class NoGrad(nn.Module):
    """A part without gradients, and an average that it keeps."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, stride=2)
        self.fc = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 10))
        self.register_buffer("average", torch.zeros(8))

    def forward(self, x):
        x = torch.relu(self.conv(x)).mean([2, 3])
        with torch.no_grad():
            scale = x.abs().mean() + 1
            if self.training:
                self.average.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return self.fc(x / scale - self.average)


class Mixed(nn.Module):
    """Layers in bfloat16 and an island of float32, as the code says, whatever is around it."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, stride=2, bias=False)
        self.middle = nn.Linear(8, 16)
        self.fc = nn.Linear(16, 10, bias=False)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x = torch.relu(self.conv(x)).mean([2, 3])
            with torch.autocast("cpu", enabled=False):
                x = self.middle(x.float())
            x = torch.relu(x)
            return self.fc(x).float()


class Nested(nn.Module):
    """Outputs inside others, and one that is none."""

    def __init__(self):
        super().__init__()
        self.main, self.middle, self.early = nn.Linear(784, 10), nn.Linear(784, 10), nn.Linear(784, 10)

    def forward(self, x):
        x = x.flatten(1)
        return self.main(x), {"middle": self.middle(x), "early": self.early(x)}


class Casts(nn.Module):
    """Weights in 16 bits, and a forward() that relies on it."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(784, 10).bfloat16()

    def forward(self, x):
        return self.fc(x.flatten(1).to(torch.bfloat16)).float()


class AtFullSize(nn.Module):
    """A published net as it is, of images of one channel and any size."""

    def __init__(self, net):
        super().__init__()
        self.net = no_dropout(net)

    def forward(self, x):
        return self.net(nn.functional.interpolate(x.expand(-1, 3, -1, -1), size=[224, 224]))


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
        if isinstance(module, (nn.Dropout, StochasticDepth)):
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
    "no_grad": NoGrad,
    "mixed": Mixed,
    "nested": Nested,
    "casts": Casts,
}
# Of torchvision, as published, with a rate that changes the losses, and with which the net does not diverge.
FULL_SIZE = {
    "vit_b_16": 1e-4, "convnext_tiny": 1e-4, "efficientnet_b0": 1e-4, "swin_t": 1e-4, "regnet_y_400mf": 1e-4, "mobilenet_v3_small": 0.02,
    "resnet34": 1e-4,
}  # fmt: skip


def run_python(what, *words):
    """As a Python of the command line that has these words: a file of a program, or -c and its text."""
    warnings.simplefilter("ignore")
    if what == "-c":
        exec(compile(words[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        runpy.run_path(what, run_name="__main__")


def net_called(name):
    return AtFullSize(models.get_model(name, num_classes=10)) if name in FULL_SIZE else NETS[name]()


def factors_of(file):
    """Of the net's outputs in the loss, by name; none if it has one."""
    return OUTPUTS.get(file.partition(".")[0], {})


class PythonModelTest(unittest.TestCase):
    """KEY is the job's for the file, FLAG that of reference_ddp.py."""

    KEY = FLAG = ""

    @classmethod
    def setUpClass(cls):
        cls.bin = pathlib.Path(os.environ["DDP_BIN"]).resolve()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.path = pathlib.Path(folder.name)
        (cls.path / "digits.bin").write_bytes(files_tool("digits", 1, "train", COUNT))
        (cls.path / "job.yaml").write_text(JOB, encoding="utf-8")

    def launch(self, file, output, *more, **keywords):
        """Losses of each step, of the job with that file; what it prints is `said`."""
        named = [f"model.args.outputs.{name}={factor}" for name, factor in factors_of(file).items()]
        self.said = run_program(
            self.bin / "ddp-launch", "job.yaml", f"{self.KEY}={file}", f"output={output}", *named, *more, folder=self.path, **keywords
        )
        return losses(self.path / output / "net")

    def python(self, file, *more, images="digits.bin", count=COUNT, batch=BATCH):
        """Losses of Python's DDP, step by step."""
        data = ["--images", images, "--count", count, "--mean", MEAN, "--deviation", DEVIATION, "--batch", batch]
        return reference_losses(self.path, *data, self.FLAG, file, "--factors", json.dumps(factors_of(file)), *more)

    @classmethod
    def file_of(cls, name):
        """The name of a file of NETS[name]."""
        raise NotImplementedError

    def same_as_python(self, name):
        """Against Python's DDP of the same file."""
        file = self.file_of(name)
        ours = self.launch(file, name)
        theirs = self.python(file)
        self.assertEqual(len(ours), STEPS)
        self.assert_same(ours, theirs, 1e-5)
        self.assertLess(min(theirs[-5:]), theirs[0], "it learned nothing, so equality says little")

    def same_at_full_size(self, name):
        """Three steps of two images on each of two ranks. After one of them the difference to Python's is also less than a hundredth of
        what it changed; a second one amplifies roundings, as norms over two images do."""
        file = self.file_of(name)
        (self.path / "few.bin").write_bytes(files_tool("digits", 1, "train", 12))
        few = ["data.train_size=12", "data.batch_per_rank=2", "checkpoint.every=0"]
        ours = self.launch(file, name, *few, f"optimizer.lr={FULL_SIZE[name]}")
        theirs = self.python(file, "--lr", FULL_SIZE[name], images="few.bin", count=12, batch=2)
        frozen = self.launch(file, f"{name}-frozen", *few, "optimizer.lr=1e-30", "optimizer.weight_decay=0")
        self.assertEqual((len(ours), len(theirs), len(frozen)), (3, 3, 3))
        change = abs(ours[1] - frozen[1])
        print(f"{file}: losses {ours}, Python's {theirs}, changed by {change}")
        self.assertGreater(change, 5e-5, "it learned nothing, so equality says little")
        self.assert_same(ours, theirs, 1e-4)
        self.assertAlmostEqual(ours[1], theirs[1], delta=1e-5 + change / 100)

    def same_at_o2_and_o3(self, name):
        """Weights in bfloat16, with float32 masters and without: each as Python's, and nearer to it than the other."""
        file = self.file_of(name)
        ours = {level: self.launch(file, level, f"amp.level={level}", "amp.dtype=bf16") for level in ("O0", "O2", "O3")}
        theirs = {level: self.python(file, f"--{level.lower()}") for level in ("O2", "O3")}

        def distance(level, other):
            return sum(map(abs, map(float.__sub__, ours[level], theirs[other])))

        self.assertNotEqual(ours["O2"], ours["O0"], "nothing was computed in 16 bits")
        for level, other in (("O2", "O3"), ("O3", "O2")):
            self.assert_same(ours[level], theirs[level], 1e-3)
            self.assertLess(distance(level, level), distance(other, level), level)

    def same_in_bf16(self, name):
        """Measured: 1e-7 from Python's, 1e-4 from those of fp32."""
        file = self.file_of(name)
        ours = self.launch(file, "bf16", "amp.level=O1", "amp.dtype=bf16")
        plain = self.launch(file, "plain")
        self.assertNotEqual(ours, plain, "nothing was computed in 16 bits")
        self.assert_same(ours, self.python(file, "--bf16"), 1e-5)

    def frozen_layers_keep_their_weights(self, name, prefix):
        """Of model.weights; all other tensors are trained, with a moving average and without decay of norms."""
        torch.manual_seed(8)
        weights = NETS[name]().state_dict()
        torch.save(weights, self.path / "weights.pt")
        self.launch(
            self.file_of(name), "frozen", "model.weights=weights.pt", f'model.freeze=["{prefix}*"]', "optimizer.ema_decay=0.9",
            "optimizer.decay_norms_and_biases=false",
        )  # fmt: skip
        saved = load_file(self.path / "frozen" / "net" / LAST / "model.safetensors")
        for tensor_name, tensor in saved.items():
            self.assertEqual(torch.equal(tensor, weights[tensor_name]), tensor_name.startswith(prefix), tensor_name)

    def follow(self, page):
        """What the commands of a page say: it has a file of Python, one of YAML, and commands. The job has five steps of a small set."""
        blocks = re.findall(r"```(\w*)\n(.*?)```", page, re.DOTALL)
        folder = self.path / "page"
        folder.mkdir()
        (folder / "net.py").write_text(next(text for kind, text in blocks if kind == "python"), encoding="utf-8")
        job = next(text for kind, text in blocks if kind == "yaml")
        few = re.sub(r"max_steps: \d+", "max_steps: 5", re.sub(r"data: \{name: digits, ", r"\g<0>train_size: 320, test_size: 32, ", job))
        self.assertRegex(few, "test_size: 32, (.|\n)*max_steps: 5}")
        (folder / "job.yaml").write_text(few, encoding="utf-8")
        said = ""
        for command in re.split(r" && |\n", next(text for kind, text in blocks if not kind).strip()):
            name, *words = shlex.split(command)
            if name == "python3":
                said += Fork(lambda words=words: run_python(*words), folder).finish()
            else:
                said += run_program(self.bin / name, *words, folder=folder)
        return said

    def check(self, file, *more, expect=0):
        return run_program(
            self.bin / "ddp-worker", "--check", "job.yaml", f"{self.KEY}={file}", *more, folder=self.path, expect=expect
        )

    def refuses(self, file, *more):
        """What is said of the file: one line, which names the key."""
        said = self.check(file, *more, expect=2)
        self.assertEqual(said.count(self.KEY), said.count("\n") or 1, said)
        return said

    def refuses_casts(self):
        self.assertIn("leave casts out of forward() and choose amp.level", self.refuses(self.file_of("casts")))

    def assert_same(self, ours, theirs, tolerance):
        self.assertEqual(len(ours), len(theirs))
        for step, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            self.assertAlmostEqual(a, b, delta=tolerance * max(1, abs(b)), msg=f"step {step}")


class NetLosses:
    """The nets of a suite; a suite runs one of them always."""

    @EVERY_CASE
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

    def test_a_dictionary_of_outputs(self):
        self.same_as_python("branches")

    def test_outputs_inside_others(self):
        self.same_as_python("nested")

    def test_autocast_in_the_code(self):
        self.same_as_python("mixed")

    def test_weights_in_16_bits(self):
        self.same_at_o2_and_o3("branches")

    @EVERY_CASE
    def test_published_nets_at_full_size(self):
        for name in FULL_SIZE:
            with self.subTest(name):
                self.same_at_full_size(name)
