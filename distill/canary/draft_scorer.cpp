// SPDX-License-Identifier: Apache-2.0
#include "distill/canary/draft_scorer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "common/error.h"
#include "engine/kv_cache/page_pool.h"
#include "engine/sampling/distribution.h"
#include "engine/speculative/lookup/prompt_lookup.h"
#include "engine/speculative/lookup/repeated_tokens.h"

namespace slip {

namespace {

constexpr std::int32_t kChunkRows = 64;  // one forward; logits of a 128k vocabulary then take 32 MB

// exp((log p − log p₀) / T) for each stored id, and an upper bound of its sum over the tail's tokens.
struct Weights {
  std::vector<double> kept;
  std::size_t n_sure = 0;  // the first n_sure of `kept` are in the support whatever the tail's true weight is
  double tail = 0;
};

// An upper bound of the tail's weight. Known are only the tail's total mass, and that each of its tokens is at most as
// likely as the last stored one. At T < 1 the sum of p^(1/T) is largest when few tokens are as likely as that one; at T
// > 1 when all are equally likely.
double bound_tail(const TopK& p, double temperature, std::int32_t vocab_size) {
  const double others = vocab_size - static_cast<double>(p.ids.size());
  if (!(others > 0) || std::isinf(p.log_tail)) return 0;
  const double inverse = 1 / temperature;
  const double first = p.logprobs.front();
  const double last = p.logprobs.back();
  const double spread =
      temperature <= 1 ? p.log_tail + (inverse - 1) * last : (1 - inverse) * std::log(others) + p.log_tail * inverse;
  return std::exp(std::min(spread, std::log(others) + last * inverse) - first * inverse);
}

Weights weigh(const TopK& p, const SamplingParams& sampling, std::int32_t vocab_size) {
  Weights weights;
  for (const float logprob : p.logprobs) {
    weights.kept.push_back(std::exp((static_cast<double>(logprob) - p.logprobs.front()) / sampling.temperature));
  }
  weights.tail = bound_tail(p, sampling.temperature, vocab_size);
  const auto unlikely = [&](double weight) { return weight < sampling.min_p; };  // the likeliest has weight 1
  if (sampling.min_p > 0 && unlikely(weights.kept.back())) weights.tail = 0;
  std::erase_if(weights.kept, unlikely);
  const auto top_k = static_cast<std::size_t>(sampling.top_k);
  if (top_k > 0 && top_k <= weights.kept.size()) {
    weights.kept.resize(top_k);
    weights.tail = 0;
  }
  weights.n_sure = weights.kept.size();
  if (sampling.top_p >= 1) return weights;
  // If the tail weighs less than its bound, the top-p border moves up. Ids between the two borders are not sure.
  const double kept = std::accumulate(weights.kept.begin(), weights.kept.end(), 0.0);
  const bool tail_is_exact = sampling.temperature == 1 && sampling.min_p == 0 && top_k == 0;
  const double surely_wanted = sampling.top_p * (kept + (tail_is_exact ? weights.tail : 0));
  const double wanted = sampling.top_p * (kept + weights.tail);
  double reached = 0;
  for (std::size_t i = 0; i < weights.kept.size(); ++i) {
    if (reached < surely_wanted) weights.n_sure = i + 1;
    reached += weights.kept[i];
    if (reached < wanted) continue;
    weights.kept.resize(i + 1);
    weights.tail = 0;
  }
  return weights;
}

}  // namespace

RowOverlap overlap(const TopK& p, const SamplingParams& sampling, const Distribution& q, std::int32_t vocab_size) {
  SLIP_CHECK(sampling.temperature > 0, "greedy rows have no overlap, only an argmax");
  if (p.ids.empty()) return {};
  const Weights weights = weigh(p, sampling, vocab_size);
  const double all = std::accumulate(weights.kept.begin(), weights.kept.end(), weights.tail);
  double sure = 0;
  RowOverlap result;
  for (std::size_t i = 0; i < weights.n_sure; ++i) {
    sure += weights.kept[i];
    result.accepted += std::min(weights.kept[i] / all, q.probability(p.ids[i]));
  }
  result.captured = sure / all;
  return result;
}

double raw_overlap(const TopK& p, std::span<const float> logits) {
  const double normalizer = log_normalizer(logits);
  double sum = 0;
  for (std::size_t i = 0; i < p.ids.size(); ++i) {
    const double log_q = logits[static_cast<std::size_t>(p.ids[i])] - normalizer;
    sum += std::exp(std::min(static_cast<double>(p.logprobs[i]), log_q));
  }
  return sum;
}

AcceptanceScore walk_chain(std::span<const double> accept, int k) {
  AcceptanceScore score;
  const std::size_t n = accept.size();
  score.tokens = static_cast<double>(n);
  if (n == 0) return score;
  score.steps = 1;                                                  // the prompt's own pass gave token 0
  std::vector<double> begins(n + static_cast<std::size_t>(k) + 2);  // P(a step begins at token i)
  begins[1] = 1;
  for (std::size_t i = 1; i < n; ++i) {
    double reached = begins[i];
    if (!(reached > 0)) continue;
    score.steps += reached;
    std::size_t at = i;
    for (; at < i + static_cast<std::size_t>(k) && at < n; ++at) {
      score.accepted += reached * accept[at];
      score.first_rejections += reached * (1 - accept[at]);
      begins[at + 1] += reached * (1 - accept[at]);  // the target's correction is token `at`
      reached *= accept[at];
    }
    begins[at + 1] += reached;  // the bonus token; beyond n the answer is over
  }
  return score;
}

AcceptanceScore operator*(double weight, const AcceptanceScore& score) {
  return {.accepted = weight * score.accepted,
          .first_rejections = weight * score.first_rejections,
          .steps = weight * score.steps,
          .tokens = weight * score.tokens,
          .rows = weight * score.rows,
          .repeated = weight * score.repeated,
          .alone = weight * score.alone,
          .smooth_steps = weight * score.smooth_steps};
}

struct DraftScorer::State {
  State(const ModelConfig& shape, std::int32_t most_tokens, kernels::ThreadPool& threads, bool looks_up)
      : config(shape),
        prompt_lookup(looks_up),
        max_tokens(std::min(most_tokens, shape.max_positions)),
        transformer(shape, threads),
        workspace(shape, kChunkRows, kChunkRows),
        logits(static_cast<std::size_t>(kChunkRows) * static_cast<std::size_t>(shape.vocab_size)) {}

