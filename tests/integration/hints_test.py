"""What a newcomer mistypes or does not know is answered with what to type.

Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/integration/hints_test.py
"""

import unittest

from processes import ProcessTest

JOB = "data: {name: digits, batch_per_rank: 8}\nlaunch: {nproc_per_node: 2}\n"


class Hints(ProcessTest):
    def setUp(self):
        super().setUp()
        (self.folder / "job.yaml").write_text(JOB)
        self.launcher = self.bin / "ddp-launch"

    def refused(self, *words, expect=2, **variables):
        return self.run_program(self.launcher, *words, expect=expect, **variables)

    def test_a_slip_names_the_verb_the_file_or_the_program(self):
        (self.folder / "train.py").touch()
        for words, (code, hint) in {
            ("statsu",): (127, "cannot start statsu: there is no such program on PATH, did you mean ddp-launch status? "),
            ("predcit", "runs/a"): (127, "did you mean ddp-worker predict?"),
            ("trian.py",): (127, "cannot start trian.py: no such file, did you mean train.py? "),
            ("./trian.py", "--lr", "1"): (127, "did you mean ./train.py?"),
            ("--no-python", "trian.py"): (127, "did you mean train.py?"),
            ("jbo.yaml",): (2, "cannot read job file, jbo.yaml: No such file or directory, did you mean job.yaml? "),
            ("nothing-near",): (127, "there is no such program on PATH. Give"),
        }.items():  # fmt: skip
            with self.subTest(words):
                self.assertIn(hint, self.refused(*words, expect=code))
        (self.folder / "statsu").touch(mode=0o755)
        self.assertIn("The file here is started as ./statsu.", self.refused("statsu", expect=127))

    def test_a_value_that_was_forgotten_is_asked_for(self):
        (self.folder / "train.py").touch()
        self.assertIn("--nproc-per-node needs a number, and train.py looks like the script.", self.refused("--nproc-per-node", "train.py", "--lr", "1"))
        self.assertIn("train.py is taken as the value of --role.", self.refused("--role", "train.py"))


if __name__ == "__main__":
    unittest.main()
