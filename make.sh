#!/usr/bin/env bash
# The one entry to the project: sets up what is missing, then builds, tests, checks or runs. Quick when nothing is missing.
# Promises: nothing is written outside the checkout but Debian packages and one cache directory, once per machine; an unusual
# system, missing rights or a missing network is one message that says what is missing and what to type.
set -euo pipefail
readonly called_in="$PWD"
cd "$(dirname "${BASH_SOURCE[0]}")"

usage() {
  cat <<'TEXT'
Usage: ./make.sh COMMAND

  run [KEY=VALUE...]  set up, build, train the built-in digits on two ranks
  test [--times]      set up, build, and run every test that needs no GPU; and what they took
  build               build/release/ddp-launch and build/release/ddp-worker, without tests
  check [PART]        lint, kills, asan launcher, asan worker, tsan, fuzz: format and rules, 100 kills, tests under ASan+UBSan and TSan,
                      a minute of fuzzing; on 2 cores 25 minutes at most for one part
  bench [launcher]    ddp-launch beside torchrun and mpiexec.hydra, and its store beside torch's, on this machine
  bench readme        the tables of README.md, again: at normal priority, as Markdown
  bench gpu [ARG...]  Python plain, under DDP, compiled and as a CUDA graph, beside ddp-worker on one device: ms per step, images/s, start, memory
  bench loader [ARG...]  torch's DataLoader, DALI and ultralytics where they can be had, beside ddp-worker's loader: images/s, per core, share of libjpeg-turbo
  bench checkpoint [ARG...]  torch.save, async_save and dd beside ddp-worker's saves: how long training stands still, MB/s
  bench restart [ARG...]  --restart failed, whole rounds and torchrun: how long it takes from the loss of a rank to the next step
  bench shm [ARG...]  shared memory beside Gloo on one node: sums, a DDP step in Python, a job of ddp-worker
  bench newcomer      a fresh clone, its build, and what README says after it, each command timed
  bench scale         one agent beside 1,249 that are played, without and with a token: join, start, failure, teardown, memory
  soak                200 rounds with random faults on four nodes (DDP_SOAK_ROUNDS, DDP_SOAK_SEED)
  soak healthy        an hour of a job that is healthy and does not look it (DDP_SOAK_SECONDS, DDP_SOAK_SEED)
  soak cases          every case of the tests of which ./make.sh test takes those that differ most
  soak hostile        ten minutes of jobs with hostile clients at their port, with a token and without (DDP_SOAK_SECONDS each)
  test-torch VERSION  the worker's tests, built against another release of torch than the first of cmake/torch_versions.txt
  test-slurm          set up, build, and run jobs on a Slurm of two nodes that is started on this machine
  test-others         accelerate, Lightning, transformers and tqdm under torchrun and ddp-launch, side by side; a quarter of an hour
  test-gpu [ARG...]   what this machine can run of the tests for GPUs (--device cpu|cuda, names of cases); log and JSON in build/gpu
  gpu-kit [--torch VERSION] OUT  the same as a directory to carry to a machine with a GPU and that torch: no compiler, network or root is
                      needed there
  gpu-rehearsal [NAME...]  the tests for GPUs on the CPU as far as they go, with bf16 for fp16 and figures made up
  lint                format, the project's own rules, shellcheck
  rooms [FOLDER...]   what each file is for: the first sentence of its head comment
  figures             files, lines, comments and tests of this tree, by room
  deps                install what building, testing and linting need: Debian packages, LibTorch
  docs                the pages of the checkout as a site, in build/docs/site (mkdocs-material)
  build-launcher [--target aarch64]  ddp-launch alone, one static file, in build/launcher-x86_64 or build/launcher-aarch64
  dist [--target aarch64]  that as a tarball and as a Debian package, in build/dist; of the same files the same bytes
  wheel               build/wheel/*.whl: the packages ddp_launch and ddp_worker for pip, the latter for all of DDP_WHEEL_TORCH, or of
                      cmake/torch_versions.txt
  test-wheel          installs them as another user beside the newest and the oldest torch, trains, moves, upgrades and uninstalls them
  test-images [NAME...]  builds the images of deploy/docker without a container engine, and runs jobs in them; needs root
  install PREFIX      copy the programs to PREFIX/bin, the job files to PREFIX/share/ddp
  clean               remove build/ (LibTorch stays in the cache)

Variables
  DDP_TORCH_VERSION   a release of torch of cmake/torch_versions.txt, instead of the first; it is built in build/torch-VERSION
  DDP_TORCH           a directory that holds torch/ and nvidia/ side by side, instead of getting LibTorch
  DDP_PYTHON          a Python that imports torch, torchvision, numpy, safetensors and tensorboard, for the interop tests
  DDP_PYTHON_TORCH1   one that imports torch 1.13 and numpy, for one of them
  DDP_PYTHON_DETECTOR one that imports what DDP_PYTHON does, pycocotools and ultralytics, for another
  DDP_PYTHON_TRACKING one that imports mlflow, for a test of deploy/tracking
  DDP_BUILD_WORKER    OFF: the launcher alone, without LibTorch
  DDP_CUDA            ON: for GPUs, with NVIDIA's libraries; OFF: without. Else by whether this machine has an NVIDIA driver
TEXT
}

readonly torch1_version=1.13.1
readonly dali_wheels=(nvidia-dali-cuda130==2.4.0)
readonly wheel_wheels=(build==1.6.1 scikit-build-core==1.1.2 twine==7.0.0 wheel)
readonly installer_wheels=(uv==0.13.9 pipx==1.18.4)
readonly docs_wheels=(mkdocs-material==9.8.1 mkdocs==1.6.1)
readonly tracking_wheels=(mlflow-skinny==3.17.2)
readonly others_wheels=(accelerate==1.15.0 lightning==2.6.6 transformers==5.23.0 tqdm==4.70.1)
# The field's package of detectors and COCO's judge. Its wishes would get another torch, so all that it needs is named.
readonly detector_wheels=(--no-deps ultralytics==8.4.190 pycocotools==2.0.11 ultralytics-thop==2.2.3 opencv-python-headless matplotlib psutil
  pyyaml requests scipy polars seaborn pandas tqdm contourpy cycler fonttools kiwisolver pyparsing python-dateutil six pytz tzdata certifi
  idna charset-normalizer urllib3 py-cpuinfo dill)
readonly cache="${XDG_CACHE_HOME:-${HOME:?HOME is not set: set it, or XDG_CACHE_HOME}/.cache}/ddp"
readonly build_worker="${DDP_BUILD_WORKER:-ON}"

readonly library_packages=(
  libboost1.81-dev libboost-program-options1.81-dev libboost-json1.81-dev
  libyaml-cpp-dev libspdlog-dev libfmt-dev libsodium-dev libxxhash-dev zlib1g-dev liblzma-dev libcurl4-gnutls-dev libprotozero-dev
  libjpeg62-turbo-dev libpng-dev libwebp-dev)
readonly build_packages=(g++ cmake ninja-build ccache mold "${library_packages[@]}" python3 python3-pip python3-venv)
readonly arm64_tools=(g++-aarch64-linux-gnu qemu-user-static)
readonly arm64_packages=("${library_packages[@]}" libboost-container1.81-dev libyaml-cpp0.7 libfmt9 libspdlog1.10 libjpeg62-turbo libpng16-16 zlib1g liblzma5 libcurl3-gnutls)
readonly test_packages=(libgtest-dev libgmock-dev iproute2 nftables openssh-server openssh-client libfaketime systemd python3-yaml python3-jsonschema python3-prometheus-client chromium zsh fish mandoc)
readonly lint_packages=(clang-format-14 shellcheck git)
readonly slurm_packages=(munge slurmctld slurmd slurm-client)
readonly fuzz_packages=(clang-16 libclang-rt-16-dev)

say() { printf 'make.sh: %s\n' "$*" >&2; }
fail() {
  say "$@"
  exit 1
}

# A path of the command line, which is relative to where the user is.
from_caller() { (cd "$called_in" && realpath --canonicalize-missing -- "$1"); }

# moving HOW_FAR LOG COMMAND...: its lines go to LOG; on a terminal one line tells every second what the function HOW_FAR prints.
moving() {
  local how_far="$1" log="$2" ticker="" result=0
  shift 2
  if [[ -t 2 ]]; then
    tick "$how_far" "$BASHPID" &
    ticker=$!
  fi
  "$@" >>"$log" 2>&1 || result=$?
  if [[ -n "$ticker" ]]; then
    kill "$ticker" 2>/dev/null || true
    wait "$ticker" 2>/dev/null || true
    printf '\r\033[K' >&2
  fi
  return "$result"
}

# Until the process is gone.
tick() {
  while ! timeout 1 tail --pid="$2" -f /dev/null; do printf '\r\033[Kmake.sh: %s' "$("$1")" >&2; done
}

megabytes() { du --summarize --apparent-size --block-size=1000000 "$@" 2>/dev/null | cut -f 1; }

# --- The release of torch ----------------------------------------------------------------------------------------------------

# That of these commands, of the variable, or the first of the table. What is built for another than the first has a directory of its own.
declare -A torch_rows=()
tested_torch=()
while read -r version columns; do
  [[ "$version" == [0-9]* ]] || continue
  tested_torch+=("$version")
  torch_rows["$version"]="$columns"
done <cmake/torch_versions.txt
readonly tested_torch torch_rows default_torch="${tested_torch[0]}"
torch_version="${DDP_TORCH_VERSION:-$default_torch}"
case "${1:-} ${2:-}" in
  "gpu-kit --torch") torch_version="${3:-}" ;;
  "test-torch "?*) torch_version="$2" ;;
esac
# Where `build` builds for a release.
build_dir_of() { if [[ "$1" == "$default_torch" ]]; then echo build/release; else echo "build/torch-$1"; fi; }
release_dir="$(build_dir_of "$torch_version")"
# It leaves out tests, which build/release has.
[[ "${1:-}" != test-torch ]] || release_dir="build/torch-$torch_version"
readonly torch_version release_dir
[[ -n "${torch_rows[${torch_version:-none}]:-}" ]] ||
  fail "ddp-worker is not tested with torch '$torch_version': tested are ${tested_torch[*]}. With another torch on a machine with a GPU: install one of" \
    "these there, into a directory of its own, and give run.sh --site-packages. To build for a LibTorch of yours: DDP_TORCH=DIR"
read -r -a torch_row <<<"${torch_rows[$torch_version]}"
readonly torchvision_version="${torch_row[0]}" cuda_headers="${torch_row[-1]}"
readonly torch_wheels=("torch==$torch_version" "${torch_row[@]:3:${#torch_row[@]}-4}")
readonly python_wheels=("torch==$torch_version" "$cuda_headers" numpy safetensors tensorboard "torchvision==$torchvision_version" pillow)
readonly cuda_headers_dir="$cache/cuda-headers-$torch_version"

# --- Debian packages ---------------------------------------------------------------------------------------------------------

need_packages() {
  local missing
  if ! command -v dpkg-query >/dev/null; then
    fail "this system has no dpkg; these Debian 12 packages are needed, by whatever name they have here: $*." \
      "With them installed: cmake --preset release -DDDP_TORCH=DIR && cmake --build build/release"
  fi
  if [[ "$(uname -m)" != x86_64 ]]; then
    fail "this machine is $(uname -m); the tested one is x86_64. Needed are: $*, and a LibTorch $torch_version for $(uname -m)." \
      "With them: cmake --preset release -DDDP_TORCH=DIR && cmake --build build/release"
  fi
  missing="$(comm -23 <(printf '%s\n' "$@" | sort) \
    <(dpkg-query --show --showformat='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^installed //p' | sort))"
  [[ -n "$missing" ]] || return 0
  # shellcheck disable=SC2086 # one name per word
  install_packages $missing
}

install_packages() {
  local as_root=() log
  if [[ "$(id -u)" != 0 ]]; then
    if ! sudo -n true 2>/dev/null; then
      fail "these packages are missing, and installing them needs root. Type: sudo apt-get install -y $*"
    fi
    as_root=(sudo -n)
  fi
  say "installing $*"
  log="$(mktemp)"
  local install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@")
  # A fresh system has no package lists yet, so a first failure is answered by an update.
  if ! moving packages_so_far "$log" "${install[@]}"; then
    "${as_root[@]}" apt-get update >>"$log" 2>&1 || true
    if ! moving packages_so_far "$log" "${install[@]}"; then
      grep -E '^(E|W|Err):?' "$log" | tail -n 3 >&2 || true
      fail "apt-get cannot install: $*. Is there a network, and is this Debian 12? All of apt-get's lines: $log"
    fi
  fi
  rm -f "$log"
}

packages_so_far() {
  printf 'package %s of %s' "$(grep --count '^Setting up ' "$log")" "$(sed -n 's/.* upgraded, \([0-9]*\) newly .*/\1/p' "$log" | tail -n 1)"
}

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
  local lacks
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
  fill_python "$target" 7000 'import numpy, safetensors, tensorboard, torch, torchvision; torch.ones(1)' "${python_wheels[@]}"
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
  local target="$cache/detector-$torch_version" log="$cache/pip.log" python
  ! has_wheels "$target" "${detector_wheels[@]}" || return 0
  say "getting ultralytics and pycocotools for the detector's tests (150 MB to load, 520 MB in $target), once per machine"
  python="$(python_for_tests)"
  new_python "$python" "$target" || return 1
  "$python" -c "$site_of" >"$("$target/bin/python" -c "$site_of")/torch.pth"
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
  local target="$cache/others-$torch_version" log="$cache/pip.log" python
  ! has_wheels "$target" "${others_wheels[@]}" || return 0
  say "getting ${others_wheels[*]} (100 MB to load, 300 MB in $target), once per machine"
  python="$(python_for_tests)"
  new_python "$python" "$target" || return 1
  "$python" -c "$site_of" >"$("$target/bin/python" -c "$site_of")/torch.pth"
  fill_python "$target" 400 'import accelerate, lightning, tqdm, transformers' "${others_wheels[@]}"
}

