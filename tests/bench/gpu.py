"""One device, its trainers one after the other: ddp-worker, and Python as a plain model, under DDP, compiled, and as a CUDA graph of the
whole step. The same net, numbers (fp32 or bf16 autocast), layout (channels_last), data and batch; a world of one, in which ddp-worker
builds no group either. Python has all data on the device from the start, and takes and normalises a batch inside what it compiles or records.
convnet trains on digits, resnet50 (torchvision's in Python) on images of random bytes in ImageNet's size, of which Python has a few hundred.
Per trainer: ms per step, images/s, the time from its start to the end of its first 10 steps (Python reads its digits from a file, ddp-worker
draws them), peak memory. Figures, no test: nothing is judged here. Each row is printed, and written to FILE, as it comes, those first that say most; what --budget leaves no time for is listed.

Run by hand: DDP_BIN=build/release PYTHON tests/bench/gpu.py [--device cpu|cuda] [--nets convnet,resnet50] [--batches 64,4096] [--steps N] [--budget SECONDS] [--json FILE]
"""

import argparse
import contextlib
import dataclasses
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

BEGIN = time.monotonic()
HERE = pathlib.Path(__file__).resolve().parent
for folder in ("gpu", "interop", "support"):
    sys.path.insert(0, str(HERE.parent / folder))
WINDOW = 10  # steps between two looks at the clock: each waits for the device
WARM_UP = 3  # windows that do not count
LEAST = 3  # seconds; with less left no trainer is begun
MOST = 0.5  # of the budget, that one trainer may take


@dataclasses.dataclass(frozen=True)
class Net:
    shape: tuple  # of an image
    classes: int
    mean: tuple  # a number per channel, as ddp-worker has them for this data set
    deviation: tuple
    batches: dict  # by the kind of device
    data: str  # in the job file
    most_images: int = 1 << 62  # that Python has, and takes again


NETS = {
    "convnet": Net((1, 28, 28), 10, (0.163,), (0.23,), {"cuda": (64, 4096), "cpu": (16, 128)}, "name: digits"),
    "resnet50": Net(
        (3, 224, 224), 1000, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), {"cuda": (128,), "cpu": (4,)}, "name: synthetic", most_images=512
    ),
}
TRAINERS = {
    "plain": "Python, no DDP",
    "ours": "ddp-worker",
    "graphs": "Python, CUDA graph",
    "ddp": "Python DDP",
    "compiled": "torch.compile",
    "reduce-overhead": "torch.compile, reduce-overhead",
    "views": "Python DDP, gradient views",
    "max-autotune": "torch.compile, max-autotune",
}
FIRST = ("plain", "ours", "graphs", "ddp")  # for every batch, then the others
COMPILED = {"compiled": "default", "reduce-overhead": "reduce-overhead", "max-autotune": "max-autotune"}
JOB = """
name: job
device: {device}
data: {{{data}, batch_per_rank: {batch}, train_size: {count}, test_size: 1}}
model: {{name: {net}, memory_format: channels_last}}
optimizer: {{lr: 0.005}}
schedule: {{name: constant, warmup: 0}}
amp: {{level: {level}}}
train: {{epochs: 1, log_every: {log_every}, max_steps: {steps}}}
eval: {{every: 0}}
checkpoint: {{every: 0}}
metrics: {{tensorboard: false, csv: false}}
"""


# --- Python's trainers: this file as a program of its own -------------------------------------------------------------------------


