// SPDX-License-Identifier: Apache-2.0
#include "server/tls.h"

#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "common/error.h"
#include "common/file.h"

namespace slip {
namespace {

namespace asio = boost::asio;
namespace ssl = asio::ssl;

constexpr const char* kCertificate = "server.tls_certificate";
constexpr const char* kKey = "server.tls_key";
constexpr std::uint64_t kMaxPemBytes = 1U << 20;
// Forward secrecy and authenticated encryption only; TLS 1.3 has its own list, which is that already.
constexpr const char* kCiphers = "ECDHE+AESGCM:ECDHE+CHACHA20";

void require_both(const ServerOptions& options) {
  if (options.tls_certificate.empty() == options.tls_key.empty()) return;
  const bool no_key = options.tls_key.empty();
  throw Error(ErrorCode::kInvalidArgument, "TLS needs a certificate and its key, but there is only one of them",
              std::string("set ") + (no_key ? kKey : kCertificate) + " too", no_key ? kKey : kCertificate);
}

void check(const boost::system::error_code& fault, const std::filesystem::path& file, const std::string& what,
           const char* param) {
  if (!fault) return;
  throw Error(ErrorCode::kInvalidArgument, file.string() + " " + what + ": " + fault.message(), {}, param);
}

}  // namespace

std::unique_ptr<ssl::context> load_tls(const ServerOptions& options) {
  require_both(options);
  if (options.tls_key.empty()) return nullptr;
  require_private_file(options.tls_key, "TLS key file", kKey);
  auto tls = std::make_unique<ssl::context>(ssl::context::tls_server);
  tls->set_options(ssl::context::default_workarounds | ssl::context::no_compression | SSL_OP_NO_RENEGOTIATION |
                   SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_min_proto_version(tls->native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_cipher_list(tls->native_handle(), kCiphers);
  boost::system::error_code fault;
  const std::string chain = read_file(options.tls_certificate, kMaxPemBytes);
  tls->use_certificate_chain(asio::buffer(chain), fault);
  check(fault, options.tls_certificate, "is no certificate in PEM form", kCertificate);
  std::string key = read_file(options.tls_key, kMaxPemBytes);
  tls->use_private_key(asio::buffer(key), ssl::context::pem, fault);
  OPENSSL_cleanse(key.data(), key.size());
  check(fault, options.tls_key, "is no private key in PEM form, or not the certificate's", kKey);
  if (SSL_CTX_check_private_key(tls->native_handle()) != 1) {
    throw Error(ErrorCode::kInvalidArgument,
                options.tls_key.string() + " is not the key of " + options.tls_certificate.string(), {}, kKey);
  }
  return tls;
}

bool same_certificate(ssl::context& one, ssl::context& other) {
  const X509 *first = SSL_CTX_get0_certificate(one.native_handle()),
             *second = SSL_CTX_get0_certificate(other.native_handle());
  return ::X509_cmp(first, second) == 0;
}

}  // namespace slip
