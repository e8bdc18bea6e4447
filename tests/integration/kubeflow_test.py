"""Kubeflow's trainer is told how far a run is, over TLS, and a server that does not answer, refuses or lies harms nobody.

Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/integration/kubeflow_test.py
"""

import http.server
import json
import pathlib
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import unittest

from processes import ProcessTest, free_port

JOB = """
name: mnist
data: {name: digits, batch_per_rank: 16, train_size: 320, test_size: 60}
optimizer: {name: sgd, lr: 0.01}
train: {epochs: 2, log_every: 1}
output: run
"""
PATH = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/mnist/status"
ADVICE = " Training goes on, and it is tried again."


def setUpModule():
    """One authority and the certificate of 127.0.0.1 that it has signed; and one that nobody knows."""
    global PLACE
    folder = tempfile.TemporaryDirectory(prefix="ddp-test-")
    unittest.addModuleCleanup(folder.cleanup)
    PLACE = pathlib.Path(folder.name)
    for name in ("known", "unknown"):
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
                   "-keyout", PLACE / f"{name}.key", "-out", PLACE / f"{name}.crt"]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)


class Trainer:
    """Kubeflow's server: keeps what it is told."""

    def __init__(self, status=200, certificate="known"):
        trainer, self.posts, self.has_post = self, [], threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                trainer.posts.append((self.path, self.headers["Authorization"], self.headers["Content-Type"], json.loads(body)))
                trainer.has_post.set()
                answer = b'{"message": "the token is \x1b[31mnot mine"}' if status != 200 else body
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(PLACE / f"{certificate}.crt", PLACE / f"{certificate}.key")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"https://127.0.0.1:{self.server.server_address[1]}{PATH}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Kubeflow(ProcessTest):
    def setUp(self):
        super().setUp()
        (self.folder / "job.yaml").write_text(JOB, encoding="utf-8")
        self.token = self.folder / "token"
        self.token.write_text("a.good.token\n", encoding="utf-8")

    def trainer(self, **options):
        trainer = Trainer(**options)
        self.addCleanup(trainer.close)
        return trainer

    def variables(self, url):
        return {"KUBEFLOW_TRAINER_SERVER_URL": url, "KUBEFLOW_TRAINER_SERVER_CA_CERT": str(PLACE / "known.crt"), "KUBEFLOW_TRAINER_SERVER_TOKEN": str(self.token)}

    def train(self, url, *arguments, expect=0):
        return self.run_program(self.bin / "ddp-launch", "--nproc-per-node", 2, "job.yaml", *arguments, expect=expect, **self.variables(url))

    def assert_said_once(self, text, why):
        self.assertEqual(text.count("Kubeflow is not told the progress"), 1, text)
        self.assertIn(why, text)
        self.assertIn(ADVICE, text)
        self.assertNotIn("a.good.token", text)
        self.assertEqual(json.loads(next(self.folder.glob("run/**/result.json")).read_text(encoding="utf-8"))["exit_code"], 0)

    def test_it_is_told_percent_and_numbers_to_the_end(self):
        trainer = self.trainer()
        hook = self.folder / "hook.sh"
        hook.write_text("cat > lines", encoding="utf-8")
        text = self.train(trainer.url, f"metrics.command=[sh, {hook}]")
        self.assertNotIn("Kubeflow", text)
        self.assertIn('"kind":"end"', (self.folder / "lines").read_text(encoding="utf-8"), "metrics.command gets its lines, too")
        self.assertLessEqual(len(trainer.posts), 3, "10 s lie between two")
        for path, token, kind, body in trainer.posts:
            self.assertEqual((path, token, kind), (PATH, "Bearer a.good.token", "application/json"))
            self.assertEqual(list(body), ["trainerStatus"])
        last = trainer.posts[-1][3]["trainerStatus"]
        self.assertEqual((last["progressPercentage"], last["estimatedRemainingSeconds"]), (100, 0))
        metrics = {entry["name"]: entry["value"] for entry in last["metrics"]}
        self.assertEqual(metrics["epoch"], "2")
        for name in ("loss", "test_accuracy"):
            self.assertGreater(float(metrics[name]), 0)
        self.assertRegex(last["lastUpdatedTime"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")

    def test_a_new_token_is_taken(self):
        trainer = self.trainer()
        feeder = subprocess.Popen([self.bin / "ddp-fetch", "--kubeflow-status"], stdin=subprocess.PIPE, env={**self.environment, **self.variables(trainer.url)})
        self.addCleanup(feeder.kill)
        feeder.stdin.write(b'{"kind":"job","step":0,"steps":10}\n')
        feeder.stdin.flush()
        self.assertTrue(trainer.has_post.wait(60), "no post")
        self.token.write_text("another.token", encoding="utf-8")
        feeder.communicate(b'{"kind":"end","state":"finished","exit_code":0}\n', timeout=60)
        self.assertEqual([post[1] for post in trainer.posts], ["Bearer a.good.token", "Bearer another.token"])

    def test_a_server_that_refuses(self):
        self.assert_said_once(self.train(self.trainer(status=403).url), 'the server answers 403: {"message": "the token is ?[31mnot mine"}')

    def test_a_server_with_another_certificate_gets_no_token(self):
        trainer = self.trainer(certificate="unknown")
        self.assert_said_once(self.train(trainer.url), "certificate")
        self.assertEqual(trainer.posts, [])

    def test_no_token_without_encryption(self):
        self.assert_said_once(self.train(f"http://127.0.0.1:{free_port()}{PATH}"), "http")

    def test_nobody_listens(self):
        self.assert_said_once(self.train(f"https://127.0.0.1:{free_port()}{PATH}"), "127.0.0.1 port")

    def test_a_server_that_never_answers_delays_the_end_by_seconds(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            text = self.train(f"https://127.0.0.1:{silent.getsockname()[1]}{PATH}")
        self.assert_said_once(text, "imed out")
        self.assertNotIn("it is killed", text)

    def test_no_token_file(self):
        self.token.unlink()
        self.assert_said_once(self.train(self.trainer().url), "no token in the file KUBEFLOW_TRAINER_SERVER_TOKEN=")

    def test_a_token_with_a_line_break_is_no_header(self):
        self.token.write_text("a.good\nX-Evil: 1", encoding="utf-8")
        trainer = self.trainer()
        self.assert_said_once(self.train(trainer.url), "no token in the file")
        self.assertEqual(trainer.posts, [])

    def test_a_run_that_is_stopped_is_not_at_100_percent(self):
        trainer = self.trainer()
        job = self.start(self.bin / "ddp-launch", "job.yaml", "train.epochs=10000", **self.variables(trainer.url))
        job.wait_until(lambda: trainer.posts, "a post")
        job.process.send_signal(signal.SIGTERM)
        self.assertEqual(job.finish(), 143, job.text)
        self.assertLess(trainer.posts[-1][3]["trainerStatus"]["progressPercentage"], 99)


if __name__ == "__main__":
    unittest.main()
