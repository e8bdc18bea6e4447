"""Puts the torch of a Python into the environment of an image, so that pip finds it there: 5 GB that are neither loaded nor copied.

As a wheel for CPUs it is a stand-in, made where PyTorch's own index cannot be reached: the files of that for CUDA without those of CUDA, and
without the packages of NVIDIA; it calls itself 2.15.0+cpu. Its libtorch_cpu.so is still that of the wheel for CUDA. The functions of CUDA that
the profiler in it names are in libraries of ours, and abort. libtorch_python.so cannot be loaded without CUDA, so no Python imports this torch.
"""

import os
import pathlib
import re
import subprocess
import tempfile

OF_CUDA = re.compile(r"lib(torch_cuda|c10_cuda|caffe2_nvrtc|torch_nvshmem).*")
# Packages that the wheel for CPUs does not require.
FOR_CUDA = re.compile(r"(nvidia|cuda|triton)")
# In the Python with torch: the files and directories of site-packages that torch and what it requires have.
FILES = """
import importlib.metadata, site
from packaging.requirements import Requirement
names, todo = set(), [("torch", "")]
seen = set(todo)
while todo:
    package, extra = todo.pop()
    package = importlib.metadata.distribution(package)
    names |= {path.parts[0] for path in package.files if path.parts[0] != ".."}
    for one in map(Requirement, package.requires or ()):
        if one.marker is None or one.marker.evaluate({"extra": extra}):
            new = {(one.name, extra) for extra in one.extras or {""}} - seen
            seen |= new
            todo += new
print(site.getsitepackages()[0], *sorted(names), sep="\\n")
"""


def output_of(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout


def replace(path, text):
    """A file of its own, in place of a link to another's."""
    path.unlink()
    path.write_text(text)


def link_torch(python, site):
    """The packages of `python` in the directory `site`."""
    source, *names = output_of(python, "-c", FILES).splitlines()
    packages = [os.path.join(source, name) for name in names if name != "__pycache__"]
    for name in names:  # an older one, as pip would
        subprocess.run(["rm", "-rf", *site.glob(re.sub(r"-[^-]*\.dist-info$", "-*.dist-info", name))], check=True)
    subprocess.run(["cp", "--archive", "--link", *packages, site], check=True)


def link_cpu_torch(python, site):
    """The same as if it were the wheel for CPUs."""
    link_torch(python, site)
    library = site / "torch/lib"
    for path in site.iterdir():
        if FOR_CUDA.match(path.name):
            subprocess.run(["rm", "-r", path], check=True)
    for path in library.iterdir():
        if OF_CUDA.match(path.name):
            path.unlink()
    make_stubs(library)
    (info,) = site.glob("torch-*.dist-info")
    version = info.name.removeprefix("torch-").removesuffix(".dist-info").partition("+")[0] + "+cpu"
    metadata = re.sub(r"(?m)^Requires-Dist: (nvidia|cuda|triton).*\n", "", (info / "METADATA").read_text())
    replace(info / "METADATA", re.sub(r"(?m)^Version: .*", f"Version: {version}", metadata))
    info.rename(site / f"torch-{version}.dist-info")
    replace(site / "torch/version.py", f"__version__ = '{version}'\ncuda = None\n")


def make_stubs(library):
    """The libraries of CUDA that libtorch_cpu.so loads, with the functions that it calls."""
    needed = re.findall(r"\(NEEDED\).*\[(libcu\S+)\]", output_of("readelf", "--dynamic", library / "libtorch_cpu.so"))
    symbols = output_of("nm", "--dynamic", "--undefined-only", library / "libtorch_cpu.so")
    for soname in needed:
        names = re.findall(rf" U (\w+)@{re.escape(soname)}$", symbols, re.MULTILINE)
        assert names, soname
        with tempfile.TemporaryDirectory() as folder:
            code, versions = os.path.join(folder, "stub.c"), os.path.join(folder, "stub.map")
            pathlib.Path(code).write_text("void abort(void);\n" + "".join(f"void {name}(void) {{ abort(); }}\n" for name in names))
            pathlib.Path(versions).write_text(f"{soname} {{ global: *; }};\n")
            subprocess.run(["gcc", "-shared", "-fPIC", f"-Wl,-soname,{soname},--version-script={versions}", "-o", library / soname, code], check=True)
