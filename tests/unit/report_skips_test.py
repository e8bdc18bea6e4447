"""tests/report_skips.py names every test that did not run, with its reason, and fails when they are not the expected ones.

Run by hand: python3 tests/unit/report_skips_test.py
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "report_skips.py"
GTEST = "[ RUN      ] A.b\n/src/a_test.cpp:2: Skipped\nno data at ../shared\n[  SKIPPED ] A.b (0 ms)\n"
RESULTS = f"""<?xml version="1.0"?><testsuite>
<testcase name="A.b" status="notrun"><skipped message="x"/><system-out>{GTEST}</system-out></testcase>
<testcase name="interop_c" status="notrun"><skipped message="x"/><system-out>hello\nno Python with torch\n</system-out></testcase>
<testcase name="A.d" status="run"><system-out>fine</system-out></testcase>
<testcase name="A.e" status="fail"><failure message=""/><system-out>bad</system-out></testcase>
</testsuite>"""

SUITE = """<?xml version="1.0"?><testsuites><testsuite name="F">
<testcase name="g" status="run" result="completed" classname="F" />
<testcase name="h" status="run" result="skipped" classname="F"><skipped message="f_test.cpp:3&#x0A;no IPv6 here"/></testcase>
<testcase name="DISABLED_i" status="notrun" result="suppressed" classname="F" />
</testsuite></testsuites>"""


def report(expected, *missing, suites=False):
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "results.xml").write_text(RESULTS)
        pathlib.Path(folder, "expected").write_text(expected)
        arguments = [part for name in missing for part in ("--missing", name)]
        if suites:
            pathlib.Path(folder, "suites").mkdir()
            pathlib.Path(folder, "suites/unit.F.xml").write_text(SUITE)
            arguments += ["--suites", f"{folder}/suites"]
        command = [sys.executable, SCRIPT, f"{folder}/results.xml", f"{folder}/expected", *arguments]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        return run.returncode, run.stdout


class ReportSkipsTest(unittest.TestCase):
    def test_every_word_of_the_list_is_found_out_by_somebody(self):
        tests = SCRIPT.parent
        words = {line.split()[0] for line in (tests / "expected_skips").read_text().splitlines() if line and line[0] != "#"}
        told = set(re.findall(r"--missing ([\w-]+)\)", (tests.parent / "make.sh").read_text()))
        tried = set(re.findall(r'(?m)^    "([\w.-]+)": ', (tests / "missing_features.py").read_text()))
        self.assertEqual(words - {"always", "may"}, told | tried)
        here = subprocess.run([sys.executable, tests / "missing_features.py"], capture_output=True, text=True, check=True).stdout.split()
        self.assertLessEqual(set(here), tried)

    def test_expected_skips_are_named_with_their_reasons(self):
        code, text = report("# a comment\nalways A.b\npython interop_*\n", "python")
        self.assertEqual(code, 0, text)
        self.assertEqual(
            text, "Skipped tests: 2, expected: 2\n  A.b: no data at ../shared\n  interop_c: no Python with torch\n"
        )

    def test_a_skip_that_nothing_here_explains_fails(self):
        code, text = report("always A.b\npython interop_*\n")
        self.assertEqual(code, 1)
        self.assertIn("Skipped tests: 2, expected: 1\n", text)
        self.assertIn("interop_c: no Python with torch   <-- not expected\n", text)

    def test_optional_skips_may_run_or_not(self):
        code, text = report("may A.*\npython interop_*\n", "python")
        self.assertEqual(code, 0, text)
        self.assertIn("Skipped tests: 2, expected: 2\n", text)

    def test_a_test_that_ran_though_it_was_expected_not_to_fails(self):
        code, text = report("always A.*\npython interop_*\n", "python")
        self.assertEqual(code, 1)
        self.assertIn("A.d: ran, though", text)

    def test_a_test_that_shares_its_process_is_named_alone(self):
        code, text = report("always A.b\npython interop_*\nipv6 F.h\n", "python", "ipv6", suites=True)
        self.assertEqual(code, 1)
        self.assertIn("Tests that ran together with others of their suite: 3\nSkipped tests: 4, expected: 3\n", text)
        self.assertIn("  F.h: no IPv6 here\n", text)
        self.assertIn("  F.DISABLED_i: disabled   <-- not expected\n", text)


if __name__ == "__main__":
    unittest.main()
