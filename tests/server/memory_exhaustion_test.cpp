// SPDX-License-Identifier: Apache-2.0
// One /tokenize of 4 MB under an address-space limit ended the process: the destructor of a JSON tree allocates. Here
// each allocation that a request causes fails in turn, on whichever of the server's threads it is made; the request is
// answered rightly or with a 503, and the next one is served.
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoints/json_document.h"
#include "checkpoints/strict_json.h"
#include "common/lock_free_inbox.h"
#include "common/log.h"
#include "distill/lossy_inbox.h"
#include "engine/grammar/schema_compiler.h"
#include "server/draft_series.h"
#include "tests/checkpoints/temporary_folder.h"
#include "tests/checkpoints/tiny_llama.h"
#include "tests/failing_allocations.h"
#include "tests/server/http_fixture.h"

namespace slip {
namespace {

using testing::fail_each;
using testing::may_fail;
using testing::Spared;
using testing::until_failure;

TEST(MemoryExhaustion, DocumentsAreBuiltAndFreedWithoutEndingTheProcess) {
  const std::string text = R"({"a":[[1,2,[3,{"b":"a string that is not small"}]],{"c":{"d":[[],[{}]]}}],"e":null})";
  const auto parse = [&] { const JsonDocument document(parse_strict_json(text, "a test")); };
  EXPECT_GT(fail_each(parse), 10);
  const auto refuse = [&] {
    try {
      parse_strict_json(text, "a test", {.max_values = 14});
    } catch (const Error&) {
    }
  };
  EXPECT_GT(fail_each(refuse), 10);
}

// Bug: values of enum and const were copied, and nlohmann frees nested copies by allocating.
TEST(MemoryExhaustion, SchemasAreCompiledWithoutEndingTheProcess) {
  const auto with_k = [](const char* k) {
    return std::string(R"({"type":"object","properties":{"k":{"const":)") + k +
           R"(}},"required":["k"],"additionalProperties":false})";
  };
  const JsonDocument schema(
      parse_ordered_json(R"({"oneOf":[{"const":[{"b":[2,{"c":[]}]}]},{"enum":[[1],["a",[2,[3]]],"x"]},)" +
                         with_k(R"([{"d":[1]}])") + "," + with_k(R"([{"d":[2]}])") + "]}"));
  EXPECT_GT(fail_each([&] { compile_schema(schema.root(), "schema"); }), 100);
}

TEST(MemoryExhaustion, AnAnswerThatCannotBeKeptIsCutOff) {
  AnswerChannel channel(1 << 20, [] {});
  TokenDelta delta;
  delta.text = std::string(1000, 'x');
  RequestSummary summary;
  summary.name = std::string(100, 'n');
  until_failure = 1;
  channel.on_tokens(delta);
  EXPECT_TRUE(channel.take().no_memory);
  until_failure = 1;
  channel.on_finished(summary);
  EXPECT_EQ(until_failure.exchange(0), 0);
  EXPECT_TRUE(channel.take().no_memory);
}

// What the engine's thread leaves for others: an item that there is no memory for is lost and counted.
TEST(MemoryExhaustion, InboxesLoseWhatCannotBeKept) {
  LossyInbox<int> observations(8);
  until_failure = 1;
  observations.push(1);
  EXPECT_EQ(until_failure.exchange(0), 0);
  observations.push(2);
  observations.push(3);
  EXPECT_EQ(observations.lost(), 1U);
  std::deque<int> taken;
  EXPECT_GT(fail_each([&] { observations.take_all(taken); }), -1);
  EXPECT_EQ(taken, (std::deque<int>{2, 3}));

  LockFreeInbox<int> figures(2);
  until_failure = 1;
  EXPECT_FALSE(figures.push(1));
  until_failure = 0;
  EXPECT_TRUE(figures.push(2));
  EXPECT_TRUE(figures.push(3));
  until_failure = 1;
  const auto batch = figures.take_all();
  EXPECT_EQ(until_failure.exchange(0), 1);  // taking allocates nothing
  EXPECT_EQ(std::vector<int>(batch.begin(), batch.end()), (std::vector<int>{2, 3}));
}

// Bug: a series without memory for its counters was listed, but did not exist. Removing it as the oldest one failed,
// and so did each scrape from then on.
TEST(MemoryExhaustion, ASeriesThatWasNotCreatedIsNotRemoved) {
  prometheus::Registry registry;
  DraftSeries series(registry);
  EXPECT_GT(fail_each([&] { series.add({"sql", "sql", 1}, {}); }), 10);
  const std::uint64_t latest = DraftSeries::kMaxSeries + 2;
  for (std::uint64_t version = 2; version <= latest; ++version) series.add({"sql", "sql", version}, {});
  EXPECT_EQ(series.acceptance("sql", 1).requests, 0U);
  EXPECT_EQ(series.acceptance("sql", 2).requests, 0U);
  EXPECT_EQ(series.acceptance("sql", 3).requests, 1U);
  EXPECT_EQ(series.acceptance("sql", latest).requests, 1U);
}

class ExhaustedServerTest : public HttpServerTest {
 protected:
  ExhaustedServerTest() {
    set_log_level(LogLevel::kOff);
    // What a failed allocation leaves unfinished ends with these.
    options_.header_timeout = options_.write_timeout = milliseconds(500);
    options_.idle_timeout = milliseconds(3000);
  }
  ~ExhaustedServerTest() override { set_log_level(LogLevel::kInfo); }

