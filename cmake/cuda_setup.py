"""What make.sh wants to know of CUDA: cuda_setup.py COMMAND DIRECTORY, where DIRECTORY holds torch/ and nvidia/ side by side.

  choose    ON, OFF or AUTO, for CMake: DDP_CUDA's word, else whether there is an NVIDIA driver. What speaks against it is one line on
            stderr: with DDP_CUDA=ON the end (exit 1), else CUDA is left out.
  wheels    the wheels of NVIDIA that this torch asks for, as pip's requirements, with the headers that it does not ask for
  whole     exit 1 and one line that names the wheel when a library of libtorch_cuda.so is missing
  describe  driver, GPUs and the libraries' size in one line

DDP_SYSTEM_ROOT stands in for / in tests, DDP_PATIENCE for the seconds a program may take; nvidia-smi and ldconfig are those of the PATH.
"""

import ctypes
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(os.environ.get("DDP_SYSTEM_ROOT", "/"))
OLDEST_DRIVER = {"11": 450, "12": 525, "13": 580}  # of a CUDA, by its major number: CUDA's release notes
PATIENCE = float(os.environ.get("DDP_PATIENCE", "60"))  # seconds
WITHOUT = "or go without: DDP_CUDA=OFF"
# Names of the wheels of CUDA 13 by the beginning of their libraries' names.
WHEELS = {
    "libcudart": "nvidia-cuda-runtime", "libcupti": "nvidia-cuda-cupti", "libnvrtc": "nvidia-cuda-nvrtc", "libcublas": "nvidia-cublas",
    "libcudnn": "nvidia-cudnn-cu13", "libnccl": "nvidia-nccl-cu13", "libcusparseLt": "nvidia-cusparselt-cu13",
    "libnvshmem": "nvidia-nvshmem-cu13", "libcufile": "nvidia-cufile", "libcufft": "nvidia-cufft", "libcurand": "nvidia-curand",
    "libcusolver": "nvidia-cusolver", "libcusparse": "nvidia-cusparse", "libnvJitLink": "nvidia-nvjitlink", "libnvToolsExt": "nvidia-nvtx",
}  # fmt: skip


def output_of(*command):
    """What it prints; nothing when it is not there, fails, or does not answer: a sick GPU holds nvidia-smi for ever."""
    try:
        run = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return run.stdout if run.returncode == 0 else ""


