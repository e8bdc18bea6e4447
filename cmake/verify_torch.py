"""Is an unpacked LibTorch whole? verify_torch.py DIRECTORY VERSION

Compares every file with the size its wheel recorded, the version with the wanted one, and loads libtorch_cpu.so, which needs
its CUDA libraries beside it. One line on stderr and exit 1 when something is wrong.
"""

import csv
import ctypes
import pathlib
import sys


def problems(directory: pathlib.Path, version: str):
    records = list(directory.glob("*.dist-info/RECORD"))
    if not any(record.parent.name == f"torch-{version}.dist-info" for record in records):
        yield f"{directory}: no torch {version} here"
        return
    for record in records:
        with record.open(newline="") as lines:
            for name, _, size in csv.reader(lines):
                path = directory / name
                if name.startswith("../"):
                    continue  # scripts, which the unpacking leaves elsewhere
                if not path.is_file():
                    yield f"{path}: missing"
                elif size and path.stat().st_size != int(size):
                    yield f"{path}: {path.stat().st_size} bytes, the wheel has {size}"
    try:
        ctypes.CDLL(str(directory / "torch/lib/libtorch_cpu.so"))
    except OSError as error:
        yield f"libtorch_cpu.so cannot be loaded: {error}"


found = list(problems(pathlib.Path(sys.argv[1]), sys.argv[2]))
for problem in found[:5]:
    print(f"verify_torch: {problem}", file=sys.stderr)
sys.exit(1 if found else 0)
