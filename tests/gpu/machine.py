"""What the kit runs on: programs, torch, GPUs; and how it writes. Nothing here makes this process use a GPU: it would be seen as its owner."""

import ctypes
import dataclasses
import importlib.util
import json
import os
import pathlib
import platform
import runpy
import subprocess
import sys

KIT = pathlib.Path(__file__).resolve().parent.parent.parent  # or the checkout

PROBE = """
import json, torch
count = torch.cuda.device_count()
print(json.dumps({
    "torch": torch.__version__, "cuda": torch.version.cuda, "count": count,
    "nccl": ".".join(map(str, torch.cuda.nccl.version())) if count else None,
    "gpus": [[p.name, f"{p.major}.{p.minor}", p.total_memory] for p in map(torch.cuda.get_device_properties, range(count))],
}))
"""


@dataclasses.dataclass
class Machine:
    device: str  # cpu or cuda
    programs: pathlib.Path  # of ddp-launch and ddp-worker
    torch: str
    cuda: str
    nccl: str
    driver: str
    gpus: list  # name, compute capability, bytes
    rehearsal: bool = False  # on the CPU, cases for GPUs too

    def facts(self):
        return {
            "torch": self.torch, "cuda": self.cuda, "nccl": self.nccl, "driver": self.driver,
            "gpus": [f"{name} ({capability}, {size >> 20} MiB)" for name, capability, size in self.gpus],
            "python": platform.python_version(), "host": platform.node(), "cores": len(os.sched_getaffinity(0)),
        }  # fmt: skip


def find_torch():
    """The directory that holds torch/ and nvidia/."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        sys.exit(f"{sys.executable} imports no torch. Give a Python that does: --python, or --site-packages.")
    return pathlib.Path(spec.origin).parents[1]


def driver_version():
    try:
        words = pathlib.Path("/proc/driver/nvidia/version").read_text(encoding="utf-8").splitlines()[0].split()
    except (OSError, IndexError):
        return None
    return next((word for word in words if word[0].isdigit() and "." in word), "?")


def used_memory(index=0):
    """Bytes of a GPU that are taken, by anybody, as the driver tells; None where it does not. Order: by PCI bus."""

    class Memory(ctypes.Structure):
        _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]

    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    handle, memory = ctypes.c_void_p(), Memory()
    if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)):
        return None
    return None if nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) else memory.used


LIMIT = 90  # seconds: of the first import of torch from a cold disk


def output_of(*command):
    try:
        run = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        sys.exit(f"{command[0]} does not end within {LIMIT} s. Does nvidia-smi?")
    except OSError as error:
        sys.exit(f"{command[0]} does not run here: {error.strerror}. Is the kit whole?")
    if run.returncode != 0:
        sys.exit(f"{command[0]} does not run here (exit code {run.returncode}):\n{run.stderr[-2000:]}")
    return run.stdout


def write_whole(path, text):
    """All of it, or nothing. Errors: OSError."""
    new = path.with_name(path.name + ".new")
    try:
        new.write_text(text, encoding="utf-8")
        new.rename(path)
    finally:
        new.unlink(missing_ok=True)


def look(device):
    """Sets the environment of all programs, too. `device` is cpu, cuda or auto: cuda where torch sees a GPU."""
    site = find_torch()
    # The kit's programs have no directory of their own to look for LibTorch.
    paths = [str(site / "torch/lib"), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    os.environ["LD_LIBRARY_PATH"] = ":".join(paths)
    programs = pathlib.Path(os.environ.get("DDP_BIN") or KIT / "bin").resolve()
    os.environ["DDP_BIN"] = str(programs)
    output_of(programs / "ddp-worker", "--version")
    output_of(programs / "ddp-launch", "--version")
    if device == "cpu":
        version = runpy.run_path(str(site / "torch/version.py"))  # an import of torch takes seconds
        found = {"torch": version["__version__"], "cuda": version["cuda"], "nccl": None, "count": 0, "gpus": []}
    else:
        found = json.loads(output_of(sys.executable, "-c", PROBE).splitlines()[-1])
    if device == "auto":
        device = "cuda" if found["count"] else "cpu"
    if device == "cuda" and not found["count"]:
        sys.exit(f"torch {found['torch']} of {site} sees no GPU (driver: {driver_version() or 'none'}). Compare with nvidia-smi, or give --device cpu.")
    return Machine(device, programs, found["torch"], found["cuda"], found["nccl"], driver_version(), found["gpus"])
