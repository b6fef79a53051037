// SPDX-License-Identifier: Apache-2.0
#include "cli/simulation/simulation.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "cli/simulation/draft_confidence.h"
#include "common/clock.h"
#include "common/error.h"
#include "engine/models/transformer.h"
#include "engine/sampling/random.h"
#include "engine/speculative/branches.h"
#include "engine/speculative/draft_runner.h"
#include "engine/speculative/proposer.h"

namespace slip {
namespace {

constexpr std::int32_t kWords = 64;
// P(a sibling is right | the choices before it are wrong) / α. `bench/ranks` measured the first sibling: .28 at
// α = .64, .15 at .46, .02 at .06. Later siblings get the same rate.
constexpr double kSiblingRatePerAlpha = .4;
// Seeds of the language, of the draft's random draws, and of what prompts share
constexpr std::uint64_t kLanguage = 0x51'0A7E, kDraws = 0x1CC'0000, kShared = 0x5EED'0000'0000;

// The event clock: whole microseconds, and the part of one that it does not show yet.
std::int64_t now_us = 0;
double behind_us = 0;

std::int64_t event_us() {
  return now_us;
}

void pass_time(double us) {
  behind_us += us;
  const double whole = std::floor(behind_us);
  now_us += static_cast<std::int64_t>(whole);
  behind_us -= whole;
}

// Sets the event clock to 0 and makes it the process's.
class EventClock {
 public:
  EventClock() : before_(monotonic_source) {
    now_us = 0;
    behind_us = 0;
    monotonic_source = event_us;
  }
  ~EventClock() { monotonic_source = before_; }
  EventClock(const EventClock&) = delete;
  EventClock& operator=(const EventClock&) = delete;

 private:
  std::int64_t (*before_)();
};

// The language: one token follows another at a position, whatever came before them.
std::int32_t token_after(std::int32_t token, std::int32_t position) {
  const double u = uniform({kLanguage + static_cast<std::uint64_t>(token), 0, static_cast<std::uint32_t>(position)},
                           RandomPurpose::kDraft);
  return static_cast<std::int32_t>(u * kWords);
}

ModelConfig small_config(std::int32_t max_positions) {
  ModelConfig config;
  config.vocab_size = kWords;
  config.hidden_size = config.intermediate_size = 16;
  config.n_layers = config.n_heads = config.n_kv_heads = 1;
  config.head_dim = 16;
  config.max_positions = max_positions;
  return config;
}

// A prompt of request `seed`: the text that its topic's requests share, then its own, which differs from all others'
// from its first token on.
std::vector<std::int32_t> prompt_of(std::uint64_t seed, std::size_t topic, std::int32_t n_tokens,
                                    std::int32_t n_shared) {
  std::vector<std::int32_t> prompt(static_cast<std::size_t>(n_tokens));
  for (std::int32_t at = 0; at < n_tokens; ++at) {
    const RandomAddress place{at < n_shared ? kShared + topic : seed, 1, static_cast<std::uint32_t>(at)};
    prompt[static_cast<std::size_t>(at)] = static_cast<std::int32_t>(uniform(place, RandomPurpose::kDraft) * kWords);
  }
  if (n_shared < n_tokens) prompt[static_cast<std::size_t>(n_shared)] = static_cast<std::int32_t>(seed % kWords);
  return prompt;
}

// Takes the time of a target's pass and answers with the language's next tokens.
class SimulatedTarget final : public Worker {
 public:
  SimulatedTarget(const Simulation& simulation, std::int32_t max_rows, std::int32_t max_logit_rows)
      : costs_(simulation.target),
        other_(simulation.other),
        config_(small_config(simulation.max_positions)),
        cache_(config_, Dtype::kFloat32, PagePool::pages_for(simulation.cache_tokens)),
        max_rows_(max_rows),
        max_logit_rows_(max_logit_rows) {}

