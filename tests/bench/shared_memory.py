#!/usr/bin/env python3
"""What shared memory gains over Gloo, in turn: sums, a Python DDP step and a job of ddp-worker.

python3 tests/bench/shared_memory.py --programs build/release --python PYTHON_WITH_TORCH [--ranks 2] [--nodes 1] [--times 5]

--nodes: agents on this machine, each with `--ranks` ranks in a namespace of processes of its own, so that they share memory with no other
node's; between them is the loopback. Needs root.

Open MPI and MPICH (Debian's openmpi-bin libopenmpi-dev, mpich libmpich-dev) make the same sums on one node, before and after the others; medians of
both. Where one is missing, a line says so.

Sums and steps: both groups are in the same processes and take turns; medians of rank 0. Sums come in a row, as a barrier before each would
leave one rank late. Of a step: the share that communication costs, against the same step of a rank alone beside the other. One thread per rank. The job: digits.yaml, the
images/s of its last epoch. The load is printed.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/interop"))
from tools import shm_variables  # noqa: E402

SIZES = ((4, 100), (64, 50), (1024, 20), (16384, 2))  # KiB, sums in a row
WHERE = {"": False, ", a bucket": True}  # a tensor as any, or where DDP has its buckets: in memory of the backend
SCRIPT = f"SIZES, WHERE = {SIZES}, {WHERE}" + """
import json, time
import ddp_shm, torch
import torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
groups = {"gloo": dist.group.WORLD, "shm": dist.new_group(backend="ddp_shm")}

