#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the demo on what `make` built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
exec python3 demo.py "$@"
