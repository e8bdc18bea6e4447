"""Every command of the store at its largest, again and again, while a job of two nodes runs: its heartbeats come in time. Row C13.

DDP_LARGEST_SECONDS: how long, 4 by default. Prints how long the store let another client wait at most.
Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/fault/largest_requests_test.py
"""

import contextlib
import os
import signal
import socket
import struct
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


def numbered(command, count=COUNT, value=None):
    """Of different keys, each with the value."""
    values = b"" if value is None else text(value)
    return bytes([command]) + struct.pack("<Q", count) + b"".join(text(b"%d" % i) + values for i in range(count))


# Requests, and how many bytes the store answers in all; None: it ends the connection, or never answers.
BIG_KEY, BIG_VALUE = text(b"k" * KEY), text(b"v" * VALUE)
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
    "APPEND, DELETE_KEY": ((b"\x09" + text(b"a") + BIG_VALUE) * 8 + b"\x08" + text(b"a"), 8),
    "MULTI_GET": (numbered(10), 8 * COUNT),
    "MULTI_GET, too large": (many(10, b"k" * KEY, count=33), None),
    "MULTI_SET": (numbered(11, value=b"v"), 0),
    "QUEUE_PUSH, QUEUE_POP": (b"\x0e" + text(b"q") + BIG_VALUE + b"\x0f" + text(b"q"), 8 + 8 + VALUE),
    "QUEUE_LENGTH": (b"\x10" + text(b"q"), 8),
    "LIST_KEYS": (b"\x11", 8),
}
PING = b"\x0d" + struct.pack("<I", 4711)


class Largest(ProcessTest):
    def send(self, request, answer):
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as client:
            client.sendall(VALIDATE + request)
            while answer is not None and answer > 0:
                piece = client.recv(1 << 20)
                if not piece:
                    raise AssertionError("the store has ended the connection")
                answer -= len(piece)

    def clients(self, name):
        """Three at once, until the time is over."""
        request, answer = REQUESTS[name]

        def work():
            while time.monotonic() < self.end:
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
            longest = 0
            with socket.create_connection(("127.0.0.1", self.port), timeout=30) as other:
                other.sendall(VALIDATE)
                while time.monotonic() < self.end:
                    begin = time.monotonic()
                    other.sendall(PING)
                    self.assertEqual(other.recv(4, socket.MSG_WAITALL), PING[1:])
                    longest = max(longest, time.monotonic() - begin)
            for thread in threads:
                thread.join()
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