def play(args):
    """Trains, and writes a line of JSON per window of steps: how fast it was."""
    import torch

    device = torch.device(args.device)
    about = NETS[args.net]
    labels, images = read_images(args)
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True  # as ddp-worker
    torch.backends.cudnn.allow_tf32 = False
    net = make_net(args.net).to(device).to(memory_format=torch.channels_last)
    called = under_ddp(net, args) if args.trainer in ("ddp", "views") else net

    class Lesson(torch.nn.Module):
        """The loss of a batch. The data are buffers, as torch.compile's graphs copy all other inputs."""

        def __init__(self):
            super().__init__()
            self.net = called
            self.register_buffer("images", images)
            self.register_buffer("labels", labels.long())
            self.register_buffer("mean", torch.tensor(about.mean).reshape(-1, 1, 1))
            self.register_buffer("deviation", torch.tensor(about.deviation).reshape(-1, 1, 1))

        def forward(self, index):
            x = ((self.images[index].float() / 255 - self.mean) / self.deviation).to(memory_format=torch.channels_last)
            # A capture must not meet the copies of weights that a cache holds.
            with torch.autocast(device.type, torch.bfloat16, enabled=args.level == "O1", cache_enabled=args.trainer != "graphs"):
                return torch.nn.functional.cross_entropy(self.net(x), self.labels[index])

    lesson = Lesson().to(device)
    if args.trainer in COMPILED:
        lesson = torch.compile(lesson, mode=COMPILED[args.trainer])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.005, momentum=0.9, weight_decay=1e-4, fused=True)
    total = torch.zeros((), device=device)
    order = (torch.randperm(args.count) % len(labels)).to(device)

    def step(index):
        loss = lesson(index)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total.add_(loss.detach())

    if args.trainer == "graphs":
        step = capture(step, optimizer, order[: args.batch].clone())
    with open(args.out, "w", encoding="utf-8") as out:
        begin = time.perf_counter()
        for number in range(args.steps):
            step(order[number * args.batch : (number + 1) * args.batch])
            if (number + 1) % WINDOW == 0:
                total.item()  # waits for the device, as a log does
                now = time.perf_counter()
                out.write(json.dumps({"kind": "step", "images_per_s": WINDOW * args.batch / (now - begin)}) + "\n")
                out.flush()
                begin = now
    sys.stdout.flush()
    os._exit(0)


def read_images(args):
    """Labels [n] and images [n, channels, height, width], bytes: the digits of the file, or random ones."""
    import torch

    about = NETS[args.net]
    if args.images:
        with open(args.images, "rb") as file:
            raw = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
        return raw[: args.count], raw[args.count :].reshape(args.count, *about.shape)
    count = min(args.count, about.most_images)
    return torch.randint(about.classes, (count,)), torch.randint(256, (count, *about.shape), dtype=torch.uint8)


def make_net(name):
    if name == "convnet":
        from reference_ddp import ConvNet

        return ConvNet()
    import torchvision

    return getattr(torchvision.models, name)()


def under_ddp(net, args):
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "RANK": "0", "WORLD_SIZE": "1"}
    dist.init_process_group("nccl" if args.device == "cuda" else "gloo", store=dist.HashStore(), rank=0, world_size=1)
    return DistributedDataParallel(net, gradient_as_bucket_view=args.trainer == "views")


def capture(step, optimizer, index):
    """`step` as one graph, as torch's notes on CUDA graphs have it: gradients that are not there when it is recorded are written, not added
    to, at every replay."""
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(index)
    torch.cuda.current_stream().wait_stream(side)
    optimizer.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(index)

    def run(new_index):
        index.copy_(new_index)
        graph.replay()

    return run


# --- measuring --------------------------------------------------------------------------------------------------------------------


