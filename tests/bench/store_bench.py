"""Operations and connects per second: our store against Python's TCPStore server, the same client program, interleaved.

Python's server asks for the name of every client's address, in its only thread: a slow name server is a slow store, and loads
like these make it one. It is measured without: in a mount namespace whose nsswitch.conf names files alone, where unshare works.

store_bench.py DDP_LAUNCH STORE_LOAD FAKE_WORKER [--python PYTHON] [--rounds N]: medians, spread and ratio of each load.
"""

import argparse
import contextlib
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

LOADS = [
    ("round trips of 1 client", "1/s", ["round-trips", "10000"]),
    ("operations of 64 clients", "1/s", ["operations", "64", "30000"]),
    ("operations of 1,000 clients", "1/s", ["operations", "1000", "30000"]),
    ("connects", "1/s", ["connects", "2000"]),
    ("1,000 clients connect, wait and are released", "ms", ["barrier", "1000"]),
]

SERVER = """
import resource, sys, torch.distributed as dist
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # at 1,024 it stops to answer anybody; ours raises it by itself
store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
print("port", store.port, flush=True)
sys.stdin.read()
"""


# Words: the file, the interpreter, the program.
WITHOUT_NAMES = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", 'mount --bind "$0" /etc/nsswitch.conf && exec "$1" -c "$2"']


def torch_server(python, folder):
    names = pathlib.Path(folder) / "nsswitch.conf"
    names.write_text("hosts: files\n", encoding="utf-8")
    if subprocess.run([*WITHOUT_NAMES, names, "true", ""], capture_output=True, check=False).returncode == 0:
        return [*WITHOUT_NAMES, names, python, SERVER]
    print("no mount namespace here: Python's server asks the name server for every connection, which the figures show")
    return [python, "-c", SERVER]


class Server:
    """A store that is up; stop() ends it."""

    def __init__(self, command, pattern):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        seen = ""
        while not (match := re.search(pattern, seen)):
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit(f"store_bench: {command[0]} ended:\n{seen}")
            seen += line
        self.port = match[1]

    def stop(self):
        self.process.terminate()
        self.process.communicate()


@contextlib.contextmanager
def up(commands):
    servers = {name: Server(command, pattern) for name, (command, pattern) in commands.items()}
    try:
        yield servers
    finally:
        for server in servers.values():
            server.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("launcher")
    parser.add_argument("load")
    parser.add_argument("fake_worker")
    parser.add_argument("--python", default=sys.executable, help="one that has torch")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()

    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        commands = {
            "ours": ([arguments.launcher, "--verbose", "--no-python", arguments.fake_worker, "hold"], r"endpoint: \S+:(\d+)\n"),
            "torch": (torch_server(arguments.python, folder), r"port (\d+)\n"),
        }
        with up(commands) as servers:
            for _ in range(arguments.rounds):
                for what, _, words in LOADS:
                    for name, server in servers.items():
                        run = subprocess.run([arguments.load, server.port, *words], capture_output=True, text=True, check=True, timeout=120)
                        figures.setdefault((name, what), []).append(float(run.stdout))

    print(f"store, median of {arguments.rounds} interleaved rounds (least to most); torch is Python's TCPStore server")
    for what, unit, _ in LOADS:
        ours, theirs = (figures[name, what] for name in ("ours", "torch"))
        ratio = statistics.median(ours) / statistics.median(theirs)
        better = 1 / ratio if unit == "ms" else ratio
        shown = "   ".join(
            f"{name} {statistics.median(values):,.0f} {unit} ({min(values):,.0f} to {max(values):,.0f})"
            for name, values in (("ours", ours), ("torch", theirs))
        )
        print(f"  {what}: {shown}   ours is {better:.2f} times as fast")


main()
