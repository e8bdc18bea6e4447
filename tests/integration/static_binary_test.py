"""ddp-launch as one file: where there is nothing else, and where the system has its own ways. Usage: static_binary_test.py SUITE

DDP_LAUNCH is the program, DDP_PROBE the probe in it, DDP_NSS a folder with a module that knows the name by-module.test. A suite that
cannot run here ends with 77 and says why.
"""

import ctypes
import errno
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

LAUNCH = os.environ["DDP_LAUNCH"]
PROBE = os.environ["DDP_PROBE"]
OWN = "10.77.0.1"  # the address of this machine in a network namespace of its own


def run(*command, timeout=60, **more):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=timeout, **more)


class Root:
    """A root with /proc, /dev and ddp-launch, in namespaces of its own. `etc`: files by name."""

    def __init__(self, folder, etc=(), at="/"):
        self.folder, self.etc = pathlib.Path(folder), dict(etc)
        self.at = at  # "/": ours, with these files laid over

    def shell(self, text):
        """The lines of a shell that has the network of one address, before it enters the root."""
        lines = ["set -e", "ip link set lo up", f"ip addr add {OWN}/32 dev lo"]
        for name, content in self.etc.items():
            file = self.folder / f"etc-{name}"
            file.write_text(content)
            target = f"{self.at.rstrip('/')}/etc/{name}"
            lines += [f"[ -e {target} ] || : >{target}", f"mount --bind {file} {target}"]
        return run("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", "\n".join([*lines, text]))


def empty_root(folder):
    root = pathlib.Path(folder, "root")
    for name in ("proc", "dev", "etc", "tmp"):
        (root / name).mkdir(parents=True)
    shutil.copy(LAUNCH, root / "ddp-launch")
    return root


INTO = "mount -t proc proc {root}/proc; mount --rbind /dev {root}/dev; "
# Two agents at one name; their workers are the program itself.
TWO_NODES = """
for rank in 0 1; do
  {before} {launch} --nnodes 2 --node-rank $rank --master-addr {name} --master-port 29555 --nproc-per-node 1 --no-python {launch} --version >{out}.$rank 2>&1 &
  eval "pid$rank=$!"
done
code=0
wait $pid0 || code=$?
wait $pid1 || code=$?
cat {out}.0 {out}.1
exit $code
"""


class EmptyRoot(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.root = empty_root(self.folder)

    def inside(self, text, **etc):
        names = {name.replace("_", "."): content for name, content in etc.items()}
        return Root(self.folder, names, at=str(self.root)).shell(INTO.format(root=self.root) + text)

    def two_nodes(self, name, **etc):
        script = TWO_NODES.format(before=f"chroot {self.root}", launch="/ddp-launch", name=name, out=f"{self.folder}/out")
        return self.inside(script, **etc)

    def test_a_job_runs_where_there_is_nothing_else(self):
        done = self.inside(f"exec chroot {self.root} /ddp-launch --nproc-per-node 2 --no-python /ddp-launch --version")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(re.findall(r"(?m)ddp-launch \d+\.\d+\.\d+$", done.stdout)), 2, done.stdout)

    def test_a_name_is_found_in_etc_hosts_alone(self):
        done = self.two_nodes("node0.test", hosts=f"{OWN} node0.test\n")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("joined", done.stdout)

    def test_a_module_that_cannot_be_loaded_is_not_tried(self):
        done = self.two_nodes("node0.test", hosts=f"{OWN} node0.test\n", nsswitch_conf="hosts: ldap [!UNAVAIL=return] files\n")
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_a_name_is_found_by_dns_alone(self):
        server = f"{sys.executable} -B {__file__} --serve-dns {self.folder}/ready & dns=$!; "
        server += f"until [ -e {self.folder}/ready ]; do kill -0 $dns; done; trap 'kill $dns' EXIT\n"
        done = self.inside(server + TWO_NODES.format(
            before=f"chroot {self.root}", launch="/ddp-launch", name="node0.test", out=f"{self.folder}/out"
        ), resolv_conf="nameserver 127.0.0.9\n")  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("joined", done.stdout)

    def test_without_a_driver_of_the_system_there_is_no_gpu(self):
        done = self.inside(f"exec chroot {self.root} /ddp-launch --nproc-per-node gpu --no-python /ddp-launch")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("there is no NVIDIA driver", done.stderr)


