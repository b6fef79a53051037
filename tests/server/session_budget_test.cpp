// SPDX-License-Identifier: Apache-2.0
// The memory that bodies and answers may take together.
#include "server/session.h"

#include "tests/server/http_fixture.h"

namespace slip {
namespace {

using SessionBudgetTest = HttpServerTest;

TEST_F(SessionBudgetTest, AnAnswerBeyondItsBufferEnds) {
  options_.max_answer_bytes = 5000;
  engine_.hold = true;
  start();
  RawClient client(server_->port());
  client.send(post(kChat));
  const Request held = engine_.request(0);
  held.sink->on_tokens({{7}, std::string(5001, 'x'), {}});
  const auto reply = client.read_reply();
  EXPECT_EQ(reply.status, 400);
  EXPECT_NE(error_of(reply)["message"].get<std::string>().find("server.max_answer_bytes"), std::string::npos);
  EXPECT_TRUE(engine_.wait_for([](const FakeEngine& engine) { return !engine.cancelled().empty(); }));
}

// Bug: a client that streamed was told to stream.
TEST_F(SessionBudgetTest, AStreamBeyondItsBufferIsToldToReadFaster) {
  options_.max_answer_bytes = 5000;
  options_.heartbeat = std::chrono::minutes(10);  // it would be the first byte of a stream that fails late
  engine_.hold = true;
  start();
  RawClient client(server_->port());
  client.send(post(kStream));
  engine_.request(0).sink->on_tokens({{7}, std::string(5001, 'x'), {}});
  const auto reply = client.read_reply();
  EXPECT_EQ(reply.status, 400);
  const auto message = error_of(reply)["message"].get<std::string>();
  EXPECT_NE(message.find("read the stream faster"), std::string::npos) << message;
  EXPECT_EQ(message.find("stream it"), std::string::npos) << message;
}

// It ran to its end and was a 503 with Retry-After then, so that clients asked for all of it again.
TEST_F(SessionBudgetTest, AnAnswerThatFitsIntoNoBudgetIsNoReasonToTryAgain) {
  options_.max_body_bytes = options_.max_answer_bytes = 1 << 18;
  options_.max_buffered_bytes = 1 << 19;
  engine_.hold = true;
  start();
  RawClient client(server_->port());
  client.send(post(kChat));
  const Request held = engine_.request(0);
  held.sink->on_tokens({{7}, std::string(200'000, '\x01'), {}});  // six bytes each in JSON
  engine_.finish(held, StopReason::kLength);
  const auto reply = client.read_reply();
  EXPECT_EQ(reply.status, 400);
  EXPECT_FALSE(reply.headers.contains("retry-after"));
  EXPECT_NE(error_of(reply)["message"].get<std::string>().find("server.max_buffered_bytes"), std::string::npos);
}

// What one answer cannot have while it runs is no reason to try again either: 16 choices with 20 logprobs each ended in
// a 503 with Retry-After, however idle the server was.
TEST_F(SessionBudgetTest, AnAnswerThatFillsTheBudgetByItselfIsNoReasonToTryAgain) {
  options_.max_body_bytes = 1 << 18;
  options_.max_answer_bytes = 1 << 20;
  options_.max_buffered_bytes = (1 << 18) + (1 << 20);
  engine_.hold = true;
  start();
  RawClient client(server_->port());
  client.send(post(R"({"messages":[{"role":"user","content":"a"}],"n":4})"));
  for (std::size_t choice = 0; choice < 4; ++choice) {
    engine_.request(choice).sink->on_tokens({{7}, std::string(400'000, 'x'), {}});
  }
  const auto reply = client.read_reply();
  EXPECT_EQ(reply.status, 400);
  EXPECT_FALSE(reply.headers.contains("retry-after"));
  EXPECT_NE(error_of(reply)["message"].get<std::string>().find("server.max_buffered_bytes"), std::string::npos);
}

// Bug: the parts of an answer that is not streamed are small, so it took what is kept for short requests.
TEST_F(SessionBudgetTest, AnAnswerThatGrowsInSmallPartsLeavesShortRequestsTheirRoom) {
  constexpr std::size_t kPartBytes = 100'000;
  engine_.hold = true;
  start();
  MemoryBudget& memory = service_->memory();
  MemoryBudget::Reservation others(memory);
  ASSERT_TRUE(others.resize(memory.most_at_once() - kPartBytes * 3 / 2));
  RawClient client(server_->port());
  client.send(post(kChat));
  const Request held = engine_.request(0);
  held.sink->on_tokens({{7}, std::string(kPartBytes, 'x'), {}});
  std::this_thread::sleep_for(milliseconds(50));  // the first part is taken by itself
  held.sink->on_tokens({{7}, std::string(kPartBytes, 'x'), {}});
  ASSERT_TRUE(engine_.wait_for([](const FakeEngine& engine) { return !engine.cancelled().empty(); }));
  EXPECT_EQ(client.read_reply().status, 503);
  EXPECT_TRUE(eventually([&] { return memory.used() == others.bytes(); }));
}

// Bug: a finished answer gave its room back and reserved up to twice as much, so it was thrown away as a 503 where
// others had taken the rest.
TEST_F(SessionBudgetTest, AFinishedAnswerKeepsItsRoom) {
  constexpr std::size_t kBytes = 300'000;
  engine_.hold = true;
  start();
  MemoryBudget& memory = service_->memory();
  MemoryBudget::Reservation others(memory);
  ASSERT_TRUE(others.resize(memory.most_at_once() - kBytes - 8192));
  RawClient client(server_->port());
  client.send(post(kChat));
  const Request held = engine_.request(0);
  held.sink->on_tokens({{7}, std::string(kBytes, 'x'), {}});
  engine_.finish(held, StopReason::kEndToken);
  const auto reply = client.read_reply();
  EXPECT_EQ(reply.status, 200);
  EXPECT_NE(reply.body.find(std::string(kBytes, 'x')), std::string::npos);
  EXPECT_TRUE(eventually([&] { return memory.used() == others.bytes(); }));
}

// 150 bodies that never ended held 620 MiB.
TEST_F(SessionBudgetTest, UnfinishedBodiesStayWithinTheBudget) {
  options_.max_body_bytes = 1 << 20;
  options_.max_answer_bytes = 1 << 19;
  options_.max_buffered_bytes = 4 << 20;
  start();
  const MemoryBudget& memory = service_->memory();
  const std::string request = post(std::string(1'000'000, ' '));
  std::vector<std::unique_ptr<RawClient>> clients;
  int n_refused = 0;
  for (int i = 0; i < 10; ++i) {
    const std::size_t used = memory.used();
    clients.push_back(std::make_unique<RawClient>(server_->port()));
    clients.back()->send(request.substr(0, 900'000));
    const bool taken_or_refused = eventually([&] {
      clients.back()->receive_now();
      return memory.used() >= used + 1'000'000 || !clients.back()->pending().empty();
    });
    ASSERT_TRUE(taken_or_refused);
    EXPECT_LE(memory.used(), options_.max_buffered_bytes);
    if (clients.back()->pending().empty()) continue;
    ++n_refused;
    const auto refusal = clients.back()->read_reply();
    EXPECT_EQ(refusal.status, 503);
    EXPECT_EQ(refusal.headers.at("retry-after"), "2");
    error_of(refusal);
  }
  EXPECT_EQ(n_refused, 8);
  EXPECT_EQ(ask(post(kChat)).status, 200) << "a short request has room of its own";
  EXPECT_NE(ask(get("/metrics")).body.find("slipstream:buffered_bytes 2000"), std::string::npos);
  clients.clear();
  EXPECT_TRUE(eventually([&] { return memory.used() == 0; }));
  EXPECT_EQ(ask(post(std::string(1'000'000, ' '))).status, 400);
}

// 60 clients with 4 MB each took 344 MiB where 256 MiB are allowed: bodies took all of them, and tokenising one took up
// to 112 MiB more.
TEST_F(SessionBudgetTest, LargeBodiesLeaveRoomForTheWorkOnOne) {
  start();
  const MemoryBudget& memory = service_->memory();
  const std::size_t largest = options_.max_body_bytes;
  const std::string head =
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
      std::to_string(largest) + "\r\n\r\n";
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 70; ++i) {
    clients.push_back(std::make_unique<RawClient>(server_->port()));
    clients.back()->send(head);
  }
  const bool taken_or_refused = eventually([&] {
    std::size_t n_refused = 0;
    for (const auto& client : clients) {
      client->receive_now();
      n_refused += client->pending().starts_with("HTTP/1.1 503 ") ? 1 : 0;
    }
    return n_refused + memory.used() / largest == clients.size();
  });
  ASSERT_TRUE(taken_or_refused);
  EXPECT_LE(memory.used() + 28 * largest, options_.max_buffered_bytes);
  EXPECT_EQ(memory.used(), 35 * largest);
  EXPECT_EQ(ask(post(kChat)).status, 200) << "a short request has room of its own";
  clients.clear();
  EXPECT_TRUE(eventually([&] { return memory.used() == 0; }));
}

TEST_F(SessionBudgetTest, TheSmallestBudgetTakesTheLargestBody) {
  options_.max_buffered_bytes = std::uint64_t{options_.max_body_bytes} + options_.max_answer_bytes;
  start();
  EXPECT_EQ(service_->memory().bytes(), options_.max_buffered_bytes);
  std::string body = kChat;
  body.resize(options_.max_body_bytes, ' ');
  EXPECT_EQ(ask(post(body)).status, 200);
}

TEST_F(SessionBudgetTest, ABodyOfUnknownLengthIsCountedAsItGrows) {
  options_.max_body_bytes = 1 << 20;
  options_.max_answer_bytes = 1 << 10;
  options_.max_buffered_bytes = (1 << 20) + (1 << 18);
  start();
  const std::string head =
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: "
      "chunked\r\n\r\n";
  const std::string chunk = "10000\r\n" + std::string(65'536, ' ') + "\r\n";
  RawClient first(server_->port());
  first.send(head);
  for (int i = 0; i < 8; ++i) first.send(chunk);
  EXPECT_TRUE(eventually([&] { return service_->memory().used() == options_.max_body_bytes; }));
  RawClient second(server_->port());
  second.send(head + chunk + chunk);
  EXPECT_EQ(second.read_reply().status, 503);
  first.send("0\r\n\r\n");
  EXPECT_EQ(first.read_reply().status, 400);
  EXPECT_TRUE(eventually([&] { return service_->memory().used() == 0; }));
}

// 60 clients that did not read the answers of large /tokenize took 3.3 GiB.
TEST_F(SessionBudgetTest, AnswersThatAreNotReadStayWithinTheBudget) {
  options_.max_answer_bytes = 16 << 20;
  options_.max_buffered_bytes = 32 << 20;
  start();
  const MemoryBudget& memory = service_->memory();
  const std::string request =
      post(R"({"return_token_strs":true,"prompt":")" + std::string(1'000'000, '9') + "\"}", "/tokenize");
  std::vector<std::unique_ptr<RawClient>> clients;
  int n_refused = 0;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(std::make_unique<RawClient>(server_->port(), /*receive_buffer=*/4096));
    clients.back()->send(request);
    ASSERT_TRUE(clients.back()->receive());
    n_refused += clients.back()->pending().starts_with("HTTP/1.1 503 ") ? 1 : 0;
    EXPECT_LE(memory.used(), options_.max_buffered_bytes);
  }
  EXPECT_GE(n_refused, 1);
  EXPECT_LT(n_refused, 6);
  EXPECT_EQ(ask(post(kChat)).status, 200);
  clients.clear();
  EXPECT_TRUE(eventually([&] { return memory.used() == 0; }));
}

// Half of the answers are streamed. One that finds no room ends with a 503.
TEST_F(SessionBudgetTest, ChatsThatAreNotReadStayWithinTheBudget) {
  constexpr std::size_t kClients = 12, kBytes = 3'000'000;
  options_.max_body_bytes = 1 << 20;
  options_.max_answer_bytes = 4 << 20;
  options_.max_buffered_bytes = 16 << 20;
  engine_.hold = true;
  start();
  const MemoryBudget& memory = service_->memory();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (std::size_t i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<RawClient>(server_->port(), /*receive_buffer=*/4096));
    clients.back()->send(post(i % 2 == 0 ? kChat : kStream));
    const Request held = engine_.request(i);
    held.sink->on_tokens({{7}, std::string(kBytes, 'x'), {}});
    EXPECT_LE(memory.used(), options_.max_buffered_bytes);
  }
  ASSERT_TRUE(engine_.wait_for([](const FakeEngine& engine) { return engine.cancelled().size() >= 2; }));
  EXPECT_LT(engine_.cancelled().size(), kClients);
  for (std::size_t i = 0; i < kClients; ++i) engine_.finish(engine_.request(i), StopReason::kEndToken);
  std::size_t n_taken = 0;
  for (const auto& client : clients) {
    ASSERT_TRUE(client->read_until("\r\n"));
    const bool is_taken = client->pending().starts_with("HTTP/1.1 200 ");
    n_taken += is_taken ? 1 : 0;
    EXPECT_TRUE(is_taken || client->pending().starts_with("HTTP/1.1 503 ")) << client->pending().substr(0, 300);
  }
  EXPECT_GE(n_taken, 1U);
  EXPECT_LT(n_taken, kClients);
  clients.clear();
  EXPECT_TRUE(eventually([&] { return memory.used() == 0; }));
}

// It took 25 MB for a prompt of 4 MB, whatever the bound.
TEST_F(SessionBudgetTest, TokensBeyondTheBoundOfAnAnswerAreRefused) {
  options_.max_answer_bytes = 5000;
  start();
  const std::string words = std::string(4000, '9');
  for (const bool spelled : {false, true}) {
    const auto refusal =
        ask(post(R"({"prompt":")" + words + R"(","return_token_strs":)" + (spelled ? "true}" : "false}"), "/tokenize"));
    EXPECT_EQ(refusal.status, 400);
    EXPECT_NE(refusal.body.find("5000 bytes, server.max_answer_bytes"), std::string::npos) << refusal.body;
  }
  EXPECT_EQ(ask(post(R"({"prompt":"9 9"})", "/tokenize")).status, 200);
}

}  // namespace
}  // namespace slip
