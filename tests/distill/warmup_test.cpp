// SPDX-License-Identifier: Apache-2.0
#include "distill/warmup.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "checkpoints/data_directory_lock.h"
#include "checkpoints/draft_meta.h"
#include "common/error.h"
#include "common/file.h"
#include "distill/warmup_answers.h"
#include "distill/warmup_prompts.h"
#include "distill/warmup_work.h"
#include "engine/model/tokenizer.h"
#include "engine/model/transformer.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

// Stops the job once it has reported so much.
class StopAt final : public WarmupObserver {
 public:
  explicit StopAt(int polls = -1) : polls_left_(polls) {}
  void on_progress(const WarmupProgress& progress) override {
    last = progress;
    phases.insert(progress.phase);
  }
  void on_note(const std::string& line) override { notes.push_back(line); }
  bool stop_requested() override { return polls_left_ >= 0 && polls_left_-- <= 0; }

  WarmupProgress last;
  std::set<WarmupPhase> phases;
  std::vector<std::string> notes;

 private:
  int polls_left_;
};

class WarmupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(::testing::TempDir()) / (std::string("warmup-") + info->name() + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "target");
    make_target();
    write("data.jsonl", prompts(14, /*with_response=*/true));
  }
  void TearDown() override { fs::remove_all(folder_); }

  // The demo's words and context on a model small enough to answer in microseconds.
  void make_target() {
    const fs::path demo = fs::path(SLIPSTREAM_SOURCE_DIR) / "checkpoints/demo/target";
    ModelConfig config = load_model_config(demo);
    config.hidden_size = 16;
    config.intermediate_size = 16;
    config.n_layers = 1;
    config.n_heads = 2;
    config.n_kv_heads = 1;
    config.head_dim = 8;
    DraftTrainer(config, 42, {}).export_draft(folder_ / "target");
    for (const char* name : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
      fs::copy_file(demo / name, folder_ / "target" / name);
    }
  }

  static std::string prompts(int n, bool with_response) {
    std::string lines;
    for (int i = 0; i < n; ++i) {
      lines += R"({"prompt": "What is )" + std::to_string(i) + R"( and )" + std::to_string(i * i) + R"(?")";
      lines += with_response ? R"(, "response": "It is )" + std::to_string(i + i * i) + "\"}\n" : "}\n";
    }
    return lines;
  }

  void write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }

  WarmupOptions options(const std::string& out) const {
    WarmupOptions options;
    options.target = folder_ / "target";
    options.data = {folder_ / "data.jsonl"};
    options.out = folder_ / out;
    options.shape = {.hidden = 8, .layers = 1, .ffn = 8, .heads = 2, .kv_heads = 1};
    options.steps = 6;
    options.batch = 4;
    options.max_tokens = 6;
    options.dtype = Dtype::kFloat32;
    return options;
  }

  std::string weights(const std::string& out) const {
    return read_file(folder_ / out / "model.safetensors", std::uint64_t{1} << 30);
  }

  ErrorCode refused(const WarmupOptions& wrong, std::string* message = nullptr) {
    StopAt observer;
    try {
      run_warmup(wrong, observer);
    } catch (const Error& error) {
      if (message != nullptr) *message = error.message() + " | " + error.param();
      return error.code();
    }
    ADD_FAILURE() << "accepted";
    return ErrorCode::kInternal;
  }

  fs::path folder_;
};

TEST_F(WarmupTest, WritesAWholeCheckpointWithItsHistory) {
  StopAt observer;
  const WarmupResult result = run_warmup(options("sql"), observer);
  EXPECT_EQ(result.steps, 6);
  EXPECT_EQ(result.answers + result.heldout_answers, 14);
  EXPECT_GT(result.heldout_answers, 0);
  EXPECT_GT(result.heldout_loss, 0);
  EXPECT_EQ(observer.phases.size(), 2U);
  const auto draft = ModelWeights::load(folder_ / "sql", Dtype::kBFloat16, /*check_finite=*/true);
  EXPECT_EQ(draft->config.hidden_size, 8);
  EXPECT_EQ(draft->config.vocab_size, 8192);
  EXPECT_EQ(draft->config.eos_ids, load_model_config(folder_ / "target").eos_ids);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
    EXPECT_TRUE(fs::exists(folder_ / "sql" / name)) << name;
  }
  const DraftMeta meta = parse_draft_meta(read_file(folder_ / "sql" / "meta.json", 1 << 20), "meta.json");
  EXPECT_EQ(meta.draft, "sql");
  EXPECT_EQ(meta.reason, "warmup");
  EXPECT_EQ(meta.target, "target");
  EXPECT_EQ(meta.target_fingerprint, target_fingerprint(folder_ / "target"));
  EXPECT_EQ(meta.optimizer_steps, 6U);
  EXPECT_EQ(meta.weights_sha256.size(), 64U);
  EXPECT_FALSE(fs::exists(folder_ / "sql.work"));
}

