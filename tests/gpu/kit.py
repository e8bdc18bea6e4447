"""Every case of the kit on this machine, one after the other: kit.py [--device auto|cpu|cuda] [--out DIR] [--list] [PATTERN...]

Prints a line per case and a summary; writes all that was seen to DIR/gpu.log, and when it is through to DIR/gpu.json. A case that cannot
run here is listed as not run, with the reason, and counted. PATTERNs are shell patterns of names. Exit code: 0 when none has failed, 128+n
when it was stopped by signal n, else 1. Nothing of a case outlives the kit.
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
import signal
import subprocess
import sys
import time
import traceback
import unittest

import device_cases
import fault_cases
import machine
import training_cases
from gpu_case import GpuCase, end_with_parent

GTEST_SECONDS = 300


class Outcome(unittest.TestResult):
    """Of one case."""

    def __init__(self):
        super().__init__()
        self.problems, self.reason = [], None

    def addError(self, test, err):
        self.problems.append("".join(traceback.format_exception(*err)))

    addFailure = addError

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.problems.append(f"{subtest.id()}:\n" + "".join(traceback.format_exception(*err)))

    def addSkip(self, test, reason):
        self.reason = reason


def python_cases():
    loader = unittest.TestLoader()
    for module in (device_cases, training_cases, fault_cases):
        for suite in loader.loadTestsFromModule(module):
            for test in suite:
                yield f"{type(test).__name__}.{test._testMethodName}", lambda test=test: run_python(test)


def run_python(test):
    outcome, printed = Outcome(), io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            test.run(outcome)
    except KeyboardInterrupt:
        test.doCleanups()  # which unittest leaves out
        raise
    state = "failed" if outcome.problems else "not run" if outcome.reason else "passed"
    return state, outcome.reason, printed.getvalue() + "".join(outcome.problems)


def gtests():
    """Those that ctest knew by the label gpu when the kit was made."""
    listed = pathlib.Path(__file__).parent / "gtests.json"
    for entry in json.loads(listed.read_text(encoding="utf-8")) if listed.exists() else []:
        yield entry["name"], lambda entry=entry: run_gtest(entry)


def run_gtest(entry):
    if GpuCase.machine.device != "cuda":
        return "not run", "needs an NVIDIA GPU", ""
    command = [GpuCase.machine.programs / entry["program"], f"--gtest_filter={entry['name']}", "--gtest_also_run_disabled_tests"]
    try:
        run = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=GTEST_SECONDS, check=False,
            preexec_fn=end_with_parent,
        )  # fmt: skip
    except OSError as error:
        return "failed", None, f"{command[0]}: {error.strerror}"
    except subprocess.TimeoutExpired as slow:
        return "failed", None, f"still running after {GTEST_SECONDS} s\n{slow.stdout}"
    # A filter that matches nothing is a success to GoogleTest.
    ran = run.returncode == 0 and "[  PASSED  ] 1 test" in run.stdout
    if ran and "[  SKIPPED ]" in run.stdout:
        return "not run", run.stdout.partition("Skipped\n")[2].partition("\n")[0] or "it says so", run.stdout
    return "passed" if ran else "failed", None, run.stdout + f"\nexit code {run.returncode}\n"


def stop(number, _frame):
    signal.signal(number, signal.SIG_DFL)  # a second one does not wait for what the case leaves
    raise KeyboardInterrupt(number)


def open_log(out):
    """For this run alone; gpu.json is not there until it is through. Errors: OSError."""
    out.mkdir(parents=True, exist_ok=True)
    log = (out / "gpu.log").open("a", encoding="utf-8")
    try:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"another run writes to {out / 'gpu.log'}. Wait for it, or give another directory: --out.")
    except OSError:
        pass  # a file system without locks
    log.truncate(0)
    (out / "gpu.json").unlink(missing_ok=True)
    return log


def write_whole(path, text):
    """All of it, or nothing. Errors: OSError."""
    new = path.with_name(path.name + ".new")
    try:
        new.write_text(text, encoding="utf-8")
        new.rename(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def run_all(cases, log):
    results = []
    for name, run in cases:
        print(f"{name} ... ", end="", flush=True)
        begin = time.monotonic()
        state, reason, text = run()
        seconds = time.monotonic() - begin
        print(f"{state}: {reason}" if reason else f"{state} ({seconds:.1f} s)", flush=True)
        log.write(f"==== {name}: {state}{f': {reason}' if reason else ''} ({seconds:.1f} s)\n{text}\n")
        log.flush()
        results.append({"name": name, "state": state, "reason": reason, "seconds": round(seconds, 3), "text": text})
    return results


def summary_of(results):
    lines = []
    for state in ("not run", "failed"):
        for result in results:
            if result["state"] == state:
                lines.append(f"{state}: {result['name']}" + (f": {result['reason']}" if result["reason"] else ""))
    counts = {state: sum(result["state"] == state for result in results) for state in ("passed", "failed", "not run")}
    return lines, counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="auto: cuda where torch sees a GPU")
    parser.add_argument("--out", default=".", help="where gpu.log and gpu.json go")
    parser.add_argument("--list", action="store_true", help="name the cases and run none")
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    args = parser.parse_args()
    cases = [
        (name, run) for name, run in [*gtests(), *python_cases()]
        if not args.patterns or any(fnmatch.fnmatch(name, pattern) for pattern in args.patterns)
    ]  # fmt: skip
    if args.list:
        print("\n".join(name for name, _ in cases))
        return 0
    if not cases:
        sys.exit(f"no case is called {' or '.join(args.patterns)}; --list names them")
    out = pathlib.Path(args.out)
    try:
        return write_all(args, out, cases)
    except OSError as error:
        sys.exit(f"cannot write the results to {out}: {error.strerror}. Mend that, or give another directory: --out.")
    except KeyboardInterrupt as stopped:
        print(f"\nstopped by signal {stopped.args[0]}; what was seen until then is in {out / 'gpu.log'}", file=sys.stderr)
        return 128 + stopped.args[0]


def write_all(args, out, cases):
    GpuCase.machine = machine.look(args.device)
    facts = {"device": GpuCase.machine.device, "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")}
    facts |= GpuCase.machine.facts()
    with open_log(out) as log:
        for name, value in facts.items():
            print(f"{name}: {', '.join(value) or 'none' if isinstance(value, list) else value or 'none'}")
        log.write(json.dumps(facts) + "\n")
        results = run_all(cases, log)
        lines, counts = summary_of(results)
        closing = f"{counts['passed']} passed, {counts['failed']} failed, {counts['not run']} not run, on {facts['device']}"
        log.write("\n".join([*lines, closing]) + "\n")
        log.flush()
        write_whole(out / "gpu.json", json.dumps({"machine": facts, "counts": counts, "cases": results}, indent=1) + "\n")
    print("\n".join(["", *lines, closing, f"log: {out / 'gpu.log'}, JSON: {out / 'gpu.json'}"]))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    os.umask(0o022)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, stop)
    sys.exit(main())
