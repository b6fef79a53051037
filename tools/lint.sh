#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lints the C++ and CUDA files changed since LINT_BASE (default: the commit before HEAD; all of them with LINT_ALL=1):
# clang-format, include directions, the documents, clang-tidy on the changed sources, and a check that
# bad names are still detected. Where HEAD has no parent (a clone of depth 1), only LINT_ALL=1 runs clang-tidy on
# sources: all of them take longer than .ci/run has.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python3 tests/include_directions.py
python3 tests/documents.py .
python3 tests/mirror.py .
export PATH="$PATH:$PWD/.deps/programs"
has_linters() { command -v clang-format-14 >/dev/null && command -v clang-tidy-14 >/dev/null; }
has_linters || bash tools/setup.sh clang-format-14 clang-tidy-14
has_linters || { echo "lint: install clang-format-14 and clang-tidy-14 first" >&2; exit 2; }
# Reads a checkout of another user, too. git refuses it because its configuration may name programs; this script is
# from the same checkout and runs already.
git() { command git -c safe.directory="$(pwd -P)" "$@"; }
git rev-parse --verify HEAD >/dev/null || {
  echo "lint: git finds no commit here, so no file to lint; its message stands above" >&2
  exit 2
}
base=${LINT_BASE:-HEAD~1}
all=${LINT_ALL:-0}
tidy=1
if [ "$all" != 1 ] && [ -z "${LINT_BASE:-}" ] && ! git rev-parse -q --verify HEAD~1 >/dev/null; then
  all=1
  tidy=0
fi
if [ "$all" = 1 ]; then
  mapfile -t changed < <(git ls-files '*.h' '*.cpp' '*.cu' '*.cuh')
else
  git rev-parse -q --verify "$base^{commit}" >/dev/null || { echo "lint: LINT_BASE=$base is no commit" >&2; exit 2; }
  mapfile -t changed < <(git diff --name-only --diff-filter=d "$base" -- '*.h' '*.cpp' '*.cu' '*.cuh')
fi
if [ "${#changed[@]}" -eq 0 ]; then echo "lint: no C++ or CUDA file changed"; exit 0; fi
clang-format-14 --dry-run --Werror "${changed[@]}"
bash tools/lint_names_test.sh
if [ "$tidy" = 0 ]; then
  echo "lint: HEAD has no parent here, so clang-tidy is left out; LINT_ALL=1 runs it on all sources"
  exit 0
fi
mapfile -t sources < <(printf '%s\n' "${changed[@]}" | grep '\.cpp$' || true)
[ "${#sources[@]}" -eq 0 ] && exit 0
bash tools/configure.sh release >/dev/null
# clang-tidy's counts of warnings on standard error say nothing. All else there fails, such as a compile command that it
# cannot use: it then looked at nothing, perhaps with status 0.
tidied() {
  local status=0
  { said=$(clang-tidy-14 -p build --quiet "$@" 2>&1 >&3); } 3>&1 || status=$?
  said=$(grep -vE '^$|^[0-9]+ (warning|error)s?( and [0-9]+ errors?)? generated\.$' <<< "$said") || return "$status"
  printf 'lint: clang-tidy says:\n%s\n' "$said" >&2
  return 1
}
export -f tidied
printf '%s\n' "${sources[@]}" | xargs -P "$(bash tools/jobs.sh)" -n 4 bash -c 'tidied "$@"' tidied
if [ "${#changed[@]}" = 1 ]; then echo "lint: 1 file is clean"; else echo "lint: ${#changed[@]} files are clean"; fi
