"""The kit for GPUs, made as ./make.sh gpu-kit makes it, carried to another directory and run there without a GPU: on an empty PATH, by
the Python of a given site-packages, with nothing of this checkout.

Run by hand: DDP_BIN=build/release python3 tests/gpu/gpu_kit_test.py
"""

import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ["DDP_BIN"]).resolve()
SITE = pathlib.Path(importlib.util.find_spec("torch").origin).parents[1]
# Cases in Python that are for GPUs alone; a new one is named here. The GoogleTests all are.
FOR_GPUS = {
    "Devices.test_cuda_visible_devices_chooses_by_number_and_by_uuid", "Devices.test_local_rank_chooses_the_gpu",
    "Devices.test_more_ranks_than_gpus_are_refused_for_nccl_with_the_list", "Training.test_one_rank_per_gpu_learns_over_nccl",
    "Precision.test_fp16_converges_as_python_s_ddp_does",
    "Precision.test_a_forced_overflow_halves_the_scale_and_leaves_the_step_out",
    "Checkpoints.test_the_loss_scale_of_fp16_goes_on_bit_for_bit", "Faults.test_nccl_s_watchdog_ends_the_ranks_that_wait",
    "BusyGpus.test_a_gpu_that_others_use_is_said_once_with_its_free_memory",
    "BusyGpus.test_less_free_memory_than_the_job_wants_is_refused_with_the_owners",
}  # fmt: skip


