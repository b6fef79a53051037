// SPDX-License-Identifier: Apache-2.0
// Which draft a request gets: by its label, else by its text; and what the router learns from which requests.
#include <algorithm>

#include "router/router.h"
#include "tests/server/http_fixture.h"

namespace slip {
namespace {

const std::string kQuery = "select the name of each customer from the table of orders";
const std::string kFunction = "def reverse(text): return the text reversed in python";

class RoutingTest : public HttpServerTest {
 protected:
  RoutingTest() {
    topics_ = {{"sql", {}, {"select the id from table customer", "count the orders of each customer in the table"}},
               {"code", {"python"}, {"def add(a, b): return a + b", "write a python function that sorts a list"}},
               {"unknown", {}, {"hello, how are you today?", "tell me a story about the sea"}}};
  }
  // The figures of an answer to a chat of these messages.
  json figures_of_chat(const json& messages, const std::string& topic = "", const json& more = json::object()) {
    json body = {{"messages", messages}};
    body.update(more);
    if (!topic.empty()) body["metadata"] = {{"topic", topic}};
    return ask_for(body, "/v1/chat/completions");
  }
  json figures_of(const std::string& prompt, const std::string& topic = "", const json& more = json::object()) {
    return figures_of_chat(json::array({user(prompt)}), topic, more);
  }
  json ask_for(const json& body, const std::string& path) {
    const auto reply = ask(post(body.dump(), path));
    EXPECT_EQ(reply.status, 200) << reply.body;
    return json::parse(reply.body)["metrics"]["speculative_decoding"];
  }
  static json user(const std::string& text) { return {{"role", "user"}, {"content", text}}; }
  static json says(const std::string& role, const std::string& text) { return {{"role", role}, {"content", text}}; }
};

TEST_F(RoutingTest, WithoutALabelTheTextDecidesAndTheAnswerSaysSo) {
  start();
  auto figures = figures_of(kQuery);
  EXPECT_EQ(figures["topic"], "sql");
  EXPECT_EQ(figures["topic_source"], "inferred");
  EXPECT_EQ(figures["draft"], "sql");
  const Request request = engine_.request(0);
  EXPECT_EQ(request.route.topic, TopicId{1});
  EXPECT_EQ(request.route.source, TopicSource::kInferred);
  EXPECT_EQ(request.draft->name(), "sql");
  EXPECT_TRUE(request.learn) << "a topic inferred with confidence is trained on";
  figures = ask_for({{"prompt", kFunction}, {"max_tokens", 8}}, "/v1/completions");
  EXPECT_EQ(figures["topic"], "code");
  figures = figures_of("good morning");
  EXPECT_EQ(figures["topic"], "unknown");
  EXPECT_EQ(figures["topic_source"], "none");
  EXPECT_EQ(figures["draft"], "unknown");
}

TEST_F(RoutingTest, HowTokensAreProposedReachesTheEngine) {
  start();
  figures_of(kQuery, "", {{"speculative", {{"max_tokens", 2}, {"proposer", "prompt_lookup"}}}});
  figures_of(kQuery, "", {{"speculative", {{"enabled", false}}}});
  figures_of(kQuery);
  EXPECT_EQ(engine_.request(0).k, 2);
  EXPECT_EQ(engine_.request(0).propose_by, ProposeBy::kPromptLookup);
  EXPECT_EQ(engine_.request(1).k, 0);
  EXPECT_FALSE(engine_.request(2).k);
}

TEST_F(RoutingTest, TheLimitsOfATreeReachTheEngine) {
  start();
  figures_of(kQuery, "", {{"speculative", {{"tree", {{"nodes", 5}, {"width", 2}}}}}});
  figures_of(kQuery);
  EXPECT_EQ(engine_.request(0).tree, (TreeLimits{.nodes = 5, .width = 2}));
  EXPECT_EQ(engine_.request(1).tree, TreeLimits{});
}

TEST_F(RoutingTest, APriorityReachesTheEngine) {
  start();
  figures_of(kQuery, "", {{"priority", 7}});
  figures_of(kQuery);
  EXPECT_EQ(engine_.request(0).priority, 7);
  EXPECT_EQ(engine_.request(1).priority, 0);
}

TEST_F(RoutingTest, ALabelWins) {
  start();
  const auto figures = figures_of(kQuery, "python");
  EXPECT_EQ(figures["topic"], "code");
  EXPECT_EQ(figures["topic_source"], "label");
  EXPECT_EQ(figures_of(kQuery, "unknown")["topic_source"], "label");
  const auto unconfigured = figures_of("count the orders of each customer in the table", "orders");
  EXPECT_EQ(unconfigured["topic"], "sql") << "a label nobody configured is read as text";
  EXPECT_EQ(unconfigured["topic_source"], "inferred");
}

TEST_F(RoutingTest, TheLastQuestionCounts) {
  start();
  const json before = says("user", kFunction), answer = says("assistant", "def reverse(text): return text[::-1]");
  EXPECT_EQ(figures_of_chat({says("system", kFunction), before, answer, user(kQuery)})["topic"], "sql");
  EXPECT_EQ(figures_of_chat({user(kQuery), says("assistant", "select name"), user(kFunction)})["topic"], "code");
  EXPECT_EQ(figures_of_chat(json::array({says("system", kQuery)}))["topic"], "unknown") << "nobody asked anything";
}

TEST_F(RoutingTest, TheRouterLearnsOnlyFromLabelledRequestsThatMayBeLearnedFrom) {
  start();
  figures_of(kQuery);
  figures_of(kQuery, "customer-table");
  figures_of(kQuery, "sql", {{"store", false}});
  EXPECT_EQ(router_->lessons(), 0U);
  figures_of("an invoice for the warehouse", "sql");
  EXPECT_EQ(router_->lessons(), 1U);
  for (int i = 0; i < 5; ++i) figures_of("an invoice for the warehouse", "sql");
  EXPECT_EQ(figures_of("the invoice of a warehouse")["topic"], "sql");
}

TEST_F(RoutingTest, ARefusedRequestIsNotLearnedFrom) {
  engine_.full = true;
  start();
  EXPECT_EQ(ask(post(R"({"messages":[{"role":"user","content":"select"}],"metadata":{"topic":"sql"}})")).status, 429);
  EXPECT_EQ(router_->lessons(), 0U);
}

}  // namespace
}  // namespace slip