def compare(name, times, works, in_a_row=1):
    taken = {way: [] for way in works}
    for _ in range(times):
        for way, work in works.items():
            dist.barrier()
            begin = time.perf_counter()
            for _ in range(in_a_row):
                work()
            taken[way].append((time.perf_counter() - begin) / in_a_row)
    if dist.get_rank() == 0:
        ms = {way: [1e3 * one for one in of_way[times // 5 :]] for way, of_way in taken.items()}
        print(json.dumps({"row": name, "peer": "Gloo", "ours": ms["shm"], "theirs": ms["gloo"], "alone": ms.get("none")}), flush=True)

def sum_over(way, count, in_backend):
    numbers = torch.zeros(count)
    if in_backend and way == "shm":
        cpu = torch.device("cpu")
        numbers = groups[way]._get_backend(cpu).allocate_tensor(count, dtype=torch.float32, device=cpu).zero_()
    return lambda: dist.all_reduce(numbers, group=groups[way])

for kib, in_a_row in SIZES:
    for where, in_backend in WHERE.items():
        compare(f"all-reduce of {kib} KiB{where}", 20, {way: sum_over(way, kib * 256, in_backend) for way in groups}, in_a_row)

def step_of(way, batch, low):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 32, 3), torch.nn.ReLU(), torch.nn.Conv2d(32, 64, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
                              torch.nn.Flatten(), torch.nn.Linear(9216, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    if way in groups:
        net = torch.nn.parallel.DistributedDataParallel(net, process_group=groups[way])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    images, labels = torch.randn(batch, 1, 28, 28), torch.randint(0, 10, (batch,))
    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            loss = torch.nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()
    return step

for batch, low in ((64, False), (16, False), (16, True)):
    name = f"DDP step, batch {batch}" + (", bf16" if low else "")
    compare(name, 40, {way: step_of(way, batch, low) for way in (*groups, "none")})
dist.destroy_process_group()
"""


# As the sums of SCRIPT.
MPI_SUMS = """
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
static int before(const void* left, const void* right) {
  const double a = *(const double*)left, b = *(const double*)right;
  return (a > b) - (a < b);
}
int main(int count, char** sizes) {
  int rank;
  MPI_Init(&count, &sizes);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 1; i + 1 < count; i += 2) {
    const int numbers = atoi(sizes[i]) * 256, in_a_row = atoi(sizes[i + 1]);
    float* const data = calloc(numbers, sizeof *data);
    double taken[20];
    for (int t = 0; t < 20; ++t) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double begin = MPI_Wtime();
      for (int n = 0; n < in_a_row; ++n) MPI_Allreduce(MPI_IN_PLACE, data, numbers, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      taken[t] = (MPI_Wtime() - begin) / in_a_row;
    }
    qsort(taken + 4, 16, sizeof *taken, before);
    if (rank == 0) printf("%s %g\\n", sizes[i], 1e3 * (taken[11] + taken[12]) / 2);
    free(data);
  }
  return MPI_Finalize();
}
"""
MPI = {
    "Open MPI": ("mpicc.openmpi", ["mpirun.openmpi", "--allow-run-as-root", "--use-hwthread-cpus", "--bind-to", "none", "--oversubscribe"]),
    "MPICH": ("mpicc.mpich", ["mpiexec.hydra"]),
}


class MpiSums:
    """The sums by each MPI that is here: {its name: {KiB: [ms]}}."""

    def __init__(self, ranks, folder):
        self.commands, self.taken = {}, {}
        (folder / "sums.c").write_text(MPI_SUMS, encoding="utf-8")
        sizes = [str(number) for size in SIZES for number in size]
        for name, (compiler, launcher) in MPI.items():
            missing = [tool for tool in (compiler, launcher[0]) if not shutil.which(tool)]
            if missing:
                print(f"skipped: {name}, there is no {missing[0]}")
                continue
            program = folder / compiler
            subprocess.run([compiler, "-O2", folder / "sums.c", "-o", program], check=True)
            self.commands[name] = [*launcher, "-n", str(ranks), program, *sizes]
            self.taken[name] = {kib: [] for kib, _ in SIZES}

    def measure(self):
        for name, command in list(self.commands.items()):
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
            if done.returncode != 0:
                print(f"skipped: {name} ended with {done.returncode}: {done.stderr.strip()}")
                del self.commands[name], self.taken[name]
            for kib, taken in re.findall(r"^(\d+) (\S+)$", done.stdout if name in self.taken else "", re.MULTILINE):
                self.taken[name][int(kib)].append(float(taken))

    def compare(self, rows):
        """`rows`: those of SCRIPT."""
        ours = {row["row"]: row["ours"] for row in rows}
        for name, taken in self.taken.items():
            for kib, times in taken.items():
                for where in WHERE:
                    row = f"all-reduce of {kib} KiB{where}"
                    yield {"row": row, "peer": name, "ours": ours[row], "theirs": times, "alone": None}


def run_job(options, folder, variables, *words):
    """What node 0 prints."""
    flags = ["--nproc-per-node", str(options.ranks)]
    commands = [[options.programs / "ddp-launch", *flags, *words]]
    if options.nodes > 1:
        with socket.socket() as chosen:
            chosen.bind(("127.0.0.1", 0))
            port = chosen.getsockname()[1]
        several = ["--nnodes", str(options.nodes), "--master-addr", "127.0.0.1", "--master-port", str(port)]
        apart = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
        launch = [*apart, options.programs / "ddp-launch", *flags, *several]
        commands = [[*launch, "--node-rank", str(node), *words] for node in range(options.nodes)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    agents = [subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for command in commands]
    said = [agent.communicate() for agent in agents]
    for agent, (text, errors) in zip(agents, said, strict=True):
        if agent.returncode != 0:
            raise SystemExit(text + errors)
    return said[0][0]


def show(row):
    ours, theirs = (statistics.median(row[side]) for side in ("ours", "theirs"))
    lost = ""
    if row["alone"]:
        lost = "".join(f"{1 - statistics.median(row['alone']) / ms:8.1%}" for ms in (theirs, ours))
    print(f"{row['row']}, {row['peer']:10}".ljust(44) + f"{theirs:10.3f} ms {ours:10.3f} ms {theirs / ours:6.2f}x {lost}", flush=True)


def measure_python(options, folder):
    """Rows {"row", "peer", "ours", "theirs", "alone"}: ms by shared memory, by the peer, and of a step without the others (or None)."""
    script = folder / "sums.py"
    script.write_text(SCRIPT, encoding="utf-8")
    variables = {"PYTHON_EXEC": options.python} | shm_variables(options.programs)
    mpi = MpiSums(options.ranks, folder) if options.nodes == 1 else None
    if mpi:
        mpi.measure()
    rows = [json.loads(row) for row in re.findall(r"{.*}", run_job(options, folder, variables, script))]
    if mpi:
        mpi.measure()
        rows += mpi.compare(rows)
    return rows


def rate_of(options, folder, backend):
    words = [ROOT / "configs/digits.yaml", f"backend={backend}", "train.epochs=3", f"output={folder}", "checkpoint.resume=never"]
    return float(re.findall(r"(\d+) images/s", run_job(options, folder, {}, *words))[-1])


def measure_worker(options, folder):
    rates = {"gloo": [], "shm": []}
    for _ in range(options.times):
        for backend, of_backend in rates.items():
            of_backend.append(rate_of(options, folder, backend))
    gloo, shm = (statistics.median(rates[backend]) for backend in ("gloo", "shm"))
    print(f"{'ddp-worker, digits.yaml':44} {gloo:7.0f} img/s {shm:7.0f} img/s {shm / gloo:6.2f}x")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=lambda text: pathlib.Path(text).resolve(), required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    print(f"{options.nodes} x {options.ranks} ranks, load {os.getloadavg()[0]:.1f}\n{'':44}{'peer':>10}    {'shm':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for row in measure_python(options, pathlib.Path(folder)):
            show(row)
        measure_worker(options, pathlib.Path(folder))
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