  void run(const StepInput& input, StepOutput& output) override {
    PassShape shape{static_cast<std::int32_t>(input.tokens.size()), static_cast<std::int32_t>(input.logit_rows.size()),
                    static_cast<std::int32_t>(input.kv.size())};
    for (std::size_t i = 0; i < input.kv.size(); ++i) {
      shape.context += input.kv[i].n_cached;
      shape.row_context += std::int64_t{input.row_begin[i + 1] - input.row_begin[i]} * input.kv[i].n_cached;
    }
    pass_time(other_.step_us + other_.row_us * shape.logit_rows + costs_.us(shape));
    for (std::size_t i = 0; i < input.logit_rows.size(); ++i) {
      const auto row = static_cast<std::size_t>(input.logit_rows[i]);
      float* logits = output.logits.row<float>(static_cast<std::int64_t>(i));
      std::fill_n(logits, kWords, 0.0F);
      logits[token_after(input.tokens[row], input.positions[row])] = 1;
    }
  }
  const ModelConfig& config() const override { return config_; }
  PagePool& cache() override { return cache_; }
  std::int32_t max_rows() const override { return max_rows_; }
  std::int32_t max_logit_rows() const override { return max_logit_rows_; }

 private:
  const PassCosts& costs_;
  OtherCosts other_;
  ModelConfig config_;
  PagePool cache_;
  std::int32_t max_rows_, max_logit_rows_;
};

// Takes the time of a draft's passes and knows the language as well as the request's α says. It reads prompts, drafts
// greedy chains, ends them early and adds siblings, as DraftModelProposer does. It does not continue siblings.
class SimulatedDraft final : public Proposer {
 public:
  struct Knowledge {
    double alpha = 0;          // for one request; 0: it has no draft
    double drafted_share = 1;  // as in SimulatedTopic
  };
  // `knowledge`: by request, the first of which is number 1. REQUIRES: the simulation has the draft's costs, if any
  // request has an α.
  SimulatedDraft(const Simulation& simulation, std::vector<Knowledge> knowledge)
      : costs_(simulation.draft.value_or(simulation.target)),
        knowledge_(std::move(knowledge)),
        is_planned_(simulation.options.adaptive_k),
        seed_(simulation.seed) {
    for (const Knowledge& one : knowledge_) {
      if (one.alpha > 0) confidences_.try_emplace(one.alpha, one.alpha);
    }
  }

  bool drafts_for(const SequenceRef& sequence) const override { return sequence.live_draft != nullptr; }
  void begin(const SequenceRef& sequence) override { n_read_[sequence.id.value] = 0; }
  void release(RequestId sequence) override { n_read_.erase(sequence.value); }

  CatchUpTimes catch_up(std::span<const DraftTask> tasks, CatchUpBudget budget) override {
    const std::int64_t start_us = monotonic_us();
    PassShape shape{0, 1, 0};
    for (const DraftTask& task : tasks) {
      std::int32_t& read = n_read_[task.sequence->id.value];
      const std::int32_t n = std::min(unread(*task.sequence), budget.prompt_rows - shape.rows);
      if (!task.reads || n <= kMostUnreadRows) continue;
      if (task.rows_read != nullptr) *task.rows_read = n;
      shape.context += read;
      shape.row_context += std::int64_t{n} * read;
      shape.rows += n;
      ++shape.sequences;
      read += n;
    }
    if (shape.rows > 0) pass_time(costs_.us(shape));
    return {monotonic_us() - start_us, 0};
  }

  std::int32_t ready_depth(const SequenceRef& sequence) override {
    if (unread(sequence) > kMostUnreadRows) return 0;
    if (!is_planned_) return kMaxProposalNodes;
    const double drawn =
        uniform_for(sequence, DrawPurpose::kDrafts, static_cast<std::int32_t>(std::ssize(sequence.tokens)));
    return drawn < knowledge_of(sequence).drafted_share ? kMaxProposalNodes : 0;
  }