# What makes a site of the pages, and nothing else.
get_docs() { get_environment docs "(15 MB to load, 165 MB" 165 'import material, mkdocs' "${docs_wheels[@]}"; }

# A loader to compare with, whose numpy is its own.
get_dali() { get_environment dali "to compare with (700 MB" 700 'import nvidia.dali, numpy' "${dali_wheels[@]}"; }

readonly site_of='import site; print(site.getsitepackages()[0])'

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

# --- CMake -------------------------------------------------------------------------------------------------------------------

# Where a preset is built.
directory_of() { if [[ "$1" == release ]]; then echo "$release_dir"; else echo "build/$1"; fi; }

# configure PRESET [ARGUMENT...]: only when the preset, the arguments or the build directory are new.
configure() {
  local preset="$1" directory wanted log
  directory="$(directory_of "$1")"
  shift
  wanted="$(cksum CMakePresets.json) $*"
  if [[ -e "$directory/build.ninja" && "$(cat "$directory/configured" 2>/dev/null)" == "$wanted" ]]; then return 0; fi
  mkdir -p "$directory"
  log="$directory/configure.log"
  say "configuring $directory (lines of cmake: $log)"
  if ! cmake --preset "$preset" -B "$directory" "$@" >"$log" 2>&1; then
    cat "$log" >&2
    fail "cmake cannot configure $directory, see above"
  fi
  sed -n '/^CMake Warning/,/^$/p' "$log" >&2
  printf '%s' "$wanted" >"$directory/configured"
}

