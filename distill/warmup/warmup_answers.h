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

// The file of answers written so far: one replay frame per answer, appended when it is complete. A torn tail (from an
// interrupted write) is cut on open. An answer to a prompt of another run is an error, which the caller detects.
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
  std::optional<float> temperature;  // absent: 0 for prompts with an even index, 0.8 for the others
  std::int32_t max_tokens = 256, concurrency = 16;
  std::uint64_t seed = 1;
};

// The target model that answers, and its device; a null device means the CPU.
struct AnsweringTarget {
  std::shared_ptr<const ModelWeights> weights;
  std::shared_ptr<kernels::cuda::DeviceQueue> device;
  std::string where = "the target's folder";  // origin of the weights, for messages
};

// Called with each finished record, between two steps of the target; false stops.
using AnswerSink = std::function<bool(const ReplayRecord&)>;
// Called between two steps of the target; false stops.
using KeepGoing = std::function<bool()>;

// Both functions refuse a target with NaN logits by Error{kDataLoss}, since a draft cannot learn from it.

// Lets the target generate answers to prompts[wanted…] through the engine, without a draft. Sampling is addressed by
// (seed, prompt), so an answer depends neither on answers generated concurrently nor on an interruption.
void write_answers(const AnsweringTarget& target, std::span<const WarmupPrompt> prompts,
                   const std::vector<std::size_t>& wanted, const AnswerOptions& options, kernels::ThreadPool& pool,
                   const AnswerSink& sink, const KeepGoing& keep_going);
// Runs the target over the given responses (teacher forcing), and stores its distribution at each token.
void force_answers(const AnsweringTarget& target, std::span<const WarmupPrompt> prompts,
                   const std::vector<std::size_t>& wanted, kernels::ThreadPool& pool, const AnswerSink& sink,
                   const KeepGoing& keep_going);

}  // namespace slip
