"""Python's own TCPStore client against our store and against Python's own server: the same answers.

Run by hand: DDP_BIN=build/release DDP_FAKE_WORKER=... PYTHONPATH=tests/support python3 tests/interop/store_test.py
"""

import datetime
import os
import re
import resource
import socket
import struct
import sys
import threading
import unittest

os.environ["TORCH_CPP_LOG_LEVEL"] = "FATAL"  # its warnings are expected here
import torch
import torch.distributed as dist
from torch.distributed.elastic.utils import store as elastic_store

import store_script
from processes import ProcessTest
from tools import run_tests

HAS_BARRIER = hasattr(dist.TCPStore, "barrier")
SHORT = datetime.timedelta(milliseconds=200)
LONG = datetime.timedelta(seconds=60)


class Refused:
    """An exception as a result: of which type."""

    def __init__(self, error):
        self.name = type(error).__name__

    def __eq__(self, other):
        return isinstance(other, Refused) and self.name == other.name

    def __repr__(self):
        return f"Refused({self.name})"


def attempt(call, *arguments):
    try:
        return call(*arguments)
    except Exception as error:  # noqa: BLE001 - whatever a client may raise is compared
        return Refused(error)


class Meanwhile:
    """A call in another thread; result() waits for it."""

    def __init__(self, call, *arguments):
        self.value = None
        self.thread = threading.Thread(target=self.run, args=(call, arguments), daemon=True)
        self.thread.start()

    def run(self, call, arguments):
        self.value = attempt(call, *arguments)

    def result(self):
        self.thread.join(60)
        return "still waiting" if self.thread.is_alive() else self.value


# ---- what is compared: each takes a function that opens a client, and returns what it saw ----


def plain_values(connect):
    store = connect()
    store.set("key", "value")
    store.set("empty", "")
    store.set("bytes", "\x01\x7f\u00e9")
    store.set("key/with/slashes", "1")
    return [
        store.get("key"), store.get("empty"), store.get("bytes"), store.get("key/with/slashes"), store.num_keys(),
        store.delete_key("key"), store.delete_key("key"), store.delete_key("never"), store.check(["key"]), store.num_keys(),
        sorted(store.list_keys()), store.has_extended_api(),
    ]  # fmt: skip


def counters(connect):
    store = connect()
    seen = [store.add("n", 1), store.add("n", 41), store.add("n", -50), store.add("zero", 0), store.get("n"), store.get("zero")]
    store.set("text", "12x")
    seen += [store.add("text", 1), store.get("text"), store.add("big", 2**62)]
    return seen


def a_counter_that_is_no_number(connect):
    store, other = connect(), connect()
    store.set("word", "abc")
    return [attempt(store.add, "word", 1), other.get("word")]


def appended_values(connect):
    store = connect()
    store.append("list", "a")
    store.append("list", "bc")
    store.append("list", "")
    return [store.get("list"), store.num_keys()]


def compared_values(connect):
    store = connect()
    seen = [
        store.compare_set("k", "expected", "desired"), store.check(["k"]), store.compare_set("k", "", "first"),
        store.compare_set("k", "other", "second"), store.compare_set("k", "first", "third"), store.get("k"),
    ]  # fmt: skip
    store.set("k", "")
    return [*seen, store.compare_set("k", "", "fourth"), store.get("k")]


def several_values(connect):
    store = connect()
    store.multi_set(["a", "b", "c"], ["1", "", "3"])
    return [
        store.multi_get(["c", "a", "b"]), store.multi_get([]), store.check(["a", "b", "c"]), store.check(["a", "d"]), store.check([]),
        attempt(store.multi_get, ["a", "missing"]), store.get("a"),
    ]  # fmt: skip


def queues(connect):
    store, other = connect(), connect()
    seen = [store.queue_len("q"), attempt(store.queue_pop, "q", False)]
    store.queue_push("q", "1")
    store.queue_push("q", "")
    store.queue_push("q", "3")
    store.set("q", "value")
    seen += [store.queue_len("q"), store.num_keys(), store.check(["q"]), other.queue_pop("q"), store.queue_pop("q"), store.queue_len("q")]
    seen += [other.queue_pop("q", False), store.queue_len("q"), store.get("q"), store.delete_key("q"), store.check(["q"])]
    popped = Meanwhile(other.queue_pop, "later")
    store.queue_push("later", "x")
    return [*seen, popped.result(), attempt(store.queue_pop, "never"), store.queue_len("q")]