# compile DIRECTORY [ARGUMENT...]: on a terminal one line tells how far it is, and ends with what failed; elsewhere ninja prints its own.
compile() {
  local directory="$1" log="$1/build.log" begun="$SECONDS"
  shift
  if [[ ! -t 2 ]]; then
    cmake --build "$directory" "$@"
    return
  fi
  : >"$log"
  moving compiled_so_far "$log" cmake --build "$directory" "$@" && return
  sed -n '/^FAILED: /,/^\[/p' "$log" >&2
  fail "$directory cannot be built, see above. All lines: $log"
}

# What is left, as if each file took as long as those before.
compiled_so_far() {
  local steps took="$((SECONDS - begun))"
  steps="$(grep --only-matching '^\[[0-9]*/[0-9]*\]' "$log" | tail -n 1)"
  [[ "$steps" =~ ([0-9]+)/([0-9]+) ]] || return 0
  local done="${BASH_REMATCH[1]}" all="${BASH_REMATCH[2]}"
  printf 'compiling: %s of %s' "$done" "$all"
  ((took < 10 || done == 0)) || printf ', about %s s left' "$((took * (all - done) / done))"
}

build() {
  need_packages "${build_packages[@]}"
  need_torch
  need_cuda
  # A build directory that has the tests keeps them, for the next `test`.
  local tests=OFF
  if grep --quiet DDP_TESTS:BOOL=ON "$release_dir/CMakeCache.txt" 2>/dev/null; then tests=ON; fi
  configure_release "$tests"
  compile "$release_dir" --target programs
  say_cuda "$release_dir/libddp-worker-cuda.so"
}

