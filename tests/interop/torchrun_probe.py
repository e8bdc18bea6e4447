"""A worker for the comparison with torchrun: writes down what it was given, then does what PROBE_DO says.

PROBE_DO is RANK:ROUNDS:ACTION,...: in the first so many rounds that rank exits by a code, dies of a signal (SIGKILL) or leaves an
error file (error); every other rank of such a round waits to be stopped. In other rounds all end by 0. With PROBE_SILENT it prints nothing.
"""

import json
import os
import pathlib
import signal
import sys

rank, round_number = os.environ["RANK"], int(os.environ["TORCHELASTIC_RESTART_COUNT"])
record = {
    "environment": dict(os.environ),
    "arguments": sys.orig_argv[1:],
    "folder": os.getcwd(),
    "stdin": os.readlink("/proc/self/fd/0"),
    "leads a session": os.getsid(0) == os.getpid(),
    "leads a group": os.getpgid(0) == os.getpid(),
    "umask": os.umask(0o22),
}
path = pathlib.Path(os.environ["PROBE_OUT"], f"{rank}-{round_number}.json")
path.with_suffix(".new").write_text(json.dumps(record), encoding="utf-8")
path.with_suffix(".new").rename(path)
if "PROBE_SILENT" not in os.environ:
    print(f"out {rank} apple", flush=True)
    print(f"err {rank} pear", file=sys.stderr, flush=True)

acts = False
for entry in filter(None, os.environ.get("PROBE_DO", "").split(",")):
    failing, rounds, action = entry.split(":")
    if round_number >= int(rounds):
        continue
    acts = True
    if rank != failing:
        continue
    # The others are up before anyone fails, so that every rank of the round has left its record.
    folder = pathlib.Path(os.environ["PROBE_OUT"])
    while len(list(folder.glob(f"*-{round_number}.json"))) < int(os.environ["WORLD_SIZE"]):
        signal.sigtimedwait([], 0.005)
    if action.startswith("SIG"):
        os.kill(os.getpid(), getattr(signal, action))
    if action == "error":
        message = {"message": "ValueError: bad", "extraInfo": {"py_callstack": "here\n", "timestamp": "1700000000"}}
        pathlib.Path(os.environ["TORCHELASTIC_ERROR_FILE"]).write_text(json.dumps({"message": message}), encoding="utf-8")
    sys.exit(1 if action == "error" else int(action))
if acts:
    signal.pause()
