# Part of make.sh: lint, checks, benchmarks and soaks.
# shellcheck shell=bash disable=SC2154 # variables of make.sh

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

# The tests of ddp-worker that start whole jobs.
readonly job_labels='jobs|torch|fault'

# Of them those in which ranks are killed, and ranks on several nodes: about half of the time.
readonly crash_tests='checkpoint_crash|survivors|shm_|NodesWorker|ElasticWorker'

readonly check_parts=(lint kills "asan launcher" "asan worker" "asan jobs" "asan crashes" tsan fuzz)

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
      ran="$(tests_line asan), without Python's programs under the launcher"
      ;;
    "asan worker")
      left_out+="|$job_labels"
      build_asan_worker
      run_tests asan
      ran="$(tests_line asan), without those beside Python, of the installed library, of README and configs/"
      ;;
    "asan jobs")
      build_asan_worker
      run_tests asan -L "$job_labels" -E "soak_hostile|worker_Remembered|$crash_tests"
      ran="$(tests_line asan), without hostile clients (asan launcher), crashes, and runs that go on with other settings"
      ;;
    "asan crashes")
      build_asan_worker
      run_tests asan -L "$job_labels" -R "$crash_tests"
      ran="$(tests_line asan)"
      ;;
    # Without the worker: LibTorch is not instrumented, so what its threads do to each other looks like races.
    tsan)
      test_under tsan -DDDP_BUILD_WORKER=OFF
      ran="$(tests_line tsan), without readers of files beside Python's"
      ;;
    fuzz)
      configure fuzz
      compile build/fuzz --target fuzz
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

# Of those below: what ends before a worker starts, differs from another of them in the launcher alone, or stops by an agreement of our own.
readonly same_with_any_torch='NodesWorker\.(AnotherJobFile|L6_)|ElasticWorker\.N1_'

# The worker's tests with another LibTorch: units, parity with the Python of that release, checkpoints, own loops.
test_torch() {
  need_packages "${build_packages[@]}" "${test_packages[@]}"
  need_torch
  need_python
  need_cuda
  configure_release ON OFF
  compile "$release_dir"
  run_tests release -L 'unit|torch' -E "$same_with_any_torch" || fail "test-torch $torch_version: see above"
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
  build_under "$@"
  run_tests "$1"
}

# build_under PRESET [ARGUMENT...]
build_under() {
  say "tests under $1"
  configure "$@" "-DDDP_TORCH=$(torch_dir)" "-DDDP_PYTHON=$(python_for_tests)"
  compile "$(directory_of "$1")"
}

# What runs without the worker is not built again; of the module for GPUs little can run here.
build_asan_worker() { build_under asan -DDDP_BUILD_WORKER=ON -DDDP_TESTS_WITHOUT_TORCH=OFF -DDDP_CUDA=OFF; }

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

bench() {
  if declare -F "bench_${1:-}" >/dev/null; then
    "bench_$1" "${@:2}"
    return
  fi
  [[ "${1:-launcher}" =~ ^(launcher|scale)$ && $# -le 1 ]] || fail "bench knows: launcher, readme, cpu, gpu, loader, checkpoint, restart, shm, steps, newcomer, scale"
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

bench_steps() {
  local python
  require_python "bench compares with Python's DDP"
  build
  DDP_BIN="$release_dir" "$python" -W ignore -B tests/bench/steps.py --json "$release_dir/bench-steps.json" "$@"
}

bench_cpu() {
  local python
  require_python "bench compares with Python's DDP"
  build
  "$python" -W ignore -B tests/bench/cpu.py --programs "$release_dir" "$@"
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
