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
  // Other aliases and examples for the same topics, for requests that come from now on. Other examples are gone over as
  // at a start, beside what was learned, which takes milliseconds to seconds of the caller's time and no one else's;
  // what lessons teach meanwhile is lost. One caller at a time. REQUIRES: the same names in the same order.
  void set_topics(TopicTable topics);
  // Whether labelled requests teach from now on, as RouterOptions::learn says for the start.
  void set_learning(bool on) { learns_.store(on, std::memory_order_relaxed); }
  const RouterOptions& options() const { return options_; }

  // `text` is what the user asked; any bytes, of which only both ends are read. A label that names no topic is read as
  // part of the text.
  Route route(std::optional<std::string_view> label, std::string_view text) const;

  // From a request whose client named its topic; nothing where the options say so. Then one example of the topics file
  // is gone over again, in turn, so that traffic with one label alone does not wash out the others.
  void learn(TopicId topic, std::string_view text);

  // What was learned, and the topics whose examples it went over.
  struct Snapshot {
    std::shared_ptr<const TopicTable> topics;
    TopicClassifier classifier;
  };
  Snapshot snapshot() const;
  TopicClassifier copy() const { return snapshot().classifier; }
  std::uint64_t lessons() const;

 private:
  std::atomic<std::shared_ptr<const TopicTable>> topics_;
  const RouterOptions options_;
  std::atomic<bool> learns_;
  mutable std::mutex mutex_;
  std::vector<TopicExample> examples_;  // this and what follows under mutex_, which topics_ is changed under
  TopicClassifier classifier_;
};

}  // namespace slip
