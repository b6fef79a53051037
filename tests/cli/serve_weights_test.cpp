// SPDX-License-Identifier: Apache-2.0
// Weight files that are cut off, or vanish, under a running service, or that hold no numbers.
#include "tests/cli/serve_fixture.h"
#include "tests/common/damage.h"

namespace slip {
namespace {

using nlohmann::json;

class ServeWeightsTest : public ServeTest {
 protected:
  // A copy whose files may be changed.
  std::string copy(const std::string& checkpoint, const char* name) const {
    const auto to = folder_ / name;
    std::filesystem::copy(checkpoint, to, std::filesystem::copy_options::recursive);
    for (const auto& file : std::filesystem::recursive_directory_iterator(to)) {
      std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    }
    return to.string();
  }

  // How many weight files below the test's folder were cut to `size` bytes.
  int cut_weights(std::uintmax_t size) const {
    int n_cut = 0;
    for (const auto& file : std::filesystem::recursive_directory_iterator(folder_)) {
      if (file.path().extension() != ".safetensors") continue;
      std::filesystem::permissions(file, std::filesystem::perms::owner_all);
      std::filesystem::resize_file(file, size);
      ++n_cut;
    }
    return n_cut;
  }

  static std::string answer(std::uint16_t port, const char* topic) {
    std::string bytes = chat_bytes("What is 7 times 8? Explain every step.", 32);
    const auto at = bytes.find("math");
    bytes.replace(at, 4, topic);  // of the same length
    const RawReply reply = ask(port, bytes);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return json::parse(reply.body)["choices"][0]["message"]["content"];
  }
};

TEST_F(ServeWeightsTest, CutOffUnderARunningServiceTheyChangeNoAnswer) {
  Program program(folder_, {"--target", copy(kTarget, "target"), "--draft", copy(kDraft, "draft"), "--port", "0",
                            "--data-dir", data(), "--k", "3"});
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  const std::string before = answer(port, "math");
  EXPECT_GT(before.size(), 10U);
  ASSERT_GE(cut_weights(100), 2) << "target and draft";
  EXPECT_EQ(answer(port, "math"), before);
  EXPECT_EQ(answer(port, "code"), before) << "a topic that had no draft in memory yet";
  ASSERT_GE(cut_weights(0), 2);
  EXPECT_EQ(answer(port, "math"), before);
  EXPECT_EQ(get(port, "/readyz").status, 200);
  EXPECT_EQ(program.stop(), 0) << program.log();
}

// Every request was answered with a 500, and nothing said why.
TEST_F(ServeWeightsTest, WeightsThatAreNoNumbersAreFoundAtTheStart) {
  const std::string target = copy(kTarget, "target");
  testing::overwrite(std::filesystem::path(target) / "model.safetensors", -2, "\xc0\x7f");  // a NaN in bfloat16
  EXPECT_EQ(run({"--target", target, "--port", "0", "--data-dir", data()}), 1);
  EXPECT_NE(err_.find(target), std::string::npos) << err_;
  EXPECT_NE(err_.find("not a number"), std::string::npos) << err_;
}

TEST_F(ServeWeightsTest, CutOffBeforeTheStartTheyAreRefusedByName) {
  const std::string target = copy(kTarget, "target");
  cut_weights(100000);
  EXPECT_EQ(run({"--target", target, "--port", "0", "--data-dir", data()}), 1);
  EXPECT_NE(err_.find(".safetensors"), std::string::npos) << err_;
}

}  // namespace
}  // namespace slip
