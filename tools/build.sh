#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# build.sh PRESET JOBS [TARGET...]: configures once and builds; prints nothing when nothing is to do.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=$1
jobs=$2
shift 2
# Ninja calls the CMake of .deps/ directly, so that CMake needs the path of its libraries.
[ ! -e .deps/ready ] || export LD_LIBRARY_PATH="$PWD/.deps/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
folder=$(bash tools/configure.sh "$preset")
# Shows a plain progress line on a terminal, and prints nothing when nothing is to do.
if ninja -C "$folder" -n "$@" 2>/dev/null | tail -1 | grep -q 'no work to do'; then exit 0; fi
echo "build: compiling $folder with $jobs job(s)"
if [ -t 1 ]; then
  ninja -C "$folder" -j "$jobs" "$@"
else
  ninja -C "$folder" -j "$jobs" --quiet "$@"
fi