  void forward(const ModelWeights& draft, const ReplayRecord& record, std::int32_t begin, std::int32_t n_rows,
               std::int32_t first_logit_row);
  void score_row(const ReplayRecord& record, std::size_t answer_index, std::span<const float> row);
  bool apply_lookup(const ReplayRecord& record, std::size_t answer_index, std::span<const float> row);
  double acceptance_of_q(const ReplayRecord& record, std::size_t answer_index);

  ModelConfig config;
  const bool prompt_lookup;
  std::int32_t max_tokens;
  Transformer transformer;
  Workspace workspace;
  std::optional<PagePool> cache;
  Dtype cache_dtype = Dtype::kBFloat16;
  PageTable pages;
  std::vector<float> logits;                         // [kChunkRows, vocab]
  std::vector<std::int32_t> positions, wanted_rows;  // for one chunk
  Distribution q;
  // Of one record:
  PromptLookup lookup;
  double alone = 0;                    // summed over the rows scored
  std::vector<double> accept, smooth;  // [rows scored]; see AcceptanceScore::smooth_steps
};

// Runs rows [begin, begin + n_rows) of the text; writes logits from row `first_logit_row` (within the chunk) on.
void DraftScorer::State::forward(const ModelWeights& draft, const ReplayRecord& record, std::int32_t begin,
                                 std::int32_t n_rows, std::int32_t first_logit_row) {
  positions.resize(static_cast<std::size_t>(n_rows));
  std::iota(positions.begin(), positions.end(), begin);
  wanted_rows.resize(static_cast<std::size_t>(n_rows - first_logit_row));
  std::iota(wanted_rows.begin(), wanted_rows.end(), first_logit_row);
  const std::int32_t row_begin[] = {0, n_rows};
  const KvView kv[] = {{.pages = &pages, .n_cached = begin}};
  StepInput input;
  input.tokens = std::span(record.tokens).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(n_rows));
  input.positions = positions;
  input.row_begin = row_begin;
  input.kv = kv;
  input.logit_rows = wanted_rows;
  StepOutput output;
  output.logits = TensorView::contiguous(logits.data(), {n_rows - first_logit_row, config.vocab_size});
  const ModelWeights* const weight_sets[] = {&draft};
  transformer.forward(weight_sets, input, *cache, workspace, output);
}

// The probability that a token chosen by `q` is accepted: 0 or 1, except under rejection sampling.
double DraftScorer::State::acceptance_of_q(const ReplayRecord& record, std::size_t answer_index) {
  const std::int32_t token = record.tokens[static_cast<std::size_t>(record.prompt_tokens) + answer_index];
  if (record.sampling.temperature == 0) return q.ids.front() == token ? 1 : 0;
  if (record.rule == AcceptanceRule::kCoupled) {
    const RandomAddress address{record.seed, record.choice, static_cast<std::uint32_t>(answer_index)};
    return sample_gumbel(q, address) == token ? 1 : 0;
  }
  return overlap(record.target[answer_index], record.sampling, q, config.vocab_size).accepted;
}

