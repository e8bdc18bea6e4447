"""Models that Python has written with torch.export, trained by ddp-worker and by Python's DDP: the same losses, and back to Python.

Run by hand: OMP_NUM_THREADS=1 DDP_BIN=build/release DDP_FILES_TOOL=... PYTHONPATH=tests/support python3 tests/interop/export_test.py
"""

import functools
import json
import re
import unittest
import zipfile

import torch
from python_nets import DEVIATION, EVERY_CASE, LAST, MEAN, NETS, PAGE, NetLosses, PythonModelTest, net_called
from safetensors.torch import load_file
from tools import files_tool, run_program, run_tests
from torch import nn
from torch.export.pt2_archive._package import load_pt2, package_pt2

ANY_BATCH = ({0: torch.export.Dim.AUTO},)


def program_of(net, channels=1):
    return torch.export.export(net, (torch.zeros(2, channels, 28, 28),), dynamic_shapes=ANY_BATCH)


class Dropouts(nn.Module):
    """Layers with another computation in each mode."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, stride=2)
        self.norm = nn.BatchNorm2d(8)
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True)
        self.dropout = nn.Dropout(0.5)
        self.fc = nn.Linear(8, 10)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x))).flatten(2).transpose(1, 2)
        x = self.attention(x, x, x, need_weights=False)[0]
        return self.fc(self.dropout(x).mean(1))


class Noise(nn.Module):
    """Noise while it trains, in its own code."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(784, 10)

    def forward(self, x):
        x = x.flatten(1)
        return self.fc(x + torch.rand_like(x) if self.training else x)


class ExportTest(PythonModelTest):
    KEY, FLAG = "model.export", "--export"

    @classmethod
    @functools.cache
    def file_of(cls, name):
        torch.manual_seed(7)
        torch.export.save(program_of(net_called(name).train()), cls.path / f"{name}.pt2")
        return f"{name}.pt2"

    def save(self, net, name):
        torch.export.save(program_of(net), self.path / name)
        return name

    def changed(self, name, change):
        """A file as `name` whose graph `change` has changed."""
        with zipfile.ZipFile(self.path / name) as whole, zipfile.ZipFile(self.path / "changed.pt2", "w") as copy:
            for record in whole.namelist():
                content = whole.read(record)
                if record.endswith("models/model.json"):
                    graph = json.loads(content)
                    change(graph)
                    content = json.dumps(graph)
                copy.writestr(record, content)
        return "changed.pt2"


class Page(ExportTest):
    """The second part of docs/any-model.md, as a reader follows it."""

    @EVERY_CASE
    def test_an_export_is_a_trained_file_in_python(self):
        page = PAGE.read_text(encoding="utf-8")
        self.assertIn("torch.Size([1, 10])", self.follow(page[page.index("## torch.export") :]))


class Losses(NetLosses, ExportTest):
    """Against Python's DDP of the same export."""

    def test_swin_transformer(self):
        self.same_as_python("swin")

    @EVERY_CASE
    def test_parts_under_no_grad(self):
        self.same_as_python("no_grad")

    def test_autocast_around_autocast_in_the_code(self):
        program = self.file_of("mixed")
        plain = self.launch(program, "plain")
        around_it = self.launch(program, "o1", "amp.level=O1", "amp.dtype=bf16")
        self.assert_same(around_it, plain, 1e-6)  # the island stays in float32

    @EVERY_CASE
    def test_channels_last(self):
        program = self.file_of("swin")
        ours = self.launch(program, "last", "model.memory_format=channels_last")
        self.assert_same(ours, self.python(program), 1e-4)

    @EVERY_CASE
    def test_a_graph_of_core_operators(self):
        torch.manual_seed(7)
        torch.export.save(program_of(NETS["mobilenet"]().train()).run_decompositions(), self.path / "core.pt2")
        ours = self.launch("core.pt2", "core")
        # Python's backward refuses it: a norm's statistics are replaced before they have been used.
        self.assert_same(ours, self.python(self.file_of("mobilenet")), 1e-4)

    @EVERY_CASE
    def test_bf16_by_autocast(self):
        self.same_in_bf16("convnext")

    def test_gradients_of_the_first_step(self):
        program = self.file_of("branches")
        self.python(program, "--gradients", "gradients.pt")
        # Momentum after one step is the gradient.
        self.launch(program, "one", "train.max_steps=1", "optimizer.weight_decay=0")
        (folder,) = (self.path / "one" / "net" / "checkpoints").glob("step-*1")
        saved = load_file(folder / "optimizer.safetensors")
        gradients = torch.load(self.path / "gradients.pt")
        for name in ("first.weight", "main.bias"):
            (ours,) = (tensor for key, tensor in saved.items() if key.endswith(name))
            self.assertLess((ours - gradients[name]).abs().max(), 1e-4 * gradients[name].abs().max(), name)


