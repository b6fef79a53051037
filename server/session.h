// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "server/http/connection_table.h"
#include "server/http/gatekeeper.h"
#include "server/http/key_quotas.h"
#include "server/http/peer_watch.h"
#include "server/http/request_reader.h"
#include "server/http/wire.h"
#include "server/http/worker_pool.h"
#include "server/openai/service.h"
#include "server/responder.h"

namespace slip {

// The objects that all sessions share. They outlive the sessions.
struct SessionShare {
  Service& service;
  const Gatekeeper& gatekeeper;
  KeyQuotas& quotas;
  ConnectionTable& connections;
  WorkerPool& workers;
};

// One connection, handled by one coroutine on one I/O thread. It reads a request (RequestReader), routes it, answers it
// (Responder, AnswerDelivery) and repeats. A PeerWatch detects a client that leaves while its request waits for the
// worker pool, or while its answer is generated.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(std::unique_ptr<Wire> wire, SessionShare share);

  // Serves the connection to its end; keeps this object alive until then. REQUIRES: `place` is this connection's id in
  // the connection table.
  boost::asio::awaitable<void> run(ConnectionTable::Id place);
  void drop();       // ends the connection at once; any thread
  void shut_down();  // the same on the connection's I/O thread, or once that has ended

 private:
  using Next = Responder::Next;
  // A request's body and its share of the memory budget. The worker's job takes both.
  struct Body {
    std::string bytes;
    MemoryBudget::Reservation room;
  };

  boost::asio::awaitable<Next> serve_one();
  boost::asio::awaitable<Next> say_exhausted();
  boost::asio::awaitable<std::optional<Next>> receive(RequestParser& parser);
  std::optional<Reply> refuse_head(const RequestParser& parser);
  bool take_request_id(const RequestParser& parser);
  template <class Work>
  boost::asio::awaitable<Next> reply_from_worker(RequestParser& parser, Work work);
  Body take_body(RequestParser& parser);
  // Asks whether the client has left, for WorkerPool::run(). `peer` outlives the result.
  auto left_check(PeerWatch& peer) {
    return [this, &peer] { return peer.has_left([this] { return responder_.send_continue(); }); };
  }
  Next left_in_queue();
  boost::asio::awaitable<Next> delete_request(std::string_view target);
  boost::asio::awaitable<Next> generate(Endpoint endpoint, RequestParser& parser);

  std::unique_ptr<Wire> wire_;
  SessionShare share_;
  const ServerOptions& options_;
  RequestReader reader_;
  Responder responder_;
  ConnectionTable::Id place_ = 0;
  // Of the current request.
  MemoryBudget::Reservation body_room_;
  bool probes_only_ = false;  // the server is full: this connection may ask only what monitoring asks
};

}  // namespace slip