  std::int32_t propose(std::span<const DraftTask> tasks) override {
    std::vector<DraftChain> chains;
    for (const DraftTask& task : tasks) {
      if (task.nodes == 0) continue;
      DraftChain& chain = chains.emplace_back();
      chain.sequence = task.sequence;
      chain.proposal = task.proposal;
      chain.nodes = task.nodes;
      chain.width = task.width;
      chain.stop = task.stop;
    }
    const std::int32_t n_passes = grow_chains(chains);
    for (DraftChain& chain : chains) add_siblings(chain);
    return n_passes;
  }

  void on_verified(const SequenceRef& sequence, const VerifyResult& result) override {
    const auto n_tokens = static_cast<std::int32_t>(sequence.tokens.size());
    n_read_[sequence.id.value] = n_tokens + count_accepted_of_chain(result);
  }

 private:
  std::int32_t unread(const SequenceRef& sequence) const {
    const auto found = n_read_.find(sequence.id.value);
    const auto n_tokens = static_cast<std::int32_t>(sequence.tokens.size());
    return n_tokens - 1 - (found == n_read_.end() ? 0 : std::min(found->second, n_tokens - 1));
  }

  const Knowledge& knowledge_of(const SequenceRef& sequence) const { return knowledge_.at(sequence.id.value - 1); }
  enum class DrawPurpose : std::uint32_t { kConfidence, kRight, kDrafts };
  // A number in [0, 1) for a purpose at a position. Different indices give independent numbers.
  double uniform_for(const SequenceRef& sequence, DrawPurpose purpose, std::int32_t position,
                     std::uint32_t index = 0) const {
    return uniform(
        {seed_ + kDraws + sequence.id.value, static_cast<std::uint32_t>(purpose), static_cast<std::uint32_t>(position)},
        RandomPurpose::kDraft, index);
  }

  // Returns the number of passes.
  std::int32_t grow_chains(std::span<DraftChain> chains) const {
    std::vector<DraftChain*> growing;
    for (DraftChain& chain : chains) growing.push_back(&chain);
    for (std::int32_t n_passes = 0;; ++n_passes) {
      std::erase_if(growing, [](const DraftChain* chain) {
        return static_cast<std::int32_t>(chain->proposal->size()) == chain->nodes || !chain->goes_on();
      });
      // A pass that was not planned must be worth its time for all chains together, as in DraftRunner.
      double worth = 0, price = 0;
      bool is_planned = false;
      for (const DraftChain* chain : growing) {
        is_planned |= chain->stop.rates == nullptr || chain->proposal->size() == 0;
        worth += chain->worth_of_next();
        price = chain->stop.pass_price;
      }
      if (growing.empty() || (!is_planned && worth <= price)) return n_passes;
      const std::int64_t context = std::accumulate(
          growing.begin(), growing.end(), std::int64_t{0},
          [](std::int64_t sum, const DraftChain* chain) { return sum + std::ssize(chain->sequence->tokens); });
      const auto n = static_cast<std::int32_t>(growing.size());
      pass_time(costs_.us({n, n, n, context, context}));
      for (DraftChain* chain : growing) grow(*chain);
    }
  }

  void grow(DraftChain& chain) const {
    const SequenceRef& sequence = *chain.sequence;
    const Proposal& proposal = *chain.proposal;
    const auto position = static_cast<std::int32_t>(std::ssize(sequence.tokens) - 1 + std::ssize(proposal.tokens));
    const double alpha = knowledge_of(sequence).alpha;
    const double probability = confidences_.at(alpha).at(uniform_for(sequence, DrawPurpose::kConfidence, position));
    const std::int32_t last = proposal.tokens.empty() ? sequence.tokens.back() : proposal.tokens.back();
    const std::int32_t right = token_after(last, position);
    std::int32_t n_wrong = 0;
    bool found = uniform_for(sequence, DrawPurpose::kRight, position) < probability;
    const std::int32_t first = found ? right : (right + ++n_wrong) % kWords;
    Siblings& siblings = chain.siblings[proposal.size()];
    for (std::uint32_t rank = 1; rank < static_cast<std::uint32_t>(chain.width); ++rank) {
      const double drawn = uniform_for(sequence, DrawPurpose::kRight, position, rank);
      const bool is_right = !found && drawn < kSiblingRatePerAlpha * alpha;
      siblings.add(is_right ? right : (right + ++n_wrong) % kWords);
      found |= is_right;
    }
    chain.add(first, std::log(probability));
  }

