#!/usr/bin/env bash
# The project's own rules, L1 to L18 (tests/lint/ says which file holds which). A finding is "file:line: rule: what"; exit 1 when
# there is one. Usage: tests/lint.sh [DIRECTORY]
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
exec python3 -B "$here/lint" "${1:-$here/..}"
