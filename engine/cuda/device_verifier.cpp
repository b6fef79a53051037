// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/device_verifier.h"

#include <algorithm>

#include "common/error.h"
#include "engine/speculative/acceptance.h"

namespace slip {
namespace {

using kernels::cuda::Accept;
using kernels::cuda::DeviceVerifyResult;
using kernels::cuda::DistributionState;
using kernels::cuda::GumbelParts;
using kernels::cuda::kMostKept;
using kernels::cuda::kRowParts;
using kernels::cuda::MakeDistributions;
using kernels::cuda::Observe;
using kernels::cuda::ProcessLogits;
using kernels::cuda::RowDistribution;

constexpr auto kKept = static_cast<std::size_t>(kMostKept);

// Appends a range; merges it with the last one if they are adjacent.
template <class Rows>
void add_run(const Rows& rows, std::vector<Rows>& runs) {
  if (rows.begin == rows.end) return;
  if (runs.empty() || runs.back().end != rows.begin) return runs.push_back(rows);
  runs.back().end = rows.end;
}

}  // namespace

bool wants_logits_on_host(const ScoreTask& task) {
  const bool verified_there = task.sequence != nullptr && !task.sequence->verified_on_device;
  return task.needs_logits || verified_there || task.top_k > kMostKept;
}

DeviceVerifier::DeviceVerifier(DeviceWorker& worker)
    : Verifier(worker),
      worker_(worker),
      queue_(worker.queue()),
      vocab_(worker.config().vocab_size),
      n_rows_(static_cast<std::size_t>(row_capacity(worker.max_logit_rows()))),
      tables_(queue_, row_capacity(worker.max_logit_rows()), vocab_),
      processed_(queue_, n_rows_ * static_cast<std::size_t>(vocab_)),
      distributions_(queue_, n_rows_),
      distribution_parts_(queue_, n_rows_ * kRowParts),
      gumbel_parts_(queue_, n_rows_ * kRowParts),
      results_(queue_, n_rows_),
      top_ids_(queue_, n_rows_ * kKept),
      top_logprobs_(queue_, n_rows_ * kKept),
      log_tails_(queue_, n_rows_),
      host_results_(queue_, n_rows_),
      seen_ids_(queue_, n_rows_ * kKept),
      seen_logprobs_(queue_, n_rows_ * kKept),
      seen_tails_(queue_, n_rows_) {}

void DeviceVerifier::score(std::span<const ScoreTask> tasks) {
  const StepInput input = lay_out(tasks);
  gather_proposals();
  if (tables_.make_room(verified_)) graphs_.clear();
  const DevicePassShape pass = worker_.put(input, {});
  put_host_rows();
  const Shape shape = put_tables(pass);
  const bool asks_nothing = shape.grid.n_proposals == 0 && shape.top_k == 0;
  if (pass.captured && !asks_nothing) {
    auto& graph = graphs_[shape];
    const LogitRows all{0, shape.grid.n_rows};
    if (graph == nullptr) graph = queue_.capture([&] { put_jobs(shape, {{&all, 1}, {&all, 1}}); });
    queue_.replay(*graph);
  } else {
    put_jobs(shape, {verified_rows_, observed_rows_});
  }
  copy_answers_out(shape);
  queue_.wait();
}

void DeviceVerifier::put_host_rows() {
  for (std::size_t i = 0; i < n_tasks(); ++i) {
    if (!wants_logits_on_host(task(i))) continue;
    const LogitRows rows = logit_rows(i);
    const std::size_t bytes = static_cast<std::size_t>(vocab_) * sizeof(float);
    queue_.copy_out(host_row(rows.begin), worker_.logits() + std::int64_t{rows.begin} * vocab_,
                    static_cast<std::size_t>(rows.end - rows.begin) * bytes);
  }
}

void DeviceVerifier::gather_proposals() {
  verified_.clear();
  verified_rows_.clear();
  observed_rows_.clear();
  result_of_.assign(n_tasks(), -1);
  top_k_ = 0;
  for (std::size_t i = 0; i < n_tasks(); ++i) {
    const ScoreTask& one = task(i);
    // A scored prompt's earlier rows are only reported, not verified or observed.
    const LogitRows rows{first_logit_row(i), logit_rows(i).end};
    if (one.top_k > 0 && one.top_k <= kMostKept) {
      const std::int32_t top_k = std::min(one.top_k, vocab_);
      SLIP_CHECK(top_k_ == 0 || top_k_ == top_k, "all of a pass are observed alike");
      top_k_ = top_k;
      add_run(rows, observed_rows_);
    }
    if (one.sequence == nullptr || !one.sequence->verified_on_device) continue;
    SLIP_CHECK(one.proposal != nullptr, "a verification has a proposal, if an empty one");
    result_of_[i] = static_cast<std::int32_t>(verified_.size());
    verified_.push_back({one.sequence, one.proposal, rows.begin});
    add_run(rows, verified_rows_);
  }
}

// The grids are padded as the pass's are, if it was captured.
DeviceVerifier::Shape DeviceVerifier::put_tables(const DevicePassShape& pass) {
  const auto n_verified = static_cast<std::int32_t>(verified_.size());
  Shape shape;
  shape.grid = {pass.n_logit_rows, pass.captured && n_verified > 0 ? row_capacity(n_verified) : n_verified};
  shape.top_k = observed_rows_.empty() ? 0 : top_k_;
  if (n_verified == 0) return shape;
  tables_.put(verified_, shape.grid);
  shape.processors = tables_.has_processors();
  shape.coupled = tables_.draws_coupled();
  return shape;
}

void DeviceVerifier::put_jobs(const Shape& shape, const AskedRows& asked) const {
  if (shape.grid.n_proposals > 0) {
    for (const LogitRows& rows : asked.verified) put_distributions(shape, rows);
    put_accept(shape);
  }
  if (shape.top_k == 0) return;
  for (const LogitRows& rows : asked.observed) put_observations(shape, rows);
}

void DeviceVerifier::put_distributions(const Shape& shape, const LogitRows& rows) const {
  const std::ptrdiff_t first = rows.begin, first_part = first * kRowParts;
  const std::int32_t n = rows.end - rows.begin;
  const float* logits = worker_.logits() + first * vocab_;
  if (shape.processors) {
    ProcessLogits process = tables_.processors();
    process.rows += first;
    process.logits = logits;
    process.stride = process.processed_stride = process.vocab = vocab_;
    process.processed = processed_.get() + first * vocab_;
    queue_.enqueue(process, n);
    logits = process.processed;
  }
  RowDistribution* distributions = distributions_.get() + first;
  queue_.enqueue(MakeDistributions{logits, vocab_, vocab_, tables_.transforms() + first, distributions,
                                   distribution_parts_.get() + first_part},
                 n);
  if (!shape.coupled) return;
  queue_.enqueue(
      GumbelParts{logits, vocab_, vocab_, distributions, tables_.addresses() + first, gumbel_parts_.get() + first_part},
      n);
}

void DeviceVerifier::put_accept(const Shape& shape) const {
  Accept accept;
  accept.proposals = tables_.proposals();
  accept.tokens = tables_.tokens();
  accept.parents = tables_.parents();
  accept.q = tables_.q();
  accept.vocab = vocab_;
  accept.target_logits = shape.processors ? processed_.get() : worker_.logits();
  accept.target_stride = vocab_;
  accept.target_distributions = distributions_.get();
  accept.target_parts = shape.coupled ? gumbel_parts_.get() : nullptr;
  accept.results = results_.get();
  queue_.enqueue(accept, shape.grid.n_proposals);
}

void DeviceVerifier::put_observations(const Shape& shape, const LogitRows& rows) const {
  const std::ptrdiff_t first = rows.begin;
  Observe observe;
  observe.logits = worker_.logits() + first * vocab_;
  observe.stride = observe.vocab = vocab_;
  observe.top_k = shape.top_k;
  observe.ids = top_ids_.get() + first * shape.top_k;
  observe.logprobs = top_logprobs_.get() + first * shape.top_k;
  observe.log_tail = log_tails_.get() + first;
  queue_.enqueue(observe, rows.end - rows.begin);
}

// Copies all rows from the first observed one to the last: one copy is cheaper than several.
void DeviceVerifier::copy_answers_out(const Shape& shape) {
  queue_.copy_out(host_results_.get(), results_.get(), verified_.size() * sizeof(DeviceVerifyResult));
  if (shape.top_k == 0) return;
  const auto first = static_cast<std::size_t>(observed_rows_.front().begin);
  const std::size_t n = static_cast<std::size_t>(observed_rows_.back().end) - first;
  const auto k = static_cast<std::size_t>(shape.top_k);
  queue_.copy_out(seen_ids_.get() + first * k, top_ids_.get() + first * k, n * k * sizeof(std::int32_t));
  queue_.copy_out(seen_logprobs_.get() + first * k, top_logprobs_.get() + first * k, n * k * sizeof(float));
  queue_.copy_out(seen_tails_.get() + first, log_tails_.get() + first, n * sizeof(float));
}

void DeviceVerifier::verify(std::size_t index, VerifyResult& result) {
  const std::int32_t at = result_of_[index];
  if (at < 0) return verify_on_host(index, result, scratch_);
  const DeviceVerifyResult& host = host_results_.get()[at];
  const bool broken = host.state != DistributionState::kFine;
  if (broken && host.n_accepted == 0) throw broken_logits();
  result.accepted.assign(host.accepted, host.accepted + host.n_accepted);
  if (broken) return end_with_accepted(*task(index).proposal, result);
  result.added_token = host.added_token;
  result.rejected_one = host.rejected_one != 0;
}

TopK DeviceVerifier::observed(std::size_t index, std::int32_t row) {
  if (task(index).top_k > kMostKept) return observe_on_host(index, row);
  const std::ptrdiff_t at = first_logit_row(index) + row;
  const std::int32_t* ids = seen_ids_.get() + at * top_k_;
  const float* logprobs = seen_logprobs_.get() + at * top_k_;
  return {{ids, ids + top_k_}, {logprobs, logprobs + top_k_}, seen_tails_.get()[at]};
}

}  // namespace slip