  static void add_siblings(DraftChain& chain) {
    Branches branches;
    branches.begin(*chain.proposal, chain.siblings, chain.stop.rates);
    for (const std::int32_t index : branches.best()) {
      const Branches::Node& node = branches.node(index);
      chain.proposal->add(node.token, node.parent, /*log_q=*/0);
    }
  }

  PassCosts costs_;
  std::vector<Knowledge> knowledge_;
  std::map<double, DraftConfidence> confidences_;  // by α
  bool is_planned_;                                // draft lengths are
  std::uint64_t seed_;
  std::unordered_map<std::uint64_t, std::int32_t> n_read_;  // committed tokens, by request
};

// Gives each topic its share of the requests, as evenly as whole requests allow.
class TopicTurns {
 public:
  explicit TopicTurns(const std::vector<SimulatedTopic>& topics) : topics_(topics), due_(topics.size(), 0) {
    for (const SimulatedTopic& topic : topics) sum_ += topic.share;
  }
  std::size_t next() {
    for (std::size_t i = 0; i < due_.size(); ++i) due_[i] += topics_[i].share / sum_;
    const auto chosen = std::max_element(due_.begin(), due_.end());
    *chosen -= 1;
    return static_cast<std::size_t>(chosen - due_.begin());
  }

 private:
  const std::vector<SimulatedTopic>& topics_;
  std::vector<double> due_;  // requests that each topic has too few
  double sum_ = 0;
};

// The topic of each arrival: its own, or the one whose turn it is.
std::vector<std::size_t> topics_of(const std::vector<Arrival>& arrivals, const std::vector<SimulatedTopic>& topics) {
  TopicTurns turns(topics);
  std::vector<std::size_t> kinds;
  for (const Arrival& arrival : arrivals) {
    kinds.push_back(arrival.topic < 0 ? turns.next() : static_cast<std::size_t>(arrival.topic));
  }
  return kinds;
}

// The α of a topic's requests that have none of their own.
double alpha_of(const SimulatedTopic& topic, bool planned) {
  return planned ? topic.alpha : topic.alpha_of_all_steps.value_or(topic.alpha);
}

// The draft's α for a request. Its own is rounded, so that requests share their DraftConfidence, which is slow to make.
double alpha_for(const Arrival& arrival, const SimulatedTopic& topic, bool planned) {
  constexpr double kGrain = 0.005;
  const double usual = alpha_of(topic, planned);
  if (arrival.alpha == 0 || usual == 0 || topic.alpha == 0) return usual;
  return std::clamp(kGrain * std::round(arrival.alpha * usual / topic.alpha / kGrain), kGrain, 1.0);
}

// Writes what a client would see.
class SimulatedClient final : public TokenSink {
 public:
  SimulatedClient(ReplyFigures& reply, double arrived_us, double after_us)
      : reply_(reply), arrived_us_(arrived_us), after_us_(after_us) {}
  void on_tokens(const TokenDelta&) override {
    const double ms = ms_since_arrival();
    if (reply_.ttft_ms == 0) {
      reply_.ttft_ms = ms;
    } else {
      reply_.gaps_ms.push_back(ms - last_ms_);
    }
    last_ms_ = ms;
  }
  void on_finished(const RequestSummary& summary) override {
    reply_.status = summary.error ? 500 : 200;
    reply_.finish_reason = stop_reason_name(summary.reason);
    reply_.e2e_ms = ms_since_arrival();
    reply_.completion_tokens = summary.figures.output_tokens;
    reply_.steps = summary.figures.steps;
    reply_.proposed = summary.figures.proposed;
    reply_.accepted = summary.figures.accepted;
    reply_.accepted_siblings = summary.figures.accepted_siblings;
    reply_.first_rejections = summary.figures.first_rejections;
    const std::vector<std::int32_t>& reached_at = summary.figures.reached_at;
    reply_.drafted_steps = reached_at.empty() ? 0 : reached_at.front();
  }

