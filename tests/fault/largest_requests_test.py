"""Every command of the store at its largest, again and again, while a job of two nodes runs: its heartbeats come in time. Row C13.

DDP_LARGEST_SECONDS: how long, 4 by default. Prints how long the store let another client wait at most.
Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/fault/largest_requests_test.py
"""

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

from processes import ProcessTest, free_port

SECONDS = float(os.environ.get("DDP_LARGEST_SECONDS", "4"))
KEY = 8 << 10
VALUE = 8 << 20
COUNT = 131072
VALIDATE = b"\x00" + struct.pack("<I", 0x3C85F7CE)


def text(value):
    return struct.pack("<Q", len(value)) + value


def many(command, *texts, count=COUNT):
    return bytes([command]) + struct.pack("<Q", count) + b"".join(map(text, texts)) * count


def numbered(command, count=COUNT, value=None, prefix=b""):
    """Of different keys, each with the value."""
    values = b"" if value is None else text(value)
    return bytes([command]) + struct.pack("<Q", count) + b"".join(text(prefix + b"%d" % i) + values for i in range(count))


# Requests, and at least how many bytes the store answers in all; None: it ends the connection, or never answers.
BIG_KEY, BIG_VALUE = text(b"k" * KEY), text(b"v" * VALUE)
APPENDED = b"\x09" + text(b"a") + BIG_VALUE
REQUESTS = {
    "SET": (b"\x01" + BIG_KEY + BIG_VALUE, 0),
    "COMPARE_SET": (b"\x02" + BIG_KEY + BIG_VALUE + BIG_VALUE, 8 + VALUE),
    "GET": (b"\x03" + BIG_KEY, 8 + VALUE),
    "ADD": (b"\x04" + text(b"n" * KEY) + struct.pack("<q", 1), 8),
    "CHECK, one key": (many(5, b"x"), 1),
    "CHECK": (numbered(5), 1),
    "WAIT, one key": (many(6, b"x") + b"\x0c", 1),
    "WAIT": (numbered(6) + b"\x0c", 1),
    "WAIT, and away": (many(6, b"x"), None),
    "WAIT, again and again": (many(6, b"x", count=COUNT // 8) * 8 + b"\x0c", 1),
    "APPEND": (APPENDED + b"\x08" + text(b"a"), 8),
    "APPEND, COMPARE_SET": (APPENDED + b"\x02" + text(b"a") + text(b"x") * 2 + b"\x08" + text(b"a"), 8 + 1 + 8),
    "APPEND, too large": (APPENDED * 5, None),
    "MULTI_GET": (numbered(10), 8 * COUNT),
    "MULTI_GET, large": (many(10, b"k" * KEY, count=15), 15 * (8 + VALUE)),
    "MULTI_GET, too large": (many(10, b"k" * KEY, count=33), None),
    "MULTI_SET": (numbered(11, value=b"v"), 0),
    "QUEUE_PUSH, QUEUE_POP": (b"\x0e" + text(b"q") + BIG_VALUE + b"\x0f" + text(b"q"), 8 + 8 + VALUE),
    "QUEUE_LENGTH": (b"\x10" + text(b"q"), 8),
    "LIST_KEYS": (b"\x11", 8 + COUNT * 8),
    "LIST_KEYS, again and again": (b"\x11" * 100, 100 * (8 + COUNT * 8)),
    "LIST_KEYS of many": (numbered(11, value=b"v", prefix=b"x" * 100) + b"\x11", 8 + COUNT * 100),
}
# Asks until its input ends, and prints how long it waited at most, in seconds. A process of its own: it waits for nobody but the store.
OTHER_CLIENT = """
import select, socket, struct, sys, time
longest = 0
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=30) as store:
    store.sendall(bytes.fromhex(sys.argv[2]))
    while not select.select([sys.stdin], [], [], 0.001)[0]:
        begin = time.monotonic()
        store.sendall(b"\\x0d" + struct.pack("<I", 4711))
        assert store.recv(4, socket.MSG_WAITALL) == struct.pack("<I", 4711)
        longest = max(longest, time.monotonic() - begin)
print(longest)
"""


class Largest(ProcessTest):
    def send(self, request, answer):
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as client:
            with contextlib.suppress(ConnectionError if answer is None else ()):
                client.sendall(VALIDATE + request)
            while answer is not None and answer > 0:
                piece = client.recv(1 << 20)
                if not piece:
                    raise ConnectionResetError  # all that it may keep is in use
                answer -= len(piece)

    def clients(self, name):
        """Three at once, until the time is over, and one was answered: what others have left may take all that the store keeps."""
        request, answer = REQUESTS[name]

        def work():
            while time.monotonic() < self.end or (name not in self.sent and time.monotonic() < self.end + 30):
                with contextlib.suppress(OSError):
                    self.send(request, answer)
                    self.sent[name] = self.sent.get(name, 0) + 1

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        return threads

    def test_c13_heartbeats_come_in_time_whatever_a_client_of_the_store_sends(self):
        self.port = free_port()
        words = [self.bin / "ddp-launch", "--nnodes=2", "--master-addr=127.0.0.1", f"--master-port={self.port}", "--grace=1s"]
        nodes = [self.start(*words, f"--node-rank={rank}", "/bin/sh", "-c", "echo begun; exec sleep 1000") for rank in (0, 1)]
        for node in nodes:
            node.wait_for("begun")
        self.sent = {}
        slowest = {}
        for name in REQUESTS:
            self.end = time.monotonic() + SECONDS / len(REQUESTS)
            threads = self.clients(name)
            other = [sys.executable, "-c", OTHER_CLIENT, str(self.port), VALIDATE.hex()]
            with subprocess.Popen(other, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
                for thread in threads:
                    thread.join()
                longest = float(client.communicate()[0])
            slowest[name] = longest
        for name, longest in slowest.items():
            print(f"{name}: {self.sent.get(name, 0)} sent, another client waited {longest * 1000:.0f} ms at most")
            self.assertGreater(self.sent.get(name, 0), 0, name)
        for node in nodes:
            self.assertIsNone(node.process.poll(), node.text)
            self.assertNotIn("lost", node.text)
        nodes[0].process.send_signal(signal.SIGTERM)
        for node in nodes:
            self.assertEqual(node.finish(), 143, node.text)


if __name__ == "__main__":
    unittest.main()
