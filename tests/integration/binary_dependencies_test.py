"""What the built programs are made of: what they load, where they look for it, and how large the launcher is.

Run by hand: python3 tests/integration/binary_dependencies_test.py build/release/ddp-launch [build/release/ddp-worker [build/release/libddp-worker-cuda.so]]
"""

import pathlib
import re
import subprocess
import sys
import unittest

LAUNCH, WORKER, CUDA_MODULE = (sys.argv[1:] + [None, None, None])[:3]


def newest_symbols(program):
    """The newest symbol version of each library of the system that a program asks for: {"GLIBC": (2, 34)}."""
    text = subprocess.run(["objdump", "-T", program], capture_output=True, text=True, check=True).stdout
    found = {}
    for name, number in re.findall(r"\b(GLIBC|GLIBCXX|CXXABI)_([\d.]+)", text):
        found[name] = max(found.get(name, ()), tuple(map(int, number.split("."))))
    return found


def dynamic_section(program):
    """The libraries a program asks for, in order, and the directories in which it looks."""
    text = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
    assert "(RUNPATH)" not in text, f"{program}: LD_LIBRARY_PATH would win"
    run_path = re.search(r"\(RPATH\).*\[(.*)\]", text)
    return re.findall(r"\(NEEDED\).*\[(.*)\]", text), run_path[1].split(":") if run_path else []


def symbols(program):
    """Of functions and data, beside those that are exported; empty: it is stripped."""
    return subprocess.run(["nm", "--demangle", program], capture_output=True, text=True, check=True).stdout


class LaunchTest(unittest.TestCase):
    def test_launcher_is_static(self):
        self.assertEqual(dynamic_section(LAUNCH), ([], []))
        program = subprocess.run(["readelf", "--program-headers", LAUNCH], capture_output=True, text=True, check=True).stdout
        self.assertNotIn("INTERP", program)
        self.assertIn("DYN (Position-Independent Executable file)", program)

    def test_launcher_is_smaller_than_6_mb(self):
        self.assertLess(pathlib.Path(LAUNCH).stat().st_size, 6_000_000)

    def test_launcher_holds_no_path_of_the_checkout(self):
        checkout = pathlib.Path(__file__).resolve().parent.parent.parent
        self.assertNotIn(bytes(checkout), pathlib.Path(LAUNCH).read_bytes())

    def test_launcher_prints_its_version(self):
        run = subprocess.run([LAUNCH, "--version"], capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 0)
        self.assertRegex(run.stdout, r"\Addp-launch \d+\.\d+\.\d+\n\Z")

    def test_full_disk_is_an_error(self):
        for words in (["--schema"], ["--man"], ["--help"], ["--completion", "bash"], ["--dry-run", "true"]):
            with open("/dev/full", "w") as full:
                run = subprocess.run([LAUNCH, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual(run.returncode, 125, words)
            self.assertRegex(run.stderr, r"^ddp-launch: .*stdout: No space left on device")


@unittest.skipIf(WORKER is None, "ddp-worker is not built")
class WorkerTest(unittest.TestCase):
    def test_the_system_s_libstdcxx_comes_before_torch_s_copy_of_filesystem(self):
        needed, _ = dynamic_section(WORKER)
        self.assertLess(needed.index("libstdc++.so.6"), needed.index("libtorch_cpu.so"))

    def test_worker_needs_no_cuda_python_or_second_openmp(self):
        needed, _ = dynamic_section(WORKER)
        self.assertFalse([name for name in needed if re.search(r"cuda|python|gomp|protobuf|fmt", name)], needed)

    def test_worker_searches_absolute_directories_only(self):
        _, run_path = dynamic_section(WORKER)
        self.assertTrue(run_path)
        self.assertTrue(all(directory.startswith("/") for directory in run_path), run_path)

    def test_worker_programs_run_on_the_oldest_systems_of_the_package(self):
        # Ubuntu 22.04 has glibc 2.35 and GCC 12's libstdc++, RHEL 9 glibc 2.34 and GCC 11's.
        for program in (WORKER, pathlib.Path(WORKER).with_name("ddp-fetch"), CUDA_MODULE):
            for name, newest in newest_symbols(program).items() if program else ():
                self.assertLessEqual(newest, {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13)}[name], program)

    def test_worker_keeps_only_the_symbols_that_stacks_need(self):
        # Of the compiler's own constants there were 8,000.
        kept = symbols(WORKER)
        self.assertIn("ddp::worker::(anonymous namespace)::", kept)
        self.assertNotIn(" .LC", kept)
        folder = pathlib.Path(WORKER).parent
        for program in (LAUNCH, folder / "ddp-worker-start", folder / "ddp-fetch", *folder.glob("libddp-shm-*.so")):
            self.assertEqual(symbols(program), "", program)

    def test_worker_prints_its_version_and_torch_s(self):
        run = subprocess.run([WORKER, "--version"], capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 0)
        self.assertRegex(run.stdout, r"\Addp-worker \d+\.\d+\.\d+, LibTorch \d+\.\d+\.\d+\n\Z")


@unittest.skipIf(CUDA_MODULE is None, "the CUDA module is not built: no CUDA wheels of torch")
class CudaModuleTest(unittest.TestCase):
    def test_module_is_linked_to_cuda(self):
        needed, _ = dynamic_section(CUDA_MODULE)
        self.assertLessEqual({"libtorch_cuda.so", "libc10_cuda.so"}, set(needed))

    def test_module_searches_the_worker_s_first_directory_first(self):
        _, run_path = dynamic_section(CUDA_MODULE)
        self.assertEqual(run_path[0], dynamic_section(WORKER)[1][0])
        self.assertTrue(all(directory.startswith("/") for directory in run_path), run_path)

    def test_module_exports_one_function(self):
        text = subprocess.run(["nm", "-D", "--defined-only", CUDA_MODULE], capture_output=True, text=True, check=True).stdout
        own = [line.split()[-1] for line in text.splitlines() if " T " in line]
        self.assertEqual(own, ["ddp_cuda_module"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
