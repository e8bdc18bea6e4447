"""What this machine cannot give to tests, one word per line: the WHEN of expected_skips.

Each word is found out here by trying it, so that a test that is skipped without its reason being true fails ./make.sh test.
"""

import importlib.util
import os
import pathlib
import platform
import re
import shutil
import socket
import subprocess


def succeeds(*command):
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as tried:
            tried.bind(("::1", 0))
    except OSError:
        return False
    return True


def physical_cores():
    places = (pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology") for cpu in os.sched_getaffinity(0))
    return len({tuple((place / name).read_text() for name in ("physical_package_id", "core_id")) for place in places})


def own_cgroups(controller):
    """Our directory in the v1 hierarchy of that controller, and in that of v2 ("")."""
    paths = dict(line.split(":", 2)[1:] for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines())
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        before, after = line.split(" - ")
        kind, _, options = after.split(" ", 2)
        root, point = before.split()[3:5]
        names = next((names for names in paths if controller in names.split(",")), None)
        if names is not None and kind == ("cgroup" if controller else "cgroup2") and (not controller or controller in options.split(",")):
            yield pathlib.Path(point, os.path.relpath(paths[names], root).removeprefix("../"))


def may_make_cgroup(controller, v2=True):
    hierarchies = [*own_cgroups(controller)]
    if v2:
        hierarchies += [own for own in own_cgroups("") if controller in (own / "cgroup.subtree_control").read_text().split()]
    for own in hierarchies:
        tried = own / f"ddp-test-{os.getpid()}"
        try:
            tried.mkdir()
            tried.rmdir()
        except OSError:
            continue
        return True
    return False


def kernel():
    return tuple(map(int, re.match(r"(\d+)\.(\d+)", platform.release()).groups()))


THERE = {
    "root": lambda: os.geteuid() == 0,
    "namespaces": lambda: succeeds("unshare", "--net", "--uts", "--mount", "true"),
    "pid-namespaces": lambda: succeeds("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "true"),
    "ipv6": has_ipv6,
    "cores": lambda: physical_cores() >= 2,
    "linux-6.14": lambda: kernel() >= (6, 14),
    "chromium": lambda: bool(shutil.which("chromium") or shutil.which("chromium-browser")),
    "prometheus": lambda: importlib.util.find_spec("prometheus_client") is not None,
    "kmsg": lambda: pathlib.Path("/dev/kmsg").exists(),
    "cgroup-cpu": lambda: may_make_cgroup("cpu"),
    "cgroup-memory": lambda: may_make_cgroup("memory"),
    "cgroup-pids": lambda: may_make_cgroup("pids"),
    "cgroup-freezer": lambda: may_make_cgroup("freezer", v2=False),
}

if __name__ == "__main__":
    for word, is_there in THERE.items():
        if not is_there():
            print(word)