class Bench:
    def __init__(self, machine, folder, args):
        self.machine, self.folder, self.args = machine, folder, args

    def why_not(self, net, trainer):
        if trainer != "ours" and net != "convnet" and importlib.util.find_spec("torchvision") is None:
            return "needs torchvision"
        if trainer in ("graphs", "reduce-overhead", "max-autotune") and self.machine.device != "cuda":
            return "needs an NVIDIA GPU"
        compilers = [os.environ.get("CXX", "c++"), "g++", "clang++"] if self.machine.device == "cpu" else [os.environ.get("CC", "cc"), "gcc", "clang"]
        if trainer in COMPILED and not any(map(shutil.which, compilers)):
            return "torch.compile needs a compiler, and none is on the PATH"
        return "no time left" if self.time_left() < LEAST else None

    def time_left(self):
        return BEGIN + self.args.budget - time.monotonic()

    def steps(self, net, batch):
        if self.args.steps:
            return self.args.steps
        if self.machine.device == "cpu" or net != "convnet":
            return 60
        return 300 if batch < 1024 else 60  # every sample is a digit of its own, drawn at 20 us

    def command(self, net, trainer, batch):
        """And where its records appear."""
        steps = self.steps(net, batch)
        folder = self.folder / f"{net}-{trainer}-{batch}"
        folder.mkdir()
        count = batch * steps
        if trainer == "ours":
            level, device = self.args.level, self.machine.device
            data = NETS[net].data
            job = JOB.format(device=device, data=data, net=net, batch=batch, count=count, level=level, log_every=WINDOW, steps=steps)
            (folder / "job.yaml").write_text(job, encoding="utf-8")
            return [self.machine.programs / "ddp-worker", "job.yaml"], folder, folder / "runs/job/metrics.jsonl"
        keys = {"net": net, "count": count, "batch": batch, "out": folder / "out.jsonl"}
        if net == "convnet":
            keys["images"] = self.digits(count)
        keys |= {"steps": steps, "device": self.machine.device, "level": self.args.level}
        words = [word for name, value in keys.items() for word in (f"--{name}", value)]
        return [sys.executable, "-B", HERE / "gpu.py", "--play", trainer, *words], folder, folder / "out.jsonl"

    def digits(self, count):
        path = self.folder / f"digits-{count}.bin"
        if not path.exists():
            tool = next(path for path in (self.machine.programs / "files_tool", self.machine.programs / "tests/files_tool") if path.exists())
            with path.open("wb") as file:
                subprocess.run([tool, "digits", "1", "train", str(count)], stdout=file, check=True)
        return path

    def run(self, net, trainer, batch):
        """Rates, seconds to the first of them, and the largest memory: of the GPU, else resident. Errors: RuntimeError."""
        from processes import end_with_parent

        command, folder, records = self.command(net, trainer, batch)
        with (folder / "text").open("wb") as text:
            limit = min(self.time_left(), MOST * self.args.budget)
            begin = time.perf_counter()
            process = subprocess.Popen(
                list(map(str, command)), cwd=folder, stdout=text, stderr=text, preexec_fn=end_with_parent, start_new_session=True
            )
            try:
                first, peak, usage = self.watch(process, records, begin, limit)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # compilers that it has started, too
                if process.returncode is None:
                    process.wait()
        if process.returncode != 0:
            raise RuntimeError((folder / "text").read_text(encoding="utf-8", errors="replace")[-1500:] or f"exit code {process.returncode}")
        lines = map(json.loads, records.read_text(encoding="utf-8").splitlines())
        rates = [line["images_per_s"] for line in lines if line["kind"] == "step"]
        return rates, first, peak if self.machine.device == "cuda" else usage.ru_maxrss << 10

    def watch(self, process, records, begin, limit):
        """Until it has ended. Errors: RuntimeError when it takes too long."""
        from machine import used_memory

        is_gpu = self.machine.device == "cuda"
        before, peak, first = (used_memory() or 0) if is_gpu else 0, 0, None
        pause, looked = threading.Event(), begin
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            now = time.perf_counter()
            if first is None and records.exists() and '"step"' in records.read_text(encoding="utf-8"):
                first = now - begin
            if is_gpu and now - looked >= 0.05:  # the driver's lock is the trainer's, too
                peak, looked = max(peak, (used_memory() or 0) - before), now
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                return first, peak, usage
            if now - begin > limit:
                raise RuntimeError(f"no time left: ended after {now - begin:.0f} s")
            pause.wait(0.005)

    def measure(self, net, trainer, batch):
        row = {"net": net, "trainer": trainer, "batch": batch, "device": self.machine.device, "level": self.args.level}
        why = self.why_not(net, trainer)
        if why:
            return row | {"not_run": why}
        try:
            rates, first, peak = self.run(net, trainer, batch)
        except RuntimeError as error:
            lines = str(error).strip().splitlines()
            if not lines[-1].startswith("no time left"):
                print(*lines, sep="\n", file=sys.stderr)
                lines[-1] = "it failed: " + lines[-1]
            return row | {"not_run": lines[-1]}
        rate = statistics.median(rates[WARM_UP:])
        return row | {"images_per_s": rate, "ms_per_step": 1000 * batch / rate, "start_s": first, "peak_bytes": peak}


