#!/usr/bin/env bash
# Runs every fuzz target for its share of the time. Usage: tests/fuzz/run.sh BUILD_DIRECTORY SECONDS
# New inputs stay in BUILD_DIRECTORY/inputs and make the next run better; a bad one is named, and becomes a seed when it is mended.
set -euo pipefail
build="$1"
seconds="$2"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

mapfile -t targets < <(find "$build/tests/fuzz" -maxdepth 1 -name 'fuzz_*' -type f -executable | sort)
if [[ "${#targets[@]}" == 0 ]]; then
  echo "tests/fuzz/run.sh: no fuzz target in $build/tests/fuzz. Build them: cmake --preset fuzz && cmake --build --preset fuzz" >&2
  exit 1
fi
share=$((seconds / ${#targets[@]}))
failed=0
for target in "${targets[@]}"; do
  name="$(basename "$target")"
  name="${name#fuzz_}"
  inputs="$build/inputs/$name"
  mkdir -p "$inputs"
  log="$build/$name.log"
  limits=(-max_total_time="$((share > 0 ? share : 1))" -max_len=4096 -timeout=10 -rss_limit_mb=2048)
  if [[ -e "$here/words/$name" ]]; then limits+=(-dict="$here/words/$name"); fi
  if "$target" "${limits[@]}" -use_value_profile=1 -print_final_stats=1 -artifact_prefix="$build/bad-$name-" \
    "$inputs" "$here/seeds/$name" >"$log" 2>&1; then
    echo "fuzz $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs in $share s, nothing found"
  else
    failed=1
    grep -E '^(SUMMARY|terminate|  what)|broken promise|Test unit written' "$log" >&2 || tail -n 5 "$log" >&2
    echo "fuzz $name: failed. All lines: $log. Again: $target $build/bad-$name-*" >&2
  fi
done
exit "$failed"
