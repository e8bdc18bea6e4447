"""Each rule of tests/lint.sh finds what it forbids, at its line, and is silent about the nearest thing that is allowed.

Run by hand: python3 tests/unit/lint_test.py
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "lint"))
from rules import all_findings  # noqa: E402
from source import Checkout  # noqa: E402

# Each case: rule, file, a text that breaks the rule, the line of the finding, a text that does not. Words that the rules look for
# everywhere are written in pieces, as this file is looked at too.
HOME = "/ho" "me/ann/data"
CASES = [
    ("L1", "common/a.cpp", '\n#include "launcher/plan/a.h"\n', 2, '#include "common/b.h"\n'),
    ("L1", "launcher/plan/a.cpp", '#include "launcher/os/a.h"\n', 1, '// #include "launcher/os/a.h"\n#include "launcher/plan/b.h"\n'),
    ("L1", "launcher/os/a.cpp", '#include "launcher/net/a.h"\n', 1, '#include "launcher/plan/a.h"\n#include "common/b.h"\n'),
    ("L1", "launcher/net/a.cpp", '#include "launcher/run/a.h"\n', 1, '#include "launcher/os/a.h"\n'),
    ("L1", "launcher/run/a.cpp", '#include "worker/plan/a.h"\n', 1, '#include "launcher/net/a.h"\n'),
    ("L1", "worker/main.cpp", '#include "launcher/plan/a.h"\n', 1, '#include "worker/train/a.h"\n'),
    ("L1", "worker/data/a.cpp", '#include "worker/model/a.h"\n', 1, '#include "worker/plan/a.h"\n'),
    ("L1", "worker/dist/a.cpp", '#include "worker/save/a.h"\n', 1, '#include "worker/model/a.h"\n'),
    ("L1", "worker/save/a.cpp", '#include "worker/train/a.h"\n', 1, '#include "worker/dist/a.h"\n'),
    ("L1", "worker/save/a.cpp", '#include "b.h"\n', 1, "#include <b.h>\n"),
    ("L1", "launcher/attic/a.cpp", "int a;\n", 1, None),
    ("L2", "common/a.cpp", "#include <boost/asio.hpp>\n", 1, "#include <boost/json.hpp>\n"),
    ("L2", "launcher/plan/a.cpp", "#include <boost/asio/ip/tcp.hpp>\n", 1, None),
    ("L2", "worker/plan/a.cpp", "#include <torch/torch.h>\n", 1, None),
    ("L2", "common/a.cpp", "#include <c10/util/Half.h>\n", 1, None),
    ("L2", "launcher/run/a.cpp", "#include <boost/program_options.hpp>\n", 1, None),
    ("L2", "common/b.cpp", "#include <yaml-cpp/yaml.h>\n", 1, None),
    ("L2", "worker/train/a.cpp", "#include <spdlog/spdlog.h>\n", 1, None),
    ("L2", "worker/image/box.cpp", "#include <torch/torch.h>\n", 1, None),
    ("L2", "worker/image/png.cpp", "#include <jpeglib.h>\n", 1, "#include <png.h>\n"),
    ("L2", "worker/data/a.cpp", "#include <webp/decode.h>\n", 1, None),
    ("L2", "worker/dist/ddp.cpp", "#include <cuda_runtime.h>\n", 1, "#include <torch/torch.h>\n"),
    ("L2", "launcher/plan/a.cpp", "auto t = Clock::now();\n", 1, "auto t = known();  // Clock::now()\n"),
    ("L3", "launcher/run/a.cpp", "co_spawn(io, f(), asio::detached);\n", 1, 'say("detached");  // detached\n'),
    ("L3", "launcher/os/a.cpp", "int a;\nthread.detach();\n", 2, "thread.join();\n"),
    ("L3", "worker/train/a.cpp", "int a;\nstd::thread(f).detach();\n", 2, "a = x.detach();\nf(x.detach());\nreturn x.detach();\n"),
    ("L4", "launcher/run/a.cpp", "co_await send(\n  Frame{1});\n", 2, "const Frame frame{1};\nco_await send(frame);\n"),
    ("L4", "launcher/run/a.cpp", "co_await (ready ? a() : b());\n", 1, "if (co_await ready()) { a(); }\n"),
    ("L4", "launcher/run/a.cpp", "co_await run([&] { go(); });\n", 1, 'co_await run(table[3], "{?}");\n'),
    ("L5", "launcher/run/a.cpp", "auto f = [&](int x) -> asio::awaitable<void> { };\n", 1, "asio::awaitable<void> f(int x);\n"),
    ("L5", "launcher/run/a.cpp", "auto f = [] () mutable -> awaitable<int> { };\n", 1, "auto f = [](int x) -> int { return x; };\n"),
    ("L6", "launcher/run/a.cpp", "io.stop();\n", 1, "group.stop();\n"),
    ("L6", "launcher/run/a.cpp", "try { f(); } catch (...) { count(); }\n", 1, "try { f(); } catch (...) { count(); throw; }\n"),
    ("L6", "launcher/run/a.cpp", "catch (...) {\n}\n", 1, "catch (...) {\n  return explain(error);\n}\n"),
    ("L7", "tests/unit/a_test.cpp", "std::this_thread::sleep_for(1s);\n", 1, 'start("sleep(1)");\n'),
    ("L7", "common/a.cpp", "::usleep(10);\n", 1, "int asleep(0);\n"),
    ("L7", "tests/interop/a.py", "import time\ntime.sleep(1)\n", 2, 'print("sleep(1)")  # sleep(1)\n'),
    ("L7", "tests/interop/a.sh", "true; sleep 1\n", 1, "# sleep 1\nrun fake_worker sleep 1\n"),
    ("L8", "worker/train/a.cpp", "if (bad) std::exit(1);\n", 1, "group.abort();\nvoid abort();\n"),
    ("L8", "common/a.cpp", "::_exit(1);\n", 1, 'say("_exit(1)");\n'),
    ("L8", "launcher/run/a.cpp", "const pid_t pid = ::fork();\n", 1, "road.fork();\n"),
    ("L8", "launcher/os/guard.cpp", "::waitid(P_PID, 1, nullptr, 0);\n", 1, "int waitid;\n"),
    ("L8", "launcher/os/guard.cpp", "::execvp(name, list);\n", 1, None),
    ("L8", "launcher/run/a.cpp", "for (pid : all)\n  ::kill(pid, SIGKILL);\n", 2, "group.kill(pid);\nkill_all(pid);\nsignal_process(pid, SIGKILL);\n"),
    ("L8", "tests/fault/a_test.cpp", "::kill(job->pid(), 9);\n", 1, "void kill(int pid);\nsend_signal(job->pid(), 9);\n"),
    ("L8", "tests/fake_worker.cpp", "if (pid > 0) killpg(pid, 9);\n", 1, "::raise(9);\n"),
    ("L8", "common/cli/log.cpp", 'std::getenv("HOME");\n', 1, 'find_variable(environment, "HOME");\n'),
    ("L8", "launcher/plan/a.cpp", "char** e = environ;\n", 1, 'say("/proc/self/environ");\n'),
    ("L9", "common/a.h", "#pragma once\n", 1, "// Why it exists.\n#pragma once\n"),
    ("L9", "common/a.h", "// Why.\nint a;\n#pragma once\n", 1, "// Why.\n// More.\n\n#pragma once\nint a;\n"),
    ("L9", "common/a.h", "// Why.\n#pragma once\nusing namespace std;\n", 3, "// Why.\n#pragma once\n// not using namespace std\n"),
    ("L11", "common/a.cpp", "// TO" "DO: later\n", 1, "// TO" "DO(perf): measure it\n"),
    ("L11", "README.md", "text\nTO" "DO(someday) later\n", 2, "all is done\n"),
    ("L11", "make.sh", "# FIX" "ME\n", 1, "mktemp -d a.XXXXXX\n"),
    ("L12", "configs/a.yaml", f"root: {HOME}\n", 1, "root: data/ro" "ot/x\n"),
    ("L12", "common/a.cpp", '// see /Us' 'ers/ann\n', 1, None),
    ("L17", "launcher/run/a.cpp", "int a;\nvoid note_pr" "ess();\n", 2, "void compress();\n// an expression\n"),
    ("L17", "launcher/plan/a.h", "// How a cr" "ew ends.\n", 1, "// How a screw ends.\n"),
    ("L17", "launcher/os/a.cpp", "send_be" "at();\n", 1, "// Flags be" "at the file.\nsend_heartbeat();\n"),
    ("L17", "launcher/os/a.cpp", "// until the be" "ats stop\n", 1, "// until the heartbeats stop\n"),
    ("L17", "launcher/run/a.cpp", "int samp" "ler;\n", 1, "int sampled;\nint sample_of;\n"),
    ("L17", "tests/unit/a_test.cpp", "TEST(A, ASignalIsOnePr" "ess) {}\n", 1, "TEST(A, ASignalIsOneRequest) {}\n"),
    ("L17", "tests/unit/a_test.cpp", "TEST(A, Be" "atsKeepIt) {}\n", 1, "TEST(A, AFlagBe" "atsTheFile) {}\n"),
    ("L17", "tests/unit/a_test.cpp", "Server do" "or_;\n", 1, "Server indoors_;\n"),
    ("L17", "tests/unit/a_test.py", "def gu" "ests():\n    pass\n", 1, "samp" "ler = 1\n"),
    ("L17", "worker/train/a.h", "class Tal" "ly {\n};\n", 1, "class Meters {\n};\n"),
    ("L17", "worker/data/a.cpp", "// of the sl" "abs\n", 1, "// of slabbed stone\n"),
    ("L17", "common/a.cpp", "// The time is unt" "old.\n", 1, "// The time is not reported.\n"),
    ("L17", "tests/fault/a.md", "LateNe" "wsOfARound\n", 1, "LateEventsOfARound, newest\n"),
]


class Tree:
    """A directory with these files, and what the lint says of it."""

    def __init__(self, files):
        with tempfile.TemporaryDirectory() as root:
            for name, text in files.items():
                path = pathlib.Path(root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            self.all = all_findings(Checkout(root))
        self.text = "\n".join(map(str, self.all))

    def findings(self, rule):
        return [f"{finding.path}:{finding.line}" for finding in self.all if finding.rule == rule]


class LintTest(unittest.TestCase):
    def test_each_rule_finds_what_it_forbids(self):
        for rule, name, bad, line, _ in CASES:
            with self.subTest(rule=rule, file=name, text=bad):
                tree = Tree({name: bad})
                self.assertIn(f"{name}:{line}", tree.findings(rule), tree.text)

    def test_each_rule_is_silent_about_what_is_allowed(self):
        for rule, name, _, _, good in CASES:
            if good is not None:
                with self.subTest(rule=rule, file=name, text=good):
                    tree = Tree({name: good})
                    self.assertEqual(tree.findings(rule), [], tree.text)

    def test_libraries_are_open_to_their_wrappers_and_to_tests(self):
        includes = {
            "launcher/net/a.cpp": "boost/asio.hpp",
            "launcher/plan/command_line/options.cpp": "boost/program_options.hpp",
            "common/files/yaml.cpp": "yaml-cpp/yaml.h",
            "common/cli/log.cpp": "spdlog/spdlog.h",
            "worker/dist/cuda_group.cpp": "cuda_runtime.h",
            "tests/unit/a_test.cpp": "torch/torch.h",
        }
        tree = Tree({name: f"#include <{target}>\n" for name, target in includes.items()})
        self.assertEqual(tree.findings("L2"), [], tree.text)

    def test_the_owners_of_processes_may_end_and_start_them(self):
        tree = Tree({
            "launcher/os/process.cpp": "::fork();\n::_exit(127);\n::waitid(P_PID, 1, 0, 0);\n::kill(-pid, 9);\n",
            "tests/support/send_signal.h": "// Why.\n#pragma once\n::kill(pid, 9);\n",
            "worker/main.cpp": "::_exit(1);\n",
            "tests/fake_worker.cpp": "std::abort();\n::sleep(1);\n",
            "common/node/environment.cpp": "char** e = ::environ;\n",
        })
        self.assertEqual(tree.findings("L8") + tree.findings("L7"), [], tree.text)

    def test_one_name_means_one_class(self):
        peer = "namespace ddp::launcher {\nstruct Peer {\n  int user;\n};\n}\n"
        files = {"launcher/net/a.h": peer, "worker/a.h": peer.replace("::launcher", "::worker")}
        self.assertEqual(Tree(files).findings("L15"), [])
        inside = "namespace ddp::launcher {\nnamespace {\nclass Peer : Base {\n};\n}  // namespace\nclass Peer;\n}\n"
        self.assertEqual(Tree(files | {"tests/a.cpp": inside}).findings("L15"), [])
        self.assertEqual(Tree(files | {"tests/a.cpp": "\n" + peer}).findings("L15"), ["tests/a.cpp:3"])

    def test_include_cycles_are_found(self):
        head = "// Why.\n#pragma once\n"
        tree = Tree({
            "common/a.h": head + '#include "common/b.h"\n',
            "common/b.h": head + '#include "common/c.h"\n',
            "common/c.h": head + '#include "common/a.h"\n',
        })
        self.assertEqual(len(tree.findings("L1")), 1, tree.text)
        self.assertIn("common/a.h -> common/b.h -> common/c.h -> common/a.h", tree.text)

    def test_cycles_of_folders_are_found(self):
        files = {
            "common/text/a.cpp": '#include "common/job/b.h"\n',
            "common/job/b.cpp": '#include "common/files/c.h"\n',
            "common/files/c.cpp": '#include "common/text/d.h"\n',
        }
        tree = Tree(files)
        self.assertEqual(len(tree.findings("L1")), 1, tree.text)
        self.assertIn("common/files -> common/text -> common/job -> common/files", tree.text)
        self.assertEqual(Tree(files | {"common/files/c.cpp": '#include "common/error.h"\n'}).findings("L1"), [])

    def test_duplicate_definitions_in_a_batch_are_found(self):
        first = "namespace {\nconstexpr int kMost = 1;\nint count(std::string_view text) {\n  return kMost;\n}\nstruct Place {};\nusing A = int;\n}\n"
        lists = "add_library(a STATIC a.cpp b.cpp)\n"

        def findings(second, lists=lists):
            return Tree({"common/a.cpp": first, "common/b.cpp": second, "common/CMakeLists.txt": lists}).findings("L18")

        for second in (
            "namespace {\n\nconstexpr std::size_t kMost{2};\n}\n",
            "namespace {\n\nint count(std::string_view words) { return 0; }\n}\n",
            "namespace {\nint other;\nclass Place : Other {\n};\n}\n",
            "namespace {\n\nusing A = long;\n}\n",
        ):
            self.assertEqual(findings(second), ["common/b.cpp:3"], second)
            self.assertEqual(findings(second, "ddp_unit_test(a\n  SOURCES a.cpp b.cpp\n  LIBRARIES c)\n"), ["common/b.cpp:3"], second)
            self.assertEqual(findings(second, "add_library(a STATIC a.cpp)\nadd_library(b STATIC b.cpp)\n"), [], second)
            for alone in ("SKIP_UNITY_BUILD_INCLUSION ON", "COMPILE_DEFINITIONS A=1"):
                self.assertEqual(findings(second, lists + f"set_source_files_properties(b.cpp PROPERTIES {alone})\n"), [], second)
            self.assertEqual(findings(second, "add_library(a STATIC a.cpp ../common/b.cpp)\n"), ["common/b.cpp:3"], second)
        for second in (
            "namespace {\nint count(int number) { return 0; }\nint f() {\n  int kMost = 1;\n  return kMost;\n}\nstruct Place;\nusing A = int;\n}\n",
            "int count(std::string_view words) { return 0; }\n",
            "namespace {\nint count(std::string_view text, Words words = {}, int kMost = 2) { return kMost; }\n}\n",
            "namespace {\nint Place::count(std::string_view words) { return 0; }\n}\n",
        ):
            self.assertEqual(findings(second), [], second)

    def test_a_long_file_is_a_warning_and_no_failure(self):
        files = {
            "common/a.cpp": "int a;\n" * 601,
            "common/CMakeLists.txt": "add_library(a a.cpp)\n",
        }
        tree = Tree(files)
        self.assertEqual([str(finding) for finding in tree.all], ["common/a.cpp:601: L10: warning: 601 lines; split before 600"])
        files["common/a.cpp"] = "int a;\n" * 600
        self.assertEqual(Tree(files).findings("L10"), [])

    def test_every_file_is_built_and_every_named_one_is_there(self):
        files = {
            "common/error.h": "// Why.\n#pragma once\n",
            "common/error.cpp": "int a;\n",
            "tests/unit/error_test.cpp": "int b;\n",
            "tests/interop/numbers.py": "b = 1\n",
            "common/CMakeLists.txt": "add_library(a error.h error.cpp)\n",
            "tests/CMakeLists.txt": "add_test(unit/error_test.cpp ${CMAKE_CURRENT_SOURCE_DIR}/interop/numbers.py)\n",
            "ARCHITECTURE.md": "Read `common/error`, `common/error.h`, then `tests/interop/`.\n",
        }
        self.assertEqual(Tree(files).all, [])
        for name, text, finding in [
            ("common/CMakeLists.txt", "add_library(a error.h)  # error.cpp\n", "common/error.cpp:1"),
            ("tests/CMakeLists.txt", "add_test(unit/error_test.cpp)\n", "tests/interop/numbers.py:1"),
            ("ARCHITECTURE.md", files["ARCHITECTURE.md"] + "Then `common/gone`.\n", "ARCHITECTURE.md:2"),
            ("README.md", "See `tests/gone/a.cpp`.\n", "README.md:1"),
            ("docs/data.md", "See `tests/gone/a.cpp`.\n", "docs/data.md:1"),
        ]:
            with self.subTest(file=name, text=text):
                tree = Tree(files | {name: text})
                self.assertIn(finding, tree.findings("L13"), tree.text)

    def test_broken_links_of_a_page_are_found(self):
        files = {
            "README.md": "# A\n[b](docs/b.md), [c](docs/b.md#the-c---d), [e](#a), [docs](docs/), [far](https://a.b/c), `[x](y)`\n```\n[x](y)\n```\n",
            "docs/b.md": "# B\n```\n# Fenced\n```\n## The C: `--d`\n[up](../README.md#a) [twice](#b-1)\n# B\n",
        }
        self.assertEqual(Tree(files).findings("L16"), [])
        for link, what in (
            ("docs/gone.md", "there is no such file"),
            ("b.md", "there is no such file"),
            ("docs/b.md#c", "docs/b.md has no such heading"),
            ("docs/b.md#fenced", "docs/b.md has no such heading"),
            ("#b", "README.md has no such heading"),
        ):
            with self.subTest(link=link):
                tree = Tree(files | {"README.md": f"# A\n\n[of two\nlines]({link})\n"})
                self.assertEqual(tree.findings("L16"), ["README.md:3"], tree.text)
                self.assertIn(f"{link}: {what}", tree.text)

    PAGE = "tests/fault/CASES.md"
    ROWS = (
        "# Faults\n\n| # | injection | bound | tests |\n|---|---|---|---|\n"
        "| W1 | it dies | 1 s | `Faults.W1_ItIsNamed` `a_test.py Killed.test_it_is_named` `a_test.py test_it_ends`. Missing: a core |\n"
        "| W2 | it hangs | none | not yet: nobody looks |\n"
    )
    TESTS = {
        "tests/fault/a_test.cpp": "TEST_F(Faults, W1_ItIsNamed) {}\nTEST(Faults, AnythingElse) {}\n",
        "tests/fault/a_test.py": "class Killed(Test):\n    def test_it_is_named(self):\n        pass\n\n\ndef test_it_ends():\n    pass\n",
    }

    def test_cases_and_tests_agree(self):
        self.assertEqual(Tree({self.PAGE: self.ROWS, **self.TESTS}).findings("L14"), [])
        self.assertEqual(Tree({"common/a.cpp": "int a;\n"}).findings("L14"), [], "nothing to compare")

    def test_cases_and_tests_that_do_not_agree_are_found(self):
        page, code, script = self.PAGE, "tests/fault/a_test.cpp", "tests/fault/a_test.py"
        for name, old, new, place, what in [
            (page, "`Faults.W1_ItIsNamed`", "`Faults.W1_ItIsNamed` `Faults.Gone`", page + ":5", "there is no test Faults.Gone"),
            (page, "Killed.test_it_is_named", "test_it_is_named", page + ":5", "there is no test a_test.py test_it_is_named"),
            (page, "`Faults.W1_ItIsNamed` ", "", code + ":1", "W1_ItIsNamed is not in the row W1"),
            (page, "| W1 |", "| W3 |", page + ":1", "W1 has no row"),
            (page, "| W2 |", "| W1 |", page + ":6", "W1 is there twice"),
            (page, "| W2 |", "| second |", page + ":6", "'second' is not the number of a case"),
            (page, "| none |", "|  |", page + ":6", "none of them is empty"),
            (page, "not yet: nobody looks", "", page + ":6", "none of them is empty"),
            (page, "not yet: nobody looks", "not yet:", page + ":6", "what is missing"),
            (page, "not yet: nobody looks", "not yet: all but `Faults.AnythingElse`", page + ":6", "either tests, or"),
            (page, "not yet: nobody looks", "nobody looks", page + ":6", "either tests, or"),
            (page, " none | not", " not", page + ":6", "none of them is empty"),
            (code, "AnythingElse", "W1_AnythingElse", code + ":2", "W1_AnythingElse is not in the row W1"),
            (code, "AnythingElse", "W2_AnythingElse", code + ":2", "W2_AnythingElse is not in the row W2"),
            (code, "AnythingElse", "X9_AnythingElse", code + ":2", "X9_AnythingElse is not in the row X9"),
            (code, "TEST_F(Faults, W1", "// TEST_F(Faults, W1", page + ":5", "there is no test Faults.W1_ItIsNamed"),
            (script, "def test_it_ends", "def it_ends", page + ":5", "there is no test a_test.py test_it_ends"),
            (script, "class Killed", "class Lost", page + ":5", "there is no test a_test.py Killed.test_it_is_named"),
        ]:
            with self.subTest(file=name, text=new):
                files = {page: self.ROWS, **self.TESTS}
                self.assertIn(old, files[name])
                files[name] = files[name].replace(old, new, 1)
                tree = Tree(files)
                self.assertIn(place, tree.findings("L14"), tree.text)
                self.assertIn(what, tree.text)

    def test_a_missing_list_of_cases_is_found(self):
        self.assertEqual(Tree(self.TESTS).findings("L14"), ["tests/fault/CASES.md:1"])

    def test_raw_strings_and_digit_separators_do_not_hide_code(self):
        tree = Tree({"common/a.cpp": 'auto a = R"(")"; int b = 1\'000; auto c = \'"\';\nstd::abort();\n'})
        self.assertEqual(tree.findings("L8"), ["common/a.cpp:2"], tree.text)

    def test_the_script_prints_findings_and_fails_for_them_but_not_for_warnings(self):
        with tempfile.TemporaryDirectory() as root:
            script = [TESTS / "lint.sh", root]
            pathlib.Path(root, "make.sh").write_text("true\n" * 601)
            run = subprocess.run(script, capture_output=True, text=True, check=False)
            self.assertEqual((run.returncode, run.stdout), (0, "make.sh:601: L10: warning: 601 lines; split before 600\n"))
            pathlib.Path(root, "make.sh").write_text("# FIX" "ME\n")
            run = subprocess.run(script, capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 1)
            self.assertRegex(run.stdout, r"\Amake.sh:1: L11: FIX" r"ME: .*\n\Z")


if __name__ == "__main__":
    unittest.main()