def make(out):
    command = [sys.executable, "-B", HERE / "make_kit.py", BUILD, out]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def processes_of(out):
    """Command lines of what was started by a kit with that directory, while they run."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if f"KIT_OF_TEST={out}\0".encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes())
        except OSError:
            continue
    return found


def wait_until(is_so, what):
    deadline = time.monotonic() + 120
    pause = threading.Event()
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain for {what}")
        pause.wait(0.05)


class GpuKit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        made = make(cls.folder / "made")
        assert made.returncode == 0, made.stdout + made.stderr
        cls.kit = cls.folder / "carried" / "kit"
        cls.kit.parent.mkdir()
        shutil.move(cls.folder / "made", cls.kit)
        (cls.folder / "empty").mkdir()

    def run_kit(self, *arguments, kit=None, **variables):
        """The exit code, and all that was printed."""
        environment = {"PATH": str(self.folder / "empty"), "TMPDIR": str(self.folder)} | variables
        command = [str(word) for word in ((kit or self.kit) / "run.sh", *arguments)]
        run = subprocess.run(
            command, env=environment, cwd=self.folder / "empty", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        return run.returncode, run.stdout

    def test_its_cpu_part_passes_and_the_rest_is_listed_as_not_run(self):
        out = self.folder / "out"
        code, text = self.run_kit("--site-packages", SITE, "--device", "cpu", "--out", out)
        found = json.loads((out / "gpu.json").read_text(encoding="utf-8"))
        for case in found["cases"]:
            if case["state"] == "failed":
                print(f"{case['name']} failed:\n{case['text']}")
        self.assertEqual((code, found["counts"]["failed"]), (0, 0), text)
        self.assertEqual(found["machine"]["device"], "cpu")
        self.assertRegex(found["machine"]["torch"], r"^2\.11\.0")
        idle = [case for case in found["cases"] if case["state"] == "not run"]
        gtests = json.loads((self.kit / "tests/gpu/gtests.json").read_text(encoding="utf-8"))
        self.assertEqual({case["name"] for case in idle}, FOR_GPUS | {test["name"] for test in gtests})
        for case in idle:
            self.assertRegex(case["reason"], r"\Aneeds an NVIDIA GPU\Z|\Aneeds 2 GPUs, here are \d\Z")
            self.assertIn(f"not run: {case['name']}: {case['reason']}", text)
        closing = f"{found['counts']['passed']} passed, 0 failed, {len(idle)} not run, on cpu\n"
        self.assertIn(closing, text)
        self.assertTrue((out / "gpu.log").read_text(encoding="utf-8").endswith(closing))

    def test_its_figures_are_taken_without_a_compiler_too(self):
        out = self.folder / "bench.json"
        code, text = self.run_kit("--python", sys.executable, "bench", "--device", "cpu", "--batches", "8", "--steps", "40", "--json", out)
        self.assertEqual(code, 0, text)
        print(text)
        rows = {row["trainer"]: row for row in json.loads(out.read_text(encoding="utf-8"))["rows"]}
        self.assertIn("needs a compiler", rows["compiled"]["not_run"])
        self.assertIn("needs an NVIDIA GPU", rows["graphs"]["not_run"])
        for trainer in ("eager", "ours"):
            for figure in ("ms_per_step", "images_per_s", "start_s", "peak_bytes"):
                self.assertGreater(rows[trainer][figure], 0, (trainer, figure))

    def test_it_is_small_and_knows_no_directory_of_this_machine(self):
        files = [path for path in self.kit.rglob("*") if path.is_file()]
        self.assertLessEqual(sum(path.stat().st_size for path in files), 64 << 20)
        for program in [*(self.kit / "bin").iterdir(), *(self.kit / "lib").iterdir()]:
            text = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
            self.assertNotRegex(text, "RPATH|RUNPATH", program)
        for script in self.kit.rglob("*.py"):
            self.assertNotIn(str(BUILD.parent.parent), script.read_text(encoding="utf-8"))

    def test_it_holds_every_test_that_ctest_knows_by_the_label(self):
        show = subprocess.run(["ctest", "--test-dir", BUILD, "-N", "-L", "^gpu$"], capture_output=True, text=True, check=True).stdout
        known = {line.split(": ")[1] for line in show.splitlines() if "Test #" in line or "Test  #" in line}
        _, text = self.run_kit("--python", sys.executable, "--list")
        self.assertGreater(len(known), 5)
        self.assertLessEqual(known, set(text.splitlines()))

    def test_a_case_that_fails_is_named_and_fails_the_kit(self):
        broken = self.folder / "broken"
        shutil.copytree(self.kit, broken)
        (broken / "lib/libddp-worker-cuda.so").write_bytes(b"no library")
        case = "Devices.test_the_module_for_gpus_loads_with_this_torch"
        code, text = self.run_kit("--device", "cpu", case, kit=broken, DDP_PYTHON=sys.executable)
        self.assertEqual(code, 1, text)
        self.assertIn(f"\nfailed: {case}\n0 passed, 1 failed, 0 not run, on ", text)
        self.assertIn("libddp-worker-cuda.so: file too short", (self.folder / "empty/gpu.log").read_text(encoding="utf-8"))

    def start_kit(self, out, case):
        """One that has begun with the case."""
        environment = {"PATH": "", "TMPDIR": str(out), "PYTHONUNBUFFERED": "1", "KIT_OF_TEST": str(out)}
        out.mkdir()
        (out / "gpu.json").write_text("of another run", encoding="ascii")
        command = [self.kit / "run.sh", "--python", sys.executable, "--device", "cpu", "--out", out, case]
        kit = subprocess.Popen(command, env=environment, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(kit.stdout.close)
        self.addCleanup(kit.wait)
        self.addCleanup(kit.kill)
        self.addCleanup(kit.send_signal, signal.SIGCONT)
        wait_until(lambda: any(b"ddp-worker" in command for command in processes_of(out)), "the case's ranks")
        return kit

    def test_a_kit_that_is_ended_leaves_nothing(self):
        case = "Faults.test_a_hang_is_named_with_the_rank_that_hangs"
        for number, left in ((signal.SIGTERM, ["gpu.log"]), (signal.SIGINT, ["gpu.log"]), (signal.SIGKILL, None)):
            with self.subTest(number):
                out = self.folder / f"ended-{number}"
                kit = self.start_kit(out, case)
                code, text = self.run_kit("--python", sys.executable, "--device", "cpu", "--out", out, case)
                self.assertEqual(code, 1)
                self.assertIn(f"another run writes to {out}/gpu.log", text)
                kit.send_signal(signal.SIGSTOP)
                kit.send_signal(number)
                kit.send_signal(signal.SIGCONT)
                self.assertEqual(kit.wait(60), -9 if number == signal.SIGKILL else 128 + number)
                wait_until(lambda out=out: not processes_of(out), "the end of all processes")
                self.assertFalse((out / "gpu.json").exists(), "stale")
                if left is not None:
                    self.assertEqual(sorted(path.name for path in out.iterdir()), left)

    def test_places_that_cannot_be_written_are_said_in_a_line(self):
        (self.folder / "file").touch()
        for out, why in ((self.folder / "file", "File exists"), ("/proc/nowhere", "No such file or directory")):
            code, text = self.run_kit("--python", sys.executable, "--device", "cpu", "--out", out, "Devices.*")
            self.assertEqual(code, 1)
            self.assertIn(f"\ncannot write the results to {out}: {why}. Mend that", "\n" + text)
            self.assertNotIn("Traceback", text)

    def test_a_python_is_found_as_a_shell_would(self):
        self.assertEqual(self.run_kit("--python", pathlib.Path(sys.executable).name, "--list", PATH=pathlib.Path(sys.executable).parent)[0], 0)
        relative = os.path.relpath(SITE, self.folder / "empty")
        code, text = self.run_kit("--python", sys.executable, "--site-packages", relative, "--device", "cpu", "Training.test_a_world_of_one*")
        self.assertEqual(code, 0, text)
        for wrong in ("/bin/true", "/bin/false", "/bin/cat", self.kit / "README", self.folder, "no-such-python"):
            code, text = self.run_kit("--python", wrong, "--list")
            self.assertEqual((code, text.count("run.sh: ")), (2, 1), text)

    def test_a_program_that_is_broken_is_named(self):
        broken = self.folder / "garbage"
        shutil.copytree(self.kit, broken)
        (broken / "bin/ddp-worker").write_bytes(b"\x7fELF and no more")
        code, text = self.run_kit("--python", sys.executable, "--device", "cpu", "Devices.*", kit=broken)
        self.assertEqual(code, 1)
        self.assertRegex(text, r"\A\S+/garbage/bin/ddp-worker does not run here: Exec format error. Is the kit whole\?\n\Z")

    def test_what_is_missing_is_said_in_a_line(self):
        code, text = self.run_kit()
        self.assertEqual(code, 2)
        self.assertIn("run.sh: no Python.\nUsage: ", text)
        code, text = self.run_kit("--site-packages", self.folder)
        self.assertEqual((code, len(text.splitlines())), (2, 1))
        self.assertIn("holds no torch/lib/libtorch_cpu.so", text)
        code, text = self.run_kit("--python", sys.executable, "--device", "cpu", "Nothing.*")
        self.assertEqual(code, 1)
        self.assertIn("no case is called Nothing.*", text)
        if not os.path.exists("/proc/driver/nvidia/version"):
            code, text = self.run_kit("--python", sys.executable, "--device", "cuda")
            self.assertEqual(code, 1)
            self.assertRegex(text, r"sees no GPU \(driver: none\)")

    def test_it_is_not_made_over_something_else(self):
        taken = self.folder / "taken"
        taken.mkdir()
        (taken / "mine").touch()
        made = make(taken)
        self.assertEqual(made.returncode, 1)
        self.assertIn(f"{taken} is there already", made.stderr)
        self.assertEqual([path.name for path in taken.iterdir()], ["mine"])

    def test_one_that_cannot_be_made_leaves_nothing(self):
        (self.folder / "file").touch()
        made = make(self.folder / "file" / "kit")
        self.assertEqual((made.returncode, len(made.stderr.splitlines())), (1, 1), made.stderr)
        self.assertIn("cannot make", made.stderr)


if __name__ == "__main__":
    unittest.main()
