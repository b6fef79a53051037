// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engine/scheduler/prompt_time.h"
#include "engine/scheduler/slo_targets.h"
#include "engine/step_listener.h"

namespace slip {

// How fast the engine would serve one more request, learned from its steps and answers. It decides whether a request
// that asks for a speed is refused (`slo.admission`). Threads: predict() any, the rest the engine thread. Nothing
// waits.
class SpeedForecast : public StepListener {
 public:
  // Only steps change what is predicted. So an engine that refused everything after one slow step would never learn
  // better. Where nothing runs or waits, estimates without a step for this long count as unknown, and a request is
  // served that measures again.
  static constexpr std::int64_t kStaleUs = 10'000'000;

  // The engine's load when the request comes.
  struct Load {
    std::int32_t n_running = 0, n_waiting = 0;
    std::int32_t n_before = 0;  // of those that wait, the ones that start before it
  };
  struct Lengths {
    std::int32_t prompt = 0, answer = 0;  // in tokens; the answer's: the most that it may have
  };

  explicit SpeedForecast(std::int32_t max_running) : max_running_(max_running) {}

  void on_step(const StepFigures& figures) noexcept override;
  void on_finished(const RequestSummary& summary) noexcept override;

  // The times that such a request would get; each 0 while unknown. A token takes what it took with as many sequences as
  // will then run, or with the nearest number that was measured. An old time gives way to a new one of a sequence more
  // or less. Before the first token come the prompts ahead, less what the prefix cache usually has, and, where all
  // places are taken, the end of answers. Requests that start later are not ahead, but their tokens are computed beside
  // the answer's.
  SloTargets predict(const Load& load, const Lengths& lengths) const;

 private:
  static constexpr std::size_t kCounts = 129;
  // Written by the engine thread alone; 0: unknown.
  using Average = std::atomic<double>;

  struct Measured {
    Average us{0};
    std::atomic<std::int64_t> at_us{0};  // monotonic, of the last value
  };
  using ByCount = std::array<Measured, kCounts>;  // by the number of decoding sequences

  void measure(Measured& measured, double us) const;
  double nearest(const ByCount& by_count, std::int32_t n) const;

  const std::int32_t max_running_;
  int n_steps_ = 0;
  ByCount step_us_{}, token_us_{};             // a step without prompts; a token of one sequence in any step
  PromptTimeEstimate prompt_time_{31.0 / 32};  // of the engine thread
  Average prompt_row_us_{-1};                  // what it says, −1 while it is not known: a row may take no time
  Average answer_us_{0};                       // from an answer's first token to its end
  Average read_share_{0}, prompt_tokens_{0};
  std::atomic<std::int32_t> n_prefilling_{0};  // in the last step
  std::atomic<std::int64_t> last_step_us_{0};  // monotonic
};

// Error{kUnattainable} naming the field of the first target that is shorter than predicted. Pure.
void require_attainable(const SloTargets& asked, const SloTargets& predicted);

}  // namespace slip
