"""What ends a rank from inside is named as what it is: an exception of the user's own, one in a thread, a peer that does not come.

Run by hand: DDP_BIN=build/release DDP_FAILING_WORKER=build/release/tests/failing_worker PYTHONPATH=tests/support
python3 tests/integration/failing_rank_test.py
"""

import json
import os
import pathlib
import re
import signal
import socket
import time
import unittest

from processes import ProcessTest, cases, free_port

JOB = """
name: job
data: {name: digits, batch_per_rank: 16, train_size: 1600, test_size: 200}
train: {epochs: 250, log_every: 1}
"""


class FailingRank(ProcessTest):
    def setUp(self):
        super().setUp()
        (self.folder / "job.yaml").write_text(JOB, encoding="utf-8")

    def world(self, size):
        """The variables of ranks that no launcher of ours starts: nobody ends them from outside."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        return {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}

    def start_ranks(self, program, size, *arguments, **variables):
        world = self.world(size) | variables
        return [
            self.start(
                program, "job.yaml", *arguments, RANK=str(rank), LOCAL_RANK=str(rank),
                TORCHELASTIC_ERROR_FILE=str(self.folder / f"error-{rank}.json"), **world,
            )
            for rank in range(size)
        ]  # fmt: skip

    def error_of(self, rank):
        return json.loads((self.folder / f"error-{rank}.json").read_text(encoding="utf-8"))["message"]

    def report_of(self, text):
        return text[text.index("Root Cause") :]


class OwnExceptions(FailingRank):
    PROGRAM = pathlib.Path(os.environ["DDP_FAILING_WORKER"])
    JOB_OF_ITS = ("model.name=failing", "train.epochs=1", "data.train_size=160")
    TYPES = {"forward": "std::runtime_error", "text": "std::string"}
    # What it came from, as that program has debug info. (That may have no full names of what an unnamed namespace hides.)
    PLACE = {
        "forward": r"[^\n]*\bforward\b[^\n]* at /\S*/failing_worker\.cpp:\d+",
        "text": r"[^\n]*\bforward\b[^\n]* at /\S*/failing_worker\.cpp:\d+",
        "backward": r"[^\n]*\brefuse\b[^\n]* at /\S*/failing_worker\.cpp:\d+",
        "range": r"[^\n]*\btake_what_is_not_there\b[^\n]* at /\S*/failing_worker\.cpp:\d+",
        "sample": r"[^\n]*\btake_what_is_not_there\b[^\n]* at /\S*/failing_worker\.cpp:\d+",
    }

    def test_an_exception_of_the_user_s_is_the_root_cause_with_its_type_and_text(self):
        for where in ("forward", "text", "backward", "tensor-hook", "loss", "epoch-hook"):
            with self.subTest(where):
                error = f"{self.TYPES.get(where, 'failing::Refusal')}: no {where.replace('-', ' ')} in step 5"
                command = [self.bin / "ddp-launch", "--nproc-per-node", 2, "--no-python", self.PROGRAM, "job.yaml", *self.JOB_OF_ITS]
                text = self.run_program(*command, f"name={where}", expect=1, FAIL=where)
                report = self.report_of(text)
                self.assertRegex(report, r"(?m)^  rank      : 1 \(local_rank: 1\)$")
                self.assertRegex(report, r"(?m)^  exitcode  : 1 \(pid: \d+\)$")
                self.assertIn(f"  traceback : {error}\n", report)
                self.assertRegex(text, rf"(?m)^\[0:1\] ddp-worker: {error}\n\[0:1\] ddp-worker:   in {self.PLACE.get(where, self.PLACE['backward'])}$")
                self.assertNotRegex(text, r"\[0:1\] .*lost a peer")
                self.assertRegex(report, r"(?m)^  rank 0 \(pid \d+\): (stopped by the launcher|exit code 97 \(lost a peer\))")

    def test_the_line_behind_an_exception_of_the_standard_library_is_named_in_report_and_result(self):
        for where, keys in {"range": (), "sample": ("data.name=failing", "data.test_size=null", "data.workers=2")}.items():
            with self.subTest(where):
                command = [self.bin / "ddp-launch", "job.yaml", f"launch.program={self.PROGRAM}", "launch.nproc_per_node=2", *self.JOB_OF_ITS, *keys]
                text = self.run_program(*command, f"name={where}", expect=1, FAIL=where)
                place = self.PLACE[where]
                self.assertRegex(text, rf"(?m)^\[0:1\] ddp-worker: std::out_of_range: vector::_M_range_check: .*\n\[0:1\] ddp-worker:   in {place}$")
                self.assertRegex(self.report_of(text), rf"  traceback : std::out_of_range: .*\n *in {place}\n")
                result = json.loads((self.folder / "runs" / where / "result.json").read_text(encoding="utf-8"))
                self.assertRegex(result["root_cause"]["message"], rf"^std::out_of_range: .*\n  in {place}\n")
                self.assertNotRegex(text, r" in (std::|__cxa_throw)")

    def test_error_file_is_written_before_the_place_is_looked_up(self):
        """A teardown may come in the seconds that this takes."""
        tool = self.folder / "addr2line"
        tool.write_text('#!/bin/sh\nexec cp "$TORCHELASTIC_ERROR_FILE" "$0.seen"\n', encoding="utf-8")
        tool.chmod(0o755)
        where = {"PATH": f"{self.folder}:{os.environ['PATH']}", "FAIL": "range"}
        ranks = self.start_ranks(self.PROGRAM, 2, *self.JOB_OF_ITS, "name=range", **where)
        self.assertEqual([running.finish() for running in ranks], [97, 1], [running.text for running in ranks])
        first = json.loads(pathlib.Path(f"{tool}.seen").read_text(encoding="utf-8"))["message"]["message"]
        self.assertRegex(first, r"^std::out_of_range: vector::_M_range_check: [^\n]*$")
        self.assertRegex(self.error_of(1)["message"], rf"^{re.escape(first)}\n  in \S+ \+0x")

    def test_an_error_of_ours_stays_short(self):
        command = [self.bin / "ddp-launch", "--nproc-per-node", 2, "--no-python", self.PROGRAM, "job.yaml", *self.JOB_OF_ITS]
        text = self.run_program(*command, expect=2, FAIL="usage")
        self.assertIn("[0:1] ddp-worker: model.args: there are no five steps in it\n", text)
        self.assertNotRegex(text, r"(?m)^\S* ?ddp-worker:   in ")

    def test_a_job_that_it_refuses_is_told_once_and_leaves_nothing(self):
        job = ("job.yaml", f"launch.program={self.PROGRAM}", "launch.nproc_per_node=2", "model.name=failing", "data.name=mnist", "data.root=nowhere")
        text = self.run_program(self.bin / "ddp-launch", *job, expect=2)
        self.assertEqual(text.count("nowhere"), 1, text)
        self.assertNotIn("FAILED", text)
        self.assertFalse((self.folder / "runs").exists(), text)

    MISFIT = "c10::Error: The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0"
    OF_LIBTORCH = {
        "shapes": "c10::Error: mat1 and mat2 shapes cannot be multiplied (16x784 and 3x5)",
        "layer": "c10::Error: mat1 and mat2 shapes cannot be multiplied (16x140 and 784x10) "
                 "(in linear: aten::addmm of [16, 140] with bias [10], weight [784, 10])",
        "scalar": "c10::Error: grad can be implicitly created only for scalar outputs",
        "metric": MISFIT,
        "augment": MISFIT,
        "step-hook": MISFIT,
    }
    # Where it came from, with the line, as that program has debug info. (That has no full names of what an unnamed namespace hides.)
    FRAME = {
        "shapes": r"ddp-worker:   in \S*forward\S* at /.*/failing_worker\.cpp:\d+\n",
        "layer": r"ddp-worker:   in \S*forward\S* at /.*/failing_worker\.cpp:\d+\n",
        "scalar": r"ddp-worker:   in ddp::worker::Step::run_passes",
    }
    WITH_ITS_OWN = ("eval.metrics=[failing]", "data.augment=[failing]")

    def test_errors_of_libtorch_in_user_code_are_the_user_s(self):
        for where, error in self.OF_LIBTORCH.items():
            with self.subTest(where):
                command = [self.bin / "ddp-launch", "--nproc-per-node", 2, "--no-python", self.PROGRAM, "job.yaml"]
                text = self.run_program(*command, *self.JOB_OF_ITS, *self.WITH_ITS_OWN, f"name={where}", expect=1, FAIL=where)
                text = re.sub(r"(?<=c10::Error: )(?:add)?mm: ", "", text)  # torch 2.15 names its operator, 2.11 does not
                report = self.report_of(text)
                self.assertRegex(report, r"(?m)^  rank      : 1 \(local_rank: 1\)$")
                self.assertIn(f"  traceback : {error}\n", report)
                self.assertIn(f"[0:1] ddp-worker: {error}\n", text)
                self.assertRegex(text, self.FRAME.get(where, r"in .* at .*failing_worker\.cpp:\d+\n"))
                self.assertRegex(report, r"(?m)^  rank 0 \(pid \d+\): (stopped by the launcher|exit code 97 \(lost a peer\))")

    def test_a_lack_of_memory_is_the_system_s(self):
        command = [self.bin / "ddp-launch", "--nproc-per-node", 2, "--no-python", self.PROGRAM, "job.yaml", *self.JOB_OF_ITS]
        self.assertIn("DefaultCPUAllocator", self.report_of(self.run_program(*command, expect=125, FAIL="memory")))

    def test_keys_that_its_data_set_does_not_read_are_said_once(self):
        keys = ("data.name=failing", "data.test_size=null", "data.root=/nowhere", "data.image_size=32", "data.seed=2", "data.cache=1MiB")
        command = [self.bin / "ddp-launch", "--nproc-per-node", 2, "--no-python", self.PROGRAM, "job.yaml", *self.JOB_OF_ITS]
        lines = [line for line in self.run_program(*command, *keys).splitlines() if "is without effect: the data set failing" in line]
        said = [re.fullmatch(r"\[0:0\] ddp-worker: (?:warning: )?(\S+) is .*", line) for line in lines]
        self.assertEqual([line and line[1] for line in said], ["data.root", "data.seed", "data.image_size", "data.cache"], lines)

    def test_nobody_waits_for_a_rank_that_cannot_load_its_data(self):
        ranks = self.start_ranks(self.PROGRAM, 3, *self.JOB_OF_ITS, "data.name=failing", "data.test_size=null", FAIL="data")
        self.assertEqual([running.finish() for running in ranks], [97, 1, 97], [running.text for running in ranks])
        self.assertIn("rank 1 cannot load its data: no data in step 5", ranks[0].text)

    def test_nobody_waits_for_a_rank_that_was_killed_while_it_loaded(self):
        # A zombie: its parent, this test, waits for another one first.
        ranks = self.start_ranks(self.PROGRAM, 3, *self.JOB_OF_ITS, "data.name=failing", "data.test_size=null", FAIL="data-kill")
        self.assertEqual([ranks[i].finish() for i in (0, 2, 1)], [97, 97, 137], [running.text for running in ranks])
        self.assertRegex(ranks[0].text, r"rank [12] \(pid \d+\) has ended before all ranks had their data")

    def test_peers_of_the_failed_rank_are_victims(self):
        for where in ("forward", "backward"):
            with self.subTest(where):
                ranks = self.start_ranks(self.PROGRAM, 2, *self.JOB_OF_ITS, f"name=alone-{where}", FAIL=where)
                self.assertEqual([running.finish() for running in ranks], [97, 1], [running.text for running in ranks])
                self.assertRegex(ranks[0].text, r"ddp-worker: lost a peer during ")
                error = self.error_of(1)
                first, frame = error["message"].split("\n")[:2]
                self.assertEqual(first, f"{self.TYPES.get(where, 'failing::Refusal')}: no {where} in step 5")
                self.assertRegex(frame, rf"^  in {self.PLACE[where]}$")
                self.assertEqual(error["extraInfo"]["rank"], 1)
                self.assertIn("lost a peer", self.error_of(0)["message"])


class Refusals(FailingRank):
    # Found by each rank by itself, after they have met.
    LATE = {
        "eval.watch.metric: an evaluation of this task has no nosuch": ("eval.watch.metric=nosuch",),
        "eval.metrics: two metrics of an evaluation give the value": ("eval.metrics=[top-5, top-5]",),
        r"data.augment\[0\].mosaic.size: a mosaic needs boxes": ("data.augment=[mosaic]",),
    }

    def test_refusals_by_rank_0_or_all_are_printed_once_and_leave_nothing(self):
        worker = self.bin / "ddp-worker"
        self.run_program(worker, "job.yaml", "output=made", "train.epochs=1", "data.train_size=64")
        made = self.folder / "made" / "job"
        for what, keys in {
            "data.root .*/nowhere does not exist": ("data.name=mnist", f"data.root={self.folder}/nowhere"),
            "model.weights: /nowhere.pt: No such file or directory": ("model.weights=/nowhere.pt",),
            r"conv1.weight: F32 \[24, 1, 5, 5\] in the file, F32 \[6, 1, 5, 5\] in the model": ("model.name=lenet", f"model.weights={made}/best"),
            "was made with model.name: convnet, this job has lenet": ("model.name=lenet", f"checkpoint.resume={made}"),
            "cannot load checkpoint /nowhere: there is no such file": ("checkpoint.resume=/nowhere",),
            "data.augment: it makes images of 1x14x14 .*does not take them": ("model.name=lenet", "data.augment=[{resize: {height: 14, width: 14}}]"),
            "output: cannot make the output directory, .*/job.yaml: Not a directory": ("output=job.yaml",),
            **self.LATE,
        }.items():
            with self.subTest(what):
                ranks = self.start_ranks(worker, 3, *keys, "data.train_size=64")
                self.assertEqual([running.finish() for running in ranks], [2, 2, 2], [running.text for running in ranks])
                self.assertRegex(ranks[0].text, what)
                for rank in (1, 2):
                    self.assertNotIn("frame #", ranks[rank].text)
                    self.assertNotIn("ddp-worker: ", ranks[rank].text.replace(f"ddp-worker: rank {rank} of 3", ""))
                self.assertFalse((self.folder / "runs" / "job").exists())


    EARLY = {
        'model.name: this program has no "resnet19"': (OwnExceptions.PROGRAM, "model.name=resnet19"),
    }

    def test_common_errors_before_joining_are_printed_once(self):
        for what, (program, *keys) in self.EARLY.items():
            with self.subTest(what):
                command = [self.bin / "ddp-launch", "--nproc-per-node", 4, "--no-python", program, "job.yaml", *keys]
                text = self.run_program(*command, expect=2)
                said = [line for line in text.splitlines() if re.search(rf"^\[0:\d\] ddp-worker: .*({what})", line)]
                self.assertEqual([line[:5] for line in said], ["[0:0]"], text)
                self.assertNotRegex(text, "exit code 97")
                self.assertEqual(self.alive(), [])

    def test_common_errors_after_joining_are_printed_by_rank_0_only(self):
        for what, keys in self.LATE.items():
            with self.subTest(what):
                text = self.run_program(self.bin / "ddp-launch", "--nproc-per-node", 4, "job.yaml", *keys, expect=2)
                said = [line for line in text.splitlines() if re.search(rf"^\[0:\d\] ddp-worker: .*({what})", line)]
                self.assertEqual([line[:5] for line in said], ["[0:0]"], text)
                # The launcher adds one line, and tells in it where the run is that it has removed.
                last = text[text.index(said[0]) :].splitlines()
                self.assertEqual(len(last), 2, text)
                self.assertRegex(last[1], r"rank 0 \(pid \d+\) has refused the job before its first step; exit code 2\. \(no step was made: removed /\S+\)$")
                self.assertFalse((self.folder / "runs" / "job").exists())
                self.assertEqual(self.alive(), [])

    def test_error_of_one_rank_before_joining_is_printed_by_it(self):
        script = 'exec "$0" job.yaml $(test "$RANK" = 1 && echo model.name=resnet19)'
        command = [self.bin / "ddp-launch", "--nproc-per-node", 2, "--no-python", "/bin/sh", "-c", script, OwnExceptions.PROGRAM]
        text = self.run_program(*command, expect=2)
        self.assertRegex(text, r"(?m)^\[0:1\] ddp-worker: .*resnet19")
        self.assertEqual(self.alive(), [])


class WithoutALauncher(FailingRank):
    """Ranks of srun, mpirun or a shell: nobody serves the store but rank 0, and nobody ends them. One whose message is another's is silent."""

    WRONG = "model.name=resnet19"
    PLATFORMS = {
        "shell": ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
        "mpirun": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
        "mpiexec": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
        "srun": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
    }
    SLURM = {
        "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_NNODES": "1", "SLURM_STEP_NUM_NODES": "1", "SLURM_NODEID": "0",
        "SLURM_STEP_NODELIST": "localhost", "SLURM_JOB_NODELIST": "localhost",
    }  # fmt: skip
    PATIENCE = 5.0  # seconds for rank 0: where all have ended sooner nobody's can be over, however busy the machine is

    def start_world(self, size, arguments_of, platform="shell", ranks=None, **place):
        """`arguments_of` a rank, all of its command."""
        self.begin = time.monotonic()
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())} | place
        if platform == "srun":
            place |= self.SLURM | {"SLURM_NTASKS": str(size), "SLURM_STEP_TASKS_PER_NODE": str(size)}
        rank_name, size_name, local_name = self.PLATFORMS[platform]
        return {
            rank: self.start(self.bin / "ddp-worker", *arguments_of(rank), **place, **{rank_name: str(rank), size_name: str(size), local_name: str(rank)})
            for rank in (range(size) if ranks is None else ranks)
        }

    def said(self, running):
        """Its own lines, without the one that says who it is."""
        return [line for line in running.text.splitlines() if line.startswith("ddp-worker: ") and not re.match(r"ddp-worker: rank \d+ of \d+, from ", line)]

    def end(self, world):
        """Exit codes and lines by rank, and how long it took from the start until all had ended."""
        codes = {rank: running.finish() for rank, running in world.items()}
        took = time.monotonic() - self.begin
        self.assertEqual(self.alive(), [])
        print(f"{len(world)} ranks: all had ended after {took:.2f} s")
        return codes, {rank: self.said(running) for rank, running in world.items()}, took

    def assert_said_once(self, what, lines, took):
        self.assertEqual([line for line in lines[0] if what in line], lines[0][:1], lines)
        others = [lines[rank] for rank in lines if rank != 0]
        self.assertTrue(all(said in ([], lines[0]) for said in others), lines)
        if took < self.PATIENCE:
            self.assertEqual([said for said in others if said], [])

    def test_common_errors_before_joining_are_printed_by_rank_0_and_all_exit_2(self):
        size = 3
        wrong = {
            'model.name: this program has no "resnet19"': ("job.yaml", self.WRONG),
            "nonsense.yaml": ("nonsense.yaml",),
            "--nonsense": ("job.yaml", "--nonsense"),
        }
        # What is wrong does not depend on who has started the ranks: each error once, and each platform once.
        every = [(what, platform) for what in wrong for platform in self.PLATFORMS]
        some = [(what, platform) for what, platform in zip([*wrong, *wrong], self.PLATFORMS)]
        for what, platform in cases(every, some):
            with self.subTest(what, platform=platform):
                codes, lines, took = self.end(self.start_world(size, lambda rank: wrong[what], platform))
                self.assertEqual(codes, dict.fromkeys(range(size), 2), lines)
                self.assert_said_once(what, lines, took)
        self.assertFalse((self.folder / "runs").exists())

    def test_commands_of_one_process_fail_at_once_and_need_no_port(self):
        """Rank 0 of it would stand on a port that is another's here; the others would wait for it."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(taken.getsockname()[1]), "LOCAL_RANK": "0", "WORLD_SIZE": "2"}
            for arguments in (
                ("inspect", "--nonsense", "x"), ("inspect", "nowhere"), ("predict", "nowhere", "x.png"), ("export", "nowhere", "-o", "x.pt"),
                ("preview", "job.yaml", self.WRONG), ("--check", "job.yaml", self.WRONG), ("job.yaml", "--as-rank", "1/2", "--nonsense"),
            ):  # fmt: skip
                every = [("0", "False"), ("1", "False"), ("1", "True")]
                for rank, store in cases(every, every if arguments[0] == "inspect" else every[1:2]):
                    with self.subTest(arguments, rank=rank, store=store):
                        running = self.start(self.bin / "ddp-worker", *arguments, RANK=rank, TORCHELASTIC_USE_AGENT_STORE=store, **place)
                        self.assertEqual(running.finish(), 2, running.text)
                        self.assertEqual(len(self.said(running)), 1, running.text)
            taken.settimeout(0)
            self.assertRaises(BlockingIOError, taken.accept)

    def test_many_on_a_busy_machine_end_alike(self):
        for size in cases([8, 16], [8]):
            with self.subTest(size):
                codes, lines, took = self.end(self.start_world(size, lambda rank: ("job.yaml", self.WRONG)))
                self.assertEqual(codes, dict.fromkeys(range(size), 2), lines)
                self.assert_said_once("resnet19", lines, took)

    def test_one_that_finds_something_else_says_it_too(self):
        arguments_of = lambda rank: ("job.yaml", "model.name=resnet20" if rank == 2 else self.WRONG)
        codes, lines, took = self.end(self.start_world(4, arguments_of))
        self.assertEqual(codes, dict.fromkeys(range(4), 2), lines)
        self.assertEqual(len(lines[2]), 1, lines)
        self.assertIn("resnet20", lines[2].pop())
        self.assert_said_once("resnet19", lines, took)

    def test_a_corrected_start_on_the_same_port_right_after_works(self):
        port = {"MASTER_PORT": str(free_port())}
        codes, lines, _ = self.end(self.start_world(2, lambda rank: ("job.yaml", self.WRONG), **port))
        self.assertEqual(codes, {0: 2, 1: 2}, lines)
        codes, lines, _ = self.end(self.start_world(2, lambda rank: ("job.yaml", "train.epochs=1", "data.train_size=160"), **port))
        self.assertEqual(codes, {0: 0, 1: 0}, lines)

    def test_a_corrected_start_takes_the_port_from_a_rank_0_that_still_waits_for_others(self):
        place = {"MASTER_PORT": str(free_port())}
        correct = lambda rank: ("job.yaml", "train.epochs=1", "data.train_size=160", "ddp.join_timeout=20s")
        early = self.start_world(2, lambda rank: ("job.yaml", self.WRONG), ranks=(0,), **place)
        early[0].wait_for("resnet19")
        corrected = self.start_world(2, correct, ranks=(0,), **place)
        self.assertEqual(early[0].finish(), 2)
        codes, lines, _ = self.end(corrected | self.start_world(2, correct, ranks=(1,), **place))
        self.assertEqual(codes, {0: 0, 1: 0}, lines)

    def test_without_a_word_of_rank_0_each_says_its_own_after_a_few_seconds(self):
        codes, lines, _ = self.end(self.start_world(3, lambda rank: ("job.yaml", self.WRONG), ranks=(1, 2)))
        self.assertEqual(codes, {1: 2, 2: 2}, lines)
        self.assertEqual([len(lines[rank]) for rank in (1, 2)], [1, 1], lines)

    def test_rank_0_alone_says_it_and_ends(self):
        codes, lines, _ = self.end(self.start_world(3, lambda rank: ("job.yaml", self.WRONG), ranks=(0,)))
        self.assertEqual((codes, len(lines[0])), ({0: 2}, 1), lines)

    def test_one_alone_says_it_while_rank_0_joins(self):
        world = self.start_world(2, lambda rank: ("job.yaml", "ddp.join_timeout=10s", *([self.WRONG] if rank == 1 else [])))
        self.assertEqual(world[1].finish(), 2, world[1].text)
        self.assertIn("resnet19", "".join(self.said(world[1])))
        world[0].process.kill()
        world[0].finish()

    def test_those_that_join_hear_why_rank_0_does_not(self):
        """They start as it does: who comes six seconds later hears nothing."""
        codes, lines, took = self.end(self.start_world(3, lambda rank: ("job.yaml", "ddp.join_timeout=20s", *([self.WRONG] if rank == 0 else []))))
        self.assertEqual(len(lines[0]), 1, lines)
        if took < self.PATIENCE:
            self.assertEqual(codes, {0: 2, 1: 97, 2: 97}, lines)
            for rank in (1, 2):
                self.assertEqual(len(lines[rank]), 1, lines)
                self.assertIn("rank 0 did not join: model.name", lines[rank][0])

    def test_one_that_joins_leaves_after_a_late_one_has_said_something_else(self):
        arguments_of = lambda rank: ("job.yaml", *({0: [self.WRONG], 1: ["ddp.join_timeout=20s"], 2: ["model.name=resnet20"]}[rank]))
        place = {"MASTER_PORT": str(free_port())}
        world = self.start_world(3, arguments_of, ranks=(0, 1), **place)
        world[0].wait_for("resnet19")
        begin = self.begin
        late = self.start_world(3, arguments_of, ranks=(2,), **place)
        late[2].wait_for("resnet20")
        self.begin = begin
        codes, lines, took = self.end(world | late)
        self.assertEqual((codes[0], codes[2]), (2, 2), lines)
        self.assertEqual([len(lines[rank]) for rank in (0, 2)], [1, 1], lines)
        if took < self.PATIENCE:
            self.assertEqual(codes[1], 97, lines)

    def test_errors_after_joining_are_printed_once(self):
        codes, lines, _ = self.end(self.start_world(4, lambda rank: ("job.yaml", "data.name=mnist", "data.root=nowhere"), "mpirun"))
        self.assertEqual(codes, {0: 2, 1: 2, 2: 2, 3: 2}, lines)
        self.assertEqual([len(lines[rank]) for rank in range(1, 4)], [0, 0, 0], lines)
        self.assertEqual(len([line for line in lines[0] if "data.root nowhere does not exist" in line]), 1, lines)
        self.assertFalse((self.folder / "runs" / "job").exists())


class Terminate(FailingRank):
    """An exception that leaves a thread, or a function that is noexcept: no SIGABRT, no core."""

    CASES = {
        "thread": (125, "failing::Refusal: no thread in step 5"),
        "threads": (125, "failing::Refusal: no thread in step 5"),
        "peer-thread": (97, "c10::DistBackendError: the watchdog has seen enough"),
        "int-thread": (125, "int: 42"),
        "noexcept": (125, "failing::Refusal: no way out in step 5"),
    }

    def test_terminate_is_reported_in_one_line_and_in_the_error_file(self):
        for where, (code, what) in self.CASES.items():
            with self.subTest(where):
                ranks = self.start_ranks(
                    OwnExceptions.PROGRAM, 2, *OwnExceptions.JOB_OF_ITS, f"name=terminate-{where}", FAIL=where
                )
                self.assertEqual([running.finish() for running in ranks], [97, code], [running.text for running in ranks])
                lines = re.findall(r"(?m)^.*terminate.*$", ranks[1].text)
                self.assertEqual(len(lines), 1, ranks[1].text)
                self.assertRegex(lines[0], rf"^ddp-worker: std::terminate in thread \S+: {re.escape(what)}$")
                error = self.error_of(1)
                self.assertTrue(error["message"].split("\n")[0].endswith(what), error)
                self.assertEqual(error["extraInfo"]["rank"], 1)
        self.assertEqual(list(self.folder.glob("core*")), [])

    def test_first_error_of_a_lost_gpu_is_printed_without_unwinding(self):
        ranks = self.start_ranks(OwnExceptions.PROGRAM, 2, *OwnExceptions.JOB_OF_ITS, "name=lost-gpu", FAIL="device")
        self.assertEqual([running.finish() for running in ranks], [97, 125], [running.text for running in ranks])
        line = "LibTorch: CUDA error: device-side assert triggered. The GPU does nothing more for this process."
        self.assertRegex(ranks[1].text, rf"(?m)^ddp-worker: {re.escape(line)} .*CUDA_LAUNCH_BLOCKING=1 shows it\.$")
        self.assertTrue(self.error_of(1)["message"].startswith(line), self.error_of(1))
        self.assertNotRegex(ranks[1].text, "terminate|busy or unavailable")

    def test_the_launcher_names_the_thread_s_exception(self):
        command = [self.bin / "ddp-launch", "--nproc-per-node", 2, "--no-python", OwnExceptions.PROGRAM, "job.yaml", *OwnExceptions.JOB_OF_ITS]
        report = self.report_of(self.run_program(*command, expect=125, FAIL="thread"))
        self.assertRegex(report, r"(?m)^  rank      : 1 ")
        self.assertRegex(report, r"(?m)^  traceback : std::terminate in thread \S+: failing::Refusal: no thread in step 5$")


class Crash(FailingRank):
    """A fault of the program itself: where it was is printed, and the end is that of the signal."""

    CASES = {"null": r"SIGSEGV at address 0x0", "null-thread": r"SIGSEGV at address 0x0", "deep": r"SIGSEGV at address 0x[0-9a-f]{6,}"}

    def test_crash_prints_its_stack_and_keeps_the_signal_s_code(self):
        if os.environ.get("DDP_SANITIZE"):
            self.skipTest("a sanitizer tells it in its own way")
        for where, what in self.CASES.items():
            with self.subTest(where):
                command = [self.bin / "ddp-launch", "--nproc-per-node", 2, "--no-python", OwnExceptions.PROGRAM, "job.yaml"]
                text = self.run_program(*command, *OwnExceptions.JOB_OF_ITS, f"name=crash-{where}", expect=139, FAIL=where)
                self.assertRegex(text, rf"\[0:1\] {what}\n\[0:1\] stack of thread \d+ \(.*\) of process \d+:\n\[0:1\] .*failing_worker\(")
                report = self.report_of(text)
                self.assertRegex(report, r"(?m)^  rank      : 1 ")
                self.assertRegex(report, r"signal SIGSEGV")


class TimeOuts(FailingRank):
    """A peer that is stopped in the middle of training. The limit is far above what a busy machine makes of a step."""

    TIMEOUT = 10
    KEYS = (f"ddp.timeout={TIMEOUT}s",)
    BOUND = TIMEOUT + 1 + 5  # the promise, and what a busy machine may take to end a process

    def stop_one(self, size, stopped):
        """Ranks that no launcher watches. Returns the others, ended, and how long that took."""
        ranks = self.start_ranks(self.bin / "ddp-worker", size, *self.KEYS)
        ranks[0].wait_for("epoch 1/250")
        begin = time.monotonic()
        ranks[stopped].process.send_signal(signal.SIGSTOP)
        others = [running for rank, running in enumerate(ranks) if rank != stopped]
        codes = [running.finish() for running in others]
        took = time.monotonic() - begin
        ranks[stopped].process.kill()
        self.assertEqual(ranks[stopped].finish(), 137)
        self.assertEqual(codes, [124] * (size - 1), [running.text for running in others])
        for running in others:
            pattern = rf"ddp-worker: time-out in [a-z0-9 ]+ after {self.TIMEOUT}s \(ddp.timeout\): rank {stopped} of {size} did not come\. It is stopped"
            self.assertRegex(running.text, pattern)
        self.assertGreater(took, self.TIMEOUT - 1)
        self.assertLess(took, self.BOUND)
        print(f"rank {stopped} of {size} stopped: the others ended after {took:.2f} s")

    def test_the_stopped_one_of_two_is_named(self):
        self.stop_one(2, 1)

    def test_the_stopped_one_of_three_is_named_by_both_others(self):
        self.stop_one(3, 1)

    def test_rank_0_is_named_though_the_store_stops_with_it(self):
        self.stop_one(3, 0)

    def test_the_launcher_names_the_stopped_rank_not_those_that_gave_up(self):
        for size, stopped in ((2, 1), (3, 2), (2, 0)):
            with self.subTest(size=size, stopped=stopped):
                running = self.start(self.bin / "ddp-launch", "--nproc-per-node", size, "job.yaml", *self.KEYS, f"name=job-{size}-{stopped}")
                running.wait_for("epoch 1/250")
                pids = running.wait_for_pids(size)
                begin = time.monotonic()
                os.kill(pids[stopped], signal.SIGSTOP)
                self.assertEqual(running.finish(), 124, running.text)
                self.assertLess(time.monotonic() - begin, self.BOUND)
                self.assertIn(f"rank {stopped} of {size} did not come", running.text)
                report = self.report_of(running.text)
                self.assertRegex(report, rf"(?m)^  rank      : {stopped} \(local_rank: {stopped}\)$")
                self.assertIn("was stopped (SIGSTOP) while its peers waited and failed", report)
                self.assertEqual(self.alive(), [])

    def test_a_shorter_limit_than_a_second_is_refused(self):
        text = self.run_program(self.bin / "ddp-worker", "job.yaml", "ddp.timeout=999ms", expect=2)
        self.assertIn("ddp.timeout: 999ms is not a time of at least 1s", text)


class Devices(FailingRank):
    """A rank whose GPU waits for a peer, as NCCL has it do."""

    PROGRAM = pathlib.Path(os.environ["DDP_WAITING_WORKER"])

    def start_two(self, seconds):
        # An abandoned group is not freed, which a sanitizer would tell.
        world = self.world(2) | {"ASAN_OPTIONS": "detect_leaks=0"}
        ranks = [self.start(self.PROGRAM, seconds, RANK=str(rank), LOCAL_RANK=str(rank), **world) for rank in range(2)]
        ranks[0].wait_for("waits")
        return ranks, time.monotonic()

    def test_wait_for_the_device_ends_when_a_peer_is_killed(self):
        (first, second), begin = self.start_two(60)
        second.process.kill()
        self.assertEqual(second.finish(), 137)
        self.assertEqual(first.finish(), 97, first.text)
        self.assertIn("lost a peer during step 7: its connection has ended", first.text)
        self.assertLess(time.monotonic() - begin, 15, "two seconds, and what a busy machine makes of them")

    def test_wait_for_the_device_times_out_when_a_peer_is_stopped(self):
        (first, second), begin = self.start_two(4)
        second.process.send_signal(signal.SIGSTOP)
        self.assertEqual(first.finish(), 124, first.text)
        self.assertGreater(time.monotonic() - begin, 3)
        self.assertRegex(first.text, r"time-out in step 7 after 4s \(ddp.timeout\): rank 1 of 2 did not come\. It is stopped, hangs or is late")
        second.process.kill()
        self.assertEqual(second.finish(), 137)


if __name__ == "__main__":
    unittest.main()
