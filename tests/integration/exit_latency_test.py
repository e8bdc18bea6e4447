"""From the death of the last process of a job to the launcher's exit: what only shows things makes no end late.

Each feature of the output is measured beside a plain job, in turn. As a table, of any launcher:
PYTHONPATH=tests/support python3 tests/integration/exit_latency_test.py --table build/release/ddp-launch
"""

import argparse
import contextlib
import dataclasses
import os
import pathlib
import pty
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

import processes

LIMIT = 60  # seconds for one job
RUNS = 3  # of a case, and as many plain jobs between them
ROUNDS = 3  # a case is late when it is late in each of them: the machine may be busy once
BOUND = 0.030  # seconds above a plain job; what is looked for is 50 ms, 100 ms and 5 s
ENDS = ("success", "failure", "killed", "interrupted")

# It tells its pid and its port, prints, and waits for its end. Descriptor 9 closes with its life, and with that of its children.
WORKER = """
exec 9>"$LIFE"
{first}
echo "$RANK $$ $MASTER_PORT" >&9
read code <"$ORDERS.$RANK"
{last}
exit $code
"""


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    flags: tuple = ()
    first: str = "echo begin"
    last: str = "echo end"
    nodes: int = 1
    ranks: int = 2
    on_terminal: bool = False
    is_deaf: bool = False  # nobody reads its stdout
    silent: str = ""  # who is connected, and says nothing: "control" or "store"


CASES = (
    Case("plain"),
    Case("progress bar", first=r"printf '\rstep 1'", last=r"printf '\rstep 2'"),
    Case("progress bar on stderr", first=r"printf '\rstep 1' >&2", last=r"printf '\rstep 2\n' >&2"),
    Case("bar on a terminal", first=r"printf '\rstep 1'", last=r"printf '\rstep 2'", on_terminal=True),
    Case("no newline at the end", last="printf end"),
    Case("--fold", flags=("--fold",), last="echo end of $RANK"),
    Case("--console-limit", flags=("--console-limit", "1", "--log-dir", "{folder}", "-t", "3"), last="echo 1; echo 2; echo 3"),
    Case("-t 3", flags=("--log-dir", "{folder}", "-t", "3")),
    Case("-r 3", flags=("--log-dir", "{folder}", "-r", "3")),
    Case("--log-dir", flags=("--log-dir", "{folder}")),
    Case("duplicate filters", flags=("--log-dir", "{folder}", "-t", "3", "--duplicate-stdout-filters", "end")),
    Case("stdout that nobody reads", is_deaf=True),
    Case("a terminal", on_terminal=True),
    Case("--hang-timeout", flags=("--hang-timeout", "60s")),
    Case("--web", flags=("--web", "0")),
    Case("a silent client of the control socket", silent="control"),
    Case("a silent client of the store", silent="store"),
    Case("two nodes", nodes=2, ranks=1),
    Case("two nodes, a terminal", nodes=2, ranks=1, on_terminal=True),
    Case("two nodes, --fold and a bar", nodes=2, ranks=1, flags=("--fold",), first=r"echo $RANK; printf '\rstep 1'"),
)


