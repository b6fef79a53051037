#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# device.sh RESULTS: runs all GPU tests and benchmarks on a GPU host, within ten minutes on 16 cores. Builds the tests
# that launch kernels and the device benchmarks (the `core` preset, with the packages that tools/carry.sh put into
# .carry/), runs both, and runs the tests again under compute-sanitizer if the toolkit has it. The folder RESULTS gets
# one log and one JSON file per benchmark, named as in bench/results/README.md. SLIPSTREAM_COMMIT names the commit if
# there is no git history. Status 0: all passed.
set -uo pipefail
fail() { printf 'device: %s\n' "$1" >&2; exit 2; }
[ $# = 1 ] || fail "usage: device.sh RESULTS"
mkdir -p "$1" || exit 2
results=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
command -v nvcc >/dev/null || PATH=$PATH:/usr/local/cuda/bin
command -v nvcc >/dev/null || fail "nvcc is not on PATH"
gpu() { nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -1; }
device=$(gpu name)
[ -n "$device" ] || fail "this host has no GPU"
[ -e .carry/ready ] || fail ".carry/ is empty; run tools/carry.sh where Debian's packages are, and bring it along"

architecture=$(gpu compute_cap | tr -d .)-real
[ "$architecture" != 90-real ] || architecture=90a-real  # only the a-variant has the architecture's own instructions
commit=${SLIPSTREAM_COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)}
prefix=$(date +%F)-$(printf %s "$device" | tr '[:upper:]' '[:lower:]' | tr -cs a-z0-9 -)
log=$results/$prefix-tests.log
failed=()
tell() { printf 'device: %s\n' "$1" | tee -a "$log"; }
step() { # NAME COMMAND...: its output goes into the log, the last of it to the terminal when it fails
  local name=$1 began=$SECONDS status=0
  shift
  "$@" > "$results/step.log" 2>&1 || status=$?
  cat "$results/step.log" >> "$log"
  if [ "$status" != 0 ]; then
    failed+=("$name")
    tail -60 "$results/step.log"
  fi
  rm "$results/step.log"
  tell "$name: status $status, $((SECONDS - began)) s of $SECONDS"
  return "$status"
}

# Links PyTorch's wheel as in every build, without its CUDA libraries; else another LibTorch by its own CMake
# configuration; else the one in .venv.
torch=()
environment=$(python3 -c 'import sys; print(sys.prefix)')
if compgen -G "$environment/lib/python3*/site-packages/torch/lib/libtorch_cpu.so" >/dev/null; then
  torch=(-DSLIPSTREAM_VENV="$environment")
elif folder=$(python3 -c 'import torch.utils; print(torch.utils.cmake_prefix_path)' 2>/dev/null); then
  torch=(-DCMAKE_PREFIX_PATH="$folder")
fi
tests=() benchmarks=()
for folder in kernels engine distill; do
  [ -z "$(find "tests/$folder" -name '*_gpu_test.cpp')" ] || tests+=("${folder}_test")
done
for source in bench/device/*.cpp; do
  grep -q '^int main' "$source" && benchmarks+=("$(basename "$source" .cpp)")
done

: > "$log"
tell "$device, commit $commit"
step configure cmake --preset core -DSLIPSTREAM_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES="$architecture" "${torch[@]}" || exit 1
step build cmake --build build-core -j "$(bash tools/jobs.sh)" --target "${tests[@]}" "${benchmarks[@]/#/bench_device_}" || exit 1
launch_tests() { # a test that is skipped for want of a device passes everywhere else
  ctest --test-dir build-core -L gpu --output-on-failure --no-tests=error --timeout 120 --output-log "$results/ctest.log" || return
  ! grep -F '(Skipped)' "$results/ctest.log"
}
step tests launch_tests
rm -f "$results/ctest.log"
for benchmark in "${benchmarks[@]}"; do
  step "$benchmark" python3 bench/record.py --into "$results" --device "$device" --commit "$commit" \
    "$prefix-device-$benchmark.json" -- "build-core/bench/device_$benchmark" --json
done
sanitize() { # TOOL PROGRAM TEST: one line and, of a failure, what the tool printed
  local status=0 options=()
  [ "$1" != memcheck ] || options=(--report-api-errors no)  # a test asks for more memory than there is
  timeout 150 compute-sanitizer --tool "$1" "${options[@]}" --error-exitcode 9 \
    "build-core/$2" --gtest_brief=1 --gtest_filter="$3" > "$results/$1-$3.log" 2>&1 || status=$?
  case $status in
    0) echo "$1 of $3: passed" ;;
    124) echo "$1 of $3: not finished within 150 s" ;;  # what a slow tool does not get to is no failure
    *) tail -40 "$results/$1-$3.log"; echo "$1 of $3: status $status" ;;
  esac
  rm "$results/$1-$3.log"
  [ "$status" = 0 ] || [ "$status" = 124 ]
}
sanitize_all() { # side by side: each is one thread that keeps little of the device busy
  local program test tool process running=() status=0
  for program in "${tests[@]}"; do
    [ "$program" != distill_test ] || continue  # most of its kernels are LibTorch's
    for test in $("build-core/$program" --gtest_list_tests --gtest_filter='*Gpu*' | awk '/^[^ ]/ { suite = $1 } /^ / { print suite $1 }'); do
      for tool in memcheck racecheck; do
        sanitize "$tool" "$program" "$test" &
        running+=($!)
      done
    done
  done
  for process in "${running[@]}"; do wait "$process" || status=1; done
  return "$status"
}
if ! command -v compute-sanitizer >/dev/null; then
  tell "no compute-sanitizer here"
elif [ "$SECONDS" -ge 420 ]; then
  tell "compute-sanitizer: left out for time"
else
  step "compute-sanitizer" sanitize_all
  grep -E '^(mem|race)check of ' "$log"
fi
[ "${#failed[@]}" = 0 ] || { tell "failed: ${failed[*]}"; exit 1; }
tell "all passed"
