// SPDX-License-Identifier: Apache-2.0
#include "server/http/reply.h"

#include <array>
#include <cstdio>
#include <ctime>
#include <exception>
#include <new>

#include "common/log.h"
#include "engine/contain.h"
#include "server/http/json_text.h"

namespace slip {
namespace {

void text_or_null(JsonText& json, std::string_view name, const std::string& text) {
  json.key(name);
  text.empty() ? json.value(nullptr) : json.value(text);
}

std::string type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "service_unavailable_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

std::string code_of(const Error& error) {
  switch (error.code()) {
    case ErrorCode::kUnsupported:
      return "unsupported_parameter";
    case ErrorCode::kNotFound:
      return "model_not_found";
    case ErrorCode::kUnauthenticated:
      return "invalid_api_key";
    case ErrorCode::kTooLarge:
      return "context_length_exceeded";
    case ErrorCode::kOverloaded:
      return "queue_full";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kUnattainable:
      return "slo_unattainable";
    default:
      return {};
  }
}

}  // namespace

std::string error_json(const ErrorBody& error) {
  JsonText json;
  json.begin_object();
  json.key("error");
  json.begin_object();
  json.member("message", error.message);
  json.member("type", error.type);
  text_or_null(json, "param", error.param);
  text_or_null(json, "code", error.code);
  json.end_object();
  json.end_object();
  return std::move(json).take();
}

int http_status(const Error& error) {
  switch (error.code()) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsupported:
    case ErrorCode::kTooLarge:
      return 400;
    case ErrorCode::kUnauthenticated:
      return 401;
    case ErrorCode::kPermission:
      return 403;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kConflict:
      return 409;
    case ErrorCode::kOverloaded:
      return 429;
    case ErrorCode::kUnavailable:
    case ErrorCode::kUnattainable:
    case ErrorCode::kCancelled:
      return 503;
    default:
      return 500;
  }
}

ErrorBody error_body(const Error& error) {
  const int status = http_status(error);
  // Internal details go to the log only.
  std::string message = status == 500 ? std::string("the server failed to answer this request") : error.message();
  if (status != 500 && !error.hint().empty()) message += "; " + error.hint();
  return {std::move(message), type_of(status), error.param(), code_of(error)};
}

Reply json_reply(std::string body) {
  Reply reply;
  reply.body = std::move(body);
  return reply;
}

Reply error_reply(const Error& error, int retry_after_s) {
  Reply reply = error_reply(http_status(error), error_body(error));
  if (reply.status == 429 || reply.status == 503) {
    reply.headers.emplace_back("Retry-After", std::to_string(retry_after_s));
  }
  return reply;
}

Reply error_reply(int status, const ErrorBody& error) {
  Reply reply;
  reply.status = status;
  ErrorBody typed = error;
  if (typed.type == ErrorBody{}.type) typed.type = type_of(status);
  reply.body = error_json(typed);
  return reply;
}

Reply exhausted_reply(int retry_after_s) {
  return error_reply(no_memory(), retry_after_s);
}

Reply failure_reply(int retry_after_s) {
  try {
    throw;
  } catch (const Error& error) {
    if (http_status(error) == 500) log_error("a request failed: " + error.message());
    return error_reply(error, retry_after_s);
  } catch (const std::bad_alloc&) {
    return exhausted_reply(retry_after_s);
  } catch (const std::exception& error) {
    log_error(std::string("a request failed: ") + error.what());
    return error_reply(Error(ErrorCode::kInternal, "internal error"), retry_after_s);
  }
}

Reply no_room_reply(int retry_after_s) {
  return error_reply(Error(ErrorCode::kUnavailable,
                           "the server holds as many bytes of requests and answers as server.max_buffered_bytes allows",
                           "try again later"),
                     retry_after_s);
}

// No 503: a client that repeats the request would cost all of its tokens again.
Error answer_too_large(std::size_t bytes) {
  return Error(ErrorCode::kInvalidArgument,
               "server.max_buffered_bytes has no room for this answer, which has " + std::to_string(bytes) + " bytes",
               "stream it, or ask for fewer choices, tokens or logprobs");
}

const char* reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 421:
      return "Misdirected Request";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    default:
      return "Internal Server Error";
  }
}

std::string head_text(const Reply& reply, const WireForm& form) {
  std::string head = "HTTP/1.1 " + std::to_string(reply.status) + " " + reason_phrase(reply.status) + "\r\n";
  const bool has_body = reply.status != 204;  // a 204 must not have a Content-Length either (RFC 9110, 8.6)
  head += "Date: " + form.date + "\r\nServer: slipstream\r\n";
  if (has_body) head += "Content-Type: " + reply.content_type + "\r\nX-Content-Type-Options: nosniff\r\n";
  for (const auto& [name, value] : reply.headers) head += name + ": " + value + "\r\n";
  if (form.chunked) {
    head += "Transfer-Encoding: chunked\r\n";
  } else if (has_body && (form.keep_alive || !reply.body.empty())) {
    head += "Content-Length: " + std::to_string(reply.body.size()) + "\r\n";
  }
  head += form.keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return head;
}

std::string chunk_text(std::string_view bytes) {
  std::array<char, 24> size{};
  std::snprintf(size.data(), size.size(), "%zx\r\n", bytes.size());
  return std::string(size.data()).append(bytes).append("\r\n");
}

std::string http_date(long seconds_since_epoch) {
  static constexpr std::array kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t time = seconds_since_epoch;
  std::tm utc{};
  ::gmtime_r(&time, &utc);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%s, %02d %s %04d %02d:%02d:%02d GMT",
                kDays[static_cast<std::size_t>(utc.tm_wday)], utc.tm_mday,
                kMonths[static_cast<std::size_t>(utc.tm_mon)], 1900 + utc.tm_year, utc.tm_hour, utc.tm_min, utc.tm_sec);
  return text.data();
}

}  // namespace slip
