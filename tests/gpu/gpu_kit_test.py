"""The kit for GPUs, made as ./make.sh gpu-kit makes it, carried to another directory and run there without a GPU: on an empty PATH, by
the Python of a given site-packages, with nothing of this checkout.

Run by hand: DDP_BIN=build/release python3 tests/gpu/gpu_kit_test.py
"""

import importlib.util
import importlib.metadata
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

from processes import cases

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ["DDP_BIN"]).resolve()
SITE = pathlib.Path(importlib.util.find_spec("torch").origin).parents[1]
# Cases in Python that are for GPUs alone; a new one is named here. The GoogleTests all are. A rehearsal leaves out the first ones.
FOR_REAL_GPUS = {
    "Devices.test_cuda_visible_devices_chooses_by_number_and_by_uuid",
    "Devices.test_more_ranks_than_gpus_are_refused_for_nccl_with_the_list", "Faults.test_a_rank_that_hangs_under_nccl_is_named_at_the_time_out",
    "BusyGpus.test_a_gpu_that_others_use_is_said_once_with_its_free_memory",
    "BusyGpus.test_less_free_memory_than_the_job_wants_is_refused_with_the_owners",
}  # fmt: skip
FOR_GPUS = FOR_REAL_GPUS | {
    "Devices.test_local_rank_chooses_the_gpu", "Training.test_one_rank_per_gpu_learns_over_nccl",
    "Training.test_two_nodes_on_one_gpu_learn_over_nccl", "Precision.test_fp16_converges_as_python_s_ddp_does",
    "Precision.test_a_forced_overflow_halves_the_scale_and_leaves_the_step_out", "Speed.test_ddp_worker_beside_python",
    "Checkpoints.test_the_loss_scale_of_fp16_goes_on_bit_for_bit",
}  # fmt: skip
# Two fifths of a rehearsal's time, on paths of the CPU that parity_test.py and checkpoint_crash_test.py compare; they are rehearsed by ./make.sh soak cases.
LONG_TO_REHEARSE = {
    "Precision.test_fp16_converges_as_python_s_ddp_does", "Precision.test_fp32_and_bf16_converge_as_python_s_ddp_does",
    "Checkpoints.test_a_stopped_run_saves_and_goes_on_bit_for_bit", "Checkpoints.test_the_loss_scale_of_fp16_goes_on_bit_for_bit",
    "Training.test_ways_to_reduce_give_the_losses_of_the_plain_one",
}  # fmt: skip
QUICK = "Devices.test_the_module_for_gpus_loads_with_this_torch"
HANGS = "Faults.test_a_hang_is_named_with_the_rank_that_hangs"


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


