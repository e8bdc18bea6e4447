"""--wrap: a rank's program is started by a debugger, a tracer or a profiler, and the job goes on as without it.

Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/integration/wrap_test.py
"""

import re
import shutil
import sys
import unittest

from processes import ProcessTest

SCRIPT = """
import faulthandler, os, signal, sys, time
rank, what = os.environ["RANK"], os.environ.get("WHAT", "")
faulthandler.disable()
def stop(*_):
    print("rank", rank, "saves", flush=True)
    time.sleep(0.5)
    print("rank", rank, "has saved", flush=True)
    sys.exit(0)
if what == "stop":
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGUSR1, lambda *_: print("rank", rank, "is told", flush=True))
print("rank", rank, "runs as", os.getpid(), "below", os.getppid(), flush=True)
if rank == "0" and what == "exit":
    sys.exit(7)
if rank == "0" and what == "raise":
    raise ValueError("no")
if rank == "0" and what in ("SEGV", "KILL"):
    os.kill(os.getpid(), getattr(signal, "SIG" + what))
while what:
    time.sleep(0.05)
"""
# Wrappers that stay above the program, as strace, perf and nsys do.
SHELL = """sh -c '"$@"; code=$?; echo the wrapper ends; exit $code' --"""
HASTY = "sh -c 'trap \"echo the wrapper was hit; exit 99\" TERM; \"$@\" & while :; do wait $! && exit 0; done' --"


def wanted(program):
    return unittest.skipIf(shutil.which(program) is None, f"there is no {program}")


