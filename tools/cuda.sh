#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints ON or OFF: whether this build uses CUDA. The reason goes to standard error when `why` is given.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
why=${1:-}
wanted=${SLIPSTREAM_CUDA:-auto}
kernels_major=13
tell() { [ "$why" = why ] && echo "cuda: $1" >&2; return 0; }
refuse() { # the reason a CUDA build cannot be
  if [ "$wanted" = ON ]; then echo "cuda: SLIPSTREAM_CUDA=ON, but $1" >&2; exit 2; fi
  tell "CPU build: $1"
  echo OFF
  exit 0
}
[ "$wanted" = OFF ] && { echo OFF; exit 0; }
compgen -G 'kernels/cuda/*.cu' >/dev/null || refuse "there are no CUDA sources in $PWD/kernels/cuda"
command -v nvcc >/dev/null || refuse "nvcc is not on PATH"
major=$(nvcc --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
[ "$major" = "$kernels_major" ] || refuse "nvcc is CUDA $major and the kernels are written for CUDA $kernels_major"
gcc_major=$(g++ -dumpversion | cut -d. -f1)
[ "$gcc_major" -le 15 ] || refuse "CUDA $major does not support g++ $gcc_major"
tell "CUDA $major build"
echo ON