def driver():
    """Its version; "?" where only its library is known (WSL, some containers); None without one."""
    try:
        text = (ROOT / "proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "?" if "libcuda.so.1" in output_of("ldconfig", "-p") else None
    found = re.search(r"\b(\d+\.\d+(\.\d+)*)\b", text.splitlines()[0] if text else "")
    return found[1] if found else "?"


def gpus():
    """Model and compute capability of each; empty where nvidia-smi does not tell."""
    lines = output_of("nvidia-smi", "--query-gpu=name,compute_cap", "--format=csv,noheader").splitlines()
    found = [re.fullmatch(r"(.*), *(\d+)\.(\d+)", line.strip()) for line in lines]
    return [(match[1], (int(match[2]), int(match[3]))) for match in found if match]


class Torch:
    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.libraries = self.directory / "torch/lib"
        file = self.directory / "torch/version.py"
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        version = re.search(r"__version__ = '([^']*)'", text)
        self.version = version[1] if version else "of an unknown version"
        cuda = re.search(r"(?m)^cuda\b.*= '([^']*)'", text)
        self.cuda = cuda[1] if cuda else None

    def architectures(self):
        """Compute capabilities that its kernels are built for; empty where that is not known."""
        try:
            found = re.search(rb"\0((?:sm_\d+ ?)+)(?:compute_\d+ ?)*\0", (self.libraries / "libtorch_python.so").read_bytes())
        except OSError:
            found = None
        numbers = re.findall(r"sm_(\d+)", found[1].decode()) if found else []
        return sorted((int(number[:-1]), int(number[-1])) for number in numbers)

    def metadata(self):
        files = list(self.directory.glob("torch-*.dist-info/METADATA"))
        if len(files) != 1:
            sys.exit(f"cuda_setup: {self.directory} holds {len(files)} torch-*.dist-info/METADATA, not one: the wheel is not whole")
        return files[0].read_text(encoding="utf-8")


def problems(torch, version):
    if torch.cuda is None or not (torch.libraries / "libtorch_cuda.so").exists():
        yield f"{torch.directory} holds torch {torch.version}, which is built without CUDA: install one with it (+cu130), {WITHOUT}"
        return
    oldest = OLDEST_DRIVER.get(torch.cuda.split(".")[0])
    if version not in (None, "?") and oldest and int(version.split(".")[0]) < oldest:
        yield f"the NVIDIA driver is {version}, CUDA {torch.cuda} of torch {torch.version} needs {oldest} or newer: update the driver, {WITHOUT}"
    built = torch.architectures()
    # A kernel runs on the GPUs of its major number from its minor number on.
    names = [f"{name} ({a}.{b})" for name, (a, b) in gpus() if built and not any(a == major and b >= minor for major, minor in built)]
    if names and len(names) == len(gpus()):
        known = ", ".join(f"{a}.{b}" for a, b in built)
        yield f"torch {torch.version} has no kernels for {', '.join(names)}, it has them for compute capability {known}: take another GPU, {WITHOUT}"


def choose(torch):
    wish = os.environ.get("DDP_CUDA", "")
    if wish not in ("", "ON", "OFF"):
        sys.exit(f"make.sh: DDP_CUDA is '{wish}'. Give ON or OFF, or leave it out: then CUDA is taken where an NVIDIA driver is.")
    version = driver()
    if wish == "OFF" or (not wish and version is None):
        # Without a driver the module is built all the same where its wheels happen to be, so that it is tested.
        print(wish or "AUTO")
        return
    found = list(problems(torch, version))
    for problem in found:
        print(f"make.sh: CUDA: {problem}", file=sys.stderr)
    if found and wish:
        sys.exit(1)
    print("OFF" if found else "ON")


def wheels(torch):
    found = re.findall(r"(?m)^Requires-Dist: ((?:cuda-toolkit|nvidia-)[^;\s]*)(?:;.*Linux.*)?$", torch.metadata())
    if not any("nccl" in name for name in found):
        sys.exit(f"cuda_setup: torch {torch.version} in {torch.directory} asks for no nvidia-nccl: this is not a torch with CUDA wheels")
    # crt: headers that those of the CUDA runtime include, and that torch does not ask for.
    for name in found:
        print(re.sub(r"^cuda-toolkit\[", "cuda-toolkit[crt,", name))


def whole(torch):
    try:
        ctypes.CDLL(str(torch.libraries / "libtorch_cuda.so"), ctypes.RTLD_GLOBAL)
    except OSError as error:
        library = str(error).partition(":")[0]
        # The longest: cusparseLt is not cusparse.
        names = sorted((name for name in WHEELS if library.startswith(name)), key=len)
        wheel = f"install {WHEELS[names[-1]]} beside it" if names else "install all the wheels that torch asks for (nvidia-*) beside it"
        sys.exit(f"make.sh: CUDA: {torch.libraries}/libtorch_cuda.so cannot be loaded ({error}): {wheel}, {WITHOUT}")


def describe(torch):
    version = driver()
    names = [name for name, _ in gpus()]
    shown = [f"{names.count(name)} x {name}" for name in dict.fromkeys(names)]
    there = f"NVIDIA driver {version}, {', '.join(shown) or 'GPUs not asked: no nvidia-smi'}" if version else "no NVIDIA driver on this machine"
    size = sum(path.stat().st_size for part in (torch.directory / "nvidia").rglob("*.so*") for path in [part] if path.is_file())
    size += sum(path.stat().st_size for path in torch.libraries.glob("*cuda*.so"))
    print(f"CUDA {torch.cuda} of torch {torch.version}, {size / 1e9:.1f} GB of libraries in {torch.directory}; {there}")


if __name__ == "__main__":
    commands = {"choose": choose, "wheels": wheels, "whole": whole, "describe": describe}
    if len(sys.argv) != 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](Torch(sys.argv[2]))
