"""Runs files_tool (tests/interop/files_tool.cpp), which the environment names by DDP_FILES_TOOL."""

import os
import subprocess
import sys


def files_tool(*arguments) -> bytes:
    """What it prints. A failure is an error that holds what it said."""
    if "DDP_FILES_TOOL" not in os.environ:
        sys.exit("Set DDP_FILES_TOOL to build/<preset>/.../files_tool; ctest -L interop does so.")
    run = subprocess.run([os.environ["DDP_FILES_TOOL"], *map(str, arguments)], capture_output=True, check=False)
    if run.returncode != 0:
        raise RuntimeError(run.stderr.decode())
    return run.stdout