TEST_F(WarmupTest, AnInterruptedRunComesToTheSameWeights) {
  StopAt never;
  run_warmup(options("whole"), never);
  int interruptions = 0;
  for (int polls : {0, 3, 9, 14, 20, 26, 31, -1}) {  // some while answers are written, some between optimizer steps
    StopAt observer(polls);
    try {
      run_warmup(options("parts"), observer);
      break;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kCancelled) << error.message();
      EXPECT_TRUE(fs::exists(folder_ / "parts.work"));
      EXPECT_FALSE(fs::exists(folder_ / "parts"));
      ++interruptions;
    }
  }
  EXPECT_GE(interruptions, 3);
  EXPECT_TRUE(weights("parts") == weights("whole")) << "not bit for bit";
}

TEST_F(WarmupTest, GoingOnFromADraftBeginsAtItsWeights) {
  StopAt observer;
  run_warmup(options("first"), observer);
  WarmupOptions further = options("second");
  further.draft = folder_ / "first";
  further.trainer.learning_rate = 1e-30;  // so small that nothing moves
  run_warmup(further, observer);
  EXPECT_TRUE(weights("second") == weights("first"));
  further.out = folder_ / "third";
  further.trainer.learning_rate = 1e-2;
  run_warmup(further, observer);
  EXPECT_FALSE(weights("third") == weights("first"));
}

TEST_F(WarmupTest, WithoutANumberOfStepsItStopsWhenTheLossIsFlat) {
  WarmupOptions flat = options("flat");
  flat.steps = 0;
  flat.trainer.learning_rate = 1e-30;
  StopAt observer;
  EXPECT_EQ(run_warmup(flat, observer).steps, 200) << "four measurements, fifty steps apart, without a gain";
}

TEST_F(WarmupTest, LossOnTheAnswersFalls) {
  WarmupOptions longer = options("longer");
  longer.steps = 120;
  longer.trainer.learning_rate = 2e-2;
  longer.draft = folder_ / "target";  // the target's own shape
  longer.temperature = 0.0F;
  StopAt observer;
  WarmupOptions once = longer;
  once.draft.clear();
  once.out = folder_ / "scratch";
  once.steps = 1;
  const double before = run_warmup(once, observer).loss;
  once.out = folder_ / "learned";
  once.steps = 120;
  EXPECT_LT(run_warmup(once, observer).loss, 0.8 * before);
}

