// SPDX-License-Identifier: Apache-2.0
// The running service: its answers, its log and ledger, and how it stops.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/cli/serve_fixture.h"
#include "tests/common/damage.h"
#include "tests/engine/models/formula_model.h"

namespace slip {
namespace {

using nlohmann::json;

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
  for (const char* word : {"12.", "bfloat16", " MB of ", "threads", "http://", "learning on,"}) {
    EXPECT_NE(log.find(word), std::string::npos) << word;
  }
  EXPECT_EQ(count("SELECT COUNT(*) FROM requests WHERE topic = 'math' AND draft = 'math'"), 1);
  EXPECT_EQ(count("SELECT COUNT(*) FROM requests WHERE http_id = 'order-66'"), 1);
  EXPECT_EQ(count("SELECT COUNT(*) FROM draft_versions WHERE draft = 'base' AND reason = 'base'"), 1);
  EXPECT_EQ(count("SELECT COUNT(*) FROM engine_load"), 1);
  EXPECT_EQ(log.find("12 + 30"), std::string::npos) << "prompts are not logged";
}

TEST_F(ServeTest, ItsThreadsHaveNames) {
  Program program(folder_, usual());
  ASSERT_NE(program.port(), 0) << program.log();
  const std::string tasks = "/proc/" + std::to_string(program.pid()) + "/task";
  const auto has_thread = [&](const std::string& wanted) {
    for (const auto& task : std::filesystem::directory_iterator(tasks)) {
      std::string name;
      std::getline(std::ifstream(task.path() / "comm") >> std::ws, name);
      if (name == wanted) return true;
    }
    return false;
  };
  for (const char* name : {"slipstream", "engine", "learner", "replay", "ledger", "io", "worker", "control", "log"}) {
    EXPECT_TRUE(testing::eventually([&] { return has_thread(name); }))
        << name << ": a thread names itself once it runs";
  }
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
TEST_F(ServeTest, ADeletedDataDirectoryIsLoggedOnceAndShownWhileServingGoesOn) {
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
  const auto lines = [&](const std::string& level) {
    int n = 0;
    for (auto at = log.find(level); at != std::string::npos; at = log.find(level, at + 1)) ++n;
    return n;
  };
  EXPECT_LE(lines(" error "), 2) << "of the directory, and of a step that was under way\n" << log;
  EXPECT_LE(lines(" warning "), 3) << log;
}

// Stopped within two seconds, the service said nothing.
TEST_F(ServeTest, ALedgerThatIsCutRightBeforeTheEndIsLogged) {
  Program program(folder_, usual());
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  const auto chat = [&](int i) { return ask(port, chat_bytes("What is 12 + " + std::to_string(i) + "?", 16)).status; };
  std::this_thread::sleep_for(std::chrono::seconds(1));  // the writer has seen the file whole
  std::filesystem::resize_file(data() + "/ledger.db", 5'000);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(chat(i), 200);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(program.stop(), 0);
  EXPECT_NE(program.err().find("ledger.db was deleted, moved, replaced or cut"), std::string::npos) << program.err();
}

// 870 records were gone, and the service said nothing.
TEST_F(ServeTest, ADamagedReplaySegmentIsNamedAtTheStart) {
  {
    Program program(folder_, usual());
    const auto port = program.port();
    ASSERT_NE(port, 0) << program.log();
    EXPECT_EQ(ask(port, chat_bytes("What is 12 + 5?", 16)).status, 200);
    EXPECT_EQ(program.stop(), 0) << program.log();
  }
  std::filesystem::path segment;
  for (const auto& item : std::filesystem::directory_iterator(data() + "/replay")) segment = item.path();
  ASSERT_GT(std::filesystem::file_size(segment), 200U);
  testing::overwrite(segment, 150, "damage");
  Program program(folder_, usual());
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  EXPECT_EQ(ask(port, chat_bytes("What is 12 + 5?", 16)).status, 200);
  EXPECT_EQ(program.stop(), 0) << program.log();
  EXPECT_NE(program.err().find(segment.filename().string()), std::string::npos) << program.err();
}

// The gauge stayed at 480 of 512 after a disconnect.
TEST_F(ServeTest, PagesAreFreeAgainAfterAClientThatLeft) {
  Program program(folder_, usual());
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  const auto free_pages = [&] {
    const std::string text = get(port, "/metrics").body, name = "\nslipstream:cache_free_pages ";
    return std::stoi(text.substr(text.find(name) + name.size()));
  };
  const int at_rest = free_pages();
  {
    RawClient client(port);
    client.send(chat_bytes("Count from 1 to 300.", 900, R"(,"stream":true,"min_tokens":900)"));
    ASSERT_TRUE(client.read_until("data: "));
    EXPECT_TRUE(testing::eventually([&] { return free_pages() < at_rest; })) << "its first page may come later";
  }
  EXPECT_TRUE(testing::eventually([&] { return free_pages() == at_rest; })) << free_pages() << " of " << at_rest;
  EXPECT_EQ(program.stop(), 0) << program.log();
}

// A seeded request left its draw method behind in the proposal that the next one found; a next one without a seed that
// drafts nothing, since it has one token to go, then stopped the whole program.
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

TEST_F(ServeTest, WithoutADraftItProposesByPromptLookupAndSaysHowToWarmUp) {
  const std::string prompt = "Repeat: one, two, three, four, five, one, two, three, four, five, one, two, three,";
  std::string texts[2];
  for (const bool looks_up : {true, false}) {
    const std::string config = (folder_ / "lookup.toml").string();
    std::ofstream(config) << "[speculation]\nprompt_lookup = " << (looks_up ? "true" : "false") << "\n";
    Program program(folder_, {"--target", kTarget, "--port", "0", "--data-dir", data(), "-c", config});
    const auto port = program.port();
    ASSERT_NE(port, 0) << program.log();
    EXPECT_EQ(get(port, "/readyz").status, 200);
    EXPECT_NE(program.log().find(looks_up ? "proposing by prompt lookup alone, k = 8" : "decoding plainly"),
              std::string::npos);
    EXPECT_NE(program.log().find("slipstream warmup --target " + kTarget), std::string::npos) << program.log();
    const auto body = json::parse(ask(port, chat_bytes(prompt, 48)).body);
    const json& figures = body["metrics"]["speculative_decoding"];
    EXPECT_EQ(figures["num_draft_tokens"] > 0, looks_up) << figures;
    EXPECT_TRUE(figures["draft"].is_null());
    texts[looks_up ? 1 : 0] = body["choices"][0]["message"]["content"];
    const std::string counted = R"(slipstream:spec_decode_num_drafts_total{draft="prompt_lookup",topic=)";
    const auto shows = [&] { return get(port, "/metrics").body.find(counted) != std::string::npos; };
    for (int i = 0; looks_up && i < 500 * testing::kPatience && !shows(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_EQ(shows(), looks_up);
    EXPECT_EQ(program.stop(), 0);
  }
  EXPECT_EQ(texts[0], texts[1]);
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
TEST_F(ServeTest, AnEmptiedLedgerIsLoggedANewOneIsNot) {
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
