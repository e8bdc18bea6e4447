"""Every case of the kit on this machine, one after the other: run_cases.py [--device auto|cpu|cuda] [--rehearse] [--budget SECONDS] [--out DIR]
[--list] [PATTERN...]

Cases come in order of worth: smoke, correctness, speed, faults. Prints a line per case and a summary of at most 12,000 characters; writes all
that was seen to DIR/gpu.log. DIR/gpu.json and DIR/summary.txt are written anew, whole, after every case, so that they hold what was seen
however the kit ends. A case that cannot run here, or for which no time is left, is listed as not run, with the reason, and counted. One that
takes longer than its limit, a minute as a rule, is ended and has failed. PATTERNs are shell patterns of names. Exit code: 0 when none has
failed, 128+n when it was stopped by signal n, else 1. Nothing of a case outlives the kit, nor the case.
"""

import argparse
import contextlib
import datetime
import fcntl
import fnmatch
import io
import json
import os
import pathlib
import re
import signal
import sys
import time
import traceback
import unittest

import device_cases
import fault_cases
import machine
import speed_cases
import training_cases
from gpu_case import SECONDS, GpuCase

BEGIN = time.monotonic()
LEAST = 3  # seconds; with less left no case is begun
CLEAN_UP = 10  # seconds for each clean-up of a case that was ended
AGAIN = 5  # seconds until a case that was to end is told once more
SUMMARY = 12000  # characters: so much of an output is shown where kits are run
# The first pattern that a name has says when its case comes. What is in none is about correctness.
SMOKE = (
    "Devices.test_the_module_*", "Gpu.IsChosen*", "Gpu.ItsMemory*", "Gpu.AWorldOfOne*", "Gpu.NothingInASteadyStep*", "Gpu.NorWithNccl",
    "Training.test_a_world_of_one_*", "Training.test_two_ranks_*",
)  # fmt: skip
SPEED = ("Speed.*",)
FAULTS = ("Faults.*", "BusyGpus.*", "Gpu.Nccls*", "Gpu.ADeviceSideAssert*")


class Outcome(unittest.TestResult):
    """Of one case."""

    def __init__(self):
        super().__init__()
        self.problems, self.reason = [], None

    def addError(self, test, err):
        self.note(err)

    addFailure = addError

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.note(err, subtest._subDescription() + " ")

    def note(self, err, which=""):
        """Where in a line, as summaries show the beginning and the end of what it is."""
        kind, error, frames = err
        where = [f"{pathlib.Path(frame.filename).name}:{frame.lineno}" for frame in traceback.extract_tb(frames) if "/unittest/" not in frame.filename]
        self.problems.append(f"{which}{', '.join(where)}: " + "".join(traceback.format_exception_only(kind, error)))

    def addSkip(self, test, reason):
        self.reason = reason


class CppCase(GpuCase):
    """A GoogleTest."""

    def __init__(self, program, name):
        super().__init__("run_it")
        self.program, self.name = program, name

    def run_it(self):
        self.need_gpu()
        running = self.start(self.bin / self.program, f"--gtest_filter={self.name}", "--gtest_also_run_disabled_tests")
        code = running.finish()
        # A filter that matches nothing is a success to GoogleTest.
        if code != 0 or "[  PASSED  ] 1 test" not in running.text:
            about = [line for line in running.text.splitlines() if not re.match(r"\[.{10}\]|Note: |Running main|$", line)]
            self.fail("\n".join([f"exit code {code}", *about]))
        print(running.text)
        if "[  SKIPPED ]" in running.text:
            self.skipTest(running.text.partition("Skipped\n")[2].partition("\n")[0] or "it says so")


def all_cases():
    """By name, in order of worth."""
    cases = {}
    # Those that ctest knew by the label gpu when the kit was made.
    listed = pathlib.Path(__file__).parent / "gtests.json"
    for entry in json.loads(listed.read_text(encoding="utf-8")) if listed.exists() else []:
        cases[entry["name"]] = CppCase(entry["program"], entry["name"])
    for module in (device_cases, training_cases, speed_cases, fault_cases):
        for suite in unittest.TestLoader().loadTestsFromModule(module):
            for test in suite:
                cases[f"{type(test).__name__}.{test._testMethodName}"] = test
    return dict(sorted(cases.items(), key=lambda case: worth_of(case[0])))  # others stay as they are