// The engine that writes and the forward pass that judges must see the same distributions.
TEST_F(WarmupTest, WrittenAndGivenAnswersAgree) {
  WarmupOptions asked = options("x");
  std::int64_t left_out = 0;
  std::vector<WarmupPrompt> prompts = read_warmup_prompts(asked, left_out);
  kernels::ThreadPool pool(1);
  const auto target = ModelWeights::load(asked.target, Dtype::kFloat32);
  const std::vector<std::size_t> wanted{0, 1, 2, 5};
  std::map<std::uint64_t, ReplayRecord> written;
  std::map<std::uint64_t, ReplayRecord> forced;
  auto into = [](std::map<std::uint64_t, ReplayRecord>& records) {
    return [&records](const ReplayRecord& record) {
      records.emplace(record.request.value, record);
      return true;
    };
  };
  const KeepGoing always = [] { return true; };
  write_answers(target, prompts, wanted, {.max_tokens = 9, .concurrency = 3, .seed = 7}, pool, into(written), always);
  ASSERT_EQ(written.size(), wanted.size());
  for (auto& [id, record] : written) {
    prompts[id - 1].response.assign(record.tokens.begin() + record.prompt_tokens, record.tokens.end());
    EXPECT_LE(prompts[id - 1].response.size(), 9U);
    EXPECT_EQ(record.sampling.temperature, (id - 1) % 2 == 0 ? 0.0F : 0.8F);
  }
  force_answers(target, prompts, wanted, pool, into(forced), always);
  for (std::size_t index : wanted) {
    const ReplayRecord& a = written.at(index + 1);
    const ReplayRecord& b = forced.at(index + 1);
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.prompt_tokens, b.prompt_tokens);
    ASSERT_EQ(a.target.size(), b.target.size());
    for (std::size_t row = 0; row < a.target.size(); ++row) {
      EXPECT_EQ(a.target[row].ids, b.target[row].ids);
      EXPECT_EQ(a.target[row].logprobs, b.target[row].logprobs);
      if (index % 2 == 0) {
        EXPECT_EQ(a.tokens[a.prompt_tokens + row], a.target[row].ids[0]) << "greedy";
      }
    }
  }
}

TEST_F(WarmupTest, GivenResponsesAreTaughtWithTheirEnd) {
  WarmupOptions given = options("given");
  given.answers_from = AnswersFrom::kData;
  given.max_tokens = 40;
  std::int64_t left_out = 0;
  const auto prompts = read_warmup_prompts(given, left_out);
  ASSERT_EQ(prompts.size(), 14U);
  EXPECT_EQ(prompts[3].response.back(), 1);
  given.max_tokens = 2;
  EXPECT_EQ(read_warmup_prompts(given, left_out)[3].response.size(), 2U);
  StopAt observer;
  EXPECT_EQ(run_warmup(given, observer).steps, 6);
}

TEST_F(WarmupTest, AnotherChatTemplateIsAnotherRun) {
  write("plain.jinja", "{% for m in messages %}Q: {{ m['content'] }} A:{% endfor %}");
  WarmupOptions plain = options("sql");
  plain.chat_template = folder_ / "plain.jinja";
  std::int64_t left_out = 0;
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

TEST_F(WarmupTest, ShareTakesTheFirstRowsRoundedDown) {
  WarmupOptions some = options("x");
  some.share = 0.25;
  std::int64_t left_out = 0;
  const auto few = read_warmup_prompts(some, left_out);
  some.share = 1;
  const auto all = read_warmup_prompts(some, left_out);
  ASSERT_EQ(few.size(), 3U);
  for (std::size_t i = 0; i < few.size(); ++i) EXPECT_EQ(few[i].tokens, all[i].tokens);
}

TEST_F(WarmupTest, PromptsWithoutRoomForAnAnswerAreLeftOutAndSaid) {
  std::string huge;
  for (int i = 0; i < 3000; ++i) huge += "word ";
  write("data.jsonl", prompts(14, false) + R"({"prompt": ")" + huge + "\"}\n");
  StopAt observer;
  run_warmup(options("x"), observer);
  ASSERT_FALSE(observer.notes.empty());
  EXPECT_EQ(observer.notes[0].substr(0, 2), "1 ");
}

