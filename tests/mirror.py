#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a source has neither a test of its own nor a line here that names what covers it.

A test of its own is tests/<path of the source>_test.cpp, or more than one file that begins like it. `--self-test` plants
faults, each of which must be found."""
import fnmatch
import pathlib
import subprocess
import sys

FOLDERS = ("checkpoints", "cli", "common", "distill", "engine", "kernels", "ledger", "router", "server", "text")
# Sources without .cpp, as patterns; the tests that cover them, without tests/ and _test.cpp. Of those with .py, the file.
COVERED_BY = {
    "checkpoints/json_document": ["checkpoints/strict_json", "checkpoints/model_config"],
    "checkpoints/store_folder": ["checkpoints/draft_store", "checkpoints/draft_store_crash"],
    "cli/commands": ["cli/help", "cli/main"],
    "cli/config/check_config": ["cli/serve_refused", "cli/config/serve_config"],
    "cli/config/serve_config_text": ["cli/config/serve_config"],
    "cli/config/serve_fields": ["cli/config/serve_config"],
    "cli/config/toml_reader": ["cli/config/serve_config"],
    "cli/inspect/inspect_*": ["cli/inspect/inspection", "cli/inspect/inspect_command"],
    "cli/ledger": ["ledger/backup", "cli/help"],
    "cli/output_path": ["cli/warmup", "cli/main"],
    "cli/process/address_room": ["cli/main", "cli/serve_memory"],
    "cli/process/first_process": ["tools/container_test.py"],
    "cli/process/stack_limit": ["cli/main"],
    "cli/process/stop_signal": ["cli/serve", "cli/process/stop_while_loading"],
    "cli/profile": ["cli/simulate"],
    "cli/purge": ["cli/serve_purge", "cli/service/purge_command"],
    "cli/service/part_options": ["cli/service/serving"],
    "cli/simulation/decoding": ["cli/simulation/pass_costs", "cli/simulation/profile"],
    "common/json_text": ["common/log", "server/http/json_text"],
    "distill/learning_units": ["distill/learner_units", "distill/payback_governor"],
    "distill/replay/replay_record": ["distill/replay/record_codec"],
    "distill/replay/segment_log": ["distill/replay/replay_buffer", "distill/replay/replay_buffer_crash",
                                   "distill/replay/replay_buffer_damage"],
    "distill/trainer/cpu_draft*": ["distill/trainer/draft_trainer"],
    "distill/trainer/torch_head": ["distill/trainer/draft_trainer", "distill/trainer/device_loss"],
    "distill/trainer/torch_microbatch": ["distill/trainer/draft_trainer"],
    "distill/trainer/torch_optimizer": ["distill/trainer/draft_trainer"],
    "distill/warmup/warmup_output": ["distill/warmup/warmup", "cli/warmup"],
    "engine/cuda/device_image": ["engine/cuda/device_draft_runner", "distill/learner_device"],
    "engine/cuda/device_model": ["engine/cuda/device_worker"],
    "engine/cuda/device_step": ["engine/cuda/device_worker", "engine/cuda/device_draft"],
    "engine/cuda/device_transformer": ["engine/cuda/device_worker"],
    "engine/cuda/device_weights": ["engine/cuda/device_worker"],
    "engine/cuda/logits_processor_tables": ["engine/cuda/device_logits_processors"],
    "engine/cuda/verification_tables": ["engine/cuda/device_verifier"],
    "engine/grammar/answer_grammar": ["engine/grammar/token_masks", "engine/engine_grammar"],
    "engine/grammar/byte_nfa": ["engine/grammar/byte_automaton"],
    "engine/grammar/characters": ["engine/grammar/pattern"],
    "engine/grammar/json_lexemes": ["engine/grammar/schema_compiler"],
    "engine/grammar/schema_*": ["engine/grammar/schema_compiler", "engine/grammar/hostile_schema"],
    "engine/grammar/token_t*": ["engine/grammar/token_masks"],
    "engine/models/local_worker": ["engine/engine_target", "engine/models/architectures"],
    "engine/models/rope": ["engine/models/goldens", "engine/models/transformer"],
    "engine/models/step_check": ["engine/models/transformer"],
    "engine/models/workspace": ["engine/models/transformer"],
    "engine/scheduler/stages*": ["engine/engine", "engine/engine_drafts", "engine/engine_preemption",
                                 "engine/engine_prefix_cache", "engine/engine_reports"],
    "engine/sequence": ["engine/engine", "engine/engine_ends"],
    "engine/speculative/*draft_runner": ["engine/speculative/draft_model_proposer"],
    "engine/speculative/proposer_list": ["engine/speculative/lookup_proposer"],
    "engine/speculative/raw_logits_checksum": ["engine/engine_lossless", "engine/speculative/observe"],
    "engine/speculative/slice_step": ["engine/speculative/draft_model_proposer", "engine/speculative/local_verifier"],
    "engine/speculative/verifier": ["engine/speculative/local_verifier"],
    "kernels/activations": ["kernels/gated_matmul", "kernels/matmul"],
    "kernels/cuda/device_queue": ["kernels/cuda/jobs", "engine/cuda/device_worker"],
    "kernels/cuda/enqueue": ["kernels/cuda/launch_gpu"],
    "kernels/cuda/without_device": ["engine/cuda/make_target"],
    "kernels/kernel_table": ["kernels/gated_matmul", "kernels/elementwise"],
    "kernels/kernels_*": ["kernels/attention", "kernels/elementwise", "kernels/matmul"],
    "kernels/packed_matrix": ["kernels/matmul"],
    "ledger/drift_panel": ["ledger/drift_svg"],
    "ledger/figures": ["ledger/report", "ledger/views"],
    "ledger/learning_table": ["ledger/report"],
    "ledger/report_*": ["ledger/report"],
    "ledger/row_writer": ["ledger/upkeep", "ledger/views"],
    "ledger/sheet": ["ledger/report"],
    "ledger/svg_canvas": ["ledger/drift_svg", "ledger/learning_svg"],
    "ledger/text_table": ["ledger/report"],
    "ledger/topics_svg": ["cli/report"],
    "server/answer_delivery": ["server/session", "server/openai/routes"],
    "server/draft_series": ["server/metrics"],
    "server/http/waker": ["server/http_server"],
    "server/http/wire": ["server/session"],
    "server/openai/absent_routes": ["server/openai/routes"],
    "server/openai/call_texts": ["server/openai/call"],
    "server/openai/lists": ["server/openai/routes"],
    "server/openai/message": ["server/openai/call", "server/openai/token_call"],
    "server/openai/*_field*": ["server/openai/call", "server/openai/call_hostile"],
    "server/openai/service": ["server/openai/routes"],
    "server/openai/slo_tier": ["server/openai/call_slo"],
    "server/responder": ["server/session", "server/openai/routes"],
    "text/byte_pair_*": ["text/byte_pair_merges", "text/tokenizer_reference"],
    "text/chat_template/template_*": ["text/chat_template/chat_template", "text/chat_template/chat_template_reference"],
    "text/post_processor": ["text/tokenizer_file"],
    "text/tokenizer_fields": ["text/normalizer", "text/pre_tokenizer"],
    "text/without_tokenizer": ["engine/engine"],
}


def test_file(name):
    return f"tests/{name}" if name.endswith(".py") else f"tests/{name}_test.cpp"


def has_own_test(source, files):
    return any(file.startswith(f"tests/{source}") and file.endswith(("_test.cpp", "_test.py")) for file in files)


def faults(files, covered_by):
    """What is wrong, a line each. `files`: paths in the repository."""
    tops = tuple(f"{top}/" for top in FOLDERS)
    sources = sorted(file[:-len(".cpp")] for file in files if file.endswith(".cpp") and file.startswith(tops))
    alone = [source for source in sources if not has_own_test(source, files)]
    for source in alone:
        if not any(fnmatch.fnmatch(source, pattern) for pattern in covered_by):
            yield f"{source}.cpp has no test: write tests/{source}_test.cpp, or say in tests/mirror.py what covers it"
    for pattern, tests in covered_by.items():
        if not any(fnmatch.fnmatch(source, pattern) for source in alone):
            yield f"tests/mirror.py: {pattern} is no source without a test of its own"
        yield from (f"tests/mirror.py: {test_file(test)} does not exist" for test in tests if test_file(test) not in files)


def self_test(files):
    """Each planted fault must be found."""
    planted = {
        "a source that nothing covers": (files | {"engine/new_thing.cpp"}, COVERED_BY),
        "a line without a source": (files, COVERED_BY | {"engine/gone": ["engine/engine"]}),
        "a line of a source with a test": (files, COVERED_BY | {"engine/scheduler/plan": ["engine/engine"]}),
        "a test that is not there": (files, COVERED_BY | {"cli/commands": ["cli/nothing"]}),
    }
    missed = [name for name, (some, covered_by) in planted.items() if len(list(faults(some, covered_by))) != 1]
    return [f"not found: {name}" for name in missed]


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--self-test"]
    root = pathlib.Path(arguments[0] if arguments else ".")
    listed = subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True, check=True).stdout.splitlines()
    found = self_test(set(listed)) if "--self-test" in sys.argv else list(faults(set(listed), COVERED_BY))
    print("\n".join(found) if found else "every source has its test")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
