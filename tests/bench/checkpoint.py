"""Checkpoints side by side in one run, of the same size: how long training stands still for a save (ddp-worker's, torch.save with fsync,
torch.distributed.checkpoint.async_save), how fast it is written (beside dd with fsync), and how fast it is read and verified. In turn,
A B C D, and medians. Figures, no test: nothing is judged here.

Run by hand: PYTHON tests/bench/checkpoint.py build/release/tests/save_rate [--megabytes 200] [--rounds 7] [--folder DIR] [--json FILE]
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time


def play_torch(args):
    """One round of torch.save and one of async_save, each to the end; a line of JSON."""
    import os

    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "RANK": "0", "WORLD_SIZE": "1"}
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    count = args.megabytes * 1_000_000 // 2 // (4 << 20)
    state = {kind: {f"layer{i}": torch.randn(1 << 20) for i in range(count)} for kind in ("model", "optimizer")}
    file = args.folder / "torch.pt"
    for number in range(2):  # the first one of each is not counted: threads and caches begin
        start = time.perf_counter()
        with file.open("wb") as stream:
            torch.save(state, stream)
            stream.flush()
            os.fsync(stream.fileno())
        plain = time.perf_counter() - start
        file.unlink()
        start = time.perf_counter()
        future = dcp.async_save(state, checkpoint_id=str(args.folder / f"dcp{number}"))
        stall = time.perf_counter() - start
        future.result()
        whole = time.perf_counter() - start
        shutil.rmtree(args.folder / f"dcp{number}")
    print(json.dumps({"torch_save": plain, "async_stall": stall, "async_whole": whole}))


def measure_ours(args):
    """The last of two saves: the first one's arena is as warm as later ones', its files are not."""
    folder = args.folder / "run"
    lines = subprocess.run([args.save_rate, folder, str(args.megabytes), "2"], check=True, capture_output=True, text=True).stdout.splitlines()
    shutil.rmtree(folder)
    return json.loads(lines[-1])


def measure_dd(args):
    file = args.folder / "dd"
    start = time.perf_counter()
    subprocess.run(["dd", "if=/dev/zero", f"of={file}", "bs=4M", f"count={args.megabytes // 4}", "conv=fsync"], check=True, capture_output=True)
    taken = time.perf_counter() - start
    size = file.stat().st_size
    file.unlink()
    return size / taken / 1e6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("save_rate", type=pathlib.Path)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", type=pathlib.Path, help="on the disk that is to be measured; else a temporary one")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--play", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.play:
        return play_torch(args)
    args.save_rate = args.save_rate.resolve()
    rounds = []
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="bench-") as folder:
        args.folder = pathlib.Path(folder)
        for number in range(args.rounds):
            ours = measure_ours(args)
            play = [sys.executable, "-B", __file__, "--play", "--megabytes", str(args.megabytes), "--folder", folder, str(args.save_rate)]
            theirs = json.loads(subprocess.run(play, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
            rounds.append({
                "stall_ms": ours["stall"] * 1e3,
                "other_ranks_digest_ms": ours["compare"] * 1e3,  # while rank 0 copies
                "torch_save_ms": theirs["torch_save"] * 1e3,
                "async_save_stall_ms": theirs["async_stall"] * 1e3,
                "write_mb_s": ours["bytes"] / ours["write"] / 1e6,
                "async_save_write_mb_s": args.megabytes / theirs["async_whole"],
                "dd_mb_s": measure_dd(args),
                "verified_load_mb_s": ours["bytes"] / ours["load"] / 1e6,
            })  # fmt: skip
            print(f"round {number + 1}: " + ", ".join(f"{name} {value:.1f}" for name, value in rounds[-1].items()), flush=True)
    medians = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
    print(f"\n{args.megabytes} MB of state, medians of {args.rounds} rounds in turn")
    for name, value in medians.items():
        print(f"{name:>24}: {value:9.1f}")
    print(f"the loop stands still {medians['torch_save_ms'] / medians['stall_ms']:.1f} times shorter than for torch.save with fsync, "
          f"{medians['async_save_stall_ms'] / medians['stall_ms']:.1f} times shorter than for async_save; "
          f"written at {100 * medians['write_mb_s'] / medians['dd_mb_s']:.0f} % of dd's rate")  # fmt: skip
    if args.json:
        args.json.write_text(json.dumps({"medians": medians, "rounds": rounds}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
