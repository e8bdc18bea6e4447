"""What a power failure takes away, made from what tests/support/preload_unsynced.cpp has written down.

The worst that a file system may do: bytes that were not synced since they were written are gone (the file is there, empty), and
names that changed in a directory that was not synced since are what they were.
"""

import pathlib


def moved(path, old, new, is_exchange):
    """What lay below the old name lies below the new one; and the other way round, if the two changed places."""
    for one, other in ((old, new), (new, old))[: 1 + is_exchange]:
        if path == one or path.startswith(one + "/"):
            return other + path[len(one) :]
    return path


def lose_power(log, root):
    """Changes the files below `root` to what the disk would hold. Returns the paths that lost something."""
    dirty = set()  # files with bytes that are in memory alone
    renames = []  # (from, to, whether the two changed places), not synced yet, in their order
    for line in pathlib.Path(log).read_text(encoding="utf-8").splitlines():
        what, _, rest = line.partition(" ")
        if what == "write":
            dirty.add(rest)
        elif what == "sync":
            dirty.discard(rest)
            renames = [one for one in renames if rest not in (str(pathlib.Path(name).parent) for name in one[:2])]
        elif what in ("rename", "exchange"):
            old, new = rest.split("\t")
            dirty = {moved(path, old, new, what == "exchange") for path in dirty}
            renames.append((old, new, what == "exchange"))
    lost = []
    for old, new, is_exchange in reversed(renames):
        if not new.startswith(str(root)) or not pathlib.Path(new).exists() or pathlib.Path(old).exists() != is_exchange:
            continue
        if is_exchange:
            aside = pathlib.Path(old + ".aside")
            pathlib.Path(old).rename(aside)
        pathlib.Path(new).rename(old)
        if is_exchange:
            aside.rename(new)
        dirty = {moved(path, new, old, is_exchange) for path in dirty}
        lost.append(new)
    for path in dirty:
        if path.startswith(str(root)) and pathlib.Path(path).is_file():
            pathlib.Path(path).write_bytes(b"")
            lost.append(path)
    return lost
