// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "bench/adapt/adapt_options.h"
#include "bench/common/prompts.h"

namespace slip::bench {

// One request as recorded in its service's ledger.
struct Served {
  std::int64_t accepted = 0, first_rejections = 0, steps = 0, tokens = 0, repeated = 0, version = 0;
};

// A stream answered over HTTP by its own service.
struct ServiceArm {
  std::vector<Served> served;                    // in streaming order
  std::filesystem::path learned;                 // the draft's folder at the end
  std::map<std::string, std::int64_t> outcomes;  // canary decisions by kind
  double seconds = 0;                            // from the first request to the last answer
  std::size_t failed = 0;                        // requests that got another status than 200
  int exit_status = 0;
};

// Runs an arm: in "learning" the service learns as configured, in "frozen" it does not.
ServiceArm run_service_arm(const AdaptOptions& options, const std::string& name, const std::vector<Prompt>& prompts);
// Lets the target answer the prompts and keeps the records in <folder>/replay, without training. Returns how many
// requests failed.
std::size_t record_stream(const AdaptOptions& options, const std::filesystem::path& folder,
                          const std::vector<Prompt>& prompts);

// Requests whose answers are mostly repetitive in any arm. Repetition inflates acceptance, so they are excluded from
// all.
std::set<std::size_t> repetitive(const AdaptOptions& options, const std::map<std::string, ServiceArm>& arms);
nlohmann::json service_report(const AdaptOptions& options, const ServiceArm& arm,
                              const std::set<std::size_t>& left_out);

}  // namespace slip::bench
