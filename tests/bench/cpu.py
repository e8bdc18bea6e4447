"""Training on the CPUs of one node beside its peers, all of it in one run: `./make.sh bench cpu`. Takes 14 minutes on two cores.

One thread for each rank, and in turn with the peer:
- all-reduce by shared memory, beside Gloo, Open MPI and MPICH; a step of Python's DDP through it (shared_memory.py)
- a step of ddp-worker beside Python's DDP, the same net, numbers, layout and batch (steps.py)
- MNIST from the prompt to the exit, in one epoch (98.5 %) and in two (99 %), an epoch of it, and the most memory: configs/mnist.yaml beside
  plain_mnist.py under torchrun. Only ours writes checkpoints and metrics
- more ranks than cores: a job of ddp-worker by shared memory and by Gloo

Shown are medians, smallest and largest, how many values they are from, and the ratio of theirs to ours: above 1 is for us. A value is a call or
a step in the rows of shared memory, of an MPI's run the median of its calls, elsewhere a run. tests/bench/results gets the report, after each part:
<date>.json, .md and .svg.
Unfair would be: a busy machine (the load is in the report), other threads, layouts or numbers on one side, first windows of steps (they compile, and
are not counted).
"""

import argparse
import dataclasses
import datetime
import gzip
import html
import importlib.metadata
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import launcher
import shared_memory
import steps

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DATA = pathlib.Path(os.environ.get("DDP_DATA", ROOT.parent / "shared" / "data")) / "mnist"
PEERS = {
    "script": "ddp-worker, model.script",
    "export": "ddp-worker, model.export",
    "gloo": "Python's DDP, Gloo",
    "shm": "Python's DDP, ddp_shm",
    "compiled": "Python's DDP, Gloo, torch.compile",
}


@dataclasses.dataclass
class Row:
    row: str
    peer: str
    unit: str
    ours: list
    theirs: list
    note: str = ""

    @property
    def ratio(self):
        return statistics.median(self.theirs) / statistics.median(self.ours)

    def cell(self, side):
        values = getattr(self, side)
        return f"{short(statistics.median(values))} {self.unit} ({short(min(values))} to {short(max(values))}; {len(values)})"


def short(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def sums(options, folder):
    for row in shared_memory.measure_python(options, folder):
        is_sum = row["row"].startswith("all-reduce")
        yield Row(row["row"] if is_sum else f"{row['row']}, by shared memory", row["peer"], "ms", row["ours"], row["theirs"])


def step_rows(options, folder, name, times, *trainers):
    bench = steps.Bench(argparse.Namespace(folder=folder, ranks=options.ranks, times=times, trainers=["ours", *trainers]), folder)
    taken = {one["trainer"]: one["ms"] for one in bench.run(name, steps.ROWS[name])}
    for trainer in trainers:
        if "ours" in taken and trainer in taken:
            yield Row(f"step, {name}", PEERS[trainer], "ms", taken["ours"], taken[trainer])


def memory_of(parent):
    """MiB of a process and all below it (PSS: of pages that several share, each has its part)."""
    total, pids = 0, [parent]
    while pids:
        pid = pids.pop()
        try:
            smaps = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
            total += int(re.search(r"^Pss: +(\d+)", smaps, re.MULTILINE)[1]) / 1024
            for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
                pids += map(int, (thread / "children").read_text(encoding="ascii").split())
        except OSError:
            continue  # it has ended
    return total


def run_to_end(command, folder):
    """Seconds to its exit, the most MiB, and what it said."""
    begin, most = time.monotonic(), 0
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "tests/interop")}
        process = subprocess.Popen(list(map(str, command)), cwd=folder, env=environment, stdout=said, stderr=subprocess.STDOUT)
        while True:
            try:
                process.wait(1)
                break
            except subprocess.TimeoutExpired:
                most = max(most, memory_of(process.pid))
        seconds = time.monotonic() - begin
        said.seek(0)
        text = said.read()
    if process.returncode != 0:
        raise SystemExit(f"{command}: {process.returncode}\n{text}")
    return seconds, most, text


