// SPDX-License-Identifier: Apache-2.0
#include "router/router_state_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "common/crc32c.h"
#include "common/error.h"
#include "common/fail_point.h"
#include "common/file.h"
#include "router/prompt_features.h"
#include "router/router.h"
#include "router/topic_seeds.h"
#include "tests/router/sample_prompts.h"

namespace slip {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 24;

class RouterStateFileTest : public ::testing::Test {
 protected:
  RouterStateFileTest() {
    std::string name = (std::filesystem::temp_directory_path() / "slip-router-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    file_ = folder_ / "router.state";
  }
  ~RouterStateFileTest() override {
    arm_fail_point("");
    std::filesystem::remove_all(folder_);
  }

  // What a router knew after 60 lessons, as written.
  TopicClassifier written() {
    Router router(topics_, {}, seeded_classifier(topics_));
    for (const auto& prompt : sample_prompts(60, /*seed=*/4)) router.learn(prompt.topic, prompt.text);
    write_router_state(file_, router_state(topics_, router.copy()));
    return router.copy();
  }
  std::string content() const { return read_file(file_, kMaxBytes); }
  void put(const std::string& content) const { replace_file(file_, content, "test"); }
  // With the checksum made right again: what the checks after it say.
  void put_sealed(std::string content) const {
    content.resize(content.size() - 4);
    const std::uint32_t crc = crc32c(std::as_bytes(std::span(content.data(), content.size())));
    content.append(reinterpret_cast<const char*>(&crc), sizeof crc);
    put(content);
  }
  // Refused with a word of why, kept aside, and the seeds are the start.
  void expect_refused(const std::string& why) {
    const std::string bad = content();
    try {
      read_router_state(file_);
      ADD_FAILURE() << "accepted, though it " << why;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss) << error.message();
      EXPECT_NE(error.message().find(why), std::string::npos) << error.message();
      EXPECT_NE(error.message().find(file_.string()), std::string::npos) << error.message();
    }
    EXPECT_EQ(load_or_seed(file_, topics_), seeded_classifier(topics_));
    EXPECT_FALSE(std::filesystem::exists(file_));
    EXPECT_EQ(read_file(folder_ / "router.state.bad", kMaxBytes), bad);
  }

  std::filesystem::path folder_, file_;
  const TopicTable topics_ = sample_topics(6);
  static constexpr std::size_t kFirstName = 8 + 4 + 4 + 8 + 8 + 4;
};

TEST_F(RouterStateFileTest, ARestartGoesOnExactlyWhereItStopped) {
  Router before(topics_, {}, written());
  Router after(topics_, {}, load_or_seed(file_, topics_));
  EXPECT_EQ(after.copy(), before.copy());
  for (const auto& prompt : sample_prompts(60, /*seed=*/5)) {
    before.learn(prompt.topic, prompt.text);
    after.learn(prompt.topic, prompt.text);
  }
  EXPECT_EQ(after.copy(), before.copy()) << "the examples' turn is part of the state";
  EXPECT_EQ(after.lessons(), 120U);
  struct stat status {};
  ASSERT_EQ(::stat(file_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST_F(RouterStateFileTest, WithoutAFileTheSeedsAreTheStartAndThatIsLogged) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(load_or_seed(file_, topics_), seeded_classifier(topics_));
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find(file_.string() + " is not there"), std::string::npos) << said;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "router.state.bad"));
}

TEST_F(RouterStateFileTest, ChangedExamplesAreGoneOverOnTopOfWhatWasLearned) {
  const TopicClassifier before = written();
  std::vector<Topic> changed;
  for (std::uint32_t i = 0; i < topics_.size(); ++i) changed.push_back(topics_[{i}]);
  changed.push_back({"garden", {}, {"plant a rose in the soil"}});
  const TopicTable more(changed);
  const TopicClassifier now = load_or_seed(file_, more);
  EXPECT_EQ(now, reseeded_classifier(more, before, {"unknown", "bread", "music", "alps"}));
  EXPECT_EQ(now.lessons, 60U);
  EXPECT_TRUE(std::filesystem::exists(file_));
}

TEST_F(RouterStateFileTest, TornFilesAreRefusedAtEveryLength) {
  written();
  const std::string whole = content();
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, kFirstName, kFirstName + 4, std::size_t{1000},
                                   whole.size() - 4, whole.size() - 1}) {
    put(whole.substr(0, length));
    expect_refused(length < kFirstName + 4 ? "is torn" : "fails its checksum");
  }
  put(whole + "x");
  expect_refused("fails its checksum");
}

