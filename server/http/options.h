// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace slip {

// The acceptance figures that a client may see. They reveal how other clients' text trained a draft (docs/security.md,
// S14).
enum class ExposeAcceptance : std::uint8_t {
  kAll,   // each answer's own counts, and every draft's in /v1/drafts; with several keys any key may read /metrics
  kOwn,   // each answer's own counts only
  kNone,  // no counts; only an operator key reads /metrics
};

// One API key's limits; 0: unlimited.
struct KeyLimits {
  static constexpr std::int64_t kMostInFlight = 65'536;
  static constexpr std::int64_t kMostPerMinute = 1'000'000'000;
  int requests_in_flight = 0;
  std::int64_t requests_per_minute = 0;
  // Of prompts and answers; counted when answers end, so the last may exceed it
  std::int64_t tokens_per_minute = 0;

  friend bool operator==(const KeyLimits&, const KeyLimits&) = default;
};

struct ServerOptions {
  static constexpr int kProbeConnections = 16;
  std::string host = "127.0.0.1";  // a non-loopback address requires an API key
  std::uint16_t port = 8000;       // 0: chosen by the system
  // Accepted Host names besides localhost, 127.0.0.1 and [::1], without keys
  std::vector<std::string> allowed_hosts;
  // Browser origins that may call the API and read answers (CORS), such as "https://example.org". Without keys only
  // these and this service's own origin are accepted.
  std::vector<std::string> allowed_origins;
  std::filesystem::path tls_certificate;  // PEM, the certificate chain; empty: plain HTTP
  std::filesystem::path tls_key;          // PEM, mode 0600
  KeyLimits key_limits;                   // of keys without their own limits
  ExposeAcceptance expose_acceptance = ExposeAcceptance::kAll;
  int io_threads = 1;                          // 1 … 2
  int max_connections = 1024;                  // 1 … 65536; kProbeConnections more are for probes only
  std::uint32_t max_header_bytes = 16U << 10;  // 1 KiB … 1 MiB
  std::uint32_t max_body_bytes = 4U << 20;     // 1 KiB … 64 MiB
  std::uint32_t max_answer_bytes = 4U << 20;   // outbound buffer of one answer
  // Of all bodies in work, of parsing and tokenizing one of them, and of all unsent answers, together. At least
  // max_body_bytes + max_answer_bytes; from 57 max_body_bytes + max_answer_bytes on, work on the largest body fits.
  std::uint64_t max_buffered_bytes = 256U << 20;
  // From a request's first byte to the end of its headers; then 408
  std::chrono::milliseconds header_timeout{10'000};
  std::chrono::milliseconds body_timeout{60'000};   // from the end of its headers to the end of its body; then 408
  std::chrono::milliseconds idle_timeout{75'000};   // between requests of one connection, which is then closed
  std::chrono::milliseconds write_timeout{60'000};  // without progress; then the client's request is cancelled
  std::chrono::milliseconds heartbeat{15'000};      // interval of comment lines in an idle stream
  std::chrono::milliseconds drain_timeout{30'000};
  int retry_after_s = 1;  // Retry-After of a 429 or 503
  bool log_prompts = false;
};

}  // namespace slip
