// SPDX-License-Identifier: Apache-2.0
#include "router/router_saver.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>

#include "common/fail_point.h"
#include "router/router_state_file.h"
#include "router/topic_seeds.h"
#include "tests/common/patience.h"
#include "tests/router/sample_prompts.h"

namespace slip {
namespace {

using std::chrono::milliseconds;

class RouterSaverTest : public ::testing::Test {
 protected:
  RouterSaverTest() {
    std::string name = (std::filesystem::temp_directory_path() / "slip-saver-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    file_ = folder_ / "router.state";
  }
  ~RouterSaverTest() override {
    arm_fail_point("");
    std::filesystem::remove_all(folder_);
  }
  // Whether the file holds what the router knows, within 10 s, under a sanitizer kPatience times as long.
  bool becomes_current() const {
    for (int i = 0; i < 2000 * testing::kPatience; ++i) {
      if (std::filesystem::exists(file_) && load_or_seed(file_, topics_) == router_.copy()) return true;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return false;
  }

  std::filesystem::path folder_, file_;
  const TopicTable topics_ = sample_topics(3);
  Router router_{topics_, {}, seeded_classifier(topics_)};
  std::atomic<bool> gone_{false};  // the folder of the file
};

TEST_F(RouterSaverTest, SavesWhatWasLearnedAndNothingElse) {
  RouterSaver saver(router_, file_, milliseconds(5), [this] { return gone_.load(); });
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(std::filesystem::exists(file_)) << "nothing was learned";
  router_.learn({1}, "knead the dough");
  EXPECT_TRUE(becomes_current());
  router_.learn({2}, "tune the violin");
  EXPECT_TRUE(becomes_current());
}

TEST_F(RouterSaverTest, WritesNothingWhileItsFolderIsGone) {
  gone_ = true;
  RouterSaver saver(router_, file_, milliseconds(5), [this] { return gone_.load(); });
  router_.learn({1}, "knead the dough");
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(std::filesystem::exists(file_));
  gone_ = false;
  EXPECT_TRUE(becomes_current());
  const auto before = load_or_seed(file_, topics_);
  gone_ = true;
  router_.learn({2}, "tune the violin");
  saver.stop();
  EXPECT_TRUE(load_or_seed(file_, topics_) == before) << "nor at the end";
}

TEST_F(RouterSaverTest, StoppingSavesTheLastLessons) {
  RouterSaver saver(router_, file_, std::chrono::hours(1), [this] { return gone_.load(); });
  router_.learn({1}, "knead the dough");
  const auto begin = std::chrono::steady_clock::now();
  saver.stop();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(1)) << "it does not wait for its interval";
  EXPECT_EQ(load_or_seed(file_, topics_), router_.copy());
  saver.stop();
}

TEST_F(RouterSaverTest, AFullDiskIsTriedAgain) {
  arm_fail_point("router.write:1:enospc");
  RouterSaver saver(router_, file_, milliseconds(5), [this] { return gone_.load(); });
  router_.learn({1}, "knead the dough");
  EXPECT_TRUE(becomes_current());
}

}  // namespace
}  // namespace slip
