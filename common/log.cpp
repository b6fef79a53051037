// SPDX-License-Identifier: Apache-2.0
#include "common/log.h"

#include <fcntl.h>
#include <poll.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/sink.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <future>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <thread>

#include "common/error.h"
#include "common/escape_controls.h"
#include "common/file.h"
#include "common/json_text.h"
#include "common/lock_free_inbox.h"
#include "common/thread_memory.h"
#include "common/thread_name.h"

namespace slip {
namespace {

constexpr std::array<std::string_view, 5> kLevelNames = {"debug", "info", "warn", "error", "off"};

constexpr const char* kTime = "%Y-%m-%dT%H:%M:%S.%eZ";

FileHandle open_log_file(const std::filesystem::path& file) {
  if (file.empty()) return {};
  FileHandle handle(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0600));
  if (handle) return handle;
  throw Error(ErrorCode::kIo, "cannot open the log " + file.string() + ": " + std::strerror(errno), {}, "log.file");
}

constexpr std::size_t kMostPendingLines = 4096;
constexpr std::size_t kMostPendingBytes = std::size_t{32} << 20;  // with log_prompts one line may have 16 MiB
constexpr std::chrono::milliseconds kFlushPatience{1000};

// True once `fd` is writable. Non-blocking descriptors, such as some FIFOs, return EAGAIN.
bool await_room(int fd) {
  pollfd state{fd, POLLOUT, 0};
  return ::poll(&state, 1, -1) == 1 && (state.revents & POLLOUT) != 0;
}

// False if the rest could not be written: disk full, or a pipe without a reader.
bool write_text(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
    if (n > 0 || (n < 0 && errno == EINTR)) continue;
    if (n < 0 && errno == EAGAIN && await_room(fd)) continue;
    return false;
  }
  return true;
}

// Writes each line with one write(2), so lines of two processes do not mix.
//
// The engine's and the learner's threads log here, and the learner may lose its CPU at any point. No thread may
// therefore wait for the writing one: lines go into a lock-free inbox. A BackgroundLog's thread writes them; without
// one, the thread that holds the lock writes all pending lines.
class LineSink final : public spdlog::sinks::sink {
 public:
  void set(LogFormat format, const std::filesystem::path& file) {
    auto opened = std::make_shared<const Target>(Target{file, open_log_file(file)});
    flush(kFlushPatience);  // earlier lines belong to the old file
    const std::lock_guard lock(target_mutex_);
    format_ = format;
    target_ = std::move(opened);
  }
  void reopen() {
    const std::filesystem::path path = target()->path;
    if (!path.empty()) set(format_, path);
  }

