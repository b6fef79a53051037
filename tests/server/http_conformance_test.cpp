// SPDX-License-Identifier: Apache-2.0
// Differential test: tests/data/http_requests.json holds requests with what another strict parser (h11) made of each,
// and what this server answers. tests/http/h11_run.py makes the former anew and adds random requests.
#include <fstream>
#include <regex>

#include "tests/server/http_fixture.h"

namespace slip {
namespace {

using ConformanceTest = HttpServerTest;

// Each character of the file stands for one byte.
std::string bytes_of(const std::string& utf8) {
  std::string bytes;
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    const auto lead = static_cast<unsigned char>(utf8[i]);
    if (lead < 0x80) {
      bytes += utf8[i];
      continue;
    }
    bytes += static_cast<char>(((lead & 0x03U) << 6U) | (static_cast<unsigned char>(utf8.at(++i)) & 0x3fU));
  }
  return bytes;
}

// Without interim answers (RFC 9110, 15.2): a client that has sent all is asked by one whether it still reads, when its
// request has to wait for a worker.
std::vector<int> statuses_of(const std::string& answers) {
  static const std::regex kStatusLine(R"(HTTP/1\.1 ([2-5]\d{2}) )");
  std::vector<int> statuses;
  for (std::sregex_iterator found(answers.begin(), answers.end(), kStatusLine), end; found != end; ++found) {
    statuses.push_back(std::stoi((*found)[1]));
  }
  return statuses;
}

// The answers of a parser that could not read on.
bool is_refusal(int status) {
  return status == 400 || status == 413 || status == 431;
}

TEST_F(ConformanceTest, NothingIsServedThatAnotherStrictParserRefuses) {
  std::ifstream file(std::string(SLIPSTREAM_SOURCE_DIR) + "/tests/data/http_requests.json");
  const json table = json::parse(file);
  start();
  ASSERT_GT(table.at("requests").size(), 80U);
  for (const json& row : table.at("requests")) {
    const std::string name = row.at("name");
    RawClient client(server_->port());
    client.send(bytes_of(row.at("bytes")));
    client.end_sending();
    const auto statuses = statuses_of(client.read_to_end());
    EXPECT_EQ(statuses, row.at("statuses").get<std::vector<int>>()) << name;
    const auto n_refused = std::count_if(statuses.begin(), statuses.end(), is_refusal);
    const auto n_served = static_cast<std::int64_t>(statuses.size()) - n_refused;
    if (row.contains("laxer")) continue;  // the RFC says so
    EXPECT_LE(n_served, row.at("h11").at("served").get<std::int64_t>()) << name;
    if (row.contains("stricter")) continue;
    EXPECT_EQ(n_served, row.at("h11").at("served").get<std::int64_t>()) << name;
    EXPECT_EQ(n_refused > 0, row.at("h11").at("refused").get<bool>()) << name;
  }
}

}  // namespace
}  // namespace slip