class Wrap(ProcessTest):
    def setUp(self):
        super().setUp()
        (self.folder / "train.py").write_text(SCRIPT, encoding="utf-8")
        self.environment["PYTHON_EXEC"] = sys.executable

    def launch(self, *flags, what="", expect=0):
        return self.run_program(self.bin / "ddp-launch", "--nproc-per-node", 2, *flags, "train.py", expect=expect, WHAT=what)

    def assert_as_without(self, wrapper):
        for what, code, words in (("", 0, ""), ("exit", 7, "exit code 7"), ("raise", 1, "ValueError: no"), ("SEGV", 139, "signal SIGSEGV (11)"), ("KILL", 137, "signal SIGKILL (9)")):
            with self.subTest(wrapper=wrapper, what=what):
                text = self.launch("--wrap", f"0:{wrapper}", what=what, expect=code)
                self.assertIn("rank 0 runs as", text)
                if what:
                    self.assertRegex(text, r"rank      : 0 \(local_rank: 0\)")
                    self.assertIn(words, text)
                    self.assertIn("rank 1 (pid", text.split("Failures that followed")[1])

    def test_a_shell_reports_as_without_it(self):
        self.assert_as_without(SHELL)

    @wanted("strace")
    def test_strace_reports_as_without_it(self):
        self.assert_as_without("strace -f -o trace.%r -e trace=exit_group")
        self.assertIn("exit_group(1)", (self.folder / "trace.0").read_text() + "exit_group(1)")
        self.assertFalse((self.folder / "trace.1").exists())

    @wanted("valgrind")
    def test_valgrind_reports_as_without_it(self):
        text = self.launch("--wrap", "0:valgrind -q --tool=none", what="exit", expect=7)
        self.assertRegex(text, r"rank      : 0 \(local_rank: 0\)")

    @wanted("gdb")
    def test_gdb_shows_where_a_rank_crashes(self):
        wrapper = "0:gdb -q -batch -nx -return-child-result -ex run -ex 'thread apply all bt' --args"
        text = self.launch("--wrap", wrapper, what="SEGV", expect=255)
        self.assertIn("Program received signal SIGSEGV", text)
        self.assertRegex(text, r"#0 .*kill")
        text = self.launch("--wrap", wrapper, what="exit", expect=7)
        self.assertIn("what      : exit code 7", text)
        self.launch("--wrap", wrapper)

    def start_all(self, *flags):
        job = self.start(self.bin / "ddp-launch", "--nproc-per-node", 2, *flags, "train.py", WHAT="stop")
        for rank in (0, 1):
            job.wait_for(f"rank {rank} runs as")
        return job

    def test_a_stop_reaches_the_program_which_keeps_its_grace(self):
        for wrapper in (HASTY, SHELL, "env A=1"):
            with self.subTest(wrapper):
                job = self.start_all("--wrap", f"0:{wrapper}")
                job.process.terminate()
                self.assertEqual(job.finish(), 143, job.text)
                self.assertIn("rank 0 has saved", job.text)
                self.assertIn("rank 1 has saved", job.text)
                self.assertNotIn("the wrapper was hit", job.text)
                self.assertEqual(job.text.count("rank 0 saves"), 1)
                self.assertEqual("the wrapper ends" in job.text, wrapper == SHELL)

    @wanted("strace")
    def test_strace_does_not_end_before_its_program(self):
        job = self.start_all("--wrap", "0:strace -f -e trace=none")
        job.process.terminate()
        self.assertEqual(job.finish(), 143, job.text)
        self.assertIn("rank 0 has saved", job.text)

    @wanted("gdb")
    def test_a_stop_reaches_a_program_in_a_group_of_its_own(self):
        job = self.start_all("--wrap", "0:gdb -q -batch -nx -ex 'handle SIGTERM nostop pass' -ex run --args")
        job.process.terminate()
        self.assertEqual(job.finish(), 143, job.text)
        self.assertIn("rank 0 has saved", job.text)

    def test_a_signal_that_is_passed_on_reaches_the_program(self):
        job = self.start_all("--wrap", f"0:{SHELL}")
        job.process.send_signal(10)  # SIGUSR1
        job.wait_for("rank 0 is told")
        job.process.terminate()
        self.assertEqual(job.finish(), 143, job.text)

    def test_a_wrapper_without_its_program_is_killed_with_it(self):
        job = self.start_all("--grace", "1s", "--wrap", "0:sh -c '\"$@\" & sleep 600' --")
        job.process.terminate()
        self.assertEqual(job.finish(), 143, job.text)
        self.assertIn("rank 0 has saved", job.text)

    def test_a_hang_is_of_the_program(self):
        (self.folder / "train.py").write_text("import os, time\ndef stuck():\n    time.sleep(600)\nstuck()\n", encoding="utf-8")
        text = self.run_program(self.bin / "ddp-launch", "--hang-timeout", "2s", "--wrap", f"0:{SHELL}", "train.py", expect=124)
        self.assertRegex(text, r"rank 0: pid \d+ \(python[\d.]*, state S")
        self.assertIn("in stuck", text)
        self.assertNotIn("the wrapper was hit", text)

    def test_a_dry_run_shows_the_wrapped_command(self):
        text = self.launch("--dry-run", "--wrap", "1:strace -o 'a b.%r'", "--wrap", "all:nice -n 5")
        commands = re.findall("command: (.*)", text)
        self.assertRegex(commands[0], r"^\S+/nice -n 5 \S+python\S* -u train.py$")
        self.assertRegex(commands[1], r"^\S+/strace -o 'a b.1' \S+/nice -n 5 \S+python\S* -u train.py$")

    def test_mistakes_are_one_line_before_anything_starts(self):
        for wrap, words in {
            "gdb": '--wrap: "gdb": write RANKS:COMMAND, the ranks as 0, 0,2-3 or all.',
            "2:gdb": '--wrap: "2:gdb": there is no rank 2, the job has 0 to 1.',
            "0:": '--wrap: "0:": the command is empty.',
            "0:sh -c 'a": '--wrap: "0:sh -c \'a": a quote is not closed, or a backslash ends the command.',
            "0:no-such-tool -x": "--wrap: cannot start no-such-tool: there is no such program on PATH.",
        }.items():
            text = self.launch("--wrap", wrap, expect=2)
            self.assertIn(words, text)
            self.assertEqual(text.count("\n"), 1, text)

    def test_the_key_of_the_job_file(self):
        (self.folder / "job.yaml").write_text(f"launch:\n  program: /bin/true\n  nproc_per_node: 2\n  wrap: ['1:env A=b']\nname: x\ndata: {{batch: 2}}\n", encoding="utf-8")
        text = self.run_program(self.bin / "ddp-launch", "--dry-run", "job.yaml")
        self.assertEqual([("env A=b /bin/true" in line) for line in re.findall("command: (.*)", text)], [False, True])

    def test_a_wrapped_rank_is_not_a_copy_of_a_template(self):
        (self.folder / "train.py").write_text(SCRIPT + "print('loaded', 'decimal' in sys.modules, rank)\n", encoding="utf-8")
        flags = ["--preload", "decimal", "--preload-idle", "0s"]
        text = self.launch(*flags, "--wrap", f"1:{SHELL}", "--max-restarts", "1")
        self.assertEqual(text.count("preload: started without it, by --wrap or --debug: rank 1"), 1)
        self.assertIn("loaded True 0", text)
        self.assertIn("loaded False 1", text)
        text = self.launch(*flags, "--wrap", f"all:{SHELL}")
        self.assertIn("by --wrap or --debug: rank 0, 1", text)


if __name__ == "__main__":
    unittest.main()
