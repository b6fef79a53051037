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

// The sockets: a listener that survives accept errors, and a session a connection. What it is given outlives it; so
// must every TokenSink it handed out be gone (the engine ended) before it is destroyed.
class HttpServer {
 public:
  // Binds and listens, with TLS if the options have a certificate. Error{kConflict} when the port is taken,
  // Error{kInvalidArgument} for a host that is no address, and what load_tls() throws.
  HttpServer(Service& service, const Gatekeeper& gatekeeper, KeyQuotas& quotas);
  ~HttpServer();  // stop()

  void start();  // begins to accept
  // Ends every connection as it is. Draining first is the caller's business.
  void stop();

  // For connections from now on; those that are open keep theirs. True when the certificate is another one. One caller
  // at a time. REQUIRES: it serves TLS already.
  bool set_tls(std::unique_ptr<boost::asio::ssl::context> tls);

  std::uint16_t port() const;
  std::string url() const;
  int n_connections() const;  // any thread

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace slip
