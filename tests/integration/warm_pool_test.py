"""Templates that stay warm between jobs: when a job takes one, how many there are, what ends them. See preload_test.py."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

from preload_scripts import HEAVY
from preload_test import PreloadTest


class WarmPool(PreloadTest):
    idle = "60s"
    job = ("--nproc-per-node", 2, "--preload", "heavy")

    def run_job(self, *words, script="script.py", imports=0, **variables):
        code, lines, said = self.launch(*self.job, *words, script, **variables)
        self.assertEqual(code, 0, said)
        self.assertNotIn("without it", "".join(said))
        self.assertEqual(len(self.importers()), imports, said)
        return lines

    def test_jobs_share_a_template_that_is_listed_and_ended(self):
        self.assertEqual(self.warm(), ["no template is warm"])
        self.script("import sys; print('hello', sys.argv[1:])")
        self.run_job(imports=1)
        self.script("import sys; print('edited', sys.argv[1:])")
        self.assertEqual(self.launch(*self.job, "script.py", "x")[1], ["[0:0] edited ['x']", "[0:1] edited ['x']"])
        self.assertEqual(self.importers(), [])
        self.assertRegex(self.warm()[0], r"^pid \d+: heavy for script.py, by .*python.*; 2 jobs in \d+s, \d+ MiB, (60|59|58|57)s left$")
        self.assertEqual([line.startswith("ended: pid ") for line in self.warm("--stop")], [True])
        self.assertEqual(self.warm(), ["no template is warm"])
        self.check_nothing_lives()

    def test_template_ends_when_no_job_comes(self):
        self.script("print('hello')")
        self.run_job("--preload-idle", "1s", imports=1)
        self.until(lambda: not self.alive(), "the end of the template")

    def test_changed_variables_and_modules_need_a_new_template(self):
        self.script("print('hello')")
        self.run_job(imports=1)
        self.run_job(imports=1, A_VARIABLE="1")
        self.run_job(A_VARIABLE="1")
        self.run_job(SHLVL="7")
        (self.library / "heavy.py").write_text(HEAVY + "# another release\n")
        self.run_job(imports=1)
        self.run_job()
        (self.library / "new_module.py").write_text("")
        self.run_job(imports=1)
        (self.folder / "heavy.py").write_text("")  # it hides what was imported
        self.assertIn("heavy from the folder of the script", "".join(self.launch(*self.job, "script.py")[2]))

    def test_one_that_is_not_used_says_why(self):
        self.script("print('hello')")
        self.assertNotIn("is not used", "".join(self.launch(*self.job, "script.py")[2]))
        unused = lambda *words, **variables: [line.partition("is not used: ")[2] for line in self.launch(*words, **variables)[2] if "is not used" in line]
        self.assertEqual(unused(*self.job, "script.py", "argument"), [])
        self.assertEqual(unused(*self.job, "script.py", A_VARIABLE="1", ANOTHER="2"), ["other variables: ANOTHER, A_VARIABLE"])
        self.warm("--stop")
        self.launch(*self.job, "script.py")
        self.assertEqual(unused("--preload", "json", "script.py"), ["it was made with --preload heavy"])
        self.warm("--stop")
        self.launch(*self.job, "script.py")
        self.script("print('hello')", "other.py")
        self.assertEqual(unused(*self.job, "other.py"), [])  # another script's is no surprise
        (self.library / "heavy.py").write_text(HEAVY + "# another release\n")
        self.assertEqual(unused(*self.job, "script.py"), [f"{self.library}/heavy.py has changed"])

    def test_modules_beside_the_script_are_imported(self):
        self.script("import json; print(json.__file__)")
        flags = ("--preload", "heavy,json", "script.py")
        self.launch(*flags)
        (self.folder / "json").mkdir()
        (self.folder / "json" / "__init__.py").write_text("")
        code, lines, said = self.launch(*flags)
        self.assertEqual((code, lines), (0, [f"[0:0] {self.folder.resolve()}/json/__init__.py"]), said)

    def test_a_path_file_is_read(self):
        packages = {}
        for name in ("one", "two"):
            packages[name] = self.folder / name
            packages[name].mkdir()
            (packages[name] / "moved.py").write_text(f"NAME = {name!r}\n")
        subprocess.run([self.python, "-m", "venv", "--without-pip", self.folder / "venv"], check=True)
        (site,) = (self.folder / "venv").glob("lib/python*/site-packages")
        self.environment["PYTHON_EXEC"] = str(self.folder / "venv" / "bin" / "python3")
        self.script("import moved; print(moved.NAME)")
        for name, path in packages.items():
            (site / "moved.pth").write_text(f"{path}\n")
            for imports in (1, 0):
                self.assertEqual(self.run_job(imports=imports), [f"[0:0] {name}", f"[0:1] {name}"])

    def test_a_file_that_changed_during_the_imports_is_read_again(self):
        (self.library / "slow.py").write_text("import heavy, os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.01)\n")
        self.script("import heavy; print(len(heavy.VALUE))")
        self.imports.write_text("")
        job = self.start(self.bin / "ddp-launch", "--preload", "slow", "script.py")
        job.wait_until(self.importers, "the import")
        (self.library / "heavy.py").write_text(HEAVY + "VALUE = [1, 2]\n")
        (self.folder / "go").touch()
        self.assertEqual(job.finish(), 0)
        job = self.start(self.bin / "ddp-launch", "--preload", "slow", "script.py")
        self.assertEqual(job.finish(), 0)
        self.assertIn("[0:0] 2", job.text)

    def test_inherited_scheduling_needs_a_new_template(self):
        self.script("import os; print(os.sched_getscheduler(0), os.getpriority(0, 0))")
        self.run_job(imports=1)
        odd = subprocess.run(["chrt", "-i", "0", self.bin / "ddp-launch", *map(str, self.job), "script.py"], input="", stdout=subprocess.PIPE, text=True,
                             env=self.environment, cwd=self.folder, check=True)  # fmt: skip
        self.assertIn(f"[0:0] {os.SCHED_IDLE} ", odd.stdout)
        self.assertIn("[0:0] 0 ", self.run_job()[0])

    def test_auto_reads_the_script_again(self):
        (self.library / "numpy.py").write_text(HEAVY)
        (self.library / "torch.py").write_text(HEAVY)
        self.script("import numpy")
        flags = ("--preload", "auto", "script.py")
        self.launch(*flags)
        self.assertEqual(len(self.importers()), 1)
        self.script("import numpy\nprint('edited')")
        self.assertEqual(self.launch(*flags)[1], ["[0:0] edited"])
        self.assertEqual(self.importers(), [])
        self.script("import numpy, torch")
        self.launch(*flags)
        self.assertEqual(len(self.importers()), 2)

    def test_there_are_two_at_most(self):
        for name in ("a.py", "b.py", "c.py"):
            self.run_job(script=self.script("print('hello')", name), imports=1)
        self.assertEqual(len(self.warm()), 2)
        self.run_job(script="b.py")
        self.run_job(script="a.py", imports=1)
        for job in [self.start(self.bin / "ddp-launch", *self.job, "a.py", ODD=str(odd)) for odd in range(5)]:
            self.assertEqual(job.finish(), 0, job.text)
        self.assertLessEqual(len(self.warm()), 2)

    def test_jobs_at_once(self):
        self.script("import time; time.sleep(1)")
        self.assertEqual(self.start(self.bin / "ddp-launch", *self.job, "script.py").finish(), 0)
        jobs = [self.start(self.bin / "ddp-launch", *self.job, "script.py") for _ in range(4)]
        self.assertEqual([job.finish() for job in jobs], [0] * 4)
        self.assertEqual(len(self.importers()), 1)
        self.assertRegex(self.warm()[0], "; 5 jobs in ")

    def test_a_template_that_is_gone_or_stopped_is_made_again(self):
        self.script("print('hello')")
        self.run_job(imports=1)
        for number in (signal.SIGKILL, signal.SIGSTOP):
            with self.subTest(number.name):
                old = self.template()
                os.kill(old, number)
                self.run_job(imports=1)
                self.assertNotEqual(self.template(), old)
                if number == signal.SIGSTOP:
                    os.kill(old, signal.SIGCONT)  # it sees that another one has its name
                    self.until(lambda: old not in self.alive(), "the end of the old one")
        self.run_job()

    def begin(self, text, *flags):
        """A second job, whose ranks run."""
        begun = self.folder / "begun"
        if not self.warm()[0].startswith("pid"):
            self.script("pass")
            self.assertEqual(self.start(self.bin / "ddp-launch", *self.job, "script.py").finish(), 0)
        self.script(f"import os, time\nopen({str(begun)!r}, 'a').write('x')\n" + text)
        running = self.start(self.bin / "ddp-launch", *self.job, *flags, "script.py")
        running.wait_until(lambda: begun.exists() and len(begun.read_text()) == 2, "both ranks")
        return running

    def test_a_job_goes_on_without_the_template(self):
        running = self.begin(f"while not os.path.exists({str(self.folder / 'go')!r}):\n    time.sleep(0.01)\nraise SystemExit(3)")
        os.kill(self.template(), signal.SIGKILL)
        (self.folder / "go").touch()
        self.assertEqual(running.finish(), 3)

    def parent(self):
        """The template's fork that serves the only job."""
        template = self.template()
        (parent,) = pathlib.Path(f"/proc/{template}/task/{template}/children").read_text().split()
        return int(parent)

    def test_a_signal_to_all_processes_of_a_job_lets_the_ranks_save(self):
        saved = self.folder / "saved"
        running = self.begin("import signal, sys\ndef save(number, frame):\n    time.sleep(0.5)\n"
                             f"    open({str(saved)!r}, 'a').write('x')\n    sys.exit(0)\n"
                             "signal.signal(signal.SIGTERM, save)\nprint('ready')\ntime.sleep(300)")  # fmt: skip
        for rank in range(2):
            running.wait_for(f"[0:{rank}] ready")
        parent = self.parent()
        ranks = pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        for number in (signal.SIGUSR1, signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            os.kill(parent, number)
        for pid in (*map(int, ranks), running.process.pid):
            os.kill(pid, signal.SIGTERM)
        running.finish()
        self.assertEqual(saved.read_text(), "xx", running.text)

    def test_ranks_end_when_their_parent_is_killed(self):
        self.begin("").finish()  # so that the template is no child of the next agent
        (self.folder / "begun").unlink()
        for restarts in (0, 1):
            with self.subTest(restarts):
                running = self.begin("if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n    if os.fork() == 0:\n        os.setsid()\n    elif os.fork() == 0:\n"
                                     "        os.execvp('sleep', ['sleep', '300'])\n    time.sleep(300)", "--max-restarts", restarts)  # fmt: skip
                os.kill(self.parent(), signal.SIGKILL)
                self.assertEqual(running.finish(), 0 if restarts else 137, running.text)
                self.until(lambda: self.alive() == [self.template()], "the end of all", 5)
                (self.folder / "begun").unlink()

    def test_the_ranks_end_with_their_parent(self):
        running = self.begin("if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n    time.sleep(300)", "--max-restarts", 1)
        os.kill(self.parent(), signal.SIGKILL)
        self.assertEqual(running.finish(), 0)
        self.assertIn("preload: the template's fork has ended; starting without it", running.text)

    def test_a_killed_agent_leaves_the_template_alone(self):
        running = self.begin("if os.fork() == 0:\n    os.setsid()\n    if os.fork() != 0:\n        os._exit(0)\ntime.sleep(300)")
        os.kill(running.process.pid, signal.SIGKILL)
        running.finish()
        self.until(lambda: self.alive() == [self.template()], "the end of the ranks and their daemons")

    def test_children_of_ranks_end_with_the_job(self):
        running = self.begin("if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        os.close(1); os.close(2)\n"
                             "        time.sleep(300)\n    os._exit(0)\nos.wait()")  # fmt: skip
        self.assertEqual(running.finish(), 0)
        self.assertEqual(self.alive(), [self.template()])

    def test_a_rank_that_is_killed_is_named(self):
        text = "if os.environ['RANK'] == '1' and os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n    os.kill(os.getpid(), 9)\ntime.sleep(0.2)"
        running = self.begin(text, "--max-restarts", 1)
        self.assertEqual(running.finish(), 0)
        self.assertIn("SIGKILL", running.text)
        self.assertEqual(len(self.importers()), 1)

    def test_a_place_that_is_not_ours_is_not_used(self):
        self.script("print('hello')")
        place = self.folder / "runtime" / "ddp"
        place.mkdir(mode=0o700)
        (place / "warm").symlink_to("/tmp")
        self.run_job(imports=1)
        self.assertEqual(self.warm(), ["no template is warm"])
        self.check_nothing_lives()

    def test_a_job_of_slurm_leaves_none(self):
        del self.environment["DDP_PRELOAD_IDLE"]
        self.script("print('hello')")
        self.run_job("--nnodes", 1, imports=1, SLURM_JOB_ID="7")
        self.check_nothing_lives()


if __name__ == "__main__":
    unittest.main()