class Job:
    """A job of one case, from its start to its exit."""

    def __init__(self, launcher, case, environment, folder):
        self.case = case
        self.environment = environment
        self.folder = pathlib.Path(folder)
        self.terminal = -1
        os.mkfifo(self.folder / "life")
        self.life = os.open(self.folder / "life", os.O_RDONLY | os.O_NONBLOCK)
        self.orders = []  # by rank
        for rank in range(case.nodes * case.ranks):
            os.mkfifo(self.folder / f"orders.{rank}")
            self.orders.append(os.open(self.folder / f"orders.{rank}", os.O_RDWR))
        port = processes.free_port()
        self.agents = [self.start(launcher, rank, port) for rank in range(case.nodes)]
        self.workers = {}

    def start(self, launcher, node_rank, port):
        case = self.case
        nodes = ["--nnodes", "2", "--node-rank", str(node_rank), "--master-addr", "127.0.0.1", "--master-port", str(port)]
        script = WORKER.format(first=case.first, last=case.last)
        command = [launcher, "--nproc-per-node", str(case.ranks), *(nodes if case.nodes == 2 else ["--standalone"]),
                   *(flag.format(folder=self.folder / "logs") for flag in case.flags),
                   "--no-python", "sh", "-c", script.replace("$$", "$$$$")]  # fmt: skip
        environment = {**self.environment, "LIFE": str(self.folder / "life"), "ORDERS": str(self.folder / "orders"),
                       "XDG_RUNTIME_DIR": str(self.folder)}  # fmt: skip
        output = errors = subprocess.DEVNULL
        closes = []
        if case.on_terminal and node_rank == 0:
            self.terminal, output = pty.openpty()
            errors = output
            closes.append(output)
        if case.is_deaf:
            read_end, output = os.pipe()
            os.close(read_end)
            closes.append(output)
        agent = subprocess.Popen(list(map(str, command)), env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
        for fd in closes:
            os.close(fd)
        return agent

    def wait_for_workers(self):
        text = ""
        while text.count("\n") < self.case.nodes * self.case.ranks:
            text += self.wait_for(self.life).decode()
        for line in text.splitlines():
            rank, pid, port = map(int, line.split())
            self.workers[rank] = pid
            self.port = port

    def wait_for(self, fd):
        """What it says next. What comes to the terminal is read and thrown away."""
        deadline = time.monotonic() + LIMIT
        while True:
            if self.terminal >= 0 and select.select([self.terminal], [], [], 0)[0]:
                self.read_terminal()
            fds = [fd, self.terminal] if self.terminal >= 0 else [fd]
            ready = select.select(fds, [], [], deadline - time.monotonic())[0]
            assert ready, "a job that does not begin"
            if fd in ready and (piece := os.read(fd, 4096)):
                return piece

    def read_terminal(self):
        try:
            os.read(self.terminal, 65536)
        except OSError:  # the last one who had it open is gone
            os.close(self.terminal)
            self.terminal = -1

    @contextlib.contextmanager
    def silent_client(self):
        """Somebody who has connected and says nothing."""
        if not self.case.silent:
            yield
            return
        is_control = self.case.silent == "control"
        with socket.socket(socket.AF_UNIX if is_control else socket.AF_INET) as connection:
            path = next((self.folder / "ddp").glob("*/control"), None) if is_control else None
            connection.connect(str(path) if is_control else ("127.0.0.1", self.port))
            yield

    def end(self, how):
        """Ends it. Returns the seconds from the last worker's death to the exit of the last agent."""
        if how == "killed":
            os.kill(self.workers[0], signal.SIGKILL)
        elif how == "interrupted":
            for agent in self.agents:
                agent.send_signal(signal.SIGINT)
        elif how == "failure":
            os.write(self.orders[0], b"3\n")
        else:
            for orders in self.orders:
                os.write(orders, b"0\n")
        pidfds = {os.pidfd_open(agent.pid) for agent in self.agents}
        poller = select.poll()
        poller.register(self.life, 0)  # the end of all who could write
        for pidfd in pidfds:
            poller.register(pidfd, select.POLLIN)
        if self.terminal >= 0:
            poller.register(self.terminal, select.POLLIN)
        died = None
        while pidfds:
            ready = poller.poll(LIMIT * 1000)
            now = time.monotonic()
            assert ready, "a job that does not end"
            for fd, _ in ready:
                if fd == self.life:
                    died = now
                    poller.unregister(fd)
                elif fd == self.terminal:
                    self.read_terminal()
                    if self.terminal < 0:
                        poller.unregister(fd)
                else:
                    poller.unregister(fd)
                    os.close(fd)
                    pidfds.remove(fd)
        # Both in one look: it was too short to tell.
        return now - died if died else 0.0

    def close(self):
        for agent in self.agents:
            if agent.poll() is None:
                agent.kill()
            agent.wait()
        for fd in (self.life, *self.orders, self.terminal):
            if fd >= 0:
                os.close(fd)


def measure(launcher, case, how, environment):
    """Seconds of one job, and its exit codes."""
    with tempfile.TemporaryDirectory(prefix="ddp-exits-") as folder:
        job = Job(launcher, case, environment, folder)
        try:
            job.wait_for_workers()
            with job.silent_client():
                seconds = job.end(how)
            return seconds, [agent.wait() for agent in job.agents]
        finally:
            job.close()


def compare(launcher, case, how, runs, environment):
    """Seconds of jobs of the case, and of plain ones of as many nodes, measured in turn."""
    plain = Case("plain", nodes=case.nodes, ranks=case.ranks)
    codes = {"success": 0, "failure": 3, "killed": 137, "interrupted": 130}
    samples = ([], [])
    for _ in range(runs):
        for one, seconds in zip((case, plain), samples, strict=True):
            took, ended = measure(launcher, one, how, environment)
            assert ended == [codes[how]] * case.nodes, f"{one.name}, {how}: {ended}"
            seconds.append(took)
    return samples


class Exits(processes.ProcessTest):
    def test_displays_do_not_delay_the_end(self):
        for case in CASES[1:]:
            for how in ENDS:
                with self.subTest(case=case.name, how=how):
                    self.check(case, how)

    def check(self, case, how):
        seen = []
        for _ in range(ROUNDS):
            own, plain = map(statistics.median, compare(self.bin / "ddp-launch", case, how, RUNS, self.environment))
            if own <= plain + BOUND:
                return
            seen.append(f"{own * 1000:.1f} ms (a plain job: {plain * 1000:.1f} ms)")
        self.fail(f"from the last death to the exit: {', '.join(seen)}")


def print_table(launcher, runs):
    print(f"From the last death to the exit, in ms: median of {runs} (of plain jobs, measured in turn)\n")
    print(f"{'':40s}" + "".join(f"{how:>20s}" for how in ENDS))
    for case in CASES:
        row = ""
        for how in ENDS:
            own, plain = map(statistics.median, compare(launcher, case, how, runs, dict(os.environ)))
            cell = f"{own * 1000:.1f} ({plain * 1000:.1f})"
            row += f"{cell:>20s}"
        print(f"{case.name:40s}{row}", flush=True)


if __name__ == "__main__":
    if "--table" in sys.argv:
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("--table", metavar="LAUNCHER", type=pathlib.Path)
        parser.add_argument("--runs", type=int, default=RUNS)
        arguments = parser.parse_args()
        print_table(arguments.table.resolve(), arguments.runs)
    elif os.environ.get("DDP_SANITIZE"):
        print("skipped: it compares milliseconds, which are the sanitizer's here")
        sys.exit(77)
    else:
        unittest.main()
