// SPDX-License-Identifier: Apache-2.0
#include "engine/speculative/draft_runner.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/error.h"
#include "common/log.h"
#include "engine/speculative/token_path.h"
#include "kernels/elementwise.h"

namespace slip {

namespace {

// The index of the largest value that is not taken, the lowest among equals; −1 when all are.
std::int32_t argmax_without(std::span<const float> values, std::span<const std::int32_t> taken) {
  const auto n = static_cast<std::int32_t>(values.size());
  std::int32_t best = -1;
  for (std::int32_t begin = 0, end = 0; begin < n; begin = end + 1) {
    end = n;
    for (const std::int32_t index : taken) end = index >= begin ? std::min(end, index) : end;
    if (end == begin) continue;
    const auto part = values.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    const std::int32_t at = begin + static_cast<std::int32_t>(kernels::argmax(part));
    if (best < 0 || values[static_cast<std::size_t>(at)] > values[static_cast<std::size_t>(best)]) best = at;
  }
  return best;
}

}  // namespace

std::string describe(const DraftVersion& version) {
  return "draft " + version.name + " v" + std::to_string(version.number);
}

std::int32_t DraftChain::count_unread() const {
  const auto n_committed = static_cast<std::int32_t>(sequence->tokens.size());
  if (proposal->size() == 0) *n_cached = std::min(*n_cached, n_committed - 1);
  return n_committed + static_cast<std::int32_t>(proposal->size()) - *n_cached;
}

void DraftChain::add(std::int32_t token, double log_q) {
  proposal->add_to_chain(token, log_q);
  if (stop.rates != nullptr) reached *= stop.rates->rate(log_q, 0);
}

void DraftRunner::grow_by_logits(std::span<DraftChain> chains) {
  while (run_pass(chains)) {
    for (std::size_t i = 0; i < chain_of_slice_.size(); ++i) extend(*chain_of_slice_[i], logits(i));
  }
  for (DraftChain& chain : chains) add_siblings(chain);
}

// A sure guess is proposed with probability 1, without asking the draft.
void DraftRunner::add_sure_guesses(DraftChain& chain) {
  if (chain.lookup == nullptr || chain.sequence->sampling->processes_logits()) return;
  Proposal& proposal = *chain.proposal;
  while (static_cast<std::int32_t>(proposal.size()) < chain.nodes) {
    const PromptLookup::Guess guess = chain.lookup->guess(chain.sequence->tokens, proposal.tokens);
    if (!guess.is_sure() || !chain.goes_on()) return;
    if (proposal.draw_method == DrawMethod::kSampled) {
      q_.ids.assign(1, guess.token);
      q_.probabilities.assign(1, 1.0);
      proposal.add_q(q_);
    }
    chain.lookup->add_drafted({}, {}, proposal.tokens, guess.token);
    chain.add(guess.token, std::log(guess.rate));
  }
}

// The chain's unread tokens in one piece. `joined_` has room for them.
std::span<const std::int32_t> DraftRunner::unread(const DraftChain& chain) {
  const auto n = static_cast<std::size_t>(chain.count_unread());
  const std::vector<std::int32_t>& proposed = chain.proposal->tokens;
  if (proposed.empty()) return chain.sequence->tokens.last(n);
  if (n <= proposed.size()) return std::span(proposed).last(n);
  const auto committed = chain.sequence->tokens.last(n - proposed.size());
  joined_.insert(joined_.end(), committed.begin(), committed.end());
  joined_.insert(joined_.end(), proposed.begin(), proposed.end());
  return std::span<const std::int32_t>(joined_).last(n);
}

// One pass for every chain that still grows; false when none does, or when their tokens are not worth a pass.
bool DraftRunner::run_pass(std::span<DraftChain> chains) {
  slices_.clear();
  chain_of_slice_.clear();
  joined_.clear();
  joined_.reserve(chains.size() * kMostUnreadRows);  // so that spans stay valid
  bool is_planned = false;
  double worth = 0, price = 0;
  for (DraftChain& chain : chains) {
    if (*chain.broken) continue;
    add_sure_guesses(chain);
    const bool is_full = static_cast<std::int32_t>(chain.proposal->size()) >= chain.nodes;
    if (is_full || !chain.goes_on() || chain.count_unread() > kMostUnreadRows) continue;
    const auto tokens = unread(chain);
    slices_.push_back({chain.version->weights.get(), chain.pages, *chain.n_cached, tokens, /*wants_logits=*/true});
    chain_of_slice_.push_back(&chain);
    is_planned |= chain.stop.rates == nullptr || chain.proposal->size() == 0;
    worth += chain.worth_of_next();
    price = chain.stop.pass_price;
  }
  if (slices_.empty() || (!is_planned && worth <= price)) return false;
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
    if (guess.token >= 0) {
      rival = rival_of(logits, guess.token);
      token = chain.lookup->beats(guess, rival) ? guess.token : rival.token;
    } else {
      token = static_cast<std::int32_t>(kernels::argmax(logits));
    }
    const bool is_guess = guess.token == token && rival.token != token;
    if (sequence.wants_probability) {
      log_q = is_guess ? std::log(guess.rate) : logits[static_cast<std::size_t>(token)] - log_normalizer(logits);
    }
    choose_siblings(chain, logits, token, guess.token == token ? rival.token : guess.token);
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
    if (!deterministic) draw_siblings(chain, address, token);
  }
  if (chain.lookup != nullptr) chain.lookup->add_drafted(guess, rival, proposal.tokens, token);
  chain.add(token, log_q);
}

