#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# configure.sh PRESET: configures the preset's build folder once, with CUDA where it can be, and prints the folder's name.
# SLIPSTREAM_CUDA=ON or OFF configures it again if it was configured otherwise.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=$1
folder=build
[ "$preset" = release ] || folder=build-$preset
is_as_wanted() {
  [ -e "$folder/build.ninja" ] || return 1
  case ${SLIPSTREAM_CUDA:-} in
  ON | OFF) grep -q "^SLIPSTREAM_CUDA:[A-Z]*=$SLIPSTREAM_CUDA\$" "$folder/CMakeCache.txt" ;;
  esac
}
if ! is_as_wanted; then
  cuda=$(bash tools/cuda.sh why)
  echo "build: configuring $folder" >&2
  cmake --preset "$preset" -DSLIPSTREAM_CUDA="$cuda" --log-level=WARNING >/dev/null
fi
echo "$folder"
