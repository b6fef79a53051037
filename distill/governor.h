// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/clock.h"
#include "engine/step_listener.h"

namespace slip {

// Asked before each unit of training work whether it may run now. Threads: allow_* and unit_done() on the trainer
// thread; steps from the engine thread.
class Governor : public StepListener {
 public:
  // True: do one microbatch now. False: nothing to spend; ask again later (the trainer waits, woken by new records).
  virtual bool allow_unit() noexcept = 0;
  // The unit allow_unit() granted is over; what serving does from here on is "without training".
  virtual void unit_done() noexcept = 0;
  // True: an optimizer step may begin for a topic with so many finished requests and optimizer steps since the start.
  virtual bool allow_step(std::uint64_t requests_seen, std::uint64_t steps_done) noexcept = 0;
};

// Serving comes first: p99 inter-token latency stays within `latency_slack` of what it is without training; nothing
// while requests wait for admission. `now_us` is the monotonic clock; tests give their own.
std::unique_ptr<Governor> make_slack_governor(double latency_slack, double steps_per_request,
                                              std::int64_t (*now_us)() = monotonic_us);
// Deterministic, for benchmarks: `steps_per_request` optimizer steps for each finished request of the topic, whatever
// the load.
std::unique_ptr<Governor> make_steps_per_request_governor(double steps_per_request);

}  // namespace slip
