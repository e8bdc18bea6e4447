"""Our optimizers, clipping, loss scale, EMA, loss and plateau schedule against Python's, fed with the same gradients.

In float32 the reference is torch.optim's fused form, which calls the same kernels: the numbers are equal bit for bit. In float64 it is
the plain form, an independent one: the tolerance of 1e-12 is for another order of rounding.
Run by hand: DDP_NUMBERS_TOOL=... python3 tests/interop/numbers_test.py
"""

import math
import pathlib
import tempfile
import unittest

import torch
from safetensors.torch import load_file, save_file

from tools import run_tests, run_tool

STEPS = 20
LR = 0.05
SHAPES = {"conv.weight": (4, 2, 3, 3), "head.bias": (7,), "head.weight": (7, 33), "norm.weight": (5,)}


def numbers_tool(*arguments) -> str:
    return run_tool("DDP_NUMBERS_TOOL", *arguments).decode()


def draw(dtype, overflows=()):
    """Start values and the gradients of each step, by the names that the tool wants."""
    generator = torch.Generator().manual_seed(5)
    tensors = {f"start/{name}": torch.randn(shape, dtype=dtype, generator=generator) for name, shape in SHAPES.items()}
    for step in range(STEPS):
        for name, shape in SHAPES.items():
            tensors[f"{step}/{name}"] = torch.randn(shape, dtype=dtype, generator=generator)
            if step in overflows and name == "head.bias":
                tensors[f"{step}/{name}"][3] = float("inf")
    return tensors


def run_ours(tensors, *job):
    (result,) = run_each((tensors, job))
    return result


def run_each(*cases):
    """What becomes of the tensors of each case by its job. All by one process, as starting it is slow."""
    with tempfile.TemporaryDirectory() as folder:
        words, targets = ["each"], []
        for number, (tensors, job) in enumerate(cases):
            source, target = pathlib.Path(folder) / f"{number}-in.safetensors", pathlib.Path(folder) / f"{number}-out.safetensors"
            save_file(tensors, source)
            words += ["step", source, target, f"optimizer.lr={LR}", *job, "/"]
            targets.append(target)
        numbers_tool(*words)
        return [load_file(target) for target in targets]


def run_python(tensors, make, clip=None, scaler=None, decay=None, ramp=None):
    """`make` takes the parameters by name and returns an optimizer."""
    parameters = {name: torch.nn.Parameter(tensors[f"start/{name}"].clone()) for name in SHAPES}
    optimizer = make(parameters)
    holder = torch.nn.ParameterDict({name.replace(".", "_"): one for name, one in parameters.items()})
    average = None
    ramped = {name: one.detach().clone() for name, one in parameters.items()}
    if decay is not None and ramp is None:
        average = torch.optim.swa_utils.AveragedModel(holder, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(decay))
        average.update_parameters(holder)  # the first call copies
    result = {}
    for step in range(STEPS):
        factor = scaler.scale(torch.ones(())) if scaler else 1
        for name, one in parameters.items():
            one.grad = tensors[f"{step}/{name}"] * factor
        if scaler:
            scaler.unscale_(optimizer)
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(parameters.values(), clip)
        if scaler:
            scaler.step(optimizer)
            scaler.update()
            result[f"scale/{step}"] = torch.tensor(scaler.get_scale(), dtype=torch.float64)
        else:
            optimizer.step()
        if average:
            average.update_parameters(holder)
        if ramp is not None:  # as ModelEMA of ultralytics
            now = decay * (1 - math.exp(-(step + 1) / ramp))
            for name, one in parameters.items():
                ramped[name] = ramped[name] * now + (1 - now) * one.detach()
    result |= {name: one.detach() for name, one in parameters.items()}
    if ramp is not None:
        result |= {f"ema/{name}": one for name, one in ramped.items()}
    if average:
        result |= {f"ema/{name}": average.module[name.replace(".", "_")].detach() for name in SHAPES}
    return result


