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

// `guess`: prompt lookup's, where the draft's best token is another one; −1: none.
ProposedBy proposer_of(std::int32_t token, std::int32_t guess) {
  return token == guess ? ProposedBy::kPromptLookup : ProposedBy::kDraft;
}

// Siblings of an argmax: first `loser`, which is what the draft or the lookup proposed instead, then the next
// likeliest.
void choose_siblings(std::span<const float> logits, std::int32_t width, std::int32_t token, std::int32_t loser,
                     Siblings& siblings) {
  std::array<std::int32_t, kMaxTreeWidth> taken{token};
  for (std::int32_t n = 1; n < width; ++n) {
    const bool first = n == 1 && loser >= 0 && loser != token;
    const std::int32_t next =
        first ? loser : argmax_without(logits, std::span(taken).first(static_cast<std::size_t>(n)));
    if (next < 0) return;
    taken[static_cast<std::size_t>(n)] = next;
    siblings.add(next);
  }
}

}  // namespace

std::string describe(const DraftVersion& version) {
  return "draft " + version.name + " v" + std::to_string(version.number);
}

std::int32_t count_accepted_of_chain(const VerifyResult& result) {
  std::int32_t n = 0;
  while (n < std::ssize(result.accepted) && result.accepted[static_cast<std::size_t>(n)] == n) ++n;
  return n;
}

std::int32_t DraftChain::count_unread() const {
  const auto n_committed = static_cast<std::int32_t>(sequence->tokens.size());
  if (proposal->size() == 0) *n_cached = std::min(*n_cached, n_committed - 1);
  return n_committed + static_cast<std::int32_t>(proposal->size()) - *n_cached;
}

void DraftChain::add(std::int32_t token, double log_q, ProposedBy by) {
  proposal->add_to_chain(token, log_q, by);
  if (stop.rates != nullptr) reached *= stop.rates->rate(log_q, 0);
}

void DraftRunner::grow_by_logits(std::span<DraftChain> chains) {
  while (run_pass(chains)) {
    for (std::size_t i = 0; i < chain_of_slice_.size(); ++i) extend(*chain_of_slice_[i], logits(i));
  }
  if (branches_.size() < chains.size()) branches_.resize(chains.size());
  for (std::size_t i = 0; i < chains.size(); ++i) {
    branches_[i].begin(*chains[i].proposal, chains[i].siblings, chains[i].stop.rates);
  }
  while (reads_branches() && run_branch_pass(chains)) {
    for (std::size_t row = 0; row < branch_rows_.size(); ++row) {
      const BranchRow& read = branch_rows_[row];
      extend_branch(chains[read.chain], branches_[read.chain], read.index, logits(row));
    }
  }
  for (std::size_t i = 0; i < chains.size(); ++i) add_branches(chains[i], branches_[i]);
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
    chain.add(guess.token, std::log(guess.rate), ProposedBy::kPromptLookup);
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
    const SequenceSlice slice{unread(chain), chain.pages, *chain.n_cached};
    slices_.push_back({slice, chain.version->weights.get(), /*wants_logits=*/true, {}});
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
  const PlaceAddress at = address_of(chain, static_cast<std::int32_t>(depth));
  std::int32_t token = 0;
  double log_q = 0;
  const bool deterministic = proposal.draw_method == DrawMethod::kDeterministic,
             processed = sequence.sampling->processes_logits();
  PromptLookup::Guess guess;
  PromptLookup::DraftChoice choice;
  if (chain.lookup != nullptr) guess = chain.lookup->guess(sequence.tokens, proposal.tokens);
  if (deterministic && !processed) {
    if (guess.token >= 0) {
      choice = draft_choice_of(logits, guess.token);
      token = chain.lookup->beats(guess, choice) ? guess.token : choice.token;
    } else {
      token = static_cast<std::int32_t>(kernels::argmax(logits));
    }
    const bool is_guess = guess.token == token && choice.token != token;
    if (sequence.wants_probability) {
      log_q = is_guess ? std::log(guess.rate) : logits[static_cast<std::size_t>(token)] - log_normalizer(logits);
    }
    choose_siblings(logits, chain.width, token, guess.token == token ? choice.token : guess.token,
                    chain.siblings[depth]);
  } else {
    try {
      transform_logits(logits, *sequence.sampling, context_after(sequence, proposal, parent, path_), q_);
    } catch (const Error& error) {  // the draft's logits are not finite: go on without it
      log_warn(describe(*chain.version) + ": " + error.message());
      *chain.broken = true;
      return;
    }
    if (deterministic || (processed && q_.probability(guess.token) == 0)) guess = {};
    if (guess.token >= 0) {
      choice = draft_choice_of(q_, guess.token);
      mix_guess(guess.token, chain.lookup->weight(guess, choice), q_);
    }
    token = deterministic ? q_.ids.front() : draw(proposal.draw_method, at, /*rank=*/0);
    log_q = std::log(q_.probability(token));
    // Only the rejection rule needs q; coupled verification needs only the token.
    if (proposal.draw_method == DrawMethod::kSampled) proposal.add_q(q_);
    if (!deterministic) draw_siblings(chain, at, token, chain.siblings[depth]);
  }
  if (chain.lookup != nullptr) chain.lookup->add_drafted(guess, choice, proposal.tokens, token);
  const std::int32_t other_guess = guess.token == choice.token ? -1 : guess.token;
  chain.siblings[depth].guess = other_guess;
  chain.add(token, log_q, proposer_of(token, other_guess));
}

