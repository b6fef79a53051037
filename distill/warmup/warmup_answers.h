// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/file.h"
#include "distill/replay/replay_record.h"
#include "distill/warmup/warmup_prompts.h"
#include "engine/models/transformer.h"
#include "kernels/cuda/device_queue.h"

namespace slip {

// The answers written so far, one replay frame each, appended as they are done. A torn tail (interrupted while writing)
// is cut on open; frames of prompts that are not asked for are an error, for then the folder belongs to another run.
// Threads: one owner.
class AnswerFile {
 public:
  explicit AnswerFile(const std::filesystem::path& path);
  void append(const ReplayRecord& record);
  void sync();
  // By request id: the prompt's index plus one.
  std::map<std::uint64_t, ReplayRecord>& records() { return records_; }

 private:
  FileHandle file_;
  std::map<std::uint64_t, ReplayRecord> records_;
};

struct AnswerOptions {
  std::optional<float> temperature;  // absent: 0 for prompts of even index, 0.8 for the others
  std::int32_t max_tokens = 256, concurrency = 16;
  std::uint64_t seed = 1;
};

// Who answers, and where: on a device, or for a null one on the CPU.
struct AnsweringTarget {
  std::shared_ptr<const ModelWeights> weights;
  std::shared_ptr<kernels::cuda::DeviceQueue> device;
  std::string where = "the target's folder";  // for messages
};

// Called with each finished record, between two steps of the target; false stops.
using AnswerSink = std::function<bool(const ReplayRecord&)>;
// Asked between two steps of the target; false stops.
using KeepGoing = std::function<bool()>;

// Both refuse a target whose logits are no numbers with Error{kDataLoss}: it would teach nonsense.

// Has the target write the answers of prompts[wanted…] through the engine, without a draft. Sampling is addressed by
// (seed, prompt), so an answer does not depend on which others are written beside it or on an interruption.
void write_answers(const AnsweringTarget& target, std::span<const WarmupPrompt> prompts,
                   const std::vector<std::size_t>& wanted, const AnswerOptions& options, kernels::ThreadPool& pool,
                   const AnswerSink& sink, const KeepGoing& keep_going);
// Has the target say what it would have put at each token of the given responses.
void force_answers(const AnsweringTarget& target, std::span<const WarmupPrompt> prompts,
                   const std::vector<std::size_t>& wanted, kernels::ThreadPool& pool, const AnswerSink& sink,
                   const KeepGoing& keep_going);

}  // namespace slip
