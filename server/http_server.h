// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/http/gatekeeper.h"
#include "server/http/key_quotas.h"
#include "server/http/tls.h"
#include "server/openai/service.h"

namespace slip {

// The listening socket and a session per connection; accept errors do not stop the listener. Its arguments must outlive
// it. Every TokenSink it handed out must be gone (the engine ended) before it is destroyed. Threads: one owner, unless
// a function says otherwise.
class HttpServer {
 public:
  // Binds and listens, with TLS if the options have a certificate. Error{kConflict} when the port is taken,
  // Error{kInvalidArgument} for an invalid host address, and load_tls()'s errors.
  HttpServer(Service& service, const Gatekeeper& gatekeeper, KeyQuotas& quotas);
  ~HttpServer();  // stop()

  void start();  // begins to accept connections
  // Ends every connection at once, and refuses new ones. The caller drains first if it wants to.
  void stop();

  // Sets the certificate for new connections; open ones keep theirs. True when the certificate differs. One caller at a
  // time. REQUIRES: the server uses TLS already.
  bool set_tls(std::unique_ptr<boost::asio::ssl::context> tls);

  std::uint16_t port() const;
  std::string url() const;
  int n_connections() const;  // any thread

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace slip
