// SPDX-License-Identifier: Apache-2.0
#include "cli/inspect/inspection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoints/draft_store.h"
#include "cli/step_times_file.h"
#include "common/clock.h"
#include "common/error.h"
#include "distill/replay/replay_buffer.h"
#include "distill/trainer/trainer_state_file.h"
#include "distill/trainer_lineage.h"
#include "ledger/database.h"
#include "ledger/ledger.h"
#include "router/router_state_file.h"
#include "tests/checkpoints/tiny_llama.h"
#include "tests/cli/inspect/inspection_fixture.h"
#include "tests/common/damage.h"
#include "tests/distill/sample_records.h"

namespace slip::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const fs::path kDemo = fs::path(SLIPSTREAM_SOURCE_DIR) / "checkpoints/demo";

TEST_F(InspectionTest, ACheckpointAndADraftSayWhatTheyAre) {
  const json target = look(kDemo / "target");
  EXPECT_EQ(target["kind"], "checkpoint");
  EXPECT_EQ(target["facts"]["architecture"], "LlamaForCausalLM");
  EXPECT_EQ(target["facts"]["vocabulary"], 8192);
  EXPECT_EQ(target["facts"]["tokenizer"], "ok");
  EXPECT_TRUE(target["faults"].empty()) << target["faults"];
  const json draft = look(kDemo / "draft");
  EXPECT_EQ(draft["kind"], "draft");
  EXPECT_EQ(draft["facts"]["weights_checksum"], "ok") << draft;
  const std::string text = to_text(inspect(kDemo / "draft"));
  EXPECT_THAT(text, HasSubstr("vocabulary"));
  EXPECT_THAT(text, HasSubstr("8192"));
}

TEST_F(InspectionTest, WeightsBySelfListTheirTensors) {
  testing::TinyLlama().write(folder_.path() / "tiny");
  const json found = look(folder_.path() / "tiny/model.safetensors");
  EXPECT_EQ(found["kind"], "safetensors");
  EXPECT_EQ(found["tensors"].size(), testing::TinyLlama().tensors.size());
  EXPECT_EQ(found["tensors"][0]["dtype"], "float32");
}

TEST_F(InspectionTest, TheStoreSaysWhatIsCurrentAndWhatIsDamaged) {
  const fs::path root = folder_.path() / "drafts";
  publish_two(root);
  json found = look(root);
  ASSERT_EQ(found["versions"].size(), 2U);
  EXPECT_EQ(found["versions"][0]["state"], "");
  EXPECT_EQ(found["versions"][1]["state"], "current");
  EXPECT_EQ(found["versions"][1]["weights"], "ok");
  EXPECT_TRUE(found["faults"].empty());
  testing::overwrite(root / "sql/v000002/model.safetensors", -3, "xyz");
  fs::remove(root / "sql/v000001/meta.json");
  found = look(root);
  EXPECT_EQ(found["versions"][0]["weights"], "damaged");
  EXPECT_EQ(found["faults"].size(), 2U) << found["faults"];
}

// A base draft had alpha 0, which read like a measurement.
TEST_F(InspectionTest, AVersionThatWasNotMeasuredHasNoAlpha) {
  const fs::path root = folder_.path() / "drafts";
  publish_two(root);
  const json versions = look(root)["versions"];
  EXPECT_TRUE(versions[0]["alpha"].is_null());
  EXPECT_TRUE(versions[0]["alpha_before"].is_null());
  EXPECT_EQ(versions[1]["alpha"], 0.5);
  EXPECT_TRUE(look(root / "sql/v000001")["facts"]["held_out_alpha"].is_null());
  EXPECT_EQ(look(root / "sql/v000002")["facts"]["held_out_alpha"], 0.5);
  EXPECT_NEAR(look(kDemo / "draft")["facts"]["held_out_alpha"], 0.53, 0.01) << "a warm-up measures";
}

