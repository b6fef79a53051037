// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <memory>

#include "common/error.h"
#include "distill/draft_trainer.h"
#include "tests/cli/serve_fixture.h"
#include "tests/engine/model/formula_model.h"

namespace slip {
namespace {

using nlohmann::json;

// From here on the kernel kills this process (SIGSYS) at the first connect() or Internet datagram socket.
bool forbid_outbound_connections() {
  constexpr auto kKill = SECCOMP_RET_KILL_PROCESS;
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_connect, 7, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 7),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf),  // without SOCK_NONBLOCK and SOCK_CLOEXEC
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCK_DGRAM, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, kKill),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {sizeof(program) / sizeof(program[0]), program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST_F(ServeTest, AnswersRecordsAndStopsInOrder) {
  Program program(folder_, usual());
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  EXPECT_EQ(get(port, "/readyz").status, 200);
  std::string bytes = chat_bytes("What is 12 + 30?", 24);
  bytes.insert(bytes.find("Host:"), "X-Request-Id: order-66\r\n");
  const auto reply = ask(port, bytes);
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.headers.at("x-request-id"), "order-66");
  const auto body = json::parse(reply.body);
  EXPECT_EQ(body["usage"]["completion_tokens"].get<int>() <= 24, true);
  EXPECT_GT(body["metrics"]["speculative_decoding"]["num_draft_tokens"].get<int>(), 0);
  EXPECT_EQ(body["metrics"]["speculative_decoding"]["topic"], "math");
  EXPECT_EQ(json::parse(get(port, "/v1/models").body)["data"][0]["id"], "target");
  EXPECT_EQ(json::parse(get(port, "/v1/drafts").body)["base"][0]["version"], 1);
  EXPECT_NE(get(port, "/metrics").body.find("spec_decode_num_draft_tokens_total{draft=\"math\""), std::string::npos);
  EXPECT_EQ(program.stop(), 0);
  const std::string log = program.log();
  const auto lines = std::count(log.begin(), log.end(), '\n') - 4;  // the chat and three lists; probes leave no line
  EXPECT_LE(lines, 12 + 2) << "start-up in 12 lines, and two for the end:\n" << log;
  EXPECT_NE(log.find("request order-66 POST /v1/chat/completions 200 total_ms="), std::string::npos) << log;
  for (const char* word : {"12.", "bfloat16", "MiB", "threads", "http://", "learning on,"}) {
    EXPECT_NE(log.find(word), std::string::npos) << word;
  }
  EXPECT_EQ(count("SELECT COUNT(*) FROM requests WHERE topic = 'math' AND draft = 'math'"), 1);
  EXPECT_EQ(count("SELECT COUNT(*) FROM requests WHERE http_id = 'order-66'"), 1);
  EXPECT_EQ(count("SELECT COUNT(*) FROM draft_versions WHERE draft = 'base' AND reason = 'base'"), 1);
  EXPECT_EQ(count("SELECT COUNT(*) FROM engine_load"), 1);
  EXPECT_EQ(log.find("12 + 30"), std::string::npos) << "prompts are not logged";
}

TEST_F(ServeTest, AnswersAreTheSameWithAndWithoutSpeculation) {
  std::string answers[3];
  const std::vector<std::string> more[3] = {{}, {"--no-speculation", "--no-learning"}, {"--k", "5"}};
  for (int arm = 0; arm < 3; ++arm) {
    auto arguments = usual();
    if (arm == 2) arguments.resize(arguments.size() - 2);
    arguments.insert(arguments.end(), more[arm].begin(), more[arm].end());
    Program program(folder_, arguments);
    const auto port = program.port();
    ASSERT_NE(port, 0) << program.log();
    for (const char* sampling : {"", R"(,"seed":7,"top_p":0.9)"}) {
      std::string bytes = chat_bytes("What is 7 times 8?", 48, sampling);
      if (*sampling != '\0') bytes.replace(bytes.find("\"temperature\":0"), 15, "\"temperature\":1");
      const auto body = json::parse(ask(port, bytes).body);
      answers[arm] += body["choices"][0]["message"]["content"].get<std::string>() + "|";
      EXPECT_EQ(body["metrics"]["speculative_decoding"]["num_draft_tokens"].get<int>() > 0, arm != 1);
    }
    EXPECT_EQ(program.stop(), 0);
  }
  EXPECT_EQ(count("SELECT COUNT(*) FROM requests"), 6);
  EXPECT_EQ(count("SELECT COUNT(*) FROM draft_versions WHERE draft = 'base'"), 1) << "three starts, one base draft";
  EXPECT_GT(answers[0].size(), 10U);
  EXPECT_EQ(answers[0], answers[1]);
  EXPECT_EQ(answers[0], answers[2]);
}

