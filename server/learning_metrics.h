// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "distill/learning_figures.h"

namespace slip {

// Learning's figures as Prometheus families, in the order of /metrics. `now_us` is the wall clock: the figures' age
// shows when the learner gets no CPU time. Pure; any thread.
std::vector<prometheus::MetricFamily> learning_families(const LearningFigures& figures, std::int64_t now_us);

// Memory by part in bytes, and the process's resident set. The part "other" is the remainder, at least 0, so the parts
// sum up to at least the resident set. Pure; any thread.
using MemoryParts = std::vector<std::pair<std::string, std::uint64_t>>;
MemoryParts learning_memory(const LearningFigures& figures);
std::vector<prometheus::MetricFamily> memory_families(const MemoryParts& parts, std::uint64_t resident_bytes);

}  // namespace slip
