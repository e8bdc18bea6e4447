"""ddp-worker without a launcher tells how the run goes: in the last line of a terminal, with its own lines whole above it.

Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/integration/live_line_console_test.py
"""

import os
import re
import select
import signal
import subprocess
import time
import unittest

from processes import ProcessTest, end_with_parent
from terminal import open_terminal, screen_of

JOB = """
name: job
data: {name: digits, batch_per_rank: 16, train_size: 1600, test_size: 200}
train: {epochs: 500}
"""
LINE = r"epoch (\d+)/500, step ([\d,]+)/50,000 \(\d+%\), loss \d\.\d+, lr \S+, [\d,]+ images/s(?:, data wait \d+%)?, ETA [\d:]+, elapsed 0:\d\d"


class Line(ProcessTest):
    def setUp(self):
        super().setUp()
        (self.folder / "job.yaml").write_text(JOB, encoding="utf-8")

    def watch(self, *arguments, until, width=120):
        """Trains in a terminal of that width until `until` is seen, and stops it. Returns all that came."""
        controller, terminal = open_terminal(width)
        command = [self.bin / "ddp-worker", "job.yaml", *arguments]
        text = ""
        is_stopped = False
        deadline = time.monotonic() + 60
        with os.fdopen(controller, "rb", buffering=0) as screen:
            with subprocess.Popen(
                command, stdout=terminal, stderr=terminal, stdin=subprocess.DEVNULL, cwd=self.folder, env=self.environment,
                preexec_fn=end_with_parent,
            ) as process:  # fmt: skip
                os.close(terminal)
                try:
                    while select.select([screen], [], [], deadline - time.monotonic())[0] and (piece := screen.read(65536)):
                        text += piece.decode()
                        if not is_stopped and re.search(until, text):
                            process.send_signal(signal.SIGTERM)
                            is_stopped = True
                    process.kill()  # it has not come in time
                except OSError:
                    pass  # the terminal has gone with the last who had it open
                self.assertEqual(process.wait(60), 143, text)
        return text

    def test_the_last_line_of_a_terminal_tells_it_and_all_others_stand_whole_above(self):
        later = LINE.replace("step (", r"step (?!\2/)(")  # it is also drawn again behind each other line
        text = self.watch(until=r"(?s)" + LINE + r"\r.*(epoch \d+/500 \|.*){2}" + later + r"\r")
        shown = re.findall(LINE, text)
        self.assertLess(int(shown[0][1].replace(",", "")), int(shown[-1][1].replace(",", "")))
        screen = [line.rstrip("\r") for line in screen_of(text.replace("\r\n", "\n"))]
        epochs = [line for line in screen if line.startswith("epoch ")]
        self.assertGreater(len(epochs), 1)
        for line in epochs:
            self.assertRegex(line, r"^epoch \d+/500 \| train loss .* images/s \| .* s(, data wait .* %)?$")
            self.assertLessEqual(len(line), 120, "it does not wrap")
        self.assertTrue(any(line.startswith("stopped after step ") for line in screen), screen)
        self.assertFalse(any(re.search("ETA", line) for line in screen), "the line is gone in the end")

    def test_a_narrow_terminal_gets_what_matters(self):
        text = self.watch(until=r"(\x1b\[K|\n)step [\d,]+/50,000 \(\d+%\), loss \d\.\d+(, ETA [\d:]+)?\r", width=40)
        lines = re.findall(r"(?:\x1b\[K|\n)((?:epoch|step) [^\r\n|]*)\r(?!\n)", text)
        self.assertGreater(len(lines), 0)
        self.assertEqual([line for line in lines if len(line) >= 40], [])

    def test_without_it_nothing_but_the_lines_themselves_comes(self):
        for name, arguments in {"off": ("--progress", "off"), "plain": ("--progress", "plain"), "key": ("launch.progress=off",)}.items():
            with self.subTest(name):
                text = self.watch(*arguments, f"name={name}", until=r"epoch 1/500 \|")
                self.assertNotIn("\x1b[K", text)
                self.assertNotIn("ETA", text)

    def test_elsewhere_than_on_a_terminal_there_are_no_controls(self):
        text = self.run_program(self.bin / "ddp-worker", "job.yaml", "train.epochs=2")
        self.assertNotIn("\x1b", text)
        self.assertNotIn("\r", text)

    def test_another_word_is_refused(self):
        text = self.run_program(self.bin / "ddp-worker", "job.yaml", "--progress", "loud", expect=2)
        self.assertIn("--progress: launch.progress: loud is not one of auto, plain, off", text)


if __name__ == "__main__":
    unittest.main()
