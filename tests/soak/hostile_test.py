"""Jobs of two nodes that train while clients of another user do their worst at the port, with a token and without one.

DDP_SOAK_SECONDS sets for how long each (one job, otherwise; ./make.sh soak hostile: ten minutes).
"""

import contextlib
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import time
import unittest

from processes import DEADLINE, ProcessTest, free_port

CLIENTS = pathlib.Path(__file__).parent / "hostile_clients.py"
JOB = pathlib.Path(__file__).parent.parent.parent / "configs" / "digits.yaml"
SECONDS = float(os.environ.get("DDP_SOAK_SECONDS", "0"))
NOBODY = 65534
MOST_MEMORY = 64 << 10  # KiB of node 0's agent, at its peak
MOST_LINES = 40  # of a minute's console that are not the job's own


def wait_for_port(port):
    end = time.monotonic() + DEADLINE
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            return socket.create_connection(("127.0.0.1", port)).close()
        assert time.monotonic() < end, f"nobody listens at port {port}"


def peak_kib(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", text)[1])


class Hostile(ProcessTest):
    def attack(self, port, seconds):
        # Another user may be kept from this interpreter and from the script.
        command = ["/usr/bin/python3", "-c", CLIENTS.read_text(), "127.0.0.1", port, seconds]
        clients = subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, text=True, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", env={}
        )  # fmt: skip
        self.addCleanup(clients.kill)
        return clients

    def agent(self, node, port, *flags):
        endpoint = ["--nnodes", "2", "--node-rank", str(node), "--master-addr", "127.0.0.1", "--master-port", str(port)]
        values = ["launch.nproc_per_node=1", "train.epochs=1", f"output={self.folder}/node{node}", "checkpoint.resume=never"]
        return self.start(self.bin / "ddp-launch", *endpoint, *flags, JOB, *values)

    def job_under_attack(self, *flags):
        """One job; how long it took, and node 0's peak in KiB."""
        port = free_port()
        begin = time.monotonic()
        zero = self.agent(0, port, *flags)
        wait_for_port(port)
        clients = self.attack(port, 30)
        clients.stdout.readline()  # all of its ways have begun
        one = self.agent(1, port, *flags)
        zero.wait_for("epoch 1/1")
        memory = peak_kib(zero.process.pid)
        codes = one.finish(), zero.finish()
        took = time.monotonic() - begin
        clients.terminate()
        clients.communicate()
        self.assertEqual(codes, (0, 0), zero.text + one.text)
        return took, memory, zero.text

    def hold(self, *flags):
        end = time.monotonic() + SECONDS
        jobs, worst, longest = 0, 0, 0.0
        while time.monotonic() < end or jobs == 0:
            took, memory, text = self.job_under_attack(*flags)
            jobs, worst, longest = jobs + 1, max(worst, memory), max(longest, took)
            if not os.environ.get("DDP_SANITIZE"):  # which takes memory of its own
                self.assertLess(memory, MOST_MEMORY, text)
            self.assertNotIn("\x1b", text)
            self.assertNotIn("forged\n", text)
            refused = [line for line in text.splitlines() if "refused" in line or "turned away" in line]
            self.assertLess(len(refused), MOST_LINES, text)
        print(f"{jobs} jobs, the longest {longest:.1f} s, node 0 at most {worst} KiB")

    def test_with_a_token(self):
        token = self.folder / "token"
        token.write_text("5f2c9a7be1d04c3388a6b1f7d9e2c4a0" * 2)
        token.chmod(0o600)
        self.hold("--token-file", token)

    def test_without_a_token(self):
        self.hold()

    def test_the_store_answers_nobody_of_another_user(self):
        port = free_port()
        launcher = self.start(self.bin / "ddp-launch", "--master-port", port, JOB, "train.epochs=1", f"output={self.folder}")
        launcher.wait_for("rank 0 of 2")
        clients = self.attack(port, 3)
        output = clients.communicate()[0].splitlines()[-1]
        self.assertEqual(launcher.finish(), 0, launcher.text)
        seen = json.loads(output)
        print(seen)
        self.assertGreater(seen["connections"], 100)
        self.assertEqual(seen["answers of the store"], 0)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: the clients are another user's, and only root can be one")
        sys.exit(77)
    unittest.main()
