#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# carry.sh: copies from this machine's Debian packages to .carry/ the files that the `core` preset needs on a host with
# only LibTorch, the CUDA toolkit and CMake (17 MB, ignored by git). On that host run: bash tools/device.sh RESULTS
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
fail() { printf 'carry: %s\n' "$1" >&2; exit 2; }

library=/usr/lib/x86_64-linux-gnu
for needed in /usr/src/googletest/CMakeLists.txt /usr/include/{spdlog/spdlog.h,fmt/format.h,nlohmann/json.hpp,xxhash.h,openssl/evp.h} "$library/libcrypto.a"; do
  [ -e "$needed" ] || fail "$needed is missing; run: make setup"
done
rm -rf .carry
mkdir -p .carry/include .carry/lib
cp -r /usr/src/googletest .carry/googletest
cp -r /usr/include/{spdlog,fmt,nlohmann,openssl} .carry/include/
cp -r /usr/include/x86_64-linux-gnu/openssl .carry/include/
cp /usr/include/xxh*.h .carry/include/
cp "$library/libcrypto.a" .carry/lib/
touch .carry/ready
echo "carry: .carry/ has $(du -s --block-size=1MB .carry | cut -f1) MB"
