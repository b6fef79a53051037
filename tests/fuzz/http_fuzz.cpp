// SPDX-License-Identifier: Apache-2.0
// What a client sends on one connection, to a real server on a real port; the engine behind it answers at once.
#include <memory>
#include <string>

#include "router/topic_seeds.h"
#include "server/http_server.h"
#include "tests/fuzz/fuzz.h"
#include "tests/server/raw_client.h"

namespace slip {
namespace {

void answer_at_once(const Request& request) {
  TokenDelta delta;
  delta.tokens = {7};
  delta.text = "x";
  if (request.top_logprobs >= 0) delta.logprobs.resize(1);
  request.sink->on_tokens(delta);
  RequestSummary summary;
  summary.id = request.id;
  summary.route = request.route;
  summary.reason = StopReason::kEndToken;
  summary.figures.prompt_tokens = static_cast<std::int32_t>(request.prompt.size());
  summary.figures.output_tokens = 1;
  request.sink->on_finished(summary);
}

ServerOptions options() {
  ServerOptions options;
  options.port = 0;
  options.max_body_bytes = 64U << 10;
  options.header_timeout = options.body_timeout = options.idle_timeout = std::chrono::milliseconds(1000);
  return options;
}

class Server {
 public:
  Server()
      : service_(options(), metrics_),
        gatekeeper_(service_.options(), keys_),
        quotas_(keys_),
        server_(service_, gatekeeper_, quotas_) {
    const auto folder = std::filesystem::path(SLIPSTREAM_SOURCE_DIR) / "checkpoints/demo/target";
    auto model = std::make_shared<ServedModel>();
    model->names = {"demo"};
    model->tokenizer = Tokenizer::load(folder);
    model->chat_template = std::make_shared<const ChatTemplate>(ChatTemplate::load(folder));
    model->max_positions = 4096;
    const TopicTable topics(std::vector<Topic>{{"sql", {}, {}}});
    model->router = std::make_shared<Router>(topics, RouterOptions{}, seeded_classifier(topics));
    for (const char* name : {"unknown", "sql"}) {
      model->live_drafts.push_back(
          std::make_shared<LiveDraft>(DraftId{static_cast<std::uint32_t>(model->live_drafts.size())}, name));
    }
    model->engine = {answer_at_once, [](RequestId) {}};
    service_.open(model);
    server_.start();
  }

  std::string ask(const std::string& bytes) const {
    RawClient client(server_.port());
    client.send(bytes);
    client.end_sending();
    return client.read_to_end();
  }

 private:
  Metrics metrics_;
  ApiKeys keys_;
  Service service_;
  Gatekeeper gatekeeper_;
  KeyQuotas quotas_;
  HttpServer server_;
};

}  // namespace
}  // namespace slip

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const slip::Server server;
  const std::string reply = server.ask(std::string(slip::as_text(data, size)));
  if (reply.empty()) return 0;
  SLIP_CHECK(reply.starts_with("HTTP/1."), "what comes back is HTTP");
  SLIP_CHECK(!reply.starts_with("HTTP/1.1 500"), "no client can cause a 500");
  return 0;
}
