#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The kernels' scalar and AVX2 classes under Valgrind's memcheck, which sees reads of memory that nobody wrote (the
# sanitizers of `make asan` do not). Valgrind's CPU has no AVX-512 and no AMX, and says so when it is asked what it can
# do: the newer classes are not run, and nothing of them is executed. Needs Debian's `valgrind` and a built
# build/kernels_test, which links no LibTorch. Some minutes; the tests left out say nothing new of memory and take an hour.
#   tests/kernels/valgrind.sh [KERNELS_TEST]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
program=${1:-build/kernels_test}
command -v valgrind > /dev/null || { echo "valgrind.sh needs Valgrind: apt-get install valgrind" >&2; exit 2; }
[ -x "$program" ] || { echo "valgrind.sh: there is no $program; run \`make test\` first" >&2; exit 2; }
slow='*ATreeRowEquals*:*AWindowedTreeRow*:*WindowsEqualTheReference*:*TreesBehindSubsets*:*ASubsetHasTheBits*'
slow+=':*ASubsetOfEverything*:*NegativeARangeOneSlot*:*TreesEqualTheReference*:*EqualsTheReferenceAtAnySize*'
slow+=':*GivesTheSameBitsAtAnyRowCount*:*ThatDependsOnThe*:*ALoopSees*:*RunsEveryIndexOnce*:*EndsWhileWorkers*'
listed=$(valgrind -q "$program" --gtest_list_tests)
if grep -q -E 'avx512|amx' <<< "$listed"; then
  echo "valgrind.sh: this Valgrind claims AVX-512 or AMX" >&2
  exit 1
fi
grep -q 'scalar' <<< "$listed" && grep -q 'avx2' <<< "$listed" || { echo "valgrind.sh: this machine has no AVX2" >&2; exit 1; }
exec valgrind --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite,possible \
  "$program" --gtest_brief=1 --gtest_filter="*-$slow"
