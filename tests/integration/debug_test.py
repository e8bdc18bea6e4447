"""--debug: one rank has the terminal, for pdb, gdb and others.

Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/integration/debug_test.py
"""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import signal
import struct
import sys
import termios
import time
import unittest

from processes import ProcessTest, end_with_parent, free_port
from terminal import Terminal

SCRIPT = """
import os, sys, time
rank = os.environ["RANK"]
print("rank", rank, "begins")
x = 40
if rank == os.environ["AT"]:
    breakpoint()
    x += 1
    print("x is", x)
    while os.environ.get("LOOPS"):
        time.sleep(0.05)
    open("done", "w").close()
while not os.path.exists("done") or (rank != os.environ["AT"] and os.environ.get("HOLD") and not os.path.exists("go")):
    time.sleep(0.05)
"""


SLOW = """
import hashlib, os, sys, time, tty
if os.environ["RANK"] == "2":
    tty.setraw(0)
    print("ready", flush=True)
    got = b""
    while not got.endswith(b"Q"):
        got += os.read(0, 65536)
        time.sleep(0.002)
    print("got", len(got) - 1, hashlib.sha256(got[:-1]).hexdigest(), flush=True)
"""

FLOOD = """
import os
if os.environ["RANK"] == os.environ["AT"]:
    print("begin", flush=True)
    for begin in range(0, 400000, 1000):
        print(*(f"{number:07}" for number in range(begin, begin + 1000)), sep="\\n", flush=True)
        with open("printed", "w") as file:
            file.write(str(begin))
"""

CLOSES = """
import os, time
if os.environ["RANK"] == "2":
    for fd in (0, 1, 2):
        os.dup2(os.open("/dev/null", os.O_RDWR), fd)
    time.sleep(1)  # its terminal would have hung up at once
    open("reached", "w").close()
"""


