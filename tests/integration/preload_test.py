"""--preload: a rank that is a copy of a template does what a rank does that was started by itself.

Each script runs without and with --preload; output, exit code and environment are compared. A module named `heavy` notes each process that
imports it, so a test sees whether the ranks were copies. DDP_PYTHON: a Python with torch, for the suite Torch.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

import processes
from preload_scripts import ALLREDUCE, ARGUMENTS, AT_EXIT, BAD_MODULES, COMPILED, DRAWS, HEAVY, INPUT, LAST, LOADER, ONLY_THERE, PRINTS, SCRIPTS, TAKEN_DOWN, WARNS


class PreloadTest(processes.ProcessTest):
    python = sys.executable
    idle = "0s"

    def setUp(self):
        super().setUp()
        runtime = self.folder / "runtime"
        runtime.mkdir(mode=0o700)
        self.environment |= {"XDG_RUNTIME_DIR": str(runtime), "DDP_PRELOAD_IDLE": self.idle}
        self.addCleanup(self.warm, "--stop")
        self.library = self.folder / "library"
        self.library.mkdir()
        self.imports = self.folder / "imports"
        (self.library / "heavy.py").write_text(HEAVY)
        (self.folder / "beside.py").write_text("VALUE = 7\n")
        self.environment |= {"PYTHON_EXEC": self.python, "PYTHONPATH": str(self.library), "IMPORTS": str(self.imports),
                             "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "1"}  # fmt: skip

    def launch(self, *words, text="", limit=120, **variables):
        """Returns the exit code, the lines of the ranks, sorted, and those of the launcher."""
        self.imports.write_text("")
        done = subprocess.run(
            [self.bin / "ddp-launch", *map(str, words)], input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**self.environment, **variables}, cwd=self.folder, timeout=limit)  # fmt: skip
        lines = re.sub(r"0x[0-9a-f]+", "0x", done.stdout).splitlines()
        return done.returncode, sorted(line for line in lines if line.startswith("[")), [line for line in lines if line.startswith("ddp-launch")]

    def said_of_the_job(self, launched):
        """What the launcher says with and without --preload. A busy machine imports for long."""
        return [line for line in launched[2] if "pid" not in line and "(--preload) ..." not in line]

    def warm(self, *words):
        """The lines of `ddp-launch warm`."""
        done = subprocess.run([self.bin / "ddp-launch", "warm", *words], stdout=subprocess.PIPE, text=True, env=self.environment, check=True)
        return done.stdout.splitlines()

    def template(self):
        """The pid of the only warm template."""
        (line,) = self.warm()
        return int(re.match(r"pid (\d+): ", line)[1])

    def until(self, is_so, what, limit=20):
        deadline = time.monotonic() + limit
        while not is_so():
            self.assertLess(time.monotonic(), deadline, what)

    def importers(self):
        return self.imports.read_text().split()

    def script(self, text, name="script.py"):
        (self.folder / name).write_text(text)
        return name


class Scripts(PreloadTest):
    seen_by_imports = "sys.argv[1:]"

    def compare(self, name, *words, flags=()):
        text = INPUT.get(name, "")
        cold = self.launch(*flags, *words, text=text)
        warm = self.launch(*flags, "--preload", "heavy,json", *words, text=text)
        self.assertEqual(len(self.importers()), 1, warm)
        self.assertEqual(self.said_of_the_job(warm), self.said_of_the_job(cold))
        self.assertEqual(warm[:2], cold[:2])

    def test_a_copy_does_what_a_start_does(self):
        for name, text in SCRIPTS.items():
            with self.subTest(name):
                self.compare(name, self.script(text), *ARGUMENTS.get(name, []))

    def test_a_module_too(self):
        package = self.folder / "parts"
        package.mkdir()
        (package / "__init__.py").write_text("print('package', __name__)\n")
        (package / "__main__.py").write_text(
            "import sys\nfrom . import other\nprint(sys.argv, sys.path[0], __spec__.name, __package__, sys.flags)\nother.fail()\n")
        (package / "other.py").write_text("def fail():\n    raise KeyError('x')\n")
        self.compare("module", "-m", "parts", "a", "-b")
        self.compare("module", "-m", "parts.other")

    def test_two_ranks_and_their_flags(self):
        script = self.script("import os, sys; print(sys.argv, os.environ['LOCAL_RANK'], os.environ['OMP_NUM_THREADS'])")
        self.compare("two", script, "${local_rank}", "x", flags=("--nproc-per-node", 2, "--append-local-rank"))
        self.compare("two", script, flags=("--nproc-per-node", 2, "--numa-binding", "exclusive"))

    def test_each_rank_prints_what_an_import_prints(self):
        (self.library / "heavy.py").write_text(HEAVY + "import sys\nprint('loud')\nprint('louder', file=sys.stderr)\n")
        self.compare("printing", self.script("import heavy"), flags=("--nproc-per-node", 2))

    def test_each_rank_has_the_variables_an_import_sets(self):
        (self.library / "heavy.py").write_text(HEAVY + "os.environ['SET_BY_HEAVY'] = '1'\nos.environ.pop('TAKEN_BY_HEAVY', None)\n")
        self.environment["TAKEN_BY_HEAVY"] = "1"
        self.compare("environment", self.script("import heavy, os; print([n for n in os.environ if n.endswith('_HEAVY')])"))

    def test_imports_are_not_taken_down(self):
        (self.library / "heavy.py").write_text(HEAVY + TAKEN_DOWN)
        thread = "import heavy, threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()"
        for text, lines in {"import heavy": [], "import gc\ngc.unfreeze()": ["[0:0] taken down"], thread: ["[0:0] taken down"]}.items():
            with self.subTest(text):
                self.assertEqual(self.launch("--preload", "heavy", self.script(text))[:2], (0, lines))

    def test_what_the_script_has_made_ends_as_in_a_start(self):
        script = self.script(WARNS + "file = open('script.py')\ndef use(): return file")
        self.assertEqual(self.launch("--preload", "json", script)[:2], self.launch(script)[:2])
        lines = self.launch("--preload", "json", self.script(WARNS + "json.folder = os.scandir('/')"))[1]
        self.assertIn("unclosed scandir iterator", "".join(lines))

    def test_exit_handlers_of_what_auto_takes_are_left_out(self):
        (self.library / "numpy.py").write_text(AT_EXIT.format(text="of the import"))
        script = self.script("import numpy\n" + AT_EXIT.format(text="of the script") + PRINTS + "raise SystemExit(2)")
        of_script = ["[0:0] of the script", "[0:0] printed", "[0]:"]
        of_all = ["[0:0] of the import", *of_script]
        self.assertEqual(self.launch(script)[:2], (2, of_all))
        self.assertEqual(self.launch("--preload", "numpy", script)[:2], (2, of_script))
        for name, variables in {"numpy,json": {}, "numpy": {"LD_PRELOAD": "libc.so.6"}}.items():
            self.assertEqual(self.launch("--preload", name, script, **variables)[:2], (2, of_all))

    def test_ranks_draw_different_numbers(self):
        script = self.script("import multiprocessing, random, os; print(random.random(), multiprocessing.current_process().authkey.hex())")
        _, lines, _ = self.launch("--nproc-per-node", 2, "--preload", "heavy,random,multiprocessing", script)
        self.assertEqual(len(self.importers()), 1)
        self.assertEqual(len({word for line in lines for word in line.split()[1:]}), 4, lines)

    def test_a_sitecustomize_of_the_users_own_runs(self):
        for name, text in {"prints": f"import sys; print('customized', {self.seen_by_imports})", "fails": "raise ValueError('own')"}.items():
            with self.subTest(name):
                (self.library / "sitecustomize.py").write_text(text)
                self.compare(name, self.script("import sys; print('sitecustomize' in sys.modules)"), "x")

    def test_a_long_import_is_announced(self):
        line = "ddp-launch: importing heavy, json once for all ranks (--preload) ..."
        self.script("print('hello')")
        (self.library / "heavy.py").write_text("import time\ntime.sleep(2.5)\n")
        self.assertEqual(self.launch("--preload", "heavy,json", "script.py")[2].count(line), 1)

    def test_a_long_import_is_no_hang(self):
        (self.library / "heavy.py").write_text(HEAVY + "import time\ntime.sleep(3)\n")
        code, lines, _ = self.launch("--hang-timeout", "1s", "--nproc-per-node", 2, "--preload", "heavy", self.script("import heavy; print('hello')"))
        self.assertEqual((code, lines), (0, ["[0:0] hello", "[0:1] hello"]))

    def test_each_round_is_copied(self):
        script = self.script("import os, sys; print(os.environ['TORCHELASTIC_RESTART_COUNT'], os.environ['RANK'])\n"
                             "sys.exit(os.environ['TORCHELASTIC_RESTART_COUNT'] != '2')")  # fmt: skip
        code, lines, said = self.launch("--nproc-per-node", 2, "--max-restarts", 2, "--preload", "heavy", script)
        self.assertEqual((code, len(self.importers())), (0, 1), said)
        for restart in range(3):
            self.assertIn(f"[0:0] {restart} 0", lines)

    def test_by_variable_and_job_file(self):
        script = self.script("print('hello')")
        self.assertEqual(self.launch(script, DDP_PRELOAD="heavy")[0], 0)
        self.assertEqual(len(self.importers()), 1)
        (self.folder / "job.yaml").write_text(f"launch: {{preload: [heavy], program: {script}}}\ndata: {{batch_per_rank: 1}}\n")
        self.assertEqual(self.launch("job.yaml")[0], 0)
        self.assertEqual(len(self.importers()), 1)


class WarmScripts(Scripts):
    """The same with a template that an earlier job has left."""

    idle = "60s"
    seen_by_imports = "'x'"  # no arguments

    def compare(self, name, *words, flags=()):
        if name in ("session", "names"):  # its parent and its command line are the template's
            return
        text = INPUT.get(name, "")
        cold = self.launch(*flags, *words, text=text)
        for job in ("first", "second"):
            warm = self.launch(*flags, "--preload", "heavy,json", *words, text=text)
            self.assertEqual(self.said_of_the_job(warm), self.said_of_the_job(cold), job)
            self.assertEqual(warm[:2], cold[:2], job)
        self.assertEqual(self.importers(), [], warm)


class Refusals(PreloadTest):
    def expect(self, line, *words, code=0, lines=("[0:0] hello",), **variables):
        """The job runs as without --preload, and one line says why."""
        got, printed, said = self.launch(*words, **variables)
        told = [text for text in said if "preload:" in text]
        self.assertEqual((got, printed, len(told)), (code, list(lines), 1), said)
        self.assertIn(line, told[0])
        self.assertTrue(told[0].endswith("; starting without it"), told[0])

    def test_a_module_that_makes_it_unfit_is_named(self):
        script = self.script("import heavy; open('ran', 'a').write('once '); print('hello')")
        for name, (text, line) in BAD_MODULES.items():
            with self.subTest(name):
                (self.folder / "ran").unlink(missing_ok=True)
                (self.library / "bad.py").write_text(ONLY_THERE.format(text=text))
                begin = time.monotonic()
                self.expect(line, "--preload", "heavy,bad", script)
                self.assertLess(time.monotonic() - begin, 30)
                self.check_nothing_lives()
                self.assertEqual((self.folder / "ran").read_text(), "once ")

    def test_a_copy_that_is_given_up_does_not_run_the_script(self):
        text = "import time\nleft = [3.5]\nsys.addaudithook(lambda event, _: time.sleep(left.pop()) if event == 'os.putenv' and left else None)"
        (self.library / "bad.py").write_text(ONLY_THERE.format(text=text))
        script = self.script("import time; open('ran', 'a').write('once '); time.sleep(2); print('hello')")
        self.expect("rank 0: it does not answer", "--preload", "bad", script)
        self.assertEqual((self.folder / "ran").read_text(), "once ")
        self.check_nothing_lives()

    def test_jobs_that_cannot_have_a_template_say_why(self):
        script = self.script("print('hello')")
        (self.folder / "hello.sh").write_text("#!/bin/sh\necho hello\n")
        (self.folder / "hello.sh").chmod(0o755)
        wrapper = self.folder / "wrapper"
        wrapper.write_text(f'#!/bin/sh\nexec {self.python} -E "$@"\n')
        wrapper.chmod(0o755)
        self.expect("./hello.sh is not a Python script", "--preload", "heavy", "./hello.sh")
        self.expect("module none_such cannot be imported", "--preload", "none_such", script)
        self.expect("module beside takes beside from the folder of the script", "--preload", "beside", script)
        self.expect("options of its own", "--preload", "json", script, PYTHON_EXEC=str(wrapper))
        self.expect("rank 1: CUDA_VISIBLE_DEVICES differs between ranks", "--preload", "json", "--nproc-per-node", 2, "--virtual-local-rank",
                    script, lines=("[0:0] hello", "[0:1] hello"), CUDA_VISIBLE_DEVICES="0,1")  # fmt: skip
        self.expect("auto finds none of accelerate, numpy, torch, torchvision, tqdm, transformers among the imports of script.py", "--preload", "auto", script)
        wrapper.write_text(f'#!/bin/sh\nexport DEVICE=$LOCAL_RANK\nexec {self.python} "$@"\n')
        self.expect("is a script that names RANK", "--preload", "json", script, PYTHON_EXEC=str(wrapper))
        (self.library / "numpy.py").write_text("")
        script = self.script("import os\nos.environ['OMP_NUM_THREADS'] = '1'\nimport numpy\nprint('hello')")
        self.expect("auto: line 2 of script.py runs before the import of numpy", "--preload", "auto", script)
        script = self.script("import beside\nimport numpy\nprint('hello')")
        self.expect("auto: its own beside of script.py runs before the import of numpy", "--preload", "auto", script)
        script = self.script("import numpy\nimport beside\nfrom numpy import *\nprint('hello')")
        self.assertNotIn("starting without it", self.launch("--preload", "auto", script)[2])
        (self.library / "sitecustomize.py").write_text("import os\nheld = os.environ.get('LOCAL_RANK')\n")
        self.expect("sitecustomize reads LOCAL_RANK", "--preload", "json", script)
        (self.library / "sitecustomize.py").unlink()
        (self.library / "usercustomize.py").write_text("")
        if not self.python_is_virtual():
            self.expect("usercustomize", "--preload", "json", script)

    def python_is_virtual(self):
        return subprocess.run([self.python, "-c", "import site; raise SystemExit(not site.ENABLE_USER_SITE)"]).returncode != 0

    def test_a_wrapper_of_the_interpreter_is_no_obstacle(self):
        wrapper = self.folder / "wrapper"
        wrapper.write_text(f'#!/bin/sh\nexport WRAPPED=1\nexec {self.python} "$@"\n')
        wrapper.chmod(0o755)
        script = self.script("import os; print(os.environ['WRAPPED'])")
        self.assertEqual(self.launch("--preload", "heavy", script, PYTHON_EXEC=str(wrapper))[:2], (0, ["[0:0] 1"]))
        self.assertEqual(len(self.importers()), 1)

    def test_wrong_names_are_refused(self):
        script = self.script("print('hello')")
        for names, line in {"a-b": "a-b: not the name of a module", "auto,json": "auto stands alone", "a..b": "a..b: not the name"}.items():
            code, _, said = self.launch("--preload", names, script)
            self.assertEqual(code, 2)
            self.assertIn(line, "".join(said))


class Faults(PreloadTest):
    def test_a_template_that_is_gone_costs_a_line(self):
        for name, number, line in (("killed", 9, "rank 0: it has ended"), ("stopped", 19, "rank 0: it is stopped")):
            with self.subTest(name):
                script = self.script("import heavy, os, sys\n"
                                     "if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n"
                                     f"    os.kill(int(open(os.environ['IMPORTS']).read()), {number}); sys.exit(1)\n"
                                     "print('hello')")  # fmt: skip
                code, lines, said = self.launch("--max-restarts", 1, "--preload", "heavy", script)
                self.assertEqual((code, lines), (0, ["[0:0] hello"]), said)
                self.assertEqual(len(self.importers()), 2)
                self.assertIn(line, "".join(said))
                self.check_nothing_lives()

    def kill_agent(self, text, module, what):
        (self.library / "slow.py").write_text(module)
        running = self.start(self.bin / "ddp-launch", "--nproc-per-node", 2, "--preload", "heavy,slow", self.script(text))
        self.imports.write_text("")
        running.wait_until(what, "the moment to kill the agent")
        os.kill(running.process.pid, signal.SIGKILL)
        running.finish()
        deadline = time.monotonic() + 10
        while self.alive() and time.monotonic() < deadline:
            pass
        self.assertEqual(self.alive(), [])

    def test_a_killed_agent_leaves_nothing(self):
        with self.subTest("while the template imports"):
            self.kill_agent("", "import time; time.sleep(300)", lambda: self.importers())
        with self.subTest("while ranks run, and a daemon of one"):
            begun = self.folder / "begun"
            text = ("import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
                    f"        open({str(begun)!r}, 'a').write('x')\n        time.sleep(300)\n    os._exit(0)\ntime.sleep(300)")  # fmt: skip
            self.kill_agent(text, "", lambda: begun.exists() and len(begun.read_text()) == 2)

    def test_a_stop_request_ends_the_imports(self):
        (self.library / "slow.py").write_text("import time; time.sleep(300)")
        self.imports.write_text("")
        running = self.start(self.bin / "ddp-launch", "--preload", "heavy,slow", self.script("print('hello')"))
        running.wait_until(lambda: self.importers(), "the imports")
        begin = time.monotonic()
        os.kill(running.process.pid, signal.SIGTERM)
        self.assertEqual(running.finish(), 143)
        self.assertLess(time.monotonic() - begin, 5)
        self.assertNotIn("hello", running.text)
        self.assertNotIn("left a process behind", running.text)

    def test_children_of_ranks_end_with_the_job(self):
        script = self.script("import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        os.close(1); os.close(2)\n"
                             "        time.sleep(300)\n    os._exit(0)\nos.wait()")  # fmt: skip
        self.assertEqual(self.launch("--nproc-per-node", 2, "--preload", "heavy", script)[0], 0)


@unittest.skipUnless("DDP_PYTHON" in os.environ, "DDP_PYTHON names no Python with torch")
class Torch(PreloadTest):
    python = os.environ.get("DDP_PYTHON", "")

    def compare(self, text, *flags):
        script = self.script(text)
        cold = self.launch(*flags, script)
        warm = self.launch(*flags, "--preload", "auto", script)
        self.assertEqual([line for line in warm[2] if "without it" in line], [])
        self.assertTrue(any("preload: auto takes" in line for line in warm[2]), warm)
        self.assertEqual(warm[:2], cold[:2])

    def test_two_ranks_and_what_a_model_under_ddp_imports(self):
        """That is taken by auto, too."""
        self.compare(ALLREDUCE, "--nproc-per-node", 2)
        self.assertEqual((self.folder / "seen").read_text(), "True")

    def test_workers_of_loaders_spawned_ones_and_threads_of_blas_that_give_way(self):
        del self.environment["OMP_NUM_THREADS"]
        self.compare(LOADER)

    def test_what_only_an_import_holds_at_the_end(self):
        """nanobind, of triton, does not say that it has leaked objects."""
        code, lines, said = self.launch("--preload", "torch,torch._dynamo", self.script(LAST))
        self.assertEqual((code, lines), (3, ["[0:0] deleted 2.0"] * 3 + ["[0:0] written", "[0]:"]), said)
        self.assertNotIn("without it", "".join(said))

    @unittest.skipUnless("DDP_EVERY_CASE" in os.environ, "is one of ./make.sh soak cases")
    def test_compiled_models(self):
        self.compare(COMPILED, "--nproc-per-node", 2)

    def test_the_table_of_auto_is_true(self):
        script = self.script("import numpy\nimport torch\nimport torchvision\n" + DRAWS)
        code, lines, said = self.launch("--nproc-per-node", 2, "--preload", "auto", script)
        self.assertEqual(code, 0)
        self.assertIn("preload: auto takes numpy, torch, torchvision", "".join(said))
        self.assertNotIn("without it", "".join(said))
        self.assertEqual(len({word for line in lines for word in line.split()[1:]}), 4, lines)


if __name__ == "__main__":
    unittest.main()