  // Answers on the thread that submits; what the sinks do on it may fail.
  EngineCalls calls() override {
    return {answer, [](RequestId) {}};
  }

  static void answer(const Request& request) {
    const Spared own;
    TokenDelta delta;
    delta.tokens = {7};
    delta.text = "Hello";
    delta.logprobs.resize(request.top_logprobs >= 0 ? 1 : 0);
    RequestSummary summary;
    summary.id = request.id;
    summary.reason = StopReason::kEndToken;
    summary.name = request.name;
    may_fail = true;
    request.sink->on_tokens(delta);
    request.sink->on_finished(summary);
    may_fail = false;
  }

  // Everything the server says to `request` when its n-th allocation fails; whether it came to that.
  std::pair<std::string, bool> ask_failing(const std::string& request, int n) {
    RawClient client(server_->port());
    client.send(get("/healthz"));
    EXPECT_EQ(client.read_reply().status, 200);
    until_failure = n;
    client.send(request);
    std::string all = client.read_to_end();
    return {std::move(all), until_failure.exchange(0) <= 0};
  }

  // `cut`: an answer that has begun may end early, with an error event.
  void check_each(const std::string& request, const std::string& right, bool cut = false) {
    int n = 1;
    for (int refused = 0;; ++n) {
      const auto [reply, failed] = ask_failing(request, n);
      const bool is_right = reply.starts_with("HTTP/1.1 200 ") && reply.find(right) != std::string::npos;
      const bool is_refusal =
          reply.starts_with("HTTP/1.1 503 ") && reply.find("Retry-After: 2\r\n") != std::string::npos;
      refused += is_refusal ? 1 : 0;
      const bool says_why = reply.find("the server has no memory for this answer") != std::string::npos;
      ASSERT_TRUE(is_right || is_refusal || (cut && reply.starts_with("HTTP/1.1 200 ") && says_why))
          << "n = " << n << ": " << reply;
      if (failed) continue;
      EXPECT_TRUE(is_right) << reply;
      EXPECT_GT(refused, 5);
      break;
    }
    RecordProperty("allocations", n);
  }

  // `status`: of an answer that needs no more memory; `text` stands in it.
  void check_says(const std::string& request, const std::string& status, const std::string& text = "") {
    for (int n = 1;; ++n) {
      const auto [reply, failed] = ask_failing(request, n);
      const bool is_right = reply.starts_with("HTTP/1.1 " + status + " ") && reply.find(text) != std::string::npos;
      ASSERT_TRUE(is_right || (failed && reply.starts_with("HTTP/1.1 503 "))) << "n = " << n << ": " << reply;
      if (!failed) break;
    }
  }