// A live version that is gone, or a link, which the service does not follow, was no fault.
TEST_F(InspectionTest, TheStoresFaultsAreWhatTheServiceWouldNotUse) {
  const fs::path root = folder_.path() / "drafts", sql = root / "sql", live = sql / "v000002";
  publish_two(root);
  EXPECT_THAT(faults_of(root), ::testing::IsEmpty());
  fs::rename(live, folder_.path() / "away");
  EXPECT_THAT(faults_of(root), ElementsAre(AllOf(HasSubstr((sql / "CURRENT").string()), HasSubstr("v000002"))));
  fs::create_directory_symlink(folder_.path() / "away", live);
  EXPECT_THAT(faults_of(root), ElementsAre(AllOf(HasSubstr(live.string()), HasSubstr("symbolic link"))));
  fs::remove(live);
  fs::rename(folder_.path() / "away", live);
  EXPECT_THAT(faults_of(root), ::testing::IsEmpty());

  fs::rename(live / "model.safetensors", folder_.path() / "weights");
  fs::create_symlink(folder_.path() / "weights", live / "model.safetensors");
  EXPECT_THAT(faults_of(root), ElementsAre(HasSubstr((live / "model.safetensors").string())));
  fs::remove(live / "model.safetensors");
  fs::rename(folder_.path() / "weights", live / "model.safetensors");

  fs::rename(live / "config.json", folder_.path() / "config");
  EXPECT_THAT(faults_of(root), ElementsAre(HasSubstr((live / "config.json").string())));
  for (const char* junk : {"", "{}", R"({"architectures": ["LlamaForCausalLM"]})"}) {
    std::ofstream(live / "config.json") << junk;
    EXPECT_THAT(faults_of(root), ElementsAre(HasSubstr((live / "config.json").string()))) << junk;
  }
  fs::remove(live / "config.json");
  testing::TinyLlama other;
  other.config.n_layers = 3;
  std::ofstream(live / "config.json") << to_config_json(other.config);
  EXPECT_THAT(faults_of(root), ElementsAre(HasSubstr((live / "model.safetensors").string()))) << "another shape";
  fs::remove(live / "config.json");
  fs::rename(folder_.path() / "config", live / "config.json");
  EXPECT_THAT(faults_of(root), ::testing::IsEmpty());

  fs::copy(live / "meta.json", sql / "v000001/meta.json", fs::copy_options::overwrite_existing);
  EXPECT_THAT(faults_of(root), ElementsAre(HasSubstr("describes another version")));
}

// Only the version itself was said to be damaged, not the directory that it is in.
TEST_F(InspectionTest, ATokenizerOfAVersionThatCannotBeReadIsAFaultOfTheStore) {
  const fs::path root = folder_.path() / "drafts", live = root / "sql/v000002";
  publish_two(root);
  fs::copy(kDemo / "target/tokenizer.json", live / "tokenizer.json");
  EXPECT_THAT(faults_of(root), IsEmpty());
  std::ofstream(live / "tokenizer.json") << "{";
  EXPECT_THAT(faults_of(root), ElementsAre(HasSubstr((live / "tokenizer.json").string())));
  fs::remove(live / "tokenizer.json");
  fs::create_symlink("/dev/zero", live / "tokenizer.json");
  EXPECT_THAT(faults_of(root), ElementsAre(HasSubstr((live / "tokenizer.json").string())));
}

