"""What a container engine does with a Dockerfile, as far as our images need it, where there is none. Needs root.

Each stage is a directory. RUN is a shell in it that has this machine's network and its settings of pip. The entry point runs as process 1 of
namespaces of its own, as the image's user, with the image's environment and a loopback alone. Not as an engine does it: layers, cgroups,
seccomp, capabilities, the overlay of files.
"""

import dataclasses
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CERTIFICATES = "/run/certificates-of-the-host"


def instructions(path):
    """[word, rest] of each instruction."""
    text = re.sub(r"(?m)^#.*\n", "", pathlib.Path(path).read_text()).replace("\\\n", " ")
    return [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]


def substitute(text, variables):
    return re.sub(r"\$\{?(\w+)\}?", lambda found: variables.get(found[1], ""), text)


@dataclasses.dataclass
class Image:
    root: pathlib.Path
    environment: dict = dataclasses.field(default_factory=lambda: {"PATH": PATH})
    directory: str = "/"
    user: str = "0:0"
    entry: list = dataclasses.field(default_factory=list)
    command: list = dataclasses.field(default_factory=list)

    def start_command(self, *words, user=None, entry=None, volumes=(), variables=()):
        """For subprocess: docker run [--user USER] [--entrypoint ENTRY] [-v SOURCE:TARGET ...] [-e NAME=VALUE ...] IMAGE [WORDS...]"""
        user = user or self.user
        environment = {"HOME": self.home_of(user), **self.environment, **dict(variables)}
        command = [entry] if entry else self.entry
        return inside(
            self.root, [*command, *map(str, words or ([] if entry else self.command))], environment, self.directory, user, binds=volumes, network=False
        )  # fmt: skip

    def home_of(self, user):
        accounts = self.root / "etc/passwd"
        for line in accounts.read_text().splitlines() if accounts.exists() else ():
            fields = line.split(":")
            if fields[2] == user.split(":")[0]:
                return fields[5]
        return "/"


class Build:
    """`bases`: tar files by the names that FROM has. `stages`: images by name, which are not built but taken. `begun`: by the name of a
    stage what is called with its image before its first line. `context`: a directory."""

    def __init__(self, dockerfile, folder, context, bases, stages=(), begun=()):
        self.folder, self.context, self.bases = pathlib.Path(folder), context, bases
        self.images, self.begun = dict(stages), dict(begun)
        self.defaults, self.stages = {}, {}
        for word, rest in instructions(dockerfile):
            if word == "FROM":
                base, _, name = rest.partition(" AS ")
                lines = self.stages.setdefault(name or str(len(self.stages)), [base])
            elif self.stages:
                lines.append((word, rest))
            else:
                assert word == "ARG", word
                name, _, value = rest.partition("=")
                self.defaults[name] = value

    def image(self, name):
        """The stage of that name."""
        if name not in self.images:
            base, *lines = self.stages[name]
            self.images[name] = self.begin(name, base)
            self.begun.get(name, lambda image: None)(self.images[name])
            self.variables = {}
            for word, rest in lines:
                self.carry_out(self.images[name], word, rest)
        return self.images[name]

    def begin(self, name, base):
        root = self.folder / name
        if base in self.stages:
            parent = self.image(base)
            subprocess.run(["cp", "--archive", parent.root, root], check=True)
            return dataclasses.replace(parent, root=root, environment=dict(parent.environment))
        root.mkdir(parents=True)
        if base != "scratch":
            subprocess.run(["tar", "--extract", "--file", self.bases[base], "--directory", root], check=True)
        return Image(root)

    def carry_out(self, image, word, rest):
        known = {**self.variables, **image.environment}
        if word == "ARG":
            name, _, value = rest.partition("=")
            self.variables[name] = substitute(value, known) or self.defaults.get(name, "")
        elif word == "ENV":
            image.environment |= dict(one.split("=", 1) for one in shlex.split(substitute(rest, known)))
        elif word == "RUN":
            self.run(image, rest, known)
        elif word == "COPY":
            *options, source, target = substitute(rest, known).split()
            (stage,) = [option.removeprefix("--from=") for option in options]
            target = image.root / target.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cp", "--archive", self.image(stage).root / source.lstrip("/"), target], check=True)
        elif word == "WORKDIR":
            image.directory = substitute(rest, known)
            (image.root / image.directory.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif word == "USER":
            image.user = rest
        elif word == "ENTRYPOINT":
            image.entry = json.loads(rest)
        elif word == "CMD":
            image.command = json.loads(rest)
        else:
            raise AssertionError(f"{word}: not known here")

    def run(self, image, line, variables):
        settings, binds = settings_of_pip()
        binds.append(("/etc/resolv.conf", "/etc/resolv.conf"))
        mounted = []
        while found := re.match(r"--mount=type=bind,target=(\S+)\s+", line):
            mounted.append((self.context, found[1]))
            line = line[found.end():]
        command = inside(
            image.root, ["/bin/sh", "-c", line], {"DEBIAN_FRONTEND": "noninteractive", **settings, **variables}, image.directory, image.user,
            binds + mounted, network=True,
        )  # fmt: skip
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=1800)
        assert done.returncode == 0, f"RUN {line}\n{done.stdout[-4000:]}"
        for _, target in mounted:
            (image.root / target.lstrip("/")).rmdir()