def mnist(options, folder):
    if not DATA.is_dir():
        raise SystemExit(f"MNIST is not at {DATA}. DDP_DATA names the folder that holds mnist/")
    raw = folder / "plain/MNIST/raw"
    raw.mkdir(parents=True)
    for file in DATA.glob("*.gz"):
        (raw / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
    words = [f"data.root={DATA}", f"output={folder}/runs", "checkpoint.resume=never"]
    ours = [options.programs / "ddp-launch", "--nproc-per-node", options.ranks, ROOT / "configs/mnist.yaml", *words]
    torchrun = [options.python, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={options.ranks}"]

    def trained(epochs, times):
        """Of each side, what each run took (its seconds, those of its last epoch, its MiB); and the accuracies of the last runs."""
        sides = {
            "ours": ([*ours, f"train.epochs={epochs}"], r"test loss \S+ accuracy (?P<accuracy>\S+) %.* (?P<seconds>\S+) s, data wait"),
            "theirs": ([*torchrun, HERE / "plain_mnist.py", folder / "plain", epochs], r"epoch \d+: (?P<seconds>\S+) s, accuracy (?P<accuracy>\S+) %"),
        }
        taken, accuracies = {side: [] for side in sides}, {}
        for _ in range(times):
            for side, (command, epoch) in sides.items():
                seconds, most, text = run_to_end(command, folder)
                last = list(re.finditer(epoch, text))[-1]
                taken[side].append((seconds, float(last["seconds"]), most))
                accuracies[side] = last["accuracy"]
        return taken, f"accuracy {accuracies['ours']} %, theirs {accuracies['theirs']} %"

    def row(name, unit, number, taken, note):
        return Row(name, "plain script, torchrun", unit, *([one[number] for one in taken[side]] for side in ("ours", "theirs")), note)

    yield row("MNIST, 1 epoch, prompt to exit", "s", 0, *trained(1, 1))
    taken, note = trained(2, options.times)
    for number, (name, unit) in enumerate((("MNIST, 2 epochs, prompt to exit", "s"), ("MNIST, an epoch", "s"), ("MNIST, memory", "MiB"))):
        yield row(name, unit, number, taken, note)


def many_ranks(options, folder):
    """Images per second are turned into ms for an image, so that less is better in every row."""
    for ranks in (2 * options.ranks, 4 * options.ranks):
        several = argparse.Namespace(**{**vars(options), "ranks": ranks})
        taken = {"shm": [], "gloo": []}
        for _ in range(options.times):
            for backend, of_backend in taken.items():
                of_backend.append(1000 / shared_memory.rate_of(several, folder, backend))
        yield Row(f"digits.yaml, {ranks} ranks, an image", "ddp-worker over Gloo", "ms", taken["shm"], taken["gloo"])


def svg_of(rows):
    """A bar per row, from 1 to its ratio, on a logarithmic scale of 0.5 to 100."""

    def place(ratio):
        return 470 + 420 * math.log(min(max(ratio, 0.5), 100) / 0.5) / math.log(200)

    height = 24 * len(rows) + 50
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="960" height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="960" height="{height}" fill="white"/>',
        '<text x="8" y="20">Time (or memory) of the peer divided by ours. Right of the line is for us. The scale is logarithmic.</text>',
    ]
    for number, row in enumerate(rows):
        y = 36 + 24 * number
        left, right = sorted((place(1), place(row.ratio)))
        colour = "#2a7f62" if row.ratio >= 1 else "#b3422f"
        parts += [
            f'<text x="462" y="{y + 13}" text-anchor="end">{html.escape(f"{row.row}, {row.peer}")}</text>',
            f'<rect x="{left:.1f}" y="{y}" width="{max(right - left, 1):.1f}" height="18" fill="{colour}"/>',
            f'<text x="{right + 6:.1f}" y="{y + 13}">{row.ratio:.2f}</text>',
        ]
    parts.append(f'<line x1="{place(1):.1f}" x2="{place(1):.1f}" y1="30" y2="{height - 8}" stroke="black"/></svg>')
    return "\n".join(parts) + "\n"


def write_report(head, rows, folder):
    folder.mkdir(exist_ok=True)
    file = folder / head["date"]
    written = {"head": head, "rows": [{**dataclasses.asdict(row), "ratio": row.ratio} for row in rows]}
    file.with_suffix(".json").write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    facts = "; ".join(f"{name}: {value}" for name, value in head.items() if value != [])
    lines = [f"# Training on CPUs, {head['date']}", f"{facts}.", "", "| | peer | ours | theirs | ratio | |", "|---|---|---|---|---|---|"]
    lines += [f"| {row.row} | {row.peer} | {row.cell('ours')} | {row.cell('theirs')} | {row.ratio:.2f} | {row.note} |" for row in rows]
    file.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    file.with_suffix(".svg").write_text(svg_of(rows), encoding="utf-8")
    return file


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=lambda text: pathlib.Path(text).resolve(), required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--results", type=pathlib.Path, default=HERE / "results")
    options = parser.parse_args()
    options.python, options.nodes = sys.executable, 1
    os.environ["DDP_BIN"] = str(options.programs)
    parts = {
        "shared memory": sums,
        "MNIST": mnist,  # before torch is imported here: its pages would be shared with theirs
        "more ranks": many_ranks,
        "convnet": lambda *given: step_rows(*given, "convnet-64", options.times, *PEERS),
        "convnet, bf16": lambda *given: step_rows(*given, "convnet-64-bf16", 1, "gloo"),
        "convnet, bf16, batch 16": lambda *given: step_rows(*given, "convnet-16-bf16", 1, "gloo"),
        "ResNet-18": lambda *given: step_rows(*given, "resnet18-32", 1, "script", "gloo", "compiled"),
    }
    head = {"date": datetime.date.today().isoformat(), "processor": launcher.cpu(), "cores": len(os.sched_getaffinity(0)), "ranks": options.ranks,
            "Python's torch": importlib.metadata.version("torch"), "load before": round(os.getloadavg()[0], 1), "not run": []}  # fmt: skip
    begin, rows = time.monotonic(), []
    for name, part in parts.items():
        try:
            with tempfile.TemporaryDirectory(prefix="ddp-bench-") as folder:
                for row in part(options, pathlib.Path(folder)):
                    print(f"{row.row}, {row.peer}: ours {row.cell('ours')}, theirs {row.cell('theirs')}, {row.ratio:.2f}x", flush=True)
                    rows.append(row)
        except (SystemExit, subprocess.SubprocessError) as error:
            print(f"not run: {name}: {error}", file=sys.stderr)
            head["not run"].append(name)
        head["minutes"] = round((time.monotonic() - begin) / 60, 1)
        file = write_report(head, rows, options.results)
    print(f"written: {file}.json, .md and .svg, after {head['minutes']} minutes")
    return 1 if head["not run"] else 0


if __name__ == "__main__":
    sys.exit(main())
