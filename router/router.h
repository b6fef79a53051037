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
  bool learn = true;            // labelled requests train the classifier
  double min_confidence = 0.5;  // 0 … 1: below it a prompt is "unknown"
};

struct Route {
  TopicId topic;
  TopicSource source = TopicSource::kNone;
};

// Chooses a request's topic: by its label if that names a topic, else by its text. The topic selects a draft, so it
// affects an answer's speed and never its tokens.
//
// Threads: any. Features are extracted without a lock. Scoring waits for at most one lesson or copy() of another
// thread, both well under a millisecond.
class Router {
 public:
  // REQUIRES: classifier.n_topics == topics.size().
  Router(TopicTable topics, RouterOptions options, TopicClassifier classifier);

  std::shared_ptr<const TopicTable> topics() const { return topics_.load(std::memory_order_acquire); }
  // Replaces aliases and examples of the same topics, for later requests. Changed examples are trained again, on top of
  // the learned weights, in the calling thread (milliseconds to seconds). Lessons learned meanwhile are lost. One
  // caller at a time. REQUIRES: the same names in the same order.
  void set_topics(TopicTable topics);
  // Enables or disables RouterOptions::learn from now on.
  void set_learning(bool on) { learns_.store(on, std::memory_order_relaxed); }

  // `text` is the user's message; any bytes, of which only the two ends are read. A label that names no topic is read
  // as part of the text.
  Route route(std::optional<std::string_view> label, std::string_view text) const;

  // Trains with a request whose client named its topic; no effect if learning is off. Then trains one example of the
  // topics file again, in turn, so that traffic with a single label does not displace the others.
  void learn(TopicId topic, std::string_view text);

  // The learned state, and the topics it was trained with.
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
  std::vector<TopicExample> examples_;  // from here on guarded by mutex_, as are changes of topics_
  TopicClassifier classifier_;
};

}  // namespace slip
