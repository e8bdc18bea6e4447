"""The built-in digits are worth training on: a linear model stays clearly under the convnet, which solves them.

Both train with Python's torch on what we draw. Measured for seed 1: linear 0.80, convnet 0.99; the bounds leave room for other
kernels and thread counts. Run by hand: DDP_FILES_TOOL=... python3 tests/interop/digits_test.py
"""

import math
import unittest

import torch
from torch import nn

from tools import files_tool, run_tests

BATCH = 128


def draw(split, count):
    raw = torch.frombuffer(bytearray(files_tool("digits", 1, split, count)), dtype=torch.uint8)
    pixels = raw[count:].reshape(count, 1, 28, 28).float() / 255
    return (pixels - 0.163) / 0.23, raw[:count].long()


def train(model, lr, epochs, train_set, test_set):
    images, labels = train_set
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4)
    steps, step = len(images) // BATCH * epochs, 0
    for _ in range(epochs):
        for batch in torch.randperm(len(images))[: len(images) // BATCH * BATCH].split(BATCH):
            warm_up = min(1, (step + 1) / (steps // epochs))
            optimizer.param_groups[0]["lr"] = lr * warm_up * (1 + math.cos(math.pi * step / steps)) / 2
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()
            step += 1
    with torch.no_grad():
        return (model(test_set[0]).argmax(1) == test_set[1]).float().mean().item()


class Digits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.manual_seed(1)
        torch.set_num_threads(1)
        cls.train_set, cls.test_set = draw("train", 12000), draw("test", 2000)

    def test_linear_model_stays_under_the_convnet(self):
        linear = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
        accuracy = train(linear, 0.02, 3, self.train_set, self.test_set)
        self.assertLess(accuracy, 0.88)
        self.assertGreater(accuracy, 0.7)

    def test_convnet_solves_them_in_two_epochs(self):
        convnet = nn.Sequential(
            nn.Conv2d(1, 24, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(24, 32, 3), nn.MaxPool2d(2), nn.ReLU(),
            nn.Flatten(), nn.Linear(800, 256), nn.ReLU(), nn.Linear(256, 10),
        )  # fmt: skip
        self.assertGreater(train(convnet, 0.05, 2, self.train_set, self.test_set), 0.98)


if __name__ == "__main__":
    run_tests()
