// SPDX-License-Identifier: Apache-2.0
// The figures of bench/load as other tools name them, and as plots.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/simulation/load_svg.h"

namespace slip::bench {

// The figures of summarize() by the names of `vllm bench serve`, so that what reads its JSON reads this one. Its times
// between chunks are not among them: itl_ms is between tokens. Pure.
nlohmann::json by_vllm_names(const nlohmann::json& figures);

// The same by the names of llama.cpp's tools/server/bench/speed-bench/speed_bench.py, for its speed_bench_compare.py.
// Its avg_prompt_t_s and avg_pred_t_s are not among them: they are of llama-server's own clock. Pure.
nlohmann::json by_llama_cpp_names(const nlohmann::json& figures);

// Goodput, and p50 and p99 of the time to the first token and of the time between tokens. Without targets goodput is
// the answered requests. `result`: that of bench/load, with several loads. Pure.
LoadDrawing load_drawing(const nlohmann::json& result);

}  // namespace slip::bench