// The place at `depth` of the chain, or below the node that the draft's row `row` reads. Gumbel noise is the target's.
// Each other draw of a tree has a random number of its own, which no place of a later step has either: which nodes are
// proposed may depend on tokens elsewhere in the tree, and must tell nothing about another draw (acceptance.h). No
// later token of a chain decides about an earlier one, so its draws may share theirs with later steps, as a device's
// do.
DraftRunner::PlaceAddress DraftRunner::address_of(const DraftChain& chain, std::int32_t depth, std::int32_t row) const {
  PlaceAddress at{chain.sequence->next_address()};
  at.address.output_index += static_cast<std::uint32_t>(depth);
  constexpr std::int32_t kPlaces = 1 + Branches::kMostRead;  // of one depth
  if (chain.width > 1) at.first_number = static_cast<std::uint32_t>(kMaxTreeWidth * (kPlaces * depth + 1 + row));
  return at;
}

std::int32_t DraftRunner::draw(DrawMethod method, const PlaceAddress& at, std::int32_t rank) const {
  if (method == DrawMethod::kGumbel) return sample_gumbel(q_, at.address);
  const std::uint32_t number = at.first_number + static_cast<std::uint32_t>(rank);
  return sample_inverse_cdf(q_, uniform(at.address, RandomPurpose::kDraft, number));
}

// Draws from `q_`, from which `token` was drawn; takes all that was drawn out of it.
void DraftRunner::draw_siblings(const DraftChain& chain, const PlaceAddress& at, std::int32_t token,
                                Siblings& siblings) {
  for (std::int32_t rank = 1; rank < chain.width; ++rank) {
    remove_id(token, q_);
    if (q_.ids.empty()) return;
    token = draw(chain.proposal->draw_method, at, rank);
    siblings.add(token);
  }
}

// ---- branches ----

// The row that is worth most less its own price, of all chains; worth 0: none pays.
DraftRunner::BranchRow DraftRunner::best_branch_row(std::span<DraftChain> chains) const {
  BranchRow best;
  for (std::size_t i = 0; i < chains.size(); ++i) {
    const DraftChain& chain = chains[i];
    if (*chain.broken || chain.stop.rates == nullptr) continue;
    if (chain.proposal->draw_method == DrawMethod::kSampled && !chain.stop.rates->is_by_rank()) continue;
    const Branches& branches = branches_[i];
    const auto n_committed = static_cast<std::int32_t>(chain.sequence->tokens.size());
    const std::int32_t first_slot = n_committed + Branches::kFirst;
    const std::int32_t most = std::min(Branches::kMostRead, chain.pages->capacity_slots() - first_slot);
    if (branches.n_read() >= most) continue;
    const std::int32_t index = branches.best_unread(chain.nodes, *chain.n_cached - n_committed);
    if (index < 0) continue;
    const double worth = branches.node(index).worth * chain.stop.next_rate - chain.stop.row_price;
    if (worth > best.worth) best = {i, index, worth};
  }
  return best;
}

// The rows that are worth most, as many as fit into one pass, the same chain's adjacent. Returns what they bring.
double DraftRunner::choose_branch_rows(std::span<DraftChain> chains) {
  branch_rows_.clear();
  double gain = 0;
  while (std::ssize(branch_rows_) < kMostBranchRows) {
    const BranchRow best = best_branch_row(chains);
    if (best.worth <= 0) break;
    branches_[best.chain].read(best.index);
    branch_rows_.push_back(best);
    gain += best.worth;
  }
  // A chain's rows stay in the order in which they were marked: each has the slot that it then got. Not a stable sort,
  // which allocates.
  for (std::size_t end = 1; end < branch_rows_.size(); ++end) {
    const auto row = branch_rows_.begin() + static_cast<std::ptrdiff_t>(end);
    const auto place = std::upper_bound(branch_rows_.begin(), row, row->chain,
                                        [](std::size_t chain, const BranchRow& one) { return chain < one.chain; });
    std::rotate(place, row, row + 1);
  }
  return gain;
}

