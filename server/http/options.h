// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace slip {

// What a client may learn about acceptance: counts tell what others taught a draft (S14).
enum class ExposeAcceptance : std::uint8_t {
  kAll,   // each answer's own counts, and every draft's in /v1/drafts; with several keys any of them reads /metrics
  kOwn,   // each answer's own counts only
  kNone,  // neither; /metrics, which then is the operator's, keeps them
};

// How much one API key may ask for; 0 sets no limit.
struct KeyLimits {
  static constexpr std::int64_t kMostInFlight = 65'536;
  static constexpr std::int64_t kMostPerMinute = 1'000'000'000;
  int requests_in_flight = 0;
  std::int64_t requests_per_minute = 0;
  std::int64_t tokens_per_minute = 0;  // of prompts and answers; counted when answers end: one may overshoot

  friend bool operator==(const KeyLimits&, const KeyLimits&) = default;
};

struct ServerOptions {
  static constexpr int kProbeConnections = 16;
  std::string host = "127.0.0.1";          // any other than a loopback address needs an API key
  std::uint16_t port = 8000;               // 0: one the system chooses
  std::vector<std::string> allowed_hosts;  // Host names besides localhost, 127.0.0.1 and [::1], without keys
  // Browser origins that may call us and read the answers (CORS), "https://example.org"; without keys any other than
  // this service's own is refused.
  std::vector<std::string> allowed_origins;
  std::filesystem::path tls_certificate;  // PEM, the chain; empty: plain HTTP
  std::filesystem::path tls_key;          // PEM, mode 0600
  KeyLimits key_limits;                   // of keys that bring none of their own
  ExposeAcceptance expose_acceptance = ExposeAcceptance::kAll;
  int io_threads = 1;                          // 1 … 2
  int max_connections = 1024;                  // 1 … 65536; kProbeConnections more answer probes alone
  std::uint32_t max_header_bytes = 16U << 10;  // 1 KiB … 1 MiB
  std::uint32_t max_body_bytes = 4U << 20;     // 1 KiB … 64 MiB
  std::uint32_t max_answer_bytes = 4U << 20;   // one answer's outbound buffer
  // Of all bodies that are read or worked on, of parsing and tokenising one of them, and of all answers that are not
  // sent yet, together; at least max_body_bytes + max_answer_bytes. From 57 max_body_bytes + max_answer_bytes on it has
  // room for all of that work.
  std::uint64_t max_buffered_bytes = 256U << 20;
  std::chrono::milliseconds header_timeout{10'000};  // from a request's first byte to the end of its headers; then 408
  std::chrono::milliseconds body_timeout{60'000};    // likewise
  std::chrono::milliseconds idle_timeout{75'000};    // between requests of one connection, which then ends silently
  std::chrono::milliseconds write_timeout{60'000};   // without any progress: the client's request is cancelled
  std::chrono::milliseconds heartbeat{15'000};       // a comment line when a stream has nothing to say
  std::chrono::milliseconds drain_timeout{30'000};
  int retry_after_s = 1;  // what a 429 or 503 tells the client
  bool log_prompts = false;
};

}  // namespace slip
