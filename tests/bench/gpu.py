"""One device, three trainers, in one run: Python's DDP, Python's DDP compiled or as CUDA graphs, and ddp-worker. The same net, numbers
(fp32 or bf16 autocast), layout (channels_last), data (on the device) and batch; a world of one. Per trainer: ms per step, images/s, the
time from its start to the end of its first step, peak memory. Figures, no test: nothing is judged here.

Run by hand: DDP_BIN=build/release PYTHON tests/bench/gpu.py [--device cpu|cuda] [--batches 64,4096] [--steps 300] [--json FILE]
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
for folder in ("gpu", "interop", "support"):
    sys.path.insert(0, str(HERE.parent / folder))
MEAN, DEVIATION = 0.163, 0.23  # of the digits
WINDOW = 10  # steps between two looks at the clock: each waits for the device
WARM_UP = 3  # windows that do not count
TRAINERS = {"eager": "Python DDP", "compiled": "Python DDP, torch.compile", "graphs": "Python DDP, CUDA graphs", "ours": "ddp-worker"}
JOB = """
name: job
device: {device}
data: {{name: digits, batch_per_rank: {batch}, train_size: {count}, test_size: 1}}
model: {{memory_format: channels_last}}
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
    """Trains, and writes a line of JSON per window of steps: how many, and how long they took."""
    import torch
    import torch.distributed as dist
    from reference_ddp import ConvNet
    from torch.nn.parallel import DistributedDataParallel

    device = torch.device(args.device)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "RANK": "0", "WORLD_SIZE": "1"}
    if args.trainer == "graphs":
        os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"  # its watchdog and a capture do not go together
    dist.init_process_group("nccl" if args.device == "cuda" else "gloo", store=dist.HashStore(), rank=0, world_size=1)
    with open(args.images, "rb") as file:
        raw = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
    images = raw[args.count :].reshape(args.count, 1, 28, 28).to(device)
    labels = raw[: args.count].long().to(device)
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True  # as ddp-worker
    torch.backends.cudnn.allow_tf32 = False
    side = torch.cuda.Stream() if args.trainer == "graphs" else None
    net = ConvNet().to(device).to(memory_format=torch.channels_last)
    if side is not None:
        with torch.cuda.stream(side):  # as CUDA graphs want it
            model = DistributedDataParallel(net)
    else:
        model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.005, momentum=0.9, weight_decay=1e-4, fused=True)
    call = torch.compile(model) if args.trainer == "compiled" else model

    def step(x, y):
        with torch.autocast(device.type, torch.bfloat16, enabled=args.level == "O1", cache_enabled=side is None):
            loss = torch.nn.functional.cross_entropy(call(x), y)
        optimizer.zero_grad(set_to_none=side is None)
        loss.backward()
        optimizer.step()
        return loss

    order = torch.randperm(args.count).to(device)

    def batch(number):
        index = order[number * args.batch : (number + 1) * args.batch]
        x = (images[index].float() / 255 - MEAN) / DEVIATION
        return x.to(memory_format=torch.channels_last), labels[index]

    run = step
    if side is not None:
        run = capture(step, batch(0), side)
    total = torch.zeros((), device=device)
    with open(args.out, "w", encoding="utf-8") as out:
        begin = time.perf_counter()
        for number in range(args.steps):
            total += run(*batch(number)).detach()
            if (number + 1) % args.log_every == 0:
                total.item()  # waits for the device, as a log does
                now = time.perf_counter()
                out.write(json.dumps({"kind": "step", "images_per_s": args.log_every * args.batch / (now - begin)}) + "\n")
                out.flush()
                begin = now
    sys.stdout.flush()
    os._exit(0)


def capture(step, sample, side):
    """`step` as one graph of the whole: DDP's rules for it are in torch's notes on CUDA graphs."""
    import torch

    x, y = (tensor.clone() for tensor in sample)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(11):
            step(x, y)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(x, y)

    def run(new_x, new_y):
        x.copy_(new_x)
        y.copy_(new_y)
        graph.replay()
        return loss

    return run


# --- measuring --------------------------------------------------------------------------------------------------------------------


