"""A step of training on the CPUs of one node, in turn: ddp-worker (the net by name, as Python's TorchScript, as its export), and Python's DDP over
Gloo, through ddp_shm, and under torch.compile. The same net, numbers, layout and batch; one thread for each rank; Python has all data in memory
and normalises a batch inside the step. Medians over the runs of the windows' medians; each run's is in the JSON.
Unfair would be: more threads than cores, a first window (it compiles), another layout, a busy machine.

Run by hand: DDP_BIN=build/release PYTHON tests/bench/steps.py [--ranks 2] [--times 3] [--rows convnet-64,...] [--trainers ours,gloo,...] [--json FILE]
"""

import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "interop"))
from tools import shm_variables  # noqa: E402

WINDOW = 5  # steps
WARM_UP = 2  # windows that do not count
TRAINERS = {
    "ours": "ddp-worker",
    "script": "the same, model.script",
    "export": "the same, model.export",
    "gloo": "Python DDP, Gloo",
    "shm": "Python DDP, ddp_shm",
    "compiled": "the same over Gloo, compiled",
}


@dataclasses.dataclass(frozen=True)
class Row:
    net: str
    shape: tuple  # of an image
    batch: int  # of a rank
    level: str = "O0"
    layout: str = "contiguous"
    windows: int = 12


ROWS = {
    "convnet-64": Row("convnet", (1, 28, 28), 64),
    "convnet-64-bf16": Row("convnet", (1, 28, 28), 64, "O1", "channels_last"),
    "convnet-16-bf16": Row("convnet", (1, 28, 28), 16, "O1", "channels_last"),
    "resnet18-32": Row("resnet18", (3, 32, 32), 32, windows=4),
}
JOB = """
name: job
data: {{name: synthetic, image_size: {side}, batch_per_rank: {batch}, train_size: {count}, test_size: 1, args: {{channels: {channels}, classes: 10}}}}
model: {{{model}, memory_format: {layout}}}
optimizer: {{lr: 0.005, momentum: 0.9, weight_decay: 1e-4}}
schedule: {{name: constant, warmup: 0}}
amp: {{level: {level}}}
train: {{epochs: 1, log_every: {window}, max_steps: {steps}}}
eval: {{every: 0}}
checkpoint: {{every: 0}}
metrics: {{tensorboard: false, csv: false}}
"""


def train(trainer, row, out):
    """A rank of Python's: rank 0 writes ms per step, a window a line."""
    import torch
    import torch.distributed as dist

    if trainer == "shm":
        import ddp_shm  # noqa: F401 - it registers itself
    torch.set_num_threads(1)
    dist.init_process_group("ddp_shm" if trainer == "shm" else "gloo")
    layout = torch.channels_last if row.layout == "channels_last" else torch.contiguous_format
    torch.manual_seed(1)
    net = torch.nn.parallel.DistributedDataParallel(net_of(row).to(memory_format=layout))
    if trainer == "compiled":
        net = torch.compile(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.005, momentum=0.9, weight_decay=1e-4, fused=True)
    count = row.batch * WINDOW * row.windows
    images, labels = torch.randint(256, (count, *row.shape), dtype=torch.uint8), torch.randint(10, (count,))
    order = torch.randperm(count)
    with open(out if dist.get_rank() == 0 else os.devnull, "w", encoding="utf-8") as file:
        begin = time.perf_counter()
        for number in range(WINDOW * row.windows):
            index = order[number * row.batch : (number + 1) * row.batch]
            x = ((images[index].float() / 255 - 0.5) / 0.25).to(memory_format=layout)
            with torch.autocast("cpu", torch.bfloat16, enabled=row.level == "O1"):
                loss = torch.nn.functional.cross_entropy(net(x), labels[index])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if (number + 1) % WINDOW == 0:
                now = time.perf_counter()
                file.write(f"{1000 * (now - begin) / WINDOW}\n")
                begin = now
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)


def net_of(row):
    from reference_models import build

    return build(row.net, row.shape[0], row.shape[1], 10)


