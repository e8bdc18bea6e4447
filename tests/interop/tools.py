"""Runs the programs that stand for our libraries here (files_tool.cpp, image_tool.cpp, ...), which the environment names; and the tests of a file."""

import os
import pathlib
import subprocess
import sys
import tempfile
import traceback
import unittest

from processes import end_with_parent


def run_tool(variable, *arguments, given=b"") -> bytes:
    """What it prints. A failure is an error that holds what it said."""
    if variable not in os.environ:
        sys.exit(f"Set {variable} to the program of that name below build/<preset>/tests; ctest -L interop does so.")
    run = subprocess.run([os.environ[variable], *map(str, arguments)], input=given, capture_output=True, check=False)
    if run.returncode != 0:
        raise RuntimeError(run.stderr.decode())
    return run.stdout


def run_program(*command, folder, expect=0, **variables) -> str:
    """Runs it with one thread for each rank, as every launcher here does. What it prints; a failure is an error that holds it."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    run = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, cwd=folder, env=environment, timeout=250, check=False
    )
    if run.returncode != expect:
        raise AssertionError(f"{command}: {run.returncode}, not {expect}\n{run.stdout}\n{run.stderr}")
    return run.stdout + run.stderr


def run_tests(**how):
    """unittest.main(), without the end of an interpreter that has imported torch, which is a second of computing."""
    result = unittest.main(exit=False, **how).result
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if result.wasSuccessful() and result.testsRun else 1)


class Fork:
    """action() in a fork of this process: a program of its own whose imports are those of this one. It may compute where OMP_NUM_THREADS is 1
    from the start. torch.set_num_threads() makes a pool, with which a fork's backward() aborts now and then ("Invalid thread pool")."""

    def __init__(self, action, folder, **variables):
        self.said = tempfile.TemporaryFile("w+")
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                end_with_parent()
                os.dup2(self.said.fileno(), 1)
                os.dup2(self.said.fileno(), 2)
                os.chdir(folder)
                os.environ.update(variables)
                action()
                code = 0
            except BaseException:  # as the interpreter does
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)

    def finish(self) -> str:
        """What it has printed. A failure is an error that holds it."""
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        with self.said:
            self.said.seek(0)
            text = self.said.read()
        if code != 0:
            raise AssertionError(f"{code}, not 0\n{text}")
        return text


def files_tool(*arguments) -> bytes:
    return run_tool("DDP_FILES_TOOL", *arguments)


def models_tool(*arguments) -> str:
    return run_tool("DDP_MODELS_TOOL", *arguments).decode()


def models_tool_each(commands) -> None:
    """All by one process, as starting it is slow."""
    models_tool("each", *[word for command in commands for word in (*command, "/")])


def shm_variables(programs) -> dict:
    """The variables of a script with `import ddp_shm`: where it is, its library (of that folder of programs), one thread."""
    (library,) = pathlib.Path(programs).glob("libddp-shm-*.so")
    module = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "shm"
    return {"PYTHONPATH": str(module), "DDP_SHM_LIBRARY": str(library.resolve()), "OMP_NUM_THREADS": "1"}
