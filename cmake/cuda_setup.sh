# Part of make.sh: gets what CUDA needs, when it is wanted. cmake/cuda_setup.py looks at driver, GPUs and torch.
# shellcheck shell=bash disable=SC2034,SC2154 # variables of make.sh: cache, build_worker, torch_version, cuda_headers, cuda

# Sets `cuda` for CMake: ON with all that torch asks for, OFF, or AUTO: the module is built where its wheels happen to be.
need_cuda() {
  cuda=OFF
  [[ "$build_worker" != OFF ]] || return 0
  if [[ "${DDP_CUDA:-}" == MODULE ]]; then  # for a package: it is built, and not run here
    cuda=ON
    [[ -e "$cuda_headers_dir/complete-module" ]] || alone_in_cache get_module_headers
    return
  fi
  cuda="$(look_at_cuda choose)" || exit 1
  [[ "$cuda" == ON ]] || return 0
  if [[ -n "${DDP_TORCH:-}" ]]; then
    [[ -e "$cuda_headers_dir/complete" ]] || alone_in_cache get_cuda_headers
  elif [[ ! -e "$(torch_dir)/complete-cuda" ]]; then
    alone_in_cache get_cuda
  fi
  look_at_cuda whole || exit 1
}

look_at_cuda() { python3 cmake/cuda_setup.py "$1" "$(torch_dir)"; }

# say_cuda [MODULE]: what is used, and what was built; nothing without CUDA.
say_cuda() {
  [[ "$cuda" == ON ]] || return 0
  [[ $# == 0 ]] || say "built for GPUs: $1 ($(du --apparent-size --block-size=1K "$1" | cut -f 1) KB)"
  say "$(look_at_cuda describe)"
}

get_cuda() {
  local target site new log="$cache/pip.log" filling total=4500 wheels=()
  target="$(torch_dir)"
  site="$cache/python-$torch_version/lib/$(python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])')/site-packages"
  [[ ! -e "$target/complete-cuda" ]] || return 0
  new="$(mktemp -d "$cache/cuda.new.XXXXXX")"
  if [[ -e "$site/nvidia/nccl/lib/libnccl.so.2" && -e "$site/nvidia/cu13/include/crt/host_defines.h" ]]; then
    say "CUDA: the Python of the tests has NVIDIA's libraries: used under a second name in $target, no second copy"
    mkdir "$new/site"
    cp --archive --link "$site"/nvidia* "$new/site/"
  else
    mapfile -t wheels < <(look_at_cuda wheels)
    [[ "${#wheels[@]}" -gt 0 ]] || exit 1
    say "CUDA: getting NVIDIA's libraries for torch $torch_version (about 2 GB to load, 2.8 GB in $target), once per machine: ${wheels[*]}"
    filling="$new"
    : >"$log"
    if ! TMPDIR="$new" moving loaded_so_far "$log" python3 -m pip install --quiet --no-cache-dir --no-compile --target "$new/site" \
      --only-binary=:all: "${wheels[@]}"; then
      rm -rf "$new"
      grep -i error "$log" | tail -n 2 >&2 || true
      fail "CUDA: pip cannot get ${wheels[*]} (lines of pip: $log). Is there a network? Without one: unpack these wheels into a directory" \
        "with torch's and set DDP_TORCH to it, or go without: DDP_CUDA=OFF"
    fi
  fi
  # Some of these files are there: the same ones, as LibTorch cannot do without.
  cp --archive --link --force "$new/site"/nvidia* "$target/"
  rm -rf "$new"
  look_at_cuda whole || exit 1
  touch "$target/complete-cuda"
  say "CUDA: $(megabytes "$target") MB in $target"
}

# The one wheel that a torch installed by pip lacks; nothing is written beside that torch.
get_cuda_headers() { get_headers complete "$cuda_headers"; }

# All headers that the module for GPUs is compiled with.
get_module_headers() {
  local wheels
  mapfile -t wheels < <(look_at_cuda wheels | grep '^nvidia-nccl')
  get_headers complete-module "$cuda_headers" "${torch_wheels[1]}" "${wheels[@]}"
}

# get_headers MARK WHEELS...: their headers, without their libraries.
get_headers() {
  local mark="$1"
  shift
  [[ ! -e "$cuda_headers_dir/$mark" ]] || return 0
  say "CUDA: getting the headers of $* (in $cuda_headers_dir), once per machine"
  rm -rf "$cuda_headers_dir"
  if ! python3 -m pip install --quiet --no-deps --no-cache-dir --no-compile --only-binary=:all: --target "$cuda_headers_dir" "$@" >"$cache/pip.log" 2>&1; then
    rm -rf "$cuda_headers_dir"
    fail "CUDA: pip cannot get $* (lines of pip: $cache/pip.log). Is there a network? Without one: unpack these wheels into" \
      "$cuda_headers_dir and touch $cuda_headers_dir/$mark, or go without: DDP_CUDA=OFF"
  fi
  rm -rf "$cuda_headers_dir"/nvidia/*/lib
  touch "$cuda_headers_dir/complete" "$cuda_headers_dir/$mark"
}
