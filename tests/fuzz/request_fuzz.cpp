// SPDX-License-Identifier: Apache-2.0
// The body of a chat or completion request, and the grammar its response_format asks for.
#include <cmath>

#include "server/openai/call.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const auto endpoint : {slip::Endpoint::kChat, slip::Endpoint::kCompletion}) {
    slip::accepts([&] {
      const auto call = slip::parse_request(endpoint, slip::as_text(data, size), {});
      SLIP_CHECK(call.sampling.temperature >= 0 && call.sampling.temperature <= 2, "temperature is in its range");
      SLIP_CHECK(call.sampling.top_p > 0 && call.sampling.top_p <= 1, "top_p is in its range");
      SLIP_CHECK(!call.max_tokens || *call.max_tokens > 0 || (call.echo && *call.max_tokens == 0),
                 "max_tokens is in its range");
      SLIP_CHECK(call.tree.longest_chain() >= 1 && call.tree.nodes <= slip::kMaxProposalNodes, "nodes is in its range");
      SLIP_CHECK(call.tree.most_choices() >= 1 && call.tree.width <= slip::kMaxTreeWidth, "width is in its range");
      slip::GrammarCache().grammar(call.format);
    });
  }
  return 0;
}
