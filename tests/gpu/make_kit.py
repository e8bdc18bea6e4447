"""Makes the kit: make_kit.py BUILD_DIRECTORY OUT, for ./make.sh gpu-kit. Programs, tests and scripts that need a Python with torch and
nothing else: no compiler, no network, no root, no path of this machine. OUT is whole, or as it was.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIMIT = 56 << 20  # of the kit and the tracked files: so much may travel to a machine with a GPU, and some of that is others'
MODULE = "libddp-worker-cuda.so"
SCRIPTS = ("tests/gpu/*.py", "tests/support/processes.py", "tests/support/run_files.py", "tests/interop/reference_ddp.py", "tests/bench/gpu.py", "LICENSE*")
README = """Tests and figures of ddp-launch and ddp-worker on GPUs. Needed: Linux x86_64 with glibc 2.36 or newer,
torch {torch} installed by pip for a Python of 3.10 or newer, /bin/sh.

./run.sh --python PYTHON                 all that this machine can run; writes gpu.log, gpu.json, summary.txt and bench.json
./run.sh --python PYTHON --budget 480    the same in 480 s, what is worth most first; what does not fit is listed
./run.sh --python PYTHON --device cpu    the part that needs no GPU; --rehearse: more of it, with bf16 for fp16 and figures made up
./run.sh --python PYTHON --list          the names of the cases; a name or a shell pattern runs those alone
./run.sh --python PYTHON bench           the figures alone, of ours beside Python
--site-packages DIR in place of --python: the directory in which pip has installed torch.
"""


def gpu_tests(build):
    """Program and name of every GoogleTest with the label gpu."""
    show = ["ctest", "--test-dir", build, "--show-only=json-v1", "-L", "^gpu$"]
    listed = json.loads(subprocess.run(show, stdout=subprocess.PIPE, check=True).stdout)
    for test in listed["tests"]:
        name = next(word.partition("=")[2] for word in test["command"] if word.startswith("--gtest_filter="))
        yield pathlib.Path(test["command"][0]), name


def copy_program(source, folder):
    """Without the directories of this machine in which it looks for libraries: run.sh says where they are."""
    target = folder / source.name
    shutil.copy2(source, target)
    script = folder / "strip.cmake"
    script.write_text(f'file(RPATH_REMOVE FILE "{target}")\n', encoding="utf-8")
    subprocess.run(["cmake", "-P", script], check=True)
    script.unlink()
    subprocess.run(["strip", "--strip-unneeded", target], check=True)


def size_of(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def size_of_tree():
    """Of the tracked files; 0 where this is not a checkout of git's."""
    try:
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return 0
    paths = [ROOT / name for name in filter(None, listed.decode().split("\0"))]
    return sum(path.stat().st_size for path in paths if path.is_file())


def fill(build, out):
    """Returns how many GoogleTests there are for GPUs. Errors: OSError."""
    for folder in ("bin", "lib", "tests/gpu"):
        (out / folder).mkdir(parents=True)
    tests = list(gpu_tests(build))
    programs = {build / "ddp-launch", build / "ddp-worker", build / "tests/files_tool", *(program for program, _ in tests)}
    for program in sorted(programs):
        copy_program(program, out / "bin")
    copy_program(build / MODULE, out / "lib")
    listed = [{"program": program.name, "name": name} for program, name in tests]
    (out / "tests/gpu/gtests.json").write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    for pattern in SCRIPTS:
        for script in ROOT.glob(pattern):
            target = out / script.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(script, target)
    for name in ("make_kit.py", "gpu_kit_test.py"):
        (out / "tests/gpu" / name).unlink()
    shutil.copy2(ROOT / "tests/gpu/run.sh", out / "run.sh")
    version = subprocess.run([build / "ddp-worker", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    (out / "README").write_text(README.format(torch=version.split()[-1]) + f"\nMade of {version}", encoding="utf-8")
    return len(tests)


def make(build, out):
    """Errors: OSError."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as folder:
        new = pathlib.Path(folder) / "kit"
        count = fill(build, new)
        kit, tree = size_of(new), size_of_tree()
        sizes = f"{kit / 2**20:.1f} MiB beside {tree / 2**20:.1f} MiB of tracked files, of {LIMIT >> 20} MiB at most"
        if kit + tree > LIMIT:
            largest = sorted((path for path in new.rglob("*") if path.is_file()), key=lambda path: -path.stat().st_size)[:5]
            names = ", ".join(f"{path.relative_to(new)} {path.stat().st_size / 2**20:.1f} MiB" for path in largest)
            sys.exit(f"gpu-kit: it would have {sizes}. The largest: {names}")
        new.rename(out)  # onto an empty directory, too
    print(f"gpu-kit: {out}: {sizes}; {count} GoogleTests for GPUs. There: ./run.sh --python PYTHON, see {out}/README")


def main():
    build, out = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    if not (build / MODULE).exists():
        sys.exit(f"gpu-kit: {build / MODULE} is not built. Give it the CUDA wheels of torch: DDP_CUDA=ON ./make.sh gpu-kit {out}")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        sys.exit(f"gpu-kit: {out} is there already, and is not an empty directory. Remove it, or give another one.")
    try:
        make(build, out)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"gpu-kit: cannot make {out}: {error}. Give another directory, or make room for {LIMIT >> 20} MiB.")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main()
