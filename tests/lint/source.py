"""The files of a checkout as the rules see them: text, and text with comments and strings blanked.

Blanked text has the same length and the same line ends, so a place in it is a place in the file.
"""

import functools
import io
import pathlib
import re
import subprocess
import tokenize
from dataclasses import dataclass

CPP = {".cpp", ".h"}
ROOMS = ("common", "launcher", "worker")


@dataclass(frozen=True, order=True)
class Finding:
    path: str
    line: int
    rule: str
    what: str
    is_warning: bool = False

    def __str__(self):
        return f"{self.path}:{self.line}: {self.rule}: {'warning: ' if self.is_warning else ''}{self.what}"


# One alternative per thing that hides text; the order matters, as a comment may hold quotes and a string may hold slashes.
CPP_TOKEN = re.compile(
    r"""(?P<comment>//(?:[^\n\\]|\\.|\\\n)*|/\*.*?\*/)
      | (?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)")
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<char>(?<![0-9A-Fa-f])'(?:[^'\\\n]|\\.)+')""",
    re.VERBOSE | re.DOTALL,
)


def spaces(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def blank_cpp(text: str, strings: bool) -> str:
    def replace(match):
        whole = match.group()
        if match.group("comment"):
            return spaces(whole)
        # The quotes stay, so that a string is still something between two brackets.
        return whole[0] + spaces(whole[1:-1]) + whole[-1] if strings else whole

    return CPP_TOKEN.sub(replace, text)


def blank_python(text: str) -> str:
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    result = list(text)
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in (tokenize.COMMENT, tokenize.STRING):
                begin = starts[token.start[0] - 1] + token.start[1]
                end = starts[token.end[0] - 1] + token.end[1]
                result[begin:end] = spaces(text[begin:end])
    except (tokenize.TokenError, IndentationError):
        return text
    return "".join(result)


def blank_hash(text: str) -> str:
    """Comments of shell and CMake, where a # begins a word."""
    return re.sub(r"(?m)(?:^|(?<=\s))#.*$", lambda match: spaces(match.group()), text)


class File:
    def __init__(self, path: str, text: str):
        self.path = path
        self.text = text
        self.name = path.rpartition("/")[2]
        self.stem, _, extension = self.name.partition(".")
        self.suffix = "." + extension.rpartition(".")[2] if extension else ""
        self.is_cpp = self.suffix in CPP
        self.is_shell = self.suffix == ".sh" or text.startswith(("#!/usr/bin/env bash", "#!/bin/sh", "#!/bin/bash"))
        self.is_test = path.startswith("tests/")

    @functools.cached_property
    def code(self) -> str:
        """Without comments."""
        return blank_cpp(self.text, strings=False) if self.is_cpp else blank_hash(self.text)

    @functools.cached_property
    def bare(self) -> str:
        """Without comments and, in C++ and Python, without strings."""
        if self.is_cpp:
            return blank_cpp(self.text, strings=True)
        return blank_python(self.text) if self.suffix == ".py" else blank_hash(self.text)

    def find(self, position: int, rule: str, what: str) -> Finding:
        return Finding(self.path, self.text.count("\n", 0, position) + 1, rule, what)


class Checkout:
    """What git tracks or would track; in a directory without git, every file."""

    def __init__(self, directory: str):
        root = pathlib.Path(directory)
        if (root / ".git").exists():
            command = ["git", "-C", directory, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
            paths = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
        else:
            paths = [str(path.relative_to(root)) for path in root.rglob("*")]
        self.files = []
        self.paths = set()  # of binary files, too
        for path in sorted(set(paths)):
            if not path or not (root / path).is_file():
                continue
            self.paths.add(path)
            try:
                self.files.append(File(path, (root / path).read_text(encoding="utf-8")))
            except UnicodeDecodeError:
                pass  # a binary file, such as an image or a fuzzer's input
        self.cpp = [file for file in self.files if file.is_cpp]