// Siblings of an argmax: first `loser`, which is what the draft or the lookup said instead, then the next likeliest.
void DraftRunner::choose_siblings(DraftChain& chain, std::span<const float> logits, std::int32_t token,
                                  std::int32_t loser) {
  DraftChain::Siblings& siblings = chain.siblings[chain.proposal->size()];
  std::array<std::int32_t, kMaxTreeWidth> taken{token};
  for (std::int32_t n = 1; n < chain.width; ++n) {
    const bool first = n == 1 && loser >= 0 && loser != token;
    const std::int32_t next =
        first ? loser : argmax_without(logits, std::span(taken).first(static_cast<std::size_t>(n)));
    if (next < 0) return;
    taken[static_cast<std::size_t>(n)] = next;
    siblings.add(next);
  }
}

// Draws from `q_`, from which `token` was drawn; takes all that was drawn out of it.
void DraftRunner::draw_siblings(DraftChain& chain, const RandomAddress& address, std::int32_t token) {
  DraftChain::Siblings& siblings = chain.siblings[chain.proposal->size()];
  for (std::int32_t n = 1; n < chain.width; ++n) {
    remove_id(token, q_);
    if (q_.ids.empty()) return;
    token = chain.proposal->draw_method == DrawMethod::kGumbel
                ? sample_gumbel(q_, address)
                : sample_inverse_cdf(q_, uniform(address, RandomPurpose::kDraft, static_cast<std::uint32_t>(n)));
    siblings.add(token);
  }
}

// Appends the second choices of all places, then the third ones, as far as there is room. A sampled one comes with the
// distribution that it was drawn from.
void DraftRunner::add_siblings(DraftChain& chain) {
  Proposal& proposal = *chain.proposal;
  const std::size_t n_places = proposal.size();
  for (std::int32_t rank = 0; rank + 1 < chain.width; ++rank) {
    for (std::size_t place = 0; place < n_places && proposal.size() < kMaxProposalNodes; ++place) {
      const DraftChain::Siblings& siblings = chain.siblings[place];
      if (rank >= siblings.n) continue;
      if (proposal.draw_method == DrawMethod::kSampled) {
        q_ = proposal.q[place];
        remove_id(proposal.tokens[place], q_);
        for (std::size_t elder = 0; elder < static_cast<std::size_t>(rank); ++elder)
          remove_id(siblings.tokens[elder], q_);
        proposal.add_q(q_);
      }
      proposal.add_sibling(static_cast<std::int32_t>(place), siblings.tokens[static_cast<std::size_t>(rank)]);
    }
  }
}

}  // namespace slip