 private:
  double ms_since_arrival() const { return (static_cast<double>(now_us) - arrived_us_ + after_us_) / 1e3; }
  ReplyFigures& reply_;
  double arrived_us_, after_us_, last_ms_ = 0;
};

}  // namespace

LoadFigures simulate(const Simulation& simulation, const std::vector<Arrival>& arrivals) {
  const EventClock clock;
  std::vector<std::shared_ptr<LiveDraft>> drafts;  // of each topic; null: none
  for (const SimulatedTopic& topic : simulation.topics) {
    const DraftId id{static_cast<std::uint32_t>(drafts.size()) + 1};
    const bool drafts_for = alpha_of(topic, simulation.options.adaptive_k) > 0 && simulation.draft;
    drafts.push_back(drafts_for ? std::make_shared<LiveDraft>(id, topic.name) : nullptr);
  }
  const std::vector<std::size_t> kinds = topics_of(arrivals, simulation.topics);
  std::vector<SimulatedDraft::Knowledge> knowledge;
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    const SimulatedTopic& topic = simulation.topics[kinds[i]];
    knowledge.push_back({alpha_for(arrivals[i], topic, simulation.options.adaptive_k), topic.drafted_share});
  }
  const EngineOptions& options = simulation.options;
  const std::int32_t decoding_rows = options.max_running * (1 + std::min(options.k, kMaxProposalNodes));
  Engine engine(options,
                Target(std::make_unique<SimulatedTarget>(simulation, decoding_rows + options.prefill_chunk,
                                                         decoding_rows + options.max_running)),
                nullptr, std::make_unique<SimulatedDraft>(simulation, std::move(knowledge)), nullptr, {});
  LoadFigures run;
  run.replies.resize(arrivals.size());
  const auto submit = [&](std::size_t i) {
    const std::size_t kind = kinds[i];
    const double arrived_us = 1e6 * arrivals[i].at_s;
    Request request;
    request.id = RequestId{i + 1};
    const std::int32_t prompt_tokens =
        arrivals[i].prompt_tokens > 0 ? arrivals[i].prompt_tokens : simulation.topics[kind].prompt_tokens;
    request.prompt = prompt_of(simulation.seed + i, kind, prompt_tokens, arrivals[i].cached_tokens);
    request.sampling.temperature = 0;
    request.max_tokens = arrivals[i].max_tokens;
    request.draft = drafts[kind];
    request.slo = run.replies[i].slo = arrivals[i].slo;
    request.sink = std::make_shared<SimulatedClient>(run.replies[i], arrived_us, simulation.other.request_us / 2);
    try {
      engine.submit(std::move(request));
    } catch (const Error& error) {
      run.replies[i].status = error.code() == ErrorCode::kOverloaded ? 429 : 400;
    }
  };
  const double before_us = simulation.other.request_us / 2;
  for (std::size_t next = 0;;) {
    while (next < arrivals.size() && 1e6 * arrivals[next].at_s + before_us <= static_cast<double>(now_us)) {
      submit(next++);
    }
    if (engine.step()) continue;
    if (next == arrivals.size()) break;
    now_us = std::max(now_us, static_cast<std::int64_t>(std::ceil(1e6 * arrivals[next].at_s + before_us)));
  }
  run.elapsed_s = static_cast<double>(now_us) / 1e6;
  return run;
}

}  // namespace slip
