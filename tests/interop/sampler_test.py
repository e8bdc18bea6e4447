"""The vectors of tests/unit/shard_test.cpp are what the installed torch's DistributedSampler chooses.

Run by hand: python3 tests/interop/sampler_test.py
"""

import pathlib
import unittest

import make_sampler_vectors
from tools import run_tests

STORED = pathlib.Path(__file__).resolve().parent.parent / "unit" / "sampler_vectors.txt"


class Sampler(unittest.TestCase):
    def test_stored_vectors_are_those_of_this_torch(self):
        self.assertEqual(STORED.read_text().splitlines(), list(make_sampler_vectors.lines()))


if __name__ == "__main__":
    run_tests()