def lead_terminal():
    """A preexec_fn: the terminal is the controlling one, as in a shell."""
    end_with_parent()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Debug(ProcessTest):
    def open(self, *flags, rank=0, ranks=2, program=("train.py",), prepare=lead_terminal, **variables):
        (self.folder / "train.py").write_text(SCRIPT, encoding="utf-8")
        command = [self.bin / "ddp-launch", "--nproc-per-node", ranks, "--debug", rank, *flags, *program]
        environment = {**self.environment, "TERM": "xterm", "NO_COLOR": "1", "AT": str(rank), "PYTHON_EXEC": sys.executable, **variables}
        # Those of a new terminal: ddp-launch may have changed its own as soon as it has started.
        controller, end = os.openpty()
        self.settings = termios.tcgetattr(controller)
        os.close(controller)
        os.close(end)
        return Terminal(command, environment, self.folder, 100, prepare)

    def send(self, terminal, text):
        os.write(terminal.controller, text.encode())

    def ask(self, terminal, text, prompt="(Pdb) "):
        """Types it, and reads up to the next prompt. Returns what came."""
        begin = len(terminal.text)
        self.send(terminal, text)
        terminal.wait_for(lambda: prompt in terminal.text[begin:])
        return terminal.text[begin:]

    def wait_for_prompt(self, terminal, prompt="(Pdb) "):
        terminal.wait_for(lambda: prompt in terminal.text)
        # A line's end is given when the program waits for it: what is typed before is shown twice.
        terminal.read_for(0.2)

    def assert_restored(self, terminal):
        self.assertEqual(termios.tcgetattr(terminal.controller), self.settings)

    def test_a_session_of_pdb_on_each_rank(self):
        for rank in (0, 1):
            with self.subTest(rank), self.open(rank=rank) as terminal:
                self.wait_for_prompt(terminal)
                self.assertNotEqual(termios.tcgetattr(terminal.controller), self.settings)
                self.ask(terminal, "n\r")
                # Python 3.13 stands at breakpoint() itself, older ones at the line after it.
                self.assertRegex(self.ask(terminal, "p xy\x7f\r"), r"\r\n4[01]\r\n", "a letter is taken back")
                self.send(terminal, "c\r")
                self.assertEqual(terminal.finish(), 0, terminal.text)
                self.assert_restored(terminal)
                (self.folder / "done").unlink()
            self.assertIn(f"\r\nx is 41\r\n", terminal.text)
            self.assertIn(f"rank {rank} begins\r\n", terminal.text)
            self.assertNotIn("[0:", terminal.text)
            self.assertNotIn(f"rank {1 - rank} begins", terminal.text)
            directory = re.search(rf"rank {rank} has this terminal \(--debug\); .* what the others print is in (\S+)", terminal.text)[1]
            logs = list(pathlib.Path(directory).rglob("stdout.log"))
            self.assertEqual([log.read_text() for log in logs if log.stat().st_size], [f"rank {1 - rank} begins\n"])
            shutil.rmtree(pathlib.Path(directory).parent)

    def node_zero(self, port, *flags):
        """The other node's agent, which would restart and look for hangs."""
        flags = ("--nnodes", 2, "--node-rank", 0, "--master-addr", "127.0.0.1", "--master-port", port, "--hang-timeout", "2s", "--max-restarts", 3, *flags)
        return self.start(self.bin / "ddp-launch", *flags, "train.py", AT="1", PYTHON_EXEC=sys.executable)

    def on_node_one(self, port):
        flags = ("--nnodes", 2, "--node-rank", 1, "--master-addr", "127.0.0.1", "--master-port", port, "--log-dir", "logs")
        return self.open(*flags, rank="1:0", ranks=1, AT="1")

    def two_nodes(self, port, node_rank):
        return ("--nnodes", 2, "--node-rank", node_rank, "--master-addr", "127.0.0.1", "--master-port", port, "--log-dir", f"logs{node_rank}")

    @contextlib.contextmanager
    def across_nodes(self, rank, *flags, program=("train.py",), prepare=lead_terminal, before=(), **variables):
        """Node 0 in a terminal, with --debug, and node 1, each with two ranks. Rank 2 calls breakpoint()."""
        port = free_port()
        variables = {"AT": "2", "PYTHON_EXEC": sys.executable, "DDP_TOKEN": "0123456789abcdef" * 2, **variables}
        with self.open(*self.two_nodes(port, 0), "--hang-timeout", "2s", "--max-restarts", 3, *flags, rank=rank, program=program, prepare=prepare, **variables) as terminal:
            yield terminal, self.start(*before, self.bin / "ddp-launch", "--nproc-per-node", 2, *self.two_nodes(port, 1), "--hang-timeout", "2s", *flags, *program, **variables)

    def test_a_rank_of_another_node(self):
        port = free_port()
        with self.on_node_one(port) as terminal:
            zero = self.node_zero(port)
            self.wait_for_prompt(terminal)
            self.assertIn("local rank 0 has this terminal (--debug)", terminal.text)
            self.ask(terminal, "n\r")
            terminal.read_for(5)  # the other rank sleeps, and this one stands still: twice the limit of a hang
            self.assertRegex(self.ask(terminal, "p x\r"), r"\r\n4[01]\r\n")
            self.send(terminal, "c\r")
            self.assertEqual(terminal.finish(), 0, terminal.text)
            self.assertEqual(zero.finish(), 0, zero.text)
            self.assert_restored(terminal)
        self.assertRegex(zero.text, r"node 1 .* has joined .*; a rank there has a terminal \(--debug\): no hang is looked for, and no round follows\n")
        self.assertNotIn("hang", terminal.text.replace("no hang is looked for", ""))

    def test_leaving_the_debugger_on_another_node(self):
        port = free_port()
        with self.on_node_one(port) as terminal:
            zero = self.node_zero(port)
            self.wait_for_prompt(terminal)
            self.send(terminal, "q\r")
            self.assertEqual(terminal.finish(), 1, terminal.text)
            self.assert_restored(terminal)
        self.assertEqual(zero.finish(), 1, zero.text)
        self.assertRegex(zero.text, r"rank 1 .* left the debugger; exit code 1\.\n")
        self.assertIn("no further round: who leaves a debugger (--debug) wants no other one.", zero.text)
        self.assertNotIn("FAILED", zero.text)

    def test_a_rank_of_another_node_has_the_terminal_of_node_0(self):
        # A local rank of node 1, and a rank of the job, which is one of node 1.
        for rank, name in (("1:0", "local rank 0 of node 1"), (2, "rank 2")):
            with self.subTest(rank), self.across_nodes(rank) as (terminal, other):
                self.wait_for_prompt(terminal)
                self.assertIn(name + " has this terminal (--debug); no hang is looked for; what the others of this node print is in ", terminal.text)
                self.ask(terminal, "n\r")
                self.assertRegex(self.ask(terminal, "p xy\x7f\r"), r"\r\n4[01]\r\n", "a letter is taken back")
                self.assertIn("'xterm', None, True, True", self.ask(terminal, "p os.environ['TERM'], os.environ.get('COLUMNS'), os.ttyname(0) == os.ttyname(2), os.getsid(0) == os.getpid()\r").replace("\r\n", ""))
                self.assertIn("columns=100, lines=24)", self.ask(terminal, "p os.get_terminal_size()\r"))
                fcntl.ioctl(terminal.controller, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 180, 0, 0))
                terminal.wait_for(lambda: "columns=180, lines=50)" in self.ask(terminal, "p os.get_terminal_size()\r"))
                # Any byte passes, and in order. The prompt may have been shown twice: a new size draws it again.
                begin = len(terminal.text)
                self.send(terminal, "print(bytes(range(161, 256)).decode('latin-1'))\r")
                terminal.wait_for(lambda: bytes(range(161, 256)).decode("latin-1") in terminal.text[begin:])
                self.send(terminal, "print(*range(100000), 'end', sep='\\n')\r")
                terminal.wait_for(lambda: "\r\nend\r\n(Pdb) " in terminal.text[begin:])
                numbers = re.findall(r"^(\d+)\r$", terminal.text[begin:], re.MULTILINE)
                self.assertEqual(numbers, [str(number) for number in range(100000)])
                self.send(terminal, "c\r")
                self.assertEqual(terminal.finish(), 0, terminal.text)
                self.assertEqual(other.finish(), 0, other.text)
                self.assert_restored(terminal)
            lines = [line for line in terminal.text.split("\n") if line.startswith("ddp-launch: ")]
            self.assertTrue(lines and all(line.endswith("\r") for line in lines), terminal.text)
            self.assertIn("\r\nx is 41\r\n", terminal.text)
            self.assertIn("rank 2 begins\r\n", terminal.text)
            self.assertRegex(other.text, r"local rank 0 has the terminal of node 0 \(--debug there\); no hang is looked for\n")
            self.assertIn("[1:3] rank 3 begins", other.text)
            self.assertNotIn("rank 2 begins", other.text)
            (self.folder / "done").unlink()

    def test_ctrl_c_and_leaving_go_to_the_rank_of_another_node(self):
        # As a shell starts a command with & in a script.
        ignores = ("sh", "-c", "trap '' INT QUIT; exec \"$@\"", "sh")
        with self.across_nodes("1:0", before=ignores, LOOPS="1") as (terminal, other):
            self.wait_for_prompt(terminal)
            self.send(terminal, "c\r")
            terminal.wait_for(lambda: "x is 41" in terminal.text)
            self.ask(terminal, "\x03")
            terminal.read_for(4)  # twice the limit of a hang
            self.assertIn("\r\n41\r\n", self.ask(terminal, "p x\r"))
            self.send(terminal, "q\r")
            self.assertEqual(terminal.finish(), 1, terminal.text)
            self.assertEqual(other.finish(), 1, other.text)
            self.assert_restored(terminal)
        self.assertRegex(terminal.text, r"rank 2 .* left the debugger; exit code 1\.\r+\n")
        for text in (terminal.text, other.text):
            self.assertNotIn("FAILED", text)
            self.assertNotIn("has failed", text)

    def test_the_terminal_comes_back_when_the_other_node_is_lost(self):
        for number in (signal.SIGKILL, signal.SIGSTOP):
            with self.subTest(number), self.across_nodes("1:0") as (terminal, other):
                self.wait_for_prompt(terminal)
                other.process.send_signal(number)
                self.assertEqual(terminal.finish(), 201, terminal.text)
                self.assertRegex(terminal.text, r"node 1 .* is lost")
                self.assert_restored(terminal)
                other.process.send_signal(signal.SIGCONT)
                other.finish()

    def test_the_terminal_comes_back_when_a_rank_elsewhere_is_stopped(self):
        for who, number, code in (("rank", signal.SIGKILL, 137), ("zero", signal.SIGTERM, 143), ("other", signal.SIGINT, 130)):
            with self.subTest(who), self.across_nodes("1:0", "--grace", "1s") as (terminal, other):
                self.wait_for_prompt(terminal)
                if who == "rank":
                    os.kill(int(re.search(r"\r\n(\d+)\r\n", self.ask(terminal, "p os.getpid()\r"))[1]), number)
                else:
                    (terminal if who == "zero" else other).process.send_signal(number)
                self.assertEqual(terminal.finish(), code, terminal.text)
                self.assertEqual(other.finish(), code, other.text)
                self.assert_restored(terminal)

    def test_the_terminal_is_given_to_another_node_with_a_token_and_to_a_rank_that_is_there(self):
        with self.open(*self.two_nodes(free_port(), 0), rank="1:0") as terminal:
            self.assertEqual(terminal.finish(), 2, terminal.text)
        self.assertIn("--debug: a rank of another node gets this terminal over the network, so the job needs a token. Give --token-file or DDP_TOKEN on every node", terminal.text)
        for rank, text in (("1:7", "--debug=1:7: there is no local rank 7 on that node, it has 0 to 1."), ("9", "--debug=9: there is no rank 9, the job has 0 to 3.")):
            with self.subTest(rank), self.across_nodes(rank) as (terminal, other):
                self.assertEqual(terminal.finish(), 2, terminal.text)
                self.assertEqual(other.finish(), 2, other.text)
                self.assertIn(text, terminal.text)
                self.assert_restored(terminal)
                self.assertNotIn("run directory", terminal.text)
        port, token = free_port(), {"DDP_TOKEN": "0123456789abcdef" * 2}
        with self.open(*self.two_nodes(port, 0), rank="1:0", **token) as terminal, self.open(*self.two_nodes(port, 1), rank="1:1", **token) as other:
            self.assertEqual(terminal.finish(), 2, terminal.text)
            self.assertEqual(other.finish(), 2, other.text)
        self.assertIn("--debug: the agent of node 1 gives its own terminal to a rank, too.", terminal.text)

    def test_a_rank_of_another_node_that_cannot_start(self):
        (self.folder / "odd").write_bytes(b"\x7fELF")
        (self.folder / "odd").chmod(0o755)
        with self.across_nodes("1:0", program=("./odd",)) as (terminal, other):
            self.assertEqual(terminal.finish(), 126, terminal.text)
            self.assertEqual(other.finish(), 126, other.text)
            self.assert_restored(terminal)

    def test_the_terminal_comes_back_as_soon_as_the_rank_elsewhere_has_ended(self):
        with self.across_nodes("1:0", HOLD="1") as (terminal, other):
            self.wait_for_prompt(terminal)
            self.send(terminal, "c\r")
            terminal.wait_for(lambda: termios.tcgetattr(terminal.controller) == self.settings)
            self.assertIn("x is 41", terminal.text)
            (self.folder / "go").touch()  # what the other ranks wait for
            self.assertEqual(terminal.finish(), 0, terminal.text)
            self.assertEqual(other.finish(), 0, other.text)

    def test_a_rank_elsewhere_that_reads_slowly_loses_nothing(self):
        (self.folder / "slow.py").write_text(SLOW, encoding="utf-8")
        with self.across_nodes("1:0", program=("slow.py",)) as (terminal, other):
            terminal.wait_for(lambda: "ready" in terminal.text)
            pasted = b"".join(b"%07d\n" % number for number in range(200000))
            for begin in range(0, len(pasted), 2048):
                os.write(terminal.controller, pasted[begin : begin + 2048])
            os.write(terminal.controller, b"Q")
            terminal.wait_for(lambda: re.search("got [0-9]+ [0-9a-f]{64}", terminal.text))
            self.assertIn(f"got {len(pasted)} {hashlib.sha256(pasted).hexdigest()}", terminal.text)
            self.assertEqual(terminal.finish(), 0, terminal.text)
            self.assertEqual(other.finish(), 0, other.text)

    def stands_still(self, path):
        """Whether the text of the file has been the same for a second."""
        seen = {"text": None}

        def is_so():
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            if text != seen["text"]:
                seen.update(text=text, at=time.monotonic())
            return time.monotonic() - seen["at"] > 1

        return is_so

    def test_a_terminal_that_is_read_slowly_loses_nothing(self):
        (self.folder / "flood.py").write_text(FLOOD, encoding="utf-8")
        for rank in ("1:0", 0):
            with self.subTest(rank), self.across_nodes(rank, program=("flood.py",), AT=str(rank).replace("1:0", "2")) as (terminal, other):
                terminal.wait_for(lambda: "begin" in terminal.text)
                other.wait_until(self.stands_still(self.folder / "printed"), "a rank whose output nobody reads")
                self.assertEqual(terminal.finish(), 0, terminal.text[-1000:])
                self.assertEqual(other.finish(), 0, other.text)
                numbers = re.findall(r"^(\d{7})\r$", terminal.text, re.MULTILINE)
                self.assertEqual(len(numbers), 400000)
                self.assertEqual(numbers, sorted(numbers))
                (self.folder / "printed").unlink()

    def test_a_rank_may_close_its_terminal(self):
        (self.folder / "closes.py").write_text(CLOSES, encoding="utf-8")
        with self.across_nodes("1:0", program=("closes.py",)) as (terminal, other):
            self.assertEqual(terminal.finish(), 0, terminal.text)
            self.assertEqual(other.finish(), 0, other.text)
        self.assertTrue((self.folder / "reached").exists())

    def test_a_terminal_that_is_gone_ends_the_job_without_sighup(self):
        for rank in (0, "1:0"):
            # Not its controlling terminal, so that there is no SIGHUP.
            with self.subTest(rank), self.across_nodes(rank, prepare=end_with_parent, AT=str(rank).replace("1:0", "2")) as (terminal, other):
                self.wait_for_prompt(terminal)
                controller, terminal.controller = terminal.controller, os.open("/dev/null", os.O_RDONLY)
                os.close(controller)
                self.assertEqual(terminal.process.wait(30), 129)
                self.assertEqual(other.finish(), 129, other.text)

    def test_leaving_the_debugger_is_not_a_failure(self):
        for key in ("q\r", "\x04"):
            with self.subTest(key), self.open("--max-restarts", "3", "--log-dir", "logs") as terminal:
                self.wait_for_prompt(terminal)
                self.send(terminal, key)
                begin = time.monotonic()
                self.assertEqual(terminal.finish(), 1, terminal.text)
                self.assertLess(time.monotonic() - begin, 5)  # under load; a second is usual
                self.assert_restored(terminal)
            self.assertRegex(terminal.text, r"ddp-launch: rank 0 \(pid \d+\) left the debugger; exit code 1\.\r+\n")
            self.assertNotIn("FAILED", terminal.text)
            self.assertNotIn("has failed", terminal.text)

    def test_ctrl_c_goes_to_the_rank(self):
        with self.open("--log-dir", "logs", LOOPS="1") as terminal:
            self.wait_for_prompt(terminal)
            self.ask(terminal, "\x03")
            self.assertIn("\r\n40\r\n", self.ask(terminal, "p x\r"))
            self.send(terminal, "c\r")
            terminal.wait_for(lambda: "x is 41" in terminal.text)
            self.ask(terminal, "\x03")
            self.assertIn("\r\n41\r\n", self.ask(terminal, "p x\r"))
            self.send(terminal, "q\r")
            self.assertEqual(terminal.finish(), 1, terminal.text)

    def test_the_rank_sees_the_size_of_the_terminal(self):
        with self.open("--log-dir", "logs") as terminal:
            self.wait_for_prompt(terminal)
            ask = "p os.get_terminal_size(), os.environ.get('COLUMNS'), os.getsid(0) == os.getpid(), os.ttyname(0) == os.ttyname(2)\r"
            self.assertIn("columns=100, lines=24), None, True, True)", self.ask(terminal, ask).replace("\r\n", ""))
            fcntl.ioctl(terminal.controller, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 180, 0, 0))
            terminal.wait_for(lambda: "columns=180, lines=50)" in self.ask(terminal, "p os.get_terminal_size()\r"))
            self.send(terminal, "q\r")
            terminal.finish()

    def test_the_settings_come_back_when_the_rank_or_the_job_is_stopped(self):
        for who, number, code in (("rank", signal.SIGKILL, 137), ("job", signal.SIGTERM, 143), ("job", signal.SIGINT, 130)):
            with self.subTest(who=who, number=number), self.open("--log-dir", "logs", "--grace", "1s") as terminal:
                self.wait_for_prompt(terminal)
                if who == "rank":
                    pid = int(re.search(r"\r\n(\d+)\r\n", self.ask(terminal, "p os.getpid()\r"))[1])
                    os.kill(pid, number)
                else:
                    terminal.process.send_signal(number)
                self.assertEqual(terminal.finish(), code, terminal.text)
                self.assert_restored(terminal)
            lines = [line for line in terminal.text.split("\n") if line.startswith("ddp-launch: ")]
            self.assertTrue(lines and all(line.endswith("\r") for line in lines), terminal.text)

    def test_the_settings_come_back_when_the_rank_cannot_start(self):
        (self.folder / "odd").write_bytes(b"\x7fELF")
        (self.folder / "odd").chmod(0o755)
        with self.open("--log-dir", "logs", program=("./odd",)) as terminal:
            self.assertEqual(terminal.finish(), 126, terminal.text)
            self.assert_restored(terminal)
        self.assertIn("cannot start rank 0: exec ./odd", terminal.text)

    def test_no_hang_is_found_while_it_stands_there(self):
        with self.open("--log-dir", "logs", "--hang-timeout", "1s") as terminal:
            self.wait_for_prompt(terminal)
            terminal.read_for(4)
            self.assertIn("\r\n40\r\n", self.ask(terminal, "p x\r"))
            self.send(terminal, "c\r")
            self.assertEqual(terminal.finish(), 0, terminal.text)

    @unittest.skipIf(shutil.which("gdb") is None, "there is no gdb")
    def test_gdb_with_wrap(self):
        with self.open("--log-dir", "logs", "--wrap", "1:gdb -q -nx --args", rank=1, AT="none") as terminal:
            self.wait_for_prompt(terminal, "(gdb) ")
            self.ask(terminal, "set confirm off\r", "(gdb) ")
            self.send(terminal, "run\r")
            terminal.wait_for(lambda: "rank 1 begins" in terminal.text)
            terminal.read_for(1)
            self.assertIn("SIGINT", self.ask(terminal, "\x03", "(gdb) "))
            self.send(terminal, "continue\r")
            terminal.wait_for(lambda: "Continuing" in terminal.text)
            (self.folder / "done").touch()
            terminal.wait_for(lambda: "exited normally" in terminal.text)
            self.send(terminal, "quit\r")
            self.assertEqual(terminal.finish(), 0, terminal.text)
            self.assert_restored(terminal)
        self.assertNotIn("is stopped (state T)", terminal.text)

    def test_with_preload_the_ranks_are_started_cold(self):
        with self.open("--log-dir", "logs", "--preload", "decimal", "--preload-idle", "0s") as terminal:
            self.wait_for_prompt(terminal)
            self.assertIn("preload: started without it, by --wrap or --debug: rank 0, 1", terminal.text)
            self.assertIn("False", self.ask(terminal, "p 'decimal' in sys.modules\r"))
            self.send(terminal, "c\r")
            self.assertEqual(terminal.finish(), 0, terminal.text)

    def test_a_rank_of_node_0_of_two(self):
        nodes = ["--nnodes", "2", "--master-addr", "127.0.0.1", "--master-port", free_port()]
        with self.open("--log-dir", "logs", *nodes, "--node-rank", "0", rank="0:1", AT="1") as terminal:
            other = self.start(self.bin / "ddp-launch", "--nproc-per-node", 1, *nodes, "--node-rank", 1, "train.py", AT="1", PYTHON_EXEC=sys.executable)
            self.wait_for_prompt(terminal)
            other.wait_for("[1:2] rank 2 begins")
            self.send(terminal, "c\r")
            self.assertEqual(terminal.finish(), 0, terminal.text)
            self.assertEqual(other.finish(), 0, other.text)
            self.assert_restored(terminal)
        self.assertIn("x is 41", terminal.text)

    def test_impossible_debug_flags_are_refused_in_a_line(self):
        (self.folder / "train.py").touch()
        for flags, words in {
            ("--debug", "0"): "--debug: there is no terminal to give to the rank: stdin or stdout is a pipe or a file.",
            ("--debug", "2"): "--debug=2: there is no rank 2 on this node, it has 0 to 1.",
            ("--debug", "x"): "--debug=x: write RANK, or NODE:LOCAL_RANK.",
            ("--debug", "1:0"): "--debug=1:0: there is no node 1, the job has 1, counted from 0.",
            ("--debug", "0", "--nnodes", "2", "--node-rank", "1"): "--debug=0: it names a rank of another node. Give it to the agent that is started by hand on node 0",
        }.items():
            text = self.run_program(self.bin / "ddp-launch", "--nproc-per-node", "2", *flags, "train.py", expect=2)
            self.assertIn(words, text)


if __name__ == "__main__":
    unittest.main()
