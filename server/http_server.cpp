// SPDX-License-Identifier: Apache-2.0
#include "server/http_server.h"

#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <deque>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "common/error.h"
#include "common/log.h"
#include "common/thread_name.h"
#include "server/http/worker_pool.h"
#include "server/session.h"

namespace slip {

namespace asio = boost::asio;
using asio::awaitable;
using asio::ip::tcp;

namespace {

constexpr std::chrono::milliseconds kFirstBackOff{10};
constexpr std::chrono::milliseconds kLongestBackOff{1000};
constexpr std::chrono::seconds kWarnAgain{1};

tcp::endpoint endpoint_of(const ServerOptions& options) {
  boost::system::error_code fault;
  const std::string host = options.host == "localhost" ? "127.0.0.1" : options.host;
  const auto address = asio::ip::make_address(host, fault);
  if (fault) {
    throw Error(ErrorCode::kInvalidArgument, "server.host '" + options.host + "' is not an IP address",
                "use 127.0.0.1, ::1 or the address of an interface", "server.host");
  }
  return {address, options.port};
}

void warn(const char* what, const std::exception& why) noexcept {
  try {
    log_warn(std::string(what) + why.what());
  } catch (const std::exception&) {  // no memory for the log line either
  }
}

// One entry of the connection table, removed on destruction.
class OpenConnection {
 public:
  OpenConnection(std::atomic<int>& n, ConnectionTable& table, Metrics& metrics)
      : n_(n), table_(table), metrics_(metrics) {}
  ~OpenConnection() {
    if (!place_) return;
    table_.leave(*place_);
    --n_;
    metrics_.on_connection_closed();
  }
  OpenConnection(const OpenConnection&) = delete;
  OpenConnection& operator=(const OpenConnection&) = delete;

  // False when the table is full.
  bool enter(std::function<void()> close) {
    place_ = table_.enter(std::move(close));
    if (!place_) return false;
    ++n_;
    metrics_.on_connection_opened();
    return true;
  }
  ConnectionTable::Id place() const { return place_.value(); }

 private:
  std::atomic<int>& n_;
  ConnectionTable& table_;
  Metrics& metrics_;
  std::optional<ConnectionTable::Id> place_;
};

}  // namespace

struct HttpServer::State {
  State(Service& given_service, const Gatekeeper& gatekeeper, KeyQuotas& quotas)
      : service(given_service),
        tls(std::shared_ptr<asio::ssl::context>(load_tls(given_service.options()))),
        connections(given_service.options().max_connections, ServerOptions::kProbeConnections),
        contexts(static_cast<std::size_t>(given_service.options().io_threads)),
        acceptor(contexts.front()),
        share{given_service, gatekeeper, quotas, connections, workers} {}

  void bind();
  void end_connections();
  awaitable<void> listen();
  awaitable<bool> accept_one();
  void listen_again() noexcept;
  void begin_session(tcp::socket socket);

