"""What a run of the tests took: by label, and each test from the slowest on until nine tenths of the time are named.

test_durations.py BUILD_DIRECTORY; seconds are each test's own, while others ran beside it.
"""

import collections
import json
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as xml


def labels(directory: pathlib.Path) -> dict:
    """The label of each test that says its kind, by its name."""
    shown = subprocess.run(["ctest", "--test-dir", directory, "--show-only=json-v1"], capture_output=True, check=True).stdout
    found = {}
    for test in json.loads(shown)["tests"]:
        values = [entry["value"] for entry in test["properties"] if entry["name"] == "LABELS"]
        kinds = [label for label in values[0] if label != "cases"] if values else []
        found[test["name"]] = kinds[0] if kinds else "none"
    return found


def main() -> None:
    directory = pathlib.Path(sys.argv[1])
    label = labels(directory)
    results = xml.parse(directory / "tests.xml").iter("testcase")
    cases = [(float(case.get("time")), label.get(case.get("name"), "none"), case.get("name")) for case in results]
    whole = sum(seconds for seconds, _, _ in cases)
    by_label = collections.defaultdict(list)
    for seconds, kind, _ in cases:
        by_label[kind].append(seconds)
    print(f"{'label':<12} {'tests':>6} {'seconds':>8}")
    for kind, times in sorted(by_label.items(), key=lambda item: -sum(item[1])):
        print(f"{kind:<12} {len(times):>6} {sum(times):>8.1f}")
    print(f"{'all':<12} {len(cases):>6} {whole:>8.1f}\n")
    named = 0.0
    left = sorted(cases, reverse=True)
    while left and named < 0.9 * whole:
        seconds, kind, name = left.pop(0)
        named += seconds
        print(f"{seconds:8.1f}  {kind:<11}  {name}")
    print(f"{sum(seconds for seconds, _, _ in left):8.1f}  in {len(left)} quicker tests")


main()
