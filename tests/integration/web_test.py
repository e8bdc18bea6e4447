"""The page of a job as browsers, Prometheus and clients of ill will meet it: --web.

`web_test.py SUITE` runs the tests of one class.
"""

import contextlib
import http.client
import importlib.util
import json
import os
import pathlib
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import time
import unittest

import browser
import processes

EVENTS = b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
TOKEN = "0123456789abcdef0123456789abcdef"


def resident(pid):
    """Of a process, in KiB."""
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii"))[1])


class Job(processes.ProcessTest):
    """Starts ddp-launch with a page, and asks it."""

    def start_job(self, *words, workers=2, flags=(), **variables):
        worker = pathlib.Path(os.environ["DDP_FAKE_WORKER"])
        job = self.start(
            self.bin / "ddp-launch", "--web", "0", "--nproc-per-node", workers, "--grace", "2s", *flags, worker, *words,
            **variables,
        )  # fmt: skip
        job.wait_for("page about the job: http://")
        job.wait_until(lambda: re.search(r"http://\S+:(\d+)/\n", job.text), "the address of the page")
        self.port = int(re.search(r"http://\S+:(\d+)/\n", job.text)[1])
        return job

    def ask(self, target="/", method="GET", address="127.0.0.1", **headers):
        connection = http.client.HTTPConnection(address, self.port, timeout=20)
        with contextlib.closing(connection):
            connection.request(method, target, headers={name.replace("_", "-"): text for name, text in headers.items()})
            answer = connection.getresponse()
            return answer, answer.read().decode()

    def status(self):
        answer, text = self.ask("/api/status")
        self.assertEqual(answer.status, 200, text)
        return json.loads(text)

    def wait_for_status(self, job, is_so, what):
        job.wait_until(lambda: is_so(self.status()), what)

    def connect(self, data=b""):
        client = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        self.addCleanup(client.close)
        client.sendall(data)
        return client

    def stop(self, job, code=143):
        os.kill(job.process.pid, signal.SIGTERM)
        self.assertEqual(job.finish(), code, job.text)


def read_all(client):
    """What comes until the end, or a reset."""
    data = b""
    with contextlib.suppress(ConnectionError):
        while piece := client.recv(65536):
            data += piece
    return data