  void log(const spdlog::details::log_msg& message) override {
    try {
      push(line_of(message));
    } catch (const std::bad_alloc&) {
      return drop(1);
    }
    if (!in_background_.load(std::memory_order_seq_cst)) return write_pending();
    if (sleeping_.exchange(false)) wake();
  }
  void flush() override {}
  void set_pattern(const std::string& /*pattern*/) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter> /*formatter*/) override {}

  bool flush(std::chrono::milliseconds patience) {
    if (!in_background_) {
      write_pending();
      return true;
    }
    const std::uint64_t so_far = n_pushed_.load(std::memory_order_acquire);
    std::unique_lock lock(written_mutex_);
    return written_changed_.wait_for(lock, patience, [&] { return n_written_ >= so_far; });
  }

  // Returns once the thread runs, so that stop() finds it. Error{kIo}.
  void start() {
    if (!wake_fd_) wake_fd_ = FileHandle(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_fd_) throw Error(ErrorCode::kIo, "no file descriptor left for the log", "raise `ulimit -n`");
    stopping_ = false;
    in_background_ = true;
    std::promise<void> ended;
    ended_ = ended.get_future();
    try {
      std::thread([this, done = std::move(ended)]() mutable {
        name_thread("log");
        run();
        done.set_value();
      }).detach();
    } catch (const std::system_error& error) {
      in_background_ = false;
      throw Error(ErrorCode::kIo, std::string("cannot start the log's thread: ") + error.what());
    }
  }
  // A background thread stuck on a stalled reader keeps the lock, so write_pending() below does not block on that
  // reader.
  void stop() {
    const auto until = std::chrono::steady_clock::now() + kFlushPatience;
    flush(kFlushPatience);
    stopping_ = true;
    wake();
    if (ended_.wait_until(until + kFlushPatience / 10) == std::future_status::ready) in_background_ = false;
    write_pending();
  }

  void drop(std::uint64_t n) {
    n_lost_.fetch_add(n, std::memory_order_relaxed);
    n_dropped_.fetch_add(n, std::memory_order_relaxed);
  }

  std::uint64_t n_dropped() const { return n_dropped_.load(std::memory_order_relaxed); }

 private:
  struct Target {
    std::filesystem::path path;
    FileHandle file;  // empty: standard error
  };

  std::shared_ptr<const Target> target() const {
    const std::lock_guard lock(target_mutex_);
    return target_;
  }

  void push(std::string line) {
    const std::size_t bytes = line.size();
    const std::size_t waiting = n_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    const bool fits = waiting == 0 || waiting + bytes <= kMostPendingBytes;
    if (fits && lines_.push(std::move(line))) {
      n_pushed_.fetch_add(1, std::memory_order_release);
      return;
    }
    n_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    drop(1);
  }

  std::string line_of(const spdlog::details::log_msg& message) const {
    auto& formatter =
        thread_scratch<spdlog::pattern_formatter, struct LineTime>(kTime, spdlog::pattern_time_type::utc, "");
    spdlog::memory_buf_t time;
    formatter.format(message, time);
    const std::string_view text(message.payload.data(), message.payload.size());
    const auto level = spdlog::level::to_string_view(message.level);
    std::string line;
    if (format_ == LogFormat::kJson) {
      line.append("{\"time\":\"").append(time.data(), time.size()).append("\",\"level\":\"");
      line.append(level.data(), level.size()).append("\",\"message\":").append(json_quoted(text)).append("}\n");
    } else {
      line.append(time.data(), time.size()).append(" ").append(level.data(), level.size());
      line.append(" ").append(escape_controls(text)).append("\n");
    }
    return line;
  }

  // The background thread. A push while it goes to sleep is not missed: log() checks `sleeping_` after its push.
  void run() {
    prepare_thread_memory();
    while (true) {
      sleeping_ = true;
      const bool last = stopping_;
      if (!lines_.empty() || last) {
        sleeping_ = false;
        const std::lock_guard lock(mutex_);
        write_all();
        if (last) return;
        continue;
      }
      pollfd state{wake_fd_.get(), POLLIN, 0};
      ::poll(&state, 1, -1);
      std::uint64_t ignored = 0;
      static_cast<void>(::read(wake_fd_.get(), &ignored, sizeof ignored) == 0);
    }
  }
  void wake() const {
    const std::uint64_t one = 1;
    const auto written = ::write(wake_fd_.get(), &one, sizeof one);
    static_cast<void>(written);  // fails only if the counter is full, and then the thread is awake anyway
  }

  // A thread that finds the lock taken leaves its line to the holder, which checks again after unlocking. Inbox and
  // fence are sequentially consistent, so one of the two sees the line.
  void write_pending() {
    while (!lines_.empty()) {
      {
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (!lock.owns_lock()) return;
        write_all();
      }
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
  }

  // REQUIRES: mutex_ is held.
  void write_all() {
    for (const std::string& line : lines_.take_all()) {
      const auto to = target();
      if (!write_text(to->file ? to->file.get() : STDERR_FILENO, line)) drop(1);
      n_bytes_.fetch_sub(line.size(), std::memory_order_relaxed);
      const std::lock_guard lock(written_mutex_);
      ++n_written_;
    }
    report_lost();
    written_changed_.notify_all();
  }

  // REQUIRES: mutex_ is held.
  void report_lost() noexcept {
    const std::uint64_t lost = n_lost_.exchange(0, std::memory_order_relaxed);
    if (lost == 0) return;
    bool written = false;
    try {
      written = write_lost(lost);
    } catch (...) {  // out of memory for this line too
    }
    if (!written) n_lost_.fetch_add(lost, std::memory_order_relaxed);  // reported once writing works again
  }
  bool write_lost(std::uint64_t lost) {
    const std::string text = std::to_string(lost) +
                             " lines of the log were lost: they came faster than they were written, or writing failed";
    const std::string line = line_of(spdlog::details::log_msg("slipstream", spdlog::level::warn, text));
    const auto to = target();
    return write_text(to->file ? to->file.get() : STDERR_FILENO, line);
  }

  LockFreeInbox<std::string> lines_{kMostPendingLines};
  std::atomic<std::size_t> n_bytes_{0};  // of lines waiting or being written
  std::atomic<std::uint64_t> n_pushed_{0};
  std::atomic<std::uint64_t> n_lost_{0};     // since the last line about lost lines
  std::atomic<std::uint64_t> n_dropped_{0};  // since the process began
  std::atomic<LogFormat> format_{LogFormat::kText};
  std::mutex mutex_;  // held while writing, possibly forever: only the background thread waits for it

  mutable std::mutex target_mutex_;  // never held while writing
  std::shared_ptr<const Target> target_ = std::make_shared<const Target>();

  std::mutex written_mutex_;
  std::condition_variable written_changed_;
  std::uint64_t n_written_ = 0;

  std::atomic<bool> in_background_{false}, stopping_{false}, sleeping_{false};
  FileHandle wake_fd_;
  std::future<void> ended_;
};

