"""A program with a training loop of its own, by <ddp/ddp.h>: alone, on several ranks, resumed, and when a rank fails.

Run by hand: DDP_BIN=build/release DDP_LOOP_WORKER=build/release/tests/loop_worker PYTHONPATH=tests/support
python3 tests/integration/user_loop_test.py
"""

import os
import pathlib
import re
import unittest

from processes import ProcessTest, free_port


class UserLoop(ProcessTest):
    PROGRAM = pathlib.Path(os.environ["DDP_LOOP_WORKER"])

    def launch(self, ranks, *arguments, flags=(), expect=0, **variables):
        command = [self.bin / "ddp-launch", "--nproc-per-node", ranks, *flags, "--no-python", self.PROGRAM, *arguments]
        return self.run_program(*command, expect=expect, **variables)

    def weights(self, text):
        """What each rank says of its weights, once."""
        return set(re.findall(r"weights ([-.e\d]+),", text))

    def test_gradients_of_several_ranks_are_those_of_one(self):
        for ranks in (1, 2, 3):
            with self.subTest(ranks):
                text = self.launch(ranks, "train")
                self.assertEqual(text.count("as one rank"), ranks, text)
                self.assertNotIn("not as one rank", text)
                self.assertEqual(len(self.weights(text)), 1, text)
        self.assertIn("as one rank", self.run_program(self.PROGRAM, "train"))

    def test_a_layer_that_nobody_uses_keeps_its_value(self):
        text = self.launch(2, "unused")
        self.assertEqual(text.count("as one rank"), 2, text)
        self.assertNotIn("not as one rank", text)

    def test_a_checkpoint_of_another_model_is_refused_by_all_ranks_alike(self):
        self.launch(2, "resume", 2)
        text = self.launch(2, "resume", 4, "wide", expect=2)
        self.assertIn("hidden.weight", text)
        self.assertNotIn("lost a peer", text)

    def test_each_sample_of_an_evaluation_counts_once(self):
        self.assertEqual(self.launch(3, "train").count("evaluated 47 of 47"), 3)

    def test_resume_is_exact_bit_for_bit_on_all_ranks(self):
        whole = self.launch(2, "resume", 6)
        (self.folder / "loop").rename(self.folder / "whole")
        self.assertIn("from step 0", self.launch(2, "resume", 4))
        text = self.launch(2, "resume", 6)
        self.assertIn("from step 4", text)
        self.assertEqual(self.weights(text), self.weights(whole))
        newest = (self.folder / "loop" / "checkpoints" / "latest").read_text(encoding="utf-8").strip()
        model = self.folder / "loop" / "checkpoints" / newest / "model.safetensors"
        model.write_bytes(model.read_bytes()[:-1] + b"x")
        text = self.launch(2, "resume", 6)
        self.assertRegex(text, r"checkpoint step-\d+ is damaged")
        self.assertIn("from step 5", text)
        self.assertEqual(self.weights(text), self.weights(whole))

    def test_an_exception_is_the_root_cause_with_its_type_text_and_rank(self):
        text = self.launch(2, "throw", expect=1)
        self.assertIn("[0:1] loop_worker: std::out_of_range: no sample 7\n", text)
        report = text[text.index("Root Cause") :]
        self.assertRegex(report, r"(?m)^  rank      : 1 \(local_rank: 1\)$")
        self.assertIn("  traceback : std::out_of_range: no sample 7\n", report)
        self.assertNotRegex(text, r"core dumped|SIGABRT")

    def test_so_is_what_libtorch_throws_in_it(self):
        text = self.launch(2, "shapes", expect=1)
        error = "c10::Error: grad can be implicitly created only for scalar outputs"
        self.assertIn(f"[0:1] loop_worker: {error}\n", text)
        report = text[text.index("Root Cause") :]
        self.assertRegex(report, r"(?m)^  rank      : 1 \(local_rank: 1\)$")
        self.assertIn(f"  traceback : {error}\n", report)

    def test_ranks_that_went_apart_are_told(self):
        self.assertIn("the ranks have other weights than each other", self.launch(2, "plain"))
        self.assertNotIn("other weights", self.launch(2, "train"))

    def test_rows_that_do_not_fit_are_refused_by_all(self):
        self.assertIn("rank 0 gives Float rows of [2], rank 1 gives Float rows of [3]", self.launch(2, "rows", expect=1))

    def test_another_model_is_refused_with_the_rank(self):
        self.assertIn("rank 1", self.launch(2, "model", expect=203))

    def test_a_hang_is_found_by_its_progress(self):
        text = self.launch(2, "pause", flags=("--hang-timeout", "3s"), expect=124)
        report = text[text.index("Root Cause") :]
        self.assertRegex(report, r"(?m)^  rank      : 1 \(local_rank: 1\)$")

    def test_messages_name_what_such_a_program_sets(self):
        text = self.launch(2, "found", expect=2)
        self.assertIn("no gradient for idle.weight, idle.bias on rank ", text)
        self.assertIn("Set DdpOptions::find_unused to true, or call requires_grad_(false) on them", text)
        text = self.launch(2, "pause", 2, expect=124)
        self.assertIn("after 2s (ContextOptions::timeout): rank 1 of 2 did not come.", text)
        self.assertIn("or raise ContextOptions::timeout.", text)
        self.assertNotRegex(text, r"ddp\.(timeout|find_unused)")

    def test_one_that_leaves_without_finish_is_told_what_to_call(self):
        # What would wait for a peer is not freed, which a sanitizer would tell.
        text = self.launch(2, "leave", expect=125, ASAN_OPTIONS="detect_leaks=0")
        self.assertIn("or context.finish() of a ddp::Context)", text)

    def test_a_peer_that_dies_in_the_middle_of_a_tensor_is_lost_at_once(self):
        """Where gloo alone would wait for its time-out: five minutes."""
        world = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        ranks = [self.start(self.PROGRAM, "send", RANK=str(rank), LOCAL_RANK=str(rank), **world) for rank in (0, 1)]
        ranks[0].wait_for("begun")
        ranks[1].process.kill()
        self.assertEqual(ranks[1].finish(), 137)
        self.assertEqual(ranks[0].finish(), 97, ranks[0].text)
        self.assertIn("lost a peer during a broadcast from rank 1: ", ranks[0].text)

    def test_a_second_context_is_refused_in_words(self):
        text = self.run_program(self.PROGRAM, "twice", expect=1)
        self.assertIn("loop_worker: std::logic_error: Context::from_environment() was called a second time", text)

    def test_half_an_environment_is_refused(self):
        self.assertIn("loop_worker: ", self.run_program(self.PROGRAM, "train", RANK="0", expect=2))


if __name__ == "__main__":
    unittest.main()
