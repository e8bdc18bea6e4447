"""Loaders side by side in one run, until a whole batch of float32 lies in memory: ddp-worker's as it trains on a CPU, its data.resident
on the CPU, torch's DataLoader with torchvision's v2 transforms on tensors (the best of 0, 1 and 2 workers), and NVIDIA DALI on the CPU
(the best of 1 and 2 threads) where a Python that has it is given; for mosaics that of ultralytics (the best of 0, 1 and 2 workers), with
all images in memory for both.
In turn, A B A B, and medians; images per second, and per second of the CPU with all child processes.
Figures, no test: nothing is judged here. FFCV is left out: it comes as source alone that wants OpenCV's headers, so pip does not install it.

Run by hand: PYTHON tests/bench/loader.py build/release/tests/loader_rate [--dali PYTHON] [--detector PYTHON] [--rounds 5] [--seconds 3] [--json FILE]
"""

import argparse
import gzip
import json
import lzma
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

DATA = pathlib.Path(__file__).resolve().parents[3] / "shared/data"
WARM_UP = 8  # batches that do not count
SETS = {
    "mnist": {"batch": 128, "what": "MNIST: normalise"},
    "cifar10": {"batch": 128, "what": "CIFAR-10: random crop of 32 with padding 4, flip, normalise"},
    "image-folder": {"batch": 32, "what": "JPEG folder: random-resized-crop to 224, flip, normalise"},
    "coco": {"batch": 16, "what": "coco128, images in memory: mosaic, random-perspective, hsv, flip, 640 x 640"},
}
MEAN = {"mnist": [0.1307], "cifar10": [0.4914, 0.4822, 0.4465], "image-folder": [0.485, 0.456, 0.406]}
DEVIATION = {"mnist": [0.3081], "cifar10": [0.2470, 0.2435, 0.2616], "image-folder": [0.229, 0.224, 0.225]}
CLASSES, COPIES = 8, 8  # of the JPEG folder
KEPT = 400  # MiB of decoded images: all of coco128


# --- the others: this file as a program of its own --------------------------------------------------------------------------------


def cpu_seconds():
    """Of this process and of those that it started and that live."""
    total = time.process_time()
    for children in pathlib.Path("/proc/self/task").glob("*/children"):
        for pid in children.read_text().split():
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def rate(batches, seconds):
    """A line of JSON of batches that have no end; each is how many images it holds."""
    for _ in range(WARM_UP):
        next(batches)
    images, cpu, begin = 0, cpu_seconds(), time.perf_counter()
    while time.perf_counter() - begin < seconds:
        images += next(batches)
    taken = time.perf_counter() - begin
    print(json.dumps({"images": images, "seconds": taken, "cpu_seconds": cpu_seconds() - cpu}), flush=True)


def read_bytes(args):
    """A set in memory: bytes [count, channels, height, width], and labels."""
    import numpy

    if args.set == "mnist":
        images = numpy.fromfile(args.root / "train-images-idx3-ubyte", numpy.uint8)[16:].reshape(-1, 1, 28, 28)
        return images, numpy.fromfile(args.root / "train-labels-idx1-ubyte", numpy.uint8)[8:]
    records = numpy.concatenate([numpy.fromfile(path, numpy.uint8) for path in sorted(args.root.glob("data_batch_*.bin"))]).reshape(-1, 3073)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]


def play_torch(args):
    import torch
    import torchvision
    from torchvision.transforms import v2

    ways = {"cifar10": [v2.RandomCrop(32, padding=4)], "image-folder": [v2.RandomResizedCrop(224, antialias=True)], "mnist": []}
    flip = [] if args.set == "mnist" else [v2.RandomHorizontalFlip()]
    normalise = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN[args.set], DEVIATION[args.set])]
    transform = v2.Compose(ways[args.set] + flip + normalise)

    if args.set == "image-folder":
        read = lambda path: torchvision.io.decode_image(path, torchvision.io.ImageReadMode.RGB)
        data = torchvision.datasets.ImageFolder(args.root / "train", transform, loader=read)
    else:
        images, labels = (torch.from_numpy(array) for array in read_bytes(args))

        class InMemory(torch.utils.data.Dataset):
            def __len__(self):
                return len(labels)

            def __getitem__(self, index):
                return transform(images[index]), labels[index]

        data = InMemory()
    kinds = {"num_workers": args.workers, "persistent_workers": args.workers > 0}
    loader = torch.utils.data.DataLoader(data, args.batch, shuffle=True, drop_last=True, **kinds)

    def batches():
        while True:
            for images, _ in loader:
                assert images.dtype == torch.float32
                yield len(images)

    rate(batches(), args.seconds)


