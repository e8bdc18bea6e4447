# Part of make.sh: LibTorch, and environments of Python, each in a directory of the cache.
# shellcheck shell=bash disable=SC2154 # variables of make.sh

# --- LibTorch, and Python for the interop tests ------------------------------------------------------------------------------

torch_dir() { printf '%s' "${DDP_TORCH:-$cache/torch-$torch_version}"; }

python_for_tests() {
  if [[ -n "${DDP_PYTHON:-}" ]]; then
    printf '%s' "$DDP_PYTHON"
  elif [[ -e "$cache/python-$torch_version/complete" ]]; then
    printf '%s' "$cache/python-$torch_version/bin/python"
  fi
}

# Runs a function while this process alone may write to the cache.
alone_in_cache() (
  umask 022  # what is installed from here is for others, too
  mkdir -p "$cache"
  exec 9>"$cache/lock"
  if ! flock --nonblock 9; then
    say "another ./make.sh is filling $cache; waiting for it"
    flock 9
  fi
  "$@"
)

need_torch() {
  [[ "$build_worker" != OFF ]] || return 0
  local lacks patience="${DDP_PATIENCE:-60}" result=0
  timeout --kill-after=5 "$patience" python3 -c '' >/dev/null 2>&1 || result=$?
  [[ "$result" != 124 && "$result" != 137 ]] || fail "$(command -v python3) has not started within $patience s. Mend it, or put another python3 before it on the PATH."
  [[ "$(torch_dir)" != *[:\;]* ]] ||
    fail "LibTorch in $(torch_dir): a program's list of directories (RPATH) cannot hold a path with ':' or ';'. Set DDP_TORCH, or XDG_CACHE_HOME, to one without."
  if [[ -n "${DDP_TORCH:-}" ]]; then
    [[ -e "$DDP_TORCH/torch/lib/libtorch_cpu.so" ]] ||
      fail "DDP_TORCH=$DDP_TORCH holds no torch/lib/libtorch_cpu.so. Unset it to have LibTorch $torch_version fetched."
    lacks="$(ldd "$DDP_TORCH/torch/lib/libtorch_cpu.so" 2>/dev/null | sed -n 's/^[[:space:]]*\([^ ]*\) => not found$/\1/p' || true)"
    [[ -z "$lacks" ]] ||
      fail "DDP_TORCH=$DDP_TORCH: its libtorch_cpu.so needs ${lacks//$'\n'/, }, which are not on this machine. Unpack" \
        "${torch_wheels[*]:1} there (nvidia/ beside torch/), or unset DDP_TORCH to have LibTorch $torch_version fetched."
  elif [[ ! -e "$(torch_dir)/complete" ]]; then
    alone_in_cache get_torch
  fi
}

# What pip has loaded and unpacked of `total` MB, in `filling`.
loaded_so_far() { printf 'loaded and unpacked %s of %s MB' "$(megabytes "$filling")" "$total"; }

get_torch() {
  local target python_version new log platforms=() glibc filling total=1800
  target="$(torch_dir)"
  [[ ! -e "$target/complete" ]] || return 0
  # Of the wheel only the libraries and headers are used here, which are the same for every Python; the tests' own Python, made
  # from a copy, wants the wheel of its version.
  python_version="$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
  [[ "$python_version" =~ ^3\.1[0-4]$ ]] || python_version=3.11
  for glibc in {28..17}; do platforms+=(--platform "manylinux_2_${glibc}_x86_64"); done
  say "getting LibTorch $torch_version (550 MB to load, 1.2 GB in $target), once per machine"
  rm -rf "$target" "$target".new.*
  new="$(mktemp -d "$target.new.XXXXXX")"
  log="$cache/pip.log"
  : >"$log"
  filling="$new"
  # TMPDIR: pip unpacks there, and /tmp is often too small.
  if ! TMPDIR="$new" moving loaded_so_far "$log" python3 -m pip install --quiet --no-deps --no-cache-dir --no-compile --target "$new/site" \
    --implementation cp --python-version "$python_version" --only-binary=:all: "${platforms[@]}" \
    "${torch_wheels[@]}"; then
    rm -rf "$new"
    grep -i error "$log" | tail -n 2 >&2 || true
    fail "pip cannot get ${torch_wheels[*]} (lines of pip: $log). Is there a network? Without one: unpack these wheels" \
      "into one directory and set DDP_TORCH to it, or build the launcher alone: DDP_BUILD_WORKER=OFF ./make.sh build"
  fi
  if ! python3 cmake/verify_torch.py "$new/site" "$torch_version"; then
    rm -rf "$new"
    fail "the LibTorch just unpacked is not usable (see above). Try again; the cache is as it was."
  fi
  touch "$new/site/complete"
  mv -T "$new/site" "$target"
  rm -rf "$new"
}