TEST_F(RouterStateFileTest, AnyFlippedBitIsNoticed) {
  written();
  const std::string whole = content();
  std::mt19937_64 random(1);
  for (int i = 0; i < 64; ++i) {
    std::string bad = whole;
    bad[random() % bad.size()] ^= static_cast<char>(1U << random() % 8);
    put(bad);
    EXPECT_THROW(read_router_state(file_), Error);
  }
}

// A right checksum proves nothing about who wrote the file.
TEST_F(RouterStateFileTest, SealedNonsenseIsRefused) {
  written();
  const std::string whole = content();
  const auto sealed = [&](const std::function<void(std::string&)>& change, const std::string& why) {
    std::string bad = whole;
    change(bad);
    put_sealed(bad);
    expect_refused(why);
  };
  const auto number = [](std::uint32_t value) { return std::string(reinterpret_cast<const char*>(&value), 4); };
  const auto real = [](float value) { return std::string(reinterpret_cast<const char*>(&value), 4); };
  sealed([](std::string& s) { s[0] = 'X'; }, "another format");
  sealed([&](std::string& s) { s.replace(8, 4, number(kFeatureVersion + 1)); }, "another build");
  sealed([&](std::string& s) { s.replace(12, 4, number(0)); }, "another build");
  sealed([&](std::string& s) { s.replace(12, 4, number(0xFFFFFFFF)); }, "another build");
  sealed([&](std::string& s) { s.replace(kFirstName - 4, 4, number(0)); }, "no or too many topics");
  sealed([&](std::string& s) { s.replace(kFirstName - 4, 4, number(65)); }, "no or too many topics");
  sealed([&](std::string& s) { s.replace(kFirstName - 4, 4, number(0xFFFFFFFF)); }, "no or too many topics");
  sealed([&](std::string& s) { s.replace(kFirstName - 4, 4, number(3)); }, "what its header says");
  sealed([&](std::string& s) { s.replace(kFirstName - 4, 4, number(5)); }, "");
  sealed([](std::string& s) { s.replace(kFirstName + 1, 3, "../"); }, "names its topics wrongly");
  sealed([](std::string& s) { s[kFirstName] = static_cast<char>(0xFF); }, "names its topics wrongly");
  sealed([](std::string& s) { s.replace(s.find("bread"), 5, "music"); }, "names its topics wrongly");
  sealed([](std::string& s) { s.insert(s.size() - 4, 4, '\0'); }, "what its header says");
  for (const float weight : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -1e30F}) {
    sealed([&](std::string& s) { s.replace(s.size() - 8, 4, real(weight)); }, "no learning gives");
  }
}

TEST_F(RouterStateFileTest, ColumnsOfOtherTopicsThanTheFingerprintSaysAreRefused) {
  written();
  std::string bad = content();
  bad.replace(bad.find("bread"), 5, "dread");
  put_sealed(bad);
  EXPECT_EQ(read_router_state(file_).topics[1], "dread") << "a whole file, but not of these topics";
  EXPECT_EQ(load_or_seed(file_, topics_), seeded_classifier(topics_));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "router.state.bad"));
}

TEST_F(RouterStateFileTest, WhatIsNoFileIsMovedAside) {
  std::filesystem::create_directory(file_);
  EXPECT_EQ(load_or_seed(file_, topics_), seeded_classifier(topics_));
  EXPECT_TRUE(std::filesystem::is_directory(folder_ / "router.state.bad"));
  std::filesystem::remove_all(folder_ / "router.state.bad");
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  EXPECT_EQ(load_or_seed(file_, topics_), seeded_classifier(topics_)) << "and nobody waits for a writer";
  put(std::string(kMaxBytes + 1, 'x'));
  EXPECT_EQ(load_or_seed(file_, topics_), seeded_classifier(topics_));
}

TEST_F(RouterStateFileTest, AFailedWriteLeavesTheOldState) {
  const TopicClassifier before = written();
  for (const char* point : {"router.write:1:enospc", "router.fsync:1:enospc", "router.rename:1:enospc"}) {
    arm_fail_point(point);
    EXPECT_THROW(write_router_state(file_, router_state(topics_, seeded_classifier(topics_))), Error);
    EXPECT_EQ(load_or_seed(file_, topics_), before) << point;
  }
}

}  // namespace
}  // namespace slip
