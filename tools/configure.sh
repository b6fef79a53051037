#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# configure.sh PRESET: configures the preset's build folder once, with CUDA where it can be, and prints the folder's name.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=$1
folder=build
[ "$preset" = release ] || folder=build-$preset
if [ ! -e "$folder/build.ninja" ]; then
  cuda=$(bash tools/cuda.sh why)
  echo "build: configuring $folder" >&2
  cmake --preset "$preset" -DSLIPSTREAM_CUDA="$cuda" --log-level=WARNING >/dev/null
fi
echo "$folder"
