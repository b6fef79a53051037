// SPDX-License-Identifier: Apache-2.0
#include "bench/common/service.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <regex>
#include <sstream>
#include <thread>

#include "common/error.h"

namespace slip::bench {
namespace {

std::string file_text(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

Service::Service(const std::filesystem::path& program, std::vector<std::string> arguments, std::filesystem::path log)
    : log_(std::move(log)) {
  arguments.insert(arguments.begin(), {program.string(), "serve", "--port", "0"});
  std::vector<char*> argv;
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ < 0) throw Error(ErrorCode::kIo, "cannot start " + program.string());
  if (pid_ == 0) {
    const int out = ::open(log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(out, 1);
    ::dup2(out, 2);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  await_ready();
}

void Service::await_ready() {
  static const std::regex url("http://([0-9A-Za-z.\\[\\]:]+):([0-9]+)");
  for (int tries = 0; tries < 600; ++tries) {
    std::smatch match;
    const std::string text = file_text(log_);
    if (std::regex_search(text, match, url)) {
      endpoint_ = {match[1], match[2]};
      if (!get(endpoint_, "/readyz").empty()) return;
    }
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  const std::string text = file_text(log_);
  stop();
  throw Error(ErrorCode::kUnavailable,
              "the service did not get ready:\n" + text.substr(text.size() > 2000 ? text.size() - 2000 : 0));
}

int Service::stop() {
  if (pid_ < 0) return 0;
  ::kill(pid_, SIGTERM);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Service::~Service() {
  stop();
}

std::filesystem::path slipstream_beside() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "slipstream";
}

}  // namespace slip::bench