build_tests() {
  need_packages "${build_packages[@]}" "${test_packages[@]}"
  need_torch
  need_cuda
  configure_release ON
  compile "$release_dir"
}

configure_release() {
  configure release "-DDDP_TESTS=$1" "-DDDP_TESTS_WITHOUT_TORCH=${2:-ON}" "-DDDP_BUILD_WORKER=$build_worker" "-DDDP_TORCH=$(torch_dir)" "-DDDP_PYTHON=$(python_for_tests)" \
    "-DDDP_CUDA=$cuda" "-DDDP_CUDA_HEADERS=$cuda_headers_dir"
}

# Memory that cannot be had is an error to the program, as without the sanitizer, and not the end of it; and no process sleeps for a
# second before it ends, which is later than most promises. OpenMP's threads give up their core as soon as they wait: the tests beside them
# need it. The tests preload libraries of their own before the sanitizer's.
run_ctest() {
  local directory="$1"
  shift
  DDP_PYTHON_TORCH1="$(python_torch1)" DDP_PYTHON_DETECTOR="$(python_detector)" DDP_PYTHON_TRACKING="$(python_tracking)" ASAN_OPTIONS=allocator_may_return_null=1:verify_asan_link_order=0 TSAN_OPTIONS=atexit_sleep_ms=0 OMP_WAIT_POLICY=passive ctest --test-dir "$directory" -LE 'gpu|slurm|others' --output-on-failure "$@"
}

