// SPDX-License-Identifier: Apache-2.0
// A real server on a real port, with raw sockets in front and a fake engine behind.
#include "server/http_server.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "common/error.h"
#include "tests/server/fake_engine.h"
#include "tests/server/raw_client.h"

namespace slip {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

const std::string kChat = R"({"messages":[{"role":"user","content":"hi"}]})";
const std::string kStream = R"({"messages":[{"role":"user","content":"hi"}],"stream":true})";

std::shared_ptr<const Tokenizer> demo_tokenizer() {
  static const auto tokenizer =
      Tokenizer::load(std::filesystem::path(SLIPSTREAM_SOURCE_DIR) / "checkpoints/demo/target");
  return tokenizer;
}

class HttpServerTest : public ::testing::Test {
 protected:
  HttpServerTest() {
    options_.port = 0;
    options_.heartbeat = milliseconds(100);
    options_.write_timeout = milliseconds(500);
    options_.header_timeout = milliseconds(400);
    options_.idle_timeout = milliseconds(3000);
    options_.retry_after_s = 2;
  }
  ~HttpServerTest() override {
    if (server_) server_->stop();
    engine_.end();
  }

  void start(bool ready = true) {
    service_.emplace(options_, metrics_);
    gatekeeper_.emplace(options_, keys_);
    server_.emplace(*service_, *gatekeeper_);
    server_->start();
    if (ready) open();
  }
  void open() {
    const auto folder = std::filesystem::path(SLIPSTREAM_SOURCE_DIR) / "checkpoints/demo/target";
    auto model = std::make_shared<ServedModel>();
    model->names = {"demo", "alias"};
    model->tokenizer = demo_tokenizer();
    model->chat_template = std::make_shared<const ChatTemplate>(ChatTemplate::load(folder));
    model->max_positions = 128;
    model->end_ids = {1};
    model->topics = TopicTable({{"sql", {}}, {"code", {"python"}}});
    for (std::uint32_t i = 0; i < 3; ++i) {
      model->slots.push_back(std::make_shared<DraftSlot>(DraftId{i}, i == 0 ? "unknown" : i == 1 ? "sql" : "code"));
    }
    model->engine = engine_.door();
    service_->open(model);
  }