  Service& service;
  std::atomic<std::shared_ptr<asio::ssl::context>> tls;  // null: plain HTTP
  std::atomic<int> n_connections{0};
  ConnectionTable connections;                     // declared before `contexts`, whose handlers hold entries of it
  std::atomic<bool> ending{false}, joined{false};  // joined: no I/O thread runs any more
  // One per thread, without strands: posting to a strand that finds no memory leaves it locked, and its connections
  // hang. Connections are assigned in turn; the first one's thread also listens.
  std::deque<IoContext> contexts;
  std::size_t next_context = 0;  // for a new connection
  WorkerPool workers;            // declared after `contexts`: dropped jobs hold timers of theirs
  tcp::acceptor acceptor;
  tcp::endpoint address;  // of the acceptor, also once it is closed
  SessionShare share;
  std::vector<std::jthread> threads;
};

void HttpServer::State::bind() {
  const auto endpoint = endpoint_of(service.options());
  boost::system::error_code fault;
  acceptor.open(endpoint.protocol(), fault);  // fails if the kernel has no IPv6
  if (!fault) acceptor.set_option(asio::socket_base::reuse_address(true), fault);
  if (!fault) acceptor.bind(endpoint, fault);
  if (!fault) acceptor.listen(asio::socket_base::max_listen_connections, fault);
  if (!fault) address = acceptor.local_endpoint(fault);
  if (!fault) return;
  const bool no_such_address =
      fault == asio::error::address_family_not_supported || fault == boost::system::errc::address_not_available;
  throw Error(
      ErrorCode::kConflict,
      "cannot listen on " + service.options().host + ":" + std::to_string(endpoint.port()) + ": " + fault.message(),
      no_such_address ? "choose a --host that this machine has" : "choose another --port; 0 lets the system choose",
      no_such_address ? "server.host" : "server.port");
}

void HttpServer::State::listen_again() noexcept {
  if (ending.load() || !acceptor.is_open()) return;
  try {
    auto& io = contexts.front();
    asio::post(io, [this, &io] { asio::co_spawn(io, listen(), asio::detached); });
  } catch (const std::exception& fault) {
    warn("no more connections are accepted: ", fault);
  }
}

// False once the listener is closed.
awaitable<bool> HttpServer::State::accept_one() {
  auto [fault, socket] =
      co_await acceptor.async_accept(contexts[next_context++ % contexts.size()], asio::as_tuple(asio::use_awaitable));
  if (fault == asio::error::operation_aborted) co_return false;
  if (fault) throw boost::system::system_error(fault);
  begin_session(std::move(socket));
  co_return true;
}

// Accepting never stops: without descriptors or memory it waits and retries.
awaitable<void> HttpServer::State::listen() {
  // Without memory for an accepted socket, Asio destroys the coroutine that waits for it.
  struct Guard {
    State& state;
    ~Guard() { state.listen_again(); }
  };
  const Guard guard{*this};
  auto back_off = kFirstBackOff;
  auto next_warning = std::chrono::steady_clock::now();
  asio::steady_timer pause(contexts.front());
  while (acceptor.is_open()) {
    try {
      if (!co_await accept_one()) co_return;
      back_off = kFirstBackOff;
      continue;
    } catch (const std::exception& fault) {
      const auto now = std::chrono::steady_clock::now();
      if (now >= next_warning) {
        warn("accepting a connection failed, trying again: ", fault);
        next_warning = now + kWarnAgain;
      }
    }
    pause.expires_after(back_off);
    co_await pause.async_wait(asio::as_tuple(asio::use_awaitable));
    back_off = std::min(back_off * 2, kLongestBackOff);
  }
}

void HttpServer::State::begin_session(tcp::socket socket) {
  boost::system::error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  const auto open = std::make_shared<OpenConnection>(n_connections, connections, service.metrics());
  const auto executor = socket.get_executor();
  // A connection keeps the parts of OpenSSL's context that it needs
  const auto with_tls = tls.load(std::memory_order_acquire);
  auto wire = with_tls ? make_tls_wire(std::move(socket), *with_tls) : make_wire(std::move(socket));
  auto session = std::make_shared<Session>(std::move(wire), share);
  const bool has_place = open->enter([this, weak = session->weak_from_this()] {
    if (const auto other = weak.lock()) joined.load() ? other->shut_down() : other->drop();
  });
  if (!has_place) return;  // its destructor closes it
  asio::co_spawn(
      executor, [session, place = open->place()]() -> awaitable<void> { co_await session->run(place); },
      [open](const std::exception_ptr& fault) {
        if (!fault) return;
        try {
          std::rethrow_exception(fault);
        } catch (const std::exception& error) {
          warn("a connection ended early: ", error);
        }
      });
}

HttpServer::HttpServer(Service& service, const Gatekeeper& gatekeeper, KeyQuotas& quotas)
    : state_(std::make_unique<State>(service, gatekeeper, quotas)) {
  state_->bind();
}

HttpServer::~HttpServer() {
  stop();
}

void HttpServer::start() {
  asio::co_spawn(state_->contexts.front(), state_->listen(), asio::detached);
  for (IoContext& context : state_->contexts) {
    state_->threads.emplace_back([&context] {
      name_thread("io");
      run_handlers(context);
    });
  }
}

bool HttpServer::set_tls(std::unique_ptr<asio::ssl::context> tls) {
  const auto now = state_->tls.load(std::memory_order_acquire);
  SLIP_CHECK(tls != nullptr && now != nullptr, "addresses would change between http and https");
  const bool same = same_certificate(*now, *tls);
  state_->tls.store(std::move(tls), std::memory_order_release);
  return !same;
}

// The handlers that would end the connections never run again, and the sockets stay open until the server is destroyed.
void HttpServer::State::end_connections() {
  joined = true;
  boost::system::error_code ignored;
  acceptor.close(ignored);
  connections.close_all();
}

void HttpServer::stop() {
  state_->ending = true;
  for (IoContext& context : state_->contexts) context.stop();
  state_->threads.clear();  // joins the threads
  state_->end_connections();
  state_->workers.stop();
}

std::uint16_t HttpServer::port() const {
  return state_->address.port();
}

std::string HttpServer::url() const {
  const tcp::endpoint& endpoint = state_->address;
  const std::string address = endpoint.address().to_string();
  const std::string host = endpoint.address().is_v6() ? "[" + address + "]" : address;
  return (state_->tls.load() ? "https://" : "http://") + host + ":" + std::to_string(endpoint.port());
}

int HttpServer::n_connections() const {
  return state_->n_connections.load();
}

}  // namespace slip
