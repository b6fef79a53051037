// SPDX-License-Identifier: Apache-2.0
// Writes a folder of a larger shape that computes the same function as a small trained Llama: real acceptance at a
// realistic cost.
#include "checkpoints/inflate.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "common/error.h"

namespace {

int inflate(const std::string& from, const std::string& to, const slip::InflateShape& shape) {
  try {
    slip::inflate_checkpoint(from, to, shape);
    const slip::ModelConfig config = slip::load_model_config(to);
    std::printf("%s: %.1fM parameters, %d layers, hidden %d, ffn %d, heads %d/%d\n", to.c_str(),
                static_cast<double>(config.parameters()) / 1e6, config.n_layers, config.hidden_size,
                config.intermediate_size, config.n_heads, config.n_kv_heads);
    return 0;
  } catch (const slip::Error& error) {
    std::fprintf(stderr, "inflate: %s\n", error.what());
    if (!error.hint().empty()) std::fprintf(stderr, "hint: %s\n", error.hint().c_str());
    return 2;
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Writes a larger Llama that computes what a small one computes.", "inflate");
  std::string from, to;
  slip::InflateShape shape;
  app.add_option("--from", from, "folder of the small model")->required();
  app.add_option("--to", to, "folder to write")->required();
  app.add_option("--hidden", shape.hidden_size,
                 "hidden size; exact if it is the small one's times a power of 4, else up to rounding of the norms");
  app.add_option("--layers", shape.n_layers, "layers");
  app.add_option("--ffn", shape.intermediate_size, "FFN width");
  app.add_option("--heads", shape.n_heads, "query heads");
  app.add_option("--kv-heads", shape.n_kv_heads, "key/value heads");
  app.add_option("--positions", shape.max_positions, "longest context in tokens");
  CLI11_PARSE(app, argc, argv);
  return inflate(from, to, shape);
}
