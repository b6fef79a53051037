// SPDX-License-Identifier: Apache-2.0
#include "cli/config/check_config.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "checkpoints/llama_tensors.h"
#include "checkpoints/weight_files.h"
#include "cli/load_model.h"
#include "cli/target_worker.h"
#include "common/file.h"
#include "kernels/cuda/stream_queue.h"
#include "server/http/gatekeeper.h"
#include "server/http/tls.h"
#include "text/tokenizer.h"

namespace slip::cli {
namespace {

namespace fs = std::filesystem;

// Checks shape, tensor names and vocabulary without reading the weights' values.
void check_model(const fs::path& folder) {
  const ModelConfig config = load_model_config(folder);
  const WeightFiles weights(folder);
  check_llama_tensors(weights.tensors(), config, weights.where());
}

// Checks that the weights and the cache fit into the host's memory.
void check_memory(const ServeConfig& config) {
  if (config.device != Device::kCpu) return;
  const ModelConfig target = load_model_config(config.target);
  const std::uint64_t weight_bytes = require_memory_for_weights(config.target, target, config.dtype);
  cache_pages(cache_options(config), target, cache_room(nullptr, weight_bytes));
}

void check_draft(const ServeConfig& config) {
  if (config.draft.empty()) return;
  check_model(config.draft);
  check_draft_vocabulary(config.draft, config.target);
}

void check_host(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  if (::inet_pton(AF_INET, host.c_str(), address.data()) == 1) return;
  if (::inet_pton(AF_INET6, host.c_str(), address.data()) == 1) return;
  throw Error(ErrorCode::kInvalidArgument, "server.host \"" + host + "\" is no IP address", "such as 127.0.0.1 or ::1",
              "server.host");
}

// Whether files can be created in `folder`. access() alone lets root write in /proc and /sys, where creation fails.
bool takes_new_files(const fs::path& folder) {
  struct statfs mounted {};
  if (!fs::is_directory(folder) || ::statfs(folder.c_str(), &mounted) != 0) return false;
  if (mounted.f_type == PROC_SUPER_MAGIC || mounted.f_type == SYSFS_MAGIC) return false;
  return ::access(folder.c_str(), W_OK | X_OK) == 0;
}

// Throws the error that opening the data directory would, without creating it.
void check_data_directory(const fs::path& folder) {
  fs::path parent = fs::absolute(folder).lexically_normal();
  const bool is_there = fs::exists(fs::symlink_status(folder));
  if (is_there) require_private_directory(folder);
  while (!fs::exists(parent) && parent.has_relative_path()) parent = parent.parent_path();
  if (takes_new_files(parent)) return;
  throw Error(
      ErrorCode::kPermission,
      folder.string() + " cannot be " + (is_there ? "used" : "made") + ": " + parent.string() + " cannot be written",
      "choose another --data-dir", "data.directory");
}

// Why a start could not append to what is at `file`; empty if it can. A FIFO without a reader passes: one may come
// until the start, and opening the FIFO to see would end a reader that is there.
std::string append_fault(const fs::path& file) {
  if (fs::is_fifo(file)) return ::access(file.c_str(), W_OK) == 0 ? "" : std::strerror(errno);
  const FileHandle opened(::open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  return opened ? "" : std::strerror(errno);
}

// Throws the error that opening the log file would, without creating it.
void check_log_file(const fs::path& file) {
  if (file.empty()) return;
  // A dangling link is valid: the file is created at its target.
  const fs::path made = fs::is_symlink(file) ? file.parent_path() / fs::read_symlink(file) : file;
  const fs::path folder = fs::absolute(made).parent_path();
  std::string fault;
  if (!fs::exists(made)) {
    if (!takes_new_files(folder)) fault = folder.string() + " is no directory that can be written";
  } else {
    fault = append_fault(made);
  }
  if (fault.empty()) return;
  throw Error(ErrorCode::kIo, "cannot open the log " + file.string() + ": " + fault, {}, "log.file");
}

}  // namespace

ApiKeys load_keys(const ServeConfig& config, std::span<const SloTier> tiers, const ApiKeys& environment) {
  ApiKeys keys = ApiKeys::load(config.api_keys_file, environment, config.server.key_limits);
  require_key_beyond_loopback(config.server.host, keys);
  for (const ApiKey& key : keys.all()) {
    for (const std::string& name : key.slo_tiers) {
      const bool known =
          std::any_of(tiers.begin(), tiers.end(), [&](const SloTier& tier) { return tier.name == name; });
      if (known) continue;
      throw Error(ErrorCode::kInvalidArgument,
                  config.api_keys_file.string() + ": the API key " + key.name + " may ask for the tier '" + name +
                      "', which slo.tiers has not",
                  "write it there, or remove it from the key's slo_tiers=", "server.api_keys_file");
    }
  }
  return keys;
}

std::vector<Error> faults_of(const ServeConfig& config, const std::string& key_in_environment) {
  std::vector<Error> faults;
  const auto check = [&](auto&& one) {
    try {
      one();
    } catch (const Error& error) {
      faults.push_back(error);
    } catch (const fs::filesystem_error& error) {
      faults.push_back(io_error(error));
    }
  };
  check([&] {
    check_model(config.target);
    check_memory(config);
  });
  check([&] { Tokenizer::load(config.target); });
  check([&] { check_draft(config); });
  check([&] { load_chat_template(config.target, config.chat_template); });
  check([&] {
    if (config.device == Device::kCuda) kernels::cuda::describe_device();
  });
  check([&] { check_host(config.server.host); });
  check([&] { load_keys(config, config.slo_tiers, ApiKeys::of_environment(key_in_environment)); });
  check([&] { Gatekeeper(config.server, {}); });
  check([&] { load_tls(config.server); });
  check([&] { TopicTable(config.topics); });
  check([&] { check_data_directory(config.data_dir); });
  check([&] { check_log_file(config.log.file); });
  check([&] {
    if (config.learning) check_training_device(config.learner.trainer.device);
  });
  return faults;
}

}  // namespace slip::cli
