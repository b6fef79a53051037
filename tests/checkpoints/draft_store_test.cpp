// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/draft_store.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <chrono>
#include <set>
#include <thread>

#include "tests/checkpoints/store_sandbox.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

using DraftStoreTest = StoreSandbox;

// The store removes nothing that is nested more deeply than anything of its own.
void make_unremovable(fs::path folder) {
  for (int i = 0; i < 20; ++i) folder /= "folder";
  fs::create_directories(folder);
}

TEST_F(DraftStoreTest, PublishesAHuggingFaceFolderThatBecomesCurrent) {
  DraftStore store(root_);
  EXPECT_EQ(store.current("sql"), std::nullopt);
  const DraftMeta first = publish(store, "sql", "one");
  EXPECT_EQ(first.version, 1U);
  EXPECT_EQ(first.weights_sha256, "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed");  // of "one"
  EXPECT_GT(first.created_us, 0);
  const DraftMeta second = publish(store, "sql", "two", 1);
  EXPECT_EQ(second.version, 2U);
  EXPECT_EQ(store.current("sql")->version, 2U);
  EXPECT_EQ(store.current("sql")->parent, 1U);
  EXPECT_EQ(read(store.folder("sql", 2) / "model.safetensors"), "two");
  EXPECT_EQ(store.folder("sql", 2), root_ / "sql" / "v000002");
  EXPECT_TRUE(fs::exists(root_ / "sql" / "v000001" / "config.json"));
  EXPECT_THAT(store.drafts(), ElementsAre("sql"));
  EXPECT_EQ(store.versions("sql").size(), 2U);
}

TEST_F(DraftStoreTest, FilesArePrivate) {
  DraftStore store(root_);
  publish(store, "sql", "one");
  for (const auto& entry : fs::recursive_directory_iterator(root_)) {
    const auto mode = entry.status().permissions() & fs::perms::mask;
    EXPECT_EQ(mode, entry.is_directory() ? fs::perms(0700) : fs::perms(0600)) << entry.path();
  }
}

TEST_F(DraftStoreTest, TellsTheSameAfterReopening) {
  {
    DraftStore store(root_);
    publish(store, "sql", "one");
    publish(store, "math", "two");
  }
  DraftStore store(root_);
  EXPECT_THAT(store.drafts(), ElementsAre("math", "sql"));
  EXPECT_EQ(store.current("math")->topic, "math");
}

