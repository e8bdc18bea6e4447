"""The commands of README.md, docs/, configs/README.md and deploy/*/README.md, run as they stand there.

A command is taken from the page, not copied. What it needs and a test cannot have has a stand-in, by the rules below: programs of the
system that are a few lines of shell, a name that becomes a path, --dry-run where other hosts are named. A line that is neither a
command nor the output of one fails the test. Run by hand: DDP_BIN=build/release PYTHONPATH=tests/support python3 tests/integration/readme_test.py
"""

import pathlib
import re
import shlex
import shutil
import socket
import sys
import unittest

from pages import blocks
from processes import ProcessTest
from tiny_sets import write_mnist, write_png

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BY_OTHERS = {ROOT / "docs/any-model.md"}  # wants torch: interop/script_test.py runs all of it
PAGES = [ROOT / "README.md", *sorted({*ROOT.glob("docs/*.md")} - BY_OTHERS), ROOT / "configs/README.md", *sorted(ROOT.glob("deploy/*/README.md"))]

# Names that a page leaves to its reader.
JOB = "data: {name: digits, batch_per_rank: 16, train_size: 64, test_size: 32}\ntrain: {epochs: 1}\n"
FILES = {
    "job.yaml": JOB,
    "train.py": "import os, sys\nprint('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'], sys.argv[1:])\n",
    "my-program": "#!/bin/sh\necho rank $RANK\n",
}
# Programs that stand for those of a system with root, hosts, containers, or an hour's time. Each leaves its name in the file `called`.
STAND_INS = {
    # make.sh: everything is installed, and building is done.
    "dpkg-query": 'shift 2; for name; do echo "installed $name"; done',
    "cmake": 'case "$*" in --install*) mkdir -p "$4/bin";; esac',
    "ctest": 'while [ $# -gt 0 ]; do if [ "$1" = --output-junit ]; then echo "<testsuite/>" >"$2"; fi; shift; done; echo 100% tests passed',
    "sudo": 'exec "$@"',
    "pip": 'test "$1" = install',
    # install -m MODE [-D] FILE TARGET
    "install": 'for word; do last="$previous"; previous="$word"; done; test -f "$last"',
    "systemctl": 'test "$1 $2" = "start ddp-launch@digits"',
    "docker": (
        'case "$1" in build) test -f "$3";; run) while case "$1" in ddp-worker-*:1) false;; esac; do shift; done; shift;'
        ' exec ddp-launch --dry-run $(echo "$*" | sed "s# gpu # 2 #; s#/opt/ddp/share/ddp/##");; *) exit 1;; esac'
    ),
    **dict.fromkeys(("gdb", "nsys", "perf", "strace", "valgrind"), "exit 1"),  # printed by --dry-run
    "kubectl": 'case "$1" in create) test -n "${5#*=token=}";; apply) test -f "$3";; *) exit 1;; esac',
    "openssl": 'test "$*" = "rand -hex 32" && echo 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef',
    "scontrol": "exit 1",
    # Slurm: the first task of a step of two nodes, and its job.
    "srun": (
        'while case "$1" in --*) true;; *) false;; esac; do shift; done; export SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_NNODES=2 '
        "SLURM_STEP_NUM_NODES=2 SLURM_STEP_NUM_TASKS=2 SLURM_NTASKS=2 SLURM_PROCID=0 SLURM_NODEID=0 SLURM_LOCALID=0 "
        'SLURM_STEP_NODELIST="n[1-2]" SLURM_JOB_NODELIST="n[1-2]" SLURM_STEP_TASKS_PER_NODE="1(x2)"; program=$1; shift; '
        'case "$1" in doctor) exec "$program" "$@" --nnodes 1 --no-auto-env;; esac; exec "$program" --dry-run "$@"'
    ),
    "sbatch": 'while case "$1" in --*) true;; *) false;; esac; do shift; done; SLURM_JOB_ID=7 exec bash "$@"',
}
# The first word of a command, after variables.
COMMAND = re.compile(r"(?:[A-Z_]+=\S+ )*((?:\S*/)?(?:ddp-launch|ddp-worker|make\.sh|python3)|" + "|".join(map(re.escape, STAND_INS)) + r")\s")
# What a command before it prints.
OUTPUT = re.compile(r"ddp-launch: |\[\d+:\d+\] ")
# Nodes that a test does not have: what would be started is printed.
OTHER_HOSTS = re.compile(r"--(nnodes|hosts|hostfile|rdzv-endpoint)\b")
# Commands within the text that are not whole commands, or that other tests run.
ELSEWHERE = (
    "ddp-launch ARGUMENTS",  # torchrun_test.py
    "ddp-launch stop",  # of a running job: launcher_commands_test.cpp
    "ddp-launch doctor --hosts a,b",  # HostsBySshd
    "ddp-worker configs/mnist-data-parallel.yaml data.root=data",  # configs_test.py
    "ddp-launch compare RUN RUN... [--html FILE]",  # report_test.py
)
# Lines of one job, which run beside each other.
TOGETHER = re.compile(r"--init-method|--master-addr 127\.0\.0\.1")
# What differs from machine to machine in what a program prints.
VARIES = re.compile(r"\d[\d.]*|node-\w+|threads?\b|\s+")


