"""torchrun and ddp-launch, given the same command lines and environments: what do their workers see, how do they end, what
is on disk? Equal, but for DIFFERENCES, which docs/from-torchrun.md tells users, too.

Each case is run by both, AT_ONCE cases at a time; torchrun mostly by torchrun_zygote.py, which saves its start. Run by hand: DDP_BIN=build/release PYTHON tests/interop/torchrun_test.py [NAME]
"""

import concurrent.futures
import dataclasses
import importlib.metadata
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import uuid

from processes import free_port

HERE = pathlib.Path(__file__).parent.resolve()
PROBE = HERE / "torchrun_probe.py"
PATIENCE = 120  # seconds for one run
AT_ONCE = 2

# Everything that is not equal: a variable, or another thing that is compared, and why.
DIFFERENCES = {
    "DDP_*": "ours: the job's own random id, round, progress page",
    "TORCHELASTIC_ERROR_FILE": "without --log-dir ours lies in a runtime directory, theirs in a new directory under /tmp that "
    "stays; with --log-dir the paths are equal but for the random part",
    "*_SOCKET_IFNAME": "ours alone, in a job of several nodes: the interface by which they reach each other",
    "MASTER_ADDR": "--standalone, c10d, and one node without a port: theirs is a host name, ours the address that it stands for",
    "MASTER_PORT": "with --standalone and c10d, and on one node without a port, both are free ones (before torch 2.15: 29500 without a port)",
    "TORCHELASTIC_RUN_ID": "--standalone, and one node without a port: a random UUID in both; there theirs drops an --rdzv-id, ours keeps it",
    "PYTHONFAULTHANDLER": "ours is 1 unless the user has set it: at a hang, Python prints its stacks",
    "exit code": "theirs is 1 for every failure, ours that of the root cause, and 2 for every usage error",
    "--run-path": "theirs runs the script inside a process of Python's multiprocessing, ours as a program in a session of its own",
    "TORCHELASTIC_USE_AGENT_STORE": "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 is obeyed by theirs with c10d only, by ours always",
    "result.json": "in the log directory: ours alone",
    "summary": "the same labels in one block; ours is for the whole job, and victims are a line each",
    "console": "without --tee theirs has no prefix, ours [node:rank]",
}


@dataclasses.dataclass
class Case:
    name: str
    arguments: list
    variables: dict = dataclasses.field(default_factory=dict)
    code: int = 0  # ours
    theirs: int = None  # torchrun's; None: 0 or 1
    program: list = dataclasses.field(default_factory=lambda: [PROBE])
    port: bool = True  # a free --master-port of its own, the same for both
    logs: bool = False  # with --log-dir L, and the layout is compared
    console: bool = False  # the console's lines are compared, in any order
    legacy: bool = False  # torch.distributed.launch against --append-local-rank
    started: bool = False  # torchrun in a process of its own from the start
    nodes: tuple = ((),)  # arguments of each node
    loose: tuple = ()  # variables of DIFFERENCES that differ here
    since: tuple = ()  # of torch: older ones do otherwise


VERSION = importlib.metadata.version("torch")  # an import of it takes seconds
TORCH = tuple(map(int, re.findall(r"\d+", VERSION)[:2]))
SIGNALS_NAMED = (2, 15)  # in the report, since that torch
TWO = ["--nproc-per-node=2"]
FREE = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID")
RANK_1 = "1:9:"