def waits(connect):
    store, other = connect(), connect(LONG)
    seen = [attempt(store.wait, ["never"]), attempt(store.wait, ["never"], SHORT), attempt(store.get, "never")]
    store.set("never", "after all")  # a cancelled wait leaves the connection in order
    seen += [store.get("never"), attempt(store.wait, ["never"], SHORT)]
    waiting = Meanwhile(other.wait, ["a", "b"], LONG)
    store.set("a", "1")
    store.add("b", 0)
    return [*seen, waiting.result(), other.check(["a", "b"])]


def clones(connect):
    store = connect(LONG)
    twin = store.clone()
    waiting = Meanwhile(store.wait, ["k"], LONG)  # the twin has a connection of its own
    twin.set("k", "v")
    return [waiting.result(), store.get("k"), twin.num_keys()]


def prefixes(connect):
    store = connect()
    inner = dist.PrefixStore("round/0", store)
    inner.set("k", "v")
    return [store.get("round/0/k"), inner.add("n", 2), inner.check(["k", "n"]), store.num_keys(), inner.delete_key("k")]


def limits(connect):
    store, other = connect(), connect()
    store.set_timeout(LONG)  # 8 MiB take a while
    other.set("still", "here")
    seen = []
    for key, value in (("k" * 8000, "x"), ("large", "v" * (8 << 20))):
        store.set(key, value)
        seen.append(store.get(key) == value.encode())
    seen.append(attempt(lambda: (store.set("k" * 9000, "x"), store.get("still"))))
    third = connect()
    seen.append(attempt(lambda: (third.set("huge", "v" * ((8 << 20) + 1)), third.get("still"))))
    return [*seen, other.get("still"), other.check(["huge"])]


def full_barriers(connect):
    clients = [connect(LONG) for _ in range(3)]
    arrived = [Meanwhile(client.barrier, "b", 3) for client in clients]
    seen = [thread.result() for thread in arrived]
    return [*seen, clients[0].get("b"), attempt(clients[0].barrier, "b", 3, SHORT), clients[0].get("b"), clients[0].num_keys()]


def barriers_that_are_not_full(connect):
    store, other = connect(), connect()
    seen = [attempt(store.barrier, "b", 2), attempt(store.barrier, "b", 9, SHORT), store.get("b"), store.check(["b"])]
    seen += [other.barrier("b", 3), other.barrier("one", 1), other.barrier("none", 0), other.get("one")]
    waiting = Meanwhile(connect(LONG).barrier, "set", 9)
    while not other.check(["set"]):
        pass
    other.set("set", "1")
    return [*seen, waiting.result()]


def a_barrier_at_what_is_no_number(connect):
    store, other = connect(), connect()
    store.set("word", "abc")
    store.set("n", "12x")
    return [store.barrier("n", 13), store.get("n"), attempt(store.barrier, "word", 1), other.get("word")]


def counted_workers(connect):
    clients = [connect(LONG, 3) for _ in range(3)]  # each adds 1 to init/
    return [clients[0].num_keys(), clients[0].list_keys(), clients[1].get("init/") if clients[1].check(["init/"]) else None]


def barriers(connect):
    def rank(number):
        store = connect(LONG)
        elastic_store.barrier(store, 4, "all", barrier_timeout=60)
        return elastic_store.synchronize(store, f"data {number}".encode(), number, 4, "sync", timeout=60)

    return [thread.result() for thread in [Meanwhile(rank, number) for number in range(4)]]


BARRIER_SCENARIOS = [full_barriers, barriers_that_are_not_full, a_barrier_at_what_is_no_number]  # torch 2.15
SCENARIOS = [
    plain_values, counters, a_counter_that_is_no_number, appended_values, compared_values, several_values, queues, waits, clones,
    prefixes, limits, counted_workers, barriers,
]  # fmt: skip


# ---- what needs to know that a wait has begun: byte for byte, each takes the port ----

SET, ADD, WAIT, DELETE, CANCEL, PING, PUSH, LENGTH, BARRIER = b"\1", b"\4", b"\6", b"\x08", b"\x0c", b"\x0d", b"\x0e", b"\x10", b"\x12"


def text(value):
    return struct.pack("<Q", len(value)) + value


