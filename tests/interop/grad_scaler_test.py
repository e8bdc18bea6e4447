"""The vectors of tests/unit/loss_scale_test.cpp are how the installed torch's GradScaler moves its scale.

Run by hand: python3 tests/interop/grad_scaler_test.py
"""

import pathlib
import unittest

import make_grad_scaler_vectors
from tools import run_tests

STORED = pathlib.Path(__file__).resolve().parent.parent / "unit" / "grad_scaler_vectors.txt"


class GradScaler(unittest.TestCase):
    def test_stored_vectors_are_those_of_this_torch(self):
        self.assertEqual(STORED.read_text().splitlines(), list(make_grad_scaler_vectors.lines()))


if __name__ == "__main__":
    run_tests()