def play_dali(args):
    import numpy
    from nvidia.dali import fn, pipeline_def, types

    numbers = {
        "dtype": types.FLOAT,
        "mean": [255 * value for value in MEAN[args.set]],
        "std": [255 * value for value in DEVIATION[args.set]],
        "output_layout": "CHW",
    }

    @pipeline_def(batch_size=args.batch, num_threads=args.workers, device_id=None, seed=1)
    def files():
        encoded, labels = fn.readers.file(file_root=str(args.root / "train"), random_shuffle=True)
        images = fn.decoders.image_random_crop(encoded, device="cpu", random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3])
        images = fn.resize(images, resize_x=224, resize_y=224, interp_type=types.INTERP_LINEAR, antialias=True)
        return fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), **numbers), labels

    @pipeline_def(batch_size=args.batch, num_threads=args.workers, device_id=None, seed=1)
    def memory():
        images, labels = fn.external_source(shuffled, num_outputs=2, layout=["HWC", ""])
        if args.set == "cifar10":
            places = {f"crop_pos_{axis}": fn.random.uniform(range=[0.0, 1.0]) for axis in "xy"}
            return fn.crop_mirror_normalize(images, crop=(32, 32), mirror=fn.random.coin_flip(), **places, **numbers), labels
        return fn.crop_mirror_normalize(images, **numbers), labels

    def shuffled():
        while True:
            order = random.permutation(len(labels))
            for first in range(0, len(order) - args.batch + 1, args.batch):
                index = order[first : first + args.batch]
                yield images[index], labels[index]

    if args.set == "image-folder":
        pipeline = files()
    else:
        random = numpy.random.default_rng(1)
        images, labels = read_bytes(args)
        images = numpy.ascontiguousarray(images.transpose(0, 2, 3, 1))
        if args.set == "cifar10":
            images = numpy.pad(images, ((0, 0), (4, 4), (4, 4), (0, 0)))
        shuffled = shuffled()
        pipeline = memory()
    pipeline.build()

    def batches():
        while True:
            images = numpy.asarray(pipeline.run()[0].as_tensor())
            assert images.dtype == numpy.float32
            yield len(images)

    rate(batches(), args.seconds)


def play_ultralytics(args):
    os.environ |= {"YOLO_OFFLINE": "true", "YOLO_CONFIG_DIR": str(args.root)}
    # pylint: disable=import-outside-toplevel
    import torch
    from ultralytics.cfg import get_cfg
    from ultralytics.data.build import build_dataloader, build_yolo_dataset

    torch.set_num_threads(1)  # with more of them it takes more of the CPU, and is no sooner
    # The rest is as they train by default: mosaic 1, scale 0.5, translate 0.1, hsv, flip 0.5.
    config = get_cfg(overrides={"task": "detect", "imgsz": 640, "cache": "ram"})
    names = dict(enumerate((args.root / "names.txt").read_text(encoding="utf-8").splitlines()))
    data = {"names": names, "nc": len(names), "channels": 3}
    dataset = build_yolo_dataset(config, str(args.root / "images/train2017"), args.batch, data)
    loader = build_dataloader(dataset, args.batch, args.workers, shuffle=True)

    def batches():
        while True:
            for batch in loader:
                images = batch["img"].float() / 255
                assert images.dtype == torch.float32 and images.shape[1:] == (3, 640, 640)
                yield len(images)

    rate(batches(), args.seconds)


# --- measuring --------------------------------------------------------------------------------------------------------------------