def worth_of(name):
    for place, patterns in ((0, SMOKE), (2, SPEED), (3, FAULTS)):
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            return place
    return 1


def run_case(test):
    """State, reason and text. Errors: KeyboardInterrupt of a signal."""
    outcome, printed = Outcome(), io.StringIO()
    test.is_cut_off = False
    try:
        # Again and again: an exception in a destructor is swallowed.
        signal.setitimer(signal.ITIMER_REAL, test.seconds, AGAIN)
        with contextlib.redirect_stdout(printed):
            test.run(outcome)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt as ended:
        clean_up(test)
        if ended.args[0] != signal.SIGALRM:
            raise
        seen = "".join(f"\n{running.command}\n{running.text[-2000:]}" for running in test.runs)
        test.is_cut_off = not outcome.problems
        outcome.problems.append(f"still running after {test.seconds:.3g} s{seen}")
    if outcome.problems:
        return "failed", None, "\n".join([*outcome.problems, printed.getvalue()])
    return ("not run" if outcome.reason else "passed"), outcome.reason, printed.getvalue()


def clean_up(test):
    """Which unittest leaves out where a case was ended. One that does not end is ended, too."""
    while True:
        try:
            signal.setitimer(signal.ITIMER_REAL, CLEAN_UP, AGAIN)
            test.doCleanups()
            signal.setitimer(signal.ITIMER_REAL, 0)
            return
        except KeyboardInterrupt as ended:
            if ended.args[0] != signal.SIGALRM:
                raise


def stop(number, _frame):
    if number != signal.SIGALRM:
        signal.signal(number, signal.SIG_DFL)  # a second one does not wait for what the case leaves
    raise KeyboardInterrupt(number)


def open_log(out):
    """For this run alone; what another one has left is gone. Errors: OSError."""
    out.mkdir(parents=True, exist_ok=True)
    log = (out / "gpu.log").open("a", encoding="utf-8")
    try:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"another run writes to {out / 'gpu.log'}. Wait for it, or give another directory: --out.")
    except OSError:
        pass  # a file system without locks
    log.truncate(0)
    for name in ("gpu.json", "summary.txt", "bench.json"):
        (out / name).unlink(missing_ok=True)
    return log


class Results:
    """Of every case, on the disk as soon as they are known. Errors of all methods: OSError."""

    def __init__(self, out, facts, names):
        self.out, self.facts = out, facts
        self.cases = {name: {"name": name, "state": "not run", "reason": "the kit ended before it", "seconds": 0, "text": ""} for name in names}
        self.write()

    def begin(self, name):
        self.cases[name]["reason"] = "the kit ended while it ran"
        self.write()

    def end(self, name, **known):
        self.cases[name] |= known
        self.write()

    def counts(self):
        return {state: sum(case["state"] == state for case in self.cases.values()) for state in ("passed", "failed", "not run")}

    def write(self):
        found = {"machine": self.facts, "counts": self.counts(), "cases": list(self.cases.values())}
        machine.write_whole(self.out / "gpu.json", json.dumps(found, indent=1) + "\n")
        machine.write_whole(self.out / "summary.txt", self.summary())

    def summary(self):
        """With as many lines of each failure as there is room for, and what counts most at the end."""
        for lines in (24, 12, 6, 3, 1, 0):
            text = self.summary_with(lines)
            if len(text) <= SUMMARY:
                return text
        return text[-SUMMARY:]

    def summary_with(self, lines):
        parts = facts_lines(self.facts)
        cases = self.cases.values()
        parts += [f"not run: {case['name']}: {case['reason'][:200]}" for case in cases if case["state"] == "not run"]
        for case in cases:
            if case["state"] == "passed" and fnmatch.fnmatchcase(case["name"], SPEED[0]):
                parts += [f"figures: {case['name']}:", *first_lines(case["text"], 30)]
        for case in cases:
            if case["state"] == "failed":
                parts += [f"failed: {case['name']}", *first_lines(case["text"], lines)]
        counts = self.counts()
        parts.append(f"{counts['passed']} passed, {counts['failed']} failed, {counts['not run']} not run, on {self.facts['device']}")
        return "\n".join(parts) + "\n"


