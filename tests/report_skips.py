"""Names the tests that were skipped, each with its reason, and compares their number with the expected one.

report_skips.py RESULTS.xml EXPECTED_SKIPS [--suites FOLDER] [--missing python] [--missing data]; exit 1 when they differ.
RESULTS.xml is ctest's; FOLDER holds GoogleTest's own for the suites that are one test to ctest (discover_suites.cmake).
"""

import argparse
import fnmatch
import pathlib
import re
import xml.etree.ElementTree as xml


def skipped_tests(results: pathlib.Path):
    """Name and reason of each test that did not run, and the names of all tests."""
    cases = list(xml.parse(results).iter("testcase"))
    idle = [case for case in cases if case.get("status") in ("notrun", "disabled")]
    return {case.get("name"): reason(case.findtext("system-out") or "") for case in idle}, [case.get("name") for case in cases]


def skipped_in_suites(folder: pathlib.Path):
    """The same of suites that ctest ran as one test each."""
    cases = [case for file in sorted(folder.glob("*.xml")) for case in xml.parse(file).iter("testcase")]
    names = {f"{case.get('classname')}.{case.get('name')}": case for case in cases}
    idle = {name: case.find("skipped") for name, case in names.items() if case.get("result") in ("skipped", "suppressed")}
    whys = {name: "disabled" if why is None else why.get("message").splitlines()[-1] for name, why in idle.items()}
    return whys, list(names)


def reason(output: str) -> str:
    """Of GoogleTest the line after the place of GTEST_SKIP, of a script its last line."""
    place = re.search(r"(?m)^\S+:\d+: Skipped\n+(.+)$", output)
    lines = [line for line in output.splitlines() if line.strip() and not line.startswith("[")]
    return place[1] if place else lines[-1] if lines else "no reason given"


def patterns(expected: pathlib.Path, kinds: list):
    for line in expected.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            when, pattern = line.split()
            if when in kinds:
                yield pattern


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("expected", type=pathlib.Path)
    parser.add_argument("--suites", type=pathlib.Path)
    parser.add_argument("--missing", action="append", default=[])
    arguments = parser.parse_args()

    skipped, names = skipped_tests(arguments.results)
    if arguments.suites:
        skipped_in, names_in = skipped_in_suites(arguments.suites)
        print(f"Tests that ran together with others of their suite: {len(names_in)}")
        skipped |= skipped_in
        names += names_in

    def named(kinds):
        wanted = list(patterns(arguments.expected, kinds))
        return {name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in wanted)}

    expected = named(["always", *arguments.missing]) | (named(["may"]) & skipped.keys())
    print(f"Skipped tests: {len(skipped)}, expected: {len(expected)}")
    for name, why in sorted(skipped.items()):
        print(f"  {name}: {why}{'' if name in expected else '   <-- not expected'}")
    for name in sorted(expected - skipped.keys()):
        print(f"  {name}: ran, though {arguments.expected} says it would be skipped")
    return 0 if expected == skipped.keys() else 1


raise SystemExit(main())
