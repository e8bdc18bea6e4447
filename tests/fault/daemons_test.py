"""Daemons of workers that wipe their environment, so that nothing in them names their job, when the agent is killed: row L11. And what a
rank leaves behind when its job ends well: row W11.

DDP_DAEMON_TABLE=1 tries each way at each age, as an ordinary user and as root, and with the guard killed too, and prints what was left.
Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/fault/daemons_test.py
"""

import contextlib
import itertools
import os
import pathlib
import signal
import threading
import time
import unittest

from processes import ProcessTest

USERS = (65534, 0) if os.geteuid() == 0 else (os.geteuid(),)  # an ordinary one first
PYTHON = "/usr/bin/python3 -c"
HEAD = "import ctypes, os, sys, time; libc = ctypes.CDLL(None);"
# MARK is a number of seconds that no other process of this machine sleeps; it stands in the command line of each daemon.
WAYS = {
    "setsid -f": "env -i setsid -f /bin/sleep MARK",
    "setsid, child of the worker": "env -i setsid /bin/sleep MARK &",
    "its session's leader gone": "env -i setsid -f /bin/sh -c 'exec <&- >&- 2>&-; /bin/sleep MARK &'",
    "same session, nohup": "nohup env -i /bin/sleep MARK >/dev/null 2>&1 &",
    "not dumpable": f"env -i setsid -f {PYTHON} '{HEAD} libc.prctl(4, 0); time.sleep(float(sys.argv[1]))' MARK",
    "called ddp-guard": f"env -i setsid -f {PYTHON} '{HEAD} libc.prctl(15, b\"ddp-guard\"); time.sleep(float(sys.argv[1]))' MARK",
    "a subreaper of its own": f"env -i setsid -f {PYTHON} '{HEAD} libc.prctl(36, 1); os.fork() or os.setsid(); os.fork(); time.sleep(float(sys.argv[1]))' MARK",
    "a new process every 50 ms": f"env -i setsid -f {PYTHON} '{HEAD}\nwhile True:\n  if os.fork(): os._exit(0)\n  time.sleep(0.05)' MARK",
}
# It has no member that is as old as the last look.
NOT_FOUND = {"a new process every 50 ms"}


def living_with(mark):
    """Pids of processes that have it as a word."""
    pids = []
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                pids.append(int(entry.name))
    return pids


def groups_of(mark):
    groups = set()
    while not groups:
        for pid in living_with(mark):
            with contextlib.suppress(ProcessLookupError):
                groups.add(os.getpgid(pid))
    return groups


class MarkedTest(ProcessTest):
    def setUp(self):
        super().setUp()
        self.marks = (f"4{os.getpid()}.{number:06}" for number in itertools.count())
        self.folder.chmod(0o755)


