// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/adapt/adapt_replay.h"

namespace slip::bench {

struct AdaptOptions {
  std::string target, draft, dev, topic, config, work = "build/adapt";
  std::string record, replay, dev_replay;  // data folders: to record into, to run the arms on
  std::string csv, svg;
  std::vector<std::string> sampled;  // data folders of further answers
  std::vector<std::string> stream, arms = {"learning", "frozen"};
  std::size_t requests = 400, window = 50, dev_prompts = 150, look_every = 8;
  std::uint64_t seeds = 1;
  double rate = 4, skip_share = 0.1, temperature = 0, max_repeated = 0.2;
  int k = 3, max_tokens = 128;
  OnlineSetting ours;  // for the arms ungated and offline-100
  bool json = false;
};

}  // namespace slip::bench
