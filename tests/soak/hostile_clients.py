"""Clients that wish a job no good, at its port. hostile_clients.py ADDRESS PORT SECONDS

Each way is a thread: silence, first bytes and nothing more, requests of a client of the store, forged words of an agent, other protocols,
noise, and answers that are never read. Prints at the end how often it connected, and how often the store answered.
"""

import contextlib
import json
import random
import socket
import struct
import sys
import threading
import time

ADDRESS, PORT, SECONDS = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
END = time.monotonic() + SECONDS
HELD = 300  # sockets that each idle way holds open
PAUSE = 0.002  # after each connection
VALIDATE = b"\x00" + struct.pack("<I", 0x3C85F7CE)
OPENING = b"\xddPagt"
connections = 0
leaks = []
chance = random.Random(1)


def connect():
    global connections
    connections += 1
    return socket.create_connection((ADDRESS, PORT), timeout=1)


def text(value):
    return struct.pack("<Q", len(value)) + value


def frame(value):
    return struct.pack(">I", len(value)) + value


def idle(first_bytes):
    """Many that say so much and no more; the oldest goes when there are enough."""
    held = []
    while time.monotonic() < END:
        with contextlib.suppress(OSError):
            held.append(connect())
            held[-1].sendall(first_bytes)
        if len(held) > HELD:
            held.pop(0).close()
        pause()


def use_store():
    """What torch's client says, and whether the store answers."""
    ping = b"\x0d" + struct.pack("<I", 4711)
    write = b"\x01" + text(b"init/default_pg/0//hostile") + text(b"hostile")
    list_keys = b"\x11"
    while time.monotonic() < END:
        with contextlib.suppress(OSError), connect() as client:
            client.sendall(VALIDATE + ping + write + list_keys)
            answer = client.recv(4096)
            if answer:
                leaks.append(answer)
        pause()


def say(*messages, reads=True):
    while time.monotonic() < END:
        with contextlib.suppress(OSError), connect() as client:
            for message in messages:
                client.sendall(message() if callable(message) else message)
            if reads:
                client.settimeout(0.2)
                client.recv(4096)
        pause()


def hello():
    """An agent of as many workers as no machine has, with lines that are not its own."""
    fields = {
        "type": "hello", "protocol": chance.choice([3, 5, 10]), "version": "\x1b[2J", "user_run_id": "x\n\x1b]0;owned\x07", "node_rank": 1,
        "min_nodes": 2, "max_nodes": 2, "nproc": chance.choice([1, 999999999]), "role": "\n[0]: forged", "host": "h\n", "pid": chance.choice([1, 2**62]), "entry": "\x1b[31m",
        "is_question": False, "problem_code": 0, "problem": "", "job_keys": {"train.epochs\n": "\x1b[2J" * 100},
    }  # fmt: skip
    return frame(json.dumps(fields).encode())


def noise():
    return bytes(chance.randrange(256) for _ in range(chance.randrange(1, 4096)))


def pause():
    time.sleep(PAUSE)


def opening(protocol, flags):
    return OPENING + struct.pack(">HB", protocol, flags)


WAYS = [
    lambda: idle(b""),
    lambda: idle(b"\x00"),
    lambda: idle(VALIDATE),
    lambda: idle(OPENING[:1]),
    lambda: idle(opening(3, 1)),
    lambda: idle(opening(3, 1) + frame(b"n" * 32)),
    use_store,
    lambda: say(opening(3, 0), hello),
    lambda: say(opening(3, 1), lambda: frame(b"n" * 32), lambda: frame(b"p" * 32), hello),
    lambda: say(opening(2, 0), hello, reads=False),
    lambda: say(OPENING, noise),
    lambda: say(opening(3, 1), b"\xff\xff\xff\xff", noise),
    lambda: say(VALIDATE, noise),
    lambda: say(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
    lambda: say(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", noise),
    lambda: say(noise),
]
threads = [threading.Thread(target=way) for way in WAYS]
for thread in threads:
    thread.start()
print("all ways have begun", flush=True)
for thread in threads:
    thread.join()
print(json.dumps({"connections": connections, "answers of the store": len(leaks)}), flush=True)
