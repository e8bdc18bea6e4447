"""How the scale of torch.amp.GradScaler moves, as lines for tests/unit/loss_scale_test.cpp.

Each line: growth interval, steps, the steps that overflow | step:scale for the start and each step after which the scale is another one.
Run by hand, with a Python that imports torch: python3 tests/interop/make_grad_scaler_vectors.py > tests/unit/grad_scaler_vectors.txt
"""

import random

import torch

RANDOM = random.Random(7)
# Mixed, the default interval, one overflow after another, and up to the largest scale.
CASES = [
    (4, 120, sorted(RANDOM.sample(range(120), 20))),
    (1, 40, [0, 5, 6, 7, 20]),
    (2000, 6200, [0, 1, 2500, 4501]),
    (5, 60, list(range(40))),
    (1, 140, []),
]


def scales(interval, steps, overflows):
    weight = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler("cpu", growth_interval=interval)
    scaler.scale(torch.ones(()))  # makes its tensors
    yield 0, scaler.get_scale()
    last = scaler.get_scale()
    for step in range(steps):
        weight.grad = torch.full_like(weight, float("inf") if step in overflows else 1.0)
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() != last:
            last = scaler.get_scale()
            yield step + 1, last


def lines():
    for interval, steps, overflows in CASES:
        moves = " ".join(f"{step}:{scale!r}" for step, scale in scales(interval, steps, overflows))
        yield f"{interval} {steps} {' '.join(map(str, overflows))} | {moves}".replace("  ", " ")


if __name__ == "__main__":
    for line in lines():
        print(line)
