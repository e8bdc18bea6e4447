"""What a power failure takes away, made from what tests/support/unsynced.cpp has written down.

The worst that a file system may do: bytes that were not synced since they were written are gone (the file is there, empty), and
names that changed in a directory that was not synced since are what they were.
"""

import pathlib


def lose_power(log, root):
    """Changes the files below `root` to what the disk would hold. Returns the paths that lost something."""
    dirty = set()  # files with bytes that are in memory alone
    renames = []  # (from, to), not synced yet, in their order
    for line in pathlib.Path(log).read_text(encoding="utf-8").splitlines():
        what, _, rest = line.partition(" ")
        if what == "write":
            dirty.add(rest)
        elif what == "sync":
            dirty.discard(rest)
            renames = [pair for pair in renames if rest not in (str(pathlib.Path(name).parent) for name in pair)]
        elif what == "rename":
            old, new = rest.split("\t")
            # What lay below the old name lies below the new one.
            dirty = {new + path[len(old) :] if path == old or path.startswith(old + "/") else path for path in dirty}
            renames.append((old, new))
    lost = []
    for old, new in reversed(renames):
        if not new.startswith(str(root)) or not pathlib.Path(new).exists() or pathlib.Path(old).exists():
            continue
        pathlib.Path(new).rename(old)
        dirty = {old + path[len(new) :] if path == new or path.startswith(new + "/") else path for path in dirty}
        lost.append(new)
    for path in dirty:
        if path.startswith(str(root)) and pathlib.Path(path).is_file():
            pathlib.Path(path).write_bytes(b"")
            lost.append(path)
    return lost