# A test that fails beside the others and passes alone is unsteady: it is named and counted, and more than two are a failure.
run_failed_again() {
  local directory="$1" failed
  failed="$(cat "$directory/Testing/Temporary/LastTestsFailed.log")" || return 1
  (($(wc -l <<<"$failed") <= 2)) || return 1
  echo "Tests that failed, run again alone:"
  run_ctest "$directory" --rerun-failed || return 1
  printf '\nUnsteady tests, which failed beside the others and passed alone: %s\n%s\n' "$(wc -l <<<"$failed")" "$failed"
}

# run_tests PRESET [ARGUMENT...]: runs the tests of a preset, those that ctest's arguments choose, names those that were skipped or unsteady, and ends with ctest's closing line.
run_tests() {
  local preset="$1" directory result=0
  directory="$PWD/$(directory_of "$1")"
  shift
  rm -f "$directory/Testing/Temporary/LastTestsFailed.log"
  # Most tests wait for processes more than they compute. PROCESSORS 2 in a CMakeLists.txt: this one trains.
  run_ctest "$directory" --parallel "$((2 * $(nproc)))" --no-tests=error --output-junit "$directory/tests.xml" "$@" 2>&1 | tee "$directory/tests.log" ||
    run_failed_again "$directory" || result=1
  local arguments=("$directory/tests.xml" tests/expected_skips)
  [[ -n "$(python_for_tests)" ]] || arguments+=(--missing python)
  [[ -n "$(python_torch1)" ]] || arguments+=(--missing torch1)
  [[ -n "$(python_detector)" ]] || arguments+=(--missing detector)
  [[ -n "$(python_tracking)" ]] || arguments+=(--missing tracking)
  [[ -d ../shared/data ]] || arguments+=(--missing data)
  [[ "$preset" == release ]] || arguments+=(--missing plain)
  local kind
  for kind in $(PATH="/usr/bin:$PATH" python3 tests/lacking.py); do arguments+=(--missing "$kind"); done
  echo
  echo "Tests that need a GPU, not run here: $(ctest --test-dir "$directory" -N -L gpu | sed -n 's/^Total Tests: //p')"
  ctest --test-dir "$directory" -N -L gpu | sed -n 's/^ *Test *#[0-9]*: /  /p'
  python3 tests/report_skips.py "${arguments[@]}" || result=1
  grep 'tests passed' "$directory/tests.log" || result=1
  return "$result"
}

# --- commands ----------------------------------------------------------------------------------------------------------------

lint() {
  need_packages "${lint_packages[@]}" python3
  local result=0
  git ls-files -z -- '*.cpp' '*.h' | xargs -0 --no-run-if-empty clang-format-14 --dry-run --Werror 2>&1 |
    sed -n 's/\(.*:[0-9]*\):[0-9]*: error: .*/\1: format: not as clang-format-14 writes it/p' || result=1
  git ls-files -z -- '*.sh' '*.sbatch' .ci/run | xargs -0 shellcheck || result=1
  tests/lint.sh || result=1
  [[ "$result" == 0 ]] || fail "lint has findings, see above. Format: clang-format-14 -i FILE"
}