def groups(parameters, weight_decay, head_factor=1.0):
    """One group per parameter: no decay for norms and biases, another rate for the head."""
    return [
        {
            "params": [one],
            "weight_decay": weight_decay if one.dim() > 1 else 0.0,
            "lr": LR * (head_factor if name.startswith("head.") else 1),
        }
        for name, one in parameters.items()
    ]


OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {}, ["optimizer.name=sgd", "optimizer.momentum=0"]),
    "sgd, momentum": (torch.optim.SGD, {"momentum": 0.9}, ["optimizer.name=sgd", "optimizer.momentum=0.9"]),
    "sgd, nesterov": (
        torch.optim.SGD,
        {"momentum": 0.9, "nesterov": True},
        ["optimizer.name=sgd", "optimizer.momentum=0.9", "optimizer.nesterov=true"],
    ),
    "adam": (
        torch.optim.Adam,
        {"betas": (0.8, 0.95), "eps": 1e-6},
        ["optimizer.name=adam", "optimizer.beta1=0.8", "optimizer.beta2=0.95", "optimizer.eps=1e-6"],
    ),
    "adamw": (torch.optim.AdamW, {}, ["optimizer.name=adamw"]),
}


class Optimizers(unittest.TestCase):
    def assert_near(self, ours, theirs, tolerance=None):
        self.assertEqual(set(ours), set(theirs))
        for name, one in theirs.items():
            if tolerance is None:
                self.assertTrue(torch.equal(ours[name], one), f"{name}: {(ours[name] - one).abs().max()}")
            else:
                torch.testing.assert_close(ours[name], one, rtol=tolerance, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}")

    def compare(self, job, make_plain, **how):
        """`make_plain` takes the parameters and the keyword arguments that choose the form."""
        exact, single = draw(torch.float64), draw(torch.float32)
        ours = run_each((exact, job), (single, job))
        self.assert_near(ours[0], run_python(exact, lambda p: make_plain(p, foreach=False), **how), 1e-12)
        self.assert_near(ours[1], run_python(single, lambda p: make_plain(p, fused=True), **how))

    def test_every_optimizer_with_weight_decay(self):
        for name, (kind, arguments, job) in OPTIMIZERS.items():
            with self.subTest(name):
                self.compare(
                    [*job, "optimizer.weight_decay=0.02"],
                    lambda p, kind=kind, arguments=arguments, **form: kind(p.values(), lr=LR, weight_decay=0.02, **arguments, **form),
                )

    def test_groups_without_decay_and_with_rates_of_their_own(self):
        for name, (kind, arguments, job) in OPTIMIZERS.items():
            with self.subTest(name):
                self.compare(
                    [
                        *job,
                        "optimizer.weight_decay=0.02",
                        "optimizer.decay_norms_and_biases=false",
                        'optimizer.lr_factors={"head.*": 0.25}',
                    ],
                    lambda p, kind=kind, arguments=arguments, **form: kind(groups(p, 0.02, 0.25), lr=LR, **arguments, **form),
                )

    def test_clipping(self):
        # A limit that is a power of two: Python multiplies by a reciprocal where we divide, which is else the last bit.
        self.compare(
            ["train.clip_norm=0.5", "optimizer.weight_decay=0"],
            lambda p, **form: torch.optim.SGD(p.values(), lr=LR, momentum=0.9, **form),
            clip=0.5,
        )

    def test_a_moving_average_of_the_weights(self):
        self.compare(
            ["optimizer.ema_decay=0.9", "optimizer.weight_decay=0"],
            lambda p, **form: torch.optim.SGD(p.values(), lr=LR, momentum=0.9, **form),
            decay=0.9,
        )

    def test_a_moving_average_whose_decay_grows(self):
        tensors = draw(torch.float64)
        ours = run_ours(tensors, "optimizer.ema_decay=0.9", "optimizer.ema_ramp=7", "optimizer.weight_decay=0")
        theirs = run_python(
            tensors, lambda p: torch.optim.SGD(p.values(), lr=LR, momentum=0.9, foreach=False), decay=0.9, ramp=7
        )
        self.assert_near(ours, theirs, 1e-12)

    def test_overflows_are_skipped_as_by_grad_scaler(self):
        # Not against the fused form: its momentum is garbage after an overflow in the first step.
        tensors = draw(torch.float64, overflows=(0, 7, 8))
        more = ("optimizer.weight_decay=0.02", "train.clip_norm=5", "amp.level=O1", "amp.dtype=fp16")
        results = run_each(*((tensors, [*job, *more]) for _, _, job in OPTIMIZERS.values()))
        for (name, (kind, arguments, _)), ours in zip(OPTIMIZERS.items(), results, strict=True):
            with self.subTest(name):
                theirs = run_python(
                    tensors,
                    lambda p, kind=kind, arguments=arguments: kind(p.values(), lr=LR, weight_decay=0.02, foreach=False, **arguments),
                    clip=5,
                    scaler=torch.amp.GradScaler("cpu"),
                )
                self.assert_near(ours, theirs, 1e-12)
                self.assertEqual(ours["scale/8"], 65536 / 8)


