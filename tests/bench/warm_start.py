#!/usr/bin/env python3
"""What --preload gains: torchrun, ddp-launch, and ddp-launch --preload of torch, and of what DDP imports too, in turn; the last also for a
second job, which finds the template warm.

python3 tests/bench/warm_start.py --launcher build/release/ddp-launch --python PYTHON_WITH_TORCH [--times 5] [--ranks 2]

Start: from the command to the first all-reduce done by the last rank. Restart: from the SIGKILL of the last rank to that of the next round.
End: from the last line of the last rank's script to the end of the command; the interpreters end meanwhile.
Memory: the sum of all ranks' PSS after the import, beside that of the template. No-op: a job of `true`. Medians; the load is printed.
"""

import argparse
import math
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

SCRIPT = """
import os, signal, time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
net = torch.nn.Sequential(torch.nn.Conv2d(1, 24, 5), torch.nn.MaxPool2d(2), torch.nn.ReLU(), torch.nn.Conv2d(24, 32, 3),
                          torch.nn.MaxPool2d(2), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(800, 256), torch.nn.Linear(256, 10))
net = torch.nn.parallel.DistributedDataParallel(net)
net(torch.rand(4, 1, 28, 28)).sum().backward()
restart = os.environ["TORCHELASTIC_RESTART_COUNT"]
print(f"reduced {restart} {time.time()}", flush=True)
if restart == "0" and "BENCH_RESTART" in os.environ:
    dist.barrier()
    if dist.get_rank() == dist.get_world_size() - 1:
        print(f"killed {time.time()}", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
dist.destroy_process_group()
print(f"done {time.time()}", flush=True)
"""
MEMORY = """
import os, re, torch
import torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
print("pss", re.search(r"Pss: +([0-9]+)", open("/proc/self/smaps_rollup").read()).group(1), flush=True)
dist.barrier()
"""


def run(command, folder, **variables):
    begin = time.time()
    done = subprocess.run(list(map(str, command)), cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, env={**os.environ, **variables})  # fmt: skip
    assert "without it" not in done.stdout, done.stdout
    return begin, time.time(), done.stdout


def measure(ways, times, folder, ranks):
    found = {name: {"start": [], "restart": [], "end": []} for name in ways}
    for _ in range(times):
        for name, head in ways.items():
            begin, end, text = run([*head, "--nproc-per-node", ranks, "--max-restarts", 1, "script.py"], folder, BENCH_RESTART="1")
            # torchrun now and then makes no second round.
            reduced = {restart: max((float(at) for number, at in re.findall(r"reduced (\d) ([0-9.]+)", text) if number == restart), default=math.nan)
                       for restart in "01"}  # fmt: skip
            found[name]["start"].append(reduced["0"] - begin)
            found[name]["restart"].append(reduced["1"] - float(re.search(r"killed ([0-9.]+)", text).group(1)))
            found[name]["end"].append(end - max(map(float, re.findall(r"done ([0-9.]+)", text)), default=math.nan))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launcher", type=pathlib.Path, required=True)
    parser.add_argument("--python", type=pathlib.Path, required=True)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=2)
    options = parser.parse_args()
    launcher = options.launcher.absolute()
    os.environ["PYTHON_EXEC"] = str(options.python.absolute())
    ways = {"torchrun": [options.python.absolute(), "-m", "torch.distributed.run"], "ddp-launch": [launcher], "--preload torch": [launcher, "--preload", "torch"],
            "--preload torch,torch._dynamo": [launcher, "--preload", "torch,torch._dynamo"],
            "second job": [launcher, "--preload", "torch,torch._dynamo", "--preload-idle", "10min"]}
    os.environ["DDP_PRELOAD_IDLE"] = "0s"  # of the others
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "script.py").write_text(SCRIPT)
        pathlib.Path(folder, "memory.py").write_text(MEMORY)
        print("load", os.getloadavg(), "CPUs", os.cpu_count())
        run([*ways["second job"], "--nproc-per-node", options.ranks, "script.py"], folder, BENCH_RESTART="1")  # the first one
        for name, rows in measure(ways, options.times, folder, options.ranks).items():
            for row, values in rows.items():
                print(f"{name}, {options.ranks} ranks, {row}: {statistics.median(values):.2f} s of {sorted(round(v, 2) for v in values)}")
        single = {name: [] for name in list(ways)[1:]}
        for _ in range(options.times):
            for name in single:
                begin, _, text = run([*ways[name], "script.py"], folder)
                single[name].append(float(re.search(r"reduced 0 ([0-9.]+)", text).group(1)) - begin)
        for name, values in single.items():
            print(f"{name}, 1 rank, start: {statistics.median(values):.2f} s of {sorted(round(v, 2) for v in values)}")
        for name in single:
            _, _, text = run([*ways[name], "--nproc-per-node", 8, "memory.py"], folder)
            pss = [int(size) >> 10 for size in re.findall(r"pss (\d+)", text)]
            print(f"{name}, PSS of {len(pss)} ranks: {sum(pss)} MiB, {pss}")
        noop = [end - begin for begin, end, _ in (run([launcher, "--no-python", "true"], folder) for _ in range(40))]
        print(f"no-op job: {1000 * statistics.median(noop):.1f} ms")
        subprocess.run([launcher, "warm", "--stop"], check=True)
        print("load", os.getloadavg())


if __name__ == "__main__":
    main()