class Bench:
    def __init__(self, machine, folder, args):
        self.machine, self.folder, self.args = machine, folder, args
        self.runs = 0

    def why_not(self, trainer):
        if trainer == "graphs" and self.machine.device != "cuda":
            return "needs an NVIDIA GPU"
        compilers = [os.environ.get("CXX", "c++"), "g++", "clang++"] if self.machine.device == "cpu" else [os.environ.get("CC", "cc"), "gcc", "clang"]
        if trainer == "compiled" and not any(map(shutil.which, compilers)):
            return "torch.compile needs a compiler, and none is on the PATH"
        return None

    def command(self, trainer, batch, steps, log_every):
        """And where its records appear."""
        folder = self.folder / str(self.runs)
        self.runs += 1
        folder.mkdir()
        count = batch * steps
        if trainer == "ours":
            level, device = self.args.level, self.machine.device
            job = JOB.format(device=device, batch=batch, count=count, level=level, log_every=log_every, steps=steps)
            (folder / "job.yaml").write_text(job, encoding="utf-8")
            return [self.machine.programs / "ddp-worker", "job.yaml"], folder, folder / "runs/job/metrics.jsonl"
        keys = {"images": self.images(count), "count": count, "batch": batch, "steps": steps, "log-every": log_every, "out": folder / "out.jsonl"}
        keys |= {"device": self.machine.device, "level": self.args.level}
        words = [word for name, value in keys.items() for word in (f"--{name}", value)]
        return [sys.executable, "-B", HERE / "gpu.py", "--play", trainer, *words], folder, folder / "out.jsonl"

    def images(self, count):
        path = self.folder / f"digits-{count}.bin"
        if not path.exists():
            tool = next(path for path in (self.machine.programs / "files_tool", self.machine.programs / "tests/files_tool") if path.exists())
            with path.open("wb") as file:
                subprocess.run([tool, "digits", "1", "train", str(count)], stdout=file, check=True)
        return path

    def run(self, trainer, batch, steps, log_every):
        """Records, seconds to the first of them, and the largest memory: of the GPU, else resident. Errors: RuntimeError."""
        from machine import used_memory
        from processes import end_with_parent

        command, folder, records = self.command(trainer, batch, steps, log_every)
        is_gpu = self.machine.device == "cuda"
        before, peak, first = used_memory() or 0, 0, None
        with (folder / "text").open("wb") as text:
            begin = time.perf_counter()
            process = subprocess.Popen(list(map(str, command)), cwd=folder, stdout=text, stderr=text, preexec_fn=end_with_parent)
            pause = threading.Event()
            while True:
                pid, status, usage = os.wait4(process.pid, os.WNOHANG)
                if first is None and records.exists() and '"step"' in records.read_text(encoding="utf-8"):
                    first = time.perf_counter() - begin
                if is_gpu:
                    peak = max(peak, (used_memory() or 0) - before)
                if pid:
                    break
                pause.wait(0.002)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise RuntimeError((folder / "text").read_text(encoding="utf-8", errors="replace")[-1500:])
        lines = map(json.loads, records.read_text(encoding="utf-8").splitlines())
        return [line for line in lines if line["kind"] == "step"], first, peak if is_gpu else usage.ru_maxrss << 10

    def measure(self, trainer, batch):
        row = {"trainer": trainer, "batch": batch, "device": self.machine.device, "level": self.args.level}
        why = self.why_not(trainer)
        if why:
            return row | {"not_run": why}
        try:
            # A step alone, for the start: at a window's end the first step would be a window old.
            _, first, _ = self.run(trainer, batch, 1, 1)
            records, _, peak = self.run(trainer, batch, self.args.steps, WINDOW)
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return row | {"not_run": "it failed: " + str(error).strip().splitlines()[-1]}
        rates = [record["images_per_s"] for record in records[WARM_UP:]]
        rate = statistics.median(rates)
        return row | {"images_per_s": rate, "ms_per_step": 1000 * batch / rate, "start_s": first, "peak_bytes": peak}


def show(rows):
    print(f"{'batch':>6}  {'trainer':<28}{'ms/step':>9}{'images/s':>11}{'start s':>9}{'peak MiB':>10}  {'of eager':>8}")
    for row in rows:
        name = TRAINERS[row["trainer"]]
        if "not_run" in row:
            print(f"{row['batch']:>6}  {name:<28}not run: {row['not_run']}")
            continue
        base = next((r for r in rows if r["batch"] == row["batch"] and r["trainer"] == "eager" and "not_run" not in r), None)
        ratio = f"{row['images_per_s'] / base['images_per_s']:.2f}x" if base else "-"
        print(
            f"{row['batch']:>6}  {name:<28}{row['ms_per_step']:>9.3f}{row['images_per_s']:>11.0f}{row['start_s']:>9.2f}"
            f"{row['peak_bytes'] / 2**20:>10.0f}  {ratio:>8}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--batches", help="small and large, as 64,4096")
    parser.add_argument("--steps", type=int, help=f"a multiple of {WINDOW}, more than {WARM_UP * WINDOW}")
    parser.add_argument("--level", choices=["O0", "O1"], default="O1", help="O1: bf16 autocast; O0: fp32")
    parser.add_argument("--json", help="a file for the figures")
    parser.add_argument("--play", dest="trainer", help=argparse.SUPPRESS)
    for name, kind in (("images", str), ("count", int), ("batch", int), ("log-every", int), ("out", str)):
        parser.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.trainer:
        return play(args)
    import machine

    here = machine.look(args.device)
    os.environ.setdefault("OMP_NUM_THREADS", str(len(os.sched_getaffinity(0))))
    is_gpu = here.device == "cuda"
    args.steps = args.steps or (300 if is_gpu else 60)
    if args.steps % WINDOW or args.steps <= WARM_UP * WINDOW:
        parser.error(f"--steps {args.steps} is not a multiple of {WINDOW} above {WARM_UP * WINDOW}")
    batches = [int(word) for word in (args.batches or ("64,4096" if is_gpu else "16,128")).split(",")]
    print(json.dumps(here.facts()))
    with tempfile.TemporaryDirectory(prefix="ddp-bench-") as folder:
        bench = Bench(here, pathlib.Path(folder), args)
        rows = [bench.measure(trainer, batch) for batch in batches for trainer in TRAINERS]
    show(rows)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"machine": here.facts(), "rows": rows}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
