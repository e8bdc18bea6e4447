"""The table of README.md, and that of docs/benchmarks.md beside MPI's launcher, measured again on this machine at normal priority, as Markdown: `./make.sh bench readme`.

Both sides are run in turn (A B A B ...), after one run of each that does not count; what is shown is the median. Nothing raises the
priority of either side, and the load of the machine is printed with the tables.
"""

import argparse
import datetime
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

import launcher as bench


def medians(samples):
    return [statistics.median(values) for values in samples.values()]


def milliseconds(seconds):
    return f"{seconds * 1000:.1f} ms" if seconds < 0.01 else f"{seconds * 1000:.0f} ms"


def either(seconds):
    return milliseconds(seconds) if seconds < 0.1 else f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"


def beside_torchrun(ours, torchrun, repeats):
    starts = [medians(bench.in_turn((ours, torchrun), lambda one: bench.no_op(one, nproc), repeats)) for nproc in (2, 8, 64)]
    restart = medians(bench.in_turn((ours, torchrun), bench.restart, repeats))
    rest = bench.in_turn((ours, torchrun), bench.at_rest, 3)
    resident, _, woken = ([statistics.median(run[i] for run in runs) for runs in rest.values()] for i in range(3))
    print("| | `ddp-launch` | torchrun |\n|---|---|---|")
    for name, cells in (
        ("job of 2 / 8 / 64 workers that do nothing", [" / ".join(either(pair[side]) for pair in starts) for side in (0, 1)]),
        ("SIGKILL of a rank to the first line of the next round", list(map(either, restart))),
        ("the launcher while two workers sleep", [f"{resident[side]:.1f} MB, {woken[side]:.0f} wake-ups a second" for side in (0, 1)]),
    ):
        print(f"| {name} | {cells[0]} | {cells[1]} |", flush=True)


def beside_hydra(ours, repeats):
    hydra = bench.Hydra()
    if shutil.which(hydra.name) is None:
        print(f"skipped: the table beside {hydra.name}, which is not here. Install Debian's mpich.")
        return
    counts = (2, 8, 64, 512)
    columns = [
        medians(bench.in_turn((ours, hydra, bench.SpawnLoop()), lambda one: bench.no_op(one, nproc), repeats if nproc <= 64 else max(3, repeats // 5)))
        for nproc in counts
    ]
    version = subprocess.run([hydra.name, "--version"], capture_output=True, text=True, check=True).stdout.split("Release Date")[0].split()[-1]
    print("| workers that do nothing | " + " | ".join(map(str, counts)) + " |\n|---|---|---|---|---|")
    for side, name in enumerate(("`ddp-launch`", f"`{hydra.name}` {version}", f"`{bench.SpawnLoop.name}`")):
        print(f"| {name} | " + " | ".join(milliseconds(column[side]) for column in columns) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ddp_launch")
    parser.add_argument("--repeats", type=int, default=60, help="pairs beside mpiexec.hydra; a twelfth of them beside torchrun")
    options = parser.parse_args()
    ours = bench.Launcher("ddp-launch", [pathlib.Path(options.ddp_launch).absolute()])
    torchrun = bench.Launcher("torchrun", [sys.executable, "-m", "torch.distributed.run"])
    now = datetime.date.today().isoformat()
    print(f"{now}, {bench.cpu()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, normal priority; medians of {options.repeats} runs in turn")
    beside_hydra(ours, options.repeats)
    print(flush=True)
    beside_torchrun(ours, torchrun, max(3, options.repeats // 12))


if __name__ == "__main__":
    main()
