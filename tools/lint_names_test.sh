#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests the naming rules: clang-tidy must reject a file of bad names.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp .clang-tidy "$folder/"
printf 'class bad_class {};\nint BadFunction() { int BadVariable = 1; return BadVariable; }\n' > "$folder/bad.cpp"
if clang-tidy-14 --quiet "$folder/bad.cpp" -- -std=c++20 >/dev/null 2>&1; then
  echo "lint: clang-tidy accepted bad names; the naming rules are not in force" >&2
  exit 1
fi
