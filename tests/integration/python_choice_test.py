"""Which Python runs a script: that of the launcher's environment, of the active one, of the script's first line, or of the PATH.

Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/integration/python_choice_test.py
"""

import os
import re
import shutil
import subprocess
import sys
import unittest

from processes import ProcessTest

# Name: where the launcher is, variables, first line of the script, which Python is chosen and what names it, and what is said besides.
# Names of environments stand for their directories: "{venv}". The PATH is "{system}/bin", but where a row has another one.
BESIDE = "beside ddp-launch"
LINE = "the first line of train.py"
TABLE = {
    "nothing names one": ("opt", {}, "", "{system}/bin/python3", "PATH", None),
    "the launcher is in a venv": ("venv", {}, "", "{venv}/bin/python3", BESIDE, "not {system}/bin/python3 of the PATH"),
    "in a venv that is first on the PATH": ("venv", {"PATH": "{venv}/bin:{system}/bin"}, "", "{venv}/bin/python3", "PATH", None),
    "in an environment of conda": ("conda", {}, "", "{conda}/bin/python3", BESIDE, "not {system}"),
    "in a bin that is no environment's": ("system", {"PATH": "{other}/bin"}, "", "{other}/bin/python3", "PATH", None),
    "there, and a venv is active": ("system", {"VIRTUAL_ENV": "{venv}"}, "", "{venv}/bin/python3", "VIRTUAL_ENV", "not {system}"),
    "a venv is active": ("opt", {"VIRTUAL_ENV": "{venv}"}, "", "{venv}/bin/python3", "VIRTUAL_ENV", "not {system}"),
    "it is active by the PATH, too": ("opt", {"VIRTUAL_ENV": "{venv}", "PATH": "{venv}/bin"}, "", "{venv}/bin/python3", "PATH", None),
    "conda is active": ("opt", {"CONDA_PREFIX": "{conda}"}, "", "{conda}/bin/python3", "CONDA_PREFIX", "not {system}"),
    "both are": ("opt", {"CONDA_PREFIX": "{conda}", "VIRTUAL_ENV": "{venv}"}, "", "{venv}/bin/python3", "VIRTUAL_ENV", "not {system}"),
    "the launcher's before the active one": ("conda", {"VIRTUAL_ENV": "{venv}"}, "", "{conda}/bin/python3", BESIDE, "not {system}"),
    "the active one was removed": ("opt", {"VIRTUAL_ENV": "{gone}"}, "", "{system}/bin/python3", "PATH", "VIRTUAL_ENV={gone} has no Python"),
    "removed, and conda is active": (
        "opt", {"VIRTUAL_ENV": "{gone}", "CONDA_PREFIX": "{conda}"}, "", "{conda}/bin/python3", "CONDA_PREFIX", "VIRTUAL_ENV={gone} has no Python"
    ),
    "the variable is empty": ("opt", {"VIRTUAL_ENV": ""}, "", "{system}/bin/python3", "PATH", None),
    "a broken link beside it": ("broken", {}, "", "{system}/bin/python3", "PATH", None),
    "a broken link, and a venv is active": ("broken", {"VIRTUAL_ENV": "{venv}"}, "", "{venv}/bin/python3", "VIRTUAL_ENV", "not {system}"),
    "one that is not executable": ("opt", {"VIRTUAL_ENV": "{closed}"}, "", "{system}/bin/python3", "PATH", "VIRTUAL_ENV={closed} has no Python"),
    "a python, and no python3": ("plain", {}, "", "{plain}/bin/python", BESIDE, "not {system}"),
    "PYTHON_EXEC before all": ("venv", {"PYTHON_EXEC": "{other}/bin/python3"}, "", "{other}/bin/python3", "PYTHON_EXEC", None),
    "the script's first line": ("opt", {}, "#!{other}/bin/python3 -O", "{other}/bin/python3", LINE, "not {system}"),
    "by env": ("opt", {"PATH": "{system}/bin:{other}/bin"}, "#!/usr/bin/env -S A=1 python3.9", "{other}/bin/python3.9", LINE, "not {system}"),
    "by env, the usual one": ("opt", {}, "#!/usr/bin/env python3", "{system}/bin/python3", "PATH", None),
    "one that is not there": ("opt", {}, "#!{gone}/bin/python3", "{system}/bin/python3", "PATH", None),
    "a shell's": ("opt", {}, "#!/bin/sh", "{system}/bin/python3", "PATH", None),
    "a venv is active, and a first line": ("opt", {"VIRTUAL_ENV": "{venv}"}, "#!{other}/bin/python3", "{venv}/bin/python3", "VIRTUAL_ENV", "not"),
    "none on the PATH": ("opt", {"VIRTUAL_ENV": "{venv}", "PATH": "{gone}"}, "", "{venv}/bin/python3", "VIRTUAL_ENV", "not one of the PATH"),
    "the launcher is a link to one in a venv": ("link", {}, "", "{venv}/bin/python3", BESIDE, "not {system}"),
}


