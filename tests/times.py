"""What a run of the tests took: by label, and each test from the slowest on until nine tenths of the time are named.

times.py RESULTS.xml; seconds are each test's own, while others ran beside it.
"""

import collections
import pathlib
import sys
import xml.etree.ElementTree as xml


def label(case) -> str:
    for entry in case.iter("property"):
        if entry.get("name") == "cmake_labels":
            return entry.get("value").split(";")[0]
    return "none"


def main() -> None:
    cases = [(float(case.get("time")), label(case), case.get("name")) for case in xml.parse(pathlib.Path(sys.argv[1])).iter("testcase")]
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
