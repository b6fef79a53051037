// SPDX-License-Identifier: Apache-2.0
#include "distill/warmup/warmup_answers.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/error.h"
#include "distill/replay/record_assembler.h"
#include "distill/replay/record_codec.h"
#include "engine/cuda/make_target.h"
#include "engine/engine.h"
#include "engine/models/finite_logits.h"
#include "engine/speculative/observe.h"

namespace slip {
namespace {

constexpr float kSampledTemperature = 0.8F;
constexpr std::int32_t kForcedRows = 256;  // rows of one pass over a given response
constexpr std::uint64_t kMaxAnswerBytes = std::uint64_t{16} << 30;

std::int32_t pages_of(const ModelConfig& config) {
  return (config.max_positions + PagePool::kPageTokens - 1) / PagePool::kPageTokens;
}

SamplingParams sampling_of(std::size_t index, const AnswerOptions& options) {
  SamplingParams sampling;
  sampling.temperature = options.temperature.value_or(index % 2 == 0 ? 0.0F : kSampledTemperature);
  sampling.seed = options.seed + 0x9E3779B97F4A7C15ULL * (index + 1);
  return sampling;
}

// Collects the engine's observations of one run as finished records. A failed request ends the run, since its prompt
// would otherwise be missing silently.
class RecordCollector final : public ObservationSink, public StepListener {
 public:
  void begin(ObservedRequest request) noexcept override { assembler_.begin(std::move(request)); }
  void record(Observation observation) noexcept override { assembler_.record(observation); }
  void finish(RequestId request, bool completed) noexcept override {
    if (auto record = assembler_.finish(request, completed)) finished_.push_back(std::move(*record));
  }
  void on_finished(const RequestSummary& summary) noexcept override {
    if (summary.error && !failure_) failure_ = summary.error;
  }
  std::vector<ReplayRecord> take() { return std::exchange(finished_, {}); }
  const std::optional<Error>& failure() const { return failure_; }

