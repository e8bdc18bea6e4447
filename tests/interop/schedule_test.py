"""Our learning rates against torch.optim.lr_scheduler, step by step.

The tolerance is 1e-12 of the base rate: some of torch's schedulers multiply the last rate on and on, ours is a closed formula.
Run by hand: DDP_FILES_TOOL=... python3 tests/interop/schedule_test.py
"""

import unittest
import warnings

import torch
from torch.optim import lr_scheduler

from tools import files_tool, run_tests

STEPS = 40
BASE = 0.1


def rates_of_torch(make_scheduler):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=BASE)
    scheduler = make_scheduler(optimizer)
    rates = []
    for _ in range(STEPS):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


class Schedule(unittest.TestCase):
    def compare(self, name, warmup, make_scheduler):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # SequentialLR calls its parts in a way that they warn of
            expected = rates_of_torch(make_scheduler)
        ours = [float(line) for line in files_tool("schedule", name, STEPS, warmup).split()]
        self.assertEqual(len(ours), STEPS)
        for step, (rate, theirs) in enumerate(zip(ours, expected)):
            self.assertAlmostEqual(rate, theirs, delta=1e-12 * BASE, msg=f"{name}, step {step}")

    def test_constant(self):
        self.compare("constant", 0, lambda o: lr_scheduler.ConstantLR(o, factor=1))

    def test_step(self):
        self.compare("step", 0, lambda o: lr_scheduler.StepLR(o, step_size=7, gamma=0.3))

    def test_multistep(self):
        self.compare("multistep", 0, lambda o: lr_scheduler.MultiStepLR(o, milestones=[5, 11, 12], gamma=0.3))

    def test_cosine(self):
        self.compare("cosine", 0, lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=STEPS, eta_min=0.01))

    def test_polynomial(self):
        self.compare("polynomial", 0, lambda o: lr_scheduler.PolynomialLR(o, total_iters=STEPS, power=1.5))

    def test_one_cycle(self):
        self.compare(
            "one-cycle", 0, lambda o: lr_scheduler.OneCycleLR(o, max_lr=BASE, total_steps=STEPS, cycle_momentum=False)
        )

    def test_warm_up_then_cosine(self):
        def warm_up_then_cosine(optimizer):
            rise = lr_scheduler.LinearLR(optimizer, start_factor=1 / 8, total_iters=7)
            fall = lr_scheduler.CosineAnnealingLR(optimizer, T_max=STEPS - 8, eta_min=0.01)
            return lr_scheduler.SequentialLR(optimizer, [rise, fall], milestones=[8])

        self.compare("cosine", 8, warm_up_then_cosine)


if __name__ == "__main__":
    run_tests()
