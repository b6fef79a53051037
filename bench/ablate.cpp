// SPDX-License-Identifier: Apache-2.0
// Compares trainer settings on recorded streams: the acceptance on prompts that were never streamed, after N requests
// of one topic. Runs no target; deterministic.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/adapt/adapt_replay.h"
#include "bench/common/result.h"
#include "common/error.h"

namespace slip::bench {
namespace {

using nlohmann::json;

struct Options {
  std::string draft;
  std::vector<std::string> streams, dev;
  std::vector<std::size_t> requests = {64, 200};
  std::vector<std::string> settings = {""};
  std::size_t dev_requests = 40;
  std::uint64_t seeds = 1;
  int k = 3;
  bool prompt_lookup = false, json = false;
};

json run(const Options& options) {
  if (options.streams.size() != options.dev.size()) {
    throw Error(ErrorCode::kInvalidArgument, "each --stream needs its --dev", {}, "dev");
  }
  json result;
  for (std::size_t topic = 0; topic < options.streams.size(); ++topic) {
    const auto stream = read_recorded(options.streams[topic]);
    auto dev = read_recorded(options.dev[topic]);
    dev.resize(std::min(dev.size(), options.dev_requests));
    RecordScorer scorer(options.draft, options.k, options.prompt_lookup);
    const std::string name = stream.empty() ? options.streams[topic] : stream.front().topic;
    result["base"][name] = scorer.alpha(scorer.base(), dev);
    for (const std::string& text : options.settings) {
      const OnlineSetting setting = parse_online_setting(text);
      for (std::uint64_t seed = 1; seed <= options.seeds; ++seed) {
        OnlineTraining training(options.draft, setting, seed);
        json row = {{"topic", name}, {"setting", text}, {"seed", seed}};
        for (std::size_t i = 0; i < stream.size(); ++i) {
          training.take(stream[i]);
          const bool look =
              std::find(options.requests.begin(), options.requests.end(), i + 1) != options.requests.end();
          if (!look) continue;
          const double alpha = scorer.alpha(*training.weights(), dev);
          row["after"].push_back(
              {{"requests", i + 1}, {"alpha", alpha}, {"steps", training.steps()}, {"seconds", training.seconds()}});
          if (!options.json) {
            std::printf("%-5s %-70s seed %llu  %4zu requests %5lld steps %7.2f s  α %.3f\n", name.c_str(), text.c_str(),
                        static_cast<unsigned long long>(seed), i + 1, static_cast<long long>(training.steps()),
                        training.seconds(), alpha);
            std::fflush(stdout);
          }
          if (i + 1 >= options.requests.back()) break;
        }
        result["rows"].push_back(row);
      }
    }
  }
  return result;
}

void print_base(const json& result) {
  for (const auto& [name, alpha] : result["base"].items()) {
    std::printf("%-5s base α %.3f\n", name.c_str(), alpha.get<double>());
  }
}

}  // namespace
}  // namespace slip::bench

int main(int argc, char** argv) {
  slip::bench::Options options;
  CLI::App app{"Trainer settings compared on recorded streams."};
  app.add_option("--draft", options.draft, "Base draft folder")->required();
  app.add_option("--stream", options.streams, "Replay folders of recorded streams, comma separated")
      ->required()
      ->delimiter(',');
  app.add_option("--dev", options.dev, "Replay folders of prompts never streamed, one per stream")
      ->required()
      ->delimiter(',');
  app.add_option("--requests", options.requests, "Request counts after which to score, ascending")->delimiter(',');
  app.add_option("--dev-requests", options.dev_requests, "How many dev records are scored");
  app.add_option("--setting", options.settings, slip::bench::kOnlineSettingHelp);
  app.add_option("--seeds", options.seeds, "Runs per setting");
  app.add_option("--k", options.k, "Draft length");
  app.add_flag("--prompt-lookup", options.prompt_lookup, "Score with prompt lookup, as serving does");
  app.add_flag("--json", options.json, "Print JSON");
  CLI11_PARSE(app, argc, argv);
  return slip::bench::show_result(
      "ablate", options.json, [&] { return slip::bench::run(options); }, slip::bench::print_base);
}