class Losses(unittest.TestCase):
    def test_label_smoothing(self):
        generator = torch.Generator().manual_seed(6)
        scores = torch.randn((9, 11), generator=generator)
        labels = torch.randint(11, (9,), generator=generator)
        for smoothing in (0, 0.1, 1):
            with self.subTest(smoothing), tempfile.TemporaryDirectory() as folder:
                source, target = pathlib.Path(folder) / "in.safetensors", pathlib.Path(folder) / "out.safetensors"
                save_file({"scores": scores, "labels": labels}, source)
                numbers_tool("loss", source, target, smoothing)
                ours = load_file(target)
                leaf = scores.clone().requires_grad_(True)
                theirs = torch.nn.functional.cross_entropy(leaf, labels, label_smoothing=smoothing)
                theirs.backward()
                self.assertTrue(torch.equal(ours["loss"], theirs.detach()))
                self.assertTrue(torch.equal(ours["gradient"], leaf.grad))


class Plateau(unittest.TestCase):
    def rates(self, mode, factor, patience, threshold, min_lr, results):
        """Python's after each result."""
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=LR)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, mode, factor=factor, patience=patience, threshold=threshold, min_lr=min_lr
        )
        theirs = []
        for result in results:
            scheduler.step(result)
            theirs.append(optimizer.param_groups[0]["lr"])
        return theirs

    def test_rates_fall_as_those_of_reduce_lr_on_plateau(self):
        generator = torch.Generator().manual_seed(8)
        noise = torch.rand(120, generator=generator, dtype=torch.float64)
        falling = [(1 / (1 + i) + 0.2 * x).item() for i, x in enumerate(noise)]
        rules = ((0.1, 10, 1e-4, 0), (0.5, 0, 1e-4, 1e-3), (0.7, 3, 0.05, 0), (0.1, 1, 1e-4, 2e-9))
        for mode, results in (("min", falling), ("max", [1 - x for x in falling])):
            results = [*results, float("nan"), *results[:5]]
            words = [word for rule in rules for word in ("plateau", mode, *rule, LR, *results, "/")]
            ours = [float(line) for line in numbers_tool("each", *words).split()]
            theirs = [(rule, step, rate) for rule in rules for step, rate in enumerate(self.rates(mode, *rule, results))]
            self.assertEqual(len(ours), len(theirs))
            for a, (rule, step, b) in zip(ours, theirs, strict=True):
                self.assertTrue(math.isclose(a, b, rel_tol=1e-12), f"{mode} {rule}, result {step}: {a} {b}")


if __name__ == "__main__":
    run_tests()
