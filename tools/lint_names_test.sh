#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests the naming rules: clang-tidy must reject a file of bad names, and accept the same file with good ones. Else it
# might reject both for another reason.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp .clang-tidy "$folder/"
printf 'class bad_class {};\nint BadFunction() { int BadVariable = 1; return BadVariable; }\n' > "$folder/bad.cpp"
printf 'class GoodClass {};\nint good_function() { int a_variable = 1; return a_variable; }\n' > "$folder/good.cpp"
accepts() { clang-tidy-14 --quiet "$folder/$1.cpp" -- -std=c++20; }
if accepts bad >/dev/null 2>&1; then
  echo "lint: clang-tidy accepted bad names; the naming rules are not in force" >&2
  exit 1
fi
if ! said=$(accepts good 2>&1); then
  printf 'lint: clang-tidy rejects good names too:\n%s\n' "$said" >&2
  exit 1
fi
