// SPDX-License-Identifier: Apache-2.0
// What a purge leaves of a request in the data directory of the built program: nothing, in any file, byte for byte.
#include <sys/stat.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <functional>

#include "common/file.h"
#include "tests/cli/serve_fixture.h"

namespace slip {
namespace {

using testing::eventually;

using nlohmann::json;

class ServePurgeTest : public ServeTest {
 protected:
  struct Sent {
    std::string id, header, tokens;  // the answer's id, its X-Request-Id, its prompt as replay has it
  };

  ServePurgeTest() {
    std::ofstream(folder_ / "keys") << "first-key-of-them name=team-a\nsecond-key-of-them name=team-b\n";
    ::chmod((folder_ / "keys").c_str(), 0600);
    std::ofstream(config_) << "[server]\napi_keys_file = \"" << (folder_ / "keys").string()
                           << "\"\n[ledger]\ncommit_interval_ms = 20\n";
  }

  std::vector<std::string> with_config() const {
    auto arguments = usual();
    arguments.insert(arguments.end(), {"-c", config_.string()});
    return arguments;
  }
  static std::string with_key(std::string bytes, const std::string& key, const std::string& more = "") {
    bytes.insert(bytes.find("Host:"), "Authorization: Bearer " + key + "\r\n" + more);
    return bytes;
  }
  static std::string four_bytes_each(const json& ids) {
    std::string bytes;
    for (const auto& id : ids) {
      for (int byte = 0; byte < 4; ++byte) bytes += static_cast<char>(id.get<std::uint32_t>() >> (8 * byte));
    }
    return bytes;
  }
  Sent send(std::uint16_t port, const std::string& key, int number) {
    const std::string prompt = "What is " + std::to_string(1000 + number) + " + " + std::to_string(77 * number) + "?";
    const std::string header = "order-" + key.substr(0, 1) + "-" + std::to_string(number);
    const auto reply = ask(port, with_key(chat_bytes(prompt, 12), key, "X-Request-Id: " + header + "\r\n"));
    EXPECT_EQ(reply.status, 200) << reply.body;
    const std::string asked =
        json{{"messages", {{{"role", "user"}, {"content", prompt}}}}, {"add_generation_prompt", true}}.dump();
    const auto ids = ask(port, with_key("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                                        "application/json\r\nContent-Length: " +
                                            std::to_string(asked.size()) + "\r\n\r\n" + asked,
                                        key));
    return {json::parse(reply.body)["id"], header, four_bytes_each(json::parse(ids.body)["tokens"])};
  }
  // How many of its traces are in any file of the data directory.
  int n_traces(const Sent& sent) const {
    bool tokens = false, header = false;
    for (const auto& item : std::filesystem::recursive_directory_iterator(data())) {
      if (!item.is_regular_file()) continue;
      const std::string content = read_file(item.path(), 1U << 30);
      const auto has = [&](const std::string& bytes) {
        return ::memmem(content.data(), content.size(), bytes.data(), bytes.size()) != nullptr;
      };
      tokens = tokens || has(sent.tokens);
      header = header || has(sent.header);
    }
    return (tokens ? 1 : 0) + (header ? 1 : 0);
  }
  bool is_kept(const Sent& sent) const { return n_traces(sent) == 2; }
  bool is_gone(const Sent& sent) const { return n_traces(sent) == 0; }
  // The exit status; what it said is in said_.
  int purge(const std::string& arguments) {
    const std::string command =
        std::string(SLIPSTREAM_BINARY_DIR) + "/slipstream purge " + arguments + " --data-dir " + data() + " 2>&1";
    FILE* pipe = ::popen(command.c_str(), "r");
    said_.clear();
    std::array<char, 512> text{};
    while (std::fgets(text.data(), text.size(), pipe) != nullptr) said_ += text.data();
    const int status = ::pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  static RawReply remove(std::uint16_t port, const std::string& id, const std::string& key) {
    return ask(
        port, with_key("DELETE /v1/requests/" + id + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", key));
  }

  const std::filesystem::path config_ = folder_ / "c.toml";
  std::string said_;
};

TEST_F(ServePurgeTest, OfARunningServiceAndOfAStoppedOneNothingIsLeft) {
  Program program(folder_, with_config());
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  std::vector<Sent> sent;
  for (int i = 0; i < 8; ++i) sent.push_back(send(port, i < 4 ? "first-key-of-them" : "second-key-of-them", i));
  for (const Sent& one : sent) ASSERT_TRUE(eventually([&] { return is_kept(one); })) << "or this shows nothing";

  EXPECT_EQ(purge("--request " + sent[0].id), 0) << said_;
  EXPECT_NE(said_.find("purged 1 record of replay and 1 row of the ledger; what was learned"), std::string::npos);
  EXPECT_TRUE(is_gone(sent[0]));
  EXPECT_EQ(purge("--request " + sent[1].header), 0) << said_;
  EXPECT_TRUE(is_gone(sent[1]));
  EXPECT_EQ(remove(port, sent[2].id, "second-key-of-them").status, 404) << "another key's";
  EXPECT_TRUE(is_kept(sent[2]));
  EXPECT_EQ(remove(port, sent[2].id, "first-key-of-them").status, 204);
  EXPECT_TRUE(is_gone(sent[2]));
  EXPECT_EQ(remove(port, sent[2].id, "first-key-of-them").status, 404) << "it is gone";
  EXPECT_EQ(purge("--tenant team-c"), 2);
  EXPECT_NE(said_.find("team-a, team-b"), std::string::npos) << said_;
  EXPECT_EQ(purge("--tenant team-a"), 0) << said_;
  EXPECT_TRUE(is_gone(sent[3]));
  for (int i = 4; i < 8; ++i) EXPECT_TRUE(is_kept(sent[static_cast<std::size_t>(i)])) << i;
  EXPECT_EQ(remove(port, sent[4].header, "second-key-of-them").status, 204) << "by its header too";
  EXPECT_TRUE(is_gone(sent[4]));
  const Sent last = send(port, "first-key-of-them", 8);
  ASSERT_TRUE(eventually([&] { return is_kept(last); })) << "it serves on";
  EXPECT_EQ(program.stop(), 0) << program.log();

  EXPECT_EQ(purge("--request " + sent[5].id), 0) << said_;
  EXPECT_TRUE(is_gone(sent[5]));
  EXPECT_EQ(purge("--tenant team-b --before 2020-01-01 -c " + config_.string()), 0) << said_;
  EXPECT_TRUE(is_kept(sent[6]));
  EXPECT_EQ(purge("--tenant team-b -c " + config_.string()), 0) << said_;
  EXPECT_TRUE(is_gone(sent[6]));
  EXPECT_TRUE(is_gone(sent[7]));
  EXPECT_TRUE(is_kept(last));
  EXPECT_EQ(purge("--before now"), 0) << said_;
  EXPECT_TRUE(is_gone(last));
  EXPECT_EQ(count("SELECT COUNT(*) FROM requests"), 0);
  EXPECT_EQ(count("SELECT COUNT(*) FROM same_text"), 0);
}

TEST_F(ServePurgeTest, ByTimeOfARunningServiceAsWell) {
  Program program(folder_, with_config());
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  std::vector<Sent> sent;
  for (int i = 0; i < 3; ++i) sent.push_back(send(port, "first-key-of-them", i));
  for (const Sent& one : sent) ASSERT_TRUE(eventually([&] { return is_kept(one); }));
  EXPECT_EQ(purge("--before 2020-01-01"), 0) << said_;
  for (const Sent& one : sent) EXPECT_TRUE(is_kept(one));
  EXPECT_EQ(purge("--before now"), 0) << said_;
  for (const Sent& one : sent) EXPECT_TRUE(is_gone(one));
  EXPECT_EQ(program.stop(), 0) << program.log();
}

// A customer leaves, the key is removed, and then the data is to go: no name reached it any more.
TEST_F(ServePurgeTest, TheDataOfARemovedKeyIsStillFoundByItsName) {
  Program program(folder_, with_config());
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  const Sent first = send(port, "first-key-of-them", 1), second = send(port, "second-key-of-them", 2);
  ASSERT_TRUE(eventually([&] { return is_kept(first) && is_kept(second); }));
  std::ofstream(folder_ / "keys") << "third-key-of-them name=team-c\n";
  ::kill(program.pid(), SIGHUP);
  ASSERT_TRUE(eventually([&] { return program.log().find("reloaded") != std::string::npos; })) << program.log();
  EXPECT_EQ(purge("--tenant team-a"), 0) << said_;
  EXPECT_TRUE(is_gone(first));
  EXPECT_TRUE(is_kept(second));
  EXPECT_EQ(purge("--tenant team-a"), 2) << said_;
  EXPECT_NE(said_.find("no API key is or was named team-a"), std::string::npos) << said_;
  EXPECT_EQ(purge("--tenant team-c"), 0) << "it has sent nothing: " << said_;
  EXPECT_EQ(program.stop(), 0) << program.log();
  EXPECT_EQ(purge("--tenant team-b"), 0) << "without a key file, too: " << said_;
  EXPECT_TRUE(is_gone(second));
}

// A name that is mistyped looked like a purge that was done.
TEST_F(ServePurgeTest, WhereNothingIsFoundItSaysSo) {
  Program program(folder_, with_config());
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  EXPECT_EQ(purge("--request chatcmpl-mistyped"), 0);
  EXPECT_NE(said_.find("found nothing to purge"), std::string::npos) << said_;
  EXPECT_EQ(program.stop(), 0);
  EXPECT_EQ(purge("--request chatcmpl-mistyped"), 0);
  EXPECT_NE(said_.find("found nothing to purge"), std::string::npos) << said_;
}

TEST_F(ServePurgeTest, WithoutLearningOldRecordsAreReachedToo) {
  Sent sent;
  {
    Program program(folder_, with_config());
    const auto port = program.port();
    ASSERT_NE(port, 0) << program.log();
    sent = send(port, "first-key-of-them", 1);
    EXPECT_EQ(program.stop(), 0) << program.log();
  }
  ASSERT_TRUE(is_kept(sent));
  auto arguments = with_config();
  arguments.emplace_back("--no-learning");
  Program program(folder_, arguments);
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  EXPECT_EQ(remove(port, sent.id, "first-key-of-them").status, 204);
  EXPECT_TRUE(is_gone(sent));
  EXPECT_EQ(program.stop(), 0) << program.log();
}

// Each was a 500 without a reason. Once the cause is gone, the same DELETE succeeds.
TEST_F(ServePurgeTest, ADeleteThatCannotBeDoneNowIsA503AndCanBeRepeated) {
  Program program(folder_, with_config());
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  const std::string key = "first-key-of-them";
  std::vector<Sent> sent;
  for (int i = 0; i < 2; ++i) sent.push_back(send(port, key, i));
  for (const Sent& one : sent) ASSERT_TRUE(eventually([&] { return is_kept(one); }));
  const auto expect_later = [&](const Sent& of, const std::string& cause) {
    const auto reply = remove(port, of.id, key);
    EXPECT_EQ(reply.status, 503) << reply.body;
    EXPECT_TRUE(reply.headers.contains("retry-after"));
    EXPECT_NE(reply.body.find(cause), std::string::npos) << reply.body;
    EXPECT_EQ(reply.body.find(folder_.string()), std::string::npos) << reply.body;
  };
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open((data() + "/ledger.db").c_str(), &other), SQLITE_OK);
  sqlite3_busy_timeout(other, 5'000);  // the service writes now and then
  ASSERT_EQ(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  expect_later(sent[0], "database is locked");
  sqlite3_exec(other, "ROLLBACK", nullptr, nullptr, nullptr);
  sqlite3_close(other);
  EXPECT_EQ(remove(port, sent[0].id, key).status, 204);
  EXPECT_TRUE(is_gone(sent[0]));
  std::filesystem::rename(data(), data() + ".moved");
  expect_later(sent[1], "No such file");
  std::filesystem::rename(data() + ".moved", data());
  EXPECT_EQ(remove(port, sent[1].id, key).status, 204);
  EXPECT_TRUE(is_gone(sent[1]));
  EXPECT_EQ(program.stop(), 0) << program.log();
}

// Bug: it said to wait until the service has started, which never helped. The holder is named by its process.
TEST_F(ServePurgeTest, AServiceWhoseSocketWasDeletedIsNamedWithTheWayOut) {
  Program program(folder_, with_config());
  ASSERT_NE(program.port(), 0) << program.log();
  std::filesystem::remove(data() + "/control.sock");
  EXPECT_EQ(purge("--request chatcmpl-x"), 1) << said_;
  EXPECT_NE(said_.find("in use by process " + std::to_string(program.pid())), std::string::npos) << said_;
  EXPECT_NE(said_.find("control.sock was deleted, a restart"), std::string::npos) << said_;
  EXPECT_EQ(program.stop(), 0) << program.log();
}

// Bug: it warned of the link, said "purged 0 records" and ended with status 0.
TEST_F(ServePurgeTest, ASegmentThatIsALinkIsNotCalledPurged) {
  const auto segment = std::filesystem::path(data()) / "replay" / "segment-0000000001.replay";
  std::filesystem::create_directories(segment.parent_path());
  for (const auto& folder : {std::filesystem::path(data()), segment.parent_path()}) ::chmod(folder.c_str(), 0700);
  std::filesystem::create_symlink(folder_ / "elsewhere", segment);
  EXPECT_EQ(purge("--request chatcmpl-x"), 1) << said_;
  EXPECT_NE(said_.find(segment.string() + " holds was not purged: it is not a regular file"), std::string::npos)
      << said_;
}

// Bug: the purge began a new ledger without a word, and no later start could tell that the old one was lost.
TEST_F(ServePurgeTest, AnEmptiedLedgerIsLogged) {
  const std::filesystem::path replay = std::filesystem::path(data()) / "replay";
  std::filesystem::create_directories(replay);
  for (const auto& folder : {std::filesystem::path(data()), replay}) ::chmod(folder.c_str(), 0700);
  std::ofstream(replay / "segment-0000000001.replay") << "";
  std::ofstream(std::filesystem::path(data()) / "ledger.db") << "";
  EXPECT_EQ(purge("--before now"), 0) << said_;
  EXPECT_NE(said_.find("ledger.db is empty, though drafts or replay are there"), std::string::npos) << said_;
  std::filesystem::remove(std::filesystem::path(data()) / "ledger.db");
  std::ofstream(replay / "segment-0000000001.replay") << "";  // a start removes what has no whole header
  EXPECT_EQ(purge("--before now"), 0) << said_;
  EXPECT_NE(said_.find("ledger.db is missing, though drafts or replay are there"), std::string::npos) << said_;
}

TEST_F(ServePurgeTest, WhatCannotBeDoneSaysWhy) {
  EXPECT_EQ(purge("--request x"), 2);
  EXPECT_NE(said_.find("is no data directory"), std::string::npos) << said_;
  EXPECT_FALSE(std::filesystem::exists(data()));
  EXPECT_EQ(purge(""), 2);
  EXPECT_NE(said_.find("--request, --tenant or --before"), std::string::npos) << said_;
  EXPECT_EQ(purge("--before yesterday"), 2);
  EXPECT_NE(said_.find("--before takes"), std::string::npos) << said_;
}

}  // namespace
}  // namespace slip