CASES = [
    Case("one worker", []),
    Case("two workers", TWO),
    Case("standalone, torchrun as users start it", ["--standalone", *TWO], port=False, loose=FREE, started=True),
    Case("underscores", ["--nproc_per_node", "2", "--max_restarts", "2", "--monitor_interval", "0.5", "--node_rank", "0"]),
    Case("standalone", ["--standalone", *TWO], port=False, loose=FREE),
    Case("the last of a repeated flag", ["--nproc-per-node=3", "--role=a", "--nproc-per-node=2", "--role=b"]),
    Case("PET variables", [], {"PET_NPROC_PER_NODE": "2", "PET_ROLE": "trainer", "PET_MAX_RESTARTS": "4", "PET_RDZV_ID": "j"}),
    Case("a flag beats its PET variable", TWO, {"PET_NPROC_PER_NODE": "3", "PET_ROLE": "trainer"}),
    Case("PET_STANDALONE", TWO, {"PET_STANDALONE": "1"}, port=False, loose=FREE),
    Case("role", [*TWO, "--role", "trainer"]),
    Case("two nodes of two roles", TWO, nodes=(["--role", "reader"], ["--role", "trainer"])),
    Case("run id", [*TWO, "--rdzv-id=job7"]),
    Case("c10d", [*TWO, "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:{port}", "--rdzv-id=a"], port=False,
         loose=("MASTER_ADDR", "MASTER_PORT")),
    Case("static endpoint", [*TWO, "--rdzv-endpoint=127.0.0.1:{port}"], port=False),
    Case("range of one node", [*TWO, "--nnodes=1:1", "--rdzv-conf=timeout=60,read_timeout=9"]),
    Case("restarts that are not needed", [*TWO, "--max-restarts=3"]),
    Case("signals", [*TWO, "--signals-to-handle=SIGTERM,SIGUSR1"]),
    Case("flags without effect", [*TWO, "--logs-specs=default", "--start-method=fork", "--event-log-handler=null", "--local-addr=127.0.0.1"]),
    Case("CPUs", ["--nproc-per-node=cpu"]),
    Case("auto without GPUs", ["--nproc-per-node=auto"]),
    Case("module", [*TWO, "-m"], {"PYTHONPATH": str(HERE)}, program=["torchrun_probe", "a"]),
    Case("no python", [*TWO, "--no-python"], program=[sys.executable, PROBE, "a", "b c"]),
    Case("no python, on PATH", ["--no-python"], {"PATH": f"{pathlib.Path(sys.executable).parent}:/usr/bin:/bin"},
         program=[pathlib.Path(sys.executable).name, PROBE]),
    Case("another interpreter", TWO, {"PYTHON_EXEC": sys.executable}),
    Case("run path", ["--run-path"], loose=("--run-path",)),
    Case("arguments", TWO, program=[PROBE, "--nnodes", "5", "-h", "-m", "", "a b", "--", "x"]),
    Case("dashes", [*TWO, "--"], program=[PROBE, "a", "--", "b"]),
    Case("dashes after the program", TWO, program=[PROBE, "--", "a", "--", "b"]),
    Case("macros", TWO, program=[PROBE, "${local_rank}", "$local_rank", "x$local_rank-y", "$$a", "$HOME", "${other}", "$", "$1"]),
    Case("macros without python", [*TWO, "--no-python"], program=[sys.executable, PROBE, "--at=${local_rank}", "$$$$"]),
    Case("virtual local ranks", [*TWO, "--virtual-local-rank"]),
    Case("virtual local ranks of a list", [*TWO, "--virtual-local-rank"], {"CUDA_VISIBLE_DEVICES": "3, 5"}),
    Case("virtual local ranks, too few", [*TWO, "--virtual-local-rank"], {"CUDA_VISIBLE_DEVICES": "3"}, code=2),
    Case("visible devices", TWO, {"CUDA_VISIBLE_DEVICES": "1,0"}),
    Case("threads", TWO, {"OMP_NUM_THREADS": "3"}),
    Case("NCCL's error handling", TWO, {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"}),
    Case("a store in a worker", TWO, {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}, loose=("TORCHELASTIC_USE_AGENT_STORE",)),
    Case("a store in a worker with c10d", [*TWO, "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:{port}", "--rdzv-id=a"],
         {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}, port=False, loose=("MASTER_ADDR", "MASTER_PORT")),
    Case("stale variables", TWO, {"RANK": "7", "WORLD_SIZE": "9", "LOCAL_RANK": "5", "MASTER_ADDR": "far", "GROUP_RANK": "3",
                                  "TORCHELASTIC_RUN_ID": "old", "TORCHELASTIC_RESTART_COUNT": "8", "ROLE_NAME": "old"}),
    Case("legacy launch", TWO, legacy=True, program=[PROBE, "--x", "1"]),
    Case("legacy launch by environment", [*TWO, "--use-env"], legacy=True),

    Case("exit 7", TWO, {"PROBE_DO": RANK_1 + "7"}, code=7),
    Case("exit 255", TWO, {"PROBE_DO": RANK_1 + "255"}, code=255),
    Case("SIGKILL", TWO, {"PROBE_DO": RANK_1 + "SIGKILL"}, code=137),
    Case("SIGSEGV", TWO, {"PROBE_DO": RANK_1 + "SIGSEGV"}, code=139),
    Case("an error file", TWO, {"PROBE_DO": RANK_1 + "error", "TORCHELASTIC_ERROR_FILE": "{folder}/above.json"}, code=1),
    Case("one restart", [*TWO, "--max-restarts=1"], {"PROBE_DO": "1:1:7"}),
    Case("restarts used up", [*TWO, "--max-restarts=1"], {"PROBE_DO": RANK_1 + "7"}, code=7),
    Case("program missing", TWO, program=["/nonexistent/x.py"], code=127),

    Case("log directory", TWO, logs=True),
    Case("redirects", [*TWO, "-r3"], logs=True, console=True),
    Case("redirects by rank", [*TWO, "--redirects=0:1,1:2"], logs=True),
    Case("tee", [*TWO, "-t", "3"], logs=True, console=True),
    Case("tee of stdout", [*TWO, "--tee=1", "--role=trainer", "--rdzv-id=j"], logs=True),
    Case("tee and redirects", [*TWO, "-t=0:3", "-r=1:3"], logs=True, console=True),
    Case("a prefix", [*TWO, "-t3"], {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "<${role_name} ${rank} ${local_rank} $$>"},
         logs=True, console=True),
    Case("local ranks", [*TWO, "-t3", "--local-ranks-filter=1"], logs=True, console=True),
    Case("filtered files", [*TWO, "-t3", "--duplicate-stdout-filters=out 0,zzz", "--duplicate-stderr-filters=pear"], logs=True),
    Case("logs of two rounds", [*TWO, "-r3", "--max-restarts=1"], {"PROBE_DO": "1:1:7"}, logs=True),
    Case("an error file with a log directory", [*TWO, "-r1"], {"PROBE_DO": RANK_1 + "error"}, code=1, logs=True),
    Case("redirects of workers that print nothing", [*TWO, "-r3"], {"PROBE_SILENT": "1"}, logs=True),
    Case("tee of one worker's stdout that prints nothing", [*TWO, "-t1:1"], {"PROBE_SILENT": "1"}, logs=True),
    Case("filtered files of workers that print nothing", [*TWO, "-t3", "--duplicate-stdout-filters=a", "--duplicate-stderr-filters=b"],
         {"PROBE_SILENT": "1"}, logs=True),
    Case("filtered files without such a line", [*TWO, "-t3", "--duplicate-stdout-filters=zzz"], logs=True),
    Case("no log files", [*TWO, "--log-dir=/dev/null"]),

    Case("one node without a port", TWO, port=False, loose=FREE, since=(2, 15)),
    Case("one node without a port, from an address", [*TWO, "--master-addr=127.0.0.1"], port=False, loose=FREE, since=(2, 15)),
    Case("a prefix by its flag", [*TWO, "-t3", "--log-line-prefix-template", "<${role_name} ${rank} ${local_rank} ${hostname} ${x} $$>"],
         {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "old"}, logs=True, console=True, since=(2, 15)),
    Case("a prefix by its PET variable", [*TWO, "-t3"],
         {"PET_LOG_LINE_PREFIX_TEMPLATE": "<${hostname}:${rank}>", "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "old"},
         logs=True, console=True, since=(2, 15)),
    Case("an empty prefix", [*TWO, "-t3"], {"PET_LOG_LINE_PREFIX_TEMPLATE": "", "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "<${rank}>"},
         logs=True, console=True, since=(2, 15)),
    Case("virtual local ranks of HIP", [*TWO, "--virtual-local-rank"], {"HIP_VISIBLE_DEVICES": "3, 5", "CUDA_VISIBLE_DEVICES": "1,0"},
         since=(2, 15)),
    Case("virtual local ranks of an empty HIP list", [*TWO, "--virtual-local-rank"],
         {"HIP_VISIBLE_DEVICES": "", "CUDA_VISIBLE_DEVICES": "1,0"}, since=(2, 15)),
    Case("virtual local ranks of HIP, too few", [*TWO, "--virtual-local-rank"], {"HIP_VISIBLE_DEVICES": "3", "CUDA_VISIBLE_DEVICES": "1,0"},
         code=2, since=(2, 15)),
    Case("grace by torch's flag", [*TWO, "--shutdown_timeout=5"], {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "9"}, since=(2, 15)),
    Case("grace by its PET variable", TWO, {"PET_SHUTDOWN_TIMEOUT": "5"}, since=(2, 15)),
    Case("grace below 0", [*TWO, "--shutdown-timeout=-1"], code=2, since=(2, 15)),
    Case("backoff of c10d", [*TWO, "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:{port}", "--rdzv-id=a",
         "--rdzv-conf=cas_backoff_max_seconds=0.5"], port=False, loose=("MASTER_ADDR", "MASTER_PORT"), since=(2, 15)),
    Case("a limit for uninterruptible sleeps", TWO, {"TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT": "60"}, since=(2, 15)),
    Case("a completion for no shell", ["--print-completion=fishy"], code=2, theirs=2, since=(2, 15)),

    Case("no program", [], program=[], code=2, theirs=2),
    Case("unknown flag", ["--no-such-flag"], code=2, theirs=2),
    Case("ambiguous flag", ["--rdzv=a"], code=2, theirs=2),
    Case("a switch with a value", ["--standalone=1"], code=2, theirs=2, port=False),
    Case("a module without python", ["-m", "--no-python"], code=2, theirs=1),
    Case("no workers", ["--nproc-per-node=0"], code=2, theirs=1),
    Case("workers that are not a number", ["--nproc-per-node=foo"], code=2, theirs=1),
    Case("XPUs on a node without one", ["--nproc-per-node=xpu"], code=2, theirs=1),
    Case("nodes that are not a number", ["--nnodes=a"], code=2, theirs=1),
    Case("settings without a value", ["--rdzv-conf=a"], code=2, theirs=1),
    Case("no such plug-in for logs", ["--logs-specs=DOES_NOT_EXIST"], code=2, theirs=1),
    Case("redirects that are none", ["-r4"], code=2, theirs=1),
]  # fmt: skip


@dataclasses.dataclass
class Result:
    """What one launcher made of a case."""

    code: int
    text: str
    workers: dict  # (rank, round): record of the probe
    files: dict  # path below the log directory: text
    console: list
    folder: pathlib.Path


def without_random_part(path):
    """ID_RANDOM/..., where what is random is eight letters, digits and _."""
    return re.sub(r"^([^/]*)_\w{8}(?=/|$)", r"\1_X", path)


def files_below(folder):
    """Relative paths and the lines of each file, sorted."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = without_random_part(str(path.relative_to(folder)))
        if path.name == "result.json":
            continue  # DIFFERENCES
        if path.is_file():
            found[name] = sorted(path.read_text(errors="replace").splitlines())
        else:
            found[name + "/"] = []
    return found


def base_environment():
    kept = ("PATH", "HOME", "TMPDIR")
    # An interpreter that finds no UTF-8 locale sets LC_CTYPE: torchrun's would then be inherited.
    base = {name: os.environ[name] for name in kept if name in os.environ}
    return base | {"LC_ALL": "C.UTF-8", "PYTHON_EXEC": sys.executable, "PYTHONDONTWRITEBYTECODE": "1"}


class Zygote:
    """torchrun as a process that has imported torch already, for so many threads."""

    def __init__(self, threads):
        pairs = [socket.socketpair() for _ in range(threads)]
        self.free = [mine.makefile("rw") for mine, _ in pairs]
        theirs = [other.fileno() for _, other in pairs]
        command = [sys.executable, HERE / "torchrun_zygote.py", *map(str, theirs)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=theirs, env=base_environment())
        for pair in pairs:
            for end in pair:
                end.close()  # the files above keep theirs

    def run(self, module, nodes, folder, environment, stdout, stderr):
        """The exit codes of agents with these arguments, side by side."""
        common = {"module": module, "folder": str(folder), "environment": environment, "stdout": str(stdout), "stderr": str(stderr)}
        stream = self.free.pop()
        stream.write(json.dumps([common | {"arguments": arguments} for arguments in nodes]) + "\n")
        stream.flush()
        codes = json.loads(stream.readline())
        self.free.append(stream)
        return codes

    def end(self):
        for stream in self.free:
            stream.close()
        self.process.wait(timeout=PATIENCE)


def run_one(case, launcher, folder, port, zygote=None):
    """`launcher` is a command; with a zygote the name of a module of torch."""
    for name in ("out", "work", "logs", "runtime"):
        (folder / name).mkdir(parents=True)
    values = {"port": port, "folder": folder}
    arguments = [str(word).replace("{port}", str(port)) for word in case.arguments]
    if case.port:
        arguments.insert(0, f"--master-port={port}")
    if case.logs:
        arguments[:0] = ["--log-dir", str(folder / "logs")]
    variables = {name: text.replace("{folder}", str(values["folder"])) for name, text in case.variables.items()}
    environment = base_environment() | {"PROBE_OUT": str(folder / "out")} | variables
    environment["XDG_RUNTIME_DIR"] = str(folder / "runtime")
    arguments += map(str, case.program)
    nodes = [[*flags, *arguments] for flags in case.nodes]
    if len(nodes) > 1:
        every = [f"--nnodes={len(nodes)}", "--master-addr=127.0.0.1"]
        nodes = [[*every, f"--node-rank={rank}", *words] for rank, words in enumerate(nodes)]
    if zygote:
        codes = zygote.run(launcher, nodes, folder / "work", environment, folder / "stdout", folder / "stderr")
    else:
        with open(folder / "stdout", "wb") as stdout, open(folder / "stderr", "wb") as stderr:
            agents = [
                subprocess.Popen(
                    [*map(str, launcher), *words], cwd=folder / "work", env=environment,
                    stdout=stdout, stderr=stderr, stdin=subprocess.DEVNULL,
                )
                for words in nodes
            ]  # fmt: skip
            codes = [agent.wait(PATIENCE) for agent in agents]
    assert len(set(codes)) == 1, f"{case.name}: {codes}"
    text = "".join((folder / name).read_text(encoding="utf-8", errors="replace") for name in ("stdout", "stderr"))
    workers = {}
    for path in (folder / "out").glob("*.json"):
        rank, round_number = path.stem.split("-")
        workers[int(rank), int(round_number)] = json.loads(path.read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if re.search(r"(out|err) \d (apple|pear)", line)]
    return Result(codes[0], text, workers, files_below(folder / "logs"), sorted(lines), folder)


def run_both(case, folder, zygote):
    port = free_port()
    ours = [pathlib.Path(os.environ["DDP_BIN"]).resolve() / "ddp-launch"]
    theirs = "torch.distributed.launch" if case.legacy else "torch.distributed.run"
    if case.started:
        theirs, zygote = [sys.executable, "-m", theirs], None
    if case.legacy:
        ours += [] if "--use-env" in case.arguments else ["--append-local-rank"]
    return run_one(case, theirs, folder / "torchrun", port, zygote), run_one(case, ours, folder / "ddp-launch", port)


def comparable(case, result, record):
    """A probe's record as flat names and texts, without what DIFFERENCES allows in this case."""
    flat = {f"${name}": text for name, text in record["environment"].items()}
    flat |= {name: value for name, value in record.items() if name not in ("environment", "folder")}
    flat["folder"] = str(pathlib.Path(record["folder"]).relative_to(result.folder))
    for name in [name for name in flat if name.startswith("$DDP_") or name.endswith("_SOCKET_IFNAME")]:
        del flat[name]
    for name in ("$PROBE_OUT", "$XDG_RUNTIME_DIR"):
        del flat[name]
    flat.pop("$PYTHONFAULTHANDLER", None)
    path = flat["$TORCHELASTIC_ERROR_FILE"]
    if case.logs:
        flat["$TORCHELASTIC_ERROR_FILE"] = without_random_part(str(pathlib.Path(path).relative_to(result.folder / "logs")))
    else:
        flat["$TORCHELASTIC_ERROR_FILE"] = path.endswith(".json")
    if "PWD" in record["environment"]:
        flat["$PWD"] = str(pathlib.Path(flat["$PWD"]).relative_to(result.folder))
    for name in case.loose:
        assert name in DIFFERENCES, name
        if name == "--run-path":
            for affected in ("arguments", "leads a session", "leads a group"):
                del flat[affected]
        elif name == "TORCHELASTIC_RUN_ID":
            flat[f"${name}"] = str(uuid.UUID(flat[f"${name}"])) == flat[f"${name}"]
        else:
            flat[f"${name}"] = bool(flat[f"${name}"])
    return flat


class Torchrun(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="ddp-test-")
        base = pathlib.Path(cls.folder.name)
        wanted = [case for case in CASES if (not cls.only or case.name in cls.only) and case.since <= TORCH]
        zygote = Zygote(AT_ONCE)
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            runs = {case.name: pool.submit(run_both, case, base / str(i), zygote) for i, case in enumerate(wanted)}
        zygote.end()
        cls.results = {name: run.result() for name, run in runs.items()}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    only = ()

    def compare(self, case):
        theirs, ours = self.results[case.name]
        both = f"\n--- torchrun, exit {theirs.code}\n{theirs.text}\n--- ddp-launch, exit {ours.code}\n{ours.text}"
        self.assertEqual(ours.code, case.code, both)
        expected = case.theirs if case.theirs is not None else min(case.code, 1)
        self.assertEqual(theirs.code, expected, both)
        self.assertEqual(sorted(ours.workers), sorted(theirs.workers), f"ranks and rounds{both}")
        self.assertEqual(bool(ours.workers), case.code not in (2, 127), both)
        for key, record in theirs.workers.items():
            wanted, seen = comparable(case, theirs, record), comparable(case, ours, ours.workers[key])
            names = sorted(wanted.keys() | seen.keys())
            differing = [f"{name}: torchrun {wanted.get(name)!r}, ours {seen.get(name)!r}"
                         for name in names if wanted.get(name) != seen.get(name)]  # fmt: skip
            self.assertEqual(differing, [], f"rank {key[0]} of round {key[1]}")
        if case.logs:
            self.assertEqual(ours.files, theirs.files)
        if case.console:
            self.assertEqual(ours.console, theirs.console)
        above = [result.folder / "above.json" for result in (theirs, ours)]
        self.assertEqual(*[path.exists() for path in above])
        if above[0].exists():
            self.assertEqual(*[json.loads(path.read_text(encoding="utf-8")) for path in above])
        if case.code not in (0, 2, 127):
            for label in (r"Root Cause \(first observed failure\)", r"  rank +: 1 \(local_rank: 1\)", r"  exitcode +: -?\d+ \(pid: "):
                self.assertRegex(theirs.text, label)
                self.assertRegex(ours.text, label)
            if case.code > 128 and case.code != 255:
                name = rf"  exitcode +: -{case.code - 128} \(pid: \d+\) +\({signal.Signals(case.code - 128).name}\)"
                self.assertRegex(ours.text, name)
                if TORCH >= SIGNALS_NAMED:
                    self.assertRegex(theirs.text, name)


def add_tests():
    for case in CASES:
        def test(self, case=case):
            if case.since > TORCH:
                self.skipTest(f"torch {VERSION}: DDP_PYTHON is to have torch {'.'.join(map(str, case.since))} or newer")
            self.compare(case)
        name = "test_" + re.sub(r"\W+", "_", case.name)
        assert not hasattr(Torchrun, name), name
        setattr(Torchrun, name, test)


add_tests()
if __name__ == "__main__":
    chosen = [word for word in sys.argv[1:] if not word.startswith("-")]
    Torchrun.only = tuple(chosen)
    names = ["Torchrun.test_" + re.sub(r"\W+", "_", name) for name in chosen]
    unittest.main(argv=[sys.argv[0], *[word for word in sys.argv[1:] if word.startswith("-")], *names])