class Choice(ProcessTest):
    def setUp(self):
        super().setUp()
        names = ("system", "other", "venv", "conda", "broken", "closed", "plain", "opt", "link")
        self.places = {name: str(self.folder / name) for name in (*names, "gone")}
        for name in names:
            (self.folder / name / "bin").mkdir(parents=True)
        for name in ("venv", "broken", "closed", "plain"):
            (self.folder / name / "pyvenv.cfg").touch()
        (self.folder / "conda" / "conda-meta").mkdir()
        for file in ("system/bin/python3", "other/bin/python3", "other/bin/python3.9", "venv/bin/python3", "conda/bin/python3", "plain/bin/python"):
            self.make_program(file)
        self.make_program("closed/bin/python3").chmod(0o644)
        (self.folder / "broken/bin/python3").symlink_to("/nowhere/python3")
        shutil.copy(self.bin / "ddp-launch", self.folder / "opt/bin")
        for name in ("system", "venv", "conda", "broken", "plain"):
            os.link(self.folder / "opt/bin/ddp-launch", self.folder / name / "bin/ddp-launch")
        (self.folder / "link/bin/ddp-launch").symlink_to(self.folder / "venv/bin/ddp-launch")
        self.environment = {name: text for name, text in self.environment.items() if name not in ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHON_EXEC")}

    def make_program(self, file, does=""):
        path = self.folder / file
        path.write_text(f"#!/bin/sh\n{does}\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    def plan(self, launcher, variables, *words, check=True):
        environment = {**self.environment, "PATH": self.places["system"] + "/bin", **variables}
        command = [self.folder / launcher / "bin/ddp-launch", "--dry-run", *words]
        return subprocess.run(command, env=environment, cwd=self.folder, capture_output=True, text=True, check=check)

    def test_each_environment_s_own_python_runs_the_script(self):
        for name, (launcher, variables, first_line, python, source, note) in TABLE.items():
            with self.subTest(name):
                fill = lambda text: text.format(**self.places)  # noqa: E731
                (self.folder / "train.py").write_text(fill(first_line) + "\n", encoding="utf-8")
                done = self.plan(launcher, {variable: fill(text) for variable, text in variables.items()}, "train.py")
                self.assertIn(f"python: {fill(python)} ({source})\n", done.stdout)
                self.assertIn(f"  command: {fill(python)} -u train.py\n", done.stdout)
                if note is None:
                    self.assertEqual(done.stderr, "")
                else:
                    self.assertIn(fill(note), done.stderr)
                if source not in ("PATH", "PYTHON_EXEC"):
                    self.assertIn(f"ddp-launch: python: {fill(python)} ({source}), ", done.stderr)

    def test_a_module_has_no_first_line(self):
        (self.folder / "train").write_text(f"#!{self.places['other']}/bin/python3\n", encoding="utf-8")
        self.assertIn("bin/python3 (PATH)\n", self.plan("opt", {}, "-m", "train").stdout)

    def test_a_venv_is_the_one_that_runs_though_it_is_not_active(self):
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.folder / ".venv"], check=True)
        shutil.copy(self.bin / "ddp-launch", self.folder / ".venv/bin")
        (self.folder / "train.py").write_text("import sys; print(sys.prefix)", encoding="utf-8")
        text = self.run_program(self.folder / ".venv/bin/ddp-launch", "train.py")
        self.assertIn(f"[0:0] {self.folder}/.venv\n", text)

    def test_xpus_are_those_that_its_torch_counts(self):
        words = ("--nproc-per-node=xpu", "train.py")
        (self.folder / "train.py").touch()
        python = self.make_program("venv/bin/python3", 'echo noise; case "$2" in *torch.xpu.device_count*) echo "devices: 3";; esac')
        self.assertIn("workers: 3, one per XPU (xpu)\n", self.plan("venv", {}, *words).stderr)
        question = f"{python} -c 'import torch; print(torch.xpu.device_count())'"
        for does, why in (
            ("echo devices: 0", f"the torch of {python} sees none: {question} says 0"),
            ("echo devices: many", f"{python} cannot tell. Try: {question}"),
            ("exit 1", f"{python} cannot tell. Try: {question}"),
        ):
            with self.subTest(does):
                self.make_program("venv/bin/python3", does)
                refused = self.plan("venv", {}, *words, check=False)
                self.assertEqual(refused.returncode, 2)
                self.assertIn(f"--nproc-per-node: xpu: {why}. Give a number or cpu.", refused.stderr)
        (self.folder / "job.yaml").write_text("data: {name: digits, batch_per_rank: 8}\nmodel: {name: fast}\n", encoding="utf-8")
        refused = self.plan("venv", {}, "--nproc-per-node=xpu", "job.yaml", check=False)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("xpu: only the torch of a Python script can count them. Give a number", refused.stderr)
        self.make_program("venv/bin/python3", 'echo "devices: $MASK"')
        (self.folder / "masked.yaml").write_text("data: {batch_per_rank: 8}\nlaunch: {program: train.py, nproc_per_node: xpu, env: {MASK: 2}}\n", encoding="utf-8")
        masked = self.plan("venv", {}, "masked.yaml")
        self.assertIn("workers: 2, one per XPU (xpu)\n", masked.stderr)
        self.assertIn("device: xpu:1", masked.stdout)

    def test_pythons_with_torch_are_named_when_it_is_missing(self):
        site = self.folder / ".venv/lib/python3.11/site-packages/torch"
        site.mkdir(parents=True)
        (site / "__init__.py").touch()
        (self.folder / ".venv/bin").mkdir()
        python = self.make_program(".venv/bin/python3")
        (self.folder / "train.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")", encoding="utf-8")
        text = self.run_program(self.bin / "ddp-launch", "train.py", expect=1, PATH=os.path.dirname(sys.executable))
        hint = rf"hint +: .*/python3 ran it, and has no torch; (\S+, )*{re.escape(str(python))} has it: .* PYTHON_EXEC={re.escape(str(python))}"
        self.assertRegex(text, hint)


if __name__ == "__main__":
    unittest.main()