class Daemons(MarkedTest):

    def begin(self, way, user):
        """A job whose worker has left such a daemon. Returns the job and the daemon's mark."""
        mark = next(self.marks)
        worker = self.folder / f"worker-{mark}.sh"
        worker.write_text(f"#!/bin/sh\n{WAYS[way].replace('MARK', mark)}\nexec /bin/sleep 1000\n", encoding="utf-8")
        worker.chmod(0o755)
        words = [] if user == os.geteuid() else ["/usr/bin/setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        place = self.folder / f"place-{mark}"
        place.mkdir()
        os.chown(place, user, user)
        place.chmod(0o700)
        job = self.start(*words, self.bin / "ddp-launch", worker, XDG_RUNTIME_DIR=str(place), PATH="/usr/bin:/bin")
        job.wait_until(lambda: living_with(mark), f"the daemon of '{way}'")
        return job, mark

    def left_of(self, ways, user, age, with_guard=False):
        """Of the ways those whose daemons live on after their agents were killed."""
        jobs = {way: self.begin(way, user) for way in ways}
        threading.Event().wait(age)
        groups = {way: groups_of(mark) for way, (_, mark) in jobs.items()}
        for job, _ in jobs.values():
            agent = job.process.pid
            # The guard first: it is quicker than the second signal.
            for pid in [*(self.guards_of(agent) if with_guard else []), agent]:
                os.kill(pid, signal.SIGKILL)
        left = []
        deadline = time.monotonic() + 3
        for way, (job, mark) in jobs.items():
            job.process.wait()
            job.process.stdout.close()
            if way in NOT_FOUND or with_guard:
                threading.Event().wait(0.3)
            while (pids := living_with(mark)) and way not in NOT_FOUND and not with_guard and time.monotonic() < deadline:
                threading.Event().wait(0.005)
            if pids:
                left.append(way)
            # By groups: one that replaces itself may be in no single look.
            for group in groups[way]:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(group, signal.SIGKILL)
        # A guard ends after two scans that find nothing.
        while self.alive() and time.monotonic() < deadline:
            threading.Event().wait(0.005)
        return left

    def guards_of(self, agent):
        children = pathlib.Path(f"/proc/{agent}/task/{agent}/children").read_text(encoding="utf-8").split()
        return [int(pid) for pid in children if b"ddp-launch" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]

    def test_l11_a_daemon_without_environment_dies_with_its_agent(self):
        ways = [way for way in WAYS if way not in NOT_FOUND]
        self.assertEqual(self.left_of(ways, USERS[0], 3), [])
        if "DDP_DAEMON_TABLE" not in os.environ:
            return
        for user, with_guard, age in itertools.product(USERS, (False, True), (0.1, 1.5, 10)):
            left = self.left_of(WAYS, user, age, with_guard)
            who = "root" if user == 0 else "user"
            what = "agent and guard" if with_guard else "agent"
            print(f"{who}, lived {age} s, SIGKILL of {what}: {len(WAYS) - len(left)} of {len(WAYS)} end; left: {', '.join(left) or 'none'}", flush=True)


class Leftovers(MarkedTest):
    def write(self, body):
        worker = self.folder / "worker.sh"
        worker.write_text("#!/bin/sh\n" + body, encoding="utf-8")
        worker.chmod(0o755)
        return worker

    def end(self, mark):
        """Kills what was left running. Returns how many processes that was."""
        pids = living_with(mark)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        while living_with(mark):
            threading.Event().wait(0.005)
        return len(pids)

    def test_w11_left_behind_processes_are_named_and_killed(self):
        in_group, in_session, bare = next(self.marks), next(self.marks), next(self.marks)
        worker = self.write(
            f"/bin/sleep {in_group} &\nsetsid -f /bin/sleep {in_session}\n"
            f'[ "$RANK" = 1 ] || exit 0\nenv -i setsid -f /bin/sleep {bare}\nexec /bin/true'
        )
        text = self.run_program(self.bin / "ddp-launch", "--nproc-per-node", "2", worker)
        for rank in (0, 1):
            line = (
                rf"rank {rank} left 2 processes behind: pid \d+ \(/bin/sleep \S+\), pid \d+ \(/bin/sleep \S+\); they are killed\. "
                r"To leave one running, name it in --keep-daemons\."
            )
            self.assertRegex(text, line)
        self.assertRegex(text, rf"a rank left a process behind: pid \d+ \(/bin/sleep {bare}\); it is killed\.")
        self.assertEqual(text.count(" behind: "), 3, text)
        self.assertEqual([mark for mark in (in_group, in_session, bare) if living_with(mark)], [])

    def test_w11_a_helper_that_ends_soon_and_what_a_failed_rank_took_along_are_not_named(self):
        mark = next(self.marks)
        self.assertNotIn("behind", self.run_program(self.bin / "ddp-launch", self.write("/bin/sleep 0.05 &\n")))
        worker = self.write(f"/bin/sleep {mark} &\nsetsid -f /bin/sleep {mark}\nexit 3")
        self.assertNotIn("behind", self.run_program(self.bin / "ddp-launch", worker, expect=3))
        self.assertEqual(living_with(mark), [])

    def test_w11_kept_daemons_stay_running_with_their_children(self):
        for code in (0, 3):
            for how in ("", "setsid -f "):
                with self.subTest(code=code, how=how):
                    kept, child, other = next(self.marks), next(self.marks), next(self.marks)
                    streams = "</dev/null >/dev/null 2>&1"
                    worker = self.write(
                        f"{how}/bin/sh -c '/bin/sleep {child}; true' {kept} {streams} &\n"
                        f"{how}/bin/sleep {other} {streams} &\n"
                        f"until pgrep -f '^/bin/sleep {child}' && pgrep -f '^/bin/sleep {other}'; do :; done >/dev/null\n"
                        f"exit {code}"
                    )
                    flags = ("--keep-daemons", "no such", "--keep-daemons", f"sh -c .* {kept}$")
                    text = self.run_program(self.bin / "ddp-launch", *flags, worker, expect=code)
                    self.assertRegex(text, rf"rank 0 left a process behind: pid \d+ \(/bin/sh -c .*\); it is left running \(--keep-daemons\)")
                    self.assertEqual(self.end(other), 0)
                    self.assertEqual(self.end(child), 1)
                    self.end(kept)

    def test_w11_kept_daemons_do_not_lock_their_job(self):
        mark = next(self.marks)
        worker = self.write(f"setsid -f /bin/sleep {mark} </dev/null >/dev/null 2>&1")
        for _ in range(2):
            self.run_program(self.bin / "ddp-launch", "--rdzv-id", mark, "--keep-daemons", mark, worker)
        self.assertEqual(self.end(mark), 2)

    def test_w11_kept_daemons_die_with_a_killed_agent(self):
        mark = next(self.marks)
        worker = self.write(f"setsid -f /bin/sleep {mark}\nexec /bin/sleep 1000")
        job = self.start(self.bin / "ddp-launch", "--keep-daemons", mark, worker)
        job.wait_until(lambda: living_with(mark), "the daemon")
        job.process.kill()
        self.assertEqual(job.finish(), 128 + signal.SIGKILL)
        deadline = time.monotonic() + 3
        while self.alive() and time.monotonic() < deadline:
            threading.Event().wait(0.005)
        self.assertEqual(living_with(mark), [])

    def test_w11_a_job_file_names_daemons_too(self):
        mark = next(self.marks)
        self.write(f"setsid -f /bin/sleep {mark} </dev/null >/dev/null 2>&1")
        job = "launch: {program: ./worker.sh, keep_daemons: ['sleep MARK']}\ndata: {batch_per_rank: 1}\n".replace("MARK", mark)
        (self.folder / "job.yaml").write_text(job, encoding="utf-8")
        self.assertIn("(--keep-daemons)", self.run_program(self.bin / "ddp-launch", "job.yaml"))
        self.assertEqual(self.end(mark), 1)


if __name__ == "__main__":
    unittest.main()