class Runs(ExportTest):
    """What every model can: resume, other numbers of ranks, verbs, and the way back to Python."""

    def test_a_resumed_run_has_the_same_losses_bit_for_bit(self):
        program = self.save(Dropouts().train(), "dropouts.pt2")
        steady = ["schedule.name=constant", "train.epochs=2", "data.train_size=192"]  # a schedule knows the last step
        whole = self.launch(program, "whole", *steady)
        self.launch(program, "cut", *steady, "train.max_steps=7")
        both = self.launch(program, "cut", *steady)
        self.assertIn("resumes at step 7,", self.said)
        self.assertEqual(both, whole)

    @EVERY_CASE
    def test_two_ranks_are_one_with_the_joined_batch(self):
        program = self.file_of("vit")  # without batch norms
        two = self.launch(program, "two", "data.batch_per_rank=null", "data.batch=32")
        one = self.launch(program, "one-rank", "data.batch_per_rank=null", "data.batch=32", "launch.nproc_per_node=1")
        self.assert_same(two, one, 1e-5)

    def test_evaluation_is_that_of_the_net_in_evaluation_mode(self):
        net = Dropouts()
        self.launch(self.save(net.train(), "dropouts.pt2"), "evaluated")
        self.assert_evaluated("evaluated", net, self.saved("evaluated"))

    def saved(self, output):
        return load_file(self.path / output / "net" / LAST / "model.safetensors")

    def assert_evaluated(self, output, net, weights):
        """The loss that `ddp-worker eval` tells is that of the net in Python."""
        said = run_program(self.bin / "ddp-worker", "eval", f"{output}/net", folder=self.path)
        net.load_state_dict(weights)
        raw = torch.frombuffer(bytearray(files_tool("digits", 1, "test", 64)), dtype=torch.uint8)
        images = (raw[64:].reshape(64, 1, 28, 28).float() / 255 - MEAN) / DEVIATION
        with torch.no_grad():
            loss = nn.functional.cross_entropy(net.eval()(images), raw[:64].long())
        self.assertAlmostEqual(float(re.search(r"test loss ([\d.]+)", said)[1]), loss.item(), places=3)

    def test_python_loads_what_was_trained_and_computes_the_same(self):
        program = self.file_of("branches")
        self.launch(program, "back")
        run_program(
            self.bin / "ddp-worker", "export", "back/net", "--script", program, "-o", "trained.pt2", folder=self.path
        )
        trained = torch.export.load(self.path / "trained.pt2")
        saved = load_file(self.path / "back" / "net" / LAST / "model.safetensors")
        self.assertEqual(set(saved), set(trained.state_dict))
        for name, tensor in trained.state_dict.items():
            self.assertTrue(torch.equal(tensor, saved[name]), name)

    @EVERY_CASE
    def test_weights_freezing_and_a_moving_average(self):
        self.frozen_layers_keep_their_weights("branches", "first.")

    def test_a_second_graph_for_evaluations(self):
        net = Noise()
        programs = {"train": program_of(net.train()), "eval": program_of(net.eval())}
        package_pt2(str(self.path / "two.pt2"), exported_programs=programs)
        self.assertNotIn("random", self.check("two.pt2"))
        self.launch("two.pt2", "two-graphs")
        saved = self.saved("two-graphs")
        self.assert_evaluated("two-graphs", net, saved)
        run_program(
            self.bin / "ddp-worker", "export", "two-graphs/net", "--script", "two.pt2", "-o", "both.pt2", folder=self.path
        )
        both = load_pt2(str(self.path / "both.pt2")).exported_programs
        for name, program in both.items():
            self.assertTrue(torch.equal(program.state_dict["fc.weight"], saved["fc.weight"]), name)


