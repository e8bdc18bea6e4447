"""Imports torch once, then runs torchrun in a forked process for each line of JSON on stdin: torchrun's own code without the two
seconds of its start. Answers by the exit code, a line each. A test that has imported torch itself calls run_job().

A line has: module, arguments, folder, environment, and the files stdout and stderr.
"""

import importlib
import json
import os
import sys
import traceback

MODULES = {name: importlib.import_module(name) for name in ("torch.distributed.run", "torch.distributed.launch")}


def become(job):
    for target, path, flags in ((0, os.devnull, os.O_RDONLY), (1, job["stdout"], os.O_WRONLY), (2, job["stderr"], os.O_WRONLY)):
        os.dup2(os.open(path, flags | os.O_CREAT, 0o644), target)
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


def run_job(job):
    """Its exit code."""
    pid = os.fork()
    if pid == 0:
        code = become(job)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    for line in sys.stdin:
        print(run_job(json.loads(line)), flush=True)