class Requests(Job):
    def test_status_is_that_of_all_ranks(self):
        job = self.start_job("progress", "7", "checkpoint", "5", "print", "ready", "hold")
        self.wait_for_status(job, lambda status: all(rank.get("step") == 7 for rank in status["workers"]), "step 7")
        status = self.status()
        self.assertEqual([rank["rank"] for rank in status["workers"]], [0, 1])
        self.assertEqual([rank["last_lines"] for rank in status["workers"]], [["ready"]] * 2)
        self.assertEqual(status["workers"][1]["checkpoint_step"], 5)
        self.assertGreater(status["workers"][1]["resident_bytes"], 100_000)
        self.assertEqual((status["state"], status["world_size"], status["pid"]), ("running", 2, job.process.pid))
        self.stop(job)

    def test_workers_of_other_nodes_have_their_last_lines(self):
        worker = os.environ["DDP_FAKE_WORKER"]
        nodes = ["--nnodes", 2, "--master-addr", "127.0.0.1", "--master-port", processes.free_port()]
        other = self.start(self.bin / "ddp-launch", *nodes, "--node-rank", 1, worker, "lines", "5", "said " + "x" * 300, "hold")
        job = self.start_job("hold", workers=1, flags=[*nodes, "--node-rank", 0])
        self.wait_for_status(job, lambda status: any("last_lines" in rank for rank in status["workers"][1:]), "lines of rank 1")
        lines = self.status()["workers"][1]["last_lines"]
        self.assertEqual(lines, ["said " + "x" * 195 + "..."] * 3)
        self.stop(job)
        self.assertEqual(other.finish(), 143, other.text)

    def test_other_requests_are_refused(self):
        job = self.start_job("hold")
        for target, method, status in (
            ("/", "GET", 200),
            ("/", "HEAD", 200),
            ("/metrics", "HEAD", 200),
            ("/", "POST", 405),
            ("/metrics", "DELETE", 405),
            ("/favicon.ico", "GET", 404),
            ("/../etc/passwd", "GET", 404),
            ("/?token=wrong", "GET", 401),
        ):
            answer, text = self.ask(target, method)
            self.assertEqual(answer.status, status, (target, method))
            self.assertIsNone(answer.headers["Access-Control-Allow-Origin"])
            self.assertEqual(method == "HEAD", text == "", (target, method))
        answer, _ = self.ask("/", Host="evil.example")
        self.assertEqual(answer.status, 403)
        for host in ("127.0.0.1@evil", "[::1].evil.com", "127.0.0.1\r\nHost: evil.example"):
            with socket.create_connection(("127.0.0.1", self.port), timeout=10) as client:
                client.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
                self.assertTrue(client.recv(64).startswith(b"HTTP/1.1 400 "), host)
        policy = self.ask("/")[0].headers["Content-Security-Policy"]
        self.assertIn("default-src 'none'", policy)
        self.assertIn("frame-ancestors 'none'", policy)
        self.stop(job)

    def test_the_token_is_good_from_everywhere(self):
        job = self.start_job("hold", flags=["--web", "0.0.0.0:0"], DDP_TOKEN=TOKEN)
        for target, headers in ((f"/metrics?token={TOKEN}", {}), ("/metrics", {"Authorization": f"Bearer {TOKEN}"})):
            answer, _ = self.ask(target, Host="node-a.example", **headers)
            self.assertEqual(answer.status, 200)
        self.stop(job)

    def test_a_port_that_is_taken_is_a_mistake_of_the_command_line(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            said = self.run_program(self.bin / "ddp-launch", "--web", port, "echo", "never", expect=2)
        self.assertRegex(said, f"cannot listen at 127.0.0.1:{port}: .*held by pid {os.getpid()}.*Give another --web")
        self.assertNotIn("never\n", said)

    def test_elsewhere_is_open_with_a_token_alone(self):
        said = self.run_program(self.bin / "ddp-launch", "--web", "0.0.0.0:0", "echo", "never", expect=2)
        self.assertIn("Give --token-file or DDP_TOKEN", said)
        said = self.run_program(self.bin / "ddp-launch", "--web", "node-a:80", "echo", "never", expect=2)
        self.assertIn("--web: node-a:80: not a port", said)

    def test_the_job_file_may_say_it_too(self):
        (self.folder / "job.yaml").write_text("launch: {web: 0, program: echo, nproc_per_node: 1}\ndata: {batch: 2}\n", encoding="utf-8")
        self.assertIn("page about the job: http://127.0.0.1:", self.run_program(self.bin / "ddp-launch", "job.yaml"))


class Access(Job):
    def test_another_user_of_this_node_needs_the_token(self):
        job = self.start_job("hold", DDP_TOKEN=TOKEN)
        for target, status in (("/", "401"), (f"/?token={TOKEN}", "200")):
            script = (
                "import os, socket, sys; os.setuid(65534); s = socket.create_connection(('127.0.0.1', int(sys.argv[1])));"
                "s.sendall(f'GET {sys.argv[2]} HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n\\r\\n'.encode()); print(s.recv(12).decode())"
            )
            said = self.run_program("/usr/bin/python3", "-c", script, self.port, target)
            self.assertIn(status, said)
        self.stop(job)


    def test_a_flood_of_another_user_leaves_room_for_ours(self):
        job = self.start_job("hold")
        # 600 that say nothing, each made again when it is closed, until this test has what it wants.
        script = (
            "import os, resource, select, socket, sys; os.setuid(65534)\n"
            "resource.setrlimit(resource.RLIMIT_NOFILE, (1000, 1000))\n"
            "def another():\n"
            "    s = socket.socket(); s.setblocking(False); s.connect_ex(('127.0.0.1', int(sys.argv[1]))); return s\n"
            "held = [another() for _ in range(600)]\n"
            "print('flooding', flush=True)\n"
            "while True:\n"
            "    gone = set(select.select(held, [], [], 0.01)[0])\n"
            "    held = [another() if s in gone else s for s in held]\n"
        )
        flood = self.start("/usr/bin/python3", "-c", script, self.port)
        flood.wait_for("flooding")
        slowest = 0
        for _ in range(8):
            begin = time.monotonic()
            self.assertEqual(self.ask("/api/status")[0].status, 200)
            slowest = max(slowest, time.monotonic() - begin)
        flood.process.kill()
        flood.finish()
        print(f"a flood of another user: the slowest of 8 answers took {slowest:.2f} s")
        self.stop(job)


class Clients(Job):
    """Limits: anyone who says nothing, too much, or garbage harms neither the job nor the next client."""

    def test_a_header_that_is_too_long(self):
        job = self.start_job("hold")
        client = self.connect(b"GET / HTTP/1.1\r\nX: " + b"a" * 20_000)
        self.assertIn(b"HTTP/1.1 431", read_all(client))
        self.stop(job)

    def test_a_header_may_come_in_pieces(self):
        job = self.start_job("hold")
        request = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: " + b"c" * 7_000 + b"\r\n\r\n"
        pieces = ([request], [request[:23], request[23:]], [request[i : i + 1] for i in range(60)] + [request[60:]])
        for parts in pieces:
            client = self.connect(b"")
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for part in parts:
                client.sendall(part)
            self.assertIn(b"HTTP/1.1 200", read_all(client))
        self.stop(job)

    def test_connections_come_no_faster_by_two_ways(self):
        """IPv4 and IPv6 in turn: 1,000 a second are taken, the rest waits in the kernel."""
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
        job = self.start_job("hold")
        clients, ways = [], [(socket.AF_INET, "127.0.0.1")]
        with contextlib.suppress(OSError), socket.create_connection(("::1", self.port)):
            ways.append((socket.AF_INET6, "::1"))
        begin = time.monotonic()
        for _ in range(3000 // len(ways)):
            for family, address in ways:
                client = socket.socket(family)
                self.addCleanup(client.close)
                client.setblocking(False)
                client.connect_ex((address, self.port))
                clients.append(client)
        poll = select.poll()  # of any number of descriptors
        for client in clients:
            poll.register(client, select.POLLIN)
        taken = len(poll.poll(0))
        self.assertLess(taken, 1000 * (time.monotonic() - begin + 1) + 50, "of 3,000, taken, and closed again")
        self.assertEqual(self.ask()[0].status, 200)
        self.stop(job)

    def test_garbage(self):
        job = self.start_job("hold")
        for data in (b"\0" * 100 + b"\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"\r\n\r\n\r\n"):
            self.assertIn(b"HTTP/1.1 400", read_all(self.connect(data)), data)
        self.assertEqual(self.ask()[0].status, 200)
        self.stop(job)

    def test_a_body_is_not_taken(self):
        job = self.start_job("hold")
        client = self.connect(b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000000\r\n\r\n")
        self.assertIn(b"HTTP/1.1 405", read_all(client))
        self.stop(job)

    def test_silent_client_is_disconnected(self):
        job = self.start_job("hold")
        begin = time.monotonic()
        self.assertEqual(read_all(self.connect(b"GET / HTTP/1.1\r\n")), b"")
        self.assertLess(time.monotonic() - begin, 8)
        self.stop(job)

    def test_a_stream_that_reads_nothing_is_dropped_and_others_go_on(self):
        job = self.start_job("train", "100000", "0.01", workers=8)
        slow = socket.socket()
        self.addCleanup(slow.close)
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", self.port))
        slow.sendall(EVENTS)
        good = self.connect(EVENTS)
        seen = b""
        while self.is_served(slow):
            seen += good.recv(65536)
            self.assertLess(seen.count(b"event: head"), 200, "the slow one is still there")
        self.assertGreater(seen.count(b"event: head"), 3)
        self.stop(job)

    def is_served(self, client):
        """Whether the agent's side of that connection is still open."""
        port = client.getsockname()[1]
        pairs = [row.split()[2:4] for row in self.run_program("ss", "-tnH", "state", "established").splitlines()]
        return any(own.endswith(f":{self.port}") and peer.endswith(f":{port}") for own, peer in pairs)

    def test_more_streams_than_there_is_room_for(self):
        job = self.start_job("hold")
        answers = [self.connect(EVENTS).recv(12) for _ in range(20)]
        self.assertEqual(answers.count(b"HTTP/1.1 200"), 16)
        self.assertEqual(answers.count(b"HTTP/1.1 503"), 4)
        self.stop(job)

    def test_two_hundred_bad_clients_harm_nobody(self):
        """Beside them a job of two nodes goes on, though heartbeats that fail to come for 5 s end it, and the page answers."""
        port = processes.free_port()
        worker = os.environ["DDP_FAKE_WORKER"]
        nodes = ["--nnodes", 2, "--master-addr", "127.0.0.1", "--master-port", port]
        other = self.start(self.bin / "ddp-launch", *nodes, "--node-rank", 1, worker, "train", "100000", "0.01")
        job = self.start_job("train", "100000", "0.01", workers=1, flags=[*nodes, "--node-rank", 0])
        self.wait_for_status(job, lambda status: any(rank.get("step", 0) > 0 for rank in status["workers"]), "a step")
        before = resident(job.process.pid)
        clients = [self.connect(b"" if i % 2 else b"GET / HT") for i in range(100)]
        slowest, end = 0, time.monotonic() + 7
        while time.monotonic() < end:
            for data in (b"", b"GET /", b"\xff" * 4000, EVENTS, b"a" * 20_000):
                with contextlib.suppress(OSError):
                    clients.append(socket.create_connection(("127.0.0.1", self.port), timeout=0.5))
                    clients[-1].sendall(data)
            while len(clients) > 200:
                clients.pop(0).close()
            begin = time.monotonic()
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.status()
                slowest = max(slowest, time.monotonic() - begin)
        after = resident(job.process.pid)
        for client in clients:
            client.close()
        self.wait_for_status(job, lambda status: status["state"] == "running", "the job")
        self.assertEqual([rank["ended"] for rank in self.status()["workers"]], [False, False])
        self.assertNotIn("lost", job.text)
        if not os.environ.get("DDP_SANITIZE"):  # which keeps what was freed for a while
            self.assertLess(after - before, 5 * 1024, "KiB")
        print(f"200 bad clients: memory +{after - before} KiB, slowest answer {slowest:.2f} s")
        self.stop(job)
        self.assertEqual(other.finish(), 143, other.text)


class Metrics(Job):
    """/metrics, by Prometheus' own parser."""

    def test_prometheus_reads_them(self):
        from prometheus_client.parser import text_string_to_metric_families as read

        job = self.start_job("train", "100000", "0.01", workers=3)
        self.wait_for_status(job, lambda status: all("step_seconds" in rank for rank in status["workers"]), "times of steps")
        self.wait_for_status(job, lambda status: status["workers"][0]["accuracy"], "an evaluation")
        answer, text = self.ask("/metrics")
        self.assertEqual(answer.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        families = {family.name: family for family in read(text)}
        self.assertEqual({sample.labels["rank"] for sample in families["ddp_rank_step"].samples}, {"0", "1", "2"})
        self.assertEqual(families["ddp_samples"].type, "counter")
        self.assertEqual(families["ddp_world_size"].samples[0].value, 3)
        self.assertEqual(families["ddp_rank_data_wait_seconds"].type, "counter")
        self.assertEqual({sample.value for sample in families["ddp_rank_device_bytes"].samples}, {256 * 2**20})
        self.assertGreater(families["ddp_accuracy"].samples[0].value, 0.5)
        for sample in families["ddp_rank_step_seconds"].samples:
            self.assertGreater(sample.value, 0.005)
        self.assertTrue(all(family.documentation for family in families.values()))
        self.stop(job)


class Page(Job):
    """The real page of a real job in a real browser."""

    def setUp(self):
        super().setUp()
        self.browser = self.enterContext(browser.Browser(dict(os.environ)))

    def open_page(self):
        self.browser.look(1280)
        self.browser.open(f"http://127.0.0.1:{self.port}/")

    def text_of(self, part):
        return self.browser.value(f"document.getElementById({part!r}).innerText")

    def test_page_shows_the_job_and_updates(self):
        job = self.start_job("print", "<b>ready</b>", "train", "100000", "0.01", workers=4)
        self.open_page()
        self.browser.wait_for("document.querySelectorAll('#ranks tbody tr').length == 4")
        # What is there at first is loaded with it; curves come by events.
        self.browser.wait_for("document.querySelectorAll('#charts svg').length >= 4")
        step = "Number(document.querySelector('#ranks tbody tr td:nth-child(5)').innerText.replace(/[^0-9].*/, ''))"
        self.browser.wait_for(f"window.before = {step}")
        self.browser.wait_for(f"{step} > window.before")
        self.assertIn("running", self.text_of("head"))
        self.assertIn("<b>ready</b>", self.text_of("ranks"))  # as text
        self.assertEqual(self.browser.value("document.querySelectorAll('#ranks b').length"), 0)
        self.assertEqual(self.browser.complaints(), [])
        self.stop(job)

    def test_selection_survives_updates(self):
        job = self.start_job("train", "100000", "0.01")
        self.open_page()
        self.browser.wait_for("document.querySelector('#ranks tbody tr').innerText.includes('training') && source && source.readyState == 1")
        chosen = "document.getSelection().toString()"
        self.browser.value("document.getSelection().selectAllChildren(document.querySelector('#ranks tbody tr'))")
        selected = self.browser.value(chosen)
        self.assertIn("training", selected)
        self.browser.value("window.seen = 0; new MutationObserver(() => ++window.seen).observe(document.getElementById('head'), {childList: true})")
        self.browser.wait_for("window.seen >= 3")
        self.assertEqual(self.browser.value(chosen), selected)
        step = "document.querySelector('#ranks tbody tr td:nth-child(5)').innerText"
        self.browser.value(f"document.getSelection().removeAllRanges(); window.before = {step}")
        self.browser.wait_for(f"{step} != window.before")
        self.stop(job)

    def test_page_shows_how_the_job_ended(self):
        job = self.start_job("train", "100000", "0.01")
        self.open_page()
        self.browser.wait_for("document.querySelectorAll('#ranks tbody tr').length == 2")
        self.browser.wait_for("isOver === false && source && source.readyState == 1")
        self.wait_for_status(job, lambda status: status["workers"][1]["pid"], "the pid of rank 1")
        victim = self.status()["workers"][1]["pid"]
        os.kill(victim, signal.SIGKILL)
        self.assertEqual(job.finish(), 137)
        self.browser.wait_for("isOver")
        self.assertIn("exit code 137", self.text_of("head"))
        self.assertIn("rank 1", self.text_of("head"))
        self.assertEqual(self.browser.value("document.querySelectorAll('#ranks tbody tr').length"), 2)
        self.assertRegex(self.text_of("ranks"), r"ended\s")
        self.assertFalse(self.browser.value("lost.classList.contains('shown')"))

    def test_page_shows_that_the_agent_is_gone(self):
        job = self.start_job("train", "100000", "0.01")
        self.open_page()
        self.browser.wait_for("source && source.readyState == 1")
        os.kill(job.process.pid, signal.SIGKILL)
        job.finish()
        self.browser.wait_for("lost.classList.contains('shown')")
        self.assertIn("does not answer", self.browser.value("lost.innerText"))

    def test_no_window_is_too_narrow(self):
        job = self.start_job("train", "100000", "0.01", workers=4)
        self.open_page()
        self.browser.wait_for("document.querySelectorAll('#charts svg').length >= 4")
        colours = set()
        for width, dark in ((360, False), (360, True), (1280, False), (2400, True)):
            self.browser.look(width, dark=dark)
            self.assertEqual(self.browser.value("document.documentElement.scrollWidth"), width)
            colours.add(self.browser.value("getComputedStyle(document.body).backgroundColor"))
        self.assertEqual(len(colours), 2)
        self.stop(job)


def what_is_missing(suite):
    """Why these tests cannot run here; empty: they can."""
    if suite == "Access" and os.geteuid() != 0:
        return "only root can be another user"
    if suite == "Page" and browser.PROGRAM is None:
        return "no chromium here"
    if suite == "Metrics" and importlib.util.find_spec("prometheus_client") is None:
        return "no Python package prometheus_client here"
    return ""


if __name__ == "__main__":
    missing = what_is_missing(sys.argv[1])
    if missing:
        print(f"skipped: {missing}")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