// It gave hundreds of lines in a few seconds, and the metric said that all was well.
TEST_F(ServeTest, ADeletedDataDirectoryIsSaidOnceAndShownWhileServingGoesOn) {
  Program program(folder_, usual());
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  const auto chat = [&](int i) { return ask(port, chat_bytes("What is 12 + " + std::to_string(i) + "?", 16)).status; };
  for (int i = 0; i < 4; ++i) EXPECT_EQ(chat(i), 200);
  std::filesystem::remove_all(data());
  const std::string shown = "slipstream:degraded{reason=\"data_directory\"} 1";
  const auto is_shown = [&] { return get(port, "/metrics").body.find(shown) != std::string::npos; };
  for (int i = 0; i < 500 * testing::kPatience && !is_shown(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(is_shown());
  for (int i = 4; i < 24; ++i) EXPECT_EQ(chat(i), 200);
  EXPECT_EQ(program.stop(), 0);
  const std::string log = program.err();
  EXPECT_NE(log.find("was deleted, moved or replaced"), std::string::npos) << log;
  int n_errors = 0;
  for (auto at = log.find(" error "); at != std::string::npos; at = log.find(" error ", at + 1)) ++n_errors;
  EXPECT_LE(n_errors, 2) << "of the directory, and of a step that was under way\n" << log;
}

// A seeded request left its law behind in the proposal that the next one found; a next one without a seed that drafts
// nothing, since it has one token to go, then stopped the whole program.
TEST_F(ServeTest, NothingOfARequestReachesTheNext) {
  Program program(folder_, usual());
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  std::string seeded = chat_bytes("What is 7 times 8?", 16, R"(,"seed":7)"), short_one = chat_bytes("Hello", 1);
  for (std::string* bytes : {&seeded, &short_one})
    bytes->replace(bytes->find("\"temperature\":0"), 15, "\"temperature\":1");
  EXPECT_EQ(ask(port, seeded).status, 200);
  EXPECT_EQ(ask(port, short_one).status, 200);
  EXPECT_EQ(program.stop(), 0) << program.log();
}

TEST_F(ServeTest, TheServiceConnectsToNobody) {
  Program program(folder_, usual(), {}, forbid_outbound_connections);
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  for (int i = 0; i < 12; ++i) {  // enough for a training step and what it saves
    ASSERT_EQ(ask(port, chat_bytes("What is 12 + " + std::to_string(i) + "?", 24)).status, 200);
  }
  EXPECT_EQ(get(port, "/metrics").status, 200);
  EXPECT_EQ(program.stop(), 0) << program.log();
}

// As on a kernel that was booted without IPv6.
bool take_ipv6_away() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {sizeof(program) / sizeof(program[0]), program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST_F(ServeTest, ItNeedsNoIpv6) {
  Program program(folder_, usual(), {}, take_ipv6_away);
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  EXPECT_EQ(ask(port, chat_bytes("What is 12 + 30?", 8)).status, 200);
  EXPECT_EQ(program.stop(), 0) << program.log();
}

TEST_F(ServeTest, AnIpv6AddressWithoutIpv6IsAnErrorThatNamesIt) {
  auto arguments = usual();
  arguments.insert(arguments.end(), {"--host", "::1"});
  Program program(folder_, arguments, {}, take_ipv6_away);
  EXPECT_EQ(program.wait(), 1);
  EXPECT_NE(program.err().find("cannot listen on ::1:"), std::string::npos) << program.err();
  EXPECT_NE(program.err().find("HINT: choose a --host"), std::string::npos) << program.err();
}

TEST_F(ServeTest, NegativeAConnectionOrADatagramSocketWouldHaveBeenSeen) {
  for (const bool connecting : {true, false}) {
    const pid_t child = ::fork();
    if (child == 0) {
      const int listening = ::socket(AF_INET, SOCK_STREAM, 0);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(9);
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      if (!forbid_outbound_connections()) ::_exit(126);
      if (connecting) {
        ::connect(listening, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
      } else {
        ::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
      }
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) << status;
  }
}

TEST_F(ServeTest, WithoutADraftItDecodesPlainlyAndSaysHowToWarmUp) {
  Program program(folder_, {"--target", kTarget, "--port", "0", "--data-dir", data()});
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  EXPECT_EQ(get(port, "/readyz").status, 200);
  EXPECT_NE(program.log().find("slipstream warmup --target " + kTarget), std::string::npos) << program.log();
  const auto body = json::parse(ask(port, chat_bytes("Hello", 8)).body);
  EXPECT_EQ(body["metrics"]["speculative_decoding"]["num_draft_tokens"], 0);
  EXPECT_TRUE(body["metrics"]["speculative_decoding"]["draft"].is_null());
  EXPECT_EQ(program.stop(), 0);
}

// A small Qwen3 of arbitrary weights: a poor draft, but one of the target's vocabulary.
const json kQwen3 = {{"architectures", {"Qwen3ForCausalLM"}},
                     {"model_type", "qwen3"},
                     {"vocab_size", 8192},
                     {"hidden_size", 32},
                     {"intermediate_size", 48},
                     {"num_hidden_layers", 1},
                     {"num_attention_heads", 2},
                     {"num_key_value_heads", 1},
                     {"head_dim", 16},
                     {"max_position_embeddings", 1024},
                     {"tie_word_embeddings", true}};

TEST_F(ServeTest, ADraftThatCannotLearnServesAllTheSameAndSaysWhy) {
  const auto draft = folder_ / "qwen3";
  std::filesystem::create_directories(draft);
  testing::write_formula_model(draft, kQwen3, Dtype::kBFloat16);
  std::vector<std::string> arguments = usual();
  std::replace(arguments.begin(), arguments.end(), kDraft, draft.string());
  std::string answers[2];
  for (const bool drafting : {true, false}) {
    if (!drafting) arguments.push_back("--no-speculation");
    Program program(folder_, arguments);
    const auto port = program.port();
    ASSERT_NE(port, 0) << program.log();
    const std::string why =
        "learning off (by \"architectures\" in its config.json the draft is more than a plain Llama";
    EXPECT_NE(program.log().find(why), std::string::npos) << program.log();
    const auto body = json::parse(ask(port, chat_bytes("What is 7 times 8?", 24)).body);
    answers[drafting ? 0 : 1] = body["choices"][0]["message"]["content"];
    EXPECT_EQ(body["metrics"]["speculative_decoding"]["num_draft_tokens"].get<int>() > 0, drafting);
    EXPECT_EQ(program.stop(), 0) << program.log();
  }
  EXPECT_FALSE(answers[0].empty());
  EXPECT_EQ(answers[0], answers[1]);
  EXPECT_EQ(count("SELECT COUNT(*) FROM requests"), 2);
  EXPECT_EQ(count("SELECT COUNT(*) FROM draft_versions"), 1) << "the base draft, and nothing learned";
}

TEST_F(ServeTest, SigtermFinishesWhatWasBegun) {
  Program program(folder_, usual());
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  RawClient client(port);
  client.send(chat_bytes("Write a story.", 400, R"(,"stream":true)"));
  ASSERT_TRUE(client.read_until("data: "));
  program.signal(SIGINT);
  const auto reply = client.read_reply();
  EXPECT_TRUE(reply.body.ends_with("data: [DONE]\n\n")) << reply.body.substr(reply.body.size() - 200);
  EXPECT_EQ(program.wait(), 0);
}

TEST_F(ServeTest, DrainingEndsAtItsTimeout) {
  std::ofstream(folder_ / "c.toml") << "[server]\ndrain_timeout_ms = 50\n";
  auto arguments = usual();
  arguments.insert(arguments.end(), {"-c", (folder_ / "c.toml").string()});
  Program program(folder_, arguments);
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<RawClient>(port));
    clients.back()->send(chat_bytes("Write a long story.", 900, R"(,"stream":true)"));
    ASSERT_TRUE(clients.back()->read_until("data: "));
  }
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait(), 0);
  const std::string all = clients.back()->read_to_end();
  EXPECT_TRUE(all.find("[DONE]") != std::string::npos || all.find("shutting down") != std::string::npos);
}

TEST_F(ServeTest, ASecondServiceIsRefusedAndASecondSignalExitsAtOnce) {
  Program program(folder_, usual());
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  std::filesystem::create_directories(folder_ / "second");
  Program second(folder_ / "second", usual());
  EXPECT_EQ(second.wait(), 1);
  EXPECT_NE(second.err().find("in use by process"), std::string::npos) << second.err();
  RawClient client(port);
  client.send(chat_bytes("Write a long story.", 900, R"(,"stream":true)"));
  ASSERT_TRUE(client.read_until("data: "));
  program.signal(SIGTERM);
  program.signal(SIGINT);
  const int status = program.wait();
  EXPECT_TRUE(status == 1 || status == 0) << status;  // 0 when the answer was over before the second one came
}

TEST_F(ServeTest, BadStartsSayWhy) {
  EXPECT_EQ(run({"--target", "org/model", "--data-dir", data()}), 2);
  EXPECT_NE(err_.find("download it first"), std::string::npos) << err_;
  EXPECT_EQ(run({"--data-dir", data()}), 2);
  std::ofstream(folder_ / "c.toml") << "[server]\nprot = 1\n";
  EXPECT_EQ(run({"-c", (folder_ / "c.toml").string(), "--target", kTarget}), 2);
  EXPECT_NE(err_.find("c.toml:2"), std::string::npos) << err_;
  EXPECT_NE(err_.find("server.port"), std::string::npos) << err_;
  EXPECT_EQ(run({"--target", kTarget, "--k", "99"}), 2);
  EXPECT_EQ(run({"--target", kTarget, "--host", "0.0.0.0", "--port", "0", "--data-dir", data()}), 1);
  EXPECT_NE(err_.find("API key"), std::string::npos) << err_;
}

// Such a path ended in "internal error" with status 70.
TEST_F(ServeTest, ALoopOfLinksIsAFileErrorThatNamesIt) {
  std::filesystem::create_symlink("loop", folder_ / "loop");
  const std::string loop = (folder_ / "loop").string();
  const std::vector<std::vector<std::string>> starts = {
      {"--target", loop, "--data-dir", data()},
      {"--target", kTarget, "--draft", loop, "--data-dir", data(), "--port", "0"},
      {"--target", kTarget, "--data-dir", loop + "/data", "--port", "0"},
      {"--target", kTarget, "--data-dir", data(), "--chat-template", loop, "--port", "0"},
      {"-c", loop, "--target", kTarget}};
  for (const auto& start : starts) {
    EXPECT_EQ(run(start), 1) << err_;
    EXPECT_NE(err_.find(loop), std::string::npos) << err_;
    EXPECT_NE(err_.find("symbolic links"), std::string::npos) << err_;
    EXPECT_EQ(err_.find("internal error"), std::string::npos) << err_;
  }
  EXPECT_EQ(run({"--target", loop, "--host", "everywhere", "--data-dir", data(), "--check-config"}), 2);
  for (const char* part : {"symbolic links", "everywhere"}) EXPECT_NE(err_.find(part), std::string::npos) << err_;
}

// Where there is a GPU to learn on, nothing is refused.
TEST_F(ServeTest, ADeviceThatCannotLearnIsRefusedByItsKey) {
  std::ofstream(folder_ / "c.toml") << "[learning]\ndevice = \"cuda\"\n";
  bool can_learn = true;
  try {
    check_training_device(TrainingDevice::kCuda);
  } catch (const Error&) {
    can_learn = false;
  }
  const std::vector<std::string> given = {
      "-c", (folder_ / "c.toml").string(), "--target", kTarget, "--draft", kDraft, "--port", "0", "--data-dir", data()};
  auto check_only = given;
  check_only.push_back("--check-config");
  EXPECT_EQ(run(check_only), can_learn ? 0 : 2) << err_;
  EXPECT_EQ(err_.find("learning.device") != std::string::npos, !can_learn) << err_;
  if (can_learn) return;
  EXPECT_NE(run(given), 0);
  EXPECT_NE(err_.find("learning.device"), std::string::npos) << err_;
  auto without = check_only;
  without.push_back("--no-learning");
  EXPECT_EQ(run(without), 0) << err_;
}

bool allow_64_files() {
  const rlimit few{64, 64};
  return ::setrlimit(RLIMIT_NOFILE, &few) == 0;
}

// 1,024 connections were taken whatever the limit of open files was: 100 silent ones under a limit of 64 left no
// descriptor for a probe.
TEST_F(ServeTest, ProbesComeThroughSilenceUnderALowLimitOfFiles) {
  Program program(folder_, usual(), {}, allow_64_files);
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(std::make_unique<RawClient>(port));
  for (const char* probe : {"/healthz", "/readyz"}) EXPECT_EQ(get(port, probe).status, 200) << probe;
  EXPECT_EQ(ask(port, chat_bytes("What is 12 + 30?", 8)).status, 200) << "the longest idle one makes room";
  EXPECT_EQ(program.stop(), 0) << program.log();
  const std::string log = program.log(), said = "at most 16 connections are taken, not server.max_connections = 1024";
  ASSERT_NE(log.find(said), std::string::npos) << log;
  EXPECT_EQ(log.find(said), log.rfind(said)) << "said once:\n" << log;
}

TEST_F(ServeTest, ADraftOfAnotherVocabularyIsRefused) {
  const auto other = folder_ / "other";
  std::filesystem::copy(kDraft, other);
  std::filesystem::permissions(other / "tokenizer.json", std::filesystem::perms::owner_all);
  auto tokenizer = json::parse(text_of(other / "tokenizer.json"));
  auto& words = tokenizer["model"]["vocab"];
  std::string at_300, at_301;
  for (const auto& [word, id] : words.items()) {
    if (id == 300) at_300 = word;
    if (id == 301) at_301 = word;
  }
  words[at_300] = 301;
  words[at_301] = 300;
  std::ofstream(other / "tokenizer.json") << tokenizer.dump();
  EXPECT_EQ(run({"--target", kTarget, "--draft", other.string(), "--port", "0", "--data-dir", data()}), 2);
  EXPECT_NE(err_.find("token id 300"), std::string::npos) << err_;
}

TEST_F(ServeTest, CheckConfigPrintsNoSecret) {
  EXPECT_EQ(run({"--target", kTarget, "--check-config"}, {"SLIPSTREAM_API_KEY=hunter2-hunter2-hunter2"}), 0);
  EXPECT_NE(out_.find("drain_timeout_ms = 30000"), std::string::npos);
  EXPECT_EQ(out_.find("hunter2"), std::string::npos);
}

TEST_F(ServeTest, CheckConfigNamesEveryFaultAndChangesNothing) {
  std::filesystem::create_directories(data());
  ::chmod(data().c_str(), 0777);
  EXPECT_EQ(run({"--target", kTarget, "--draft", folder_.string(), "--host", "everywhere", "--data-dir", data(),
                 "--check-config"}),
            2);
  for (const char* part : {"config.json", "everywhere", "API key", "can be written by others", "4 faults"}) {
    EXPECT_NE(err_.find(part), std::string::npos) << part << "\n" << err_;
  }
  EXPECT_NE(out_.find("drain_timeout_ms"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(data()));
  ::chmod(data().c_str(), 0700);
  std::ofstream(folder_ / "c.toml") << "[server]\ntls_key = \"none.key\"\nallowed_origins = [\"*\"]\n";
  EXPECT_EQ(run({"-c", (folder_ / "c.toml").string(), "--target", kTarget, "--data-dir", data(), "--check-config"}), 2);
  for (const char* part : {"set server.tls_certificate too", "allowed origin '*'", "2 faults"}) {
    EXPECT_NE(err_.find(part), std::string::npos) << part << "\n" << err_;
  }
  ::chmod(data().c_str(), 0700);
  EXPECT_EQ(run({"--target", kTarget, "--draft", kDraft, "--data-dir", data(), "--check-config"}), 0) << err_;
  EXPECT_EQ(err_, "");
  EXPECT_TRUE(std::filesystem::is_empty(data()));
}

// All three were status 0, though a service with any of them does not start. A good log file is not made either.
TEST_F(ServeTest, CheckConfigTriesLogTemplateAndDataDirectoryAndMakesNothing) {
  const auto folder = folder_ / "files";
  std::filesystem::create_directories(folder);
  const auto template_file = folder_ / "faulty.jinja", log = folder / "x.log";
  std::ofstream(template_file) << "{% for x in %}";
  const auto run_with = [&](const std::filesystem::path& log_file, std::vector<std::string> arguments) {
    std::ofstream(folder_ / "c.toml") << "[log]\nfile = \"" << log_file.string() << "\"\n";
    arguments.insert(arguments.end(), {"-c", (folder_ / "c.toml").string(), "--target", kTarget, "--check-config"});
    return run(arguments);
  };
  const auto no_folder = folder_ / "none" / "x.log";
  EXPECT_EQ(run_with(no_folder, {"--data-dir", "/proc/x", "--chat-template", template_file.string()}), 2);
  for (const std::string& part :
       {no_folder.string(), template_file.string(), std::string("/proc/x cannot be made"), std::string("3 faults")}) {
    EXPECT_NE(err_.find(part), std::string::npos) << part << "\n" << err_;
  }
  EXPECT_EQ(run_with(folder, {"--data-dir", data()}), 2) << "a log that is a directory";
  EXPECT_EQ(run_with(log, {"--data-dir", data()}), 0) << err_;
  std::filesystem::create_symlink("x.log", folder_ / "files" / "link.log");
  EXPECT_EQ(run_with(folder / "link.log", {"--data-dir", data()}), 0) << err_;
  EXPECT_FALSE(std::filesystem::exists(log));
  EXPECT_FALSE(std::filesystem::exists(data()));
  EXPECT_FALSE(std::filesystem::exists(no_folder.parent_path()));
}

// One start for what an operator sets by hand: a key in the environment, prompts in the log.
TEST_F(ServeTest, KeysAreNeverShownAndLoggedPromptsAreAnnouncedAndEscaped) {
  std::ofstream(folder_ / "c.toml") << "[server]\nlog_prompts = true\nkey_tokens_per_minute = 10\n";
  auto arguments = usual();
  arguments.insert(arguments.end(), {"-c", (folder_ / "c.toml").string()});
  Program program(folder_, arguments, {"SLIPSTREAM_API_KEY=hunter2-hunter2-hunter2"});
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  EXPECT_EQ(get(port, "/v1/models").status, 401);
  std::string bytes = chat_bytes("first\nsecond", 4);
  bytes.insert(bytes.find("Host:"), "Authorization: Bearer hunter2-hunter2-hunter2\r\n");
  EXPECT_EQ(ask(port, bytes).status, 200);
  const auto over = ask(port, bytes);  // the first one cost more than a minute's tokens
  EXPECT_EQ(over.status, 429);
  EXPECT_NE(over.body.find("10 tokens a minute"), std::string::npos) << over.body;
  EXPECT_GT(std::stoi(over.headers.at("retry-after")), 1);
  EXPECT_EQ(text_of("/proc/" + std::to_string(program.pid()) + "/environ").find("hunter2"), std::string::npos);
  EXPECT_EQ(program.stop(), 0);
  const std::string log = program.log();
  EXPECT_EQ(log.find("hunter2"), std::string::npos);
  EXPECT_NE(log.find(" key=environment-1 "), std::string::npos) << log;
  EXPECT_NE(log.find("PROMPTS AND ANSWERS ARE LOGGED"), std::string::npos) << log;
  EXPECT_NE(log.find("first\\x0asecond"), std::string::npos) << log;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(data())) {
    struct stat status {};
    ASSERT_EQ(::lstat(entry.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 077, 0U) << entry.path();
  }
  ::chmod(data().c_str(), 0777);
  EXPECT_EQ(run(usual()), 1);
  EXPECT_NE(err_.find(data()), std::string::npos) << err_;
}

// A new ledger took the place of an empty one without a word.
TEST_F(ServeTest, AnEmptiedLedgerIsSaidANewOneIsNot) {
  const std::string warning = data() + "/ledger.db is empty, though drafts or replay are there";
  for (const bool emptied : {false, true}) {
    if (emptied) std::filesystem::resize_file(data() + "/ledger.db", 0);
    Program program(folder_, usual());
    ASSERT_NE(program.port(), 0) << program.log();
    EXPECT_EQ(program.stop(), 0);
    EXPECT_EQ(program.err().find(warning) != std::string::npos, emptied) << program.err();
  }
}

}  // namespace
}  // namespace slip
