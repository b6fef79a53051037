// SPDX-License-Identifier: Apache-2.0
#include "cli/service/control_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "common/thread_memory.h"
#include "common/thread_name.h"

namespace slip::cli {
namespace {

constexpr const char* kName = "control.sock";
constexpr int kBacklog = 8;
constexpr int kPauseMs = 100;
constexpr timeval kSendPatience{ControlSocket::kPeerPatience.count(), 0};

[[noreturn]] void fail(const std::string& doing) {
  throw Error(ErrorCode::kIo, "cannot " + doing + ": " + std::strerror(errno));
}

FileHandle open_directory(const std::filesystem::path& path) {
  FileHandle directory(::open(path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory) fail("open " + path.string());
  return directory;
}

// The address goes through the open directory's descriptor, since a socket address is limited to 108 bytes.
sockaddr_un address_in(const FileHandle& directory) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = "/proc/self/fd/" + std::to_string(directory.get()) + "/" + kName;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

FileHandle make_socket() {
  FileHandle socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) fail("make a socket");
  return socket;
}

bool send_all(int peer, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::send(peer, text.data(), text.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

enum class Heard { kMore, kLine, kEnd };

// Appends one recv() to `line`. kLine: complete, without its line end. kEnd: the peer closed, or its line is too long.
Heard hear(int peer, std::string& line, int flags) {
  std::array<char, 4096> part{};
  const ssize_t n = ::recv(peer, part.data(), part.size(), flags);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return Heard::kMore;
  if (n <= 0) return Heard::kEnd;
  line.append(part.data(), static_cast<std::size_t>(n));
  if (line.back() != '\n') return line.size() > ControlSocket::kMostBytes ? Heard::kEnd : Heard::kMore;
  line.pop_back();
  return Heard::kLine;
}

bool is_ours(int peer) {
  ucred who{};
  socklen_t size = sizeof who;
  return ::getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && (who.uid == ::geteuid() || who.uid == 0);
}

// Also limits connect(), which waits while the service takes no connection from its full backlog.
void limit_waits(int socket, std::chrono::milliseconds patience) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience);
  const timeval limit{seconds.count(), std::chrono::microseconds(patience - seconds).count()};
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

[[noreturn]] void fail_unheard(std::chrono::milliseconds patience) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience).count();
  throw Error(ErrorCode::kUnavailable, "no answer came within " + std::to_string(seconds) + " s",
              "that process is stopped, stuck or slow, and may still do it: see its log, let it go on (kill -CONT) or "
              "restart it, and run this again");
}

}  // namespace

ControlSocket::ControlSocket(const std::filesystem::path& data_directory, Handler handler)
    : directory_(open_directory(data_directory)),
      listening_(make_socket()),
      stop_(::eventfd(0, EFD_CLOEXEC)),
      handler_(std::move(handler)) {
  const sockaddr_un address = address_in(directory_);
  ::unlinkat(directory_.get(), kName, 0);  // left by a crash; the lock ensures that no other process uses it
  if (!stop_ || ::bind(listening_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::fchmodat(directory_.get(), kName, 0600, 0) != 0 || ::listen(listening_.get(), kBacklog) != 0) {
    fail("listen on " + (data_directory / kName).string());
  }
  try {
    thread_ = std::thread([this] {
      name_thread("control");
      run();
    });
  } catch (const std::system_error& error) {
    ::unlinkat(directory_.get(), kName, 0);
    throw Error(ErrorCode::kIo, std::string("cannot start the control socket's thread: ") + error.what());
  }
}

ControlSocket::~ControlSocket() {
  const std::uint64_t one = 1;
  static_cast<void>(::write(stop_.get(), &one, sizeof one) == sizeof one);  // cannot fail: the counter is new
  thread_.join();
  ::unlinkat(directory_.get(), kName, 0);
}

void ControlSocket::run() {
  prepare_thread_memory();
  std::vector<Peer> peers;
  const auto ask_again_ms = static_cast<int>(std::chrono::milliseconds(kPeerPatience).count() / 10);
  while (true) {
    std::array<pollfd, 2 + kMostPeers> states{pollfd{stop_.get(), POLLIN, 0}, pollfd{listening_.get(), POLLIN, 0}};
    for (std::size_t i = 0; i < peers.size(); ++i) states[2 + i] = {peers[i].socket.get(), POLLIN, 0};
    if (::poll(states.data(), 2 + peers.size(), peers.empty() ? -1 : ask_again_ms) < 0) continue;  // EINTR
    if (states[0].revents != 0) return;
    try {
      serve(peers);
      if (states[1].revents != 0) take_peer(peers);
    } catch (const std::exception& error) {  // out of memory: the peers' connections are closed
      log_parts(LogLevel::kError, {"a command on the control socket got no answer: ", error.what()});
      peers.clear();
    }
  }
}

void ControlSocket::serve(std::vector<Peer>& peers) const {
  std::erase_if(peers, [this](Peer& peer) { return !awaits_more(peer); });
}

void ControlSocket::take_peer(std::vector<Peer>& peers) const {
  FileHandle socket(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) return await_descriptor();
  if (!is_ours(socket.get())) return;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendPatience, sizeof kSendPatience);
  if (peers.size() == kMostPeers) peers.erase(peers.begin());
  peers.push_back({std::move(socket), {}, monotonic_us() + std::chrono::microseconds(kPeerPatience).count()});
}

// Without a free descriptor accept4() fails at once, and poll() reports the same peer again.
void ControlSocket::await_descriptor() const {
  pollfd stop{stop_.get(), POLLIN, 0};
  ::poll(&stop, 1, kPauseMs);
}

// Answers a complete line. False: the peer is finished, or was silent too long.
bool ControlSocket::awaits_more(Peer& peer) const {
  const Heard heard = hear(peer.socket.get(), peer.line, MSG_DONTWAIT);
  if (heard == Heard::kLine) send_all(peer.socket.get(), handler_(peer.line) + "\n");
  return heard == Heard::kMore && monotonic_us() < peer.until_us;
}

std::string ask_service(const std::filesystem::path& data_directory, const std::string& line,
                        std::chrono::milliseconds patience) {
  const FileHandle directory = open_directory(data_directory);
  const FileHandle socket = make_socket();
  const sockaddr_un address = address_in(directory);
  const std::int64_t until_us = monotonic_us() + std::chrono::microseconds(patience).count();
  limit_waits(socket.get(), patience);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == EAGAIN) fail_unheard(patience);
    throw Error(ErrorCode::kUnavailable,
                "cannot reach a service at " + (data_directory / kName).string() + ": " + std::strerror(errno),
                std::string("wait until it has started, or stop it, and run this again; if ") + kName +
                    " was deleted, a restart of the service makes it again");
  }
  std::string reply;
  Heard heard = send_all(socket.get(), line + "\n") ? Heard::kMore : Heard::kEnd;
  while (heard == Heard::kMore && monotonic_us() < until_us) heard = hear(socket.get(), reply, 0);
  if (heard == Heard::kMore) fail_unheard(patience);
  if (heard == Heard::kEnd) {
    throw Error(ErrorCode::kIo, "the service ended before it answered", "see its log, and run this again");
  }
  return reply;
}

}  // namespace slip::cli
