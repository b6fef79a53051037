// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <ctime>

#include "server/http_server.h"

#include "tests/common/patience.h"
#include "tests/server/http_fixture.h"

namespace slip {
namespace {

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
}

TEST_F(HttpServerTest, AResponseFormatReachesTheEngineAsAGrammar) {
  start();
  const auto ask_for = [&](const std::string& format) {
    return ask(post(R"({"messages":[{"role":"user","content":"hi"}],"response_format":)" + format + "}"));
  };
  EXPECT_EQ(ask_for(R"({"type":"text"})").status, 200);
  EXPECT_EQ(engine_.request(0).sampling.grammar, nullptr);
  EXPECT_EQ(ask_for(R"({"type":"json_object"})").status, 200);
  EXPECT_EQ(engine_.request(1).sampling.grammar, json_object_grammar());
  const std::string schema = R"({"type":"json_schema","json_schema":{"name":"n","schema":{"type":"array","items":)";
  EXPECT_EQ(ask_for(schema + R"({"type":"integer"}}}})").status, 200);
  EXPECT_NE(engine_.request(2).sampling.grammar, nullptr);
  const auto refused = ask_for(schema + R"({"type":"integer","not":{}}}}})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(error_of(refused)["param"], "response_format.json_schema.schema.items.not");
}

TEST_F(HttpServerTest, PromptsMayBeSeveralAndTokenIds) {
  start();
  const auto reply = ask(post(R"({"prompt":[[5,6,7],[8]],"n":2,"echo":true,"max_tokens":4})", "/v1/completions"));
  EXPECT_EQ(reply.status, 200);
  const auto body = json::parse(reply.body);
  ASSERT_EQ(body["choices"].size(), 4U);
  EXPECT_EQ(body["choices"][3]["text"], demo_tokenizer()->decode({8}) + "Hello");
  EXPECT_EQ(body["usage"]["prompt_tokens"], 4);
  EXPECT_EQ(engine_.request(1).prompt, (std::vector<std::int32_t>{5, 6, 7}));
  EXPECT_EQ(engine_.request(1).choice, 1U);
  EXPECT_EQ(engine_.request(2).prompt, std::vector<std::int32_t>{8});
  EXPECT_EQ(engine_.request(2).choice, 0U);
}

// A text is scored as lm-eval does it: the prompt's entries first, then the answer's, if there is any.
TEST_F(HttpServerTest, AnEchoWithLogprobsScoresThePrompt) {
  engine_.logprobs = {{7, -1, {}}};
  engine_.prompt_logprobs = {{5, std::nanf(""), {}}, {6, -2, {{9, -0.5F}}}};
  start();
  const auto ask_for = [&](const std::string& fields) {
    return ask(post(R"({"prompt":[5,6],"echo":true,"logprobs":1,)" + fields + "}", "/v1/completions"));
  };
  const auto choice = json::parse(ask_for(R"("max_tokens":2)").body)["choices"][0];
  EXPECT_TRUE(engine_.request(0).score_prompt);
  EXPECT_EQ(choice["logprobs"]["token_logprobs"], json::parse("[null,-2.0,-1.0,-1.0]"));
  EXPECT_EQ(choice["logprobs"]["top_logprobs"][1].size(), 2U);
  const auto none = json::parse(ask_for(R"("max_tokens":0)").body)["choices"][0];
  EXPECT_EQ(engine_.request(1).max_tokens, 0);
  EXPECT_EQ(none["logprobs"]["token_logprobs"], json::parse("[null,-2.0]"));
  EXPECT_EQ(none["text"], demo_tokenizer()->decode(std::vector<std::int32_t>{5, 6}));
  const auto streamed = ask_for(R"("max_tokens":0,"stream":true)").body;
  EXPECT_NE(streamed.find(R"("token_logprobs":[null)"), std::string::npos) << streamed;
  EXPECT_TRUE(streamed.ends_with("data: [DONE]\n\n"));
  ask(post(R"({"prompt":[5,6],"echo":true,"max_tokens":0})", "/v1/completions"));
  EXPECT_FALSE(engine_.request(3).score_prompt) << "nobody asked";
}

TEST_F(HttpServerTest, ScoresAreBounded) {
  max_positions_ = 4096;
  start();
  const auto ask_for = [&](std::size_t n_tokens, const std::string& fields) {
    const json body = json::array({std::vector<int>(n_tokens, 5), std::vector<int>(n_tokens, 6)});
    return ask(post(R"({"prompt":)" + body.dump() + R"(,"n":16,"max_tokens":4,)" + fields + "}", "/v1/completions"));
  };
  EXPECT_EQ(ask_for(2048, R"("echo":true,"logprobs":3)").status, 200) << "2 times 2048 times 16 times 4";
  const auto refused = ask_for(2049, R"("echo":true,"logprobs":3)");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(error_of(refused)["param"], "logprobs");
  EXPECT_EQ(ask_for(2049, R"("logprobs":3)").status, 200);
  EXPECT_EQ(ask_for(2049, R"("echo":true)").status, 200);
}

// Bug: the prompt was repeated for each choice outside every limit of memory, so 4 MB times 128.
TEST_F(HttpServerTest, EchoesAreBounded) {
  options_.max_answer_bytes = 5000;
  max_positions_ = 4096;
  start();
  const auto ask_for = [&](int n, const std::string& fields) {
    return ask(
        post(R"({"prompt":")" + std::string(1000, 'a') + R"(","max_tokens":4,"n":)" + std::to_string(n) + fields + "}",
             "/v1/completions"));
  };
  const std::string echo = R"(,"echo":true)";
  EXPECT_EQ(ask_for(5, echo).status, 200);
  for (const std::string& fields : {echo, echo + R"(,"stream":true)"}) {
    const auto refused = ask_for(6, fields);
    EXPECT_EQ(refused.status, 400);
    EXPECT_EQ(error_of(refused)["param"], "echo");
    const auto message = error_of(refused)["message"].get<std::string>();
    for (const char* part : {"6000 bytes", "over 5000", "server.max_answer_bytes", "fewer choices"}) {
      EXPECT_NE(message.find(part), std::string::npos) << message;
    }
  }
  EXPECT_EQ(ask_for(6, "").status, 200);
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

TEST_F(HttpServerTest, APromptThatDoesNotFitSaysBothNumbers) {
  start();
  const auto ask_with = [&](std::size_t n_tokens, const std::string& fields) {
    const json prompt = std::vector<int>(n_tokens, 5);
    return ask(post(R"({"prompt":)" + prompt.dump() + fields + "}", "/v1/completions"));
  };
  for (const std::string& fields : {std::string(), std::string(R"(,"max_tokens":-1)")}) {
    const auto error = error_of(ask_with(300, fields));
    EXPECT_EQ(error["code"], "context_length_exceeded");
    EXPECT_EQ(error["param"], "prompt");
    const auto message = error["message"].get<std::string>();
    EXPECT_NE(message.find("128"), std::string::npos) << message;
    EXPECT_NE(message.find("300"), std::string::npos) << message;
    EXPECT_EQ(error_of(ask_with(128, fields))["code"], "context_length_exceeded") << "no room for an answer";
    EXPECT_EQ(ask_with(127, fields).status, 200);
  }
  EXPECT_EQ(ask_with(128, R"(,"echo":true,"max_tokens":0)").status, 200) << "nothing is answered";
  EXPECT_EQ(ask_with(129, R"(,"echo":true,"max_tokens":0)").status, 400);
}

// Clients ask for more than there is room for, or for -1; both were a 400 although the prompt fits.
TEST_F(HttpServerTest, MoreTokensThanTheContextHasLeftAreThoseItHasLeft) {
  start();
  for (const char* wanted : {"1000", "2147483647", "-1", "126", "125", "125.0"}) {
    const std::size_t before = engine_.requests().size();
    ask(post(R"({"prompt":[5,6,7],"max_tokens":)" + std::string(wanted) + "}", "/v1/completions"));
    EXPECT_EQ(engine_.request(before).max_tokens, 125) << wanted;
  }
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
  for (const char* path : {"/health", "/ping"}) EXPECT_EQ(ask(get(path)).status, 503) << path;
  EXPECT_EQ(ask(post(kChat)).status, 503);
  open();
  EXPECT_EQ(ask(get("/readyz")).status, 200);
  for (const char* path : {"/health", "/ping"}) EXPECT_EQ(ask(get(path)).body, R"({"status":"ok"})") << path;
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

TEST_F(HttpServerTest, ForeignHostsAndOriginsAreRefused) {
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

// Content-Encoding was ignored: a compressed body was "not valid JSON", which does not tell what to change.
TEST_F(HttpServerTest, CompressedBodiesAreRefusedByTheHeadersName) {
  start();
  const std::string body = R"({"prompt":"x","max_tokens":2})";
  const auto encoded = [&](const std::string& fields) {
    return ask("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + fields +
               "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  };
  for (const char* coding : {"gzip", "identity, gzip", "br", "x"}) {
    const auto reply = encoded("Content-Encoding: " + std::string(coding) + "\r\n");
    EXPECT_EQ(reply.status, 415) << coding;
    EXPECT_EQ(error_of(reply)["param"], "Content-Encoding") << coding;
  }
  EXPECT_EQ(encoded("Content-Encoding: identity\r\nContent-Encoding: gzip\r\n").status, 400);
  for (const char* fields : {"Content-Encoding: Identity\r\n", "Content-Encoding:\r\n", ""}) {
    EXPECT_EQ(encoded(fields).status, 200) << fields;
  }
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

TEST_F(HttpServerTest, BadBodiesAre400InOneShape) {
  start();
  for (const std::string& body : {std::string("{"), std::string("[]"), std::string(R"({"a":1,"a":2})"),
                                  std::string(200'000, '['), std::string(R"({"messages":[]})")}) {
    const auto reply = ask(post(body));
    EXPECT_EQ(reply.status, 400) << body.substr(0, 20);
    EXPECT_EQ(error_of(reply)["type"], "invalid_request_error");
  }
  EXPECT_EQ(error_of(ask(post(R"({"messages":[{"role":"user","content":"x"}],"n":0})")))["param"], "n");
}

// S9: a megabyte that is slow to tokenise keeps nobody else waiting.
TEST_F(HttpServerTest, LongPromptsAreTokenisedOffTheIoThreads) {
  start();
  RawClient slow(server_->port()), quick(server_->port());
  const json body = {{"messages", {{{"role", "user"}, {"content", std::string(1'000'000, 'a')}}}}};
  const auto begin = std::chrono::steady_clock::now();
  const std::clock_t begin_of_work = std::clock();  // processor time: its thread gives way to all other load
  slow.send(post(body.dump()));
  for (int i = 0; i < 5; ++i) {
    quick.send(get("/healthz"));
    EXPECT_EQ(quick.read_reply().status, 200);
  }
  const auto others = std::chrono::steady_clock::now() - begin;
  const auto reply = slow.read_reply();
  const std::clock_t own = std::clock() - begin_of_work;
  EXPECT_EQ(error_of(reply)["code"], "context_length_exceeded");
  EXPECT_LT(others, testing::kPatience * milliseconds(500));
  EXPECT_LT(own, testing::kPatience * 5 * CLOCKS_PER_SEC);
}

TEST_F(HttpServerTest, HiddenAcceptanceIsNotInDraftsEither) {
  options_.expose_acceptance = ExposeAcceptance::kNone;
  start();
  EXPECT_EQ(ask(get("/v1/drafts")).body.find("acceptance"), std::string::npos);
  EXPECT_EQ(ask(post(kChat)).body.find("accepted"), std::string::npos);
  service_->set_expose_acceptance(ExposeAcceptance::kOwn);
  EXPECT_EQ(ask(get("/v1/drafts")).body.find("acceptance"), std::string::npos);
  EXPECT_NE(ask(post(kChat)).body.find("accepted"), std::string::npos);
}

TEST_F(HttpServerTest, OtherKeysCountFromTheNextRequestOn) {
  keys_.add("first-key");
  start();
  RawClient client(server_->port());
  client.send(get("/v1/models", "Authorization: Bearer first-key\r\n"));
  EXPECT_EQ(client.read_reply().status, 200);
  ApiKeys next;
  next.add("second-key");
  gatekeeper_->set_keys(next);
  client.send(get("/v1/models", "Authorization: Bearer first-key\r\n"));
  EXPECT_EQ(client.read_reply().status, 401);
  EXPECT_EQ(ask(get("/v1/models", "Authorization: Bearer second-key\r\n")).status, 200);
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