TEST_F(DraftStoreTest, RefusesStagedFoldersThatAreNoDraft) {
  DraftStore store(root_);
  const auto staged = store.staging_folder("sql");
  DraftMeta meta;
  meta.draft = "sql";
  EXPECT_EQ(code_of([&] { store.publish(staged, meta); }), ErrorCode::kInvalidArgument);
  write(staged / "config.json", "{}");
  fs::create_symlink("/etc/hostname", staged / "model.safetensors");
  EXPECT_EQ(code_of([&] { store.publish(staged, meta); }), ErrorCode::kPermission);
  fs::create_directory(folder_ / "elsewhere");
  EXPECT_EQ(code_of([&] { store.publish(folder_ / "elsewhere", meta); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(store.current("sql"), std::nullopt);
}

TEST_F(DraftStoreTest, RefusesNamesThatAreNotNames) {
  DraftStore store(root_);
  publish(store, "sql", "one");
  for (const std::string& name :
       {std::string("../x"), std::string("sql\0x", 5), std::string("%2e%2e"), std::string(".."), std::string(""),
        std::string("Sql"), std::string("a/b"), std::string("-a"), std::string(49, 'a'), std::string("sql/v000001")}) {
    EXPECT_EQ(code_of([&] { store.current(name); }), ErrorCode::kInvalidArgument) << name;
    EXPECT_EQ(code_of([&] { store.staging_folder(name); }), ErrorCode::kInvalidArgument) << name;
    EXPECT_EQ(code_of([&] { store.versions(name); }), ErrorCode::kInvalidArgument) << name;
    EXPECT_EQ(code_of([&] { store.folder(name, 1); }), ErrorCode::kInvalidArgument) << name;
    EXPECT_EQ(code_of([&] { store.set_current(name, 1); }), ErrorCode::kInvalidArgument) << name;
    EXPECT_EQ(code_of([&] { store.apply_retention(name, 1, 1); }), ErrorCode::kInvalidArgument) << name;
    DraftMeta meta;
    meta.draft = name;
    EXPECT_EQ(code_of([&] { store.publish(root_ / ".staging-sql-1-1", meta); }), ErrorCode::kInvalidArgument) << name;
  }
}

TEST_F(DraftStoreTest, ADraftFolderThatIsALinkIsRefused) {
  DraftStore store(root_);
  {
    DraftStore other(folder_ / "other");
    publish(other, "sql", "one");
  }
  fs::create_directory_symlink(folder_ / "other" / "sql", root_ / "sql");
  EXPECT_EQ(code_of([&] { store.current("sql"); }), ErrorCode::kPermission);
  EXPECT_EQ(code_of([&] { store.folder("sql", 1); }), ErrorCode::kPermission);
  EXPECT_EQ(code_of([&] { publish(store, "sql", "two"); }), ErrorCode::kPermission);
  EXPECT_THAT(store.drafts(), ElementsAre());
  EXPECT_EQ(read(folder_ / "other" / "sql" / "CURRENT"), "v000001\n");
}

TEST_F(DraftStoreTest, AVersionFolderThatIsALinkIsNotUsed) {
  DraftStore store(root_);
  publish(store, "sql", "one");
  publish(store, "sql", "two");
  fs::rename(root_ / "sql" / "v000002", folder_ / "moved");
  fs::create_directory_symlink(folder_ / "moved", root_ / "sql" / "v000002");
  EXPECT_EQ(store.current("sql")->version, 1U);
  EXPECT_EQ(code_of([&] { store.folder("sql", 2); }), ErrorCode::kPermission);
}

TEST_F(DraftStoreTest, AFileThatIsALinkIsNotUsed) {
  DraftStore store(root_);
  publish(store, "sql", "one");
  publish(store, "sql", "two");
  for (const char* name : {"model.safetensors", "config.json", "meta.json"}) {
    const auto file = root_ / "sql" / "v000002" / name;
    fs::rename(file, folder_ / name);
    fs::create_symlink(folder_ / name, file);
    EXPECT_EQ(store.current("sql")->version, 1U) << name;
    fs::remove(file);
    fs::rename(folder_ / name, file);
    EXPECT_EQ(store.current("sql")->version, 2U) << name;
  }
}

TEST_F(DraftStoreTest, ACurrentThatIsALinkIsNotFollowed) {
  DraftStore store(root_);
  publish(store, "sql", "one");
  publish(store, "sql", "two");
  write(folder_ / "planted", "v000001\n");
  fs::remove(root_ / "sql" / "CURRENT");
  fs::create_symlink(folder_ / "planted", root_ / "sql" / "CURRENT");
  EXPECT_EQ(store.current("sql")->version, 2U);
}

TEST_F(DraftStoreTest, FallsBackToTheNewestIntactVersion) {
  DraftStore store(root_);
  for (const char* weights : {"one", "two", "three"}) publish(store, "sql", weights);
  // One letter, within the same tick of the file system's clock: what was hashed just now has to be hashed again. The
  // minute keeps the file new however long this takes.
  const auto weights = root_ / "sql" / "v000003" / "model.safetensors";
  const auto written = fs::last_write_time(weights) + std::chrono::minutes(1);
  fs::last_write_time(weights, written);
  EXPECT_EQ(store.current("sql")->version, 3U);
  write(weights, "thrEe");
  fs::last_write_time(weights, written);
  EXPECT_EQ(store.current("sql")->version, 2U);
  fs::remove(root_ / "sql" / "v000002" / "model.safetensors");
  EXPECT_EQ(store.current("sql")->version, 1U);
  write(root_ / "sql" / "v000001" / "meta.json", "{\"format\":1,");
  EXPECT_EQ(store.current("sql"), std::nullopt);
}

TEST_F(DraftStoreTest, AMetaFromAnotherVersionDoesNotCount) {
  DraftStore store(root_);
  publish(store, "sql", "one");
  publish(store, "sql", "one");
  fs::copy_file(root_ / "sql" / "v000001" / "meta.json", root_ / "sql" / "v000002" / "meta.json",
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(store.current("sql")->version, 1U);
}

TEST_F(DraftStoreTest, GarbageInCurrentMeansTheNewestIntact) {
  DraftStore store(root_);
  publish(store, "sql", "one");
  for (const std::string& text : {std::string("v1"), std::string("../../x"), std::string(1000, 'v'), std::string(""),
                                  std::string("v000000"), std::string("v99999999999999999999999")}) {
    write(root_ / "sql" / "CURRENT", text);
    EXPECT_EQ(store.current("sql")->version, 1U) << text;
  }
}

TEST_F(DraftStoreTest, ACurrentThatIsMissingIsLoggedOnce) {
  DraftStore store(root_);
  publish(store, "sql", "one");
  fs::remove(root_ / "sql" / "CURRENT");
  const DraftStore again(root_);
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(again.current("sql")->version, 1U);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find((root_ / "sql" / "CURRENT").string() + " is missing"), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

// `inspect` named it as damage, and a service took another version without a word.
TEST_F(DraftStoreTest, ACurrentThatNamesNoVersionIsLoggedOnce) {
  DraftStore store(root_);
  publish(store, "sql", "one");
  for (const std::string& text : {std::string("/etc/passwd"), std::string(""), std::string(8, '\0')}) {
    write(root_ / "sql" / "CURRENT", text);
    const DraftStore again(root_);
    ::testing::internal::CaptureStderr();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(again.current("sql")->version, 1U);
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find((root_ / "sql" / "CURRENT").string() + " names no version"), std::string::npos) << said;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  }
}

// Regression: the number after it was 0. CURRENT then named no version, so nothing that was published was served again.
TEST_F(DraftStoreTest, AFolderWithTooLargeANumberIsNoVersion) {
  DraftStore store(root_);
  fs::create_directories(root_ / "sql" / "v18446744073709551615");
  EXPECT_EQ(publish(store, "sql", "one").version, 1U);
  ASSERT_TRUE(store.current("sql").has_value());
  EXPECT_EQ(store.current("sql")->version, 1U);
  fs::create_directories(root_ / "sql" / version_name(kMaxVersion));
  EXPECT_EQ(code_of([&] { publish(store, "sql", "two"); }), ErrorCode::kIo);
  EXPECT_EQ(store.current("sql")->version, 1U) << "the largest number has none after it";
}

TEST_F(DraftStoreTest, RollsBackAndMarksTheBadVersion) {
  DraftStore store(root_);
  for (const char* weights : {"one", "two"}) publish(store, "sql", weights);
  store.set_current("sql", 1);
  EXPECT_EQ(store.current("sql")->version, 1U);
  EXPECT_TRUE(store.versions("sql")[1].rolled_back);
  EXPECT_EQ(publish(store, "sql", "three", 1).version, 3U);
  EXPECT_EQ(code_of([&] { store.set_current("sql", 9); }), ErrorCode::kNotFound);
  write(root_ / "sql" / "v000001" / "model.safetensors", "x");
  EXPECT_EQ(code_of([&] { store.set_current("sql", 1); }), ErrorCode::kDataLoss);
  // 3 damaged: 2 was rolled back and 1 is damaged, so 2 is all there is.
  write(root_ / "sql" / "v000003" / "model.safetensors", "x");
  EXPECT_EQ(store.current("sql")->version, 2U);
}

TEST_F(DraftStoreTest, RetirementKeepsTheRecordAndTheNumbers) {
  RetentionPolicy policy;
  policy.keep_last = 1;
  policy.keep_younger_than_us = -1;  // nothing is young
  DraftStore store(root_, policy);
  for (const char* weights : {"one", "two", "three", "four"}) publish(store, "sql", weights);
  store.apply_retention("sql", /*live=*/4, /*last_known_good=*/2);
  EXPECT_FALSE(fs::exists(root_ / "sql" / "v000001" / "model.safetensors"));
  EXPECT_TRUE(fs::exists(root_ / "sql" / "v000001" / "meta.json"));
  EXPECT_TRUE(fs::exists(root_ / "sql" / "v000002" / "model.safetensors"));
  EXPECT_FALSE(fs::exists(root_ / "sql" / "v000003" / "model.safetensors"));
  const auto versions = store.versions("sql");
  ASSERT_EQ(versions.size(), 4U);
  EXPECT_TRUE(versions[0].weights_retired);
  EXPECT_FALSE(versions[1].weights_retired);
  EXPECT_EQ(code_of([&] { store.set_current("sql", 1); }), ErrorCode::kDataLoss);
  EXPECT_EQ(publish(store, "sql", "five").version, 5U);
}

// Regression: one version whose weights are no file kept the weights of all drafts on the disk.
TEST_F(DraftStoreTest, ADamagedVersionKeepsNoOtherFromBeingRetired) {
  RetentionPolicy policy;
  policy.keep_last = 1;
  policy.keep_younger_than_us = -1;  // nothing is young
  DraftStore store(root_, policy);
  for (const char* weights : {"one", "two", "three"}) publish(store, "sql", weights);
  fs::create_directories(root_ / "math" / "v000001" / "model.safetensors");
  const fs::path own = root_ / "sql" / "v000001" / "model.safetensors";
  fs::remove(own);
  fs::create_directory(own);
  store.apply_retention("sql", /*live=*/3, /*last_known_good=*/0);
  EXPECT_FALSE(fs::exists(root_ / "sql" / "v000002" / "model.safetensors"));
  EXPECT_TRUE(fs::exists(root_ / "sql" / "v000003" / "model.safetensors"));
}

// Regression: a service that started while the date was a week ahead deleted all but the last eight versions.
TEST_F(DraftStoreTest, AStartWithADateAheadRetiresNothingByAge) {
  RetentionPolicy policy;
  policy.keep_last = 1;
  publish_a_year_ago(policy, {-9, -1, 0, 0});
  DraftStore store(root_, policy);
  store.apply_retention("sql", /*live=*/4, /*last_known_good=*/3);
  EXPECT_TRUE(fs::exists(root_ / "sql" / "v000002" / "model.safetensors")) << "a day older than the newest";
  EXPECT_FALSE(fs::exists(root_ / "sql" / "v000001" / "model.safetensors")) << "nine days older";
}

// Regression: the sweep ended at the damaged version. The store then knew the date of no newer one, and believed a date
// that was a year ahead.
TEST_F(DraftStoreTest, ADamagedVersionHidesNoNewerOneAtTheStart) {
  RetentionPolicy policy;
  policy.keep_last = 1;
  publish_a_year_ago(policy, {-2, -1, 0, 0});
  write(root_ / "sql" / "v000001" / "meta.json", "{");
  write(root_ / "sql" / "v000003" / "meta.json.tmp", "{");
  DraftStore store(root_, policy);
  EXPECT_FALSE(fs::exists(root_ / "sql" / "v000003" / "meta.json.tmp"));
  store.apply_retention("sql", /*live=*/4, /*last_known_good=*/3);
  EXPECT_TRUE(fs::exists(root_ / "sql" / "v000002" / "model.safetensors")) << "a day older than the newest";
}

// Regression: a version that was dated while the date was ahead ended that protection for all later starts.
TEST_F(DraftStoreTest, AVersionFromTheFutureHidesNoRightDateAtTheStart) {
  RetentionPolicy policy;
  policy.keep_last = 1;
  publish_a_year_ago(policy, {-2, -1, 0, 2 * 365});
  DraftStore store(root_, policy);
  store.apply_retention("sql", /*live=*/4, /*last_known_good=*/3);
  EXPECT_TRUE(fs::exists(root_ / "sql" / "v000002" / "model.safetensors")) << "a day older than the newest right date";
}

// The limit was passed over without a word when no version could be deleted.
TEST_F(DraftStoreTest, NeededVersionsBeyondTheLimitAreKeptAndLoggedOnce) {
  RetentionPolicy policy;
  policy.max_bytes = 4;
  DraftStore store(root_, policy);
  for (const char* weights : {"one", "two", "three"}) publish(store, "sql", weights);
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) store.apply_retention("sql", /*live=*/3, /*last_known_good=*/2);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(log.find("drafts.max_bytes"), log.rfind("drafts.max_bytes")) << log;
  EXPECT_NE(log.find("8 bytes, more than drafts.max_bytes (4)"), std::string::npos) << log;
  EXPECT_FALSE(fs::exists(root_ / "sql" / "v000001" / "model.safetensors"));
  EXPECT_TRUE(fs::exists(root_ / "sql" / "v000002" / "model.safetensors"));
}

TEST_F(DraftStoreTest, SweepsWhatACrashLeft) {
  fs::path leftover;
  {
    DraftStore store(root_);
    publish(store, "sql", "one");
    leftover = stage(store, "sql", "half");
    write(root_ / "sql" / "CURRENT.tmp", "v0000");
    write(root_ / "sql" / "v000001" / "meta.json.tmp", "{");
    fs::create_directory_symlink(folder_, leftover / "link");
  }
  DraftStore store(root_);
  EXPECT_FALSE(fs::exists(leftover));
  EXPECT_FALSE(fs::exists(root_ / "sql" / "CURRENT.tmp"));
  EXPECT_FALSE(fs::exists(root_ / "sql" / "v000001" / "meta.json.tmp"));
  EXPECT_TRUE(fs::exists(folder_));  // a link inside was removed, not followed
  EXPECT_EQ(store.current("sql")->version, 1U);
}

// Regression: a service did not start.
TEST_F(DraftStoreTest, ALeftoverThatCannotBeRemovedIsLeftThere) {
  { DraftStore store(root_); }
  make_unremovable(root_ / ".staging-sql-1-1");
  DraftStore store(root_);
  EXPECT_EQ(publish(store, "sql", "one").version, 1U);
}

// Regression: the sweep of a draft ended at what could not be removed. What a crash had left beside it stayed, and the
// store did not know the date of any version, and believed a date that was a year ahead.
TEST_F(DraftStoreTest, ALeftoverThatCannotBeRemovedHidesNoVersion) {
  RetentionPolicy policy;
  policy.keep_last = 1;
  for (const char* leftover : {"x.tmp", "v000003/x.tmp", "v000004/x.tmp"}) {
    fs::remove_all(root_);
    publish_a_year_ago(policy, {-2, -1, 0, 0});
    make_unremovable(root_ / "sql" / leftover);
    for (const char* version : {"v000001", "v000004"}) write(root_ / "sql" / version / "z.tmp", "{");
    ::testing::internal::CaptureStderr();
    DraftStore store(root_, policy);
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("what a crash left cannot be removed"), std::string::npos) << said;
    for (const char* version : {"v000001", "v000004"}) EXPECT_FALSE(fs::exists(root_ / "sql" / version / "z.tmp"));
    store.apply_retention("sql", /*live=*/4, /*last_known_good=*/3);
    EXPECT_TRUE(fs::exists(root_ / "sql" / "v000002" / "model.safetensors")) << "a day older than the newest";
  }
}

TEST_F(DraftStoreTest, StagingFoldersAreFreshAndDistinct) {
  DraftStore store(root_);
  const auto one = store.staging_folder("sql"), two = store.staging_folder("sql");
  EXPECT_NE(one, two);
  EXPECT_TRUE(fs::is_empty(one));
  EXPECT_EQ(one.parent_path(), root_);
}

TEST_F(DraftStoreTest, ReadersSeeOnlyWholeVersionsWhileOneWriterPublishes) {
  DraftStore store(root_);
  publish(store, "sql", "0");
  std::atomic<bool> done{false};
  std::thread reader([&] {
    std::uint64_t last = 0;
    while (!done) {
      const auto meta = store.current("sql");
      ASSERT_TRUE(meta);
      ASSERT_GE(meta->version, last);
      last = meta->version;
      ASSERT_EQ(read(store.folder("sql", last) / "model.safetensors"), std::to_string(last - 1));
    }
  });
  for (int i = 1; i < 40; ++i) publish(store, "sql", std::to_string(i));
  done = true;
  reader.join();
}

}  // namespace
}  // namespace slip
