# Part of make.sh: what others install. Packages of pip, and the launcher alone as a tarball and as a Debian package.
# shellcheck shell=bash disable=SC2154 # variables of make.sh

# --- packages of pip ---------------------------------------------------------------------------------------------------------

# What makes and judges packages of pip.
get_wheel_tools() { get_environment wheel "(25 MB" 25 'import build, scikit_build_core, twine, wheel' "${wheel_wheels[@]}"; }

# build/wheel: ddp_launch, and ddp_worker with a worker and a module for GPUs for each release of torch.
wheels() {
  local version builds=()
  need_packages "${build_packages[@]}"
  alone_in_cache get_wheel_tools || fail "${wheel_wheels[*]} cannot be had, see $cache/pip.log. Is there a network?"
  for version in ${DDP_WHEEL_TORCH:-${tested_torch[@]}}; do
    say "building for torch $version"
    DDP_TORCH_VERSION="$version" DDP_CUDA=MODULE ./make.sh build
    builds+=("$PWD/$(build_dir_of "$version")")
  done
  rm -rf build/wheel
  # The launcher is one static file; ddp-worker asks for what GCC 12 on Debian 12 links, which binary_dependencies_test.py watches.
  make_wheel ddp_launch manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64 "-Ccmake.define.DDP_BUILD=${builds[0]}"
  make_wheel ddp_worker manylinux_2_34_x86_64 "-Ccmake.define.DDP_BUILDS=$(IFS=';' && echo "${builds[*]}")"
  "$cache/wheel/bin/twine" check --strict build/wheel/*.whl
  say "built: $(du --apparent-size --block-size=1K build/wheel/*.whl | awk '{ printf "%s%s (%s KB)", comma, $2, $1; comma = ", " }')"
}

# What else installs packages of pip.
get_installers() { get_environment installers "(30 MB to load, 110 MB" 110 'import pipx, uv' "${installer_wheels[@]}"; }

# In environments of the torch that make.sh gets, and of the oldest.
test_wheel() {
  local python oldest="$cache/python-${tested_torch[-1]}/bin/python"
  alone_in_cache get_installers || say "no ${installer_wheels[*]}, so their test will be skipped"
  [[ -e build/wheel ]] || wheels
  require_python "the packages are installed beside torch"
  [[ -x "$oldest" ]] || say "no Python with torch ${tested_torch[-1]} in $cache: DDP_TORCH_VERSION=${tested_torch[-1]} ./make.sh test-torch gets it; not tested"
  [[ ! -x "$oldest" ]] || python+=":$oldest"
  DDP_WHEELS=build/wheel DDP_PYTHONS="$python" DDP_INSTALLERS="$cache/installers" python3 -B tests/deploy/wheel_test.py
}

# A root of Debian 12, as the base of the images.
get_debian() {
  local new log="$cache/debootstrap.log"
  [[ ! -e "$debian_root" ]] || return 0
  say "getting a root of Debian 12 (40 MB to load, 150 MB in $debian_root), once per machine"
  new="$(mktemp -d "$cache/debian.new.XXXXXX")"
  chmod 755 "$new"  # the root of images, for every user in them
  if ! { debootstrap --variant=minbase bookworm "$new" >"$log" 2>&1 && rm -rf "$new"/var/lib/apt/lists/* "$new"/var/cache/apt/* &&
    tar --create --file "$debian_root.new" --directory "$new" . && mv "$debian_root.new" "$debian_root"; }; then
    rm -rf "$new" "$debian_root.new"
    return 1
  fi
  rm -rf "$new"
}

# From their Dockerfiles, without a container engine.
test_images() {
  local python debian_root="$cache/debian-bookworm.tar"
  [[ -e build/wheel ]] || wheels
  require_python "its torch is put into the images"
  need_packages debootstrap iproute2 unzip
  alone_in_cache get_debian || say "debootstrap makes no root of Debian (its lines: $cache/debootstrap.log), so images that need one are skipped. Is there a network?"
  DDP_WHEELS=build/wheel DDP_DEBIAN="$debian_root" DDP_PYTHON="$python" PYTHONPATH=tests/support python3 -B tests/deploy/images_test.py "$@"
}

# make_wheel PACKAGE PLATFORMS ARGUMENT...
make_wheel() {
  local package="$1" tags="$2" python="$cache/wheel/bin/python" log=build/wheel/log
  shift 2
  mkdir -p build/wheel
  # Only what lies there can be named in the package's metadata.
  rm -rf "deploy/wheel/$package/licenses"
  cp -r "${builds[0]}/notices/${package//_/-}/licenses" "deploy/wheel/$package/licenses"
  if ! { "$python" -m build --wheel --no-isolation --outdir build/wheel "deploy/wheel/$package" "$@" &&
    "$python" -m wheel tags --remove --platform-tag "$tags" build/wheel/"$package"-*-linux_x86_64.whl; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    fail "the package $package cannot be made, see above"
  fi
  rm -rf "deploy/wheel/$package/licenses"
}

# --- the launcher alone: one file, for this machine or for aarch64 -----------------------------------------------------------

# Debian's libraries for arm64, which are unpacked into the cache: the system keeps one architecture.
get_arm64() {
  local target="$cache/arm64" new log="$cache/apt.log" apt
  [[ ! -e "$target/complete" ]] || return 0
  say "getting Debian's libraries for arm64 (16 MB), once per machine"
  rm -rf "$target" "$target".new.*
  new="$(mktemp -d "$target.new.XXXXXX")"
  mkdir -p "$new"/apt/{lists,archives}/partial "$new/debs"
  : >"$new/apt/status"
  apt=(apt-get -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Sandbox::User=root -o "Dir::State=$new/apt"
    -o "Dir::State::status=$new/apt/status" -o "Dir::Cache=$new/apt")
  if ! { "${apt[@]}" update && (cd "$new/debs" && "${apt[@]}" download "${arm64_packages[@]}"); } >"$log" 2>&1; then
    rm -rf "$new"
    fail "apt-get cannot get ${arm64_packages[*]} for arm64 (its lines: $log). Is there a network?"
  fi
  local deb
  for deb in "$new"/debs/*.deb; do dpkg-deb --extract "$deb" "$new"; done
  rm -rf "$new/apt" "$new/debs"
  touch "$new/complete"
  mv -T "$new" "$target"
}

# build_launcher [--target aarch64] TARGET...: sets `directory` and `machine`.
build_launcher() {
  local more=()
  machine=x86_64
  if [[ "${1:-}" == --target ]]; then
    [[ "${2:-}" =~ ^(x86_64|aarch64)$ ]] || fail "--target knows: x86_64, aarch64"
    machine="$2"
    shift 2
  fi
  need_packages "${build_packages[@]}"
  if [[ "$machine" == aarch64 ]]; then
    need_packages "${arm64_tools[@]}"
    alone_in_cache get_arm64
    # mold is not asked for: the cross compiler looks for its own linkers.
    more=("-DCMAKE_TOOLCHAIN_FILE=$PWD/cmake/aarch64.cmake" "-DDDP_SYSROOT=$cache/arm64" -DDDP_MOLD=OFF)
  fi
  directory="build/launcher-$machine"
  run_cmake release "$directory" -DDDP_TESTS=OFF -DDDP_BUILD_WORKER=OFF "${more[@]}"
  compile "$directory" --target "$@"
}

# dist [--target aarch64]: of the same files the same bytes, wherever and whenever it is made.
dist() {
  build_launcher "$@" ddp-launch pages
  local version name out="$PWD/build/dist"
  version="$(sed -n 's/^#define DDP_VERSION "\(.*\)"$/\1/p' common/version.h)"
  name="ddp-launch-$version-$machine"
  SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat --format=%Y CHANGELOG.md)}"
  export SOURCE_DATE_EPOCH
  mkdir -p "$out"
  rm -rf "${out:?}/$name"
  umask 022
  cmake --install "$directory" --component launcher --prefix "$out/$name" >"$directory/install.log"
  tar --create --directory "$out" --sort=name --owner=0 --group=0 --numeric-owner --mode=go+rX,go-w --mtime="@$SOURCE_DATE_EPOCH" --format=gnu "$name" |
    gzip --no-name --best >"$out/$name.tar.gz"
  rm -rf "${out:?}/$name"
  cpack --config "$directory/CPackConfig.cmake" -B "$directory/package" >"$directory/cpack.log" 2>&1 || fail "cpack failed: $directory/cpack.log"
  local package
  package="$(basename "$directory"/package/*.deb)"
  mv "$directory/package/$package" "$out"
  say "made $(joined "$out/$name.tar.gz" "$out/$package")"
}
