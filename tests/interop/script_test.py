"""Models that Python has written as TorchScript, trained by ddp-worker and by Python's DDP: the same losses, and back to Python.

Run by hand: OMP_NUM_THREADS=1 DDP_BIN=build/release DDP_FILES_TOOL=... PYTHONPATH=tests/support python3 tests/interop/script_test.py
"""

import functools
import shutil
import unittest
import warnings

import torch
from python_nets import LAST, NETS, PAGE, NetLosses, PythonModelTest, net_called
from safetensors.torch import load_file
from tools import run_program, run_tests


class ScriptTest(PythonModelTest):
    KEY, FLAG = "model.script", "--script"

    @classmethod
    @functools.cache
    def file_of(cls, name):
        torch.manual_seed(7)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "torch.jit.script is deprecated"
            torch.jit.save(torch.jit.script(net_called(name)), cls.path / f"{name}.pt")
        return f"{name}.pt"


class Page(ScriptTest):
    """docs/any-model.md, as a reader follows it."""

    def test_a_model_of_ones_own_is_a_trained_file_in_python(self):
        self.assertIn("torch.Size([1, 10])", self.follow(PAGE.read_text(encoding="utf-8")))


class Losses(NetLosses, ScriptTest):
    """Against Python's DDP of the same script."""

    def test_vision_transformer(self):
        self.same_as_python("vit")

    def test_bf16_by_autocast_inside_the_interpreter(self):
        self.same_in_bf16("convnext")


class Runs(ScriptTest):
    """What every model can: resume, other numbers of ranks, verbs, and the way back to Python."""

    def test_a_resumed_run_has_the_same_losses_bit_for_bit(self):
        script = self.file_of("branches")
        # A schedule knows the last step. The last batch is smaller.
        steady = ["schedule.name=constant", "train.epochs=2", "data.train_size=650"]
        whole = self.launch(script, "whole", *steady)
        self.launch(script, "cut", *steady, "train.max_steps=13")
        both = self.launch(script, "cut", *steady)
        self.assertIn("resumes at step 13,", self.said)
        self.assertEqual(both, whole)

    def test_two_ranks_are_one_with_the_joined_batch(self):
        script = self.file_of("vit")  # without batch norms
        two = self.launch(script, "two", "data.batch_per_rank=null", "data.batch=32")
        one = self.launch(script, "one", "data.batch_per_rank=null", "data.batch=32", "launch.nproc_per_node=1")
        self.assert_same(two, one, 1e-5)

    def test_python_loads_what_was_trained_and_computes_the_same(self):
        script = self.file_of("branches")
        self.launch(script, "back")
        run_program(
            self.bin / "ddp-worker", "export", "back/net", "--script", script, "-o", "trained.pt", folder=self.path
        )
        trained = torch.jit.load(self.path / "trained.pt").eval()
        saved = load_file(self.path / "back" / "net" / LAST / "model.safetensors")
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
        self.frozen_layers_keep_their_weights("branches", "first.")

    def test_predict_and_eval(self):
        script = self.file_of("branches")
        self.launch(script, "seen")
        said = run_program(self.bin / "ddp-worker", "eval", "seen/net", folder=self.path)
        self.assertIn("test loss", said)

    def test_another_file_on_one_rank_is_refused(self):
        torch.manual_seed(9)
        shutil.copy(self.path / self.file_of("vit"), self.path / "one.pt")
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

    def test_outputs_that_are_not_named(self):
        said = self.refuses(self.file_of("branches"))
        self.assertIn("main [2x10], aux [2x10]", said)

    def test_an_output_that_it_does_not_have(self):
        said = self.check(self.file_of("branches"), "model.args.outputs.mian=1", expect=2)
        self.assertIn("main [2x10], aux [2x10]", said)

    def test_another_number_of_classes(self):
        said = self.refuses(self.file_of("vit"), "data.name=synthetic", "data.image_size=28", "data.args.channels=1")
        self.assertIn("torch.nn.Linear", said)

    def test_images_of_another_size(self):
        said = self.refuses(self.file_of("vit"), "data.name=synthetic", "data.image_size=32", "data.args.channels=1")
        self.assertIn("does not take images of 1x32x32", said)

    def test_casts_to_the_weights_16_bits(self):
        self.refuses_casts()

    def test_a_frozen_module_and_weights_alone(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.jit.save(torch.jit.freeze(torch.jit.script(NETS["vit"]().eval())), self.path / "frozen.pt")
        torch.save(NETS["vit"]().state_dict(), self.path / "state.pt")
        self.assertIn("torch.jit.freeze", self.refuses("frozen.pt"))
        self.assertIn("model.weights", self.refuses("state.pt"))

    def test_files_that_are_damaged(self):
        whole = (self.path / self.file_of("vit")).read_bytes()
        weight = whole.find(torch.jit.load(self.path / "vit.pt").class_token.detach().numpy().tobytes()) + 8
        flipped = whole[:weight] + bytes([whole[weight] ^ 1]) + whole[weight + 1 :]
        for number, damaged in enumerate([b"", b"not a zip", whole[:1000], whole[:-100], flipped]):
            (self.path / f"bad{number}.pt").write_bytes(damaged)
            with self.subTest(number):
                self.refuses(f"bad{number}.pt")

    def test_keys_that_are_for_other_models(self):
        for key in ("model.norm=sync", "model.name=resnet18", "model.stem=cifar"):
            said = self.check("x.pt", key, expect=2)
            self.assertIn(key.split("=")[0], said)

    def test_a_traced_module_says_that_its_mode_is_fixed(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.jit.save(torch.jit.trace(NETS["branches"]().eval(), torch.zeros(2, 1, 28, 28), strict=False), self.path / "traced.pt")
        said = self.check("traced.pt", "model.args.outputs.main=1")
        self.assertIn("stay in evaluation mode", said)


if __name__ == "__main__":
    run_tests()
