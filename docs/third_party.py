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
loaded. `ddp-worker-start` is `bin/ddp-worker` of the package of pip. `libddp-shm.so` is what the Python
module `ddp_shm` loads, `libddp-worker-cuda.so` the module for GPUs.

The notices of what is static or of headers travel with the programs, as Debian has them: in
`share/doc/ddp-launch/licenses` and `share/doc/ddp-worker/licenses` of a prefix, a tarball and the
Debian package, and in the `.dist-info/licenses` of the packages of pip.

`ddp-worker`, `libddp-shm.so` and `libddp-worker-cuda.so` load LibTorch, and hold code of its headers
(BSD-3-Clause). Its licence, and those of its parts, are in torch's wheel, and in `lib/ddp` of a prefix.
`libddp-worker-cuda.so` also loads the libraries of NVIDIA that this torch names, and takes
declarations from the headers of NCCL (BSD-3-Clause) and of the CUDA runtime (NVIDIA's own licence).

`ddp-launch` and `ddp-worker-start` hold glibc, whose LGPL asks that you can link the program again
with a glibc of yours: `./make.sh build-launcher`, or `build`, in the source of the same version,
does so.

The project itself has no licence: its owners have not chosen one yet.
"""


def page():
    rows = ["| library | Debian package | licence | in |", "|---|---|---|---|"]
    for library in json.loads((ROOT / "cmake/third_party.json").read_text()):
        programs = ", ".join(f"{program} ({how})" for program, how in library["in"].items())
        rows.append(f"| {library['name']} | `{library['package']}` | {library['licence']} | {programs} |")
    return HEAD + "\n".join(rows) + "\n" + TAIL


if __name__ == "__main__":
    (ROOT / "THIRD_PARTY.md").write_text(page())
