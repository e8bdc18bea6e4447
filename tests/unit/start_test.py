"""ddp-worker as pip installs it: in made-up environments it becomes the worker that fits the torch there, or says what is wrong.

Run by hand: DDP_START=build/release/ddp-worker-start python3 tests/unit/start_test.py
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

WORKER = '#!/bin/sh\nprintf "%s|%s|%s" "$0" "$*" "$LD_LIBRARY_PATH"\n'
PYTHON = f"python{sys.version_info[0]}.{sys.version_info[1]}"


class StartTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.prefix = pathlib.Path(folder.name, "it's an environment")

    def put_package(self, site, *releases):
        program = self.prefix / "bin/ddp-worker"
        program.parent.mkdir(parents=True)
        shutil.copy2(os.environ["DDP_START"], program)
        for release in releases:
            worker = self.prefix / site / f"ddp_worker/torch-{release}/bin/ddp-worker"
            worker.parent.mkdir(parents=True)
            worker.write_text(WORKER)
            worker.chmod(0o755)
        return self.prefix / site

    def put_torch(self, site, line):
        (site / "torch/lib").mkdir(parents=True)
        (site / "torch/lib/libtorch_cpu.so").touch()
        (site / "torch/version.py").write_text(f"from typing import Optional\n{line}\ndebug = False\n")

    def start(self, *arguments, cwd=None, **variables):
        given = {"PATH": os.environ["PATH"]} | variables
        run = subprocess.run([self.prefix / "bin/ddp-worker", *arguments], env=given, cwd=cwd, capture_output=True, text=True, check=False)
        return run.returncode, run.stdout, run.stderr

    def test_the_worker_of_the_minor_release_gets_the_arguments(self):
        for site in (f"lib/{PYTHON}/site-packages", "lib64/python3.9/site-packages", "local/lib/python3.11/dist-packages", "."):
            for version, chosen in (("2.15.0+cu132", "2.15"), ("2.11.7", "2.11")):
                with self.subTest(site=site, version=version):
                    place = self.put_package(site, "2.11", "2.15")
                    self.put_torch(place, f"__version__ = '{version}'")
                    worker = place / f"ddp_worker/torch-{chosen}/bin/ddp-worker"
                    self.assertEqual(self.start("job.yaml", "a b"), (0, f"{os.path.normpath(worker)}|job.yaml a b|", ""))
                    shutil.rmtree(self.prefix)

    def test_by_a_link_it_is_the_same(self):
        place = self.put_package(f"lib/{PYTHON}/site-packages", "2.15")
        self.put_torch(place, "__version__ = '2.15.0'")
        link = self.prefix / "link"
        link.symlink_to(self.prefix / "bin/ddp-worker")
        self.assertIn("torch-2.15/bin/ddp-worker||", subprocess.run([link], capture_output=True, text=True, check=True).stdout)

    def test_a_torch_that_is_not_served_is_one_line(self):
        for line, name in (
            ("__version__ = '2.10.0+cu130'", "2.10.0+cu130"), ("__version__ = '3.0'", "3.0"), ("__version__ = '2'", "2"),
            ("version = 1", "of an unknown version"), ("__version__ = '2.15", "of an unknown version"),
        ):  # fmt: skip
            with self.subTest(line):
                place = self.put_package(f"lib/{PYTHON}/site-packages", "2.11", "2.15")
                self.put_torch(place, line)
                said = f"ddp-worker: torch {name} is in {place}, served are 2.11, 2.15. Install one of these, or a ddp_worker that serves it.\n"
                self.assertEqual(self.start(), (2, "", said))
                shutil.rmtree(self.prefix)

    def test_without_a_torch_or_a_package_it_says_what_to_install(self):
        self.put_package(f"lib/{PYTHON}/site-packages", "2.11", "2.15")
        (self.prefix / "bin/python3").symlink_to("/usr/bin/python3")
        said = f"ddp-worker: there is no torch in the Python environment {self.prefix}. Install one that is served (2.11, 2.15): pip install torch\n"
        self.assertEqual(self.start(), (2, "", said))
        shutil.rmtree(self.prefix / "lib")
        code, _, text = self.start()
        self.assertEqual(code, 2)
        self.assertIn(f"there is no package ddp_worker in the site-packages of {self.prefix}. Install it again: pip install", text)

    def test_a_torch_elsewhere_is_found_by_the_environments_python(self):
        self.put_package(f"lib/{PYTHON}/site-packages", "2.15")
        (self.prefix / "bin/python3").symlink_to(sys.executable)
        other = self.prefix / "other"
        self.put_torch(other, "__version__ = '2.15.0'")
        (other / "torch/__init__.py").write_text("raise SystemExit('it is not imported')")
        (other / "nvidia/cu13/lib").mkdir(parents=True)
        code, text, errors = self.start(PYTHONPATH=str(other), LD_LIBRARY_PATH="/mine")
        self.assertEqual((code, errors), (0, ""))
        self.assertTrue(text.endswith(f"torch-2.15/bin/ddp-worker||{other}/torch/lib:{other}/nvidia/cu13/lib:/mine"), text)

    def test_files_that_are_links_into_a_cache_are_the_environments(self):
        cache = self.prefix / "cache"
        place = self.put_package(f"lib/{PYTHON}/site-packages", "2.15")
        self.put_torch(place, "__version__ = '2.15.0'")
        cache.mkdir()
        program, worker = self.prefix / "bin/ddp-worker", place / "ddp_worker/torch-2.15/bin/ddp-worker"
        for file in (program, worker):
            file.rename(cache / file.parent.parent.name)
            file.symlink_to(cache / file.parent.parent.name)
        self.assertEqual(self.start(), (0, f"{worker}||{place}/torch/lib", ""))

    def test_current_directory_is_not_used(self):
        self.put_package(f"lib/{PYTHON}/site-packages", "2.15")
        (self.prefix / "bin/python3").symlink_to(sys.executable)
        other, current = self.prefix / "other", self.prefix / "current"
        self.put_torch(other, "__version__ = '2.15.0'")
        (other / "torch/__init__.py").touch()
        self.put_torch(current, "__version__ = '2.11.0'")
        (current / "torch/__init__.py").touch()
        for name in ("contextlib", "types", "importlib", "sys"):
            (current / f"{name}.py").write_text(f"open({str(self.prefix / 'run')!r}, 'w')\n")
        code, text, errors = self.start(PYTHONPATH=str(other), cwd=current)
        self.assertEqual((code, errors), (0, ""))
        self.assertIn(f"||{other}/torch/lib", text)
        self.assertFalse((self.prefix / "run").exists())

    def test_output_of_python_s_start_is_ignored(self):
        self.put_package(f"lib/{PYTHON}/site-packages", "2.15")
        (self.prefix / "bin/python3").symlink_to(sys.executable)
        other = self.prefix / "other"
        self.put_torch(other, "__version__ = '2.15.0'")
        (other / "torch/__init__.py").touch()
        (other / "sitecustomize.py").write_text("print('hello', end='')")
        self.assertIn(f"||{other}/torch/lib", self.start(PYTHONPATH=str(other))[1])

    def test_packages_of_older_pythons_are_skipped(self):
        place = self.put_package("lib/python3.11/site-packages", "2.15")
        self.put_torch(place, "__version__ = '2.15.0'")
        for site, release in (("lib/python3.10/site-packages", "2.11"), ("lib/python3.9/site-packages", "2.11")):
            (self.prefix / site / f"ddp_worker/torch-{release}/bin").mkdir(parents=True)
        (self.prefix / "lib/python3.12/site-packages/ddp_worker").mkdir(parents=True)
        self.assertIn("python3.11/site-packages/ddp_worker/torch-2.15", self.start()[1])

    def test_a_worker_that_is_gone_is_to_be_installed_again(self):
        place = self.put_package(f"lib/{PYTHON}/site-packages", "2.15")
        self.put_torch(place, "__version__ = '2.15.0'")
        worker = place / "ddp_worker/torch-2.15/bin/ddp-worker"
        worker.unlink()
        said = f"ddp-worker: {worker} is missing. Install the package again: pip install --force-reinstall --no-deps ddp_worker\n"
        self.assertEqual(self.start(), (2, "", said))

    def test_a_torch_that_is_not_whole_is_one_line(self):
        place = self.put_package(f"lib/{PYTHON}/site-packages", "2.15")
        self.put_torch(place, "__version__ = '2.15.0+cu132'")
        (place / "torch/lib/libtorch_cpu.so").unlink()
        said = f"ddp-worker: torch 2.15.0+cu132 in {place} is not whole: libtorch_cpu.so is missing. Install it again: pip install --force-reinstall --no-deps torch==2.15.0\n"
        self.assertEqual(self.start(), (2, "", said))

    def test_a_torch_that_no_list_of_directories_can_name_is_one_line(self):
        self.put_package(f"lib/{PYTHON}/site-packages", "2.15")
        for name in ("on 1:2", "a;b"):
            other = self.prefix / name
            self.put_torch(other, "__version__ = '2.15.0'")
            python = self.prefix / "bin/python3"
            python.write_text(f"#!/bin/sh\necho 'torch is {str(other).replace(chr(39), chr(39) + chr(92) + chr(39) * 2)}/torch/__init__.py'\n")
            python.chmod(0o755)
            code, text, errors = self.start()
            self.assertEqual((code, text), (2, ""))
            self.assertRegex(errors, rf"\Addp-worker: torch is in {re.escape(str(other))}, and LD_LIBRARY_PATH, .* cannot hold a ':' or ';'\. .*\n\Z")
        # Beside the package it is found by the worker's own RPATH.
        shutil.rmtree(self.prefix)
        self.prefix = self.prefix.with_name("a:b")
        self.put_torch(self.put_package(f"lib/{PYTHON}/site-packages", "2.15"), "__version__ = '2.15.0'")
        self.assertEqual(self.start()[0], 0)

    def test_a_worker_that_cannot_be_started_is_one_line(self):
        place = self.put_package(f"lib/{PYTHON}/site-packages", "2.15")
        self.put_torch(place, "__version__ = '2.15.0'")
        worker = place / "ddp_worker/torch-2.15/bin/ddp-worker"
        worker.chmod(0o644)
        self.assertEqual(self.start(), (126, "", f"ddp-worker: cannot start {worker}: Permission denied\n"))


if __name__ == "__main__":
    unittest.main()