# need_cuda, say_cuda: NVIDIA's libraries, when they are wanted.
cuda=AUTO
# shellcheck disable=SC1091 # it is checked by itself
source cmake/cuda_setup.sh

# The tests against Python do without when it cannot be had: they are then skipped, with the reason, and counted.
need_python() {
  [[ "$build_worker" != OFF && -z "${DDP_PYTHON:-}" ]] || return 0
  ! has_wheels "$cache/python-$torch_version" "${python_wheels[@]}" || return 0
  alone_in_cache get_python || say "no Python with torch, so the interop tests will be skipped"
}

# require_python WHY: sets `python`, or says what is missing.
require_python() {
  need_torch
  need_python
  python="$(python_for_tests)"
  [[ -n "$python" ]] || fail "$1: set DDP_PYTHON to a Python that imports torch"
}

get_python() {
  local target="$cache/python-$torch_version" log="$cache/pip.log" site
  if [[ -e "$target/complete" ]]; then
    add_wheels "$target" "${python_wheels[@]}"
    return
  fi
  say "getting Python's side of torch $torch_version for the interop tests (about 2 GB to load, 5 GB in $target), once per machine"
  new_python python3 "$target" || return 1
  if [[ -e "$cache/torch-$torch_version/complete" ]]; then
    # The same files under a second name: no second copy on the disk, and pip finds torch installed.
    site="$("$target/bin/python" -c "$site_of")"
    cp --archive --link "$cache/torch-$torch_version"/*/ "$site/"
  fi
  fill_python "$target" 7000 'import numpy, safetensors, tensorboard, torch, torchvision; torch.ones(1)' "${python_wheels[@]}" || return 1
  # pip compiles what it installs, and these files were linked. The tests' Python keeps nothing that it compiles (-B): each process with an
  # optimizer of torch would compile 220 modules again, in 2.4 s.
  "$target/bin/python" -m compileall -q "$("$target/bin/python" -c "$site_of")/torch" >>"$log" 2>&1 || true
}

# The Python that the user named, else that of an environment in the cache; nothing: there is none.
python_in() {
  if [[ -n "$2" ]]; then
    printf '%s' "$2"
  elif [[ -e "$1/complete" ]]; then
    printf '%s' "$1/bin/python"
  fi
}

# Whether the environment $1 has been filled, with just these wheels.
has_wheels() { [[ "$(cat "$1/complete" 2>/dev/null)" == "${*:2}" ]]; }

# An old torch, whose client of the store is another. It has no wheels for a Python that is newer than 3.11.
need_torch1() {
  [[ "$build_worker" != OFF && -z "$(python_torch1)" ]] || return 0
  alone_in_cache get_torch1 || say "no Python with torch $torch1_version, so its test will be skipped"
}

python_torch1() { python_in "$cache/python-$torch1_version" "${DDP_PYTHON_TORCH1:-}"; }

get_torch1() {
  local target="$cache/python-$torch1_version" log="$cache/pip.log"
  [[ ! -e "$target/complete" ]] || return 0
  say "getting torch $torch1_version for a test of its client (1.8 GB to load, 4 GB in $target), once per machine"
  new_python python3 "$target" || return 1
  fill_python "$target" 5300 'import numpy, torch; torch.ones(1)' "torch==$torch1_version" 'numpy<2'
}

# COCO's judge and the field's package beside the tests' torch, whose detector ours is held against.
need_detector() {
  [[ "$build_worker" != OFF && -z "${DDP_PYTHON_DETECTOR:-}" && -n "$(python_for_tests)" ]] || return 0
  ! has_wheels "$cache/detector-$torch_version" "${detector_wheels[@]}" || return 0
  alone_in_cache get_detector || say "no Python with pycocotools and ultralytics, so their test will be skipped"
}

python_detector() { python_in "$cache/detector-$torch_version" "${DDP_PYTHON_DETECTOR:-}"; }

get_detector() {
  local target="$cache/detector-$torch_version" log="$cache/pip.log"
  ! has_wheels "$target" "${detector_wheels[@]}" || return 0
  say "getting ultralytics and pycocotools for the detector's tests (150 MB to load, 520 MB in $target), once per machine"
  new_python_beside_torch "$target" || return 1
  # It looks for a network, and writes settings, as soon as it is imported.
  YOLO_OFFLINE=true YOLO_CONFIG_DIR="$target/tmp" MPLCONFIGDIR="$target/tmp" \
    fill_python "$target" 520 'import pycocotools.cocoeval, ultralytics' "${detector_wheels[@]}"
}

# Where runs are kept track of; its client keeps them in files here.
need_tracking() {
  [[ "$build_worker" != OFF && -z "${DDP_PYTHON_TRACKING:-}" ]] || return 0
  ! has_wheels "$cache/tracking" "${tracking_wheels[@]}" || return 0
  alone_in_cache get_tracking || say "no Python with mlflow, so its test will be skipped"
}

python_tracking() { python_in "$cache/tracking" "${DDP_PYTHON_TRACKING:-}"; }

get_tracking() {
  get_environment tracking "for a test of deploy/tracking (15 MB to load, 120 MB" 120 'import mlflow' "${tracking_wheels[@]}"
}

# Libraries of others beside the tests' torch, in an environment of their own.
get_others() {
  local target="$cache/others-$torch_version" log="$cache/pip.log"
  ! has_wheels "$target" "${others_wheels[@]}" || return 0
  say "getting ${others_wheels[*]} (100 MB to load, 300 MB in $target), once per machine"
  new_python_beside_torch "$target" || return 1
  fill_python "$target" 400 'import accelerate, lightning, tqdm, transformers' "${others_wheels[@]}"
}

# What makes a site of the pages, and nothing else.
get_docs() { get_environment docs "(15 MB to load, 165 MB" 165 'import material, mkdocs' "${docs_wheels[@]}"; }

# A loader to compare with, whose numpy is its own.
get_dali() { get_environment dali "to compare with (700 MB" 700 'import nvidia.dali, numpy' "${dali_wheels[@]}"; }

readonly site_of='import site; print(site.getsitepackages()[0])'

# new_python_beside_torch TARGET: one that finds the tests' torch, too.
new_python_beside_torch() {
  local python
  python="$(python_for_tests)"
  new_python "$python" "$1" || return 1
  "$python" -c "$site_of" >"$("$1/bin/python" -c "$site_of")/torch.pth"
}

# get_environment NAME WORDS MEGABYTES IMPORTS WHEELS...: an environment of the cache that has these wheels alone.
get_environment() {
  local target="$cache/$1" words="$2" total="$3" imports="$4" log="$cache/pip.log"
  shift 4
  ! has_wheels "$target" "$@" || return 0
  say "getting $* $words in $target), once per machine"
  new_python python3 "$target" || return 1
  fill_python "$target" "$total" "$imports" "$@"
}

# new_python PYTHON DIRECTORY: an empty environment there, in place of what was left of another.
new_python() {
  rm -rf "$2"
  "$1" -m venv "$2" >"$log" 2>&1 && return 0
  tail -n 2 "$log" >&2
  return 1
}

# fill_python DIRECTORY MEGABYTES IMPORTS WHEELS...: whole, or gone.
fill_python() {
  local filling="$1" total="$2" imports="$3"
  shift 3
  mkdir "$filling/tmp"
  if ! { TMPDIR="$filling/tmp" moving loaded_so_far "$log" "$filling/bin/python" -m pip install --quiet --no-cache-dir --only-binary=:all: "$@" &&
    "$filling/bin/python" -c "$imports" >>"$log" 2>&1; }; then
    grep -i error "$log" | tail -n 2 >&2 || true
    rm -rf "$filling"
    return 1
  fi
  rm -rf "$filling/tmp"
  printf '%s' "$*" >"$filling/complete"
}

# add_wheels DIRECTORY WHEELS...: what an environment of another day lacks of them. Without them it stays as it is.
add_wheels() {
  local target="$1"
  shift
  [[ "$(cat "$target/complete")" != "$*" ]] || return 0
  say "adding what is missing in $target of: $*"
  if ! "$target/bin/python" -m pip install --quiet --no-cache-dir --only-binary=:all: "$@" >"$log" 2>&1; then
    grep -i error "$log" | tail -n 2 >&2 || true
    say "pip cannot add them, so the tests that need them will fail (lines of pip: $log). Is there a network?"
    return 0
  fi
  printf '%s' "$*" >"$target/complete"
}
