"""Imports torch once, then runs torchrun in forked processes: its own code without the two seconds of its start. A test that has imported
torch itself calls run_jobs().

torchrun_zygote.py SOCKET...: to each of these descriptors a line of JSON is a list of jobs that run side by side, one for each node;
the answer is the list of their exit codes. A job has: module, arguments, folder, environment, and the files stdout and stderr.
"""

import importlib
import json
import os
import socket
import sys
import traceback

MODULES = {name: importlib.import_module(name) for name in ("torch.distributed.run", "torch.distributed.launch")}


def become(job):
    for target, path, flags in ((0, os.devnull, os.O_RDONLY), (1, job["stdout"], os.O_WRONLY), (2, job["stderr"], os.O_WRONLY)):
        os.dup2(os.open(path, flags | os.O_CREAT | os.O_APPEND, 0o644), target)
    os.chdir(job["folder"])
    os.environ.clear()
    os.environ.update(job["environment"])
    module = MODULES[job["module"]]
    sys.argv = [module.__file__, *job["arguments"]]
    try:
        module.main(job["arguments"])
        return 0
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:  # as the interpreter does
        traceback.print_exc()
        return 1


def run_jobs(jobs):
    """Their exit codes."""
    pids = []
    for job in jobs:
        pids.append(os.fork())
        if pids[-1] == 0:
            code = become(job)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def serve(connection):
    with connection, connection.makefile("rw") as stream:
        for line in stream:
            stream.write(json.dumps(run_jobs(json.loads(line))) + "\n")
            stream.flush()


def main():
    connections = [socket.socket(fileno=int(word)) for word in sys.argv[1:]]
    for connection in connections:
        connection.set_inheritable(False)
    servers = []
    for connection in connections:
        servers.append(os.fork())
        if servers[-1] == 0:
            serve(connection)
            os._exit(0)
        connection.close()
    for pid in servers:
        os.waitpid(pid, 0)
    os._exit(0)  # the end of an interpreter that has imported torch takes a second


if __name__ == "__main__":
    main()
