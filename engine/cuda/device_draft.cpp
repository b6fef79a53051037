// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/device_draft.h"

#include <algorithm>
#include <utility>

#include "common/error.h"
#include "engine/cuda/device_worker.h"
#include "engine/models/step_check.h"

namespace slip {
namespace {

using kernels::cuda::DeviceQueue;
using kernels::cuda::DrawRule;
using kernels::cuda::DrawTokens;
using kernels::cuda::GumbelParts;
using kernels::cuda::kRowParts;
using kernels::cuda::MakeDistributions;
using kernels::cuda::ProcessLogits;
using kernels::cuda::Transform;

std::int32_t most_rows(const DeviceDraft::Size& size) {
  SLIP_CHECK(size.max_chains > 0 && size.max_depth > 0 && size.n_pages > 0, "a draft without room");
  return std::max(size.max_rows_read, size.max_chains);
}

// Number of rows after padding each sequence to whole tiles, since each may have its own weights.
std::int32_t most_places(std::int32_t n_rows, std::int32_t n_sequences) {
  return row_capacity(n_rows + n_sequences * (kernels::cuda::kTileRows - 1));
}

std::int32_t slots_after(const DeviceDraftChain& chain, std::int32_t depth) {
  return chain.n_cached + static_cast<std::int32_t>(chain.tokens.size()) + depth;
}

}  // namespace

DeviceDraft::DeviceDraft(std::shared_ptr<DeviceQueue> queue, const ModelWeights& shape, const Size& size)
    : queue_(std::move(queue)),
      n_rows_(static_cast<std::size_t>(row_capacity(size.max_chains))),
      max_chains_(size.max_chains),
      max_depth_(size.max_depth),
      max_rows_(most_rows(size)),
      weights_(queue_, shape),
      transformer_(queue_, shape.config, {most_places(max_rows_, max_chains_), most_places(max_chains_, max_chains_)}),
      cache_(shape.config, Dtype::kBFloat16, size.n_pages,
             std::make_unique<DevicePages>(queue_, PagePool::page_bytes(shape.config, Dtype::kBFloat16) *
                                                       static_cast<std::size_t>(size.n_pages))),
      draw_tables_(lay_out(n_rows_, size.max_depth)),
      tables_(*queue_, draw_tables_.bytes),
      processors_(*queue_, n_rows_ * static_cast<std::size_t>(size.max_depth), n_rows_, shape.config.vocab_size),
      parents_(*queue_, n_rows_ * static_cast<std::size_t>(size.max_depth)),
      logits_(*queue_, n_rows_ * static_cast<std::size_t>(size.max_depth + 1) *
                           static_cast<std::size_t>(shape.config.vocab_size)),
      distributions_(*queue_, n_rows_ * static_cast<std::size_t>(size.max_depth)),
      distribution_parts_(*queue_, n_rows_ * kRowParts),
      gumbel_parts_(*queue_, n_rows_ * kRowParts),
      tokens_(*queue_, distributions_.size()),
      logprobs_(*queue_, distributions_.size()),
      drawn_tokens_(distributions_.size()),
      drawn_logprobs_(distributions_.size()),
      drawn_distributions_(distributions_.size()),
      logit_row_(static_cast<std::size_t>(shape.config.vocab_size)) {
  for (std::int32_t depth = 0; depth < max_depth_; ++depth) {
    const DeviceStep::Bounds bounds{most_places(depth == 0 ? max_rows_ : max_chains_, max_chains_),
                                    most_places(max_chains_, max_chains_), size.n_pages, max_chains_};
    steps_.push_back(std::make_unique<DeviceStep>(*queue_, shape.config, bounds));
  }
  std::vector<std::int32_t> parents;
  for (std::int32_t depth = 0; depth < max_depth_; ++depth) parents.resize(at(0, depth + 1), node_above(depth));
  queue_->copy_in(parents_.get(), parents.data(), parents.size() * sizeof(std::int32_t));
  queue_->wait();
}

DeviceDraft::DrawTables DeviceDraft::lay_out(std::size_t n_rows, std::int32_t max_depth) {
  TableLayout layout;
  DrawTables tables;
  tables.transforms = layout.take<Transform>(n_rows);
  tables.rules = layout.take<DrawRule>(n_rows);
  tables.addresses = layout.take<RandomAddress>(n_rows * static_cast<std::size_t>(max_depth));
  tables.bytes = layout.bytes;
  return tables;
}

float* DeviceDraft::logits(std::int32_t depth) const {
  return logits_.get() + at(0, depth) * static_cast<std::size_t>(config().vocab_size);
}

StepInput DeviceDraft::checked_step() {
  StepInput input = slice_step_.of(slices_);
  input.weights = slot_of_slice_;
  check_step(input, config(), {max_rows_, max_chains_});
  return input;
}

std::size_t DeviceDraft::put_pass(std::span<const std::uint16_t> weight_slots, std::span<const DraftSlice> slices,
                                  float* logits) {
  slices_.assign(slices.begin(), slices.end());
  slot_of_slice_.assign(weight_slots.begin(), weight_slots.end());
  const StepInput input = checked_step();
  DeviceStep& step = *steps_.front();
  const DevicePassShape shape = shape_of(step.needs(input));
  step.put(input, shape, weights_.slot_begins());
  transformer_.put({weights_.model(), step, cache_, logits, nullptr, /*by_weight_slots=*/true}, shape);
  return input.logit_rows.size();
}

void DeviceDraft::read(int weight_slot, std::span<const DraftSlice> slices) {
  put_pass(std::vector(slices.size(), static_cast<std::uint16_t>(weight_slot)), slices, nullptr);
  queue_->wait();
}

void DeviceDraft::score(std::span<const std::uint16_t> weight_slots, std::span<const DraftSlice> slices,
                        std::span<float> out) {
  const std::size_t n = put_pass(weight_slots, slices, raw_logits()) * static_cast<std::size_t>(config().vocab_size);
  SLIP_CHECK(n <= out.size(), "room for the logits that are wanted");
  queue_->copy_out(out.data(), raw_logits(), n * sizeof(float));
  queue_->wait();
}

DeviceDraft::LoopShape DeviceDraft::put_steps(std::span<const DeviceDraftChain> chains) {
  DeviceStep& first_step = *steps_.front();
  LoopShape shape;
  shape.depth = chains.front().depth;
  shape.n_chains = row_capacity(static_cast<std::int32_t>(chains.size()));
  shape.later = shape_of(later_needs(chains));
  slices_.clear();
  slot_of_slice_.clear();
  for (const DeviceDraftChain& chain : chains) {
    slices_.push_back({chain, /*weights=*/nullptr, /*wants_logits=*/true, {}});
    slot_of_slice_.push_back(static_cast<std::uint16_t>(chain.weight_slot));
  }
  const StepInput input = checked_step();
  shape.first = shape_of(first_step.needs(input));
  first_step.put(input, shape.first, weights_.slot_begins());
  for (std::int32_t depth = 1; depth < shape.depth; ++depth) {
    steps_[static_cast<std::size_t>(depth)]->put(later_step(chains, depth), shape.later, weights_.slot_begins());
  }
  return shape;
}

// The needs of any step after the first.
StepNeeds DeviceDraft::later_needs(std::span<const DeviceDraftChain> chains) {
  StepNeeds needs = steps_.front()->needs(later_step(chains, /*depth=*/0));
  for (const DeviceDraftChain& chain : chains)
    needs.n_ranks = std::max(needs.n_ranks, slots_after(chain, chain.depth - 1));
  return needs;
}

// One row for each chain that is not complete; its input token is drawn on the device.
StepInput DeviceDraft::later_step(std::span<const DeviceDraftChain> chains, std::int32_t depth) {
  static constexpr std::int32_t kDrawnLater[] = {0};
  slices_.clear();
  slot_of_slice_.clear();
  for (const DeviceDraftChain& chain : chains) {
    if (depth >= chain.depth) break;
    slices_.push_back({{kDrawnLater, chain.pages, slots_after(chain, depth - 1)}, /*weights=*/nullptr, true, {}});
    slot_of_slice_.push_back(static_cast<std::uint16_t>(chain.weight_slot));
  }
  return checked_step();
}

void DeviceDraft::put_draw_tables(std::span<const DeviceDraftChain> chains, std::int32_t depth) {
  auto* transforms = tables_.on_host(draw_tables_.transforms);
  auto* rules = tables_.on_host(draw_tables_.rules);
  auto* addresses = tables_.on_host(draw_tables_.addresses);
  std::fill_n(transforms, n_rows_, Transform{});
  std::fill_n(rules, n_rows_, DrawRule::kBest);
  std::fill_n(addresses, n_rows_ * static_cast<std::size_t>(depth), RandomAddress{});
  for (std::size_t i = 0; i < chains.size(); ++i) {
    transforms[i] = chains[i].transform;
    rules[i] = chains[i].rule;
    for (std::int32_t d = 0; d < chains[i].depth; ++d) {
      addresses[at(i, d)] = chains[i].first;
      addresses[at(i, d)].output_index += static_cast<std::uint32_t>(d);
    }
  }
  tables_.put(0, draw_tables_.addresses.end(at(0, depth)));
}

bool DeviceDraft::put_processor_tables(std::span<const DeviceDraftChain> chains, std::int32_t depth) {
  LogitsProcessorTables::Room needed;
  bool processors = false;
  for (const DeviceDraftChain& chain : chains) {
    if (chain.processors == nullptr) continue;
    processors_.need(*chain.processors, needed);
    processors = true;
  }
  if (!processors) return false;
  if (processors_.make_room(needed)) std::erase_if(graphs_, [](const auto& graph) { return graph.first.processors; });
  processors_.start(at(0, depth));
  for (std::size_t i = 0; i < chains.size(); ++i) {
    if (chains[i].processors == nullptr) continue;
    const std::int32_t sequence = processors_.add(*chains[i].processors);
    for (std::int32_t d = 0; d < chains[i].depth; ++d) {
      processors_.set_row(at(i, d),
                          {.sequence = sequence, .first_node = static_cast<std::int32_t>(i), .node = node_above(d)});
    }
  }
  processors_.put();
  return true;
}

// Applies logits processors: from the raw logits to those that distributions are made of.
void DeviceDraft::put_processors(std::int32_t depth, std::int32_t n_rows) {
  ProcessLogits process = processors_.job();
  process.rows += at(0, depth);
  process.tokens = tokens_.get();
  process.parents = parents_.get();
  process.logits = raw_logits();
  process.processed = logits(depth);
  process.stride = process.processed_stride = process.vocab = config().vocab_size;
  queue_->enqueue(process, n_rows);
}

// Makes the distribution after each row and draws a token from it.
void DeviceDraft::put_draw(std::int32_t depth, std::int32_t n_rows) {
  MakeDistributions make;
  make.logits = logits(depth);
  make.stride = make.vocab = config().vocab_size;
  make.transforms = tables_.on_device(draw_tables_.transforms);
  make.distributions = distributions_.get() + at(0, depth);
  make.parts = distribution_parts_.get();
  queue_->enqueue(make, n_rows);
  DrawTokens draw;
  draw.logits = make.logits;
  draw.stride = draw.vocab = make.vocab;
  draw.distributions = make.distributions;
  draw.addresses = tables_.on_device(draw_tables_.addresses) + at(0, depth);
  draw.rules = tables_.on_device(draw_tables_.rules);
  draw.parts = gumbel_parts_.get();
  draw.tokens = tokens_.get() + at(0, depth);
  draw.logprobs = logprobs_.get() + at(0, depth);
  queue_->enqueue(
      GumbelParts{draw.logits, draw.stride, draw.vocab, draw.distributions, draw.addresses, gumbel_parts_.get()},
      n_rows);
  queue_->enqueue(draw, n_rows);
}

void DeviceDraft::put_loop(const LoopShape& shape) {
  for (std::int32_t depth = 0; depth < shape.depth; ++depth) {
    const std::int32_t* drawn = depth == 0 ? nullptr : tokens_.get() + at(0, depth - 1);
    float* ends_in = shape.processors ? raw_logits() : logits(depth);
    transformer_.put(
        {weights_.model(), *steps_[static_cast<std::size_t>(depth)], cache_, ends_in, drawn, /*by_weight_slots=*/true},
        depth == 0 ? shape.first : shape.later);
    if (shape.processors) put_processors(depth, shape.n_chains);
    put_draw(depth, shape.n_chains);
  }
}

void DeviceDraft::draw(std::span<const DeviceDraftChain> chains) {
  SLIP_CHECK(!chains.empty() && chains.front().depth <= max_depth_ && chains.back().depth > 0, "a chain has a depth");
  SLIP_CHECK(std::is_sorted(chains.begin(), chains.end(),
                            [](const DeviceDraftChain& a, const DeviceDraftChain& b) { return a.depth > b.depth; }),
             "chains come by falling depth");
  LoopShape shape = put_steps(chains);
  put_draw_tables(chains, shape.depth);
  shape.processors = put_processor_tables(chains, shape.depth);
  if (shape.first.captured && shape.later.captured) {
    auto& graph = graphs_[shape];
    if (graph == nullptr) graph = queue_->capture([&] { put_loop(shape); });
    queue_->replay(*graph);
  } else {
    put_loop(shape);
  }
  const std::size_t n = at(0, shape.depth);
  queue_->copy_out(drawn_tokens_.data(), tokens_.get(), n * sizeof(std::int32_t));
  queue_->copy_out(drawn_logprobs_.data(), logprobs_.get(), n * sizeof(float));
  queue_->copy_out(drawn_distributions_.data(), distributions_.get(), n * sizeof(kernels::cuda::RowDistribution));
  queue_->wait();
}

DeviceDistribution DeviceDraft::device_distribution(std::size_t chain, std::int32_t depth) const {
  const std::size_t row = at(chain, depth);
  return {logits_.get() + row * static_cast<std::size_t>(config().vocab_size), distributions_.get() + row};
}

void DeviceDraft::distribution(std::size_t chain, std::int32_t depth, Distribution& out) {
  const auto vocab = static_cast<std::size_t>(config().vocab_size);
  queue_->copy_out(logit_row_.data(), logits(depth) + chain * vocab, vocab * sizeof(float));
  queue_->wait();
  out.ids.clear();
  out.probabilities.clear();
  for (std::int32_t id = 0; id < config().vocab_size; ++id) {
    const double p = kernels::cuda::probability({logit_row_.data(), config().vocab_size},
                                                drawn_distributions_[at(chain, depth)], id);
    if (!(p > 0)) continue;
    out.ids.push_back(id);
    out.probabilities.push_back(p);
  }
}

}  // namespace slip
