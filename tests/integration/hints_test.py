"""What a newcomer mistypes or does not know is answered with what to type.

Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/integration/hints_test.py
"""

import re
import sys
import unittest

from processes import ProcessTest, free_port

JOB = "data: {name: digits, batch_per_rank: 8}\nlaunch: {nproc_per_node: 2}\n"

# Joins the job's store, as torch.distributed does first, after `seconds`.
JOINS = """
import os, socket, struct, sys, time
time.sleep(float(sys.argv[1]))
with socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))) as store:
    store.sendall(b"\\0" + struct.pack("<I", 0x3C85F7CE) + b"\\x0d" + struct.pack("<I", os.getpid()))
    assert store.recv(4)
"""


class Hints(ProcessTest):
    def setUp(self):
        super().setUp()
        (self.folder / "job.yaml").write_text(JOB)
        self.launcher = self.bin / "ddp-launch"
        if not (self.bin / "ddp-worker").exists():  # a build of the launcher alone: what is refused never starts it
            worker = self.folder / "bin" / "ddp-worker"
            worker.parent.mkdir()
            worker.touch(mode=0o755)
            self.environment["PATH"] = f"{worker.parent}:{self.environment['PATH']}"

    def refused(self, *words, expect=2, **variables):
        return self.run_program(self.launcher, *words, expect=expect, **variables)

    def test_a_slip_names_the_verb_the_file_or_the_program(self):
        (self.folder / "train.py").touch()
        for words, (code, hint) in {
            ("statsu",): (127, "cannot start statsu: there is no such program on PATH, did you mean ddp-launch status? "),
            ("predcit", "runs/a"): (127, "did you mean ddp-worker predict?"),
            ("trian.py",): (127, "cannot start trian.py: no such file, did you mean train.py? "),
            ("./trian.py", "--lr", "1"): (127, "did you mean ./train.py?"),
            ("--no-python", "trian.py"): (127, "did you mean train.py?"),
            ("jbo.yaml",): (2, "cannot read job file, jbo.yaml: No such file or directory, did you mean job.yaml? "),
            ("nothing-near",): (127, "there is no such program on PATH. Give"),
        }.items():  # fmt: skip
            with self.subTest(words):
                self.assertIn(hint, self.refused(*words, expect=code))
        (self.folder / "statsu").touch(mode=0o755)
        self.assertIn("The file here is started as ./statsu.", self.refused("statsu", expect=127))
        (self.folder / "app").mkdir()
        (self.folder / "app/__main__.py").touch()
        (self.folder / "noend").touch()
        for word, code in {"app": 127, "./app": 126, "noend": 127, "./noend": 126}.items():
            with self.subTest(word):
                self.assertIn(f"put its interpreter before it, as python3 -u {word}.", self.refused(word, expect=code))

    def test_a_value_that_was_forgotten_is_asked_for(self):
        (self.folder / "train.py").touch()
        self.assertIn("--nproc-per-node needs a number, and train.py looks like the script.", self.refused("--nproc-per-node", "train.py", "--lr", "1"))
        self.assertIn("train.py is taken as the value of --role.", self.refused("--role", "train.py"))

    def test_a_gpu_that_is_not_there(self):
        hidden = {"CUDA_VISIBLE_DEVICES": ""}
        text = self.refused("job.yaml", "device=cuda", **hidden)
        self.assertRegex(text, r"^ddp-launch: device=cuda: device: cuda: no GPU can be used on this node: CUDA_VISIBLE_DEVICES is empty, which hides all")
        self.assertIn("ddp-launch doctor looks further. To go without, give device=auto or cpu.", text)

    def test_a_data_set_that_is_not_there_starts_no_worker(self):
        (self.folder / "data").mkdir()
        words = ("job.yaml", "data.name=mnist")
        self.assertIn("needs data.root, the directory that holds its files; ddp-worker fetch mnist DIR gets them.", self.refused(*words))
        text = self.refused(*words, "data.root=dta")
        self.assertEqual(text, "ddp-launch: data.root=dta: data.root dta does not exist, did you mean data? Give the directory that holds the files of "
                         "mnist; ddp-worker fetch mnist DIR gets them.\n")  # fmt: skip
        self.assertIn("gone does not exist. Give the directory that holds the files of coco.\n", self.refused("job.yaml", "data.name=coco", "data.root=gone"))
        self.assertFalse((self.folder / "runs").exists())
        self.run_program(self.launcher, "--dry-run", *words, "data.root=dta")

    def test_each_node_looks_for_its_own_data(self):
        port = free_port()
        flags = ("--nnodes", "2", "--master-port", port, "--nproc-per-node", "1", "job.yaml", "data.name=mnist")
        (self.folder / "data").mkdir()
        nodes = [self.start(self.launcher, "--node-rank", rank, *flags, f"data.root={root}") for rank, root in enumerate(("data", "gone"))]
        self.assertEqual([node.finish() for node in nodes], [2, 2], [node.text for node in nodes])
        for node in nodes:
            self.assertIn("data.root gone does not exist", node.text)
            self.assertNotIn("[0:0]", node.text)


class FirstTime(ProcessTest):
    HINT = re.compile(r"ddp-launch: the first rank was ready after \d+\.\d s, mostly of imports\. --preload auto imports once for all ranks,")

    def setUp(self):
        super().setUp()
        runtime = self.folder / "runtime"
        runtime.mkdir(mode=0o700)
        self.environment |= {"XDG_RUNTIME_DIR": str(runtime), "PYTHON_EXEC": sys.executable}
        (self.folder / "joins.py").write_text(JOINS)

    def launch(self, *words, **variables):
        return self.run_program(self.bin / "ddp-launch", "--nproc-per-node", "2", *words, **variables)

    def test_slow_imports_print_the_preload_hint_once(self):
        for words, variables in {
            ("--preload", "json", "--preload-idle", "0s", "joins.py", "3.2"): {},
            ("--no-python", sys.executable, "joins.py", "3.2"): {},
            ("--wrap", "0:env", "joins.py", "3.2"): {},
            ("joins.py", "3.2"): {"LOGLEVEL": "warning"},
        }.items():
            with self.subTest(words, **variables):
                self.assertNotIn("--preload auto", self.launch(*words, **variables))
        self.assertRegex(self.launch("joins.py", "3.2"), self.HINT)
        self.assertNotIn("--preload auto", self.launch("joins.py", "3.2"))


if __name__ == "__main__":
    unittest.main()
