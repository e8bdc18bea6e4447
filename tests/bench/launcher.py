"""ddp-launch beside torchrun, and beside MPICH's mpiexec.hydra, on this machine, in one run: `./make.sh bench launcher`.

Each figure is measured on both in turn (A B A B ...), after one run of each that does not count, and shown as median and
10th to 90th percentile. It never decides pass or fail. The table goes to stdout, all samples to a JSON file with machine,
versions and load.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

IDLE_SECONDS = 5
LOOKS_AT_PAGES = 1.5  # seconds: ddp-launch does once a second
LOG_LINE = "x" * 99
LOG_LINES = 500_000  # 50 MB of each of two workers
RUNNING = 'echo "pid $RANK $TORCHELASTIC_RESTART_COUNT $$$$"; exec sleep 600'  # both launchers make $ of $$
LIMIT = 300  # seconds for anything


class Launcher:
    """One of the two, with what differs between them."""

    def __init__(self, name, command):
        self.name = name
        self.command = list(map(str, command))

    def start(self, nproc, *words, flags=(), stdout=subprocess.PIPE):
        command = [*self.command, "--standalone", "--nproc-per-node", str(nproc), *flags, "--no-python", *words]
        environment = dict(os.environ, OMP_NUM_THREADS="1")
        return subprocess.Popen(command, stdout=stdout, stderr=subprocess.DEVNULL, env=environment, text=True)


class Hydra:
    """MPICH's starter of processes, which does nothing beside: no restarts, no log files, no guard."""

    name = "mpiexec.hydra"

    def start(self, nproc, *words):
        return subprocess.Popen([self.name, "-n", str(nproc), *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class SpawnLoop:
    """The floor: this process starts the workers itself, and waits for them."""

    name = "posix_spawn(3) in a loop"

    def no_op(self, nproc):
        begin = time.monotonic()
        for pid in [os.posix_spawn(shutil.which("true"), ["true"], os.environ) for _ in range(nproc)]:
            assert os.waitpid(pid, 0)[1] == 0
        return time.monotonic() - begin


def no_op(launcher, nproc):
    """Seconds from exec to exit of a job whose workers do nothing."""
    if isinstance(launcher, SpawnLoop):
        return launcher.no_op(nproc)
    begin = time.monotonic()
    process = launcher.start(nproc, "true")
    # wait() with a limit looks at 1, 3, 7, 15 ... ms, and would round up to one of them.
    descriptor = os.pidfd_open(process.pid)
    assert select.select([descriptor], [], [], LIMIT)[0], launcher.name
    seconds = time.monotonic() - begin
    os.close(descriptor)
    assert process.wait() == 0, launcher.name
    return seconds


@contextlib.contextmanager
def running_job(launcher, *flags):
    """Two workers that sleep; gives the process and {rank: pid}."""
    process = launcher.start(2, "sh", "-c", RUNNING, flags=flags)
    try:
        yield process, read_pids(process, 0)
    finally:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LIMIT)
        process.kill()
        process.stdout.close()


def read_pids(process, wanted_round):
    pids = {}
    while len(pids) < 2:
        line = process.stdout.readline()
        assert line, "the job ended too early"
        match = re.search(r"pid (\d) (\d) (\d+)", line)
        if match and int(match[2]) == wanted_round:
            pids[int(match[1])] = int(match[3])
    return pids


def failure_to_exit(launcher):
    """Seconds from SIGKILL of rank 1 to the launcher's exit; the other worker dies of SIGTERM at once."""
    with running_job(launcher) as (process, pids):
        begin = time.monotonic()
        os.kill(pids[1], signal.SIGKILL)
        process.wait(LIMIT)
        return time.monotonic() - begin


def death_to_signal(launcher):
    """Seconds from SIGKILL of a rank that has 1 GiB until the other rank gets its first signal."""
    process = launcher.start(2, sys.executable, pathlib.Path(__file__).with_name("large_rank.py"))
    try:
        pids = read_pids(process, 0)
        let_it_run(process, LOOKS_AT_PAGES)
        begin = time.monotonic()
        os.kill(pids[1], signal.SIGKILL)
        told = next(float(line.rpartition(" ")[2]) for line in process.stdout if "told" in line)
        process.wait(LIMIT)
        return told - begin
    finally:
        process.kill()
        process.stdout.close()


def restart(launcher):
    """Seconds from SIGKILL of rank 1 to the first line of both workers of the next round."""
    with running_job(launcher, "--max-restarts", "1") as (process, pids):
        begin = time.monotonic()
        os.kill(pids[1], signal.SIGKILL)
        read_pids(process, 1)
        return time.monotonic() - begin


def cpu():
    """The name of the processor, if the kernel tells it."""
    found = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return found[1] if found else platform.machine()


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def switches(pid):
    """Voluntary context switches of all threads: how often it woke up."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        total += int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text(), re.M)[1])
    return total


def let_it_run(process, seconds):
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
        raise AssertionError("the job ended too early")


def at_rest(launcher):
    """(resident MB, share of one CPU, wake-ups per second) while two workers sleep."""
    with running_job(launcher) as (process, _):
        let_it_run(process, 1)
        cpu, woken, begin = cpu_seconds(process.pid), switches(process.pid), time.monotonic()
        let_it_run(process, IDLE_SECONDS)
        seconds = time.monotonic() - begin
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        resident = int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1000
        return resident, (cpu_seconds(process.pid) - cpu) / seconds, (switches(process.pid) - woken) / seconds


def log_throughput(launcher):
    """MB/s of two workers' lines into log files and to the console (/dev/null)."""
    with tempfile.TemporaryDirectory() as folder:
        script = f"yes {LOG_LINE} | head -n {LOG_LINES}"
        begin = time.monotonic()
        flags = ("--log-dir", folder, "--tee", "3")
        process = launcher.start(2, "sh", "-c", script, flags=flags, stdout=subprocess.DEVNULL)
        process.wait(LIMIT)
        seconds = time.monotonic() - begin
        written = sum(file.stat().st_size for file in pathlib.Path(folder).rglob("stdout.log"))
        assert process.returncode == 0 and written == 2 * LOG_LINES * (len(LOG_LINE) + 1), (launcher.name, written)
        return written / 1e6 / seconds


def print_header(ours, theirs):
    print(f"{'':34} {'unit':6} {ours.name:32} {theirs.name:32}")


def starts_beside_hydra(ours, options):
    """Rows of no-op jobs, of which a starter of many processes has most to say."""
    hydra = Hydra()
    if shutil.which(hydra.name) is None:
        print(f"skipped: no-op jobs beside {hydra.name}, which is not here. Install Debian's mpich.")
        return []
    print_header(ours, hydra)
    rows = []
    for nproc in (2, 8, 64, 512):
        repeats = options.repeats if nproc <= 64 else max(3, options.repeats // 2)
        rows.append(row(f"no-op job, {nproc} workers", "s", in_turn((ours, hydra), lambda one: no_op(one, nproc), repeats)))
    return rows


def quantile(samples, share):
    return sorted(samples)[min(len(samples) - 1, int(share * len(samples)))]


def in_turn(launchers, measure, repeats):
    samples = {launcher.name: [] for launcher in launchers}
    for i in range(repeats + 1):
        for launcher in launchers:
            value = measure(launcher)
            if i > 0:
                samples[launcher.name].append(value)
    return samples


def row(name, unit, samples, larger_is_better=False):
    ours, theirs = samples.values()
    medians = [statistics.median(values) for values in (ours, theirs)]
    ratio = (medians[0] / medians[1] if larger_is_better else medians[1] / medians[0]) if min(medians) > 0 else float("inf")
    cells = [f"{m:9.3f} [{quantile(v, 0.1):.3f} .. {quantile(v, 0.9):.3f}]" for m, v in zip(medians, (ours, theirs))]
    print(f"{name:34} {unit:6} {cells[0]:32} {cells[1]:32} {ratio:7.1f}x", flush=True)
    return {"name": name, "unit": unit, "samples": samples, "ratio": ratio}


def beside_torchrun(ours, torchrun, options):
    few = max(3, options.repeats // 4)
    print_header(ours, torchrun)
    rows = []
    for nproc, repeats in ((2, options.repeats), (8, options.repeats), (64, few)):
        rows.append(row(f"no-op job, {nproc} workers", "s", in_turn((ours, torchrun), lambda one: no_op(one, nproc), repeats)))
    rows.append(row("SIGKILL of a rank to exit", "s", in_turn((ours, torchrun), failure_to_exit, options.repeats)))
    rows.append(row("SIGKILL at 1 GiB to peers' signal", "s", in_turn((ours, torchrun), death_to_signal, few)))
    rows.append(row("SIGKILL of a rank to next round", "s", in_turn((ours, torchrun), restart, options.repeats)))
    rest = in_turn((ours, torchrun), at_rest, few)
    for i, (name, unit) in enumerate((("agent at rest, resident", "MB"), ("agent at rest, of one CPU", ""), ("agent at rest, wake-ups", "1/s"))):
        rows.append(row(name, unit, {launcher: [values[i] for values in runs] for launcher, runs in rest.items()}))
    rows.append(row("log files and console", "MB/s", in_turn((ours, torchrun), log_throughput, few), larger_is_better=True))
    return rows


def write_record(options, load, rows):
    record = {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "cpu": cpu(),
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "load": [load, os.getloadavg()[0]],
        "python": platform.python_version(),
        "torch": subprocess.run([sys.executable, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True).stdout.strip(),
        "mpich": shutil.which(Hydra.name) and subprocess.run([Hydra.name, "--version"], capture_output=True, text=True).stdout.split("Release Date")[0].split()[-1],
        "commit": subprocess.run([shutil.which("git") or "git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip(),
        "rows": rows,
    }
    options.json.write_text(json.dumps(record, indent=1), encoding="utf-8")
    print(f"all samples: {options.json}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ddp_launch")
    parser.add_argument("--repeats", type=int, default=20, help="of each figure; those of 64 workers, logs and rest take a quarter")
    parser.add_argument("--only-starts", action="store_true", help="no-op jobs beside mpiexec.hydra, and nothing of torchrun")
    parser.add_argument("--json", type=pathlib.Path, default=pathlib.Path("launcher.json"))
    options = parser.parse_args()
    ours = Launcher("ddp-launch", [pathlib.Path(options.ddp_launch).absolute()])
    torchrun = Launcher("torchrun", [sys.executable, "-m", "torch.distributed.run"])

    load = os.getloadavg()[0]
    print(f"load average {load:.1f}, {os.cpu_count()} CPUs; median [p10 .. p90]; the last column is how many times better")
    rows = starts_beside_hydra(ours, options)
    if not options.only_starts:
        rows += beside_torchrun(ours, torchrun, options)
    write_record(options, load, rows)


if __name__ == "__main__":
    main()