def prepare(name, folder):
    """The set as all of them read it fast: not packed, and the JPEG files of every size in folders of classes."""
    root = folder / name
    root.mkdir()
    if name == "mnist":
        for path in (DATA / "mnist").glob("*.gz"):
            (root / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    elif name == "cifar10":
        for path in (DATA / "cifar10").glob("*.xz"):
            (root / path.stem).write_bytes(lzma.decompress(path.read_bytes()))
    elif name == "coco":  # theirs writes beside the labels
        shutil.copytree(DATA / "coco128", root, dirs_exist_ok=True)
    else:
        for half, copies in (("train", COPIES), ("val", 1)):
            for number, path in enumerate(sorted((DATA / "coco128/images/train2017").glob("*.jpg"))):
                to = root / half / f"class{number % CLASSES}"
                to.mkdir(parents=True, exist_ok=True)
                for copy in range(copies):
                    shutil.copyfile(path, to / f"{path.stem}-{copy}.jpg")
    return root


def commands_of(name, root, args):
    """By the loader and its number of workers, 0 where there is one way."""
    keys = [name, root, SETS[name]["batch"], args.seconds]
    commands = {("ddp-worker", 0): [args.loader_rate, *keys]}
    others = [(sys.executable, "torch", (0, 1, 2)), (args.dali, "dali", (1, 2))]
    if name in MEAN and name != "image-folder":
        commands["resident", 0] = [args.loader_rate, *keys, "resident"]
    if name == "coco":
        commands["ddp-worker", 0] += [2, KEPT]
        others = [(args.detector, "ultralytics", (0, 1, 2))]
    for python, player, choices in others:
        for workers in choices if python else ():
            words = zip(("--set", "--root", "--batch", "--seconds"), keys)
            commands[player, workers] = [python, "-B", __file__, "--play", player, "--workers", workers, *(word for pair in words for word in pair)]
    return commands


def run(command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"loader.py: {command} ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(name, root, args):
    samples = {}
    commands = commands_of(name, root, args)
    for _ in range(args.rounds):
        for key, command in commands.items():
            samples.setdefault(key, []).append(run(command))
    rows = []
    for (loader, workers), found in samples.items():
        rates = [sample["images"] / sample["seconds"] for sample in found]
        per_core = [sample["images"] / sample["cpu_seconds"] for sample in found]
        rows.append({"set": name, "loader": loader, "workers": workers, "rates": rates, "images_per_s": statistics.median(rates),
                     "images_per_core_s": statistics.median(per_core)})  # fmt: skip
    return rows


def show(rows):
    """The best of each loader, in either figure."""
    for name in dict.fromkeys(row["set"] for row in rows):
        print(f"\n{SETS[name]['what']}, batches of {SETS[name]['batch']}")
        best = {}
        for row in rows:
            if row["set"] != name:
                continue
            most = best.get(row["loader"], row)
            per_core = max(row["images_per_core_s"], most["images_per_core_s"])
            best[row["loader"]] = max(row, most, key=lambda one: one["images_per_s"]) | {"images_per_core_s": per_core}
        ours = best["ddp-worker"]
        titles = {"ddp-worker": "ddp-worker", "resident": "data.resident: true", "torch": "DataLoader, {} workers", "dali": "DALI on the CPU, {} threads", "ultralytics": "ultralytics, {} workers"}
        for loader, row in best.items():
            ratios = (ours[key] / row[key] for key in ("images_per_s", "images_per_core_s"))
            rates = f"{row['images_per_s']:>9,.0f} images/s ({min(row['rates']):,.0f} to {max(row['rates']):,.0f})"
            text = f"  {titles[loader].format(row['workers']):<30}{rates:<44}{row['images_per_core_s']:>9,.0f} per core"
            print(text if row is ours else text + "   ours is {:.2f}x, per core {:.2f}x".format(*ratios))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("loader_rate", nargs="?")
    parser.add_argument("--dali", help="a Python that imports nvidia.dali")
    parser.add_argument("--detector", help="a Python that imports ultralytics")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="of each measurement")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--json", help="a file for the figures")
    parser.add_argument("--play", choices=["torch", "dali", "ultralytics"], help=argparse.SUPPRESS)
    for name, kind in (("set", str), ("root", pathlib.Path), ("batch", int), ("workers", int)):
        parser.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.play:
        return {"torch": play_torch, "dali": play_dali, "ultralytics": play_ultralytics}[args.play](args)
    if not DATA.is_dir():
        sys.exit(f"loader.py: {DATA} is missing: it holds the real MNIST, CIFAR-10 and JPEG files that this measures with.")
    if not args.dali:
        print("no Python with nvidia.dali is given, so DALI is not measured")
    if not args.detector:
        print("no Python with ultralytics is given, so mosaics are measured with ours alone")
    print(f"load average {os.getloadavg()[0]:.1f}, {len(os.sched_getaffinity(0))} CPUs; medians of {args.rounds} (least to most)")
    rows, share = [], None
    names = args.sets.split(",")
    with tempfile.TemporaryDirectory(prefix="ddp-bench-") as folder:
        for name in names:
            root = prepare(name, pathlib.Path(folder))
            rows += measure(name, root, args)
            if name == "image-folder":  # on one thread, that other threads' time is not taken for its own
                alone = [run([args.loader_rate, name, root, SETS[name]["batch"], args.seconds, 0]) for _ in range(args.rounds)]
                share = statistics.median(sample["libjpeg_seconds"] / sample["seconds"] for sample in alone)
    show(rows)
    if share is not None:
        print(f"\nOf ddp-worker's time for the JPEG folder, on one thread, {100 * share:.0f} % is spent in libjpeg-turbo.")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"rows": rows, "libjpeg_share": share}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