# The launcher killed a hundred times at any moment, and stopped for half a minute; the same for an agent of several.
kill_often() {
  build_tests
  DDP_KILLS=100 DDP_STOP_SECONDS=30 "$release_dir/tests/fault_launcher" --gtest_filter='Kill.*' --gtest_brief=1
  DDP_KILLS=100 DDP_STOP_SECONDS=30 DDP_LOSS_SECONDS=60 DDP_LATE_SECONDS=60 "$release_dir/tests/fault_cluster" \
    --gtest_filter='ClusterFaults.L*:NetworkFaults.N4_*:NetworkFaults.N9_*' --gtest_brief=1
}

readonly check_parts=(lint kills "asan launcher" "asan worker" tsan fuzz)

# All parts, whatever becomes of one; or one alone.
check() {
  local part failed=()
  if [[ $# -gt 0 ]]; then
    check_part "$*"
    return
  fi
  for part in "${check_parts[@]}"; do
    # shellcheck disable=SC2086 # its words
    ./make.sh check $part || failed+=("$part")
  done
  [[ "${#failed[@]}" == 0 ]] || fail "check: these parts failed: $(joined "${failed[@]}"). One alone: ./make.sh check ${failed[0]}"
  say "check: all passed"
}

# Words with a comma between two.
joined() {
  local text
  text="$(printf ', %s' "$@")"
  printf '%s' "${text:2}"
}

check_part() {
  need_packages "${build_packages[@]}" "${test_packages[@]}" "${fuzz_packages[@]}"
  need_torch
  need_python
  need_torch1
  need_detector
  need_tracking
  local ran
  SECONDS=0
  case "$1" in
    lint)
      lint
      ran="format, rules, shellcheck: no findings"
      ;;
    kills)
      kill_often
      ran="100 kills each of an agent alone and of one among several: nothing was left"
      ;;
    "asan launcher")
      test_under asan -DDDP_BUILD_WORKER=OFF -DDDP_TESTS_WITHOUT_TORCH=ON
      ran="$(tests_line asan)"
      ;;
    # What runs in the other part is not built again.
    "asan worker")
      test_under asan -DDDP_BUILD_WORKER=ON -DDDP_TESTS_WITHOUT_TORCH=OFF
      ran="$(tests_line asan)"
      ;;
    # Without the worker: LibTorch is not instrumented, so what its threads do to each other looks like races.
    tsan)
      test_under tsan -DDDP_BUILD_WORKER=OFF
      ran="$(tests_line tsan)"
      ;;
    fuzz)
      configure fuzz
      compile build/fuzz
      tests/fuzz/run.sh build/fuzz 60
      ran="$(find build/fuzz/tests/fuzz -maxdepth 1 -name 'fuzz_*' -type f -executable | wc -l) targets in a minute: nothing found"
      ;;
    *) fail "check knows: $(joined "${check_parts[@]}")" ;;
  esac
  say "check $1: $ran, in $((SECONDS / 60)) min $((SECONDS % 60)) s"
}

# ctest's closing line.
tests_line() { grep 'tests passed' "$(directory_of "$1")/tests.log"; }

test_slurm() {
  need_packages "${build_packages[@]}" "${test_packages[@]}" "${slurm_packages[@]}"
  build_tests
  ctest --test-dir "$release_dir" -L slurm --verbose --no-tests=error
}

# The worker's tests with another LibTorch: units, parity with the Python of that release, checkpoints, own loops, job files.
test_torch() {
  need_packages "${build_packages[@]}" "${test_packages[@]}"
  need_torch
  need_python
  need_cuda
  configure_release ON OFF
  compile "$release_dir"
  run_tests release -L 'unit|torch' || fail "test-torch $torch_version: see above"
  say "test-torch $torch_version: $(tests_line release)"
}

test_others() {
  local python
  need_packages "${build_packages[@]}" "${test_packages[@]}"
  require_python "the programs of others need torch"
  need_cuda
  alone_in_cache get_others || fail "${others_wheels[*]} cannot be had, see $cache/pip.log. Is there a network?"
  configure_release ON
  build
  DDP_PYTHON_OTHERS="$cache/others-$torch_version/bin/python" ctest --test-dir "$release_dir" -L others --verbose --no-tests=error
}

gpu_kit() {
  build_tests
  python3 -B tests/gpu/make_kit.py "$release_dir" "$1"
}

# run_gpu ARGUMENT...: the kit of this build, on this machine.
run_gpu() {
  local python kit=build/gpu/kit
  require_python "the tests for GPUs compare with Python's DDP"
  rm -rf "$kit"
  gpu_kit "$kit"
  "$kit/run.sh" --python "$python" "$@"
}

