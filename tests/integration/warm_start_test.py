"""launch.warm_start: the ranks of ddp-worker are copies of one process that has loaded LibTorch.

Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/integration/warm_start_test.py
"""

import os
import pathlib
import re
import signal
import time
import unittest

from worker_job import WorkerTest


# What no two jobs share; the number of a descriptor depends on what else the agent has open.
UNIQUE = (
    b"DDP_AGENT_ID=", b"DDP_JOB_START=", b"DDP_PROGRESS_FD=", b"DDP_RUN_ID=", b"MASTER_PORT=", b"TORCHELASTIC_RUN_ID=", b"TORCHELASTIC_ERROR_FILE=",
)  # fmt: skip


def read_status(pid, name):
    return re.search(rf"^{name}:\s*(.*)$", pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8"), re.M)[1]


@unittest.skipIf(os.environ.get("DDP_SANITIZE"), "a program with a sanitizer is not copied")
class WarmStart(WorkerTest):
    LONG = ("data.train_size=1600", "train.epochs=250", "--restart", "all", "--max-restarts", 2)
    READY = re.compile(r"warm start: the template, pid (\d+), is ready")

    def started(self, ranks, *arguments, program=None):
        """A job under way, its ranks' pids, and the template's; None: it has none."""
        job = [program, "job.yaml"] if program else ["job.yaml"]
        running = self.start(self.bin / "ddp-launch", "--nproc-per-node", ranks, *job, *self.LONG, *arguments, LOGLEVEL="DEBUG")
        running.wait_for("epoch 1/250")
        ready = self.READY.search(running.text)
        return running, running.wait_for_pids(ranks), ready and int(ready[1])

    def lasting_files(self, pid):
        """What it has open, without files of the run and connections, which come and go."""
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                name = os.readlink(f"/proc/{pid}/fd/{fd}")
            except FileNotFoundError:
                continue
            if not name.startswith((str(self.folder), "socket:")):
                yield name

    def stop(self, running):
        os.kill(running.process.pid, signal.SIGTERM)
        running.finish()

    def goes_on_after_a_kill(self, running, pids):
        """Kills a rank and waits for the next round. Returns the new pids."""
        begun = len(running.text)
        os.kill(pids[0], signal.SIGKILL)
        running.wait_until(lambda: "rank 0 of 2" in running.text[begun:], "the second round")
        running.wait_until(lambda: re.search("rank 0 of 2(.|\n)*epoch [0-9]+/250", running.text[begun:]), "its training")
        return {int(rank): int(pid) for rank, pid in re.findall(r"rank (\d+) of \d+: .*pid (\d+)\n", running.text[begun:])}

    def test_ranks_learn_what_they_learn_by_themselves(self):
        self.launch(2, "name=cold", "launch.warm_start=false")
        self.assertRegex(self.launch(2, "name=warm", "launch.warm_start=true", LOGLEVEL="DEBUG"), self.READY)
        self.assert_same_run(self.run_dir("cold"), self.run_dir("warm"))

    def test_a_copy_is_like_a_process_of_the_agents(self):
        seen = {}
        for wanted in ("false", "true"):
            running, pids, template = self.started(2, f"launch.warm_start={wanted}", f"name=start-{wanted}", "--numa-binding", "core-complex")
            self.assertEqual(template is not None, wanted == "true")
            seen[wanted] = []
            for pid in pids.values():
                self.assertEqual(read_status(pid, "PPid"), str(running.process.pid))
                self.assertEqual((os.getsid(pid), os.getpgid(pid)), (pid, pid))
                names = sorted(self.lasting_files(pid))
                command, environment = (
                    re.sub(rb"start[-=](true|false)", b"", pathlib.Path(f"/proc/{pid}/{name}").read_bytes()) for name in ("cmdline", "environ")
                )
                seen[wanted].append(
                    (
                        [re.sub(r"\d+|start-(true|false)", "", name) for name in names],
                        command,
                        sorted(entry for entry in environment.split(b"\0") if entry and not entry.startswith(UNIQUE)),
                        [read_status(pid, name) for name in ("SigBlk", "SigIgn", "SigCgt", "Cpus_allowed", "NoNewPrivs")],
                        pathlib.Path(f"/proc/{pid}/limits").read_text(encoding="utf-8"),
                        re.sub(r"[0-9a-f]{32}", "", pathlib.Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")),
                        pathlib.Path(f"/proc/{pid}/oom_score_adj").read_text(encoding="utf-8"),
                    )
                )
            self.stop(running)
            self.check_nothing_lives()
        for cold, warm in zip(seen["false"], seen["true"]):
            for one, other in zip(cold, warm):
                self.assertEqual(one, other)

    def test_auto_takes_it_where_it_pays(self):
        for ranks, arguments, is_warm in (
            (2, (), True),
            (1, ("--max-restarts", 0), False),
            (1, ("--max-restarts", 1), True),
            (2, ("launch.warm_start=false",), False),
        ):
            with self.subTest(ranks=ranks, arguments=arguments):
                text = self.run_program(
                    self.bin / "ddp-launch", "--nproc-per-node", ranks, "job.yaml", *arguments, "data.train_size=32", "train.epochs=1",
                    "checkpoint.resume=never", LOGLEVEL="DEBUG",
                )  # fmt: skip
                self.assertEqual(bool(self.READY.search(text)), is_warm, text)

    def test_each_round_has_copies(self):
        running, pids, template = self.started(2)
        later = self.goes_on_after_a_kill(running, pids)
        self.assertEqual({read_status(pid, "PPid") for pid in later.values()}, {str(running.process.pid)})
        self.assertTrue(pathlib.Path(f"/proc/{template}").exists())
        self.assertNotIn("starting without it", running.text)
        self.stop(running)

    def test_a_template_that_is_gone_costs_a_line(self):
        for number, line in ((signal.SIGKILL, "warm start: rank 0: it has ended"), (signal.SIGSTOP, "warm start: rank 0: it is stopped")):
            with self.subTest(number):
                running, pids, template = self.started(2, f"name=by{number.value}")
                os.kill(template, number)
                self.goes_on_after_a_kill(running, pids)
                self.assertIn(line, running.text)
                self.assertEqual(running.text.count("starting without it"), 1)
                self.stop(running)
                self.check_nothing_lives()

    def test_a_killed_agent_leaves_nothing(self):
        running, _, template = self.started(2)
        self.assertIn(template, self.alive())
        os.kill(running.process.pid, signal.SIGKILL)
        running.finish()
        deadline = time.monotonic() + 10
        while self.alive() and time.monotonic() < deadline:
            pass
        self.assertEqual(self.alive(), [])

    def test_a_worker_that_knows_of_no_templates_is_started_as_ever(self):
        old = self.folder / "ddp-worker"
        old.write_text(f'#!/bin/sh\nunset DDP_TEMPLATE_FD\nexec {self.bin}/ddp-worker "$@"\n', encoding="utf-8")
        old.chmod(0o755)
        running, _, template = self.started(2, program=old)
        self.assertIsNone(template)
        self.assertIn("starting without it", running.text)
        self.stop(running)


if __name__ == "__main__":
    unittest.main()