// One slice for the rows of each chain. They lie after the slots that the chain itself can take.
void DraftRunner::add_branch_slices(std::span<DraftChain> chains) {
  slices_.clear();
  branch_tokens_.clear();
  branch_positions_.clear();
  branch_seen_.clear();
  for (const BranchRow& row : branch_rows_) {
    const Branches::Node& node = branches_[row.chain].node(row.index);
    branch_tokens_.push_back(node.token);
    branch_positions_.push_back(static_cast<std::int32_t>(chains[row.chain].sequence->tokens.size()) + node.depth);
    branch_seen_.push_back(node.seen);
  }
  for (std::size_t begin = 0, end = 0; begin < branch_rows_.size(); begin = end) {
    const std::size_t at = branch_rows_[begin].chain;
    while (end < branch_rows_.size() && branch_rows_[end].chain == at) ++end;
    const DraftChain& chain = chains[at];
    const std::size_t n = end - begin;
    const SequenceSlice slice{std::span(branch_tokens_).subspan(begin, n), chain.pages,
                              static_cast<std::int32_t>(chain.sequence->tokens.size())};
    const std::int32_t n_ahead = Branches::kFirst + branches_[at].n_read() - static_cast<std::int32_t>(n);
    const BranchPlaces places{std::span(branch_positions_).subspan(begin, n), std::span(branch_seen_).subspan(begin, n),
                              n_ahead};
    slices_.push_back({slice, chain.version->weights.get(), /*wants_logits=*/true, places});
  }
}

// One pass that reads nodes beside the chains; false when that does not pay.
bool DraftRunner::run_branch_pass(std::span<DraftChain> chains) {
  const double gain = choose_branch_rows(chains);
  if (branch_rows_.empty() || gain <= chains[branch_rows_.front().chain].stop.pass_price) return false;
  add_branch_slices(chains);
  run(slices_);
  return true;
}

// The draft's own choice, without the lookup's guesses.
void DraftRunner::extend_branch(DraftChain& chain, Branches& branches, std::int32_t index,
                                std::span<const float> logits) {
  Siblings siblings;
  if (chain.proposal->draw_method == DrawMethod::kDeterministic) {
    const auto token = static_cast<std::int32_t>(kernels::argmax(logits));
    const double log_q = logits[static_cast<std::size_t>(token)] - log_normalizer(logits);
    choose_siblings(logits, chain.width, token, /*loser=*/-1, siblings);
    return branches.add_children(index, token, log_q, siblings);
  }
  path_.clear();
  if (chain.sequence->sampling->processes_logits()) {  // else nothing looks at the path
    path_.assign(chain.sequence->tokens.begin(), chain.sequence->tokens.end());
    branches.append_path(*chain.proposal, index, path_);
  }
  try {
    transform_logits(logits, *chain.sequence->sampling, chain.sequence->row_context(path_), q_);
  } catch (const Error&) {  // not finite: nothing more is proposed there
    return;
  }
  const PlaceAddress at = address_of(chain, branches.node(index).depth + 1, branches.node(index).row);
  const std::int32_t token = draw(chain.proposal->draw_method, at, /*rank=*/0);
  const double log_q = std::log(q_.probability(token));
  if (chain.proposal->draw_method == DrawMethod::kSampled) branches.drawn_below(index) = q_;
  draw_siblings(chain, at, token, siblings);
  branches.add_children(index, token, log_q, siblings);
}

// Makes `q_` the distribution that a sampled node was drawn from: what the choices before it leave.
void DraftRunner::find_q(const DraftChain& chain, Branches& branches, std::int32_t index) {
  const Branches::Node& node = branches.node(index);
  if (node.parent >= Branches::kFirst) {
    q_ = branches.drawn_below(node.parent - Branches::kFirst);
    for (std::int32_t earlier = index - node.rank; earlier < index; ++earlier) {
      remove_id(branches.node(earlier).token, q_);
    }
    return;
  }
  const auto place = static_cast<std::size_t>(node.depth);
  q_ = chain.proposal->q[place];
  remove_id(chain.proposal->tokens[place], q_);
  for (std::size_t earlier = 0; earlier + 1 < static_cast<std::size_t>(node.rank); ++earlier) {
    remove_id(chain.siblings[place].tokens[earlier], q_);
  }
}

// Appends what branches off to the chain, the best first. A sampled node comes with the distribution that it was drawn
// from.
void DraftRunner::add_branches(DraftChain& chain, Branches& branches) {
  Proposal& proposal = *chain.proposal;
  node_of_.assign(branches.nodes().size(), -1);
  for (const std::int32_t index : branches.best()) {
    const Branches::Node& node = branches.node(index);
    if (proposal.draw_method == DrawMethod::kSampled) {
      find_q(chain, branches, index);
      proposal.add_q(q_);
    }
    node_of_[static_cast<std::size_t>(index)] = static_cast<std::int32_t>(proposal.size());
    const bool beside_chain = node.parent < Branches::kFirst;
    const std::int32_t parent =
        beside_chain ? node.parent : node_of_[static_cast<std::size_t>(node.parent - Branches::kFirst)];
    const std::int32_t guess = beside_chain ? chain.siblings[static_cast<std::size_t>(node.depth)].guess : -1;
    proposal.add(node.token, parent, node.log_q, proposer_of(node.token, guess));
  }
}

}  // namespace slip
