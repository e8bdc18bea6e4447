"""A Slurm cluster of two nodes on this machine: munged, slurmctld and two slurmd, in one folder, gone at the end.

The nodes are called 127.0.0.1 and 127.0.0.2, so that their names are addresses without a name server, and the list of them is one
with brackets.
"""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import threading
import time

DEADLINE = 30  # seconds; a cluster is up after one
NODES = ("127.0.0.1", "127.0.0.2")
TOOLS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scancel", "scontrol", "sinfo", "squeue")

CONFIGURATION = """\
ClusterName=loopback
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
# Of a job that is queued again Slurm waits until its credential has expired: 5 s at least.
AuthInfo=socket={folder}/munge.socket,cred_expire=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
GresTypes=gpu
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1,batch_sched_delay=0
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
ReturnToService=2
KillWait=10
PropagateResourceLimits=NONE
SlurmdParameters=config_overrides
MailProg=/bin/true
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
NodeName=127.0.0.1 NodeHostname=n1 NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 Gres=gpu:3
NodeName=127.0.0.2 NodeHostname=n2 NodeAddr=127.0.0.2 Port={ports[2]} CPUs=2 Gres=gpu:3
PartitionName=all Nodes=127.0.0.[1-2] Default=YES MaxTime=INFINITE State=UP
"""


def missing_tools():
    search = os.pathsep.join((os.environ["PATH"], "/usr/sbin", "/sbin"))
    return [tool for tool in TOOLS if not shutil.which(tool, path=search)]


def wait_until(is_done, what, deadline=DEADLINE):
    """Asks every 50 ms. Errors: AssertionError that says what did not come."""
    end = time.monotonic() + deadline
    never = threading.Event()
    while not is_done():
        if time.monotonic() > end:
            raise AssertionError(f"not after {deadline} s: {what}")
        never.wait(0.05)


def free_ports(count):
    """Ports that nobody has now. Slurm cannot be given a bound socket."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("", 0))) for _ in range(count)]
        return [entry.getsockname()[1] for entry in sockets]


class Cluster:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.daemons = []
        self.environment = {key: text for key, text in os.environ.items() if not key.startswith(("SLURM", "PET_", "DDP_"))}
        self.environment |= {
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "PATH": os.pathsep.join((os.environ["PATH"], "/usr/sbin", "/sbin")),
        }
        user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        text = CONFIGURATION.format(folder=self.folder, ports=free_ports(3), user=user)
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "cgroup.conf").write_text("")
        # GPUs that are files: Slurm counts them, and nobody opens them.
        (self.folder / "gres.conf").write_text(f"Name=gpu File={self.folder}/gpu[0-2]\n")
        for number in range(3):
            (self.folder / f"gpu{number}").touch()
        (self.folder / "state").mkdir()
        self.make_key()

    def make_key(self):
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))

    def start(self):
        folder = self.folder
        self.start_daemon(
            "munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={folder}/munge.key",
            f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munge.seed",
        )  # fmt: skip
        wait_until((folder / "munge.socket").exists, f"munged, see {folder}/munged.out")
        self.start_daemon("slurmctld", "-D", "-c", "-f", folder / "slurm.conf")
        for node in NODES:
            self.start_daemon("slurmd", "-D", "-c", "-N", node, "-f", folder / "slurm.conf", name=f"slurmd-{node}")
        try:
            wait_until(self.is_up, "two idle nodes")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.last_lines()}") from None

    def start_daemon(self, *command, name=None):
        with open(self.folder / f"{name or command[0]}.out", "wb") as output:
            self.daemons.append(
                subprocess.Popen(
                    ["setpriv", "--pdeathsig", "TERM", *map(str, command)], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                    env=self.environment, cwd=self.folder, start_new_session=True,
                )  # fmt: skip
            )

    def is_up(self):
        return self.run("sinfo", "--noheader", "--states=idle", "--format=%D").stdout.strip() == str(len(NODES))

    def last_lines(self):
        lines = []
        for path in sorted(self.folder.glob("*.out")):
            lines += [f"{path.name}: {line}" for line in path.read_text(errors="replace").splitlines()[-8:]]
        return "\n".join(lines)

    def run(self, *command, timeout=DEADLINE):
        return subprocess.run(
            list(map(str, command)), env=self.environment, cwd=self.folder, capture_output=True, text=True, check=False,
            timeout=timeout,
        )  # fmt: skip

    def stop(self):
        self.run("scancel", "--signal=KILL", "--full", f"--user={os.getuid()}")
        # The controller first: a node that ends would be a lost node to it.
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(timeout=10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
