// SPDX-License-Identifier: Apache-2.0
// The built program under test from outside: it is started, called over a socket, and stopped by signals.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/common/patience.h"
#include "tests/server/raw_client.h"

namespace slip {

inline const std::filesystem::path kSource = SLIPSTREAM_SOURCE_DIR;
inline const std::string kTarget = (kSource / "checkpoints/demo/target").string();
inline const std::string kDraft = (kSource / "checkpoints/demo/draft").string();

inline std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// A `slipstream` child process with its output in files.
class Program {
 public:
  // `error_output`: a descriptor that replaces the file of standard error; −1: none.
  Program(std::filesystem::path folder, const std::vector<std::string>& arguments,
          const std::vector<std::string>& environment = {}, bool (*before)() = nullptr, int error_output = -1)
      : folder_(std::move(folder)), error_output_(error_output) {
    for (const char* name : {"out", "err"}) std::filesystem::remove(folder_ / name);
    pid_ = ::fork();
    if (pid_ == 0 && before != nullptr && !before()) ::_exit(126);
    if (pid_ == 0) run(arguments, environment);
  }
  ~Program() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  // Waits for the exit status; 128 + n when signal n ended it; −1 when it has not ended after 20 s · kPatience.
  int wait() {
    for (int i = 0; i < 2000 * testing::kPatience; ++i) {
      int status = 0;
      if (::waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return -1;
  }
  int stop() {
    signal(SIGTERM);
    return wait();
  }
  void signal(int number) const { ::kill(pid_, number); }
  pid_t pid() const { return pid_; }
  std::string out() const { return text_of(folder_ / "out"); }
  std::string err() const { return text_of(folder_ / "err"); }
  std::string log() const { return out() + err(); }

  // The port that it reports to listen on; 0 when it reports none within the same time.
  std::uint16_t port() const {
    static const std::regex url("https?://127\\.0\\.0\\.1:([0-9]+)");
    for (int i = 0; i < 2000 * testing::kPatience; ++i) {
      const std::string text = out();
      std::smatch match;
      if (std::regex_search(text, match, url)) return static_cast<std::uint16_t>(std::stoi(match[1]));
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return 0;
  }

 private:
  [[noreturn]] void run(const std::vector<std::string>& arguments, const std::vector<std::string>& environment) const {
    ::dup2(::open((folder_ / "out").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
    ::dup2(::open((folder_ / "err").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
    if (error_output_ >= 0) ::dup2(error_output_, 2);
    ::unsetenv("SLIPSTREAM_API_KEY");
    for (const auto& one : environment) ::putenv(const_cast<char*>(one.c_str()));
    const std::string program = std::string(SLIPSTREAM_BINARY_DIR) + "/slipstream";
    std::vector<char*> argv = {const_cast<char*>(program.c_str()), const_cast<char*>("serve")};
    for (const auto& one : arguments) argv.push_back(const_cast<char*>(one.c_str()));
    argv.push_back(nullptr);
    ::execv(program.c_str(), argv.data());
    ::_exit(127);
  }
  std::filesystem::path folder_;
  int error_output_ = -1;
  pid_t pid_ = -1;
};

class ServeTest : public ::testing::Test {
 protected:
  ServeTest() {
    folder_ =
        std::filesystem::temp_directory_path() / ("slip-serve-" + std::to_string(::getpid()) + "-" +
                                                  ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~ServeTest() override { std::filesystem::remove_all(folder_); }

  std::string data() const { return (folder_ / "data").string(); }
  std::vector<std::string> usual() const {
    return {"--target", kTarget, "--draft", kDraft, "--port", "0", "--data-dir", data(), "--k", "3"};
  }
  static RawReply ask(std::uint16_t port, const std::string& bytes) {
    RawClient client(port);
    client.send(bytes);
    return client.read_reply();
  }
  static RawReply get(std::uint16_t port, const std::string& path) {
    return ask(port, "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  static std::string chat_bytes(const std::string& prompt, int max_tokens, const std::string& more = "") {
    const nlohmann::json body = {{"messages", {{{"role", "user"}, {"content", prompt}}}},
                                 {"temperature", 0},
                                 {"max_tokens", max_tokens},
                                 {"metadata", {{"topic", "math"}}}};
    std::string text = body.dump();
    text.insert(text.size() - 1, more);
    return "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nContent-Length: " +
           std::to_string(text.size()) + "\r\n\r\n" + text;
  }
  std::int64_t count(const std::string& sql) const {
    sqlite3* db = nullptr;
    sqlite3_open_v2((data() + "/ledger.db").c_str(), &db, SQLITE_OPEN_READONLY, nullptr);
    sqlite3_stmt* statement = nullptr;
    std::int64_t found = -1;
    if (sqlite3_prepare_v2(db, sql.c_str(), -1, &statement, nullptr) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW) {
      found = sqlite3_column_int64(statement, 0);
    }
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return found;
  }
  // Waits for its end and returns the exit status.
  int run(const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {}) {
    Program program(folder_, arguments, environment);
    const int status = program.wait();
    out_ = program.out();
    err_ = program.err();
    return status;
  }

  std::filesystem::path folder_;
  std::string out_, err_;
};

}  // namespace slip
