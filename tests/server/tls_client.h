// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "tests/common/patience.h"

namespace slip {

template <auto kFree>
struct Freed {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};

// A new key and its self-signed certificate, as PEM files in `folder`.
struct SelfSigned {
  explicit SelfSigned(const std::filesystem::path& folder, const std::string& name = "server", long valid_for_s = 3600)
      : certificate(folder / (name + ".crt")), key(folder / (name + ".key")) {
    const std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>> pair(EVP_EC_gen("P-256"));
    const std::unique_ptr<X509, Freed<X509_free>> paper(X509_new());
    ASN1_INTEGER_set(X509_get_serialNumber(paper.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(paper.get()), -3600);
    X509_gmtime_adj(X509_getm_notAfter(paper.get()), valid_for_s);
    X509_set_pubkey(paper.get(), pair.get());
    X509_NAME* who = X509_get_subject_name(paper.get());
    X509_NAME_add_entry_by_txt(who, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
    X509_set_issuer_name(paper.get(), who);
    X509_sign(paper.get(), pair.get(), EVP_sha256());
    write(certificate, [&](FILE* file) { PEM_write_X509(file, paper.get()); });
    write(key, [&](FILE* file) { PEM_write_PrivateKey(file, pair.get(), nullptr, nullptr, 0, nullptr, nullptr); });
    ::chmod(key.c_str(), 0600);
  }
  std::filesystem::path certificate, key;

  // Another key, in a password-protected file.
  static std::filesystem::path encrypted(const std::filesystem::path& path, bool traditional) {
    const std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>> pair(EVP_EC_gen("P-256"));
    const std::unique_ptr<BIO, Freed<BIO_free>> file(BIO_new_file(path.c_str(), "w"));
    const std::string word = "password";
    const auto put = traditional ? PEM_write_bio_PrivateKey_traditional : PEM_write_bio_PrivateKey;
    put(file.get(), pair.get(), EVP_aes_256_cbc(), reinterpret_cast<const unsigned char*>(word.data()),
        static_cast<int>(word.size()), nullptr, nullptr);
    ::chmod(path.c_str(), 0600);
    return path;
  }

 private:
  template <class Put>
  static void write(const std::filesystem::path& path, Put put) {
    FILE* file = std::fopen(path.c_str(), "w");
    put(file);
    std::fclose(file);
  }
};

// One TLS connection to this machine that trusts only `certificate` and supports versions up to `version`.
class TlsClient {
 public:
  TlsClient(std::uint16_t port, const std::filesystem::path& certificate, int version = TLS1_3_VERSION)
      : context_(SSL_CTX_new(TLS_client_method())) {
    ::signal(SIGPIPE, SIG_IGN);                     // OpenSSL writes without MSG_NOSIGNAL
    SSL_CTX_set_security_level(context_.get(), 0);  // so that old versions are refused by the server, not by us
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_VERSION);
    SSL_CTX_set_max_proto_version(context_.get(), version);
    SSL_CTX_load_verify_file(context_.get(), certificate.c_str());
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const timeval patience{10 * testing::kPatience, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return;
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), fd_);
    SSL_set1_host(ssl_.get(), "localhost");
    open_ = SSL_connect(ssl_.get()) == 1;
  }
  ~TlsClient() { ::close(fd_); }
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  bool open() const { return open_; }
  std::string version() const { return SSL_get_version(ssl_.get()); }
  bool send(const std::string& bytes) {
    return SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())) == static_cast<int>(bytes.size());
  }
  bool read_until(const std::string& mark) {
    while (received.find(mark) == std::string::npos) {
      char bytes[16384];
      const int n = SSL_read(ssl_.get(), bytes, sizeof bytes);
      if (n <= 0) return false;
      received.append(bytes, static_cast<std::size_t>(n));
    }
    return true;
  }
  // True when the server closed the TLS session properly (close_notify), so that the answer cannot have been truncated
  // on the way.
  bool ended_properly() {
    read_until("no such bytes");
    return (SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN) != 0;
  }
  void say_goodbye() { SSL_shutdown(ssl_.get()); }
  std::string received;

 private:
  std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>> context_;
  std::unique_ptr<SSL, Freed<SSL_free>> ssl_;
  int fd_ = -1;
  bool open_ = false;
};

}  // namespace slip
