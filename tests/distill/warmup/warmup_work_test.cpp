// SPDX-License-Identifier: Apache-2.0
#include "distill/warmup/warmup_work.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "checkpoints/data_directory_lock.h"
#include "distill/warmup/warmup_prompts.h"
#include "tests/distill/warmup/warmup_fixture.h"
#include "tests/kernels/cuda/host_queue.h"
#include "text/tokenizer.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
using testing::StopAt;

class WarmupWorkTest : public testing::WarmupTest {};

TEST_F(WarmupWorkTest, AnOutcomeThatStandsThereIsNotReplacedUnasked) {
  StopAt observer;
  run_warmup(options("sql"), observer);
  const std::string before = weights("sql");
  EXPECT_EQ(refused(options("sql")), ErrorCode::kConflict);
  EXPECT_TRUE(weights("sql") == before);
  EXPECT_FALSE(fs::exists(folder_ / "sql.work"));
  WarmupOptions again = options("sql");
  again.force = true;
  again.seed = 2;
  run_warmup(again, observer);
  EXPECT_FALSE(weights("sql") == before);
  again.out = folder_ / "other" / "";  // a slash at the end
  run_warmup(again, observer);
  EXPECT_TRUE(weights("other") == weights("sql"));
  EXPECT_FALSE(fs::exists(folder_ / "other.work"));
  fs::create_directories(folder_ / "precious");
  write("precious/notes.txt", "mine");
  again.out = folder_ / "precious";
  EXPECT_EQ(refused(again), ErrorCode::kInvalidArgument) << "--force does not delete what is no model";
  EXPECT_TRUE(fs::exists(folder_ / "precious/notes.txt"));
}

