// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/device_draft_runner.h"

#include <algorithm>
#include <utility>

#include "common/error.h"
#include "common/log.h"
#include "engine/cuda/device_distribution.h"

namespace slip {
namespace {

using kernels::cuda::DrawRule;

DrawRule draw_rule(DrawMethod draw_method) {
  switch (draw_method) {
    case DrawMethod::kGumbel:
      return DrawRule::kCoupled;
    case DrawMethod::kSampled:
      return DrawRule::kInverseCdf;
    case DrawMethod::kDeterministic:
      break;
  }
  return DrawRule::kBest;
}

// As on the CPU: the log probability of a greedy token is at T = 1, unless its logits are processed.
kernels::cuda::Transform drawn_by(const SamplingParams& sampling) {
  const bool at_one = sampling.temperature == 0 && !sampling.processes_logits();
  return at_one ? kernels::cuda::Transform{} : transform_of(sampling);
}

DeviceDraftChain device_chain(const DraftChain& chain) {
  DeviceDraftChain out;
  out.pages = chain.pages;
  out.tokens = chain.sequence->tokens.last(static_cast<std::size_t>(chain.count_unread()));
  out.n_cached = *chain.n_cached;
  out.depth = chain.nodes;
  out.transform = drawn_by(*chain.sequence->sampling);
  out.rule = draw_rule(chain.proposal->draw_method);
  out.first = chain.sequence->next_address();
  if (chain.sequence->sampling->processes_logits()) out.processors = chain.sequence;
  return out;
}

bool is_drawn_here(const DraftChain& chain) {
  return has_distribution_on_device(*chain.sequence->sampling);
}

// The end of the first run of slices with equal weights, which are adjacent.
std::size_t end_of_run(std::span<const DraftSlice> slices) {
  std::size_t n = 1;
  while (n < slices.size() && slices[n].weights == slices[0].weights) ++n;
  return n;
}

}  // namespace

DeviceDraftRunner::DeviceDraftRunner(std::shared_ptr<kernels::cuda::DeviceQueue> queue, const DraftVersion& first,
                                     const Size& size, std::int32_t max_depth)
    : queue_(std::move(queue)),
      weight_slots_{{first.draft}},
      draft_(queue_, *first.weights, {size.n_pages, size.max_logit_rows, max_depth, size.max_rows}),
      logits_(static_cast<std::size_t>(size.max_logit_rows) *
              static_cast<std::size_t>(first.weights->config.vocab_size)) {
  add_slot(first.draft);
}

void DeviceDraftRunner::add_slot(DraftId draft) {
  const auto index = static_cast<std::size_t>(draft_.add_slot());
  weight_slots_.push_back({draft});
  SLIP_CHECK(weight_slots_.size() == index + 1, "a weight slot here for each there");
}

// Adds the two weight slots of a new draft. When the device has no room for both, logs that once.
void DeviceDraftRunner::make_weight_slots(DraftId draft) {
  const auto is_its = [&](const WeightSlot& slot) { return slot.draft == draft; };
  if (std::any_of(weight_slots_.begin(), weight_slots_.end(), is_its) ||
      std::count(without_slots_.begin(), without_slots_.end(), draft) > 0) {
    return;
  }
  try {
    for (int i = 0; i < 2; ++i) add_slot(draft);
  } catch (const Error& error) {
    log_warn("no weight slot on the device for another version of a draft: " + error.message());
    without_slots_.push_back(draft);
  }
}

bool DeviceDraftRunner::fits(const DraftVersion& version) const {
  return draft_.fits(*version.weights);
}

std::shared_ptr<const void> DeviceDraftRunner::admit(const std::shared_ptr<const DraftVersion>& version) {
  make_weight_slots(version->draft);
  // Replaces an idle slot: an empty one first, else the older version.
  WeightSlot* chosen = nullptr;
  const auto number = [](const WeightSlot& slot) { return slot.version == nullptr ? 0 : slot.version->number; };
  for (WeightSlot& slot : weight_slots_) {
    if (slot.draft != version->draft) continue;
    if (slot.version != nullptr && slot.version->weights == version->weights) return slot.lease;
    if (slot.is_idle() && (chosen == nullptr || number(slot) < number(*chosen))) chosen = &slot;
  }
  if (chosen == nullptr) return nullptr;
  SLIP_CHECK(version->image != nullptr, "a version for a device comes packed");
  if (chosen->version != nullptr) queue_->wait();  // frees its image, which the queue may still be copying
  chosen->version = nullptr;                       // if the copy fails, no sequence uses half of it
  draft_.load(*version->image, static_cast<int>(chosen - weight_slots_.data()));
  chosen->version = version;
  chosen->lease = std::make_shared<const int>(0);
  return chosen->lease;
}

PackDraft pack_for(std::shared_ptr<kernels::cuda::DeviceQueue> queue) {
  return [queue = std::move(queue)](const ModelWeights& weights) {
    return std::make_shared<const DeviceImage>(queue, weights);
  };
}

// The first slot with these weights, so that the rows of drafts that share weights are grouped.
std::uint16_t DeviceDraftRunner::slot_of(const ModelWeights* weights) const {
  const auto has_them = [&](const WeightSlot& slot) {
    return slot.version != nullptr && slot.version->weights.get() == weights;
  };
  const auto found = std::find_if(weight_slots_.begin(), weight_slots_.end(), has_them);
  SLIP_CHECK(found != weight_slots_.end(), "a draft that was not admitted");
  return static_cast<std::uint16_t>(found - weight_slots_.begin());
}

// One pass per version: then each weight is read once for 64 of a prompt's rows.
void DeviceDraftRunner::read(std::span<const DraftSlice> slices) {
  for (std::size_t n = 0; !slices.empty(); slices = slices.subspan(n)) {
    n = end_of_run(slices);
    draft_.read(slot_of(slices[0].weights), slices.first(n));
    ++n_passes_;
  }
}

// All slices of grow_by_logits() want logits.
void DeviceDraftRunner::run(std::span<const DraftSlice> slices) {
  slot_of_slice_.clear();
  for (const DraftSlice& slice : slices) slot_of_slice_.push_back(slot_of(slice.weights));
  draft_.score(slot_of_slice_, slices, logits_);
  ++n_passes_;
}

std::span<const float> DeviceDraftRunner::logits(std::size_t i) const {
  const auto vocab = static_cast<std::size_t>(config().vocab_size);
  return std::span(logits_).subspan(i * vocab, vocab);
}

void DeviceDraftRunner::propose(std::span<DraftChain> chains) {
  const auto order = [](const DraftChain& chain) {
    return std::make_tuple(!is_drawn_here(chain), -chain.nodes, chain.sequence->id.value);
  };
  std::sort(chains.begin(), chains.end(),
            [&](const DraftChain& a, const DraftChain& b) { return order(a) < order(b); });
  const auto n_drawn = std::find_if_not(chains.begin(), chains.end(), is_drawn_here) - chains.begin();
  if (n_drawn > 0) draw(chains.first(static_cast<std::size_t>(n_drawn)));
  grow_by_logits(chains.subspan(static_cast<std::size_t>(n_drawn)));
}

void DeviceDraftRunner::draw(std::span<DraftChain> chains) {
  drawn_.clear();
  for (const DraftChain& chain : chains) {
    drawn_.push_back(device_chain(chain));
    drawn_.back().weight_slot = slot_of(chain.version->weights.get());
  }
  draft_.draw(drawn_);
  n_passes_ += chains[0].nodes;
  for (std::size_t i = 0; i < chains.size(); ++i) take(i, chains[i]);
}

// Takes a chain's tokens. All but the last were read into the draft's cache.
void DeviceDraftRunner::take(std::size_t drawn, DraftChain& chain) {
  *chain.n_cached += static_cast<std::int32_t>(drawn_[drawn].tokens.size()) + chain.nodes - 1;
  Proposal& proposal = *chain.proposal;
  const bool counts = proposal.draw_method != DrawMethod::kDeterministic || chain.sequence->wants_probability;
  for (std::int32_t depth = 0; depth < chain.nodes; ++depth) {
    if (!draft_.is_finite(drawn, depth)) {
      log_warn(describe(*chain.version) + ": a logit is NaN or +inf, or all are -inf");
      *chain.broken = true;
      return;
    }
    if (proposal.draw_method == DrawMethod::kSampled && chain.sequence->verified_on_device) {
      proposal.device_q.push_back(draft_.device_distribution(drawn, depth));
    } else if (proposal.draw_method == DrawMethod::kSampled) {
      draft_.distribution(drawn, depth, q_);
      proposal.add_q(q_);
    }
    proposal.add_to_chain(draft_.token(drawn, depth), counts ? draft_.logprob(drawn, depth) : 0);
  }
}

}  // namespace slip
