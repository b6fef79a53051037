// SPDX-License-Identifier: Apache-2.0
#include "server/http/tls.h"

#include <fstream>

#include "tests/server/http_fixture.h"
#include "tests/server/tls_client.h"

namespace slip {
namespace {

class TlsTest : public HttpServerTest {
 protected:
  TlsTest() {
    folder_ = std::filesystem::temp_directory_path() / ("slip-tls-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    papers_.emplace(folder_);
    options_.tls_certificate = papers_->certificate;
    options_.tls_key = papers_->key;
  }
  ~TlsTest() override { std::filesystem::remove_all(folder_); }

  ErrorCode refusal() {
    try {
      load_tls(options_);
    } catch (const Error& error) {
      EXPECT_TRUE(error.param().starts_with("server.tls_")) << error.param();
      EXPECT_EQ(error.message().find("PRIVATE"), std::string::npos);
      return error.code();
    }
    ADD_FAILURE() << "accepted";
    return ErrorCode::kInternal;
  }

  std::filesystem::path folder_;
  std::optional<SelfSigned> papers_;
};

TEST_F(TlsTest, AnswersStreamsAndKeepsConnections) {
  start();
  EXPECT_TRUE(server_->url().starts_with("https://127.0.0.1:"));
  TlsClient client(server_->port(), papers_->certificate);
  ASSERT_TRUE(client.open());
  EXPECT_EQ(client.version(), "TLSv1.3");
  client.send(get("/healthz") + post(kChat) + post(kStream));
  ASSERT_TRUE(client.read_until("data: [DONE]\n\n"));
  EXPECT_NE(client.received.find("{\"status\":\"ok\"}"), std::string::npos);
  EXPECT_NE(client.received.find("\"content\":\"Hello\""), std::string::npos);
  client.send(get("/healthz", "Connection: close\r\n"));
  EXPECT_TRUE(client.ended_properly());
}

TEST_F(TlsTest, OldVersionsAndPlainHttpAreRefused) {
  start();
  EXPECT_TRUE(TlsClient(server_->port(), papers_->certificate, TLS1_2_VERSION).open());
  EXPECT_FALSE(TlsClient(server_->port(), papers_->certificate, TLS1_1_VERSION).open());
  EXPECT_FALSE(TlsClient(server_->port(), papers_->certificate, TLS1_VERSION).open());
  RawClient plain(server_->port());
  plain.send(get("/healthz"));
  EXPECT_EQ(plain.read_to_end().find("HTTP/1.1 200"), std::string::npos);
  EXPECT_TRUE(TlsClient(server_->port(), papers_->certificate).open()) << "others are served on";
}

TEST_F(TlsTest, AHandshakeHasADeadline) {
  options_.header_timeout = milliseconds(400);
  start();
  RawClient silent(server_->port());
  EXPECT_EQ(silent.read_to_end(), "");
  EXPECT_TRUE(eventually([&] { return server_->n_connections() == 0; }));
}

// A read that is given up must leave a TLS session that can still be written to.
TEST_F(TlsTest, SlowHeadersAreTold) {
  options_.header_timeout = kUnhurried * milliseconds(400);  // of the handshake too, which has to succeed
  start();
  TlsClient client(server_->port(), papers_->certificate);
  ASSERT_TRUE(client.open());
  client.send("GET /v1/models HTTP/1.1\r\nHost: loc");
  EXPECT_TRUE(client.read_until("HTTP/1.1 408 Request Timeout\r\n"));
  EXPECT_TRUE(client.ended_properly());
}

TEST_F(TlsTest, AnotherCertificateIsForNewConnections) {
  start();
  TlsClient before(server_->port(), papers_->certificate);
  ASSERT_TRUE(before.open());
  EXPECT_FALSE(server_->set_tls(load_tls(options_))) << "the same one again";
  const SelfSigned fresh(folder_, "fresh");
  options_.tls_certificate = fresh.certificate;
  options_.tls_key = fresh.key;
  EXPECT_TRUE(server_->set_tls(load_tls(options_)));
  EXPECT_TRUE(TlsClient(server_->port(), fresh.certificate).open());
  EXPECT_FALSE(TlsClient(server_->port(), papers_->certificate).open());
  before.send(get("/healthz"));
  EXPECT_TRUE(before.read_until("{\"status\":\"ok\"}")) << "an open one goes on";
}

TEST_F(TlsTest, GoneClientsAreNoticed) {
  engine_.hold = true;
  start();
  {
    TlsClient client(server_->port(), papers_->certificate);
    client.send(post(kStream));
    engine_.request(0);
    client.say_goodbye();
  }
  EXPECT_TRUE(engine_.wait_for([](const FakeEngine& engine) { return !engine.cancelled().empty(); }));
  EXPECT_TRUE(eventually([&] { return server_->n_connections() == 0; }));
}

TEST_F(TlsTest, ALargeAnswerArrivesWhole) {
  engine_.pieces = std::vector<std::string>(100, std::string(10'000, 'x'));
  start();
  TlsClient client(server_->port(), papers_->certificate);
  client.send(post(kStream));
  EXPECT_TRUE(client.read_until("data: [DONE]\n\n"));
  EXPECT_GE(client.received.size(), 1'000'000U);
}

TEST_F(TlsTest, KeysThatOthersCanReadAreRefused) {
  for (const mode_t mode : {0640U, 0604U}) {
    ::chmod(papers_->key.c_str(), mode);
    EXPECT_EQ(refusal(), ErrorCode::kPermission);
  }
}

// OpenSSL spoke of a null parameter.
TEST_F(TlsTest, AnEmptyFileIsNamed) {
  const std::filesystem::path empty = folder_ / "empty";
  std::ofstream(empty).flush();
  ::chmod(empty.c_str(), 0600);
  for (auto ServerOptions::*file : {&ServerOptions::tls_key, &ServerOptions::tls_certificate}) {
    ServerOptions options = options_;
    options.*file = empty;
    try {
      load_tls(options);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.message(), empty.string() + " is empty");
    }
  }
}

TEST_F(TlsTest, AnExpiredCertificateIsLogged) {
  const SelfSigned expired(folder_, "expired", /*valid_for_s=*/-60);
  options_.tls_certificate = expired.certificate;
  options_.tls_key = expired.key;
  for (const bool is_expired : {true, false}) {
    ::testing::internal::CaptureStderr();
    EXPECT_NE(load_tls(options_), nullptr);
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(said.find("expired.crt has expired") != std::string::npos, is_expired) << said;
    options_.tls_certificate = papers_->certificate;
    options_.tls_key = papers_->key;
  }
}

// OpenSSL asked for the password at the terminal: a reload waited there, and SIGTERM with it.
TEST_F(TlsTest, AnEncryptedKeyIsRefusedWithoutAQuestion) {
  for (const char* name : {"pkcs8", "traditional"}) {
    options_.tls_key = SelfSigned::encrypted(folder_ / name, name == std::string("traditional"));
    try {
      load_tls(options_);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_EQ(error.param(), "server.tls_key");
      EXPECT_NE(error.message().find(options_.tls_key.string() + " is encrypted"), std::string::npos)
          << error.message();
      EXPECT_NE(error.hint().find("openssl pkey -in"), std::string::npos) << error.hint();
    }
  }
}

TEST_F(TlsTest, WhatDoesNotFitTogetherIsRefused) {
  const SelfSigned other(folder_, "other");
  options_.tls_key = other.key;
  EXPECT_EQ(refusal(), ErrorCode::kInvalidArgument);
  options_.tls_key = papers_->certificate;
  ::chmod(papers_->certificate.c_str(), 0600);
  EXPECT_EQ(refusal(), ErrorCode::kInvalidArgument);
  options_.tls_key = papers_->key;
  options_.tls_certificate = papers_->key;
  EXPECT_EQ(refusal(), ErrorCode::kInvalidArgument);
  options_.tls_certificate.clear();
  EXPECT_EQ(refusal(), ErrorCode::kInvalidArgument);
  options_.tls_certificate = folder_ / "none";
  options_.tls_key = folder_ / "none";
  EXPECT_EQ(refusal(), ErrorCode::kNotFound);
  options_.tls_key.clear();
  options_.tls_certificate.clear();
  EXPECT_EQ(load_tls(options_), nullptr);
}

}  // namespace
}  // namespace slip
