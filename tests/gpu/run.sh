#!/bin/sh
# The kit's tests, or with `bench` its figures, by a Python that has torch. Shell built-ins alone: PATH may be empty.
# What comes after --python and --site-packages is run_cases.py's, or bench's.
set -eu
case $0 in */*) kit=${0%/*} ;; *) kit=. ;; esac
usage="Usage: $kit/run.sh [--python PROGRAM] [--site-packages DIR] [bench] [ARGUMENT...]
  --python PROGRAM       a Python 3 that imports torch (or DDP_PYTHON)
  --site-packages DIR    the directory that holds torch/ and nvidia/; without --python its own Python is used (DIR/../../../bin/python3)
  bench                  the figures instead of the tests
  $kit/run.sh --python PROGRAM --help says the rest"
python=${DDP_PYTHON-}
site=
while [ $# -gt 0 ]; do
  case $1 in
    --python) python=${2-} && shift ;;
    --site-packages) site=${2-} && shift ;;
    *) break ;;
  esac
  shift
done
if [ -n "$site" ]; then
  if [ ! -e "$site/torch/lib/libtorch_cpu.so" ]; then
    echo "run.sh: $site holds no torch/lib/libtorch_cpu.so. Give the site-packages in which pip has installed torch." >&2
    exit 2
  fi
  case $site in /*) ;; *) site=$PWD/$site ;; esac
  PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH}
  export PYTHONPATH
  [ -n "$python" ] || python=$site/../../../bin/python3
fi
case $python in
  */*) ;;
  ?*) python=$(command -v "$python" || echo "$python") ;;
esac
if [ -z "$python" ] || [ ! -f "$python" ] || [ ! -x "$python" ]; then
  echo "run.sh: no Python${python:+ at $python}." >&2
  echo "$usage" >&2
  exit 2
fi
if [ "$("$python" -c 'import sys; print(sys.version_info >= (3, 10))' 2>&1)" != True ]; then
  echo "run.sh: $python is not a Python of 3.10 or newer that runs here. Give another one: --python." >&2
  exit 2
fi
script=tests/gpu/run_cases.py
if [ "${1-}" = bench ]; then
  script=tests/bench/gpu.py
  shift
fi
exec "$python" -B "$kit/$script" "$@"
