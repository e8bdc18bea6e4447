"""The fenced blocks of a page of documentation, as a test wants them."""

import dataclasses
import pathlib
import re


@dataclasses.dataclass
class Block:
    page: pathlib.Path
    line: int  # of its first line
    language: str
    lines: list

    @property
    def file(self):
        """The file that its first line names, as in `// tiny.cpp`; None when it names none."""
        named = re.fullmatch(r"(?://|#) (\S+\.\w+)", self.lines[0])
        return named and named[1]

    @property
    def text(self):
        return "".join(line + "\n" for line in self.lines)


def blocks(page):
    found, inside = [], None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            if inside is None:
                inside = Block(page, number + 1, line[3:].strip(), [])
            else:
                found.append(inside)
                inside = None
        elif inside is not None:
            inside.lines.append(line)
    assert inside is None, f"{page}:{inside.line}: this block has no end"
    return found