# test_under PRESET [ARGUMENT...]
test_under() {
  say "tests under $1"
  configure "$@" "-DDDP_TORCH=$(torch_dir)" "-DDDP_PYTHON=$(python_for_tests)"
  compile "$(directory_of "$1")"
  run_tests "$1"
}

docs() {
  need_packages git python3 python3-pip python3-venv
  alone_in_cache get_docs || fail "${docs_wheels[*]} cannot be had, see $cache/pip.log. Is there a network?"
  python3 -B docs/job_file.py
  # The pages where they lie, so that each link holds here and there.
  rm -rf build/docs
  mkdir -p build/docs/source
  git ls-files -z --cached --others --exclude-standard -- '*.md' docs configs | xargs -0 cp --parents --target-directory=build/docs/source
  NO_MKDOCS_2_WARNING=1 "$cache/docs/bin/mkdocs" build --strict --quiet --config-file docs/mkdocs.yml ||
    fail "the site cannot be built, see above"
  say "built. Next: open build/docs/site/index.html"
}

# wheels, test_wheel, build_launcher, dist: what others install.
# shellcheck disable=SC1091 # it is checked by itself
source cmake/packages.sh

run() {
  build
  local result=0
  # When this shell is killed, the launcher hears SIGTERM and stops the job.
  setpriv --pdeathsig TERM "$release_dir/ddp-launch" configs/digits.yaml "$@" || result=$?
  if [[ "$result" == 0 ]]; then
    say "trained. Next: $release_dir/ddp-launch configs/digits.yaml train.epochs=5, MNIST or a script of yours: see README.md"
  fi
  return "$result"
}

bench() {
  if declare -F "bench_${1:-}" >/dev/null; then
    "bench_$1" "${@:2}"
    return
  fi
  [[ "${1:-launcher}" =~ ^(launcher|scale)$ && $# -le 1 ]] || fail "bench knows: launcher, readme, gpu, loader, checkpoint, restart, shm, newcomer, scale"
  if [[ "${1:-}" == scale ]]; then
    build_tests
    (cd "$release_dir" && tests/scale_nodes ./ddp-launch tests/fake_worker 1250 &&
      tests/scale_nodes ./ddp-launch tests/fake_worker 1250 token)
    return
  fi
  local python
  require_python "bench compares with torchrun"
  build_tests
  "$python" -B tests/bench/launcher.py "$release_dir/ddp-launch" --json "$release_dir/bench-launcher.json"
  "$python" -B tests/bench/store_bench.py "$release_dir/ddp-launch" "$release_dir/tests/store_load" "$release_dir/tests/fake_worker"
}

bench_gpu() {
  local python
  require_python "bench compares with Python's DDP"
  build_tests
  DDP_BIN="$release_dir" "$python" -B tests/bench/gpu.py --json "$release_dir/bench-gpu.json" "$@"
}

bench_loader() {
  local python dali=() detector=()
  require_python "bench compares with torch's DataLoader"
  if alone_in_cache get_dali; then
    dali=(--dali "$cache/dali/bin/python")
  else
    say "no ${dali_wheels[*]}, so it is not measured"
  fi
  need_detector
  [[ -z "$(python_detector)" ]] || detector=(--detector "$(python_detector)")
  build_tests
  "$python" -B tests/bench/loader.py "$release_dir/tests/loader_rate" "${dali[@]}" "${detector[@]}" --json "$release_dir/bench-loader.json" "$@"
}

bench_checkpoint() {
  local python
  require_python "bench compares with torch.save"
  build_tests
  "$python" -B tests/bench/checkpoint.py "$release_dir/tests/save_rate" --json "$release_dir/bench-checkpoint.json" "$@"
}

bench_restart() {
  local python
  require_python "bench compares with torchrun"
  build_tests
  "$python" -B tests/bench/restart.py "$release_dir/ddp-launch" --json "$release_dir/bench-restart.json" "$@"
}

bench_shm() {
  local python
  require_python "bench compares with torch's Gloo"
  build
  "$python" -B tests/bench/shared_memory.py --programs "$release_dir" --python "$python" "$@"
}

bench_readme() {
  local python
  require_python "bench compares with torchrun"
  build
  "$python" -B tests/bench/readme.py "$release_dir/ddp-launch" "$@"
}

# What is committed is cloned.
bench_newcomer() {
  local python
  require_python "what a newcomer evaluates in Python needs torch"
  DDP_CLONE=1 DDP_BIN="$PWD" PYTHONPATH=tests/support "$python" -B tests/interop/newcomer_test.py
}

soak() {
  local python
  case "${1:-nodes}" in
    nodes)
      build_tests
      DDP_SOAK_ROUNDS="${DDP_SOAK_ROUNDS:-200}" exec "$release_dir/tests/soak_cluster" --gtest_brief=1
      ;;
    healthy)
      require_python "the healthy job is a program of torch's"
      build
      soak_python "$python" 3600 tests/interop/healthy_test.py
      ;;
    hostile)
      build
      soak_python python3 300 tests/soak/hostile_test.py
      ;;
    cases)
      build_tests
      DDP_EVERY_CASE=1 run_ctest "$release_dir" -L cases --no-tests=error
      ;;
    *) fail "soak knows: nodes, healthy, hostile, cases" ;;
  esac
}

