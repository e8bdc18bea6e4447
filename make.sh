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
  check [PART]        lint, kills, asan launcher, asan worker, asan jobs, asan crashes, tsan, fuzz: format and rules, 100 kills, tests under
                      ASan+UBSan and TSan, a minute of fuzzing; on 2 cores 25 minutes at most for one part, after the one before it
  bench [launcher]    ddp-launch beside torchrun and mpiexec.hydra, and its store beside torch's, on this machine
  bench readme        the table of README.md and that of docs/benchmarks.md beside MPI, again: at normal priority, as Markdown
  bench gpu [ARG...]  Python plain, under DDP, compiled and as a CUDA graph, beside ddp-worker on one device: ms per step, images/s, start, memory
  bench loader [ARG...]  torch's DataLoader, DALI and ultralytics where they can be had, beside ddp-worker's loader: images/s, per core, share of libjpeg-turbo
  bench checkpoint [ARG...]  torch.save, async_save and dd beside ddp-worker's saves: how long training stands still, MB/s
  bench restart [ARG...]  --restart failed, whole rounds and torchrun: how long it takes from the loss of a rank to the next step
  bench shm [ARG...]  shared memory beside Gloo, on one node or several (--nodes): sums, a DDP step in Python, a job of ddp-worker
  bench cpu [ARG...]  training on CPUs in one run of 14 minutes: all-reduces, steps, MNIST, memory; tests/bench/results gets a table, JSON and a chart
  bench steps [ARG...]  a step on CPUs: ddp-worker, its models from Python, and Python's DDP over Gloo, through memory, and compiled
  bench newcomer      a fresh clone, its build, and what README says after it, each command timed
  bench scale         one agent beside 1,249 that are played, without and with a token: join, start, failure, teardown, memory
  soak                200 rounds with random faults on four nodes (DDP_SOAK_ROUNDS, DDP_SOAK_SEED)
  soak healthy        an hour of a job that is healthy and does not look it (DDP_SOAK_SECONDS, DDP_SOAK_SEED)
  soak cases          every case of the tests of which ./make.sh test takes those that differ most
  soak hostile        ten minutes of jobs with hostile clients at their port, with a token and without (DDP_SOAK_SECONDS each)
  test-torch VERSION  the worker's tests, built against another release of torch than the first of cmake/torch_versions.txt
  test-slurm          set up, build, and run jobs on a Slurm of two nodes that is started on this machine
  test-others         accelerate, Lightning, transformers and tqdm under torchrun and ddp-launch, side by side, and PyTorch's own tests with ddp_shm; half an hour
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
readonly others_wheels=(accelerate==1.15.0 expecttest==0.3.0 lightning==2.6.6 transformers==5.23.0 tqdm==4.70.1)
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
readonly test_packages=(libgtest-dev libgmock-dev iproute2 nftables openssl openssh-server openssh-client libfaketime systemd python3-yaml python3-jsonschema python3-prometheus-client chromium zsh fish mandoc)
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

source cmake/environments.sh

# --- CMake -------------------------------------------------------------------------------------------------------------------

# Where a preset is built.
directory_of() { if [[ "$1" == release ]]; then echo "$release_dir"; else echo "build/$1"; fi; }

# configure PRESET [ARGUMENT...]: only when the preset, the arguments or the build directory are new.
configure() {
  local preset="$1" directory wanted
  directory="$(directory_of "$1")"
  shift
  wanted="$(cksum CMakePresets.json) $*"
  if [[ -e "$directory/build.ninja" && "$(cat "$directory/configured" 2>/dev/null)" == "$wanted" ]]; then return 0; fi
  say "configuring $directory (lines of cmake: $directory/configure.log)"
  run_cmake "$preset" "$directory" "$@"
  printf '%s' "$wanted" >"$directory/configured"
}

# run_cmake PRESET DIRECTORY [ARGUMENT...]: its lines go to DIRECTORY/configure.log; warnings are shown, and all lines if it fails.
run_cmake() {
  local preset="$1" directory="$2" log="$2/configure.log"
  shift 2
  mkdir -p "$directory"
  if ! cmake --preset "$preset" -B "$directory" "$@" >"$log" 2>&1; then
    cat "$log" >&2
    fail "cmake cannot configure $directory, see above"
  fi
  sed -n '/^CMake Warning/,/^$/p' "$log" >&2
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

# The labels of tests that run by commands of their own.
left_out='gpu|slurm|others'

# Memory that cannot be had is an error to the program, as without the sanitizer, and not the end of it; and no process sleeps for a
# second before it ends, which is later than most promises. OpenMP's threads give up their core as soon as they wait: the tests beside them
# need it. The tests preload libraries of their own before the sanitizer's.
run_ctest() {
  local directory="$1"
  shift
  DDP_PYTHON_TORCH1="$(python_torch1)" DDP_PYTHON_DETECTOR="$(python_detector)" DDP_PYTHON_TRACKING="$(python_tracking)" ASAN_OPTIONS=allocator_may_return_null=1:verify_asan_link_order=0 TSAN_OPTIONS=atexit_sleep_ms=0 OMP_WAIT_POLICY=passive ctest --test-dir "$directory" -LE "$left_out" --output-on-failure "$@"
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
  rm -rf "$directory/Testing/Temporary/LastTestsFailed.log" "$directory/suites"
  # Tests wait for processes more than they compute, also those that train (PROCESSORS 2 in a CMakeLists.txt). A sanitizer computes more.
  local for_each_core=3
  [[ "$preset" == release ]] || for_each_core=2
  run_ctest "$directory" --parallel "$((for_each_core * $(nproc)))" --no-tests=error --output-junit "$directory/tests.xml" "$@" 2>&1 | tee "$directory/tests.log" ||
    run_failed_again "$directory" || result=1
  local arguments=("$directory/tests.xml" tests/expected_skips --suites "$directory/suites")
  [[ -n "$(python_for_tests)" ]] || arguments+=(--missing python)
  [[ -n "$(python_torch1)" ]] || arguments+=(--missing torch1)
  [[ -n "$(python_detector)" ]] || arguments+=(--missing detector)
  [[ -n "$(python_tracking)" ]] || arguments+=(--missing tracking)
  [[ -d ../shared/data ]] || arguments+=(--missing data)
  [[ "$preset" == release ]] || arguments+=(--missing plain)
  local kind
  for kind in $(PATH="/usr/bin:$PATH" python3 tests/missing_features.py); do arguments+=(--missing "$kind"); done
  echo
  echo "Tests that need a GPU, not run here: $(ctest --test-dir "$directory" -N -L gpu | sed -n 's/^Total Tests: //p')"
  ctest --test-dir "$directory" -N -L gpu | sed -n 's/^ *Test *#[0-9]*: /  /p'
  python3 tests/report_skips.py "${arguments[@]}" || result=1
  grep 'tests passed' "$directory/tests.log" || result=1
  return "$result"
}

# --- commands ----------------------------------------------------------------------------------------------------------------

source tests/checks.sh
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
    [[ -z "$*" ]] || python3 -B tests/test_durations.py "$release_dir"
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
  figures) python3 -B tests/code_statistics.py ;;
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
    (umask 022 && cmake --install "$release_dir" --prefix "$prefix")
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
