"""A terminal that a test holds: what a person sees there, and types."""

import contextlib
import fcntl
import os
import pathlib
import pty
import re
import select
import struct
import subprocess
import termios
import time


def screen_of(text):
    """What stands on the terminal in the end: lines, as \\r, \\x1b[K and \\n leave them."""
    lines = [""]
    column = 0
    for piece in re.findall(r"\r|\n|\x1b\[K|[^\r\n\x1b]+", text):
        if piece == "\r":
            column = 0
        elif piece == "\n":
            lines.append("")
        elif piece == "\x1b[K":
            lines[-1] = lines[-1][:column]
        else:
            lines[-1] = lines[-1][:column] + piece + lines[-1][column + len(piece) :]
            column += len(piece)
    return lines


def open_terminal(width):
    """The two ends of a new terminal: ours, and the program's."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    return controller, terminal


class Terminal:
    """A program whose stdin, stdout and stderr are a terminal."""

    def __init__(self, command, environment, folder, width=100, prepare=None):
        self.controller, terminal = open_terminal(width)
        self.process = subprocess.Popen(
            list(map(str, command)), stdin=terminal, stdout=terminal, stderr=terminal, env=environment, cwd=folder,
            start_new_session=True, preexec_fn=prepare,
        )  # fmt: skip
        self.name = os.ttyname(terminal)
        os.close(terminal)
        self.text = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.controller)

    def read(self, seconds):
        """Takes what comes within that time. False: the program has left the terminal."""
        if not select.select([self.controller], [], [], max(0, seconds))[0]:
            return True
        try:
            piece = os.read(self.controller, 65536)
        except OSError:
            return False
        self.text += piece.decode(errors="replace")
        return bool(piece)

    def lines(self):
        """The screen, without blanks at the ends of lines."""
        return [line.rstrip("\r ") for line in screen_of(self.text.replace("\r\n", "\n"))]

    def wait_for(self, is_seen, limit=30):
        """Reads until `is_seen` holds. Returns the seconds that it took."""
        begin = time.monotonic()
        while not is_seen():
            left = begin + limit - time.monotonic()
            assert left > 0 and (self.read(left) or is_seen()), self.text
        return time.monotonic() - begin

    def is_read(self):
        """Whether a program waits for a line of the terminal."""
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and os.readlink(entry / "fd/0") == self.name and (entry / "syscall").read_text().startswith("0 0x0 "):
                    return True
        return False

    def type(self, text):
        """As a person, who takes a moment to answer, and sees it."""
        while not self.is_read() and self.read(0.02):
            pass
        self.read_for(0.3)
        lines = self.text.count("\n")
        os.write(self.controller, text.encode())
        self.wait_for(lambda: self.text.count("\n") > lines)

    def read_for(self, seconds):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and self.read(left):
            pass

    def finish(self, limit=30):
        """Reads to the end. Returns the exit code."""
        deadline = time.monotonic() + limit
        while self.read(deadline - time.monotonic()) and time.monotonic() < deadline:
            pass
        return self.process.wait(max(1, deadline - time.monotonic()))
