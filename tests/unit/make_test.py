"""What make.sh says on a system that lacks something: one message that names what is missing and what to type.

The system is a folder of stand-ins for dpkg-query, apt-get, id, sudo, uname and python3 in front of the PATH, and an empty cache.
Run by hand: python3 tests/unit/make_test.py
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ALL_INSTALLED = 'shift 2; for name; do echo "installed $name"; done'
MOLD_MISSING = 'shift 2; for name; do if [ "$name" != mold ]; then echo "installed $name"; fi; done'
TABLE = (ROOT / "cmake/torch_versions.txt").read_text()
TORCH = re.search(r"(?m)^\d\S*", TABLE)[0]  # what make.sh gets
CRT = re.search(rf"(?m)^{re.escape(TORCH)} .*nvidia-cuda-crt==(\S+)$", TABLE)[1]
USER = {"id": "echo 1000", "sudo": "exit 1"}


class System:
    """Runs make.sh where these commands do what these lines of shell say. A command that is None is not there.

    `cached` is what the cache holds before: programs, by their names. `show` names files of the tests' Python to look at.
    """

    def __init__(self, commands, *arguments, before=(), cached=None, show=(), **variables):
        with tempfile.TemporaryDirectory() as folder:
            tools = pathlib.Path(folder, "bin")
            tools.mkdir()
            path = f"{tools}:{os.environ['PATH']}"
            if None in commands.values():
                path = str(tools)
                for name in ("bash", "dirname", "cat", "uname", "mkdir", "flock"):
                    (tools / name).symlink_to(shutil.which(name))
            for name, line in commands.items():
                if line is not None:
                    (tools / name).unlink(missing_ok=True)
                    (tools / name).write_text(f"#!/bin/sh\n{line}\n")
                    (tools / name).chmod(0o755)
            # make.sh goes to where it lies.
            checkout = pathlib.Path(folder, "checkout")
            checkout.mkdir()
            shutil.copy(ROOT / "make.sh", checkout)
            for name in ("cmake", "configs", "tests", "CMakePresets.json"):
                (checkout / name).symlink_to(ROOT / name)
            for name, content in (cached or {}).items():
                file = pathlib.Path(folder, "cache", "ddp", name)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content)
                file.chmod(0o755)
            environment = {"PATH": path, "XDG_CACHE_HOME": f"{folder}/cache", "TMPDIR": folder} | variables
            run = subprocess.run(
                [*before, checkout / "make.sh", *arguments], env=environment, capture_output=True, text=True, check=False, timeout=60
            )
            self.code, self.text = run.returncode, run.stdout + run.stderr
            cache = pathlib.Path(folder, "cache", "ddp")
            self.shown = {name: (cache / f"python-{TORCH}" / name).read_text() for name in show}
            self.cached = sorted(path.name for path in cache.iterdir()) if cache.exists() else []


class MakeTest(unittest.TestCase):
    def test_an_unknown_command_is_a_usage_error(self):
        system = System({}, "biuld")
        self.assertEqual(system.code, 2)
        self.assertIn("there is no command 'biuld'", system.text)
        self.assertEqual(System({}, "help").code, 0)

    def test_without_root_the_missing_packages_and_the_command_are_named(self):
        system = System({"dpkg-query": MOLD_MISSING} | USER, "deps")
        self.assertEqual(system.code, 1)
        self.assertRegex(system.text, r"\Amake.sh: these packages are missing.* sudo apt-get install -y mold\n\Z")

    def test_a_path_that_no_rpath_can_hold_is_said_before_anything_is_fetched(self):
        system = System({"dpkg-query": ALL_INSTALLED, "python3": "exit 1"}, "build", DDP_TORCH="/a:b")
        self.assertEqual(system.code, 1)
        self.assertRegex(system.text, r"\Amake.sh: LibTorch in /a:b: .* cannot hold a path with ':' or ';'\. .*\n\Z")

    def test_a_python_that_does_not_answer_is_not_waited_for_for_ever(self):
        system = System({"dpkg-query": ALL_INSTALLED, "python3": "exec tail -f /dev/null"}, "build", DDP_PATIENCE="1")
        self.assertEqual(system.code, 1)
        self.assertRegex(system.text, r"\Amake.sh: /.*/bin/python3 has not started within 1 s\. .*\n\Z")

    def test_a_kit_is_not_built_for_a_directory_that_is_taken(self):
        # A path is the caller's, who may be elsewhere.
        system = System({}, "gpu-kit", ROOT.name, before=("env", "-C", ROOT.parent))
        self.assertEqual((system.code, system.text), (1, f"make.sh: {ROOT} is there already. Remove it, or give another directory.\n"))

    def test_a_kit_for_a_torch_that_is_not_tested_is_refused_at_once(self):
        for version in ("2.10.0", ""):
            system = System({"dpkg-query": "exit 1"}, "gpu-kit", "--torch", version, "kit")
            self.assertEqual(system.code, 1)
            self.assertRegex(system.text, rf"\Amake.sh: ddp-worker is not tested with torch '{version}': tested are {TORCH} .*2\.11\.0\. .*\n\Z")
        system = System({"dpkg-query": ALL_INSTALLED} | USER, "gpu-kit", "--torch", "2.11.0")
        self.assertEqual((system.code, system.text), (1, "make.sh: gpu-kit needs one directory, as in: ./make.sh gpu-kit /tmp/gpu-kit\n"))
        system = System({"dpkg-query": MOLD_MISSING} | USER, "gpu-kit", "--torch", "2.11.0", "kit")
        self.assertRegex(system.text, r"\Amake.sh: these packages are missing", "this one is built")

    def test_a_site_that_cannot_be_had_is_one_message(self):
        python = 'case "$*" in *"pip install"*) echo "ERROR: no network"; exit 1;; esac; exit 0'
        venv = 'mkdir -p "$3/bin"; ln -s "$0" "$3/bin/python"'
        system = System({"dpkg-query": ALL_INSTALLED, "python3": f'case "$2" in venv) {venv};; *) {python};; esac'}, "docs")
        self.assertEqual(system.code, 1)
        self.assertRegex(system.text, r"ERROR: no network\nmake.sh: mkdocs-material==.* cannot be had, see .*pip.log. Is there a network\?\n\Z")
        self.assertEqual(system.cached, ["lock", "pip.log"])

    def test_missing_packages_of_slurm_are_named(self):
        missing = ALL_INSTALLED.replace("echo", 'case "$name" in *slurm*|munge) continue;; esac; echo')
        system = System({"dpkg-query": missing} | USER, "test-slurm")
        self.assertEqual(system.code, 1)
        self.assertRegex(system.text, r"sudo apt-get install -y munge slurm-client slurmctld slurmd\n\Z")

    def test_without_dpkg_all_packages_are_named(self):
        system = System({"dpkg-query": None}, "deps")
        self.assertEqual(system.code, 1)
        self.assertRegex(system.text, r"\Amake.sh: this system has no dpkg; .*g\+\+ cmake .*libyaml-cpp-dev.*\n\Z")

    def test_another_machine_is_named(self):
        system = System({"dpkg-query": ALL_INSTALLED, "uname": "echo riscv64"}, "deps")
        self.assertEqual(system.code, 1)
        self.assertRegex(system.text, r"\Amake.sh: this machine is riscv64; .*\n\Z")

    def test_a_failing_apt_get_is_tried_again_after_an_update(self):
        commands = {"dpkg-query": MOLD_MISSING, "id": "echo 0", "apt-get": 'echo "E: no way to $1" >&2; exit 100'}
        system = System(commands, "deps")
        self.assertEqual(system.code, 1)
        self.assertIn("installing mold", system.text)
        self.assertIn("E: no way to update", system.text)
        self.assertRegex(system.text, r"make.sh: apt-get cannot install: mold\. Is there a network")

    def test_a_torch_that_is_not_there_is_refused(self):
        system = System({"dpkg-query": ALL_INSTALLED}, "deps", DDP_TORCH="/nowhere")
        self.assertEqual(system.code, 1)
        self.assertRegex(system.text, r"\Amake.sh: DDP_TORCH=/nowhere holds no torch/lib/libtorch_cpu.so\. .*\n\Z")

    def test_a_torch_without_what_it_loads_is_refused_at_once(self):
        ldd = r"printf '\tlibc.so.6 => /lib/libc.so.6\n\tlibcupti.so.13 => not found\n\tlibcudart.so.13 => not found\n'"
        system = System({"dpkg-query": ALL_INSTALLED, "ldd": ldd}, "deps", DDP_TORCH=self.put_torch())
        self.assertEqual(system.code, 1)
        self.assertRegex(
            system.text,
            r"\Amake.sh: DDP_TORCH=\S+: its libtorch_cpu.so needs libcupti.so.13, libcudart.so.13, which are not on this machine. "
            r"Unpack nvidia-cuda-runtime==[\d.]+ nvidia-cuda-cupti==[\d.]+ there \(nvidia/ beside torch/\), or unset DDP_TORCH .*\n\Z",
        )

    def test_a_torch_that_cannot_be_had_leaves_no_half_of_it(self):
        python = 'case "$*" in *"-m pip"*) echo "ERROR: no network"; exit 1;; *) echo 3.11;; esac'
        system = System({"dpkg-query": ALL_INSTALLED, "python3": python}, "deps")
        self.assertEqual(system.code, 1)
        self.assertIn("ERROR: no network", system.text)
        self.assertRegex(system.text, r"pip cannot get torch==[\d.]+ .*DDP_BUILD_WORKER=OFF")
        self.assertEqual(system.cached, ["lock", "pip.log"])

    def test_a_damaged_torch_is_not_kept(self):
        # A pip that "succeeds" with a directory that lacks a file its own record names.
        python = (
            'case "$*" in *"-m pip"*) while [ "$1" != --target ]; do shift; done; info="$2/torch-2.11.0.dist-info"; '
            'mkdir -p "$info" && echo "torch/lib/libtorch_cpu.so,sha256=0,5" >"$info/RECORD";; '
            f'*verify_torch*) exec {shutil.which("python3")} "$@";; *) echo 3.11;; esac'
        ).replace("2.11.0", TORCH)
        system = System({"dpkg-query": ALL_INSTALLED, "python3": python}, "deps")
        self.assertEqual(system.code, 1)
        self.assertRegex(system.text, r"verify_torch: \S+/torch/lib/libtorch_cpu.so: missing")
        self.assertEqual(system.cached, ["lock", "pip.log"])

    def test_failed_tests_run_again_alone_if_they_are_few(self):
        self.assertEqual(self.run_failed_again(["7:A.B"], result=0), (0, ["7:A.B"]))
        self.assertEqual(self.run_failed_again(["7:A.B", "8:A.C"], result=0), (0, ["7:A.B", "8:A.C"]))
        self.assertEqual(self.run_failed_again(["7:A.B"], result=8), (1, []))
        self.assertEqual(self.run_failed_again(["7:A.B", "8:A.C", "9:A.D"], result=0), (1, []))
        self.assertEqual(self.run_failed_again(None, result=0), (1, []))

    def run_failed_again(self, failed, result):
        """Its exit code, and the tests that it calls unsteady, when ctest's second run ends with `result`."""
        function = re.search(r"(?ms)^run_failed_again\(\) \{$.*?^\}$", (ROOT / "make.sh").read_text())[0]
        with tempfile.TemporaryDirectory() as folder:
            if failed is not None:
                log = pathlib.Path(folder, "Testing", "Temporary", "LastTestsFailed.log")
                log.parent.mkdir(parents=True)
                log.write_text("".join(f"{name}\n" for name in failed))
            script = f'set -euo pipefail\nrun_ctest() {{ return {result}; }}\n{function}\nrun_failed_again "$1" || exit 1'
            run = subprocess.run(["bash", "-c", script, "make.sh", folder], capture_output=True, text=True, check=False)
        count, names = (run.stdout.split("passed alone: ") + [""])[1].partition("\n")[::2]
        self.assertEqual(count, str(len(names.split())) if names else "")
        return run.returncode, names.split()

    def test_packages_missing_in_an_older_cache_are_added(self):
        text = (ROOT / "make.sh").read_text()
        wheels = re.search(r"(?m)^readonly python_wheels=\((.*)\)$", text)[1].replace('"', "")
        vision = re.search(rf"(?m)^{re.escape(TORCH)} (\S+)", TABLE)[1]
        wheels = wheels.replace("$torch_version", TORCH).replace("$torchvision_version", vision).replace("$cuda_headers", f"nvidia-cuda-crt=={CRT}")
        commands = {"dpkg-query": ALL_INSTALLED, "cmake": "exit 0", "ctest": "exit 0"}
        others = dict.fromkeys(("DDP_PYTHON_TORCH1", "DDP_PYTHON_DETECTOR", "DDP_PYTHON_TRACKING"), "/bin/false")  # are not asked for
        for pip, complete in (("exit 0", wheels), ('echo "ERROR: no network"; exit 1', f"torch=={TORCH} numpy")):
            python = f'#!/bin/sh\ncase "$*" in *"pip install"*) echo "pip got $*" >"$(dirname "$0")/../asked"; {pip};; esac\n'
            cached = {f"torch-{TORCH}/complete": "", "python-1.13.1/complete": "", f"python-{TORCH}/complete": f"torch=={TORCH} numpy"}
            cached |= {f"python-{TORCH}/bin/python": python}
            system = System(commands, "test", cached=cached, show=("asked", "complete"), **others)
            self.assertIn("make.sh: adding what is missing in ", system.text)
            self.assertTrue(system.shown["asked"].endswith(f" {wheels}\n"), system.shown)
            self.assertEqual(system.shown["complete"], complete)
        self.assertIn("ERROR: no network\nmake.sh: pip cannot add them", system.text)

    def test_build_makes_the_programs_alone_and_says_what_is_next(self):
        commands = {"dpkg-query": ALL_INSTALLED, "cmake": 'echo "cmake $*" >&2'}
        system = System(commands, "build", DDP_BUILD_WORKER="OFF")
        self.assertEqual(system.code, 0, system.text)
        self.assertIn("cmake --build build/release --target programs\n", system.text)
        # Without ddp-worker no job file can be trained.
        self.assertRegex(system.text, r"make.sh: built without ddp-worker. Next: .*: build/release/ddp-launch --nproc-per-node 2 train.py\n\Z")

    def test_build_does_not_need_packages_of_tests(self):
        tests_missing = ALL_INSTALLED.replace("echo", 'case "$name" in libgtest-dev|libfaketime|openssh-*) continue;; esac; echo')
        commands = {"dpkg-query": tests_missing, "cmake": "exit 0"} | USER
        self.assertEqual(System(commands, "build", DDP_BUILD_WORKER="OFF").code, 0)
        system = System(commands, "test", DDP_BUILD_WORKER="OFF")
        self.assertEqual(system.code, 1)
        self.assertRegex(system.text, r"sudo apt-get install -y libfaketime libgtest-dev openssh-client openssh-server\n\Z")

    def test_on_a_terminal_one_line_says_how_far_it_is(self):
        # apt-get goes on until that line was shown: it looks at what script(1) has written.
        slow = 'echo "0 upgraded, 7 newly installed,"; echo "Setting up x"; until grep -q "package 1 of 7" "$TMPDIR/shown"; do :; done'
        commands = {"dpkg-query": MOLD_MISSING, "id": "echo 0", "apt-get": slow, "cmake": "exit 0"}
        in_terminal = ("sh", "-c", 'script --quiet --flush --return --command "$0 $*" "$TMPDIR/shown"')
        system = System(commands, "build", before=in_terminal, DDP_BUILD_WORKER="OFF")
        self.assertEqual(system.code, 0, system.text)
        self.assertIn("\x1b[Kmake.sh: package 1 of 7", system.text)
        self.assertNotIn("package 1 of 7", System(commands | {"apt-get": "exit 0"}, "build", DDP_BUILD_WORKER="OFF").text)

    def test_the_launcher_alone_is_built_for_two_kinds_of_processor(self):
        commands = {"dpkg-query": ALL_INSTALLED, "cmake": 'echo "cmake $*" >&2'}
        system = System(commands, "build-launcher")
        self.assertIn("cmake --build build/launcher-x86_64 --target ddp-launch\n", system.text)
        self.assertEqual(system.cached, [])
        # Its libraries are got once, and nothing of the system is changed.
        commands |= {"apt-get": 'case "$*" in *install*) exit 1;; esac', "dpkg-deb": "exit 0"}
        system = System(commands, "build-launcher", "--target", "aarch64")
        self.assertIn("cmake --build build/launcher-aarch64 --target ddp-launch\n", system.text)
        self.assertEqual(system.cached, ["apt.log", "arm64", "lock"])
        for words in (("--target", "mips"), ("--target",), ("all",)):
            self.assertEqual(System(commands, "build-launcher", *words).code, 1)

    def test_libraries_for_another_processor_that_cannot_be_had_are_named(self):
        system = System({"dpkg-query": ALL_INSTALLED, "apt-get": "exit 1"}, "build-launcher", "--target", "aarch64")
        self.assertEqual(system.code, 1)
        self.assertRegex(system.text, r"make.sh: apt-get cannot get libboost\S+ .* for arm64 .* Is there a network\?\n\Z")
        self.assertEqual(system.cached, ["apt.log", "lock"])

    def test_no_torch_is_wanted_for_the_launcher_alone(self):
        system = System({"dpkg-query": ALL_INSTALLED}, "deps", DDP_BUILD_WORKER="OFF")
        self.assertEqual((system.code, system.text), (0, ""))

    def put_torch(self, *more):
        """A LibTorch of the user's own, with CUDA in its name alone."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        lib = pathlib.Path(folder.name, "torch/lib")
        lib.mkdir(parents=True)
        for name in ("libtorch_cpu.so", *more):
            (lib / name).touch()
        (lib.parent / "version.py").write_text("__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\n", encoding="ascii")
        return folder.name

    def test_cuda_of_a_torch_of_ones_own_gets_one_wheel_and_writes_nothing_beside_that_torch(self):
        torch = self.put_torch("libtorch_cuda.so")
        real = shutil.which("python3")
        pip = f'case "$*" in *"-m pip"*) while [ "$1" != --target ]; do shift; done; mkdir -p "$2";; *) exec {real} "$@";; esac'
        commands = {"dpkg-query": ALL_INSTALLED, "python3": pip}
        before = sorted(pathlib.Path(torch).rglob("*"))
        system = System(commands, "deps", DDP_TORCH=torch, DDP_CUDA="ON")
        self.assertRegex(system.text, r"make.sh: CUDA: getting the headers of nvidia-cuda-crt==13[\d.]+ \(in ")
        # The library is an empty file here.
        self.assertRegex(system.text, r"make.sh: CUDA: \S+/libtorch_cuda.so cannot be loaded .*, or go without: DDP_CUDA=OFF\n\Z")
        self.assertEqual(system.code, 1)
        self.assertEqual(sorted(pathlib.Path(torch).rglob("*")), before)
        self.assertEqual([name for name in system.cached if "cuda" in name], [f"cuda-headers-{TORCH}"])
        self.assertEqual(System(commands, "deps", DDP_TORCH=torch, DDP_CUDA="OFF").text, "")
        self.assertEqual(System(commands, "deps", DDP_TORCH=torch, DDP_SYSTEM_ROOT=torch).text, "", "no driver: nothing is got")

    def test_cuda_that_is_wanted_of_a_torch_without_it_is_refused(self):
        system = System({"dpkg-query": ALL_INSTALLED}, "deps", DDP_TORCH=self.put_torch(), DDP_CUDA="ON")
        self.assertEqual(system.code, 1)
        self.assertRegex(system.text, r"\Amake.sh: CUDA: \S+ holds torch 2.11.0\+cu130, which is built without CUDA: .*\n\Z")

    def test_cuda_that_cannot_be_had_leaves_the_torch_that_is_there(self):
        # LibTorch is got, NVIDIA's libraries are not.
        python = (
            'case "$*" in *"-m pip"*nccl*) echo "ERROR: no network"; exit 1;; '
            '*"-m pip"*) while [ "$1" != --target ]; do shift; done; mkdir -p "$2/torch/lib" "$2/torch-2.11.0.dist-info"; '
            "touch \"$2/torch/lib/libtorch_cpu.so\" \"$2/torch/lib/libtorch_cuda.so\"; printf '%s\\n' \"__version__ = '2.11.0+cu130'\" "
            "\"cuda = '13.0'\" >\"$2/torch/version.py\"; echo 'Requires-Dist: nvidia-nccl-cu13==1; platform_system == \"Linux\"' "
            f'>"$2/torch-2.11.0.dist-info/METADATA";; *verify_torch*) exit 0;; *) exec {shutil.which("python3")} "$@";; esac'
        ).replace("2.11.0", TORCH)
        system = System({"dpkg-query": ALL_INSTALLED, "python3": python}, "deps", DDP_CUDA="ON")
        self.assertEqual(system.code, 1)
        self.assertIn("ERROR: no network", system.text)
        self.assertRegex(system.text, r"CUDA: pip cannot get nvidia-nccl-cu13==1 .* or go without: DDP_CUDA=OFF\n\Z")
        self.assertEqual(system.cached, ["lock", "pip.log", f"torch-{TORCH}"])

    def test_another_torch_is_chosen_by_name_and_built_in_a_directory_of_its_own(self):
        commands = {"dpkg-query": ALL_INSTALLED, "cmake": 'echo "cmake $*" >&2'}
        system = System(commands, "build", cached={"torch-2.11.0/complete": ""}, DDP_TORCH_VERSION="2.11.0", DDP_CUDA="OFF")
        self.assertIn("cmake --build build/torch-2.11.0 --target programs\n", system.text)
        self.assertIn("make.sh: built. Next: build/torch-2.11.0/ddp-launch ", system.text)
        system = System(commands, "build", DDP_TORCH_VERSION="2.1")
        self.assertRegex(system.text, r"\Amake.sh: ddp-worker is not tested with torch '2.1': tested are .* DDP_TORCH=DIR\n\Z")
        self.assertRegex(System(commands, "test-torch").text, rf"\Amake.sh: test-torch needs a release of torch: {TORCH} .*\n\Z")


if __name__ == "__main__":
    unittest.main()
