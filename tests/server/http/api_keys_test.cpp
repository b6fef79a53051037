// SPDX-License-Identifier: Apache-2.0
#include "server/http/api_keys.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/error.h"

namespace slip {
namespace {

class KeyFile : public ::testing::Test {
 protected:
  KeyFile() { path_ = std::filesystem::temp_directory_path() / ("slip-keys-" + std::to_string(::getpid())); }
  ~KeyFile() override { std::filesystem::remove(path_); }

  void write(const std::string& text, mode_t mode = 0600) {
    std::ofstream(path_) << text;
    ::chmod(path_.c_str(), mode);
  }
  // What is said about a bad file; it must never repeat what may be a key.
  std::string refusal(const std::string& text, ErrorCode code = ErrorCode::kInvalidArgument) {
    write(text);
    try {
      ApiKeys::load(path_, {});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      const std::string all = error.message() + error.hint() + error.param();
      EXPECT_EQ(all.find("secret"), std::string::npos) << all;
      return error.message();
    }
    ADD_FAILURE() << "taken: " << text;
    return {};
  }
  std::filesystem::path path_;
};

TEST_F(KeyFile, HoldsKeysWithNamesAndLimits) {
  write(
      "# ours\n  a-key-with-spaces-around  \n\n"
      "second-key-here name=team-a tokens_per_minute=600 requests_in_flight=2 # until May\r\n"
      "third-key-here\trequests_per_minute=0 operator=true slo=true slo_tiers=fast,soon\n");
  const ApiKeys keys =
      ApiKeys::load(path_, ApiKeys::of_environment("from-the-environment and-one-more"), {.requests_per_minute = 9});
  ASSERT_EQ(keys.size(), 5U);
  ASSERT_TRUE(keys.find("a-key-with-spaces-around"));
  EXPECT_EQ(keys.find("a-key-with-spaces-around")->name, "key-3");
  EXPECT_EQ(keys.find("a-key-with-spaces-around")->limits.requests_per_minute, 9);
  EXPECT_EQ(keys.find("from-the-environment")->name, "environment-1");
  EXPECT_EQ(keys.find("and-one-more")->name, "environment-2");
  const ApiKey* second = keys.find("second-key-here");
  ASSERT_TRUE(second);
  EXPECT_EQ(second->name, "team-a");
  EXPECT_EQ(second->limits.tokens_per_minute, 600);
  EXPECT_EQ(second->limits.requests_in_flight, 2);
  EXPECT_EQ(second->limits.requests_per_minute, 9);
  EXPECT_EQ(keys.find("third-key-here")->limits.requests_per_minute, 0);
  EXPECT_TRUE(keys.find("third-key-here")->is_operator);
  EXPECT_TRUE(keys.find("third-key-here")->may_ask_slo);
  EXPECT_FALSE(second->is_operator);
  EXPECT_FALSE(second->may_ask_slo);
  EXPECT_EQ(keys.find("third-key-here")->slo_tiers, (std::vector<std::string>{"fast", "soon"}));
  EXPECT_TRUE(second->slo_tiers.empty());
  EXPECT_FALSE(keys.find("from-the-environment")->is_operator);
  EXPECT_FALSE(keys.find("# ours"));
  EXPECT_FALSE(keys.find(""));
  EXPECT_FALSE(keys.find("team-a"));
}

TEST_F(KeyFile, FaultsAreReportedWithoutTheKey) {
  EXPECT_NE(refusal("my-secret another-secret\n").find(":1"), std::string::npos);
  EXPECT_NE(refusal("ok-key\nmy-secret name=<b>\n").find(":2"), std::string::npos);
  refusal("my-secret name=\n");
  refusal("my-secret requests_per_minute=-1\n");
  refusal("my-secret slo=1\n");
  for (const char* list : {"", ",", "fast,", "fast,,soon", "f@st", "fast,soon,fast"}) {
    refusal(std::string("my-secret slo_tiers=") + list + "\n");
  }
  refusal("my-secret requests_per_minute=1e3\n");
  refusal("my-secret requests_in_flight=4294967297\n");
  refusal("my-secret tokens_per_minute=99999999999999999999\n");
  refusal("my-secret secret_limit=3\n");
  refusal("my-secret operator=yes\n");
  refusal("my-secret operator\n");
  refusal("my-secret\nmy-secret\n");
  EXPECT_NE(
      refusal("my-secret requests_per_minute=1 name=a requests_per_minute=99\n").find("requests_per_minute= stands"),
      std::string::npos);
  refusal("my-secret name=a\nother-secret name=a\n");
  refusal(
      "my-s\xc3\xa9"
      "cret\n");
  refusal("secret" + std::string(600, 'x') + "\n");
  EXPECT_NE(refusal("# nothing\n").find("holds no key"), std::string::npos);
  for (const char* line : {"name=team-a operator=true\n", "slo_tiers=fast\n", "tokens_per_minute=5\n"}) {
    EXPECT_NE(refusal(line).find("not with a key"), std::string::npos) << line;
  }
}

TEST_F(KeyFile, IsRefusedWhenOthersCanReadIt) {
  for (const mode_t mode : {0640U, 0604U, 0620U, 0602U}) {
    write("my-secret-key\n", mode);
    try {
      ApiKeys::load(path_, {});
      ADD_FAILURE() << "taken with mode " << std::oct << mode;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kPermission);
      EXPECT_EQ(error.message().find("secret"), std::string::npos);
    }
  }
  EXPECT_THROW(ApiKeys::load(path_.string() + "-none", {}), Error);
}

TEST(ApiKeys, TenantsAreTheKeysOwnWhateverTheOrder) {
  ApiKeys one, two;
  one.add("first-key-of-two");
  one.add("second-key-of-two");
  two.add("second-key-of-two");
  EXPECT_EQ(one.find("second-key-of-two")->tenant, two.find("second-key-of-two")->tenant);
  EXPECT_NE(one.find("first-key-of-two")->tenant, one.find("second-key-of-two")->tenant);
  EXPECT_THROW(one.add("with blank"), Error);
  EXPECT_THROW(one.add(""), Error);
}

}  // namespace
}  // namespace slip