  std::string post(const std::string& body, const std::string& path = "/v1/chat/completions",
                   const std::string& headers = "") const {
    return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + headers +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  std::string get(const std::string& path, const std::string& headers = "") const {
    return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n";
  }
  RawReply ask(const std::string& bytes) {
    RawClient client(server_->port());
    client.send(bytes);
    return client.read_reply();
  }
  json error_of(const RawReply& reply) {
    const auto error = json::parse(reply.body).at("error");
    for (const char* key : {"message", "type", "param", "code"}) EXPECT_TRUE(error.contains(key)) << reply.body;
    return error;
  }
  template <class Condition>
  bool eventually(Condition condition) {
    for (int i = 0; i < 500 && !condition(); ++i) std::this_thread::sleep_for(milliseconds(10));
    return condition();
  }

  ServerOptions options_;
  ApiKeys keys_;
  Metrics metrics_;
  FakeEngine engine_;
  std::optional<Service> service_;
  std::optional<Gatekeeper> gatekeeper_;
  std::optional<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersChat) {
  start();
  const auto reply = ask(post(kChat));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.at("content-type"), "application/json");
  const auto body = json::parse(reply.body);
  EXPECT_EQ(body["choices"][0]["message"]["content"], "Hello");
  EXPECT_EQ(body["model"], "demo");
  EXPECT_TRUE(body["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_EQ(body["metrics"]["speculative_decoding"]["topic"], "unknown");
}

TEST_F(HttpServerTest, StreamsServerSentEvents) {
  start();
  const auto reply = ask(post(kStream));
  EXPECT_EQ(reply.status, 200);
  EXPECT_TRUE(reply.headers.at("content-type").starts_with("text/event-stream"));
  EXPECT_EQ(reply.headers.at("cache-control"), "no-cache");
  EXPECT_EQ(reply.headers.at("x-accel-buffering"), "no");
  EXPECT_TRUE(reply.body.starts_with("data: {"));
  EXPECT_TRUE(reply.body.ends_with("data: [DONE]\n\n"));
  EXPECT_NE(reply.body.find("\"role\":\"assistant\""), std::string::npos);
}

TEST_F(HttpServerTest, CompletionsToo) {
  start();
  const auto reply = ask(post(R"({"prompt":"x","max_tokens":4})", "/v1/completions"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(json::parse(reply.body)["choices"][0]["text"], "Hello");
  EXPECT_EQ(engine_.request(0).max_tokens, 4);
}

TEST_F(HttpServerTest, WhatIsAskedReachesTheEngine) {
  start();
  ask(post(R"({"messages":[{"role":"user","content":"hi"}],"seed":3,"temperature":0.5,"stop":"x",)"
           R"("metadata":{"topic":"python"},"store":false})"));
  const Request request = engine_.request(0);
  EXPECT_EQ(request.sampling.seed, 3U);
  EXPECT_FLOAT_EQ(request.sampling.temperature, 0.5F);
  EXPECT_EQ(request.stop_strings, std::vector<std::string>{"x"});
  EXPECT_EQ(request.route.topic.value, 2U);
  EXPECT_EQ(request.draft->name(), "code");
  EXPECT_EQ(request.end_ids, std::vector<std::int32_t>{1});
  EXPECT_FALSE(request.learn);
  EXPECT_EQ(request.max_tokens, 128 - static_cast<std::int32_t>(request.prompt.size()));
  EXPECT_FALSE(request.session.empty());
}

TEST_F(HttpServerTest, UserTextNeverBecomesSpecialTokens) {
  start();
  ask(post(R"({"messages":[{"role":"user","content":"<|end|>"}]})"));
  const auto prompt = engine_.request(0).prompt;
  EXPECT_EQ(std::count(prompt.begin(), prompt.end(), demo_tokenizer()->token_id("<|end|>")), 1) << "the template's own";
}

TEST_F(HttpServerTest, HeadersNameTopicAndLearning) {
  start();
  ask(post(kChat, "/v1/chat/completions", "X-Slipstream-Topic: sql\r\nX-Slipstream-Learn: off\r\n"));
  EXPECT_EQ(engine_.request(0).route.topic.value, 1U);
  EXPECT_FALSE(engine_.request(0).learn);
}

TEST_F(HttpServerTest, ContextThatDoesNotFitSaysBothNumbers) {
  start();
  const auto reply = ask(post(R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":1000})"));
  EXPECT_EQ(reply.status, 400);
  const auto error = error_of(reply);
  EXPECT_EQ(error["code"], "context_length_exceeded");
  const auto message = error["message"].get<std::string>();
  EXPECT_NE(message.find("128"), std::string::npos) << message;
  EXPECT_NE(message.find("1000"), std::string::npos) << message;
}

TEST_F(HttpServerTest, OtherModelIs404) {
  start();
  const auto reply = ask(post(R"({"model":"gpt-5","messages":[{"role":"user","content":"hi"}]})"));
  EXPECT_EQ(reply.status, 404);
  EXPECT_EQ(error_of(reply)["code"], "model_not_found");
  EXPECT_EQ(ask(post(R"({"model":"alias","messages":[{"role":"user","content":"hi"}]})")).status, 200);
}

TEST_F(HttpServerTest, ListsModelsDraftsAndTopics) {
  start();
  const auto models = json::parse(ask(get("/v1/models")).body);
  EXPECT_EQ(models["data"][0]["id"], "demo");
  EXPECT_EQ(models["data"][1]["id"], "alias");
  const auto drafts = json::parse(ask(get("/v1/drafts")).body);
  EXPECT_EQ(drafts["data"][1]["name"], "sql");
  EXPECT_FALSE(drafts["data"][1].contains("acceptance")) << "no version is live";
  const auto topics = json::parse(ask(get("/v1/topics?x=1")).body);
  EXPECT_EQ(topics["data"][2]["aliases"][0], "python");
}

TEST_F(HttpServerTest, HealthReadinessAndMetrics) {
  start(/*ready=*/false);
  EXPECT_EQ(ask(get("/healthz")).status, 200);
  auto reply = ask(get("/readyz"));
  EXPECT_EQ(reply.status, 503);
  EXPECT_NE(reply.body.find("loading"), std::string::npos);
  EXPECT_EQ(ask(post(kChat)).status, 503);
  open();
  EXPECT_EQ(ask(get("/readyz")).status, 200);
  EXPECT_EQ(ask(post(kChat)).status, 200);
  reply = ask(get("/metrics"));
  EXPECT_TRUE(reply.headers.at("content-type").starts_with("text/plain"));
  EXPECT_NE(reply.body.find(R"(slipstream:http_requests_total{route="/v1/chat/completions",status="503"} 1)"),
            std::string::npos);
  EXPECT_NE(reply.body.find("slipstream:ready 1"), std::string::npos);
}

TEST_F(HttpServerTest, DrainingRefusesNewWorkAndFinishesOld) {
  engine_.hold = true;
  start();
  RawClient client(server_->port());
  client.send(post(kStream));
  const Request held = engine_.request(0);
  service_->drain();
  const auto ready = ask(get("/readyz"));
  EXPECT_EQ(ready.status, 503);
  EXPECT_NE(ready.body.find("draining"), std::string::npos);
  const auto refused = ask(post(kChat));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.at("retry-after"), "2");
  EXPECT_TRUE(eventually([&] { return service_->n_active == 1; }));
  engine_.answer(held);
  const auto reply = client.read_reply();
  EXPECT_TRUE(reply.body.ends_with("data: [DONE]\n\n"));
  EXPECT_TRUE(eventually([&] { return service_->n_active == 0; }));
}

TEST_F(HttpServerTest, FullQueueIs429WithRetryAfter) {
  engine_.full = true;
  start();
  for (const auto& body : {kChat, kStream}) {
    const auto reply = ask(post(body));
    EXPECT_EQ(reply.status, 429);
    EXPECT_EQ(reply.headers.at("retry-after"), "2");
    EXPECT_EQ(error_of(reply)["type"], "rate_limit_error");
  }
}

TEST_F(HttpServerTest, StrangersAreKeptOut) {
  start();
  const auto with_host = [](const std::string& host) {
    return "GET /v1/models HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
  };
  EXPECT_EQ(ask(with_host("evil.example")).status, 421);
  EXPECT_EQ(ask(with_host("127.0.0.1:1")).status, 200);
  EXPECT_EQ(ask("GET /v1/models HTTP/1.1\r\n\r\n").status, 400);
  EXPECT_EQ(ask("GET /v1/models HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n").status, 400);
  EXPECT_EQ(ask(get("/v1/models", "Origin: https://evil.example\r\n")).status, 403);
  EXPECT_EQ(ask(get("/v1/models", "Origin: http://localhost:3000\r\n")).status, 200);
  const auto typed =
      ask("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
          "Content-Length: 2\r\n\r\n{}");
  EXPECT_EQ(typed.status, 415);
  error_of(typed);
}

TEST_F(HttpServerTest, KeysAreAsked) {
  keys_.add("the-one-and-only-key");
  start();
  const auto refused = ask(get("/v1/models"));
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(error_of(refused)["code"], "invalid_api_key");
  EXPECT_EQ(ask(get("/v1/models", "Authorization: Bearer the-one-and-only-key\r\n")).status, 200);
  EXPECT_EQ(ask(get("/healthz")).status, 200);
  EXPECT_EQ(ask(post(kChat, "/v1/chat/completions", "Authorization: Bearer the-one-and-only-key\r\n")).status, 200);
  EXPECT_NE(engine_.request(0).tenant, TenantId{});
}

TEST_F(HttpServerTest, RoutesAndMethods) {
  start();
  EXPECT_EQ(ask(get("/v1/nothing")).status, 404);
  EXPECT_EQ(ask(get("/v1/%6dodels")).status, 404);
  EXPECT_EQ(ask(get("/../v1/models")).status, 404);
  const auto reply = ask(get("/v1/completions"));
  EXPECT_EQ(reply.status, 405);
  EXPECT_EQ(reply.headers.at("allow"), "POST");
  error_of(reply);
  EXPECT_EQ(ask("DELETE /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n").headers.at("allow"), "GET");
  RawClient head(server_->port());
  head.send("HEAD /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(head.read_to_end().ends_with("\r\n\r\n")) << "an answer to HEAD has no body";
}

TEST_F(HttpServerTest, BadBodiesAre400InOneShape) {
  start();
  for (const std::string& body : {std::string("{"), std::string("[]"), std::string(R"({"a":1,"a":2})"),
                                  std::string(200'000, '['), std::string(R"({"messages":[]})")}) {
    const auto reply = ask(post(body));
    EXPECT_EQ(reply.status, 400) << body.substr(0, 20);
    EXPECT_EQ(error_of(reply)["type"], "invalid_request_error");
  }
  EXPECT_EQ(error_of(ask(post(R"({"messages":[{"role":"user","content":"x"}],"n":2})")))["param"], "n");
}

TEST_F(HttpServerTest, HeadersAreBounded) {
  start();
  const auto reply = ask(get("/v1/models", "X-Long: " + std::string(20'000, 'x') + "\r\n"));
  EXPECT_EQ(reply.status, 431);
  error_of(reply);
  EXPECT_EQ(ask(get("/v1/models", "X-Long: " + std::string(15'000, 'x') + "\r\n")).status, 200);
}

TEST_F(HttpServerTest, BodiesAreBounded) {
  options_.max_body_bytes = 10'000;
  start();
  const auto declared = ask(post(std::string(10'001, ' ')));
  EXPECT_EQ(declared.status, 413);
  error_of(declared);
  std::string chunked =
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 11; ++i) chunked += "400\r\n" + std::string(1024, ' ') + "\r\n";
  EXPECT_EQ(ask(chunked + "0\r\n\r\n").status, 413);
  std::string fits = kChat;
  fits.resize(10'000, ' ');
  EXPECT_EQ(ask(post(fits)).status, 200);
}

TEST_F(HttpServerTest, ExpectContinueIsAnswered) {
  start();
  RawClient client(server_->port());
  const auto request = post(kChat, "/v1/chat/completions", "Expect: 100-continue\r\n");
  const auto body_at = request.find("\r\n\r\n") + 4;
  client.send(request.substr(0, body_at));
  EXPECT_TRUE(client.read_until("HTTP/1.1 100 Continue\r\n\r\n"));
  client.send(request.substr(body_at));
  EXPECT_TRUE(client.read_until("Hello"));
}

TEST_F(HttpServerTest, RubbishIs400) {
  start();
  EXPECT_EQ(ask("\x16\x03\x01 not http at all\r\n\r\n").status, 400);
  EXPECT_EQ(ask("GET / HTTP/9.9\r\n\r\n").status, 400);
  EXPECT_EQ(ask("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
                .status,
            400);
  EXPECT_EQ(ask("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n").status, 400);
}

TEST_F(HttpServerTest, SlowHeadersEndTheConnection) {
  start();
  RawClient client(server_->port());
  client.send("GET /v1/models HTTP/1.1\r\nHost: loc");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(client.read_to_end(), "");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST_F(HttpServerTest, ConnectionsAreKeptAndPipelined) {
  start();
  RawClient client(server_->port());
  client.send(get("/healthz") + post(kChat) + post(kStream) + get("/v1/models") + get("/nothing") + get("/healthz"));
  EXPECT_EQ(client.read_reply().status, 200);
  EXPECT_NE(client.read_reply().body.find("Hello"), std::string::npos);
  EXPECT_TRUE(client.read_reply().body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(json::parse(client.read_reply().body)["object"], "list");
  EXPECT_EQ(client.read_reply().status, 404);
  EXPECT_EQ(client.read_reply().status, 200);
}

TEST_F(HttpServerTest, ConnectionCloseIsHonoured) {
  start();
  RawClient client(server_->port());
  client.send(get("/healthz", "Connection: close\r\n"));
  EXPECT_EQ(client.read_reply().headers.at("connection"), "close");
  EXPECT_FALSE(client.receive());
}

TEST_F(HttpServerTest, Http10StreamsUntilTheEnd) {
  start();
  RawClient client(server_->port());
  client.send(
      "POST /v1/chat/completions HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: " +
      std::to_string(kStream.size()) + "\r\n\r\n" + kStream);
  const auto reply = client.read_reply();
  EXPECT_FALSE(reply.headers.contains("transfer-encoding"));
  EXPECT_TRUE(reply.body.ends_with("data: [DONE]\n\n"));
}

TEST_F(HttpServerTest, SilentStreamsHaveHeartbeats) {
  engine_.hold = true;
  start();
  RawClient client(server_->port());
  client.send(post(kStream));
  EXPECT_TRUE(client.read_until(": waiting\n\n"));
  EXPECT_NE(client.pending().find("text/event-stream"), std::string::npos);
  engine_.answer(engine_.request(0));
  EXPECT_TRUE(client.read_until("[DONE]"));
}

TEST_F(HttpServerTest, GoneClientCancelsItsRequest) {
  engine_.hold = true;
  start();
  std::size_t expected = 0;
  for (const auto& body : {kChat, kStream}) {
    for (const bool abrupt : {false, true}) {
      RawClient client(server_->port());
      client.send(post(body));
      const RequestId id = engine_.request(expected++).id;
      abrupt ? client.reset() : client.close();
      EXPECT_TRUE(engine_.wait_for([&](const FakeEngine& engine) {
        const auto& ids = engine.cancelled();
        return std::find(ids.begin(), ids.end(), id) != ids.end();
      })) << body
          << abrupt;
    }
  }
  EXPECT_TRUE(eventually([&] { return service_->n_active == 0; }));
  EXPECT_TRUE(eventually([&] { return server_->n_connections() == 0; }));
  EXPECT_NE(metrics_.text().find("slipstream:clients_gone_total 4"), std::string::npos) << metrics_.text();
}

TEST_F(HttpServerTest, GoneClientIsNoticedBehindPipelinedBytes) {
  engine_.hold = true;
  start();
  RawClient client(server_->port());
  client.send(post(kChat));
  engine_.request(0);
  client.send(get("/healthz"));  // unread bytes hide an end of file from a read
  std::this_thread::sleep_for(milliseconds(50));
  client.close();
  EXPECT_TRUE(engine_.wait_for([](const FakeEngine& engine) { return !engine.cancelled().empty(); }));
}

// A client that reads nothing: buffers fill, no byte moves for write_timeout, the request is cancelled.
TEST_F(HttpServerTest, StuckClientLosesItsRequest) {
  engine_.hold = true;
  start();
  RawClient client(server_->port(), /*receive_buffer=*/4096);
  client.send(post(kStream));
  const Request held = engine_.request(0);
  for (int i = 0; i < 300; ++i) {
    held.sink->on_tokens({{7}, std::string(10'000, 'x'), {}});
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_TRUE(engine_.wait_for([](const FakeEngine& engine) { return !engine.cancelled().empty(); }));
  EXPECT_TRUE(eventually([&] { return server_->n_connections() == 0; }));
}

// The same amount to a client that reads slowly arrives whole: only no progress counts.
TEST_F(HttpServerTest, SlowClientGetsEverything) {
  engine_.pieces = std::vector<std::string>(100, std::string(10'000, 'x'));
  start();
  RawClient client(server_->port(), /*receive_buffer=*/4096);
  client.send(post(kStream));
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(milliseconds(100));
    client.receive();
  }
  const auto reply = client.read_reply();
  EXPECT_TRUE(reply.body.ends_with("data: [DONE]\n\n"));
  EXPECT_GE(reply.body.size(), 1'000'000U);
}

TEST_F(HttpServerTest, AnAnswerBeyondItsBufferEnds) {
  options_.max_answer_bytes = 5000;
  engine_.hold = true;
  start();
  RawClient client(server_->port());
  client.send(post(kChat));
  const Request held = engine_.request(0);
  held.sink->on_tokens({{7}, std::string(5001, 'x'), {}});
  EXPECT_EQ(client.read_reply().status, 500);
  EXPECT_TRUE(engine_.wait_for([](const FakeEngine& engine) { return !engine.cancelled().empty(); }));
}

TEST_F(HttpServerTest, FailuresAreAStatusBeforeTheFirstByteAndAnEventAfter) {
  engine_.failure = Error(ErrorCode::kInternal, "the step failed: secret");
  engine_.pieces = {};
  start();
  for (const auto& body : {kChat, kStream}) {
    const auto reply = ask(post(body));
    EXPECT_EQ(reply.status, 500);
    EXPECT_EQ(error_of(reply)["type"], "server_error");
    EXPECT_EQ(reply.body.find("secret"), std::string::npos);
  }
  engine_.hold = true;
  RawClient client(server_->port());
  client.send(post(kStream));
  const Request held = engine_.request(2);
  held.sink->on_tokens({{7}, "some", {}});
  ASSERT_TRUE(client.read_until("some"));
  engine_.finish(held, StopReason::kFailed);
  const std::string all = client.read_to_end();
  EXPECT_NE(all.find("data: {\"error\":"), std::string::npos);
  EXPECT_EQ(all.find("[DONE]"), std::string::npos);
}

TEST_F(HttpServerTest, ConnectionsAreCapped) {
  options_.max_connections = 2;
  start();
  RawClient first(server_->port()), second(server_->port());
  ASSERT_TRUE(eventually([&] { return server_->n_connections() == 2; }));
  RawClient third(server_->port());
  third.send(get("/healthz"));
  EXPECT_FALSE(third.receive());
  first.close();
  ASSERT_TRUE(eventually([&] { return server_->n_connections() == 1; }));
  EXPECT_EQ(ask(get("/healthz")).status, 200);
}

// Out of descriptors, accept fails; the listener waits and goes on.
TEST_F(HttpServerTest, ListeningSurvivesAcceptErrors) {
  start();
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const int lowest_free = ::dup(0);
  ::close(lowest_free);
  const rlimit tight{static_cast<rlim_t>(lowest_free) + 1, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &tight);
  RawClient client(server_->port());  // takes the last descriptor, so the server's end gets none
  std::this_thread::sleep_for(milliseconds(60));
  EXPECT_EQ(server_->n_connections(), 0);
  ::setrlimit(RLIMIT_NOFILE, &before);
  client.send(get("/healthz"));
  EXPECT_EQ(client.read_reply().status, 200);
}

// S9: a megabyte that is slow to tokenise keeps nobody else waiting.
TEST_F(HttpServerTest, LongPromptsAreTokenisedOffTheIoThreads) {
  start();
  RawClient slow(server_->port()), quick(server_->port());
  const json body = {{"messages", {{{"role", "user"}, {"content", std::string(1'000'000, 'a')}}}}};
  const auto begin = std::chrono::steady_clock::now();
  slow.send(post(body.dump()));
  for (int i = 0; i < 5; ++i) {
    quick.send(get("/healthz"));
    EXPECT_EQ(quick.read_reply().status, 200);
  }
  const auto others = std::chrono::steady_clock::now() - begin;
  const auto reply = slow.read_reply();
  const auto own = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(error_of(reply)["code"], "context_length_exceeded");
  EXPECT_LT(others, milliseconds(500));
  EXPECT_LT(own, std::chrono::seconds(5));
}

TEST_F(HttpServerTest, HiddenAcceptanceIsNotInDraftsEither) {
  options_.expose_acceptance = ExposeAcceptance::kNone;
  start();
  EXPECT_EQ(ask(get("/v1/drafts")).body.find("acceptance"), std::string::npos);
  EXPECT_EQ(ask(post(kChat)).body.find("accepted"), std::string::npos);
}

TEST_F(HttpServerTest, APortInUseIsSaid) {
  start();
  ServerOptions same = options_;
  same.port = server_->port();
  Service other(same, metrics_);
  try {
    HttpServer second(other, *gatekeeper_);
    FAIL() << "two servers on one port";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kConflict);
    EXPECT_NE(error.message().find(std::to_string(same.port)), std::string::npos);
  }
}

TEST_F(HttpServerTest, ManyAtOnce) {
  start();
  std::vector<std::jthread> clients;
  std::atomic<int> good{0};
  for (int i = 0; i < 16; ++i) {
    clients.emplace_back([&, i] {
      RawClient client(server_->port());
      for (int round = 0; round < 10; ++round) {
        client.send(post((i + round) % 2 == 0 ? kChat : kStream));
        if (client.read_reply().status == 200) ++good;
      }
    });
  }
  clients.clear();
  EXPECT_EQ(good, 160);
}

}  // namespace
}  // namespace slip