def settings_of_pip():
    """This machine's, as variables, and the certificates that they name as a file to bind."""
    text = subprocess.run(["pip", "config", "list"], capture_output=True, text=True, check=False).stdout
    found = dict(re.findall(r"(?m)^[\w:]+\.(cert|index-url|extra-index-url|trusted-host|proxy|default-timeout)='(.*)'$", text))
    variables = {"PIP_" + name.upper().replace("-", "_"): value for name, value in found.items()}
    binds = []
    if "PIP_CERT" in variables:
        binds.append((variables["PIP_CERT"], CERTIFICATES))
        variables["PIP_CERT"] = CERTIFICATES
    return variables, binds


def inside(root, words, environment, directory, user, binds, network):
    """A command that becomes `words` in `root`, in namespaces. `binds`: (source, target in the root)."""
    uid, _, gid = user.partition(":")
    order = {
        "root": str(root), "words": words, "environment": environment, "directory": directory, "uid": int(uid), "gid": int(gid or uid),
        "binds": [[str(source), target] for source, target in binds], "network": network,
    }  # fmt: skip
    namespaces = ["--mount", "--pid", "--ipc", "--uts", *([] if network else ["--net"])]
    return ["unshare", *namespaces, "--fork", "--kill-child", sys.executable, "-B", __file__, json.dumps(order)]


def mount(*words):
    subprocess.run(["mount", *map(str, words)], check=True)


def place(path, like):
    """Somewhere to bind a file or a directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if pathlib.Path(like).is_dir():
        path.mkdir(exist_ok=True)
    else:
        path.touch()
    return path


def enter(order):
    """Process 1 of the namespaces becomes the command."""
    root = pathlib.Path(order["root"])
    for name in ("proc", "sys", "dev"):
        (root / name).mkdir(exist_ok=True)
    mount("-t", "proc", "proc", root / "proc")
    mount("-t", "sysfs", "-o", "ro", "sysfs", root / "sys")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", root / "dev")
    for name in ("null", "zero", "full", "random", "urandom", "tty"):
        mount("--bind", f"/dev/{name}", place(root / "dev" / name, f"/dev/{name}"))
    for name, target in {"fd": "self/fd", "stdin": "self/fd/0", "stdout": "self/fd/1", "stderr": "self/fd/2"}.items():
        (root / "dev" / name).symlink_to(f"/proc/{target}")
    (root / "dev/shm").mkdir()
    mount("-t", "tmpfs", "-o", "mode=1777,size=64m", "tmpfs", root / "dev/shm")
    for source, target in order["binds"]:
        mount("--bind", source, place(root / target.lstrip("/"), source))
    if not order["network"]:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    os.chroot(root)
    os.chdir(order["directory"])
    os.setgroups([])
    os.setgid(order["gid"])
    os.setuid(order["uid"])
    os.execvpe(order["words"][0], order["words"], order["environment"])


if __name__ == "__main__":
    enter(json.loads(sys.argv[1]))