  std::string closing_post(const std::string& body, const std::string& path) const {
    return post(body, path, "Connection: close\r\n");
  }

  const Spared own_;
};

TEST_F(ExhaustedServerTest, TokenizeAndDetokenize) {
  start();
  check_each(closing_post(R"({"prompt":"one two three","return_token_strs":true})", "/tokenize"), "\"token_strs\":[");
  check_each(closing_post(kChat, "/tokenize"), "\"tokens\":[");
  check_each(closing_post(R"({"tokens":[300,301,302]})", "/detokenize"), "\"prompt\":");
}

TEST_F(ExhaustedServerTest, Chats) {
  start();
  check_each(closing_post(kChat, "/v1/chat/completions"), "\"Hello\"");
  check_each(closing_post(kStream, "/v1/chat/completions"), "data: [DONE]", /*cut=*/true);
}

TEST_F(ExhaustedServerTest, ChatsInAForm) {
  start();
  const std::string format =
      R"({"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object","properties":{)"
      R"("a":{"enum":["b","c"]},"d":{"type":"array","items":{"type":"integer"}}},"required":["a"]}}})";
  check_each(
      closing_post(R"({"messages":[{"role":"user","content":"hi"}],"logprobs":true,"response_format":)" + format + "}",
                   "/v1/chat/completions"),
      "\"Hello\"");
}

// Bug: the header's values were read as any JSON, and nlohmann frees a list by allocating.
TEST_F(ExhaustedServerTest, HeadersOfTargets) {
  start();
  const auto with = [&](const std::string& value) {
    return post(kChat, "/v1/chat/completions", "Connection: close\r\nX-Slipstream-SLO: " + value + "\r\n");
  };
  check_each(with("tpot=40, ttft=500"), "\"Hello\"");
  check_says(with("tpot=[[4]], ttft={}"), "400", "X-Slipstream-SLO");
}

TEST_F(ExhaustedServerTest, StreamedCompletions) {
  start();
  check_each(closing_post(R"({"prompt":"a","stream":true})", "/v1/completions"), "data: [DONE]", /*cut=*/true);
}

class ExhaustedStreamTest : public ExhaustedServerTest {
 protected:
  EngineCalls calls() override { return engine_.calls(); }
};

// Bug: where memory ran out in mid-answer, the stream was cut off without a word.
TEST_F(ExhaustedStreamTest, AStreamThatHasBegunEndsWithAnErrorEvent) {
  engine_.hold = true;
  start();
  std::string all;
  bool failed = true;
  int told = 0;
  for (int n = 1; failed; ++n) {
    RawClient client(server_->port());
    client.send(closing_post(kStream, "/v1/chat/completions"));
    const Request held = engine_.request(static_cast<std::size_t>(n - 1));
    held.sink->on_tokens({{7}, "some", {}});
    ASSERT_TRUE(client.read_until("some"));
    until_failure = n;
    held.sink->on_tokens({{8}, " more", {}});
    engine_.finish(held, StopReason::kEndToken);
    all = client.read_to_end();
    failed = until_failure.exchange(0) <= 0;
    const bool told_now = all.find("the server has no memory for this answer") != std::string::npos;
    told += told_now ? 1 : 0;
    ASSERT_NE(told_now, all.find("[DONE]") != std::string::npos) << "n = " << n << ": " << all;
    ASSERT_TRUE(all.ends_with("0\r\n\r\n")) << all;
  }
  EXPECT_NE(all.find("[DONE]"), std::string::npos) << all;
  EXPECT_GT(told, 3);
}

// Bug: memory ran out on the connection's thread while a worker admitted its call. The engine then generated an answer
// without a reader.
TEST_F(ExhaustedStreamTest, ACallThatLosesItsConnectionWhileItIsAdmittedIsCancelled) {
  engine_.hold = true;
  bool failed = false;
  engine_.on_submit = [&](const Request&) {
    const Spared worker;
    until_failure = 1;
    failed = eventually([] { return until_failure <= 0; });
  };
  start();
  RawClient client(server_->port());
  client.send(closing_post(kChat, "/v1/chat/completions"));
  client.end_sending();  // the connection's thread asks whether anybody reads, for which it allocates
  const std::string all = client.read_to_end();
  EXPECT_NE(all.find("HTTP/1.1 503 "), std::string::npos) << all;
  const RequestId id = engine_.request(0).id;
  EXPECT_TRUE(failed);
  EXPECT_TRUE(engine_.wait_for([&](const FakeEngine& engine) {
    return std::find(engine.cancelled().begin(), engine.cancelled().end(), id) != engine.cancelled().end();
  }));
}

// Bug: reading what a version says of itself ended the process.
TEST_F(ExhaustedServerTest, TheListOfPublishedDrafts) {
  const testing::TemporaryFolder folder;
  DraftStore store(folder.path() / "drafts");
  const auto staged = store.staging_folder("sql");
  testing::TinyLlama().write(staged);
  DraftMeta meta;
  meta.draft = meta.topic = "sql";
  meta.trained_requests = 308;
  store.publish(staged, meta);
  drafts_ = &store;
  start();
  check_each(get("/v1/drafts", "Connection: close\r\n"), "\"version\":1");
}

TEST_F(ExhaustedServerTest, DeletedRequests) {
  purge_ = [](const PurgeOrder& order, const std::function<void(PurgeResult)>& done) {
    done({order.request == "here" ? 1U : 0U, 0, std::nullopt});
  };
  start();
  const auto deleting = [](const std::string& id) {
    return "DELETE /v1/requests/" + id + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  };
  check_says(deleting("here"), "204");
  check_says(deleting("gone"), "404");
}

TEST_F(ExhaustedServerTest, Completions) {
  start();
  check_each(closing_post(R"({"prompt":["a","b"],"n":2,"echo":true,"logprobs":2})", "/v1/completions"), "Hello");
}

TEST_F(ExhaustedServerTest, RoutesThatAnswerFromMemory) {
  start();
  const std::string close = "Connection: close\r\n";
  check_each(get("/v1/models", close), "\"demo\"");
  check_each(get("/v1/models/demo", close), "\"demo\"");
  check_each(get("/v1/drafts", close), "\"base\":[]");
  check_each(get("/v1/topics", close), "\"python\"");
  check_each(get("/version", close), "\"version\"");
  check_each(get("/openapi.json", close), "\"openapi\"");
  check_each(get("/readyz", close), "ready");
  for (const char* probe : {"/healthz", "/health", "/ping"}) check_each(get(probe, close), "ok");
  check_each(get("/metrics", close), "slipstream:connections");
}

// Refusals are made of memory as well.
TEST_F(ExhaustedServerTest, Refusals) {
  start();
  check_says(closing_post(R"({"prompt":7})", "/tokenize"), "400", "\"prompt\"");
}

// A connection that cannot be taken is lost; the listener is not.
TEST_F(ExhaustedServerTest, ConnectionsThatCannotBeTakenAreDropped) {
  start();
  for (int n = 1;; ++n) {
    until_failure = n;
    RawClient client(server_->port());
    client.send(get("/healthz", "Connection: close\r\n"));
    const std::string reply = client.read_to_end();
    ASSERT_FALSE(client.timed_out()) << "the connection hangs";
    ASSERT_TRUE(reply.empty() || reply.starts_with("HTTP/1.1 200 ") || reply.starts_with("HTTP/1.1 503 ")) << reply;
    if (until_failure.exchange(0) > 0) break;
  }
  EXPECT_TRUE(eventually([&] { return server_->n_connections() == 0; }));
}

}  // namespace
}  // namespace slip
