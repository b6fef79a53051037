#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints how many compilers to run at once: min(cores we may use, available memory / 2 GiB), at least 1.
set -u
cores=$(nproc)
if [ -r /sys/fs/cgroup/cpu.max ]; then
  read -r quota period < /sys/fs/cgroup/cpu.max
  if [ "$quota" != max ]; then
    limit=$(((quota + period - 1) / period))
    [ "$limit" -lt "$cores" ] && cores=$limit
  fi
fi
memory_kib=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
if [ -r /sys/fs/cgroup/memory.max ]; then
  limit=$(cat /sys/fs/cgroup/memory.max)
  [ "$limit" != max ] && [ $((limit / 1024)) -lt "$memory_kib" ] && memory_kib=$((limit / 1024))
fi
by_memory=$((memory_kib / (2 * 1024 * 1024)))
jobs=$((cores < by_memory ? cores : by_memory))
echo $((jobs > 0 ? jobs : 1))
