// SPDX-License-Identifier: Apache-2.0
#include "cli/control_socket.h"

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

#include "common/error.h"
#include "common/log.h"
#include "common/thread_memory.h"

namespace slip::cli {
namespace {

constexpr const char* kName = "control.sock";
constexpr int kBacklog = 8;
constexpr timeval kPeerPatience{5, 0};

[[noreturn]] void fail(const std::string& doing, ErrorCode code = ErrorCode::kIo) {
  throw Error(code, "cannot " + doing + ": " + std::strerror(errno));
}

FileHandle open_directory(const std::filesystem::path& path) {
  FileHandle directory(::open(path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory) fail("open " + path.string());
  return directory;
}

// By way of the open directory: a socket's address has 108 bytes, a path may have more.
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

// Without its line end; false when the peer ended, went quiet or said too much before it.
bool read_line(int peer, std::string& line) {
  std::array<char, 4096> part{};
  while (line.size() <= ControlSocket::kMostBytes) {
    const ssize_t n = ::recv(peer, part.data(), part.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    line.append(part.data(), static_cast<std::size_t>(n));
    if (line.back() != '\n') continue;
    line.pop_back();
    return true;
  }
  return false;
}

bool is_ours(int peer) {
  ucred who{};
  socklen_t size = sizeof who;
  return ::getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && (who.uid == ::geteuid() || who.uid == 0);
}

}  // namespace

ControlSocket::ControlSocket(const std::filesystem::path& data_directory, Handler handler)
    : directory_(open_directory(data_directory)),
      listening_(make_socket()),
      stop_(::eventfd(0, EFD_CLOEXEC)),
      handler_(std::move(handler)) {
  const sockaddr_un address = address_in(directory_);
  ::unlinkat(directory_.get(), kName, 0);  // a crash leaves it, and nobody else holds the directory
  if (!stop_ || ::bind(listening_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::fchmodat(directory_.get(), kName, 0600, 0) != 0 || ::listen(listening_.get(), kBacklog) != 0) {
    fail("listen on " + (data_directory / kName).string());
  }
  thread_ = std::thread([this] { run(); });
}

ControlSocket::~ControlSocket() {
  const std::uint64_t one = 1;
  static_cast<void>(::write(stop_.get(), &one, sizeof one) == sizeof one);  // a counter that is new takes it
  thread_.join();
  ::unlinkat(directory_.get(), kName, 0);
}

void ControlSocket::run() {
  prepare_thread_memory();
  while (true) {
    std::array<pollfd, 2> states{pollfd{listening_.get(), POLLIN, 0}, pollfd{stop_.get(), POLLIN, 0}};
    if (::poll(states.data(), states.size(), -1) < 0) continue;  // EINTR
    if (states[1].revents != 0) return;
    const FileHandle peer(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!peer || !is_ours(peer.get())) continue;
    try {
      answer(peer.get());
    } catch (const std::exception& error) {  // no memory: the command sees the connection close
      log_parts(LogLevel::kError, {"a command of this machine got no answer: ", error.what()});
    }
  }
}

void ControlSocket::answer(int peer) const {
  ::setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &kPeerPatience, sizeof kPeerPatience);
  ::setsockopt(peer, SOL_SOCKET, SO_SNDTIMEO, &kPeerPatience, sizeof kPeerPatience);
  std::string line;
  if (read_line(peer, line)) send_all(peer, handler_(line) + "\n");
}

std::string ask_service(const std::filesystem::path& data_directory, const std::string& line) {
  const FileHandle directory = open_directory(data_directory);
  const FileHandle socket = make_socket();
  const sockaddr_un address = address_in(directory);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    fail("reach a service at " + (data_directory / kName).string(), ErrorCode::kUnavailable);
  }
  std::string reply;
  if (!send_all(socket.get(), line + "\n") || !read_line(socket.get(), reply)) {
    throw Error(ErrorCode::kIo, "the service ended before it answered", "see its log, and run this again");
  }
  return reply;
}

}  // namespace slip::cli