TEST_F(WarmupTest, AnOutcomeThatStandsThereIsNotReplacedUnasked) {
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

TEST_F(WarmupTest, ResumeNeedsTheSameOptions) {
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

TEST_F(WarmupTest, TwoRunsDoNotShareAPlaceNorEnterAServedDataDirectory) {
  fs::create_directory(folder_ / "sql.work");
  fs::permissions(folder_ / "sql.work", fs::perms::owner_all);
  {
    const DataDirectoryLock other(folder_ / "sql.work");
    EXPECT_EQ(refused(options("sql")), ErrorCode::kConflict);
  }
  const DataDirectoryLock service(folder_ / "data");
  EXPECT_EQ(refused(options("data/drafts/sql")), ErrorCode::kConflict);
}

TEST_F(WarmupTest, BadOptionsAndDataAreRefusedByName) {
  struct Wrong {
    const char* param;
    std::function<void(WarmupOptions&)> make;
  };
  const std::vector<Wrong> wrongs = {
      {"share", [](WarmupOptions& o) { o.share = 0; }},
      {"batch", [](WarmupOptions& o) { o.batch = 0; }},
      {"lr", [](WarmupOptions& o) { o.trainer.learning_rate = -1; }},
      {"temperature", [](WarmupOptions& o) { o.temperature = 3.0F; }},
      {"hidden", [](WarmupOptions& o) { o.shape.hidden = 7; }},
      {"kv_heads", [](WarmupOptions& o) { o.shape.kv_heads = 3; }},
      {"data", [](WarmupOptions& o) { o.data.clear(); }},
      {"data", [](WarmupOptions& o) { o.share = 0.08; }},
  };
  for (const Wrong& wrong : wrongs) {
    WarmupOptions bad = options("bad");
    wrong.make(bad);
    std::string message;
    EXPECT_EQ(refused(bad, &message), ErrorCode::kInvalidArgument) << wrong.param;
    EXPECT_NE(message.find(std::string("| ") + wrong.param), std::string::npos) << message;
    EXPECT_FALSE(fs::exists(folder_ / "bad"));
  }
}

TEST_F(WarmupTest, ATornAnswerFileIsCutAndFilled) {
  WarmupOptions asked = options("sql");
  std::int64_t left_out = 0;
  const auto prompts = read_warmup_prompts(asked, left_out);
  kernels::ThreadPool pool(1);
  const auto target = ModelWeights::load(asked.target, Dtype::kFloat32);
  const fs::path path = folder_ / "answers";
  {
    AnswerFile file(path);
    force_answers(
        target, prompts, {}, pool, [](const ReplayRecord&) { return true; }, [] { return true; });
    write_answers(
        target, prompts, {0, 1, 2}, {.max_tokens = 4}, pool,
        [&](const ReplayRecord& record) {
          file.append(record);
          return true;
        },
        [] { return true; });
    EXPECT_EQ(file.records().size(), 3U);
  }
  const auto whole = fs::file_size(path);
  fs::resize_file(path, whole - 5);
  AnswerFile torn(path);
  EXPECT_EQ(torn.records().size(), 2U);
  EXPECT_LT(fs::file_size(path), whole - 5);
}

TEST(WarmupPrompts, SayWhereTheFaultIs) {
  const auto rows = parse_prompt_rows("{\"prompt\":\"a\",\"id\":1}\n\n {\"prompt\":\"b\"}", "f.jsonl", false);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].prompt, "b");
  auto fault = [](const char* text, bool response) {
    try {
      parse_prompt_rows(text, "f.jsonl", response);
    } catch (const Error& error) {
      return error.message();
    }
    return std::string("none");
  };
  EXPECT_NE(fault("{\"prompt\":\"a\"}\n{\"promt\":\"b\"}", false).find("f.jsonl:2"), std::string::npos);
  EXPECT_NE(fault("{\"prompt\":\"a\"}\n{\"prompt\":7}", false).find("f.jsonl:2"), std::string::npos);
  EXPECT_NE(fault("{\"prompt\":\"a\"}", true).find("response"), std::string::npos);
  EXPECT_NE(fault("not json", false).find("f.jsonl:1"), std::string::npos);
  EXPECT_NE(fault("[1]", false).find("f.jsonl:1"), std::string::npos);
}

// One that took over its target's biases, norms and windows could not be trained.
TEST(WarmupDraft, IsAPlainLlamaWhateverTheTarget) {
  ModelConfig target;
  target.architecture = "Qwen3ForCausalLM";
  target.vocab_size = 1000;
  target.n_layers = 2;
  target.rope_theta = 1e6;
  target.rope_scaling.type = RopeType::kYarn;
  target.qkv_bias = target.attention_out_bias = target.mlp_bias = target.qk_norm = true;
  target.windows = {5, 0};
  const ModelConfig draft = draft_config(target, DraftShape{});
  EXPECT_EQ(draft.beyond_plain_llama(), "");
  EXPECT_EQ(draft.architecture, "LlamaForCausalLM");
  EXPECT_EQ(draft.vocab_size, 1000);
  EXPECT_EQ(draft.rope_theta, 1e6);
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

}  // namespace
}  // namespace slip