def line_of(row, rows):
    name = TRAINERS[row["trainer"]]
    head = f"{row['net']:<9}{row['batch']:>6}  {name:<31}"
    if "not_run" in row:
        return f"{head}not run: {row['not_run']}"
    base = next((r for r in rows if (r["net"], r["batch"], r["trainer"]) == (row["net"], row["batch"], "plain") and "not_run" not in r), None)
    ratio = f"{row['images_per_s'] / base['images_per_s']:.2f}x" if base else "-"
    return (
        f"{head}{row['ms_per_step']:>9.3f}{row['images_per_s']:>11.0f}{row['start_s']:>9.2f}"
        f"{row['peak_bytes'] / 2**20:>10.0f}  {ratio:>8}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--nets", help=f"of {', '.join(NETS)}; on a GPU all of them, else convnet")
    parser.add_argument("--batches", help="in place of each net's own, as 64,4096")
    parser.add_argument("--steps", type=int, help=f"a multiple of {WINDOW}, more than {WARM_UP * WINDOW}")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="for all of it; on a GPU 90, if it is not given")
    parser.add_argument("--level", choices=["O0", "O1"], default="O1", help="O1: bf16 autocast; O0: fp32")
    parser.add_argument("--json", type=pathlib.Path, help="a file for the figures")
    parser.add_argument("--play", dest="trainer", help=argparse.SUPPRESS)
    for name, kind in (("net", str), ("images", str), ("count", int), ("batch", int), ("out", str)):
        parser.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.trainer:
        return play(args)
    import machine

    here = machine.look(args.device)
    os.environ.setdefault("OMP_NUM_THREADS", str(len(os.sched_getaffinity(0))))
    is_gpu = here.device == "cuda"
    if args.budget is None:
        args.budget = 90 if is_gpu else float("inf")
    if args.steps and (args.steps % WINDOW or args.steps <= WARM_UP * WINDOW):
        parser.error(f"--steps {args.steps} is not a multiple of {WINDOW} above {WARM_UP * WINDOW}")
    nets = (args.nets or ("convnet,resnet50" if is_gpu else "convnet")).split(",")
    if set(nets) - set(NETS):
        parser.error(f"--nets {args.nets}: there are {', '.join(NETS)}")
    batches = {net: [int(word) for word in args.batches.split(",")] if args.batches else NETS[net].batches[here.device] for net in nets}
    print(json.dumps(here.facts()))
    print(f"{'net':<9}{'batch':>6}  {'trainer':<31}{'ms/step':>9}{'images/s':>11}{'start s':>9}{'peak MiB':>10}  {'of plain':>8}", flush=True)
    rows = []

    def write():
        if args.json:
            machine.write_whole(args.json, json.dumps({"machine": here.facts(), "rows": rows}, indent=1) + "\n")

    write()
    with tempfile.TemporaryDirectory(prefix="ddp-bench-") as folder:
        bench = Bench(here, pathlib.Path(folder), args)
        for trainers in (FIRST, [name for name in TRAINERS if name not in FIRST]):
            for net, batch, trainer in ((net, batch, trainer) for net in nets for batch in batches[net] for trainer in trainers):
                rows.append(bench.measure(net, trainer, batch))
                print(line_of(rows[-1], rows), flush=True)
                write()
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    sys.exit(main())
