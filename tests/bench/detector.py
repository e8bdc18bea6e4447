"""A training step of a detector, ddp-worker beside ultralytics in a plain loop of Python's DDP: the same model, data, threads, image
size, batch, in turn, and medians. Without the loader: ours loads between the steps and tells what it waited, theirs has its batches in
memory. Figures, no test: nothing is judged here.

Run by hand: PYTHON tests/bench/detector.py build/release --data COCO128 [--model yolov5n] [--size 160] [--batch 16] [--ranks 2] [--bf16]
[--rounds 5] [--json FILE], with a PYTHON that imports ultralytics.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

STEPS = 8  # of an epoch
JOB = """version: 1
name: bench
output: {folder}
data: {{name: coco, root: {data}, image_size: {size}, batch: {batch}, train_size: {samples}, workers: 0, args: {{val: images/train2017}}}}
task: {{name: detection}}
model: {{name: {model}}}
loss: {{name: detection}}
optimizer: {{lr: 0.001, momentum: 0.937, nesterov: true, weight_decay: 5e-4, decay_norms_and_biases: false}}
amp: {{level: {level}}}
train: {{epochs: 4, log_every: 1000}}
eval: {{every: 0}}
checkpoint: {{every: 0}}
"""


def play_python(args):
    """One rank of their loop; rank 0 prints the seconds of a step, median of all but the first epoch's."""
    os.environ["YOLO_OFFLINE"] = "true"
    # pylint: disable=import-outside-toplevel
    import types

    import torch
    import torch.distributed as dist
    from ultralytics.nn.tasks import DetectionModel
    from ultralytics.utils.loss import v8DetectionLoss

    torch.set_num_threads(max(1, os.cpu_count() // args.ranks))
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    plain = DetectionModel(f"{args.model}.yaml", nc=80, verbose=False)
    if args.channels_last:
        plain.to(memory_format=torch.channels_last)
    plain.args = types.SimpleNamespace(box=7.5, cls=0.5, dfl=1.5)
    criterion = v8DetectionLoss(plain)
    model = torch.nn.parallel.DistributedDataParallel(plain)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.937, nesterov=True, weight_decay=5e-4)
    own = args.batch // args.ranks
    files = sorted((pathlib.Path(args.data) / "labels/train2017").iterdir())
    labels = [[[float(word) for word in line.split()] for line in file.read_text().splitlines()] for file in files]
    times = []
    for step in range(4 * STEPS):
        first = (step % STEPS * args.ranks + dist.get_rank()) * own
        rows = [[image, *row] for image in range(own) for row in labels[(first + image) % len(labels)]]
        boxes = torch.tensor(rows).reshape(-1, 6)
        images = torch.rand(own, 3, args.size, args.size)
        if args.channels_last:
            images = images.contiguous(memory_format=torch.channels_last)
        batch = {"batch_idx": boxes[:, 0], "cls": boxes[:, 1:2], "bboxes": boxes[:, 2:]}
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=args.bf16):
            loss, _ = criterion(model(images), batch)
        loss.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.perf_counter() - start)
    if dist.get_rank() == 0:
        print(json.dumps(statistics.median(times[STEPS:])))
    dist.destroy_process_group()


def measure_python(args, *more):
    own = [sys.executable, __file__, args.build, "--play", "--data", args.data, "--model", args.model, "--size", str(args.size), *more]
    own += ["--batch", str(args.batch), "--ranks", str(args.ranks), *(["--bf16"] if args.bf16 else [])]
    base = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29531", "WORLD_SIZE": str(args.ranks)}
    ranks = [subprocess.Popen(own, env=base | {"RANK": str(rank)}, stdout=subprocess.PIPE, text=True) for rank in range(args.ranks)]
    outputs = [rank.communicate()[0] for rank in ranks]
    return json.loads(outputs[0])


def measure_ours(args):
    with tempfile.TemporaryDirectory() as folder:
        job = pathlib.Path(folder) / "job.yaml"
        level = "O1" if args.bf16 else "O0"
        job.write_text(JOB.format(folder=folder, samples=args.batch * STEPS, level=level, **vars(args)))
        command = [pathlib.Path(args.build) / "ddp-launch", "--nproc-per-node", str(args.ranks), job]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    epochs = re.findall(r"\| ([\d.]+) s, data wait ([\d.]+) %", said)
    return statistics.median(float(seconds) * (1 - float(wait) / 100) / STEPS for seconds, wait in epochs[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--data", required=True)
    parser.add_argument("--model", default="yolov5n")
    parser.add_argument("--size", type=int, default=160)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--play", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--channels-last", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.play:
        play_python(args)
        return
    rounds = []
    for number in range(args.rounds):
        rounds.append({"ours": measure_ours(args), "python": measure_python(args), "python_nhwc": measure_python(args, "--channels-last")})
        print(f"round {number + 1}:", ", ".join(f"{name} {1000 * value:.0f} ms" for name, value in rounds[-1].items()), flush=True)
    middle = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    print(f"\na step of {args.batch} images of {args.size} pixels, {args.model}, {args.ranks} ranks, medians of {args.rounds} rounds in turn")
    for name, value in middle.items():
        print(f"{name:>14}: {1000 * value:.1f} ms")
    print(f"ours takes {middle['python'] / middle['ours']:.2f} times less than Python, {middle['python_nhwc'] / middle['ours']:.2f} times less than Python with channels-last")
    if args.json:
        args.json.write_text(json.dumps({"rounds": rounds, "medians": middle}))


if __name__ == "__main__":
    main()
