// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.h"

namespace slip {

// A complete HTTP answer, before serialization.
struct Reply {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;  // must contain no unchecked bytes of a client
  bool close = false;
};

// OpenAI's error object: {"error": {message, type, param, code}}.
struct ErrorBody {
  std::string message;
  std::string type = "invalid_request_error";
  std::string param, code;  // null if empty
};
std::string error_json(const ErrorBody& error);

// The HTTP status of a thrown Error; the only mapping of codes to statuses. kTooLarge is a context that does not fit
// (400, as in OpenAI's API); oversized bodies are refused before a handler runs.
int http_status(const Error& error);
ErrorBody error_body(const Error& error);
Reply json_reply(std::string body);  // 200
Reply error_reply(const Error& error, int retry_after_s);
Reply error_reply(int status, const ErrorBody& error);
Reply exhausted_reply(int retry_after_s);   // 503: no memory for this request
Reply failure_reply(int retry_after_s);     // to the exception being handled; one that is our fault is logged
Reply no_room_reply(int retry_after_s);     // 503: other requests hold all of server.max_buffered_bytes
Error answer_too_large(std::size_t bytes);  // 400: an answer that alone takes server.max_buffered_bytes

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
