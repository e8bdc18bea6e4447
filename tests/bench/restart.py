"""After the loss of one rank, side by side in one run: the time until all ranks are past the next step. One of three ranks is killed in the
middle of an epoch: under ddp-launch --restart failed, under ddp-launch with whole rounds, and under torchrun with a Python script that does
the same (same model, batch and rate of checkpoints). In turn, A B C, and medians. Figures, no test: nothing is judged here.

Run by hand: PYTHON tests/bench/restart.py build/release/ddp-launch [--rounds 5] [--json FILE]
"""

import argparse
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
RANKS = 3
BATCH = 64  # per rank
SAMPLES = 9600  # 50 steps an epoch
KILLED_AT = 75  # with a checkpoint after each epoch
LONGEST = 60  # seconds
# Else torchrun's later rounds find the addresses of ranks that are gone in its store, and fail again and again (seen with torch 2.11).
NEW_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


def play_python(folder):
    """A rank of the usual script: DDP, a checkpoint after each epoch, the newest one at the start."""
    import torch
    import torch.distributed as dist

    sys.path.insert(0, str(HERE.parent / "interop"))
    from reference_models import ConvNet

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    data = torch.utils.data.TensorDataset(torch.rand(SAMPLES, 1, 28, 28), torch.randint(0, 10, (SAMPLES,)))
    sampler = torch.utils.data.distributed.DistributedSampler(data)
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH, sampler=sampler)
    model = torch.nn.parallel.DistributedDataParallel(ConvNet(1, 28, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    saved = folder / "checkpoint.pt"
    step = epoch = 0
    if saved.exists():
        state = torch.load(saved)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step, epoch = state["step"], state["epoch"]
    while True:
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            step += 1
            if rank == 0:
                with (folder / "steps").open("a") as file:
                    file.write(f"{step}\n")
        epoch += 1
        if rank == 0:
            torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step, "epoch": epoch}, saved)
        dist.barrier()


def step_of(file, pattern):
    """The newest that rank 0 has written down."""
    try:
        with file.open("rb") as stream:
            stream.seek(max(0, file.stat().st_size - 4096))
            found = re.findall(pattern, stream.read())
    except FileNotFoundError:
        return 0
    return int(found[-1]) if found else 0


def find_all(job, *more):
    """The pids of its processes that have those variables."""
    pids = []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            variables = (path / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if {f"BENCH_RESTART={job}".encode(), *more} <= set(variables):
            pids.append(int(path.name))
    return pids


def measure(name, folder, command, file, pattern):
    """Seconds from the kill of rank 1 to the first step after the newest one by then."""
    environment = os.environ | {"BENCH_RESTART": name, "OMP_NUM_THREADS": "1"} | (NEW_STORE if name == "torchrun" else {})
    log = folder / f"{name}.log"
    with log.open("wb") as stream:
        job = subprocess.Popen(list(map(str, command)), stdout=stream, stderr=stream, env=environment, cwd=folder)

        def pause(seconds):
            try:
                job.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                return
            raise SystemExit(f"{name}: ended early\n" + log.read_text())

        try:
            while step_of(file, pattern) < KILLED_AT:
                pause(0.005)
            os.kill(find_all(name, b"RANK=1")[0], signal.SIGKILL)
            begin = time.perf_counter()
            pause(0.05)  # what was under way is written by then
            last = step_of(file, pattern)
            while step_of(file, pattern) <= last and time.perf_counter() - begin < LONGEST:
                pause(0.002)
            return time.perf_counter() - begin
        finally:
            job.terminate()
            try:
                job.wait(timeout=10)
            except subprocess.TimeoutExpired:
                job.kill()
                job.wait()
            for pid in find_all(name):
                os.kill(pid, signal.SIGKILL)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("launcher", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--play", type=pathlib.Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.play:
        return play_python(args.play)
    launcher = args.launcher.resolve()
    times = {"failed": [], "all": [], "torchrun": []}
    for _ in range(args.rounds):
        for name, taken in times.items():
            with tempfile.TemporaryDirectory(prefix="bench-") as folder:
                folder = pathlib.Path(folder)
                if name == "torchrun":
                    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", RANKS, "--max-restarts", 50]
                    command, file, pattern = [*torchrun, __file__, launcher, "--play", folder], folder / "steps", rb"(\d+)\n"
                else:
                    job = ("data.name=digits", f"data.train_size={SAMPLES}", "data.test_size=10", f"data.batch_per_rank={BATCH}",
                           "model.name=convnet", "optimizer.lr=0.05", "optimizer.momentum=0.9", "train.epochs=1000", "train.log_every=1",
                           "eval.every=1000", "name=job")  # fmt: skip
                    command = [launcher, "--nproc-per-node", RANKS, "--max-restarts", 3, "--restart", name, folder / "job.yaml", *job]
                    (folder / "job.yaml").write_text("version: 1\n")
                    file, pattern = folder / "runs/job/metrics.jsonl", rb'"step":(\d+)'
                taken.append(measure(name, folder, command, file, pattern))
        print("  ".join(f"{name} {taken[-1]:.2f} s" for name, taken in times.items()), flush=True)
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    print(f"one of {RANKS} ranks killed at step {KILLED_AT}, until all are past the next step, medians of {args.rounds}:")
    for name, median in medians.items():
        over = sum(time >= LONGEST for time in times[name])
        print(f"  {name:8} {median:6.2f} s  {median / medians['failed']:5.1f}x" + (f", {over} of them not within {LONGEST} s" if over else ""))
    if args.json:
        args.json.write_text(json.dumps({"times": times, "medians": medians}))


if __name__ == "__main__":
    main()