// The lowest free descriptor becomes the limit: nothing can be opened.
class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int free_one = ::dup(STDERR_FILENO);
    ::close(free_one);
    const rlimit none{static_cast<rlim_t>(free_one), before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

// A sound directory was called damaged, on a full disk too.
TEST_F(InspectionTest, WhatCannotBeReadNowIsNotDamaged) {
  testing::TinyLlama().write(folder_.path() / "model");
  Inspection found{.kind = "data directory"};
  const NoDescriptors none;
  try {
    inspect_draft_store(folder_.path() / "model");
    ADD_FAILURE() << "a folder was opened";
  } catch (const Error& error) {
    found.add_error(error);
  }
  EXPECT_THAT(found.faults, IsEmpty());
  EXPECT_THAT(found.unread, ElementsAre(HasSubstr("Too many open files")));
  EXPECT_THAT(to_text(found), HasSubstr("NOT READ: "));
  EXPECT_THAT(to_json(found), HasSubstr("unread"));
}

TEST_F(InspectionTest, ACurrentThatIsALinkIsAFault) {
  const fs::path root = folder_.path() / "drafts", current = root / "sql/CURRENT";
  publish_two(root);
  fs::rename(current, folder_.path() / "current");
  fs::create_symlink(folder_.path() / "current", current);
  EXPECT_THAT(faults_of(root), ElementsAre(HasSubstr(current.string())));
  fs::remove(folder_.path() / "current");
  EXPECT_THAT(faults_of(root), ElementsAre(HasSubstr(current.string()))) << "one that leads nowhere";
}

// Its checksum was computed for ever.
TEST_F(InspectionTest, WeightsThatAreADeviceAreRefused) {
  const fs::path root = folder_.path() / "drafts", live = root / "sql/v000002";
  publish_two(root);
  fs::remove(live / "model.safetensors");
  fs::create_symlink("/dev/zero", live / "model.safetensors");
  EXPECT_THAT(faults_of(live), Contains(HasSubstr("is not a regular file")));
  EXPECT_THAT(faults_of(root), ElementsAre(HasSubstr((live / "model.safetensors").string())));
}

TEST_F(InspectionTest, ADataDirectoryThatOthersCanWriteIsAFault) {
  const fs::path data = folder_.path() / "data";
  fs::create_directory(data);
  std::ofstream(data / "LOCK") << "";
  fs::permissions(data, fs::perms::owner_all | fs::perms::group_read);
  EXPECT_THAT(faults_of(data), IsEmpty());
  for (const fs::perms one : {fs::perms::group_write, fs::perms::others_write}) {
    fs::permissions(data, fs::perms::owner_all | one);
    EXPECT_THAT(faults_of(data), ElementsAre(HasSubstr("can be written by others")));
  }
}

TEST_F(InspectionTest, APartOfADataDirectoryThatIsALinkIsAFault) {
  const fs::path data = folder_.path() / "data";
  fs::create_directory(data);
  fs::permissions(data, fs::perms::owner_all);
  std::ofstream(data / "LOCK") << "";
  fs::create_directory_symlink(folder_.path() / "nowhere", data / "replay");
  EXPECT_THAT(faults_of(data), ElementsAre(HasSubstr((data / "replay").string())));
}

// `inspect` called a data directory whole that no service starts with.
TEST_F(InspectionTest, WhatKeepsAServiceFromStartingIsAFault) {
  const fs::path data = folder_.path() / "data";
  fs::create_directory(data);
  std::ofstream(data / "LOCK") << "";
  std::ofstream(data / "replay") << "no folder";
  EXPECT_THAT(faults_of(data), ElementsAre(HasSubstr((data / "replay").string() + " is not a directory")));
  fs::remove(data / "replay");
  fs::rename(data / "LOCK", folder_.path() / "lock");
  fs::create_symlink(folder_.path() / "lock", data / "LOCK");
  EXPECT_THAT(faults_of(data), ElementsAre(HasSubstr((data / "LOCK").string() + " is a symbolic link")));
}

// Nothing else was inspected.
TEST_F(InspectionTest, ALockThatCannotBeReadIsAFaultAndTheRestIsReported) {
  const fs::path data = folder_.path() / "data";
  fs::create_directories(data / "replay");
  std::ofstream(data / "LOCK") << std::string(5000, '7');
  EXPECT_THAT(faults_of(data), ElementsAre(HasSubstr("LOCK has 5000 bytes")));
  fs::remove(data / "LOCK");
  ::mkfifo((data / "LOCK").c_str(), 0600);
  EXPECT_THAT(faults_of(data), ElementsAre(HasSubstr("LOCK is not a regular file")));
  EXPECT_EQ(look(data)["facts"]["in_use_by"], "unknown");
  EXPECT_EQ(look(data)["facts"]["replay_records"], 0);
}

// A data directory whose ledger was missing was called intact.
TEST_F(InspectionTest, ALedgerThatIsMissingBesideDraftsOrReplayIsAFault) {
  const fs::path data = folder_.path() / "data";
  fs::create_directories(data / "replay");
  std::ofstream(data / "LOCK") << "";
  EXPECT_THAT(faults_of(data), IsEmpty()) << "a new directory";
  ReplayOptions options;
  options.folder = data / "replay";
  fs::permissions(options.folder, fs::perms::owner_all);
  ReplayBuffer(options).append(testing::make_record(1, "sql"));
  EXPECT_THAT(faults_of(data), ElementsAre(HasSubstr("ledger.db is missing, though drafts or replay are there")));
}

// A trigger can keep rows out of the ledger, or in it after a purge.
TEST_F(InspectionTest, ATriggerInTheLedgerIsAFault) {
  const fs::path file = folder_.path() / "ledger.db";
  LedgerOptions options;
  options.file = file;
  { Ledger ledger(std::move(options)); }
  EXPECT_THAT(faults_of(file), IsEmpty());
  Database(file, Database::Mode::kReadWrite)
      .execute("CREATE TRIGGER quiet BEFORE INSERT ON requests BEGIN SELECT RAISE(IGNORE); END");
  EXPECT_THAT(faults_of(file), ElementsAre(HasSubstr("has a trigger, \"quiet\"")));
}

// A service warns of them and begins afresh; `inspect` did not look.
TEST_F(InspectionTest, DamagedStatesOfRouterAndOptimizersAreFaults) {
  const fs::path data = folder_.path() / "data", router = data / "router.state", optimizer = data / "optimizer/sql.opt";
  fs::create_directories(data / "optimizer");
  std::ofstream(data / "LOCK") << "";
  const TopicTable topics(std::vector<Topic>{{"sql", {}, {"select 1"}}});
  write_router_state(router, router_state(topics, TopicClassifier(topics.size())));
  ModelConfig shape;
  shape.vocab_size = 8;
  TrainerState state;
  state.floats.resize(TrainerState::n_floats(shape, OptimizerKind::kAdamW));
  write_trainer_state(optimizer, shape, state);
  EXPECT_THAT(faults_of(data), ::testing::IsEmpty());
  EXPECT_EQ(look(data)["facts"]["optimizer_states"], 1);
  const fs::path lineage = data / "optimizer/sql.lineage";
  write_lineage(lineage, {.source = "sql", .version = 3});
  EXPECT_THAT(faults_of(data), ::testing::IsEmpty());
  std::ofstream(lineage) << "slipstream-optimizer-2 sql three";
  EXPECT_THAT(faults_of(data), ElementsAre(AllOf(HasSubstr(lineage.string()), HasSubstr("damaged"))));
  fs::rename(optimizer, data / "elsewhere");
  write_lineage(lineage, {.source = "sql", .version = 3});
  EXPECT_THAT(faults_of(data), ElementsAre(AllOf(HasSubstr(optimizer.string()), HasSubstr("missing"))));
  fs::rename(data / "elsewhere", optimizer);
  fs::remove(lineage);
  EXPECT_THAT(faults_of(data), ::testing::IsEmpty()) << "as after a crash between the two files";
  for (const fs::path& file : {router, optimizer}) {
    testing::overwrite(file, static_cast<std::streamoff>(fs::file_size(file) / 2), "\x7f");
    EXPECT_THAT(faults_of(data), Contains(AllOf(HasSubstr(file.string()), HasSubstr("checksum"))));
    fs::resize_file(file, 3);
    EXPECT_THAT(faults_of(data), Contains(AllOf(HasSubstr(file.string()), HasSubstr("torn"))));
    fs::remove(file);
    EXPECT_THAT(faults_of(data), ::testing::IsEmpty());
  }
}

TEST_F(InspectionTest, DamagedStepTimesAreAFault) {
  const fs::path data = folder_.path() / "data", file = data / "step_times.json";
  fs::create_directory(data);
  std::ofstream(data / "LOCK") << "";
  EXPECT_EQ(look(data)["facts"]["step_times"], "none");
  const StepCurveState curve{.level_us = 1'000, .prompt_row_us = 0, .drafting = {}, .ratios = {{1, 1}, {8, 2}}};
  write_step_times(file, {{{"target", "one"}}, {curve, {}}});
  EXPECT_EQ(look(data)["facts"]["step_times_row_counts"], 2);
  EXPECT_THAT(faults_of(data), IsEmpty());
  std::ofstream(file) << "{}";
  EXPECT_THAT(faults_of(data), ElementsAre(HasSubstr(file.string())));
}

TEST_F(InspectionTest, ALedgerCountsItsRowsWhileItIsWritten) {
  const fs::path data = folder_.path() / "data";
  fs::create_directory(data);
  LedgerOptions options;
  options.file = data / "ledger.db";
  Ledger ledger(options);
  RequestRow row;
  row.topic = row.draft = "sql\x1b[2J";
  row.finished_us = wall_us();
  row.accepted = 6;
  row.first_rejections = 4;
  row.steps = 5;
  row.output_tokens = 11;
  ledger.record(row);
  ledger.flush();
  const json found = look(options.file);
  EXPECT_EQ(found["facts"]["rows_of_requests"], 1);
  EXPECT_EQ(found["facts"]["integrity"], "ok");
  EXPECT_NEAR(found["topics"][0]["alpha"].get<double>(), 0.6, 1e-9);
  EXPECT_THAT(to_text(inspect(options.file)), Not(HasSubstr("\x1b")));
  publish_two(data / "drafts");
  record_replay(data / "replay");
  const json all = look(data);
  EXPECT_EQ(all["kind"], "data directory");
  EXPECT_EQ(all["facts"]["ledger_rows_of_requests"], 1);
  EXPECT_EQ(all["facts"]["drafts_versions"], 2);
  EXPECT_EQ(all["facts"]["replay_records"], 12);
  EXPECT_EQ(all["facts"]["in_use_by"], "free");
  EXPECT_EQ(all["ledger_topics"].size(), 1U);
  EXPECT_EQ(all["replay_topics"].size(), 2U);
}

// Bug: a quick check called an index whole that lacked a row, and a backup of that ledger failed.
TEST_F(InspectionTest, ARowThatAnIndexLacksIsAFault) {
  LedgerOptions options;
  options.file = folder_.path() / "ledger.db";
  {
    Ledger ledger(options);
    RequestRow row;
    row.http_id = "order-1";
    row.finished_us = wall_us();
    ledger.record(row);
  }
  EXPECT_THAT(faults_of(options.file), IsEmpty());
  {
    Database database(options.file, Database::Mode::kReadWrite);
    sqlite3_db_config(database.get(), SQLITE_DBCONFIG_DEFENSIVE, 0, nullptr);
    database.execute(
        "PRAGMA writable_schema = ON;"
        "UPDATE sqlite_master SET sql = sql || ' WHERE 0' WHERE name = 'requests_by_http_id';"
        "PRAGMA writable_schema = RESET;"
        "UPDATE requests SET http_id_hash = 7;"
        "PRAGMA writable_schema = ON;"
        "UPDATE sqlite_master SET sql = replace(sql, ' WHERE 0', '') WHERE name = 'requests_by_http_id'");
  }
  EXPECT_THAT(faults_of(options.file),
              ElementsAre(AllOf(HasSubstr(options.file.string()), HasSubstr("requests_by_http_id"))));
}

// Bug: a loop of links hid all of the directory, and of a directory or a FIFO it said that there is no ledger.
TEST_F(InspectionTest, ALedgerThatIsNoFileIsNamedAndTheRestIsReported) {
  const fs::path data = folder_.path() / "data", ledger = data / "ledger.db";
  publish_two(data / "drafts");
  const auto expect_fault = [&](const std::string& what) {
    const Inspection found = inspect(data);
    EXPECT_EQ(found.kind, "data directory");
    EXPECT_THAT(found.faults, ElementsAre(HasSubstr(ledger.string() + " is " + what)));
    EXPECT_EQ(look(data)["facts"]["drafts_versions"], 2);
    fs::remove(ledger);
  };
  fs::create_symlink("ledger.db", ledger);
  expect_fault("a symbolic link");
  fs::create_directory(ledger);
  expect_fault("a directory");
  ASSERT_EQ(::mkfifo(ledger.c_str(), 0600), 0);
  expect_fault("a FIFO");
}

TEST_F(InspectionTest, WhatIsNothingOfOursOrHostileIsRefusedByName) {
  EXPECT_EQ(refused(folder_.path() / "none"), ErrorCode::kNotFound);
  EXPECT_EQ(refused(folder_.write("notes.txt", "hello")), ErrorCode::kInvalidArgument);
  fs::create_directory(folder_.path() / "empty");
  EXPECT_EQ(refused(folder_.path() / "empty"), ErrorCode::kInvalidArgument);
  ::mkfifo((folder_.path() / "pipe").c_str(), 0600);
  EXPECT_EQ(refused(folder_.path() / "pipe"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused(folder_.write("short.safetensors", "abc")), ErrorCode::kDataLoss);
  EXPECT_EQ(refused(folder_.write("huge.safetensors", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10))),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused(folder_.write("ledger.db", "SQLite format 3" + std::string(2000, '\0'))), ErrorCode::kDataLoss);
  fs::remove(folder_.path() / "ledger.db");
  const fs::path model = folder_.path() / "model";
  fs::create_directory(model);
  std::ofstream(model / "config.json") << std::string(100'000, '[');
  EXPECT_THAT(faults_of(model), Contains(HasSubstr("config.json")));
  json replay = look(folder_.write("segment-0000000001.replay", std::string(5000, 'R')));
  EXPECT_EQ(replay["facts"]["records"], 0);
}

TEST_F(InspectionTest, AModelWithoutItsWeightsHasFaults) {
  testing::TinyLlama().write(folder_.path() / "tiny");
  fs::resize_file(folder_.path() / "tiny/model.safetensors", 100);
  const Inspection found = inspect(folder_.path() / "tiny");
  EXPECT_EQ(found.faults.size(), 2U) << "torn weights, no tokenizer";
  EXPECT_THAT(to_text(found), HasSubstr("FAULT: "));
}

// They were called whole, and a service refused them.
TEST_F(InspectionTest, WeightsThatAreNoNumbersAreAFault) {
  const fs::path model = folder_.path() / "tiny";
  testing::TinyLlama tiny;
  tiny.write(model);
  EXPECT_EQ(look(model / "model.safetensors")["facts"]["tensors_with_NaN_or_infinity"], 0);
  EXPECT_THAT(faults_of(model / "model.safetensors"), ::testing::IsEmpty());
  const std::string name = tiny.tensors.begin()->first;
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    tiny.tensors.begin()->second.values.back() = value;
    tiny.write(model);
    const auto named = AllOf(HasSubstr("model.safetensors"), HasSubstr("1 tensors hold a NaN"), HasSubstr(name));
    EXPECT_THAT(faults_of(model), Contains(named));
    EXPECT_THAT(faults_of(model / "model.safetensors"), ElementsAre(named));
  }
}

// A tokenizer.json hid it, until a chat needed its template.
TEST_F(InspectionTest, ATokenizerConfigThatCannotBeReadIsAFault) {
  const fs::path model = folder_.path() / "target", config = model / "tokenizer_config.json";
  fs::create_directory(model);
  for (const auto& item : fs::directory_iterator(kDemo / "target")) {
    fs::create_symlink(item.path(), model / item.path().filename());
  }
  EXPECT_THAT(faults_of(model), ::testing::IsEmpty());
  const auto fault = [&](const std::function<void()>& put) {
    fs::remove_all(config);
    put();
    EXPECT_THAT(faults_of(model), ElementsAre(HasSubstr(config.string())));
  };
  for (const char* to : {"/dev/zero", "tokenizer_config.json", "nowhere"}) {
    fault([&] { fs::create_symlink(to, config); });
  }
  fault([&] { fs::create_directory(config); });
  fault([&] { ::mkfifo(config.c_str(), 0600); });
  fault([&] { std::ofstream(config) << "{"; });
  fs::remove_all(config);
  EXPECT_THAT(faults_of(model), ::testing::IsEmpty()) << "a folder may have none";
}

}  // namespace
}  // namespace slip::cli
