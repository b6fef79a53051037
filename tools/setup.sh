#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# setup.sh [PACKAGE...]: prepares a Debian 12 or Ubuntu 24.04 machine for building Slipstream, with further packages if
# named. Checks first, installs only what is missing, reports its actions, and prints nothing when nothing is to do.
# Safe to interrupt and to run again. ROOTLESS=1 unpacks packages under .deps/ instead of installing them, and so does
# every later run while .deps/ exists.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() { printf 'setup: %s\n' "$1" >&2; exit 2; }
no_install() { [ "${SLIPSTREAM_NO_INSTALL:-0}" = 1 ]; }
rootless() { [ "${ROOTLESS:-0}" = 1 ] || [ -e .deps/ready ]; }

os_release() { # FIELD...: the first of them that the system's description has
  local field value
  for field in "$@"; do
    value=$(sed -n "s/^$field=\"\{0,1\}\([^\"]*\)\"\{0,1\}$/\1/p" "${SLIPSTREAM_OS_RELEASE:-/etc/os-release}" 2>/dev/null) || true
    [ -z "$value" ] || { echo "$value"; return; }
  done
  echo unknown
}

check_platform() {
  [ "$(uname -sm)" = "Linux x86_64" ] || fail "Slipstream runs on x86-64 Linux; this is $(uname -sm)."
}

# On other systems CMake reports what is missing, since we know neither names nor versions of their packages.
release_is_known() {
  release=$(os_release DEBIAN_CODENAME UBUNTU_CODENAME VERSION_CODENAME)  # a derivative names its base distribution
  case "$release" in bookworm | noble) command -v dpkg-query >/dev/null && return ;; esac
  no_install || fail "tools/packages-debian.txt is for Debian 12 and Ubuntu 24.04; this is $(os_release PRETTY_NAME ID). \
Install the counterparts of its packages, then run with SLIPSTREAM_NO_INSTALL=1."
  return 1
}

missing_packages() { # [PACKAGE...]: those of them, and of our list, that are not installed
  { grep -v '^#' tools/packages-debian.txt; printf '%s\n' "$@"; } | while read -r package releases; do
    [ -n "$package" ] || continue
    [[ " ${releases:-$release} " = *" $release "* ]] || continue
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
  done
}

apt_known() { # are all the packages in the lists we have?
  local package
  for package in "$@"; do apt-cache show "$package" >/dev/null 2>&1 || return 1; done
}

install_packages() {
  local packages=("$@") as_root=()
  local manual="apt-get update && apt-get install -y --no-install-recommends ${packages[*]}"
  echo "setup: missing packages: ${packages[*]}"
  no_install && fail "SLIPSTREAM_NO_INSTALL is set. Install them with: $manual"
  if [ "$(id -u)" != 0 ]; then
    if sudo -n true 2>/dev/null; then
      as_root=(sudo -n)
    elif [ -t 0 ] && command -v sudo >/dev/null; then
      read -r -p "setup: install them with sudo now? [Y/n] " answer
      [[ "${answer:-y}" =~ ^[Yy] ]] || fail "run: sudo sh -c '$manual'"
      as_root=(sudo)
    else
      fail "run as root: $manual
setup: or, without root: make ROOTLESS=1 (unpacks them under .deps/)"
    fi
  fi
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq)
  apt_known "${packages[@]}" || "${apt[@]}" update
  "${apt[@]}" install -y --no-install-recommends "${packages[@]}" >/dev/null ||
    { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "${packages[@]}" >/dev/null; } ||
    fail "apt-get could not install the packages; the command was: $manual"
}

check_disk() {
  local free_mb
  free_mb=$(df -Pk . | awk 'NR == 2 {printf "%d", $4 * 1.024e-3}')
  [ "$free_mb" -ge 4000 ] || fail "LibTorch and the build need 4 GB of disk; $free_mb MB are free in $(pwd)."
}

# Creates .venv. If Python's ensurepip is not installed, its package is unpacked under .deps/, and the pip wheel in it
# can install itself.
make_environment() {
  if python3 -c 'import ensurepip' 2>/dev/null; then
    python3 -m venv .venv
  else
    local wheels=.deps/usr/share/python-wheels
    python3 -m venv --without-pip .venv &&
      .venv/bin/python "$(echo "$wheels"/pip-*.whl)/pip" install --quiet --no-index --find-links "$wheels" pip
  fi
}

install_wheels() {
  local list=tools/requirements-cpu.txt arguments=(--no-deps --require-hashes) flavour
  flavour=$(sha256sum "$list" | cut -c1-16)
  [ -e ".venv/.ready-$flavour" ] && return
  no_install && fail "LibTorch is not in .venv and SLIPSTREAM_NO_INSTALL is set. Run: python3 -m venv .venv && .venv/bin/pip install ${arguments[*]} -r $list"
  check_disk
  echo "setup: installing LibTorch into .venv (about 600 MB to download)"
  [ -x .venv/bin/pip ] || make_environment || fail "could not make the Python environment .venv; what python3 said stands above."
  .venv/bin/pip install --quiet --disable-pip-version-check "${arguments[@]}" -r "$list" ||
    fail "pip could not install LibTorch; what it said stands above. Run make again to go on from here."
  touch ".venv/.ready-$flavour"
}

check_platform
if release_is_known; then
  mapfile -t missing < <(missing_packages "$@")
  if [ "${#missing[@]}" -gt 0 ]; then
    if rootless; then bash tools/rootless.sh "${missing[@]}"; else install_packages "${missing[@]}"; fi
  fi
fi
install_wheels
