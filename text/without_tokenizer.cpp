// SPDX-License-Identifier: Apache-2.0
// The tokenizer's stub in builds of the `core` preset, which lack its libraries. Requests then send and receive token
// ids. Loading fails, so the members below load() are linked but never called.
#include <utility>

#include "common/error.h"
#include "text/tokenizer.h"

namespace slip {

std::shared_ptr<const Tokenizer> Tokenizer::load(const std::filesystem::path&) {
  throw Error(ErrorCode::kUnsupported, "this build has no tokenizer",
              "give token ids, or build without the core preset");
}

std::string_view Tokenizer::token_bytes(std::int32_t) const {
  SLIP_CHECK(false, "this build has no tokenizer");
}
bool Tokenizer::is_special(std::int32_t) const {
  SLIP_CHECK(false, "this build has no tokenizer");
}
std::int32_t Tokenizer::vocab_size() const {
  SLIP_CHECK(false, "this build has no tokenizer");
}

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, Start start, Stop)
    : tokenizer_(std::move(tokenizer)), is_first_(start == Start::kText) {
  SLIP_CHECK(tokenizer_ == nullptr, "this build has no tokenizer");
}
std::string StreamDecoder::push(std::int32_t) {
  SLIP_CHECK(false, "this build has no tokenizer");
}
std::string StreamDecoder::finish() {
  SLIP_CHECK(false, "this build has no tokenizer");
}

}  // namespace slip