class Raw:
    """A client that sends what it is told. pings() is answered when all before it has been carried out."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.sendall(b"\0" + struct.pack("<I", 0x3C85F7CE))
        self.ping()

    def __del__(self):
        self.socket.close()

    def send(self, *parts):
        self.socket.sendall(b"".join(parts))
        return self

    def receive(self, size):
        data = b""
        while len(data) < size and (piece := self.socket.recv(size - len(data))):
            data += piece
        return data

    def ping(self):
        """What came before the answer."""
        self.send(PING, b"ping")
        data = b""
        while not data.endswith(b"ping"):
            data += self.receive(1)
        return data[:-4]

    def barrier(self, key, clients):
        self.send(BARRIER, text(key), struct.pack("<Q", clients))
        return self.ping()

    def wait(self, *keys):
        self.send(WAIT, struct.pack("<Q", len(keys)), *map(text, keys))
        return self.ping()


def a_wait_counts_a_key_that_is_deleted_again(port):
    waiting, other = Raw(port), Raw(port)
    seen = [waiting.wait(b"a", b"b"), other.send(SET, text(b"a"), text(b"1"), DELETE, text(b"a")).receive(8), waiting.ping()]
    other.send(SET, text(b"b"), text(b"1"))
    return [*seen, waiting.receive(1)]


def a_push_ends_one_wait_the_oldest(port):
    # Who waits for more keys than the queue is left out: the reference counts each push for it, ours counts the key once.
    first, second, other = Raw(port), Raw(port), Raw(port)
    seen = [second.wait(b"q"), first.wait(b"q")]
    for _ in range(3):
        other.send(PUSH, text(b"q"), text(b"x")).ping()
        seen.append([client.ping() for client in (first, second)])
    return [*seen, other.send(LENGTH, text(b"q")).receive(8)]


def a_cancelled_wait_is_over(port):
    waiting, other = Raw(port), Raw(port)
    seen = [waiting.send(CANCEL).receive(1), waiting.wait(b"k"), waiting.send(CANCEL).receive(1)]
    other.send(SET, text(b"k"), text(b"1")).ping()
    seen.append(waiting.ping())
    seen += [waiting.wait(b"l"), other.send(SET, text(b"l"), text(b"")).ping(), waiting.receive(1), waiting.send(CANCEL).receive(1)]
    return [*seen, waiting.ping()]


def whatever_makes_a_key_ends_a_wait(port):
    waiting, other = Raw(port), Raw(port)
    seen = []
    makers = [SET + text(b"set") + text(b""), ADD + text(b"add") + bytes(8), b"\x09" + text(b"append") + text(b"")]
    makers += [b"\x02" + text(b"compare") + text(b"") + text(b""), b"\x0b" + struct.pack("<Q", 1) + text(b"multi") + text(b"")]
    for key, maker in zip((b"set", b"add", b"append", b"compare", b"multi"), makers, strict=True):
        seen += [waiting.wait(key), other.send(maker).ping(), waiting.receive(1)]
    return seen


def a_barrier_counts_and_its_key_ends_it(port):
    waiting, first, second, other = Raw(port), Raw(port), Raw(port), Raw(port)
    seen = [waiting.wait(b"b"), first.barrier(b"b", 3), waiting.ping(), second.barrier(b"b", 3), other.barrier(b"b", 3)]
    seen += [client.ping() for client in (waiting, first, second)]
    seen += [first.barrier(b"c", 2), first.send(CANCEL).receive(1), second.barrier(b"c", 2), first.ping()]
    seen += [first.barrier(b"d", 2), other.send(DELETE, text(b"d")).receive(8), second.barrier(b"d", 2), other.barrier(b"d", 2)]
    seen += [client.ping() for client in (first, second)]
    seen += [first.barrier(b"e", 5), second.barrier(b"e", 2), first.ping()]
    return [*seen, first.barrier(b"f", 2), other.send(ADD, text(b"f"), bytes(8)).receive(8), first.ping()]


def what_breaks_a_connection(port):
    bad = [b"\x13", b"\0" + struct.pack("<I", 0x3C85F7CE), SET + struct.pack("<Q", 8193), SET + struct.pack("<Q", 1 << 62)]
    bad += [WAIT + struct.pack("<Q", 131073), SET + text(b"k") + struct.pack("<Q", (8 << 20) + 1)]
    return [Raw(port).send(request).receive(1) for request in bad]


RAW_BARRIER_SCENARIOS = [a_barrier_counts_and_its_key_ends_it]  # torch 2.15
RAW_SCENARIOS = [
    a_wait_counts_a_key_that_is_deleted_again, a_push_ends_one_wait_the_oldest, a_cancelled_wait_is_over, whatever_makes_a_key_ends_a_wait,
    what_breaks_a_connection,
]  # fmt: skip


class OurStore(ProcessTest):
    def start_store(self):
        """A job that only holds its store open. Returns its port."""
        fake_worker = os.environ["DDP_FAKE_WORKER"]
        self.job = self.start(self.bin / "ddp-launch", "--verbose", "--no-python", fake_worker, "print", "up", "hold")
        self.job.wait_for("[0:0] up")
        self.addCleanup(self.stop_store)
        return int(re.search(r"endpoint: \S+:(\d+)", self.job.text)[1])

    def stop_store(self):
        self.job.process.terminate()
        self.assertEqual(self.job.finish(), 143, self.job.text)


class SameAsPython(OurStore):
    maxDiff = None

    def require(self, scenario):
        if scenario in BARRIER_SCENARIOS + RAW_BARRIER_SCENARIOS and not HAS_BARRIER:
            self.skipTest(f"torch {torch.__version__} has no TCPStore.barrier: DDP_PYTHON is to have torch 2.15 or newer")

    def compare(self, scenario):
        self.require(scenario)

        def connect_to(port):
            return lambda timeout=SHORT, world=None: dist.TCPStore("127.0.0.1", port, world, False, timeout, world is not None)

        server = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
        theirs = scenario(connect_to(server.port))
        ours = scenario(connect_to(self.start_store()))
        self.assertEqual(ours, theirs)
        self.assertNotIn("still waiting", theirs)

    def compare_bytes(self, scenario):
        self.require(scenario)
        server = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
        self.assertEqual(scenario(self.start_store()), scenario(server.port))

    def test_every_method_of_the_client_is_there(self):
        known = {
            "add", "append", "check", "clone", "compare_set", "delete_key", "get", "has_extended_api", "host", "libuvBackend", "list_keys",
            "multi_get", "multi_set", "num_keys", "port", "queue_len", "queue_pop", "queue_push", "set", "set_timeout", "timeout", "wait",
        }  # fmt: skip
        if HAS_BARRIER:
            known.add("barrier")
        self.assertEqual({name for name in dir(dist.TCPStore) if not name.startswith("_")}, known)


for scenario in SCENARIOS + BARRIER_SCENARIOS:
    setattr(SameAsPython, f"test_{scenario.__name__}", lambda self, scenario=scenario: self.compare(scenario))
for scenario in RAW_SCENARIOS + RAW_BARRIER_SCENARIOS:
    setattr(SameAsPython, f"test_{scenario.__name__}", lambda self, scenario=scenario: self.compare_bytes(scenario))


class ManyClients(OurStore):
    COUNT = 1000

    def test_a_thousand_clients_of_python_at_once(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        self.addCleanup(threading.stack_size, threading.stack_size(512 << 10))
        port = self.start_store()

        def client(number):
            store = dist.TCPStore("127.0.0.1", port, None, False, LONG, wait_for_workers=False)
            store.set(f"rank/{number}", str(number))
            if store.add("here", 1) == self.COUNT:
                store.set("all", "here")
            store.wait(["all"], LONG)
            return store.get(f"rank/{(number + 1) % self.COUNT}")

        threads = [Meanwhile(client, number) for number in range(self.COUNT)]
        seen = [thread.result() for thread in threads]
        self.assertEqual(seen, [str((number + 1) % self.COUNT).encode() for number in range(self.COUNT)])


class Scripts(ProcessTest):
    """Scripts as people write them, unchanged."""

    def run_script(self, *flags, workers=2, **variables):
        script = store_script.__file__
        return self.run_program(
            self.bin / "ddp-launch", "--nproc-per-node", workers, *flags, script, PYTHON_EXEC=sys.executable, **variables
        )

    def test_a_group_of_two_to_four_ranks(self):
        template = self.share_template("torch")
        for workers in (2, 3, 4):
            text = self.run_script(workers=workers, **template)
            for rank in range(workers):
                self.assertIn(f"rank {rank} sum {workers * (workers + 1) / 2} agent store True", text)

    def test_a_group_whose_store_is_with_rank_0(self):
        text = self.run_script("--store", "worker")
        self.assertIn("rank 0 sum 3.0 agent store False", text)

    def test_torchruns_variable_says_the_same(self):
        text = self.run_script(TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")
        self.assertIn("rank 1 sum 3.0 agent store False", text)

    def test_a_name_as_master_address(self):
        self.assertIn("rank 1 sum 3.0", self.run_script("--master-addr", "localhost"))


if __name__ == "__main__":
    run_tests()
