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

// The format that a request demands of its answer.
struct ResponseFormat {
  enum class Kind : std::uint8_t { kText, kJsonObject, kJsonSchema };
  Kind kind = Kind::kText;
  std::string schema;  // kJsonSchema: its JSON text, keys in the client's order
};

// Reads a request's `response_format`. `body` is the text that `fields` were parsed from; only it has the order of a
// schema's keys. Throws Error{kInvalidArgument | kUnsupported} whose param() is the path of the fault. Pure.
ResponseFormat read_response_format(const RequestFields& fields, std::string_view body);

// An LRU cache of compiled grammars. Clients send one schema with every request, and a grammar's masks are computed
// once. Threads: any.
class GrammarCache {
 public:
  // Null for plain text. Errors: those of compile_schema, with paths from "response_format.json_schema.schema".
  std::shared_ptr<const Grammar> grammar(const ResponseFormat& format);
  // Whether grammar() need not compile: there is no schema, or its grammar is kept. False: it compiles, for tens of
  // milliseconds if the schema is large.
  bool is_ready(const ResponseFormat& format);

 private:
  static constexpr std::size_t kMostKept = 16;  // at most about 16 MiB each, even for schemas made to be large
  struct Entry {
    std::string schema;
    std::shared_ptr<const Grammar> grammar;
  };
  std::shared_ptr<const Grammar> find(const std::string& schema);

  std::mutex mutex_;
  std::list<Entry> kept_;  // most recently used first
};

}  // namespace slip