# soak_python PYTHON SECONDS TEST
soak_python() {
  DDP_BIN="$release_dir" DDP_SOAK_SECONDS="${DDP_SOAK_SECONDS:-$2}" PYTHONPATH=tests/support exec "$1" -B "$3"
}

command="${1:-help}"
shift || true
case "$command" in
  run) run "$@" ;;
  test)
    [[ $# == 0 || "$*" == --times ]] || fail "test knows: --times"
    need_packages "${build_packages[@]}" "${test_packages[@]}"
    need_torch
    need_python
    need_torch1
    need_detector
    need_tracking
    build_tests
    result=0
    run_tests release || result=1
    [[ -z "$*" ]] || python3 -B tests/times.py "$release_dir"
    exit "$result"
    ;;
  test-slurm) test_slurm ;;
  test-torch)
    [[ $# == 1 && -n "$1" ]] || fail "test-torch needs a release of torch: ${tested_torch[*]}"
    test_torch
    ;;
  test-others) test_others ;;
  test-gpu) run_gpu --out build/gpu "$@" ;;
  gpu-rehearsal) run_gpu --rehearse --out build/gpu/rehearsal "$@" ;;
  gpu-kit)
    [[ "${1:-}" != --torch ]] || shift "$(($# < 2 ? $# : 2))"
    [[ $# == 1 && -n "$1" ]] || fail "gpu-kit needs one directory, as in: ./make.sh gpu-kit /tmp/gpu-kit"
    kit="$(from_caller "$1")"
    # make_kit.py says so, too, after the minutes that a build may take.
    [[ -z "$(ls --almost-all "$kit" 2>/dev/null)" ]] || fail "$kit is there already. Remove it, or give another directory."
    gpu_kit "$kit"
    ;;
  build)
    build
    own="$release_dir/ddp-launch --nproc-per-node 2 train.py"
    if [[ "$build_worker" != OFF ]]; then
      say "built. Next: $release_dir/ddp-launch configs/digits.yaml, or your own: $own"
    else
      say "built without ddp-worker. Next: a program of yours: $own"
    fi
    ;;
  build-launcher)
    [[ $# == 0 || ($# == 2 && "$1" == --target) ]] || fail "build-launcher knows: --target x86_64, --target aarch64"
    build_launcher "$@" ddp-launch
    say "built. Next: $directory/ddp-launch --nproc-per-node 2 train.py"
    ;;
  dist)
    [[ $# == 0 || ($# == 2 && "$1" == --target) ]] || fail "dist knows: --target x86_64, --target aarch64"
    dist "$@"
    ;;
  check) check "$@" ;;
  bench) bench "$@" ;;
  soak) soak "$@" ;;
  lint) lint ;;
  docs) docs ;;
  rooms) python3 -B tests/rooms.py "$@" ;;
  figures) python3 -B tests/figures.py ;;
  deps)
    need_packages "${build_packages[@]}" "${test_packages[@]}" "${lint_packages[@]}"
    need_torch
    need_cuda
    say_cuda
    ;;
  install)
    [[ $# == 1 && -n "$1" ]] || fail "install needs one directory, as in: ./make.sh install ~/.local"
    prefix="$(from_caller "$1")"
    build
    cmake --install "$release_dir" --prefix "$prefix"
    say "installed. Next: $prefix/bin/ddp-launch $prefix/share/ddp/configs/digits.yaml"
    ;;
  wheel) wheels ;;
  test-wheel) test_wheel ;;
  test-images) test_images "$@" ;;
  clean) rm -rf build ;;
  help | -h | --help) usage ;;
  *)
    usage >&2
    say "there is no command '$command'"
    exit 2
    ;;
esac
