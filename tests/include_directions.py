#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a folder includes one that stands above it (ARCHITECTURE.md, "Folders"), or not root-relative."""
import pathlib
import re
import sys

# What a folder includes beside its own files: whole folders, and single headers of folders that are not open to it.
# A folder inside another is named if it has an order of its own.
SEES = {
    "common": [],
    "kernels": ["common"],
    "kernels/cuda": ["kernels", "common"],
    "checkpoints": ["common"],
    "ledger": ["common"],
    "text": ["checkpoints", "common"],
    "text/chat_template": ["text", "checkpoints", "common"],
    "engine": ["engine", "text", "checkpoints", "kernels", "common"],
    # Its stages are the body of Engine::step, so these two folders see each other.
    "engine/scheduler": ["engine/contain.h", "engine/engine.h", "engine/request_queue.h", "engine/sequence.h",
                         "engine/speculative", "engine/kv_cache", "common"],
    "engine/cuda": ["engine/speculative", "engine/models", "engine/sampling", "checkpoints", "kernels", "common"],
    "engine/speculative": ["engine/speculative/lookup", "engine/models", "engine/kv_cache", "engine/sampling", "kernels",
                           "common"],
    "engine/speculative/lookup": ["engine/sampling", "kernels", "common"],
    "engine/models": ["engine/kv_cache", "engine/sampling", "text", "checkpoints", "kernels", "common"],
    "engine/sampling": ["engine/grammar", "kernels", "common"],
    "engine/kv_cache": ["checkpoints", "kernels", "common"],
    "engine/grammar": ["text", "common"],
    "router": ["ledger", "common"],
    "distill": ["distill", "router/topic.h", "engine/request.h", "engine/step_listener.h", "engine/core_sharing.h",
                "engine/scheduler/decode_time.h", "engine/speculative", "text", "checkpoints", "kernels", "common"],
    # The one folder of distill/ that drives the engine: it lets the target write answers.
    "distill/warmup": ["distill/trainer", "distill/replay", "engine/engine.h", "engine/cuda/make_target.h",
                       "engine/speculative", "engine/models", "engine/sampling", "text", "checkpoints", "kernels",
                       "common"],
    "distill/canary": ["distill/replay", "engine/models", "engine/kv_cache", "engine/sampling", "engine/speculative",
                       "common"],
    "distill/trainer": ["distill/replay", "engine/models", "engine/sampling", "engine/speculative", "checkpoints",
                        "kernels", "common"],
    "distill/replay": ["router/topic.h", "engine/sampling", "engine/speculative", "checkpoints", "common"],
    "server": ["server", "distill", "router", "engine", "text", "ledger", "checkpoints", "kernels", "common"],
    "server/openai": ["server/http", "server/metrics.h", "router", "engine", "text", "checkpoints", "common"],
    "server/http": ["distill/idle_priority.h", "engine/contain.h", "engine/step_listener.h", "text", "common"],
    "cli": ["cli", "server", "distill", "router", "engine", "text", "ledger", "checkpoints", "kernels", "common"],
    "cli/service": ["cli/config", "cli/process", "cli/load_model.h", "cli/step_times_file.h", "cli/target_worker.h",
                    "cli/version.h", "server", "distill", "router", "engine", "text", "ledger", "checkpoints",
                    "kernels", "common"],
    "cli/inspect": ["cli/command.h", "cli/step_times_file.h", "distill", "router", "engine", "text", "ledger",
                    "checkpoints", "kernels", "common"],
    "cli/simulation": ["engine", "ledger/svg_canvas.h", "checkpoints", "kernels", "common"],
    "cli/config": ["cli/process", "cli/cache_size.h", "cli/load_model.h", "cli/target_worker.h", "server", "distill",
                   "router", "engine", "text", "ledger", "checkpoints", "kernels", "common"],
    "cli/process": ["server/http/options.h", "common"],
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def station(name):
    """The innermost folder with an order of its own that holds the file."""
    return max((folder for folder in SEES if name.startswith(folder + "/")), key=len, default=None)


def faults(root):
    tops = {folder.split("/")[0] for folder in SEES}
    for path in sorted(p for top in tops for p in (root / top).rglob("*") if p.suffix in {".h", ".cpp", ".cu", ".cuh"}):
        name = path.relative_to(root).as_posix()
        folder = station(name)
        for include in INCLUDE.findall(path.read_text()):
            if station(include) != folder and not any(include == a or include.startswith(a + "/") for a in SEES[folder]):
                yield f"{name}: includes \"{include}\", which {folder}/ may not see"


if __name__ == "__main__":
    found = list(faults(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
    print("\n".join(found) or "include directions are right")
    sys.exit(1 if found else 0)