LineSink& sink() {
  // Never destroyed: threads may log during static destruction.
  static auto* const one = new LineSink;
  return *one;
}

spdlog::logger& logger() {
  static auto* const one = [] {
    auto* made = new spdlog::logger("slipstream", std::shared_ptr<LineSink>(&sink(), [](LineSink*) {}));
    // spdlog's own handler writes to standard error and could block on its reader.
    made->set_error_handler([](const std::string& /*fault*/) { sink().drop(1); });
    return made;
  }();
  return *one;
}

spdlog::level::level_enum library_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

void write_line(LogLevel level, std::string_view message) noexcept {
  try {
    const auto as_known_there = library_level(level);
    logger().log(as_known_there, spdlog::string_view_t(message.data(), message.size()));
  } catch (...) {  // out of memory
    sink().drop(1);
  }
}

}  // namespace

void log_debug(std::string_view message) noexcept {
  write_line(LogLevel::kDebug, message);
}

void log_info(std::string_view message) noexcept {
  write_line(LogLevel::kInfo, message);
}

void log_warn(std::string_view message) noexcept {
  write_line(LogLevel::kWarn, message);
}

void log_error(std::string_view message) noexcept {
  write_line(LogLevel::kError, message);
}

void log_parts(LogLevel level, std::initializer_list<std::string_view> parts) noexcept {
  try {
    if (!logger().should_log(library_level(level))) return;
    std::string line;
    for (const std::string_view part : parts) line += part;
    write_line(level, line);
  } catch (...) {  // out of memory
    sink().drop(1);
  }
}

BackgroundLog::BackgroundLog() {
  sink().start();
}

BackgroundLog::~BackgroundLog() {
  sink().stop();
}

bool flush_log(std::chrono::milliseconds patience) {
  return sink().flush(patience);
}

std::uint64_t log_lines_dropped() {
  return sink().n_dropped();
}

void set_log(const LogOptions& options) {
  sink().set(options.format, options.file);
  set_log_level(options.level);
}

void reopen_log() {
  sink().reopen();
}

void set_log_level(LogLevel level) {
  logger().set_level(library_level(level));
}

const char* log_level_name(LogLevel level) {
  return kLevelNames[static_cast<std::size_t>(level)].data();
}

LogLevel parse_log_level(std::string_view name) {
  for (std::size_t i = 0; i < kLevelNames.size(); ++i) {
    if (name == kLevelNames[i]) return static_cast<LogLevel>(i);
  }
  throw Error(ErrorCode::kInvalidArgument, "there is no log level of that name", "use debug, info, warn, error or off",
              "log_level");
}

}  // namespace slip