def without_comment(line):
    return re.sub(r"\s{2,}#.*", "", line)


class Readme(ProcessTest):
    def setUp(self):
        super().setUp()
        for name, text in FILES.items():
            (self.folder / name).write_text(text, encoding="utf-8")
            (self.folder / name).chmod(0o755)
        for name in ("cmake", "deploy", "tests", "make.sh", "CMakePresets.json"):
            (self.folder / name).symlink_to(ROOT / name)
        # As many steps as in the file, each of a few images, of a model of one layer: what a page shows does not depend on either.
        shutil.copytree(ROOT / "configs", self.folder / "configs")
        digits = self.folder / "configs" / "digits.yaml"
        text = digits.read_text(encoding="utf-8")
        self.assertIn("batch_per_rank: 64", text)
        text = text.replace("batch_per_rank: 64", "batch_per_rank: 2, train_size: 375, test_size: 63")
        self.assertIn("name: convnet", text)
        digits.write_text(text.replace("name: convnet", "name: linear"), encoding="utf-8")
        (self.folder / "build").mkdir()
        (self.folder / "build" / "loop").symlink_to(self.folder / "my-program")
        # make.sh goes to where it lies, so it is a file of this folder.
        (self.folder / "make.sh").unlink()
        shutil.copy(ROOT / "make.sh", self.folder)
        tools = self.folder / "tools"
        for place in (tools, self.folder / "build" / "release"):
            place.mkdir(parents=True)
            for program in ("ddp-launch", "ddp-worker"):
                (place / program).symlink_to(self.bin / program)
        for name, line in STAND_INS.items():
            (tools / name).write_text(f'#!/bin/sh\necho {name} >>"{self.folder}/called"\n{line}\n', encoding="utf-8")
            (tools / name).chmod(0o755)
        self.port = 0
        write_mnist(self.folder / "mnist")
        write_png(self.folder / "photo.png")
        self.environment |= {
            "PATH": f"{tools}:{self.environment['PATH']}",
            "PYTHON_EXEC": sys.executable,
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "DDP_TORCH": str(self.folder / "torch"),
            "DDP_PYTHON": sys.executable,
            "DDP_PYTHON_TORCH1": sys.executable,
            "DDP_PYTHON_DETECTOR": sys.executable,
            "DDP_PYTHON_TRACKING": sys.executable,
        }
        (self.folder / "torch/torch/lib").mkdir(parents=True)
        (self.folder / "torch/torch/lib/libtorch_cpu.so").touch()

    def stand_in(self, command):
        """The command with a test's own names in place of those that a page leaves to its reader."""
        command = command.replace("/path/to/mnist", str(self.folder / "mnist")).replace("29500", str(self.port))
        command = command.replace("data.root=data", f"data.root={self.folder / 'mnist'}")
        # No network, and no hours: configs_test.py runs the job files.
        command = re.sub(r"ddp-worker fetch .*", r"\g<0> --dry-run", command)
        command = re.sub(r"ddp-launch (?=configs/(?!digits|mnist\.))", r"\g<0>--dry-run ", command)
        command = re.sub(r"\bPREFIX\b", str(self.folder / "prefix"), command)
        command = re.sub(r" \.\.\.$", " job.yaml", command)
        # It wants torch, which this test does without: newcomer_test.py runs it.
        command = re.sub(r"^python3 (\w+\.py).*", rf"{sys.executable} -m py_compile \1", command)
        # Any port.
        command = command.replace("--web 8080", "--web 0")
        # A GPU.
        command = command.replace("--nproc-per-node gpu", "--nproc-per-node 2").replace("device=cuda", "device=cpu")
        # wrap_test.py and debug_test.py run them; --debug wants a terminal.
        if re.search(r"--(wrap|debug)\b", command):
            command = re.sub(r"^ddp-launch ", "ddp-launch --dry-run ", command)
            command = f"script --quiet --return --command {shlex.quote(command)} /dev/null </dev/null"
        if TOGETHER.search(command):
            command = f"PET_MASTER_PORT={self.port} {command}"
        elif OTHER_HOSTS.search(command):
            command = re.sub(r"(?<!\S)((?:\S*/)?ddp-launch) ", r"\1 --dry-run ", command)
        return command

    def start_command(self, command):
        return self.start("bash", "-c", self.stand_in(command))

    def run_commands(self, commands):
        """What they print. Ranks and nodes that are started by hand run beside each other, everything else in turn."""
        if all(map(TOGETHER.search, commands)):
            return "".join(map(self.end, [self.start_command(command) for command in commands]))
        return "".join(self.end(self.start_command(command)) for command in commands)

    def end(self, running):
        self.assertEqual(running.finish(), 0, running.command + "\n" + running.text)
        return running.text

    def check_output(self, wanted, printed):
        """Each line of `wanted` was printed, but for numbers and names of a machine."""
        printed = printed.replace(f"{self.folder}/", "").replace(socket.gethostname(), "node-a")
        # The same run may stand on a page before it.
        printed = re.sub(r" \(\S+ is not continued: it is finished\)", "", printed)
        lines = {VARIES.sub("", line) for line in printed.splitlines()}
        for line in wanted:
            if VARIES.sub("", line) not in lines:
                self.fail(f"this was not printed: {line}\n{printed}")

    def run_python(self, block):
        """A whole file is kept for its command; lines of a training script run in its loop."""
        if block.file:
            (self.folder / block.file).write_text(block.text, encoding="utf-8")
            return
        head, *step = block.lines
        script = [head, "for i, loss in enumerate([0.5, 0.25]):", *(f"    {line}" for line in step)]
        (self.folder / "lines.py").write_text("\n".join(script) + "\n", encoding="utf-8")
        self.run_program(self.bin / "ddp-launch", "--nproc-per-node", 2, "lines.py", PYTHONPATH=str(ROOT / "deploy" / "progress"))

    def check_labels(self, block):
        """Of a report that takes minutes to come, the labels: its lines are compared where such reports are made."""
        source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "launcher" / "plan").rglob("*report*.cpp"))
        for line in block.lines:
            label = re.fullmatch(r" *(\w[\w ]*?) *: .*", line)[1]
            self.assertIn(f'"{label}"', source, f"no report has: {label}")

    def check_page(self, page):
        last_commands = []
        for block in blocks(page):
            if block.language in ("cpp", "cmake", "yaml", "sh"):
                continue  # the files of a program of one's own, which library_test.py builds; a script of others
            with self.subTest(f"{page.relative_to(ROOT)}:{block.line}"), socket.socket() as chosen:
                chosen.bind(("127.0.0.1", 0))
                self.port = chosen.getsockname()[1]
                chosen.close()
                if block.language:
                    {"python": self.run_python, "text": self.check_labels}[block.language](block)
                    continue
                commands = [without_comment(line) for line in block.lines if COMMAND.match(line)]
                output = [line for line in block.lines if OUTPUT.match(line)]
                for line in block.lines:
                    self.assertTrue(COMMAND.match(line) or OUTPUT.match(line), f"neither a known command nor output: {line}")
                printed = self.run_commands(commands or last_commands[:1])
                self.check_output(output, printed)
                last_commands = commands or last_commands

    def test_commands_within_the_text(self):
        """Those of make.sh are there; those of the programs run."""
        usage = self.run_program(ROOT / "make.sh", "help")
        for page in PAGES:
            text = re.sub(r"(?ms)^```.*?^```$", "", page.read_text(encoding="utf-8"))
            for command in re.findall(r"`(\S*make\.sh \w[^`\n]*|ddp-(?:launch|worker) [^`\n]+)`", text):
                with self.subTest(f"{page.relative_to(ROOT)}: {command}"):
                    if found := re.search(r"make\.sh (\w\S*)", command):
                        self.assertIn(f"\n  {found[1]} ", usage)
                    elif command not in ELSEWHERE:
                        self.run_commands([re.sub(r"\bKEY\b", "train.epochs", command)])


for each in PAGES:
    name = re.sub(r"\W+", "_", str(each.relative_to(ROOT).with_suffix("")).lower())
    setattr(Readme, f"test_{name}", lambda self, page=each: self.check_page(page))


if __name__ == "__main__":
    unittest.main(verbosity=2)
