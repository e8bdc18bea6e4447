"""A part of a line is seen on a terminal before its end comes: a prompt, dots, a name before a result.

Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/integration/prompt_test.py
"""

import pathlib
import subprocess
import time
import unittest

from processes import ProcessTest, end_with_parent
from terminal import Terminal

PROMPTS = """
import os, sys, time
for i in range(5):
    sys.stdout.write(f"name {i}? ")
    sys.stdout.flush()
    open(f"asked{i}.new", "w").write(str(time.monotonic()))
    os.rename(f"asked{i}.new", f"asked{i}")
    print("hello", sys.stdin.readline().strip())
"""

DEBUGGED = """
import os, sys, time
x = 41
if os.environ["RANK"] == "0":
    breakpoint()
    print("x is", x)
    open("done", "w").close()
while not os.path.exists("done"):
    time.sleep(0.01)
"""

# Rank 1 prints a line when it is told to, while rank 0 asks.
OTHER = """
import os, sys, time
def wait_for(name):
    while not os.path.exists(name):
        time.sleep(0.01)
if os.environ["RANK"] == "0":
    print("hello", input("name? "))
    open("done", "w").close()
else:
    wait_for("speak")
    print("a line of rank 1")
wait_for("done")
"""

DOTS = """
import os, sys, time
for i in range(4):
    print(end=".", flush=True)
    while not os.path.exists(f"go{i}"):
        time.sleep(0.01)
print(" ready")
"""

BOTH = """
import os
rank = os.environ["RANK"]
print(f"got {rank}", input(f"name of {rank}? "))
"""


class Prompts(ProcessTest):
    def open(self, script, *flags, ranks=1, width=100, **variables):
        (self.folder / "train.py").write_text(script, encoding="utf-8")
        command = [self.bin / "ddp-launch", "--nproc-per-node", ranks, *flags, "train.py"]
        environment = {**self.environment, "TERM": "xterm", "NO_COLOR": "1", **variables}
        return Terminal(command, environment, self.folder, width, end_with_parent)

    def touch(self, name):
        (self.folder / name).touch()

    def test_a_prompt_is_seen_at_once_and_stands_once(self):
        times = []
        with self.open(PROMPTS) as terminal:
            for i in range(5):
                terminal.wait_for(lambda: terminal.lines()[-1] == f"[0:0] name {i}?")
                seen = time.monotonic()
                asked = self.folder / f"asked{i}"
                terminal.wait_for(asked.exists)
                times.append(seen - float(asked.read_text()))
                terminal.type(f"Ada {i}\n")
            self.assertEqual(terminal.finish(), 0)
        self.assertLess(min(times), 0.150, times)
        answers = [line for i in range(5) for line in (f"[0:0] name {i}? Ada {i}", f"[0:0] hello Ada {i}")]
        self.assertEqual(terminal.lines(), [*answers, ""])

    def test_a_debugger_reads_as_on_a_terminal_of_its_own(self):
        with self.open(DEBUGGED, ranks=2) as terminal:
            for typed in ("p x + 1", "x = 7", "c"):
                terminal.wait_for(lambda: terminal.lines()[-1] == "[0:0] (Pdb)")
                terminal.type(typed + "\n")
            self.assertEqual(terminal.finish(), 0)
        lines = terminal.lines()
        begin = lines.index("[0:0] (Pdb) p x + 1")
        self.assertEqual(lines[begin:], ["[0:0] (Pdb) p x + 1", "[0:0] 42", "[0:0] (Pdb) x = 7", "[0:0] (Pdb) c", "[0:0] x is 7", ""])

    def test_a_line_of_another_rank_comes_above_the_prompt(self):
        with self.open(OTHER, ranks=2) as terminal:
            terminal.wait_for(lambda: terminal.lines()[-1] == "[0:0] name?")
            self.touch("speak")
            terminal.wait_for(lambda: terminal.lines() == ["[0:1] a line of rank 1", "[0:0] name?"])
            terminal.type("Ada\n")
            self.assertEqual(terminal.finish(), 0)
        self.assertEqual(terminal.lines(), ["[0:1] a line of rank 1", "[0:0] name? Ada", "[0:0] hello Ada", ""])

    def test_two_prompts_are_both_seen(self):
        with self.open(BOTH, ranks=2) as terminal:
            terminal.wait_for(lambda: all(f"[0:{rank}] name of {rank}?" in terminal.lines() for rank in (0, 1)))
            terminal.type("Ada\nAda\n")
            self.assertEqual(terminal.finish(), 0)
        for rank in (0, 1):
            self.assertIn(f"[0:{rank}] got {rank} Ada", terminal.lines())

    def test_dots_grow_and_are_one_line_in_the_end(self):
        with self.open(DOTS, "-t", "3", "--log-dir", "logs") as terminal:
            for i in range(4):
                terminal.wait_for(lambda: terminal.lines()[-1] == "[default0]:" + "." * (i + 1))
                self.touch(f"go{i}")
            self.assertEqual(terminal.finish(), 0)
        self.assertEqual([line for line in terminal.lines() if ".." in line], ["[default0]:.... ready"])
        (log,) = pathlib.Path(self.folder / "logs").rglob("stdout.log")
        self.assertEqual(log.read_bytes(), b".... ready\n")

    def test_prompt_is_a_line_when_no_line_is_redrawn(self):
        for name, variables, flags in (("dumb", {"TERM": "dumb"}, ()), ("off", {}, ("--progress", "off"))):
            with self.subTest(name), self.open(OTHER.replace("wait_for(", "len("), *flags, **variables) as terminal:
                terminal.wait_for(lambda: terminal.lines()[-2:] == ["[0:0] name?", ""])
                terminal.type("Ada\n")
                self.assertEqual(terminal.finish(), 0)
                self.assertEqual(terminal.lines(), ["[0:0] name?", "Ada", "[0:0] hello Ada", ""])
                self.assertNotIn("\x1b", terminal.text)

    def test_a_prompt_wider_than_the_terminal_is_a_line(self):
        prompt = "where " * 8 + "to? "
        with self.open(OTHER.replace("name? ", prompt).replace("wait_for(", "len("), width=40) as terminal:
            terminal.wait_for(lambda: terminal.lines()[-2:] == ["[0:0] " + prompt.rstrip(), ""])
            terminal.type("home\n")
            self.assertEqual(terminal.finish(), 0)
        self.assertEqual(terminal.lines()[-2:], ["[0:0] hello home", ""])

    def test_ctrl_c_at_a_prompt_ends_the_job(self):
        with self.open(DEBUGGED, "--grace", "2s") as terminal:
            terminal.wait_for(lambda: terminal.lines()[-1] == "[0:0] (Pdb)")
            terminal.process.send_signal(2)
            self.assertNotEqual(terminal.finish(), 0)
        self.assertEqual([line for line in terminal.lines() if line.endswith("(Pdb)")], [], "it asks no more")

    def test_a_pipe_gets_whole_lines_only(self):
        (self.folder / "train.py").write_text(DOTS, encoding="utf-8")
        for i in range(3):
            self.touch(f"go{i}")
        running = self.start(self.bin / "ddp-launch", "train.py")
        with self.assertRaises(subprocess.TimeoutExpired):
            running.process.wait(0.5)
        self.touch("go3")
        self.assertEqual(running.finish(), 0)
        self.assertIn("[0:0] .... ready\n", running.text)
        self.assertEqual(running.text.count("...."), 1)


if __name__ == "__main__":
    unittest.main()