def write_models(row, folder):
    """net.pt and net.pt2."""
    import torch

    net = net_of(row).train()
    torch.jit.save(torch.jit.script(net), folder / "net.pt")
    any_batch = ({0: torch.export.Dim.AUTO},)
    torch.export.save(torch.export.export(net, (torch.zeros(2, *row.shape),), dynamic_shapes=any_batch), folder / "net.pt2")


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.programs = pathlib.Path(os.environ["DDP_BIN"]).resolve()

    def command(self, trainer, name, row, folder):
        launch = [self.programs / "ddp-launch", "--nproc-per-node", self.options.ranks]
        if trainer in ("gloo", "shm", "compiled"):
            return [*launch, HERE / "steps.py", "--train", trainer, "--row", name, "--out", folder / "out"]
        models = {"ours": f"name: {row.net}", "script": "script: ../net.pt", "export": "export: ../net.pt2"}
        steps = WINDOW * row.windows
        job = JOB.format(
            side=row.shape[1], channels=row.shape[0], batch=row.batch, count=row.batch * steps * self.options.ranks, model=models[trainer],
            layout=row.layout, level=row.level, window=WINDOW, steps=steps,
        )  # fmt: skip
        (folder / "job.yaml").write_text(job, encoding="utf-8")
        return [*launch, "job.yaml"]

    def measure(self, trainer, name, row, number):
        """The median ms per step of one run."""
        folder = self.folder / f"{trainer}-{number}"
        folder.mkdir()
        environment = os.environ | shm_variables(self.programs) | {"PYTHON_EXEC": sys.executable}
        command = list(map(str, self.command(trainer, name, row, folder)))
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f"not run: {name}, {TRAINERS[trainer]}, exit code {done.returncode}\n{done.stdout}{done.stderr}", file=sys.stderr)
            return None
        if (folder / "out").exists():
            times = [float(line) for line in (folder / "out").read_text(encoding="utf-8").split()]
        else:
            lines = map(json.loads, (folder / "runs/job/metrics.jsonl").read_text(encoding="utf-8").splitlines())
            batch = row.batch * self.options.ranks
            times = [1000 * batch / line["images_per_s"] for line in lines if line["kind"] == "step"]
        return statistics.median(times[WARM_UP:])

    def run(self, name, row):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=self.options.folder))
        write_models(row, self.folder)
        taken = {trainer: [] for trainer in self.options.trainers}
        for number in range(self.options.times):
            for trainer, of_trainer in taken.items():
                if (time_of_run := self.measure(trainer, name, row, number)) is not None:
                    of_trainer.append(time_of_run)
        taken = {trainer: times for trainer, times in taken.items() if times}
        return [{"row": name, "trainer": trainer, "ms": times, "load": os.getloadavg()[0]} for trainer, times in taken.items()]


def show(row, rows):
    medians = {one["trainer"]: statistics.median(one["ms"]) for one in rows}
    print(f"{rows[0]['row']}, {row.layout}, {'bf16 autocast' if row.level == 'O1' else 'fp32'}, load {rows[0]['load']:.1f}", flush=True)
    for one in rows:
        median, times = medians[one["trainer"]], one["ms"]
        ratio = f"{median / medians['ours']:7.2f}x" if "ours" in medians else ""
        print(f"  {TRAINERS[one['trainer']]:30}{median:9.2f} ms  ({min(times):.2f} to {max(times):.2f}){ratio}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--trainers", type=lambda text: text.split(","), default=list(TRAINERS))
    parser.add_argument("--json", type=pathlib.Path)
    for name in ("train", "row", "out"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        return train(options.train, ROWS[options.row], options.out)
    if options.ranks > len(os.sched_getaffinity(0)):
        print(f"{options.ranks} ranks share {len(os.sched_getaffinity(0))} CPUs: their threads take turns")
    rows = []
    with tempfile.TemporaryDirectory(prefix="ddp-bench-") as options.folder:
        bench = Bench(options, options.folder)
        for name in options.rows.split(","):
            if of_net := bench.run(name, ROWS[name]):
                show(ROWS[name], of_net)
            rows += of_net
            if options.json:
                options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
