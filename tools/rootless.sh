#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# rootless.sh PACKAGE...: provides packages without root; `make ROOTLESS=1` calls it instead of installing. Downloads
# the packages and their dependencies that this machine lacks, unpacks them under .deps/ and makes them usable from
# there; cmake/deps.cmake builds against them. Prints nothing when nothing is to do. Safe to interrupt and to run again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
deps=$(pwd -P)/.deps
library_path=$deps/usr/lib/x86_64-linux-gnu:$deps/usr/lib

# Packages that the machine itself must have: a build runs them before .deps/ exists. It works without git.
readonly given=" g++ make git python3 ca-certificates "
# Packages that are never unpacked: a second C library or compiler would be mixed with the machine's own.
readonly toolchain='^(libc6|libc6-dev|libc-bin|libc-dev-bin|linux-libc-dev|libcrypt1|libcrypt-dev|libgcc-.*|libstdc\+\+.*|gcc.*|g\+\+.*|cpp.*|binutils.*)$'

fail() { printf 'setup: %s\n' "$1" >&2; exit 2; }

# The path stands in .pc files, in sed's expression and in the wrappers; pkg-config splits at blanks.
check_path() {
  case $deps in
  *[[:space:]\#\&\\\"\'\$\`:\;]*)
    fail "ROOTLESS=1 cannot work in $(pwd -P): its path has a blank or one of # & \\ \" ' \$ \` : ; move the sources."
    ;;
  esac
}

check_given() {
  local compiler=${CXX:-g++}
  command -v apt-get >/dev/null || fail "ROOTLESS=1 downloads with apt-get, which this machine lacks."
  command -v python3 >/dev/null || fail "ROOTLESS=1 takes python3 from the machine, which lacks it; ask who can install packages."
  echo '#include <cstdlib>' | "$compiler" -x c++ -fsyntax-only - 2>/dev/null ||
    fail "ROOTLESS=1 takes a C++ compiler with its C library's headers from the machine, and $compiler is none; set CXX, or ask who can install g++."
}

check_disk() {
  local free_mb
  free_mb=$(df -Pk . | awk 'NR == 2 {printf "%d", $4 * 1.024e-3}')
  [ "$free_mb" -ge 1000 ] || fail "the packages need 1 GB of disk; $free_mb MB are free in $(pwd)."
}

is_ready() { # from this folder, and with all of these packages?
  [ -e .deps/ready ] && [ "$(head -1 .deps/ready)" = "$deps" ] || return 1
  local package
  for package in "$@"; do grep -qxF -- "$package" .deps/ready || return 1; done
}

# Runs apt with the machine's sources and package status, but with our own lists and archives.
apt() {
  local program=$1
  shift
  "$program" -qq -o Dir::State="$deps/apt/state" -o Dir::State::status=/var/lib/dpkg/status -o Dir::Cache="$deps/apt/cache" \
    -o Debug::NoLocking=1 -o APT::Sandbox::User= "$@"
}

known() {
  local package
  for package in "$@"; do apt apt-cache show "$package" >/dev/null 2>&1 || return 1; done
}

# Ignores the status: without root, a hook of the machine's apt may fail after the lists are downloaded.
update() { apt apt-get update >.deps/apt/log 2>&1 || true; }

fetch() { apt apt-get install -y --no-install-recommends --download-only "$@" >.deps/apt/log 2>&1; }

download() {
  mkdir -p .deps/apt/state/lists/partial .deps/apt/cache/archives/partial
  known "$@" || update
  fetch "$@" || { update && fetch "$@"; } || {
    cat .deps/apt/log >&2
    fail "apt-get could not download the packages; what it said stands above. Run make ROOTLESS=1 again to go on from here."
  }
  apt apt-get autoclean >/dev/null
}

unpack() {
  local deb folder
  rm -rf .deps/{usr,bin,lib,lib64,sbin,programs}
  for folder in bin lib lib64 sbin; do # some archives hold /bin and /lib/x86_64-linux-gnu, from before the merged /usr
    mkdir -p ".deps/usr/$folder"
    ln -s "usr/$folder" ".deps/$folder"
  done
  for deb in .deps/apt/cache/archives/*.deb; do
    [[ $(dpkg-deb -f "$deb" Package) =~ $toolchain ]] && continue
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C .deps --keep-directory-symlink --no-same-owner --no-same-permissions ||
      fail "could not unpack $deb. Run make ROOTLESS=1 again."
  done
}

# Corrects links, which packages write for /: an absolute link is led into .deps/, and a relative link to a library
# that only the machine has is led to the machine's.
mend_links() {
  local link target
  find .deps/usr -type l | while read -r link; do
    target=$(readlink "$link")
    if [[ $target = /* ]]; then
      if [ -e "$deps$target" ]; then ln -sfn "$deps$target" "$link"; fi
    elif [ ! -e "$link" ]; then
      target=$(realpath -m "$link")
      if [ -e "${target#"$deps"}" ]; then ln -sfn "${target#"$deps"}" "$link"; fi
    fi
  done
}

mend_pkg_config() {
  find .deps/usr -path '*/pkgconfig/*.pc' -type f -exec sed -i -E "s#(=|-I|-L|[[:space:]])/usr(/|\$)#\1$deps/usr\2#g" {} +
}

# Wraps the programs of .deps/, so that only they get the path of its libraries; the environment of others is unchanged.
write_wrappers() {
  local program
  mkdir .deps/programs
  for program in .deps/usr/bin/*; do
    [ -f "$program" ] && [ -x "$program" ] || continue
    cat >".deps/programs/${program##*/}" <<END
#!/bin/sh
export LD_LIBRARY_PATH="$library_path\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
exec "$deps/usr/bin/${program##*/}" "\$@"
END
    chmod +x ".deps/programs/${program##*/}"
  done
}

wanted=()
for package in "$@"; do [[ $given = *" $package "* ]] || wanted+=("$package"); done
if [ "${#wanted[@]}" -eq 0 ] || is_ready "${wanted[@]}"; then exit 0; fi
check_path
check_given
[ "${SLIPSTREAM_NO_INSTALL:-0}" != 1 ] ||
  fail "SLIPSTREAM_NO_INSTALL is set, and not under .deps/: ${wanted[*]}. Run: make ROOTLESS=1 setup"
check_disk
echo "setup: unpacking under .deps/ (about 100 MB to download): ${wanted[*]}"
rm -f .deps/ready
download "${wanted[@]}"
unpack
mend_links
mend_pkg_config
write_wrappers
rm -rf .deps/apt/cache/archives
printf '%s\n' "$deps" "${wanted[@]}" >.deps/ready.new
mv .deps/ready.new .deps/ready