class System(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_a_name_that_only_a_module_of_the_system_knows_is_found(self):
        script = TWO_NODES.format(before="env LD_LIBRARY_PATH=" + os.environ["DDP_NSS"], launch=LAUNCH, name="by-module.test", out=f"{self.folder}/out")
        done = Root(self.folder, {"nsswitch.conf": "hosts: ddptest\n"}).shell("mount -t proc proc /proc; " + script)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("joined", done.stdout)


class Kernel(unittest.TestCase):
    @staticmethod
    def without_pidfd_open(error):
        """For a child: pidfd_open(2) fails so, as before Linux 5.3 or under an old filter of a container."""
        allow, fail, number = 0x7FFF0000, 0x00050000 | error, 434
        steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, fail), (0x06, 0, 0, allow)]
        code = b"".join(struct.pack("HBBI", *step) for step in steps)
        buffer = ctypes.create_string_buffer(code)
        program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(buffer)))
        libc = ctypes.CDLL(None, use_errno=True)

        def filter_calls(code=buffer):  # which lives until then
            if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, ctypes.byref(program), 0, 0) != 0:
                raise OSError(ctypes.get_errno(), "seccomp")

        return filter_calls

    def test_one_that_is_too_old_is_refused_in_one_line(self):
        for error in (errno.ENOSYS, errno.EPERM):
            done = run(LAUNCH, "--no-python", "true", preexec_fn=self.without_pidfd_open(error))
            self.assertEqual(done.returncode, 125)
            self.assertRegex(done.stderr, r"\Addp-launch: .*this kernel lacks pidfd_open.*Linux 5\.3 or newer.*\n\Z")


class Probe(unittest.TestCase):
    def test_probe_runs_with_the_oldest_glibc_of_torch(self):
        text = run("readelf", "--version-info", PROBE).stdout
        versions = {tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([\d.]+)", text)}
        self.assertTrue(versions)
        self.assertLessEqual(max(versions), (2, 17))

    def test_probe_prints_addresses_and_an_end_mark(self):
        self.assertEqual(run(PROBE, 1, "addresses", "127.0.0.1").stdout, "address\t127.0.0.1\nend\n")
        self.assertRegex(run(PROBE, 1, "addresses", "no.such.name.invalid").stdout, r"\Aerror\t-\d+\nend\n\Z")

    def test_probe_prints_why_a_module_cannot_be_opened(self):
        self.assertRegex(run(PROBE, 1, "module", "/no/such.so").stdout, r"\Aerror\t/no/such.so: .*\nend\n\Z")


def serve_dns(ready):
    """Answers each question for an A record by OWN, and others by nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        door.bind(("127.0.0.9", 53))
        pathlib.Path(ready).touch()
        while True:
            question, peer = door.recvfrom(512)
            end = question.index(b"\0", 12) + 5
            kind = struct.unpack("!H", question[end - 4:end - 2])[0]
            answers = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 60, 4) + socket.inet_aton(OWN) if kind == 1 else b""
            head = question[:2] + struct.pack("!HHHHH", 0x8180, 1, 1 if answers else 0, 0, 0)
            door.sendto(head + question[12:end] + answers, peer)


def cannot_run(suite):
    if suite in ("EmptyRoot", "System"):
        if os.geteuid() != 0:
            return "needs root, for a root of its own"
        if run("unshare", "--net", "--mount", "--pid", "--fork", "true").returncode != 0:
            return "this machine gives no namespaces"
    return ""


if __name__ == "__main__":
    if sys.argv[1] == "--serve-dns":
        serve_dns(sys.argv[2])
    if why := cannot_run(sys.argv[1]):
        print(why)
        sys.exit(77)
    unittest.main(verbosity=2)
