// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/draft_runner.h"

#include <algorithm>
#include <cmath>

#include "common/error.h"
#include "common/log.h"
#include "engine/speculative/token_path.h"
#include "kernels/elementwise.h"

namespace slip {

std::string describe(const DraftVersion& version) {
  return "draft " + version.name + " v" + std::to_string(version.number);
}

std::span<const std::int32_t> DraftChain::unread() const {
  *n_cached = std::min(*n_cached, static_cast<std::int32_t>(sequence->tokens.size()) - 1);
  return sequence->tokens.subspan(static_cast<std::size_t>(*n_cached));
}

void DraftRunner::grow_by_logits(std::span<DraftChain> chains) {
  for (std::int32_t depth = 0; run_depth(chains, depth); ++depth) {
    for (std::size_t i = 0; i < chain_of_slice_.size(); ++i) extend(*chain_of_slice_[i], logits(i));
  }
}

// One pass for every chain that still grows; false when none does.
bool DraftRunner::run_depth(std::span<DraftChain> chains, std::int32_t depth) {
  slices_.clear();
  chain_of_slice_.clear();
  for (DraftChain& chain : chains) {
    if (depth >= chain.nodes || *chain.broken) continue;
    const auto tokens = depth == 0 ? chain.unread() : std::span<const std::int32_t>(chain.proposal->tokens).last(1);
    slices_.push_back({chain.version->weights.get(), chain.pages, *chain.n_cached, tokens, /*wants_logits=*/true});
    chain_of_slice_.push_back(&chain);
  }
  if (slices_.empty()) return false;
  run(slices_);
  for (std::size_t i = 0; i < chain_of_slice_.size(); ++i) {
    *chain_of_slice_[i]->n_cached += static_cast<std::int32_t>(slices_[i].tokens.size());
  }
  return true;
}

void DraftRunner::extend(DraftChain& chain, std::span<const float> logits) {
  const SequenceRef& sequence = *chain.sequence;
  Proposal& proposal = *chain.proposal;
  const auto depth = static_cast<std::uint32_t>(proposal.size());
  const std::int32_t parent = static_cast<std::int32_t>(depth) - 1;
  RandomAddress address = sequence.next_address();
  address.output_index += depth;
  std::int32_t token = 0;
  double log_q = 0;
  const bool deterministic = proposal.draw_method == DrawMethod::kDeterministic,
             processed = sequence.sampling->processes_logits();
  PromptLookup::Guess guess;
  PromptLookup::Rival rival;
  if (chain.lookup != nullptr) guess = chain.lookup->guess(sequence.tokens, proposal.tokens);
  if (deterministic && !processed) {
    if (guess.token >= 0) rival = rival_of(logits, guess.token);
    token = guess.token >= 0 ? rival.token : static_cast<std::int32_t>(kernels::argmax(logits));
    if (guess.token >= 0 && guess.token != token && chain.lookup->beats(guess, rival)) token = guess.token;
    if (sequence.wants_probability) log_q = logits[static_cast<std::size_t>(token)] - log_normalizer(logits);
  } else {
    write_token_path(sequence.tokens, proposal, parent, path_);
    try {
      transform_logits(logits, *sequence.sampling, sequence.row_context(path_), q_);
    } catch (const Error& error) {  // the draft's logits are not finite: go on without it
      log_warn(describe(*chain.version) + ": " + error.message());
      *chain.broken = true;
      return;
    }
    if (deterministic || (processed && q_.probability(guess.token) == 0)) guess = {};
    if (guess.token >= 0) {
      rival = rival_of(q_, guess.token);
      mix_guess(guess.token, chain.lookup->weight(guess, rival), q_);
    }
    token = deterministic ? q_.ids.front()
            : proposal.draw_method == DrawMethod::kGumbel
                ? sample_gumbel(q_, address)
                : sample_inverse_cdf(q_, uniform(address, RandomPurpose::kDraft));
    log_q = std::log(q_.probability(token));
    // Only the rejection rule needs q; coupled verification needs only the token.
    if (proposal.draw_method == DrawMethod::kSampled) proposal.add_q(q_);
  }
  if (chain.lookup != nullptr) chain.lookup->add_drafted(guess, rival, proposal.tokens, token);
  proposal.add_to_chain(token, log_q);
}

}  // namespace slip
