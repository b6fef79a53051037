// SPDX-License-Identifier: Apache-2.0
// What every route has in common, and the small ones.
#include "server/openai/routes.h"

#include <regex>
#include <set>

#include "server/http/request_id.h"
#include "tests/checkpoints/temporary_folder.h"
#include "tests/checkpoints/tiny_llama.h"
#include "tests/server/http_fixture.h"

namespace slip {
namespace {

using RoutesTest = HttpServerTest;

TEST_F(RoutesTest, HeadIsGetWithoutABody) {
  start();
  const auto whole = ask(get("/v1/models"));
  RawClient client(server_->port());
  client.send("HEAD /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n" + get("/healthz"));
  ASSERT_TRUE(client.read_until("{\"status\":\"ok\"}"));
  const std::string all = client.pending();
  EXPECT_TRUE(all.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_NE(all.find("Content-Length: " + whole.headers.at("content-length") + "\r\n"), std::string::npos);
  EXPECT_EQ(all.find("\"object\""), std::string::npos) << all;
  RawClient refused(server_->port());
  refused.send("HEAD /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const std::string answer = refused.read_to_end();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 405 ")) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\n")) << "an answer to HEAD has no body";
}

TEST_F(RoutesTest, CorsIsOffByDefault) {
  start();
  const auto own = ask(get("/v1/models", "Origin: http://localhost:3000\r\n"));
  EXPECT_EQ(own.status, 200);
  EXPECT_FALSE(own.headers.contains("access-control-allow-origin"));
  const auto options = ask("OPTIONS /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(options.status, 405);
  EXPECT_EQ(options.headers.at("allow"), "GET, HEAD");
}

TEST_F(RoutesTest, ListedOriginsMayCallAndRead) {
  options_.allowed_origins = {"https://tools.example"};
  keys_.add("the-one-and-only-key");
  start();
  const std::string origin = "Origin: https://tools.example\r\n";
  const auto preflight = ask("OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" + origin +
                             "Access-Control-Request-Method: POST\r\n\r\n" + get("/healthz"));
  EXPECT_EQ(preflight.status, 204);
  EXPECT_FALSE(preflight.headers.contains("content-length"));
  EXPECT_EQ(preflight.headers.at("access-control-allow-methods"), "POST");
  EXPECT_NE(preflight.headers.at("access-control-allow-headers").find("Authorization"), std::string::npos);
  for (const auto& body : {kChat, kStream}) {
    const auto reply =
        ask(post(body, "/v1/chat/completions", origin + "Authorization: Bearer the-one-and-only-key\r\n"));
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.headers.at("access-control-allow-origin"), "https://tools.example");
    EXPECT_EQ(reply.headers.at("vary"), "Origin");
  }
  EXPECT_EQ(ask(get("/v1/models", origin)).status, 401);
  EXPECT_EQ(ask("OPTIONS /nothing HTTP/1.1\r\nHost: localhost\r\n" + origin + "\r\n").status, 404);
  const std::string foreign = "OPTIONS /v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n\r\n";
  const auto refused = ask(foreign);
  EXPECT_EQ(refused.status, 401);
  EXPECT_FALSE(refused.headers.contains("access-control-allow-origin"));
}

TEST_F(RoutesTest, RequestIdsComeBack) {
  start();
  const std::string own = "X-Request-Id: Root/1-67a.b_c:d=\r\n";
  for (const auto& bytes : {post(kChat, "/v1/chat/completions", own), post(kStream, "/v1/chat/completions", own),
                            get("/v1/models", own), get("/nothing", own)}) {
    EXPECT_EQ(ask(bytes).headers.at("x-request-id"), "Root/1-67a.b_c:d=");
  }
  EXPECT_EQ(engine_.request(0).name, "Root/1-67a.b_c:d=");
  RawClient client(server_->port());
  client.send(get("/healthz") + get("/healthz") + "rubbish\r\n\r\n");
  std::set<std::string> ids;
  for (int i = 0; i < 3; ++i) ids.insert(client.read_reply().headers.at("x-request-id"));
  EXPECT_EQ(ids.size(), 3U);
  for (const auto& id : ids) EXPECT_TRUE(is_request_id(id)) << id;
}

TEST_F(RoutesTest, BadRequestIdsAreRefused) {
  start();
  for (const std::string& bad : {std::string(129, 'x'), std::string("a b"), std::string("<script>"), std::string(""),
                                 std::string("=cmd"), std::string("a\tb"), std::string("caf\xc3\xa9")}) {
    const auto reply = ask(get("/v1/models", "X-Request-Id: " + bad + "\r\n"));
    EXPECT_EQ(reply.status, 400) << bad;
    EXPECT_EQ(error_of(reply)["param"], "X-Request-Id");
    EXPECT_NE(reply.headers.at("x-request-id"), bad);
  }
  EXPECT_EQ(ask(get("/v1/models", "X-Request-Id: a\r\nX-Request-Id: b\r\n")).status, 400);
}

TEST_F(RoutesTest, OneModelByName) {
  start();
  const auto model = json::parse(ask(get("/v1/models/alias")).body);
  EXPECT_EQ(model["id"], "alias");
  EXPECT_EQ(model["root"], "demo");
  EXPECT_EQ(ask(get("/v1/models/d%65mo?x=1")).status, 200);
  for (const char* name : {"other", "..%2fdemo", "demo/x", "%00", "demo%", "%zz", "'or 1=1--", "<b>"}) {
    const auto reply = ask(get(std::string("/v1/models/") + name));
    EXPECT_TRUE(reply.status == 404 || std::string_view(name).find(' ') != std::string_view::npos) << name;
  }
}

// The message ended at the NUL, in the middle of its sentence.
TEST_F(RoutesTest, ANulInAModelsNameIsShownEscaped) {
  start();
  const auto error = json::parse(ask(get("/v1/models/a%00b")).body)["error"];
  EXPECT_NE(error["message"].get<std::string>().find("'a\\x00b' does not exist; this server has"), std::string::npos);
}

// A number that no double holds named neither field nor place.
TEST_F(RoutesTest, ANumberOutOfRangeNamesItsFieldAndItsByte) {
  start();
  const auto reply = ask(post(R"({"temperature":1e400})"));
  EXPECT_EQ(reply.status, 400);
  const auto error = json::parse(reply.body)["error"];
  EXPECT_EQ(error["param"], "temperature");
  EXPECT_NE(error["message"].get<std::string>().find("out of range at byte"), std::string::npos);
}

TEST_F(RoutesTest, SaysItsVersion) {
  start(/*ready=*/false);
  const auto version = json::parse(ask(get("/version")).body);
  EXPECT_TRUE(std::regex_match(version["version"].get<std::string>(), std::regex("[0-9]+\\.[0-9]+\\.[0-9]+")));
}

TEST_F(RoutesTest, TokenizeCountsWhatTheEngineWouldGet) {
  start();
  ask(post(R"({"prompt":"Hello world<|end|>","max_tokens":4})", "/v1/completions"));
  auto body = json::parse(ask(post(R"({"prompt":"Hello world<|end|>","return_token_strs":true})", "/tokenize")).body);
  EXPECT_EQ(body["tokens"].get<std::vector<std::int32_t>>(), engine_.request(0).prompt);
  EXPECT_EQ(body["count"], body["tokens"].size());
  EXPECT_EQ(body["max_model_len"], 128);
  EXPECT_EQ(body["token_strs"].back(), "<|end|>");
  const json back = {{"tokens", body["tokens"]}};
  EXPECT_EQ(json::parse(ask(post(back.dump(), "/detokenize")).body)["prompt"], "Hello world<|end|>");
  ask(post(kChat));
  body = json::parse(ask(post(kChat, "/tokenize")).body);
  EXPECT_EQ(body["tokens"].get<std::vector<std::int32_t>>(), engine_.request(1).prompt);
  EXPECT_FALSE(body.contains("token_strs"));
  const auto outside = ask(post(R"({"tokens":[5,2000000]})", "/detokenize"));
  EXPECT_EQ(outside.status, 400);
  EXPECT_EQ(error_of(outside)["param"], "tokens[1]");
  EXPECT_EQ(ask(post(R"({"prompt":"x","model":"gpt-5"})", "/tokenize")).status, 404);
}

// It was refused, though vLLM's clients send it.
TEST_F(RoutesTest, TokenizeAddsSpecialTokensAsAsked) {
  tokenizer_ = Tokenizer::load(std::filesystem::path(SLIPSTREAM_SOURCE_DIR) / "tests/data/tokenizers/llama3");
  start();
  const auto tokens = [&](const std::string& more) {
    return json::parse(ask(post(R"({"prompt":"dog")" + more + "}", "/tokenize")).body)["tokens"].dump();
  };
  EXPECT_EQ(tokens(""), "[400,269,401]");
  EXPECT_EQ(tokens(R"(,"add_special_tokens":true)"), "[400,269,401]");
  EXPECT_EQ(tokens(R"(,"add_special_tokens":false)"), "[269]");
}

// Half a character and a token that spells "<|end|>" letter by letter both come back as what they are.
TEST_F(RoutesTest, DetokenizeGivesValidJsonForAnyIds) {
  start();
  const auto smile = demo_tokenizer()->encode("\xf0\x9f\x98\x80", SpecialTokens::kAsText);
  const json body = {{"tokens", {smile.front()}}};
  EXPECT_EQ(ask(post(body.dump(), "/detokenize")).status, 200);
  EXPECT_EQ(json::parse(ask(post(R"({"tokens":[]})", "/detokenize")).body)["prompt"], "");
}

TEST_F(RoutesTest, KeysHaveTheirLimits) {
  keys_.add("key-of-a-small-team", {.name = "small", .limits = {.requests_in_flight = 1, .requests_per_minute = 3}});
  keys_.add("key-of-a-large-team", {.name = "large"});
  engine_.hold = true;
  start();
  const auto with = [&](const std::string& key) {
    return post(kChat, "/v1/chat/completions", "Authorization: Bearer " + key + "\r\n");
  };
  const auto begin = std::chrono::steady_clock::now();
  RawClient held(server_->port());
  held.send(with("key-of-a-small-team"));
  const Request first = engine_.request(0);
  const auto second = ask(with("key-of-a-small-team"));
  EXPECT_EQ(second.status, 429);
  EXPECT_EQ(second.headers.at("retry-after"), "2");
  EXPECT_EQ(error_of(second)["code"], "rate_limit_exceeded");
  EXPECT_NE(error_of(second)["message"].get<std::string>().find("1 request at a time"), std::string::npos);
  EXPECT_EQ(second.body.find("key-of-a"), std::string::npos);
  engine_.answer(first);
  EXPECT_EQ(held.read_reply().status, 200);
  engine_.hold = false;
  EXPECT_EQ(ask(with("key-of-a-small-team")).status, 200);
  EXPECT_EQ(ask(with("key-of-a-small-team")).status, 200);
  const auto fourth = ask(with("key-of-a-small-team"));
  EXPECT_EQ(fourth.status, 429);
  const auto passed = std::chrono::ceil<std::chrono::seconds>(std::chrono::steady_clock::now() - begin).count();
  const int wait_s = std::stoi(fourth.headers.at("retry-after"));
  EXPECT_GE(wait_s + passed, 20) << "one request comes back each 20 s";
  EXPECT_LE(wait_s, 20);
  EXPECT_EQ(ask(with("key-of-a-large-team")).status, 200);
  EXPECT_EQ(ask(get("/v1/models", "Authorization: Bearer key-of-a-small-team\r\n")).status, 200) << "costs nothing";
}

// S13: what is added later needs a key too.
TEST_F(RoutesTest, OnlyProbesGoWithoutAKey) {
  keys_.add("the-one-and-only-key");
  start();
  for (const RouteEntry& route : routes()) {
    const std::string path(route.path);
    const auto reply = ask(route.method == "POST" ? post("{}", path) : get(path));
    const bool probe = path == "/healthz" || path == "/readyz" || path == "/health" || path == "/ping";
    EXPECT_EQ(reply.status == 401, !probe) << path;
    const auto slash = ask(route.method == "POST" ? post("{}", path + "/") : get(path + "/"));
    EXPECT_EQ(slash.status, reply.status) << path;
  }
  EXPECT_EQ(ask(get("/nothing")).status, 401);
  EXPECT_EQ(ask(get("/healthz/x")).status, 401);
}

// With several keys /metrics told each what the others' requests had accepted, by topic and draft.
TEST_F(RoutesTest, SeveralKeysMetricsAreForOperators) {
  options_.expose_acceptance = ExposeAcceptance::kNone;
  keys_.add("first-key-of-two");
  keys_.add("operators-key", {.name = "watch", .is_operator = true});
  start();
  RequestSummary summary;
  summary.figures.accepted = 3;
  metrics_.on_request(summary, {"sql", "sql", 1});
  const auto metrics_for = [&](const std::string& key) {
    return ask(get("/metrics", "Authorization: Bearer " + key + "\r\n"));
  };
  const auto refused = metrics_for("first-key-of-two");
  EXPECT_EQ(refused.status, 403);
  EXPECT_EQ(error_of(refused)["code"], "operator_only");
  EXPECT_NE(metrics_for("operators-key").body.find("accepted_tokens_total{draft=\"sql\""), std::string::npos);
  for (const char* path : {"/metrics", "/metrics/", "/metrics?x=1", "http://a/metrics"}) {
    EXPECT_EQ(ask(get(path, "Authorization: Bearer first-key-of-two\r\n")).status, 403) << path;
  }
  EXPECT_EQ(ask("HEAD /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer first-key-of-two\r\n\r\n").status, 403);
  service_->set_expose_acceptance(ExposeAcceptance::kOwn);
  EXPECT_EQ(metrics_for("first-key-of-two").status, 403) << "/metrics has no figures by key";
  service_->set_expose_acceptance(ExposeAcceptance::kAll);
  EXPECT_EQ(metrics_for("first-key-of-two").status, 200) << "the operator said that all may know";
  service_->set_expose_acceptance(ExposeAcceptance::kNone);
  ApiKeys one;
  one.add("first-key-of-two");
  gatekeeper_->set_keys(one);
  EXPECT_EQ(metrics_for("first-key-of-two").status, 200) << "nobody else's figures are there";
  gatekeeper_->set_keys({});
  EXPECT_EQ(ask(get("/metrics")).status, 200);
}

TEST_F(RoutesTest, RoutesAndMethods) {
  start();
  EXPECT_EQ(ask(get("/v1/nothing")).status, 404);
  EXPECT_EQ(ask("POST /v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n").status, 405);
  EXPECT_EQ(ask(get("/v1/%6dodels")).status, 404);
  EXPECT_EQ(ask(get("/../v1/models")).status, 404);
  const auto reply = ask(get("/v1/completions"));
  EXPECT_EQ(reply.status, 405);
  EXPECT_EQ(reply.headers.at("allow"), "POST");
  error_of(reply);
  EXPECT_EQ(ask("DELETE /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n").headers.at("allow"), "GET, HEAD");
}

// What is wrong with the store's files is for the log; the answer was a 403 that showed their path.
TEST_F(RoutesTest, AFaultOfTheDraftStoreShowsNoPath) {
  const testing::TemporaryFolder folder;
  const DraftStore store(folder.path() / "drafts");
  std::filesystem::create_symlink("/", folder.path() / "drafts/sql");
  drafts_ = &store;
  start();
  const auto reply = ask(get("/v1/drafts"));
  EXPECT_EQ(reply.status, 500);
  EXPECT_EQ(error_of(reply)["type"], "server_error");
  EXPECT_EQ(reply.body.find("drafts/sql"), std::string::npos) << reply.body;
}

// How much a version was trained tells one client how much the others sent.
TEST_F(RoutesTest, TrainingFiguresAreShownWithAcceptanceOnly) {
  const testing::TemporaryFolder folder;
  DraftStore store(folder.path() / "drafts");
  const auto staged = store.staging_folder("sql");
  testing::TinyLlama().write(staged);
  DraftMeta meta;
  meta.draft = meta.topic = "sql";
  meta.trained_requests = 308;
  meta.optimizer_steps = 60;
  store.publish(staged, meta);
  drafts_ = &store;
  start();
  for (const auto expose : {ExposeAcceptance::kOwn, ExposeAcceptance::kAll}) {
    service_->set_expose_acceptance(expose);
    const json drafts = json::parse(ask(get("/v1/drafts")).body)["data"];
    const json& version = drafts.at(1).at("versions").at(0);
    EXPECT_EQ(version["version"], 1);
    for (const char* key : {"trained_requests", "optimizer_steps", "heldout_alpha"}) {
      EXPECT_EQ(version.contains(key), expose == ExposeAcceptance::kAll) << key;
    }
  }
}

// A base draft had heldout_alpha 0 and p_value 1, which read like a measurement.
TEST_F(RoutesTest, FiguresOfAVersionThatWasNotMeasuredAreNull) {
  const testing::TemporaryFolder folder;
  DraftStore store(folder.path() / "drafts");
  for (const char* reason : {"base", "canary", "rollback"}) {
    const auto staged = store.staging_folder("sql");
    testing::TinyLlama().write(staged);
    DraftMeta meta;
    meta.draft = meta.topic = "sql";
    meta.reason = reason;
    meta.heldout_alpha = std::string(reason) == "canary" ? 0.5 : 0;
    store.publish(staged, meta);
  }
  drafts_ = &store;
  start();
  service_->set_expose_acceptance(ExposeAcceptance::kAll);
  const json versions = json::parse(ask(get("/v1/drafts")).body)["data"].at(1).at("versions");
  ASSERT_EQ(versions.size(), 3U);
  for (const char* key : {"heldout_alpha_before", "heldout_alpha", "p_value"}) {
    for (const json& version : versions) {
      EXPECT_EQ(version.at(key).is_null(), version.at("reason") != "canary") << version;
    }
  }
  EXPECT_EQ(versions.at(1).at("heldout_alpha"), 0.5);
}

// Base URLs and frameworks differ in whether a slash stands at the end; it was a 404.
TEST_F(RoutesTest, ATrailingSlashIsTheSameRoute) {
  start();
  EXPECT_EQ(ask(get("/v1/models/")).body, ask(get("/v1/models")).body);
  EXPECT_EQ(json::parse(ask(get("/v1/models/alias/")).body)["id"], "alias");
  EXPECT_EQ(ask(get("/v1/drafts//?x=1/")).status, 200);
  EXPECT_EQ(ask(post(kChat, "/v1/chat/completions/")).status, 200);
  EXPECT_EQ(ask(post(R"({"prompt":"x"})", "/tokenize/")).status, 200);
  EXPECT_EQ(ask(post(R"({"tokens":[5]})", "/detokenize/")).status, 200);
  EXPECT_EQ(route_label("/v1/completions/"), "/v1/completions");
  EXPECT_EQ(path_of("/"), "/");
  EXPECT_EQ(path_of("///?a"), "/");
  EXPECT_EQ(ask(get("/")).status, 404);
  EXPECT_EQ(ask(get("/v1/embeddings/")).status, 400);
  EXPECT_EQ(ask(get("//v1/models")).status, 404);
}

// What clients of OpenAI's API may ask for: that it is not here, why, and what is instead. What comes later is a 400.
TEST_F(RoutesTest, AnAbsentRouteIsNamedWithTheOnesThatExist) {
  start();
  for (const char* path : {"/v1/responses",
                           "/v1/responses/resp_1/cancel",
                           "/v1/embeddings",
                           "/v1/audio/speech",
                           "/v1/images/generations",
                           "/v1/moderations",
                           "/v1/assistants",
                           "/v1/threads/t/runs",
                           "/v1/files",
                           "/v1/files/f/content",
                           "/v1/batches",
                           "/v1/fine_tuning/jobs",
                           "/v1/rerank",
                           "/rerank",
                           "/v1/score",
                           "/v1/realtime",
                           "/v1/vector_stores",
                           "/v1/chat/completions/chatcmpl-1",
                           "/v1/messages",
                           "/chat/completions",
                           "/v1/v1/models"}) {
    for (const auto& reply : {ask(post("{}", path)), ask(get(path)), ask(get(std::string(path) + "?limit=1"))}) {
      const bool comes_later =
          path == std::string_view("/v1/embeddings") || std::string_view(path).starts_with("/v1/resp");
      EXPECT_EQ(reply.status, comes_later ? 400 : 404) << path;
      const auto error = error_of(reply);
      EXPECT_EQ(error["code"], "unknown_url");
      const auto message = error["message"].get<std::string>();
      EXPECT_NE(message.find(" is not served: "), std::string::npos) << message;
      for (const auto& route : routes()) EXPECT_NE(message.find(route.path), std::string::npos) << message;
    }
  }
  EXPECT_EQ(error_of(ask(get("/v1/embeddings")))["type"], "invalid_request_error");
  const auto message = error_of(ask(get("/v1/embeddingsx")))["message"].get<std::string>();
  EXPECT_TRUE(message.starts_with("no such route; ")) << message;
}

TEST_F(RoutesTest, NoAbsentRouteHidesOneOfOurs) {
  for (const auto& route : routes()) {
    EXPECT_FALSE(refuse_route(route.method, route.path)) << route.path;
    EXPECT_NE(route_label(route.path), "other");
  }
}

}  // namespace
}  // namespace slip