def heed_ctrl_c():
    """A preexec_fn: a shell without job control lets what it starts in the background ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


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
        cls.made = made.stdout
        cls.kit = cls.folder / "carried" / "kit"
        cls.kit.parent.mkdir()
        shutil.move(cls.folder / "made", cls.kit)
        (cls.folder / "empty").mkdir()

    def environment(self, out=None, **variables):
        """Of a kit: no programs on the PATH, and threads that do not spin while they wait, as others need the cores. With a folder `out`
        processes_of() finds what it starts."""
        known = {"TMPDIR": str(out), "KIT_OF_TEST": str(out)} if out else {"TMPDIR": str(self.folder)}
        return {"PATH": str(self.folder / "empty"), "OMP_WAIT_POLICY": "passive"} | known | variables

    def run_kit(self, *arguments, kit=None, **variables):
        """The exit code, and all that was printed."""
        environment = self.environment(**variables)
        command = [str(word) for word in ((kit or self.kit) / "run.sh", *arguments)]
        run = subprocess.run(
            command, env=environment, cwd=self.folder / "empty", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        return run.returncode, run.stdout

    def gtests(self):
        return {test["name"] for test in json.loads((self.kit / "tests/gpu/gtests.json").read_text(encoding="utf-8"))}

    def results(self, out):
        """What gpu.json holds; its counts are those of its cases, and summary.txt is of them, too."""
        found = json.loads((out / "gpu.json").read_text(encoding="utf-8"))
        states = [case["state"] for case in found["cases"]]
        self.assertEqual(found["counts"], {state: states.count(state) for state in ("passed", "failed", "not run")})
        summary = (out / "summary.txt").read_text(encoding="utf-8")
        counts = ", ".join(f"{count} {state}" for state, count in found["counts"].items())
        self.assertTrue(summary.endswith(f"\n{counts}, on {found['machine']['device']}\n"), summary)
        self.assertLessEqual(len(summary), 12000)
        return found

    def not_run(self, out):
        """Names and reasons, which are in the summary as well."""
        idle = {case["name"]: case["reason"] for case in self.results(out)["cases"] if case["state"] == "not run"}
        summary = (out / "summary.txt").read_text(encoding="utf-8")
        for name, reason in idle.items():
            self.assertIn(f"\nnot run: {name}: {reason}\n", summary)
        return idle

    def test_a_rehearsal_passes_and_takes_figures_without_a_compiler(self):
        out = self.folder / "rehearsal"
        names = self.run_kit("--python", sys.executable, "--list")[1].splitlines()
        chosen = cases(names, [name for name in names if name not in LONG_TO_REHEARSE])
        # The machine may be busy.
        code, text = self.run_kit("--site-packages", SITE, "--rehearse", "--patience", 5, "--out", out, *chosen)
        found = self.results(out)
        for case in found["cases"]:
            if case["state"] == "failed":
                print(f"{case['name']} failed:\n{case['text']}")
        self.assertEqual((code, found["counts"]["failed"]), (0, 0), text)
        self.assertEqual(found["machine"]["device"], "cpu, a rehearsal")
        self.assertEqual(found["machine"]["torch"].partition("+")[0], importlib.metadata.version("torch").partition("+")[0])
        idle = self.not_run(out)
        self.assertEqual(set(idle), FOR_REAL_GPUS | self.gtests())
        self.assertLessEqual(set(idle.values()), {"needs an NVIDIA GPU", "needs 2 GPUs, here are 0"})
        summary = (out / "summary.txt").read_text(encoding="utf-8")
        self.assertTrue(text.endswith(summary), text)
        self.assertTrue((out / "gpu.log").read_text(encoding="utf-8").endswith(summary))
        self.assertRegex(summary, r"(?m)^figures: Speed\.test_ddp_worker_beside_python:\n(    .*\n)*    convnet +8  ddp-worker +[\d.]+ ")
        print(summary)
        rows = {row["trainer"]: row for row in json.loads((out / "bench.json").read_text(encoding="utf-8"))["rows"]}
        for trainer, why in (("compiled", "needs a compiler"), ("graphs", "needs an NVIDIA GPU"), ("max-autotune", "needs an NVIDIA GPU")):
            self.assertIn(why, rows[trainer]["not_run"])
        for trainer in ("plain", "ours", "ddp", "views"):
            for figure in ("ms_per_step", "images_per_s", "start_s", "peak_bytes"):
                self.assertGreater(rows[trainer][figure], 0, (trainer, figure))

    def test_figures_that_are_killed_leave_the_rows_until_then_and_nothing_else(self):
        out = self.folder / "rows"
        out.mkdir()
        command = [self.kit / "run.sh", "--python", sys.executable, "bench", "--device", "cpu", "--batches", "8", "--steps", "40"]
        command += ["--json", out / "bench.json"]
        bench = subprocess.Popen(command, env=self.environment(out, PATH=""), stdout=subprocess.DEVNULL)
        self.addCleanup(bench.wait)
        self.addCleanup(bench.kill)

        def rows():
            file = out / "bench.json"
            return json.loads(file.read_text(encoding="utf-8"))["rows"] if file.exists() else []

        wait_until(rows, "the first row")
        wait_until(lambda: any(b"ddp-worker\0job.yaml" in command for command in processes_of(out)), "the second trainer")
        bench.kill()
        wait_until(lambda: not processes_of(out), "the end of all processes")
        self.assertEqual([row["trainer"] for row in rows()], ["plain"])

    def test_cases_that_need_a_gpu_are_listed_as_not_run(self):
        out = self.folder / "cpu"
        code, text = self.run_kit("--python", sys.executable, "--device", "cpu", "--out", out, *FOR_GPUS, *self.gtests())
        self.assertEqual(code, 0, text)
        self.assertEqual(set(self.not_run(out)), FOR_GPUS | self.gtests())

    def test_cases_come_in_order_of_worth(self):
        _, text = self.run_kit("--python", sys.executable, "--list")
        names = text.splitlines()
        self.assertEqual(len(names), len(set(names)))
        marks = ["Training.test_two_ranks_on_one_device_learn_over_gloo", "Precision.test_fp16_converges_as_python_s_ddp_does"]
        marks += ["Speed.test_ddp_worker_beside_python", HANGS]
        self.assertEqual(marks, sorted(marks, key=names.index))
        self.assertLess(names.index("Gpu.IsChosenAndCurrentBeforeAnyTensor"), names.index("Gpu.ABatchArrivesAsItWas"))
        self.assertLess(names.index("Speed.test_ddp_worker_beside_python"), names.index("Gpu.NcclsWatchdogEndsTheRankByItsCodeAndTellsWhy"))

    def test_cases_beyond_the_budget_are_not_run(self):
        out = self.folder / "budget"
        begin = time.monotonic()
        code, text = self.run_kit("--python", sys.executable, "--device", "cpu", "--budget", 7, "--out", out, QUICK, "Precision.*", "Faults.*")
        self.assertLess(time.monotonic() - begin, 60)
        self.assertEqual(code, 0, text)
        found = self.results(out)
        self.assertEqual([case["state"] for case in found["cases"] if case["name"] == QUICK], ["passed"])
        idle = self.not_run(out)
        self.assertEqual(idle[HANGS], "no time left")
        self.assertRegex(idle["Precision.test_fp32_and_bf16_converge_as_python_s_ddp_does"], r"\Ano time left")
        code, text = self.run_kit("--python", sys.executable, "bench", "--device", "cpu", "--budget", 1, "--json", out / "bench.json")
        self.assertEqual(code, 0, text)
        rows = json.loads((out / "bench.json").read_text(encoding="utf-8"))["rows"]
        self.assertEqual((len(rows), {row["not_run"] for row in rows if row["trainer"] == "ours"}), (16, {"no time left"}), text)

    def test_a_case_that_takes_too_long_is_ended_and_has_failed(self):
        out = self.folder / "late"
        code, text = self.run_kit(
            "--python", sys.executable, "--device", "cpu", "--patience", 0.02, "--out", out, HANGS, "Faults.test_a_restarted*", KIT_OF_TEST=out
        )
        self.assertEqual(processes_of(out), [])
        self.assertEqual((code, self.results(out)["counts"]), (1, {"passed": 0, "failed": 2, "not run": 0}), text)
        self.assertRegex(text, rf"\nfailed: {HANGS}\n    still running after 1.2 s\n    \S+/ddp-launch --nproc-per-node 2 ")

    def test_a_summary_has_12000_characters_whatever_fails(self):
        sys.path.insert(0, str(HERE))
        import run_cases  # noqa: PLC0415

        results = run_cases.Results(self.folder, {"device": "cuda"}, [f"Suite.test_number_{number}_of_many_that_fail" for number in range(60)])
        for name in results.cases:
            results.end(name, state="failed", text=f"why {name} fails\n" + "a line\n" * 500 + "and its end\n")
        self.results(self.folder)
        summary = (self.folder / "summary.txt").read_text(encoding="utf-8")
        self.assertIn("\nfailed: Suite.test_number_59_of_many_that_fail\n    why Suite.test_number_59_of_many_that_fail fails\n", summary)
        for name in list(results.cases)[1:]:
            results.end(name, state="passed")
        self.assertIn("    a line\n    and its end\n", results.summary(), "one failure has room for its end")
        for name in results.cases:
            results.end(name, state="not run", reason="r" * 500)
        self.results(self.folder)

    def test_kit_is_small_and_names_no_directory_of_this_machine(self):
        files = [path for path in self.kit.rglob("*") if path.is_file()]
        self.assertRegex(self.made, r"gpu-kit: \S+: [\d.]+ MiB beside [1-9][\d.]* MiB of tracked files, of 56 MiB at most; \d+ GoogleTests")
        self.assertLessEqual(sum(path.stat().st_size for path in files), 50 << 20)
        for program in [*(self.kit / "bin").iterdir(), *(self.kit / "lib").iterdir()]:
            text = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
            self.assertNotRegex(text, "RPATH|RUNPATH", program)
        for script in self.kit.rglob("*.py"):
            self.assertNotIn(str(BUILD.parent.parent), script.read_text(encoding="utf-8"))

    def test_kit_lists_every_test_with_the_label(self):
        show = subprocess.run(["ctest", "--test-dir", BUILD, "-N", "-L", "^gpu$"], capture_output=True, text=True, check=True).stdout
        known = {line.split(": ")[1] for line in show.splitlines() if "Test #" in line or "Test  #" in line}
        _, text = self.run_kit("--python", sys.executable, "--list")
        self.assertGreater(len(known), 5)
        self.assertLessEqual(known, set(text.splitlines()))

    def test_a_case_that_fails_is_named_and_fails_the_kit(self):
        broken = self.folder / "broken"
        shutil.copytree(self.kit, broken)
        (broken / "lib/libddp-worker-cuda.so").write_bytes(b"no library")
        code, text = self.run_kit("--device", "cpu", QUICK, kit=broken, DDP_PYTHON=sys.executable)
        self.assertEqual(code, 1, text)
        self.assertRegex(text, rf"\nfailed: {QUICK}\n    device_cases.py:\d+: AssertionError: .*\n(    .*\n)*    .*file too short\n(    .*\n)*0 passed, 1 failed, 0 not run, on ")
        self.assertIn("libddp-worker-cuda.so: file too short", (self.folder / "empty/gpu.log").read_text(encoding="utf-8"))

    def start_kit(self, out):
        """One that is through with a case, and has begun with another."""
        out.mkdir()
        for name in ("gpu.json", "summary.txt", "bench.json"):
            (out / name).write_text("of another run", encoding="ascii")
        command = [self.kit / "run.sh", "--python", sys.executable, "--device", "cpu", "--out", out, QUICK, HANGS]
        kit = subprocess.Popen(
            command, env=self.environment(out, PATH="", PYTHONUNBUFFERED="1"), cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, preexec_fn=heed_ctrl_c,
        )  # fmt: skip
        self.addCleanup(kit.stdout.close)
        self.addCleanup(kit.wait)
        self.addCleanup(kit.kill)
        self.addCleanup(kit.send_signal, signal.SIGCONT)
        wait_until(lambda: any(b"ddp-worker\0job.yaml" in command for command in processes_of(out)), "the case's ranks")
        return kit

    def test_a_kit_that_is_ended_leaves_the_results_until_then_and_nothing_else(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            with self.subTest(number):
                out = self.folder / f"ended-{number}"
                kit = self.start_kit(out)
                code, text = self.run_kit("--python", sys.executable, "--device", "cpu", "--out", out, HANGS)
                self.assertEqual(code, 1)
                self.assertIn(f"another run writes to {out}/gpu.log", text)
                kit.send_signal(signal.SIGSTOP)
                kit.send_signal(number)
                kit.send_signal(signal.SIGCONT)
                self.assertEqual(kit.wait(60), -9 if number == signal.SIGKILL else 128 + number)
                wait_until(lambda out=out: not processes_of(out), "the end of all processes")
                self.assertEqual(self.results(out)["counts"], {"passed": 1, "failed": 0, "not run": 1})
                self.assertEqual(self.not_run(out), {HANGS: "the kit ended while it ran"})
                if number == signal.SIGKILL:
                    continue
                self.assertEqual(sorted(path.name for path in out.iterdir()), ["gpu.json", "gpu.log", "summary.txt"])
                self.assertTrue(kit.stdout.read().endswith((out / "summary.txt").read_text(encoding="utf-8")))

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

    def test_missing_needs_are_reported_in_a_line(self):
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

    def test_kit_is_not_made_in_a_full_directory(self):
        taken = self.folder / "taken"
        taken.mkdir()
        (taken / "mine").touch()
        made = make(taken)
        self.assertEqual(made.returncode, 1)
        self.assertIn(f"{taken} is there already", made.stderr)
        self.assertEqual([path.name for path in taken.iterdir()], ["mine"])

    def test_one_that_is_too_large_beside_the_tree_is_not_made(self):
        out = self.folder / "too-large"
        program = "import make_kit; make_kit.LIMIT = make_kit.size_of_tree() + (2 << 20); make_kit.main()"
        made = subprocess.run([sys.executable, "-B", "-c", program, BUILD, out], cwd=HERE, capture_output=True, text=True, check=False)
        self.assertEqual((made.returncode, out.exists()), (1, False))
        self.assertRegex(made.stderr, r"\Agpu-kit: it would have [\d.]+ MiB beside [\d.]+ MiB of .*\. The largest: bin/\w+ [\d.]+ MiB, .*\n\Z")

    def test_one_that_cannot_be_made_leaves_nothing(self):
        (self.folder / "file").touch()
        made = make(self.folder / "file" / "kit")
        self.assertEqual((made.returncode, len(made.stderr.splitlines())), (1, 1), made.stderr)
        self.assertIn("cannot make", made.stderr)


if __name__ == "__main__":
    unittest.main()
