#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh TARGET [SECONDS]: builds the `fuzz` preset and lets libFuzzer look for inputs that break TARGET (1800 s unless told).
# New coverage goes to build-fuzz/corpus/TARGET; a finding is written beside it and its path printed. Keep it: put the
# shortest form (TARGET_fuzz -minimize_crash=1 FILE) into tests/fuzz/corpus/TARGET with the fix.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if [ $# -lt 1 ] || [ ! -d "tests/fuzz/corpus/$1" ]; then
  echo "usage: tests/fuzz/run.sh TARGET [SECONDS]; targets: $(ls tests/fuzz/corpus | tr '\n' ' ')" >&2
  exit 2
fi
command -v clang++-14 >/dev/null || { echo "run.sh: libFuzzer comes with Clang: apt-get install clang-14 (and libclang-rt-14-dev)" >&2; exit 1; }
target=$1
bash tools/build.sh fuzz "$(bash tools/jobs.sh)" "${target}_fuzz"
work=build-fuzz/corpus/$target
mkdir -p "$work"
exec "build-fuzz/${target}_fuzz" -max_total_time="${2:-1800}" -timeout=20 -rss_limit_mb=4096 -max_len=16384 -print_final_stats=1 \
  -artifact_prefix="$work/" "$work" "tests/fuzz/corpus/$target"
