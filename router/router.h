// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "router/topic.h"
#include "router/topic_classifier.h"
#include "router/topic_seeds.h"

namespace slip {

struct RouterOptions {
  bool classify = true;         // requests without a known label get the topic their text suggests; else "unknown"
  bool learn = true;            // labelled requests teach the classifier
  double min_confidence = 0.5;  // 0 … 1: below it a prompt is "unknown"
};

struct Route {
  TopicId topic;
  TopicSource source = TopicSource::kNone;
  float confidence = 0;  // of the classifier; 0 where it was not asked
};

// Which topic a request belongs to: its label's, if that names one, else what its text suggests. The answer chooses a
// draft and so the speed of an answer, never its tokens.
//
// Threads: any. Reading text needs no lock; scoring it waits for at most one lesson or one copy() of other threads,
// both well under a millisecond.
class Router {
 public:
  // REQUIRES: classifier.n_topics == topics.size().
  Router(TopicTable topics, RouterOptions options, TopicClassifier classifier);

  std::shared_ptr<const TopicTable> topics() const { return topics_.load(std::memory_order_acquire); }
  // Other aliases for the same topics, for requests that come from now on; their examples count from the next start.
  // REQUIRES: the same names in the same order.
  void set_topics(TopicTable topics);
  const RouterOptions& options() const { return options_; }

  // `text` is what the user asked; any bytes, of which only both ends are read. A label that names no topic is read as
  // part of the text.
  Route route(std::optional<std::string_view> label, std::string_view text) const;

  // From a request whose client named its topic; nothing where the options say so. Then one example of the topics file
  // is gone over again, in turn, so that traffic with one label alone does not wash out the others.
  void learn(TopicId topic, std::string_view text);

  TopicClassifier copy() const;
  std::uint64_t lessons() const;

 private:
  std::atomic<std::shared_ptr<const TopicTable>> topics_;
  const RouterOptions options_;
  const std::vector<TopicExample> examples_;
  mutable std::mutex mutex_;
  TopicClassifier classifier_;  // under mutex_
};

}  // namespace slip
