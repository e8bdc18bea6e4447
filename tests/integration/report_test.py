"""report.html at every end of a training, and `ddp-launch compare`: what a user finds in the run directory.

Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support:tests/integration python3 tests/integration/report_test.py
"""

import html.parser
import os
import signal
import unittest

from detector_test import DetectorTest
from worker_job import WorkerTest

VOID = {"meta", "br", "img", "link", "hr", "input"}


class Page(html.parser.HTMLParser):
    """Whether each tag is closed where it should be; what there is to read; what would be loaded."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.words, self.loads = [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"still open: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.loads += [f"{name}={value}" for name, value in attributes if name in ("src", "href", "xlink:href", "onload")]
        if tag == "script":
            self.loads.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> where {self.open[-3:]} are open"
        self.open.pop()

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


class ReportTest(WorkerTest):
    def page(self, run_dir=None):
        page = Page(((run_dir or self.run_dir()) / "report.html").read_text(encoding="utf-8"))
        self.assertEqual(page.loads, [])
        return page


class Ends(ReportTest):
    def test_a_training_alone_leaves_a_page(self):
        self.worker()
        page = self.page()
        for words in ("job finished", "Loss", "Learning rate", "Images/s", "(best)", "Confusion matrix", "train.log_every", "LibTorch"):
            self.assertIn(words, page.text)
        best = [line for line in self.worker("train.epochs=3").splitlines() if line.endswith("  best")]
        self.assertEqual(len(best), 1, "one epoch of the last table is marked")
        html = (self.run_dir() / "report.html").read_text(encoding="utf-8")
        for words in ("went on after step", "<b>1</b><span>times continued", "<b>0</b><span>restarts"):
            self.assertIn(words, html)

    def test_a_killed_rank_is_told_and_restarts_are_marked(self):
        running = self.start(self.bin / "ddp-launch", "--nproc-per-node", 2, "--max-restarts", 1, "job.yaml", "train.epochs=30")
        for pids, epochs in ((2, 1), (4, 3)):
            pid = running.wait_for_pids(pids)[1]
            running.wait_until(lambda: running.text.count("/30 | train") >= epochs, "the line of an epoch")
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(running.finish(), 128 + signal.SIGKILL)
        page = self.page()
        for words in ("job failed", "Exit code 137", "What went wrong first", "SIGKILL", "Earlier rounds", "restarts", "Milliseconds per step: step", "rank 1"):
            self.assertIn(words, page.text)

    def test_a_stop_leaves_a_page_under_the_launcher_and_alone(self):
        for name, command in (("a", [self.bin / "ddp-worker"]), ("b", [self.bin / "ddp-launch", "--nproc-per-node", 2])):
            running = self.start(*command, "job.yaml", f"name={name}", "train.epochs=1000")
            running.wait_for("epoch 1/1000")
            running.process.send_signal(signal.SIGTERM)
            self.assertEqual(running.finish(), 143)
            self.assertIn("stopped", self.page(self.run_dir(name)).text)

    def test_a_refused_job_leaves_no_page_and_one_that_broke_does(self):
        self.worker("model.args={nonsense: 1}", expect=2)
        self.assertFalse(self.run_dir().exists())
        self.worker("optimizer.lr=1e6", expect=96)
        self.assertIn("Exit code 96", self.page().text)

    def test_names_and_values_of_users_are_escaped(self):
        hostile = "<script>alert(1)<"
        self.worker("train.epochs=1", f"output={hostile}")
        self.assertIn(hostile, self.page(self.folder / hostile / "job").text)

    def test_a_page_that_cannot_be_written_changes_no_exit_code(self):
        self.worker("train.epochs=1")
        report = self.run_dir() / "report.html"
        for epochs, command in ((2, [self.bin / "ddp-worker"]), (3, [self.bin / "ddp-launch"])):
            if report.is_file():
                report.unlink()
            report.mkdir(exist_ok=True)
            text = self.run_program(*command, "job.yaml", f"train.epochs={epochs}")
            self.assertIn("cannot write report.html", text)


class Compare(ReportTest):
    def compare(self, *arguments, **keywords):
        return self.run_program(self.bin / "ddp-launch", "compare", *arguments, **keywords)

    def test_runs_stand_beside_each_other(self):
        self.worker("train.epochs=1")
        self.worker("train.epochs=2", "optimizer.lr=0.01", "name=other")
        text = self.compare("runs/job", "runs/latest", "--html", "page.html")
        lines = text.splitlines()
        self.assertRegex(lines[1], r"^job +finished +accuracy [\d.]+ % ")
        self.assertRegex(lines[2], r"^other +finished +accuracy ")
        self.assertEqual(text.count("(best)"), 1)
        self.assertRegex(text, r"(?m)^optimizer\.lr +[\d.]+ +0\.01$")
        self.assertRegex(text, r"(?m)^train\.epochs +1 +2$")
        page = Page((self.folder / "page.html").read_text(encoding="utf-8"))
        self.assertEqual(page.loads, [])
        for words in ("2 runs", "test accuracy", "optimizer.lr"):
            self.assertIn(words, page.text)

    def test_path_that_is_not_a_run_is_refused(self):
        self.worker("train.epochs=1")
        text = self.compare("runs/job", "none", ".", "job.yaml", expect=2)
        for words in ("none: No such file", ".: it has neither result.json nor metrics", "job.yaml: Not a directory"):
            self.assertIn(words, text)
        text = self.compare("runs/job", "runs/job", "--html", "none/page.html", expect=125)
        self.assertIn("none: No such file or directory", text)


class Detectors(DetectorTest, ReportTest):
    def test_the_confusion_matrix_has_a_background(self):
        self.launch(2)
        page = self.page()
        for words in ("Confusion matrix", "background", "AP50:95", "best test AP50:95", "green"):
            self.assertIn(words, page.text)


if __name__ == "__main__":
    unittest.main()
