// SPDX-License-Identifier: Apache-2.0
#include "distill/warmup/warmup_output.h"

#include <fcntl.h>

#include <utility>

#include "checkpoints/store_folder.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "common/topic_name.h"
#include "text/tokenizer_paths.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxTokenizerFileBytes = std::uint64_t{256} << 20;

}  // namespace

void copy_tokenizer_files(const fs::path& target, const fs::path& folder) {
  for (const char* name : kTokenizerFiles) {
    if (fs::exists(target / name))
      replace_file(folder / name, read_file(target / name, kMaxTokenizerFileBytes), "warmup.words");
  }
}

void write_warmup_meta(const fs::path& folder, const WarmupOptions& options, DraftMeta meta) {
  const std::string name = folder_name(options.out);
  meta.draft = is_topic_name(name) ? name : "draft";
  meta.version = 1;
  meta.target = folder_name(options.target);
  meta.created_us = wall_us();
  meta.reason = "warmup";
  const fs::path weights = folder / "model.safetensors";
  const FileHandle file(::open(weights.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throw Error(ErrorCode::kIo, "cannot read back " + weights.string());
  meta.weights_sha256 = sha256_of(file.get(), weights.string());
  replace_file(folder / "meta.json", to_json(meta), "warmup.meta");
}

}  // namespace slip