// Applies the prompt lookup to `q`. Returns whether that changed the choice of the row's token.
bool DraftScorer::State::apply_lookup(const ReplayRecord& record, std::size_t answer_index,
                                      std::span<const float> row) {
  if (!prompt_lookup) return false;
  const auto before = std::span(record.tokens).first(static_cast<std::size_t>(record.prompt_tokens) + answer_index);
  const PromptLookup::Guess guess = lookup.after(before, record.prompt_tokens);
  if (guess.token < 0) return false;
  const bool greedy = record.sampling.temperature == 0;
  const PromptLookup::DraftChoice choice = greedy ? draft_choice_of(row, guess.token) : draft_choice_of(q, guess.token);
  lookup.add_drafted(guess, choice, {}, guess.token);
  if (!greedy) {
    mix_guess(guess.token, lookup.weight(guess, choice), q);
    return true;
  }
  if (!lookup.beats(guess, choice)) return false;
  q.ids.front() = guess.token;
  return true;
}

// Adds the row's acceptance to `accept` and `smooth`.
void DraftScorer::State::score_row(const ReplayRecord& record, std::size_t answer_index, std::span<const float> row) {
  transform_logits(row, record.sampling, {}, q);
  const double by_draft = acceptance_of_q(record, answer_index);
  alone += by_draft;
  const bool by_lookup = apply_lookup(record, answer_index, row);
  accept.push_back(by_lookup ? acceptance_of_q(record, answer_index) : by_draft);
  const bool is_expected = record.sampling.temperature > 0 && record.rule != AcceptanceRule::kCoupled;
  const TopK& p = record.target[answer_index];
  smooth.push_back(by_lookup || is_expected || p.ids.empty() ? accept.back() : raw_overlap(p, row));
}

DraftScorer::DraftScorer(const ModelConfig& draft_shape, std::int32_t max_tokens, kernels::ThreadPool& pool,
                         bool prompt_lookup)
    : state_(std::make_unique<State>(draft_shape, max_tokens, pool, prompt_lookup)) {}

DraftScorer::~DraftScorer() = default;

std::uint64_t DraftScorer::bytes() const {
  const State& state = *state_;
  std::uint64_t sum = state.logits.capacity() * sizeof(float);
  if (state.cache) {
    sum += static_cast<std::uint64_t>(state.cache->n_pages()) * PagePool::page_bytes(state.config, state.cache_dtype);
  }
  return sum;
}

AcceptanceScore DraftScorer::score(const ModelWeights& draft, const ReplayRecord& record, int k) {
  State& state = *state_;
  SLIP_CHECK(draft.config.same_shape(state.config), "one scorer serves drafts of one shape");
  if (!state.cache || state.cache_dtype != draft.dtype) {
    state.pages = PageTable();  // before the pool it takes pages from
    const std::int32_t n_pages = (state.max_tokens + PagePool::kPageTokens - 1) / PagePool::kPageTokens;
    state.cache.emplace(state.config, draft.dtype, n_pages);
    state.cache_dtype = draft.dtype;
    state.pages = PageTable(*state.cache);
  }
  // The last token needs no row, since no answer token follows it.
  const auto n_rows = std::min(static_cast<std::int32_t>(record.tokens.size()) - 1, state.max_tokens);
  SLIP_CHECK(state.pages.reserve(std::max(n_rows, 0)), "the cache was sized for max_tokens");
  state.alone = 0;
  state.lookup = PromptLookup();
  state.accept.clear();
  state.smooth.clear();
  const std::int32_t first_row = record.prompt_tokens - 1;  // predicts answer token 0
  for (std::int32_t begin = 0; begin < n_rows; begin += kChunkRows) {
    const std::int32_t rows = std::min(kChunkRows, n_rows - begin);
    const std::int32_t first_logit = std::clamp(first_row - begin, 0, rows);
    state.forward(draft, record, begin, rows, first_logit);
    for (std::int32_t row = first_logit; row < rows; ++row) {
      const std::size_t vocab = static_cast<std::size_t>(state.config.vocab_size);
      const std::span logits(state.logits.data() + static_cast<std::size_t>(row - first_logit) * vocab, vocab);
      state.score_row(record, static_cast<std::size_t>(begin + row - first_row), logits);
    }
  }
  AcceptanceScore score = walk_chain(state.accept, k);
  score.rows = static_cast<double>(state.accept.size());
  score.alone = state.alone;
  const double undrafted = static_cast<double>(record.target.size()) - score.rows;  // beyond the draft's context
  const auto answer = std::span(record.tokens).subspan(static_cast<std::size_t>(record.prompt_tokens));
  score.repeated = count_repeated_tokens(answer);
  score.steps += undrafted;
  score.smooth_steps = walk_chain(state.smooth, k).steps + undrafted;
  score.tokens += undrafted;
  return score;
}

}  // namespace slip
