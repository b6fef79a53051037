// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.h"

namespace slip {

// One whole HTTP answer, before it has a wire form.
struct Reply {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;  // a client's bytes only where they were checked
  bool close = false;
};

// OpenAI's error object: {"error": {message, type, param, code}}.
struct ErrorBody {
  std::string message;
  std::string type = "invalid_request_error";
  std::string param, code;  // empty becomes null
};
std::string error_json(const ErrorBody& error);

// What a thrown Error means to the client; the one place where codes become HTTP statuses. kTooLarge is a context that
// does not fit (400, as OpenAI has it), since bodies over the bound are refused before anything could throw.
int http_status(const Error& error);
ErrorBody error_body(const Error& error);
Reply error_reply(const Error& error, int retry_after_s);
Reply error_reply(int status, const ErrorBody& error);
Reply exhausted_reply(int retry_after_s);  // 503: there is no memory for this request
Reply no_room_reply(int retry_after_s);    // 503: others hold all of server.max_buffered_bytes

const char* reason_phrase(int status);

// Status line and headers.
struct WireForm {
  bool keep_alive = true;
  bool chunked = false;
  std::string date;  // RFC 9110
};
std::string head_text(const Reply& reply, const WireForm& form);
std::string chunk_text(std::string_view bytes);  // one chunk of a chunked body
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";
std::string http_date(long seconds_since_epoch);

}  // namespace slip
