"""THIRD_PARTY.md, made of cmake/third_party.json: what is linked into the programs, and under which licence. Run: python3 -B docs/third_party.py"""

import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEAD = """# What others have written

Made of `cmake/third_party.json` by `python3 -B docs/third_party.py`. Nothing is vendored: libraries are
Debian 12's. Licences are SPDX expressions, and name those of the parts that are linked. Debian's
full texts are in `/usr/share/doc/PACKAGE/copyright`.

"""
TAIL = """
*static*: the code is in the program. *headers*: code of its headers is. *shared*: the system's copy is
loaded. LibTorch, which `ddp-worker` loads from its own directory (BSD-3-Clause), brings the notices
of its parts with its wheel.

`ddp-launch` holds glibc, whose LGPL asks that you can link the program again with a glibc of yours:
`./make.sh build-launcher`, in the source of the same version, does so.
"""


def page():
    rows = ["| library | Debian package | licence | in |", "|---|---|---|---|"]
    for library in json.loads((ROOT / "cmake/third_party.json").read_text()):
        programs = ", ".join(f"{program} ({how})" for program, how in library["in"].items())
        rows.append(f"| {library['name']} | `{library['package']}` | {library['licence']} | {programs} |")
    return HEAD + "\n".join(rows) + "\n" + TAIL


if __name__ == "__main__":
    (ROOT / "THIRD_PARTY.md").write_text(page())