// A user's own folder of that name was deleted with all that was in it.
TEST_F(WarmupWorkTest, AFolderOfTheWorksNameThatNoRunMadeIsRefusedAndKept) {
  fs::create_directories(folder_ / "sql.work" / "sub");
  write("sql.work/thesis.txt", "precious");
  WarmupOptions given = options("sql");
  EXPECT_EQ(refused(given), ErrorCode::kInvalidArgument);
  given.force = true;
  EXPECT_EQ(refused(given), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(fs::exists(folder_ / "sql.work/thesis.txt"));
  EXPECT_TRUE(fs::exists(folder_ / "sql.work/sub"));
}

TEST_F(WarmupWorkTest, AFileThatSomebodyPutsIntoTheWorkFolderStays) {
  StopAt observer;
  WarmupOptions given = options("sql");
  given.keep_work = true;
  run_warmup(given, observer);
  write("sql.work/notes.txt", "mine");
  given.keep_work = false;
  given.force = true;
  run_warmup(given, observer);
  EXPECT_TRUE(fs::exists(folder_ / "sql.work/notes.txt"));
  EXPECT_FALSE(fs::exists(folder_ / "sql.work/answers"));
  EXPECT_FALSE(fs::exists(folder_ / "sql.work/LOCK"));
}

// Regression: a dangling link as `out` was detected only at the end of the run; a link to a model was replaced by a
// folder.
TEST_F(WarmupWorkTest, ALinkInThePlaceOfTheOutcomeIsRefusedAtTheStart) {
  WarmupOptions given = options("link");
  fs::create_directory_symlink(folder_ / "nowhere", folder_ / "link");
  EXPECT_EQ(refused(given), ErrorCode::kConflict);
  given.force = true;
  EXPECT_EQ(refused(given), ErrorCode::kInvalidArgument);
  fs::create_directories(folder_ / "nowhere");
  EXPECT_EQ(refused(given), ErrorCode::kInvalidArgument) << "and one to an empty folder";
  EXPECT_TRUE(fs::is_symlink(fs::symlink_status(folder_ / "link")));
}

TEST_F(WarmupWorkTest, ResumeNeedsTheSameOptions) {
  WarmupOptions resume = options("sql");
  resume.resume = true;
  EXPECT_EQ(refused(resume), ErrorCode::kNotFound);
  StopAt soon(5);
  EXPECT_THROW(run_warmup(options("sql"), soon), Error);
  WarmupOptions other = options("sql");
  other.batch = 3;
  std::string message;
  EXPECT_EQ(refused(other, &message), ErrorCode::kConflict);
  EXPECT_NE(message.find("\"batch\" (4, now 3)"), std::string::npos) << message;
  StopAt observer;
  EXPECT_EQ(run_warmup(resume, observer).steps, 6);
}

// Answers generated on a device and on the CPU may differ in their last bits, and so may the trained weights.
TEST_F(WarmupWorkTest, RefusedDataLeavesNothingToResume) {
  write("data.jsonl", "{\"promt\": \"What is 1 and 1?\"}\n");
  EXPECT_EQ(refused(options("sql")), ErrorCode::kInvalidArgument);
  EXPECT_FALSE(fs::exists(folder_ / "sql.work"));
  write("data.jsonl", prompts(14, /*with_response=*/true));
  StopAt observer;
  EXPECT_GT(run_warmup(options("sql"), observer).steps, 0) << "the repaired data";
}

TEST_F(WarmupWorkTest, AnotherDeviceIsAnotherRun) {
  WarmupOptions on_device = options("sql");
  on_device.dtype = Dtype::kBFloat16;
  on_device.device = std::make_shared<kernels::cuda::HostQueue>();
  on_device.data = {folder_ / "few.jsonl"};
  on_device.steps = 2;
  write("few.jsonl", prompts(3, /*with_response=*/true));
  StopAt soon(5);
  EXPECT_THROW(run_warmup(on_device, soon), Error);
  WarmupOptions on_cpu = on_device;
  on_cpu.device = nullptr;
  std::string message;
  EXPECT_EQ(refused(on_cpu, &message), ErrorCode::kConflict);
  EXPECT_NE(message.find("another \"device\" (\"cuda\", now none)"), std::string::npos) << message;
  WarmupOptions learning = on_device;
  learning.trainer.device = TrainingDevice::kCuda;
  EXPECT_NE(describe_run(learning), describe_run(on_device));
  StopAt observer;
  EXPECT_EQ(run_warmup(on_device, observer).steps, 2);
}

TEST_F(WarmupWorkTest, AnotherChatTemplateIsAnotherRun) {
  write("plain.jinja", "{% for m in messages %}Q: {{ m['content'] }} A:{% endfor %}");
  WarmupOptions plain = options("sql");
  plain.chat_template = folder_ / "plain.jinja";
  PromptsLeftOut left_out;
  const auto tokenizer = Tokenizer::load(plain.target);
  EXPECT_EQ(tokenizer->decode(read_warmup_prompts(plain, left_out)[0].tokens), "Q: What is 0 and 0? A:");
  StopAt soon(5);
  EXPECT_THROW(run_warmup(plain, soon), Error);
  std::string message;
  EXPECT_EQ(refused(options("sql"), &message), ErrorCode::kConflict);
  EXPECT_NE(message.find("another \"chat_template\""), std::string::npos) << message;
  write("plain.jinja", "{% for m in messages %}Question: {{ m['content'] }} A:{% endfor %}");
  EXPECT_EQ(refused(plain, &message), ErrorCode::kConflict) << "the same file with other contents";
  plain.chat_template = folder_ / "none.jinja";
  EXPECT_EQ(refused(plain), ErrorCode::kNotFound);
}

TEST_F(WarmupWorkTest, TwoRunsDoNotShareAPlaceNorEnterAServedDataDirectory) {
  fs::create_directory(folder_ / "sql.work");
  fs::permissions(folder_ / "sql.work", fs::perms::owner_all);
  {
    const DataDirectoryLock other(folder_ / "sql.work");
    EXPECT_EQ(refused(options("sql")), ErrorCode::kConflict);
  }
  const DataDirectoryLock service(folder_ / "data");
  EXPECT_EQ(refused(options("data/drafts/sql")), ErrorCode::kConflict);
}

TEST(WarmupFlatness, IsNoGainOfOnePercentOverTheWindow) {
  auto points = [](std::initializer_list<double> losses) {
    std::vector<HeldoutPoint> all;
    for (double loss : losses) all.push_back({static_cast<std::int64_t>(all.size()), loss, 0});
    return all;
  };
  EXPECT_FALSE(is_flat(points({}), 3));
  EXPECT_FALSE(is_flat(points({3, 3, 3}), 3));
  EXPECT_TRUE(is_flat(points({3, 3, 3, 2.98}), 3));
  EXPECT_FALSE(is_flat(points({3, 3, 3, 2.96}), 3));
  EXPECT_FALSE(is_flat(points({3, 2.96, 3.2, 3.3}), 3)) << "one good measurement in the window is enough";
  EXPECT_TRUE(is_flat(points({3, 2.96, 3.2, 3.3, 2.95}), 3));
}

// Regression: the held-out loss covered only the first answers, and so only the first data file.
TEST(WarmupHeldout, IsSpreadOverAllThatIsHeldOut) {
  EXPECT_EQ(evenly_spaced(3, 5), (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_EQ(evenly_spaced(10, 5), (std::vector<std::size_t>{0, 2, 4, 6, 8}));
  EXPECT_EQ(evenly_spaced(7, 3), (std::vector<std::size_t>{0, 2, 4}));
  EXPECT_TRUE(evenly_spaced(0, 5).empty());
}

}  // namespace
}  // namespace slip
