// SPDX-License-Identifier: Apache-2.0
// Speeds that requests ask for by name: who may, and what answer, metrics and ledger say of them.
#include <nlohmann/json.hpp>

#include "tests/cli/serve_fixture.h"

namespace slip {
namespace {

class ServeTiersTest : public ServeTest {
 protected:
  ServeTiersTest() {
    std::ofstream(folder_ / "c.toml") << "[server]\napi_keys_file = \"" << keys_.string()
                                      << "\"\n[slo]\ntiers = [\"soon: e2e=3600000\", \"fast: tpot=0.001\"]\n";
    write_keys("soon");
  }
  void write_keys(const std::string& tier) const {
    std::ofstream(keys_) << "a-key-that-may-ask slo_tiers=" << tier
                         << "\na-key-that-may-not\nthe-operators-key operator=true\n";
    ::chmod(keys_.c_str(), 0600);
  }
  std::vector<std::string> arguments() const {
    auto all = usual();
    all.insert(all.end(), {"-c", (folder_ / "c.toml").string()});
    return all;
  }
  static std::string with_key(std::string bytes, const std::string& key) {
    return bytes.insert(bytes.find("Host:"), "Authorization: Bearer " + key + "\r\n");
  }
  static RawReply chat(std::uint16_t port, const std::string& key, const std::string& tier) {
    return ask(port, with_key(chat_bytes("What is 2 + 3?", 8, R"(,"service_tier":")" + tier + R"(")"), key));
  }

  std::filesystem::path keys_ = folder_ / "keys";
};

TEST_F(ServeTiersTest, AKeyGetsTheSpeedThatItMayAskFor) {
  Program program(folder_, arguments());
  const auto port = program.port();
  ASSERT_NE(port, 0) << program.log();
  const auto soon = chat(port, "a-key-that-may-ask", "soon");
  ASSERT_EQ(soon.status, 200) << soon.body;
  const auto answer = nlohmann::json::parse(soon.body), slo = answer["metrics"]["slo"];
  EXPECT_EQ(answer["service_tier"], "soon");
  EXPECT_EQ(slo["tier"], "soon");
  EXPECT_EQ(slo["e2e_ms"], 3'600'000);
  EXPECT_GT(slo["measured_e2e_ms"], 0);
  EXPECT_EQ(slo["met"], true);
  EXPECT_EQ(chat(port, "a-key-that-may-ask", "auto").status, 200) << "a hint";
  for (const auto& refused : {chat(port, "a-key-that-may-ask", "fast"), chat(port, "a-key-that-may-not", "soon")}) {
    EXPECT_EQ(refused.status, 403);
    EXPECT_EQ(nlohmann::json::parse(refused.body)["error"]["param"], "service_tier") << refused.body;
  }
  const auto unknown = chat(port, "a-key-that-may-ask", "now");
  EXPECT_EQ(unknown.status, 400);
  EXPECT_NE(unknown.body.find("it has soon, fast"), std::string::npos) << unknown.body;
  const auto metrics = ask(port, with_key("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "the-operators-key"));
  EXPECT_NE(metrics.body.find(R"(slipstream:slo_requests_total{met="true",tier="soon"} 1)"), std::string::npos);
  EXPECT_EQ(program.stop(), 0);
  EXPECT_EQ(count("SELECT requests FROM slo WHERE slo_tier = 'soon' AND slo_e2e_ms = 3600000"), 1);
}

// A speed that cannot be had is served as fast as can be, unless the operator refuses it.
TEST_F(ServeTiersTest, AnUnattainableSpeedIsRefusedWhereTheOperatorChoseThat) {
  write_keys("soon,fast");
  for (const bool refuses : {false, true}) {
    if (refuses) std::ofstream(folder_ / "c.toml", std::ios::app) << "admission = \"refuse\"\n";
    Program program(folder_, arguments());
    const auto port = program.port();
    ASSERT_NE(port, 0) << program.log();
    EXPECT_EQ(chat(port, "a-key-that-may-ask", "fast").status, 200) << "nothing is known of its speed yet";
    for (int i = 0; i < 4; ++i) EXPECT_EQ(chat(port, "a-key-that-may-ask", "soon").status, 200);
    const auto fast = chat(port, "a-key-that-may-ask", "fast");
    EXPECT_EQ(fast.status, refuses ? 503 : 200) << fast.body;
    if (refuses) {
      const auto error = nlohmann::json::parse(fast.body)["error"];
      EXPECT_EQ(error["code"], "slo_unattainable");
      EXPECT_EQ(error["param"], "slo.tpot_ms");
      EXPECT_NE(error["message"].get<std::string>().find("asks for 0.001 ms; "), std::string::npos) << error["message"];
      EXPECT_TRUE(fast.headers.contains("retry-after"));
      const auto metrics = ask(port, with_key("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "the-operators-key"));
      EXPECT_NE(metrics.body.find(R"(slipstream:slo_refused_total{tier="fast"} 1)"), std::string::npos);
    }
    EXPECT_EQ(chat(port, "a-key-that-may-ask", "soon").status, 200);
    EXPECT_EQ(program.stop(), 0);
  }
}

TEST_F(ServeTiersTest, AKeysTierThatIsNotThereIsRefused) {
  write_keys("son");
  for (const bool check : {true, false}) {
    auto all = arguments();
    if (check) all.emplace_back("--check-config");
    EXPECT_EQ(run(all), 2);
    EXPECT_NE(err_.find("may ask for the tier 'son', which slo.tiers has not"), std::string::npos) << err_;
    EXPECT_EQ(err_.find("a-key-that"), std::string::npos) << err_;
  }
}

}  // namespace
}  // namespace slip