def facts_lines(facts):
    return [f"{name}: {', '.join(value) or 'none' if isinstance(value, list) else value or 'none'}" for name, value in facts.items()]


def first_lines(text, count):
    """Half of them the last ones, where there are more: a program's error is at the end of its output."""
    lines = [f"    {line[:200]}" for line in text.splitlines() if line]
    return lines if len(lines) <= count else lines[: (count + 1) // 2] + lines[len(lines) - count // 2 :]


def run_all(cases, args, results, log):
    for name, test in cases.items():
        limit = args.patience * getattr(getattr(test, test._testMethodName), "at_most", SECONDS)
        left = BEGIN + args.budget - time.monotonic()
        if left < LEAST:
            results.end(name, reason="no time left")
            continue
        print(f"{name} ... ", end="", flush=True)
        results.begin(name)
        begin = time.monotonic()
        test.seconds = min(limit, left)
        state, reason, text = run_case(test)
        seconds = time.monotonic() - begin
        if test.is_cut_off and left < limit:
            state, reason = "not run", f"no time left: ended after {seconds:.0f} s"
        print(f"{state}: {reason}" if reason else f"{state} ({seconds:.1f} s)", flush=True)
        log.write(f"==== {name}: {state}{f': {reason}' if reason else ''} ({seconds:.1f} s)\n{text}\n")
        log.flush()
        results.end(name, state=state, reason=reason, seconds=round(seconds, 3), text=text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="auto: cuda where torch sees a GPU")
    parser.add_argument("--rehearse", action="store_true", help="on the CPU: cases for GPUs too, with bf16 for fp16 and figures made up")
    parser.add_argument("--budget", type=float, default=float("inf"), metavar="SECONDS", help="what does not fit is not run")
    parser.add_argument("--patience", type=float, default=1, metavar="FACTOR", help="times the limit of each case")
    parser.add_argument("--out", default=".", help="where gpu.log, gpu.json, summary.txt and bench.json go")
    parser.add_argument("--list", action="store_true", help="name the cases and run none")
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    args = parser.parse_args()
    if args.rehearse:
        args.device = "cpu"
    cases = {
        name: test for name, test in all_cases().items()
        if not args.patterns or any(fnmatch.fnmatch(name, pattern) for pattern in args.patterns)
    }  # fmt: skip
    if args.list:
        print("\n".join(cases))
        return 0
    if not cases:
        sys.exit(f"no case is called {' or '.join(args.patterns)}; --list names them")
    out = pathlib.Path(args.out).absolute()
    try:
        return write_all(args, out, cases)
    except OSError as error:
        sys.exit(f"cannot write the results to {out}: {error.strerror}. Mend that, or give another directory: --out.")
    except KeyboardInterrupt as stopped:  # before the first case
        return 128 + stopped.args[0]


def write_all(args, out, cases):
    # Before the machine is asked, which takes seconds: what another run has left is gone.
    with open_log(out) as log:
        GpuCase.machine, GpuCase.out = machine.look(args.device), out
        GpuCase.machine.rehearsal = args.rehearse
        facts = {"device": GpuCase.machine.device + (", a rehearsal" if args.rehearse else "")}
        facts |= {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")} | GpuCase.machine.facts()
        print("\n".join(facts_lines(facts)))
        results, stopped = Results(out, facts, cases), None
        try:
            run_all(cases, args, results, log)
        except KeyboardInterrupt as ended:
            stopped = ended.args[0]
            results.write()  # which it may have come into
        print(f"\nstopped by signal {stopped}" if stopped else "")
        print(f"{time.monotonic() - BEGIN:.0f} s; all of it: {out / 'gpu.log'}, JSON: {out / 'gpu.json'}")
        print(results.summary(), end="", flush=True)
        log.write(results.summary())
    return 128 + stopped if stopped else 1 if results.counts()["failed"] else 0


if __name__ == "__main__":
    os.umask(0o022)
    signal.signal(signal.SIGALRM, stop)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, stop)
    sys.exit(main())
