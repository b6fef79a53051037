// SPDX-License-Identifier: Apache-2.0
#include "server/http/tls.h"

#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "common/error.h"
#include "common/file.h"
#include "common/log.h"

namespace slip {
namespace {

namespace asio = boost::asio;
namespace ssl = asio::ssl;

constexpr const char* kCertificate = "server.tls_certificate";
constexpr const char* kKey = "server.tls_key";
constexpr std::uint64_t kMaxPemBytes = 1U << 20;
// Only forward secrecy and authenticated encryption. TLS 1.3's own list has no others.
constexpr const char* kCiphers = "ECDHE+AESGCM:ECDHE+CHACHA20";

void require_both(const ServerOptions& options) {
  if (options.tls_certificate.empty() == options.tls_key.empty()) return;
  const bool no_key = options.tls_key.empty();
  throw Error(ErrorCode::kInvalidArgument, "TLS needs a certificate and its key, but there is only one of them",
              std::string("set ") + (no_key ? kKey : kCertificate) + " too", no_key ? kKey : kCertificate);
}

// Reads the file first, since OpenSSL reports a missing one only as a null parameter.
std::string read_pem(const std::filesystem::path& file, const char* param) {
  std::string text = read_file(file, kMaxPemBytes);
  if (text.empty()) throw Error(ErrorCode::kInvalidArgument, file.string() + " is empty", {}, param);
  return text;
}

void check(const boost::system::error_code& fault, const std::filesystem::path& file, const std::string& what,
           const char* param) {
  if (!fault) return;
  throw Error(ErrorCode::kInvalidArgument, file.string() + " " + what + ": " + fault.message(), {}, param);
}

// Without this OpenSSL would ask at the terminal, and a reload would block, with all later signals.
std::shared_ptr<const bool> refuse_passwords(ssl::context& tls) {
  auto asked = std::make_shared<bool>(false);
  tls.set_password_callback([asked](std::size_t, ssl::context::password_purpose) {
    *asked = true;
    return std::string();
  });
  return asked;
}

// Throws if a password was asked for; the hint shows how to decrypt the file with `command` of openssl.
void check_plain(bool asked, const std::filesystem::path& file, const std::string& command, const char* param) {
  if (!asked) return;
  throw Error(ErrorCode::kInvalidArgument, file.string() + " is encrypted, and a service cannot ask for its password",
              "decrypt it into a file of mode 0600 and name that one: (umask 077; openssl " + command + " -in '" +
                  file.string() + "' -out plain.pem)",
              param);
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
  const auto asked = refuse_passwords(*tls);
  boost::system::error_code fault;
  const std::string chain = read_pem(options.tls_certificate, kCertificate);
  tls->use_certificate_chain(asio::buffer(chain), fault);
  check_plain(*asked, options.tls_certificate, "x509", kCertificate);
  check(fault, options.tls_certificate, "is no certificate in PEM form", kCertificate);
  std::string key = read_pem(options.tls_key, kKey);
  tls->use_private_key(asio::buffer(key), ssl::context::pem, fault);
  OPENSSL_cleanse(key.data(), key.size());
  check_plain(*asked, options.tls_key, "pkey", kKey);
  check(fault, options.tls_key, "is no private key in PEM form, or not the certificate's", kKey);
  if (SSL_CTX_check_private_key(tls->native_handle()) != 1) {
    throw Error(ErrorCode::kInvalidArgument,
                options.tls_key.string() + " is not the key of " + options.tls_certificate.string(), {}, kKey);
  }
  if (X509_cmp_current_time(X509_get0_notAfter(SSL_CTX_get0_certificate(tls->native_handle()))) < 0) {
    log_warn("the TLS certificate " + options.tls_certificate.string() +
             " has expired, and clients will refuse it: put a new one there and send SIGHUP");
  }
  return tls;
}

bool same_certificate(ssl::context& one, ssl::context& other) {
  const X509 *first = SSL_CTX_get0_certificate(one.native_handle()),
             *second = SSL_CTX_get0_certificate(other.native_handle());
  return ::X509_cmp(first, second) == 0;
}

}  // namespace slip