class Refusals(ExportTest):
    """Each says what is wrong, and starts nothing."""

    def test_outputs_that_are_not_named(self):
        self.assertIn("main [2x10], aux [2x10]", self.refuses(self.file_of("branches")))

    def test_a_batch_of_one_size(self):
        torch.export.save(torch.export.export(NETS["branches"](), (torch.zeros(2, 1, 28, 28),)), self.path / "fixed.pt2")
        said = self.refuses("fixed.pt2")
        self.assertIn("batches of 2 images alone", said)
        self.assertIn("dynamic_shapes", said)

    def test_images_of_another_size(self):
        # The net takes any size, the export only that of the images it was written with.
        said = self.refuses(self.file_of("mixed"), "data.name=synthetic", "data.image_size=32", "data.args.channels=1")
        self.assertIn("of [anyx1x28x28], and gets [2x1x32x32]", said)

    def test_casts_to_the_weights_16_bits(self):
        self.refuses_casts()

    def test_control_flow_by_its_line(self):
        class Conditional(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(784, 10)

            def forward(self, x):
                x = self.fc(x.flatten(1))
                return torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x,))

        said = self.refuses(self.save(Conditional(), "conditional.pt2"))
        self.assertIn("control flow", said)
        self.assertIn("export_test.py:", said)

    def test_other_files(self):
        with self.subTest("weights alone"):
            torch.save(NETS["branches"]().state_dict(), self.path / "state.pt")
            self.assertIn("model.weights", self.refuses("state.pt"))
        with self.subTest("a script"):
            torch.jit.save(torch.jit.script(NETS["branches"]()), self.path / "script.pt")
            self.assertIn("model.script", self.refuses("script.pt"))

    def test_graphs_that_are_wrong(self):
        def nodes(graph):
            return graph["graph_module"]["graph"]["nodes"]

        def unknown_operator(graph):
            nodes(graph)[0]["target"] = "torch.ops.aten.no_such.default"

        def a_file(graph):
            nodes(graph)[0]["target"] = "torch.ops.aten.from_file.default"

        def circle(graph):
            nodes(graph).append(nodes(graph).pop(0))

        def twice(graph):
            nodes(graph).append(nodes(graph)[0])

        def other_version(graph):
            graph["schema_version"]["major"] = 9

        def text_for_a_tensor(graph):
            nodes(graph)[0]["inputs"][0]["arg"] = {"as_string": "x"}

        def huge(graph):
            for node in nodes(graph):
                if node["target"].startswith("torch.ops.aten.max_pool2d"):
                    node["inputs"][1]["arg"] = {"as_ints": [1 << 62, 1 << 62]}

        words = {
            unknown_operator: "no operator", a_file: "not run from such a file", circle: "before it is computed",
            twice: "two values are called", other_version: "schema", text_for_a_tensor: "no such argument", huge: "max_pool2d",
        }  # fmt: skip
        for change, word in words.items():
            with self.subTest(change.__name__):
                self.assertIn(word, self.refuses(self.changed(self.file_of("branches"), change), "model.args.outputs.main=1"))

    def test_files_that_are_damaged(self):
        whole = (self.path / self.file_of("branches")).read_bytes()
        for number, damaged in enumerate([b"", b"not a zip", whole[:1000], whole[:-100]]):
            (self.path / f"bad{number}.pt2").write_bytes(damaged)
            with self.subTest(number):
                self.refuses(f"bad{number}.pt2")

    def test_keys_that_are_for_other_models(self):
        for key in ("model.norm=sync", "model.name=resnet18", "model.stem=cifar", "model.script=net.pt"):
            self.assertIn(key.split("=")[0], self.check("x.pt2", key, expect=2))

    def test_what_stays_in_one_mode_is_said(self):
        self.assertIn("stay in evaluation mode", self.check(self.save(Dropouts().eval(), "eval.pt2")))
        self.assertIn("export_test.py:", self.check(self.save(Noise().train(), "noise.pt2")))


if __name__ == "__main__":
    run_tests()
