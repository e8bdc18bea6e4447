"""The Python that has ultralytics and pycocotools: DDP_PYTHON_DETECTOR names it. It imports torch, torchvision,
safetensors, pycocotools and ultralytics, which is run, and nothing of it kept here.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

PYTHON = os.environ.get("DDP_PYTHON_DETECTOR", "")


def enter(file):
    """Goes on in it: to be called first thing, as a test starts in any Python. Ends by 77, a skip, without one."""
    if not PYTHON:
        print("DDP_PYTHON_DETECTOR names no Python with pycocotools and ultralytics")
        sys.exit(77)
    if pathlib.Path(sys.executable).absolute() == pathlib.Path(PYTHON).absolute():
        return
    # Nothing of ultralytics' may look for a network, or write where users have their settings.
    with tempfile.TemporaryDirectory() as settings:
        environment = os.environ | {"YOLO_OFFLINE": "true", "YOLO_CONFIG_DIR": settings, "MPLCONFIGDIR": settings}
        sys.exit(subprocess.run([PYTHON, "-B", file, *sys.argv[1:]], env=environment, check=False).returncode)
