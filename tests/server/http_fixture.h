// SPDX-License-Identifier: Apache-2.0
// A real server on a real port, called over raw sockets and backed by a fake engine.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "common/error.h"
#include "server/http_server.h"
#include "tests/common/patience.h"
#include "tests/server/fake_engine.h"
#include "tests/server/raw_client.h"

namespace slip {
using nlohmann::json;
using std::chrono::milliseconds;
using testing::eventually;

inline const std::string kChat = R"({"messages":[{"role":"user","content":"hi"}]})";
inline const std::string kStream = R"({"messages":[{"role":"user","content":"hi"}],"stream":true})";

// The factor of deadlines that a test's own client meets at one request and misses at another. A busy machine can keep
// a thread waiting for seconds, and a client that is late by that would be taken for one that is slow on purpose.
inline constexpr int kUnhurried = testing::kPatience > 1 ? 10 : 1;

inline std::shared_ptr<const Tokenizer> demo_tokenizer() {
  static const auto tokenizer =
      Tokenizer::load(std::filesystem::path(SLIPSTREAM_SOURCE_DIR) / "checkpoints/demo/target");
  return tokenizer;
}

class HttpServerTest : public ::testing::Test {
 protected:
  // No deadline passes unless a test sets a shorter one: on a busy machine a client may be late with what it sends.
  HttpServerTest() {
    options_.port = 0;
    options_.heartbeat = milliseconds(100);
    options_.write_timeout = options_.header_timeout = std::chrono::minutes(10);
    options_.body_timeout = options_.idle_timeout = std::chrono::minutes(10);
    options_.retry_after_s = 2;
  }
  ~HttpServerTest() override {
    if (server_) server_->stop();
    engine_.end();
  }

  void start(bool ready = true) {
    service_.emplace(options_, metrics_);
    gatekeeper_.emplace(options_, keys_);
    quotas_.emplace(keys_);
    server_.emplace(*service_, *gatekeeper_, *quotas_);
    server_->start();
    if (ready) open();
  }
  void open() {
    const auto folder = std::filesystem::path(SLIPSTREAM_SOURCE_DIR) / "checkpoints/demo/target";
    auto model = std::make_shared<ServedModel>();
    model->names = {"demo", "alias"};
    model->system_fingerprint = "fp_0123";
    model->tokenizer = tokenizer_;
    model->chat_template = std::make_shared<const ChatTemplate>(ChatTemplate::load(folder));
    model->max_positions = max_positions_;
    model->end_ids = {1};
    const TopicTable topics(topics_);
    model->router = router_ = std::make_shared<Router>(topics, RouterOptions{}, seeded_classifier(topics));
    for (std::uint32_t i = 0; i < 3; ++i) {
      model->live_drafts.push_back(std::make_shared<LiveDraft>(DraftId{i}, i == 0   ? "unknown"
                                                                           : i == 1 ? "sql"
                                                                                    : "code"));
    }
    model->drafts = drafts_;
    model->max_waiting = max_waiting_;
    model->engine = calls();
    model->purge = purge_;
    service_->open(model);
  }

  virtual EngineCalls calls() { return engine_.calls(); }

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

  ServerOptions options_;
  std::vector<Topic> topics_ = {{"sql", {}, {}}, {"code", {"python"}, {}}};  // set it before open()
  std::shared_ptr<Router> router_;                                           // available after open()
  std::shared_ptr<const Tokenizer> tokenizer_ = demo_tokenizer();            // set it before open()
  std::int32_t max_positions_ = 128;                                         // set it before open()
  std::size_t max_waiting_ = 256;                                            // likewise
  const DraftStore* drafts_ = nullptr;                                       // set it before open()
  PurgeFunction purge_;                                                      // set it before open()
  ApiKeys keys_;
  Metrics metrics_;
  FakeEngine engine_;
  std::optional<Service> service_;
  std::optional<Gatekeeper> gatekeeper_;
  std::optional<KeyQuotas> quotas_;
  std::optional<HttpServer> server_;
};

}  // namespace slip