 private:
  TopicTable topics_{std::vector<Topic>{}};
  RecordAssembler assembler_{topics_, [](DraftId) { return std::string(); }};
  std::vector<ReplayRecord> finished_;
  std::optional<Error> failure_;
};

class DiscardedTokens final : public TokenSink {
 public:
  void on_tokens(const TokenDelta&) override {}
  void on_finished(const RequestSummary&) override {}
};

Request request_for(const WarmupPrompt& prompt, std::size_t index, const AnswerOptions& options,
                    const ModelConfig& config) {
  Request request;
  request.id = {index + 1};
  request.prompt = prompt.tokens;
  request.sampling = sampling_of(index, options);
  const auto room = config.max_positions - static_cast<std::int32_t>(prompt.tokens.size());
  request.max_tokens = std::min(options.max_tokens, room);
  request.end_ids = config.eos_ids;
  request.k = 0;
  request.sink = std::make_shared<DiscardedTokens>();
  return request;
}

}  // namespace

AnswerFile::AnswerFile(const std::filesystem::path& path) {
  file_ = FileHandle(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file_) throw Error(ErrorCode::kIo, "cannot open " + path.string());
  const std::string content = read_file(path, kMaxAnswerBytes);
  std::span<const std::byte> left = std::as_bytes(std::span(content));
  while (const auto frame = parse_frame(left)) {
    auto record = decode_record(left.first(frame->frame_bytes));
    if (!record) break;
    records_.insert_or_assign(record->request.value, std::move(*record));
    left = left.subspan(frame->frame_bytes);
  }
  if (left.empty()) return;
  if (::ftruncate(file_.get(), static_cast<off_t>(content.size() - left.size())) != 0) {
    throw Error(ErrorCode::kIo, "cannot cut the torn end of " + path.string());
  }
}

void AnswerFile::append(const ReplayRecord& record) {
  const std::vector<std::byte> frame = encode_record(record, records_.size() + 1);
  write_all(file_.get(), frame, "warmup.answers");
  // Keeps the record as it will be read back: log probabilities lose precision on disk, and an interrupted run must end
  // with the same weights as an uninterrupted one.
  auto kept = decode_record(frame);
  SLIP_CHECK(kept.has_value(), "a frame we have just written does not decode");
  records_.insert_or_assign(record.request.value, std::move(*kept));
}

void AnswerFile::sync() {
  sync_file(file_.get(), "warmup.answers");
}

void write_answers(const AnsweringTarget& target, std::span<const WarmupPrompt> prompts,
                   const std::vector<std::size_t>& wanted, const AnswerOptions& options, kernels::ThreadPool& pool,
                   const AnswerSink& sink, const KeepGoing& keep_going) {
  const ModelConfig& config = target.weights->config;
  EngineOptions engine_options;
  engine_options.k = 0;
  engine_options.max_running = options.concurrency;
  engine_options.max_waiting = options.concurrency;
  const std::int32_t rows = engine_options.prefill_chunk + options.concurrency + 1;
  const WorkerSize size{rows, options.concurrency + 1, pages_of(config) * options.concurrency};
  RecordCollector collector;
  Target answering = make_target(target.device, target.weights, size, pool);
  require_finite_logits(*answering.worker, target.where);
  Engine engine(engine_options, std::move(answering), nullptr, pool, &collector, {&collector});
  std::size_t next = 0;
  bool busy = true;
  while (busy && keep_going()) {
    while (next < wanted.size() && engine.n_waiting() < engine_options.max_waiting) {
      engine.submit(request_for(prompts[wanted[next]], wanted[next], options, config));
      ++next;
    }
    busy = engine.step() || next < wanted.size();
    if (collector.failure()) throw Error(*collector.failure());
    for (const ReplayRecord& record : collector.take()) {
      if (!sink(record)) return;
    }
  }
}

namespace {

// Runs rows [begin, end) of one record through the target. Rows that predict an answer token give a TopK.
void force_rows(Worker& worker, PageTable& pages, ReplayRecord& record, std::int32_t begin, std::int32_t end,
                std::vector<float>& logits) {
  const std::int32_t n = end - begin;
  const std::int64_t vocab = worker.config().vocab_size;
  std::vector<std::int32_t> positions(static_cast<std::size_t>(n));
  std::vector<std::int32_t> logit_rows;
  for (std::int32_t i = 0; i < n; ++i) {
    positions[i] = begin + i;
    if (begin + i >= record.prompt_tokens - 1) logit_rows.push_back(i);
  }
  const std::vector<std::int32_t> row_begin{0, n};
  KvView kv;
  kv.pages = &pages;
  kv.n_cached = begin;
  StepInput input;
  input.tokens = std::span(record.tokens).subspan(begin, n);
  input.positions = positions;
  input.row_begin = row_begin;
  input.kv = {&kv, 1};
  input.logit_rows = logit_rows;
  logits.resize(logit_rows.size() * static_cast<std::size_t>(vocab));
  StepOutput output;
  output.logits = TensorView::contiguous(logits.data(), {static_cast<std::int64_t>(logit_rows.size()), vocab});
  worker.run(input, output);
  for (std::size_t r = 0; r < logit_rows.size(); ++r) {
    record.target.push_back(observe_row({logits.data() + r * vocab, static_cast<std::size_t>(vocab)}, TopK::kDefault));
  }
}

}  // namespace

void force_answers(const AnsweringTarget& target, std::span<const WarmupPrompt> prompts,
                   const std::vector<std::size_t>& wanted, kernels::ThreadPool& pool, const AnswerSink& sink,
                   const KeepGoing& keep_going) {
  const WorkerSize size{kForcedRows, kForcedRows, pages_of(target.weights->config)};
  const Target forced = make_target(target.device, target.weights, size, pool);
  Worker& worker = *forced.worker;
  require_finite_logits(worker, target.where);
  std::vector<float> logits;
  for (std::size_t index : wanted) {
    ReplayRecord record;
    record.request = {index + 1};
    record.tokens = prompts[index].tokens;
    record.prompt_tokens = static_cast<std::int32_t>(record.tokens.size());
    record.tokens.insert(record.tokens.end(), prompts[index].response.begin(), prompts[index].response.end());
    record.sampling.temperature = 0;
    const auto last = static_cast<std::int32_t>(record.tokens.size()) - 1;  // no token follows the last one
    PageTable pages(worker.cache());
    SLIP_CHECK(pages.reserve(last), "the cache holds one sequence of the whole context");
    for (std::int32_t at = 0; at < last; at += kForcedRows) {
      if (!keep_going()) return;
      force_rows(worker, pages, record, at, std::min(at + kForcedRows, last), logits);
    }
    if (!sink(record)) return;
  }
}

}  // namespace slip
