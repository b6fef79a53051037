// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "engine/grammar/grammar.h"
#include "server/openai/request_fields.h"

namespace slip {

// What an answer has to look like.
struct ResponseFormat {
  enum class Kind : std::uint8_t { kText, kJsonObject, kJsonSchema };
  Kind kind = Kind::kText;
  std::string schema;  // kJsonSchema: its JSON text, keys in the client's order
};

// The `response_format` of a request. `body` is the text that `fields` were read from, since the order of a schema's
// keys is only there. Throws Error{kInvalidArgument | kUnsupported} whose param() is the way to what is wrong. Pure.
ResponseFormat read_response_format(const RequestFields& fields, std::string_view body);

// The grammars of formats, the last so many kept: clients send one schema with every request, and what masks cost is
// paid once for each grammar. Threads: any.
class GrammarCache {
 public:
  // Null for text. Errors: as compile_schema, the way beginning with "response_format.json_schema.schema".
  std::shared_ptr<const Grammar> grammar(const ResponseFormat& format);

 private:
  static constexpr std::size_t kMostKept = 16;  // of at most some 16 MiB each, for schemas made to be large
  struct Entry {
    std::string schema;
    std::shared_ptr<const Grammar> grammar;
  };
  std::shared_ptr<const Grammar> find(const std::string& schema);

  std::mutex mutex_;
  std::list<Entry> kept_;  // the last used first
};

}  // namespace slip
