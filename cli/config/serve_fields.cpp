// SPDX-License-Identifier: Apache-2.0
#include "cli/config/serve_fields.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <sstream>

#include "engine/speculative/proposal.h"

namespace slip::cli {
namespace {

constexpr std::int64_t kSecondUs = 1'000'000;
constexpr std::int64_t kDayUs = 24 * 3600 * kSecondUs;
constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxInt64 = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 50;
constexpr Range<std::int64_t> kDays{0, 36'500};
constexpr std::size_t kMaxServedName = 256;  // bytes
constexpr double kMaxStepsPerRequest = 64;
constexpr std::string_view kStepsPerRequest = "steps_per_request:";

// A name that clients request and answers repeat, such as "org/name:tag", in any script but without invisible
// characters.
bool is_served_name(const std::string& name) {
  return !name.empty() && name.size() <= kMaxServedName &&
         std::none_of(name.begin(), name.end(), [](unsigned char c) { return c <= ' ' || c == 0x7f; });
}

void visit_model(FieldVisitor& to, ServeConfig& config) {
  to.section("model");
  to.field("target", config.target, "a Hugging Face folder (Llama, Mistral, Qwen2 or Qwen3); has no default");
  to.field("draft", config.draft,
           R"(the base draft, such as `slipstream warmup` makes; "" leaves it to prompt lookup)");
  to.field("chat_template", config.chat_template, R"(a Jinja file; "" = the target's own)");
  to.field("served_names", config.served_names,
           "names that clients may request, the canonical one first; [] = the target folder's name");
  const auto& names = config.served_names;
  to.require(std::all_of(names.begin(), names.end(), is_served_name), "served_names",
             "must hold names of 1 to 256 characters, none of them a control character or blank");
  to.require(std::set(names.begin(), names.end()).size() == names.size(), "served_names", "must not hold a name twice");
  to.field("dtype", config.dtype, {{"bfloat16", Dtype::kBFloat16}, {"float32", Dtype::kFloat32}},
           "of target and drafts");
  to.field("device", config.device, {{"cpu", Device::kCpu}, {"cuda", Device::kCuda}},
           "cuda: target and drafts run on the first CUDA device, in bfloat16");
  to.require(config.device == Device::kCpu || config.dtype == Dtype::kBFloat16, "device",
             "\"cuda\" computes in bfloat16 alone: leave dtype at \"bfloat16\", or use \"cpu\"");
  to.field("threads", config.threads, {0, 1024}, "0 = the usable cores; over 16 and over 4 per core are refused");
  to.field("pin_threads", config.pin_threads,
           "each to its own CPU, if there are enough; false where two servers share the CPUs");
  to.field("cache_tokens", config.cache_tokens, {0, kMaxInt32},
           "slots of the target's KV cache; 0 = max_running times the context, at most 1/4 of memory, or one context");
}

void visit_data(FieldVisitor& to, ServeConfig& config) {
  to.section("data");
  to.field("directory", config.data_dir,
           "drafts, ledger, replay and optimizer state; mode 0700, one process at a time");
  to.field("min_free_bytes", config.min_free_bytes, {0, kMaxBytes},
           "with less free space there, learning and the ledger pause and serving goes on; 0 = never");
}

void visit_topics(FieldVisitor& to, ServeConfig& config) {
  to.section("topics");
  to.topics_file("file", config.topics_file, config.topics, R"("" = the built-in copy of configs/topics.toml)");
  to.section("router");
  to.field("classify", config.router.classify,
           "a request without a known label gets the topic of its text; false: \"unknown\"");
  to.field("learn", config.router.learn, "labelled requests train the classifier, unless learning.enabled is false");
  to.field("min_confidence", config.router.min_confidence, {0, 1},
           "a text is \"unknown\" if no topic has this probability");
}

void visit_log(FieldVisitor& to, LogOptions& log) {
  to.section("log");
  to.field("level", log.level,
           {{"debug", LogLevel::kDebug},
            {"info", LogLevel::kInfo},
            {"warn", LogLevel::kWarn},
            {"error", LogLevel::kError},
            {"off", LogLevel::kOff}},
           "the least severe level that is logged");
  to.field("format", log.format, {{"text", LogFormat::kText}, {"json", LogFormat::kJson}},
           "one line per message, time in UTC");
  to.field("file", log.file, R"("" = standard error; SIGUSR1 reopens it after a rotation)");
}

// Without a value ("auto") it depends on the number of keys.
void visit_exposure(FieldVisitor& to, ServeConfig& config) {
  std::optional<ExposeAcceptance> exposure;
  if (!config.expose_auto) exposure = config.server.expose_acceptance;
  to.field("expose_acceptance", exposure,
           {{"auto", std::nullopt},
            {"all", ExposeAcceptance::kAll},
            {"own", ExposeAcceptance::kOwn},
            {"none", ExposeAcceptance::kNone}},
           "acceptance counts that clients see. all: also /metrics for every key; own: each answer's own counts; auto: "
           "all, but none with several keys, since counts tell a client what others trained a draft with");
  config.expose_auto = !exposure;
  config.server.expose_acceptance = exposure.value_or(ExposeAcceptance::kAll);
}

void visit_access(FieldVisitor& to, ServeConfig& config) {
  ServerOptions& server = config.server;
  KeyLimits& limits = server.key_limits;
  to.section("server");
  to.field("host", server.host,
           "an IP address; any but loopback needs an API key; a key under 16 characters gets a warning");
  to.field("port", server.port, {0, 65'535}, "0 = the system chooses one, which is printed");
  to.field("api_keys_file", config.api_keys_file,
           "mode 0600; a line: KEY [name=LABEL] [requests_in_flight=N] [requests_per_minute=N] [tokens_per_minute=N] "
           "[operator=true] [slo=true] [slo_tiers=NAME,...]; SLIPSTREAM_API_KEY adds more keys, separated by blanks. "
           "With several keys only those with "
           "operator=true read /metrics");
  to.field("tls_certificate", server.tls_certificate,
           R"(PEM, with its chain; "" = plain HTTP, else HTTPS only, TLS 1.2 or later)");
  to.field("tls_key", server.tls_key, "PEM, mode 0600, not encrypted, since a service cannot ask for a password");
  to.field("key_requests_in_flight", limits.requests_in_flight, {0, KeyLimits::kMostInFlight},
           "of a key without its own limit; 0 = no limit; beyond it a 429");
  to.field("key_requests_per_minute", limits.requests_per_minute, {0, KeyLimits::kMostPerMinute}, "likewise");
  to.field("key_tokens_per_minute", limits.tokens_per_minute, {0, KeyLimits::kMostPerMinute},
           "likewise; prompts once and all answers, when they end");
  to.field("allowed_hosts", server.allowed_hosts,
           "Host names besides localhost, 127.0.0.1 and [::1], while no key is set");
  to.field("allowed_origins", server.allowed_origins,
           R"(browser origins ("https://example.org") that may call and read answers (CORS))");
  visit_exposure(to, config);
}

void visit_sizes(FieldVisitor& to, ServerOptions& server) {
  to.field("io_threads", server.io_threads, {1, 2}, "threads that read requests and write answers");
  to.field("max_connections", server.max_connections, {1, 65'536},
           "at the limit a new connection replaces the one that is idle longest; if none is idle, 16 more connections "
           "answer probes and /metrics. The hard limit of open files may allow fewer: a warning at the start");
  to.field("max_header_bytes", server.max_header_bytes, {1 << 10, 1 << 20}, "of one request");
  to.field("max_body_bytes", server.max_body_bytes, {1 << 10, 64 << 20}, "of one request");
  to.field("max_answer_bytes", server.max_answer_bytes, {1 << 10, 64 << 20}, "outbound buffer of one answer");
  to.field("max_buffered_bytes", server.max_buffered_bytes, {1 << 20, kMaxBytes},
           "of all bodies in work and all unsent answers; beyond it requests are a 503; at least max_body_bytes + "
           "max_answer_bytes. 28 max_body_bytes of it are kept for parsing and tokenizing one body, but at most half "
           "of what exceeds that minimum");
  const std::uint64_t least = std::uint64_t{server.max_body_bytes} + server.max_answer_bytes;
  to.require(server.max_buffered_bytes >= least, "max_buffered_bytes",
             "must be at least max_body_bytes + max_answer_bytes, which is " + std::to_string(least));
}

void visit_timeouts(FieldVisitor& to, ServerOptions& server) {
  to.field("header_timeout_ms", server.header_timeout,
           "from a request's first byte to the end of its headers; then a 408");
  to.field("body_timeout_ms", server.body_timeout, "from there to the end of its body; then a 408");
  to.field("idle_timeout_ms", server.idle_timeout, "between two requests of one connection");
  to.field("write_timeout_ms", server.write_timeout, "a client that reads nothing for this long loses its request");
  to.field("heartbeat_ms", server.heartbeat, "between the comment lines of a stream without output");
  to.field("drain_timeout_ms", server.drain_timeout, "for running requests after SIGTERM");
  to.field("retry_after_s", server.retry_after_s, {0, 3600}, "Retry-After of a 429 or 503");
  to.field("log_prompts", server.log_prompts, "log prompts and answers; a line at the start says so");
}

void visit_engine(FieldVisitor& to, ServeConfig& config) {
  EngineOptions& engine = config.engine;
  to.section("engine");
  to.field("max_running", engine.max_running, {1, 1024}, "sequences in one step");
  to.field("max_waiting", engine.max_waiting, {1, 65'536},
           "beyond it a 429; each of the n choices of a request counts");
  to.field("prefill_chunk", engine.prefill_chunk, {1, 16'384}, "prompt rows per step");
  to.field("prefill_ms", engine.prefill_ms, {0, 60'000},
           "by which prompts may make a step longer while answers run and no request waits for a place; 0 = no limit");
  to.field("deadlines", engine.deadlines,
           "plan so that requests get the speed that their slo asks for; false: only measure it");
  to.field("prefix_cache", engine.prefix_cache, {0, 1},
           "share of each KV cache, the target's and the drafts', for prefixes that later prompts of the same API key "
           "may begin with; 0 = none");
  to.field("catch_up_chunk", engine.catch_up_chunk, {1, 16'384},
           "draft rows per step that recompute the draft's KV cache after a swap");
  to.section("speculation");
  to.field("enabled", config.speculation, "false: decode plainly");
  to.field("k", engine.k, {0, kMaxProposalNodes}, "drafted tokens per step; the most if adaptive is true");
  to.field("adaptive", engine.adaptive_k,
           "choose each sequence's k by its acceptance rate and the measured step times");
  to.field(
      "policy", engine.policy, kPolicyNames,
      "if adaptive is true, how sequences share the rows of a step: for the most tokens per second; by the AdaServe "
      "paper; or, for comparison, its two simpler forms, trees of a shape known before drafting, or plain decoding of "
      "as many sequences as the tightest target allows; on the CPU");
  to.field(
      "tree_width", engine.tree_width, {1, kMaxTreeWidth},
      "most choices of a draft for one place; others than the first are proposed where they pay; 1: chains; on the "
      "CPU");
  to.field("prompt_lookup", engine.prompt_lookup,
           "also propose what followed the same words earlier in the prompt or answer; without a draft, propose only "
           "that");
}

// False if a text is no tier, or if two have one name.
bool parse_tiers(const std::vector<std::string>& texts, std::vector<SloTier>& tiers) {
  tiers.clear();
  std::set<std::string> names;
  for (const std::string& text : texts) {
    const auto tier = parse_slo_tier(text);
    if (!tier || !names.insert(tier->name).second) return false;
    tiers.push_back(*tier);
  }
  return tiers.size() <= SloTier::kMostTiers;
}

void visit_slo(FieldVisitor& to, ServeConfig& config) {
  to.section("slo");
  std::vector<std::string> texts;
  std::transform(config.slo_tiers.begin(), config.slo_tiers.end(), std::back_inserter(texts), slo_tier_text);
  to.field("tiers", texts,
           R"(speeds that requests ask for by name, as service_tier: ["fast: tpot=40, ttft=500", "soon: e2e=20000"], )"
           "in milliseconds; with several keys, by those with slo=true, or slo_tiers=fast,soon");
  to.require(parse_tiers(texts, config.slo_tiers), "tiers",
             "must hold at most 16 speeds of different names, none auto or default, each like "
             "\"fast: tpot=40, ttft=500, e2e=4000\"");
  to.field(
      "admission", config.slo_admission, {{"serve", SloAdmission::kServe}, {"refuse", SloAdmission::kRefuse}},
      "a request for a speed that is not predicted to be had: serve it as fast as can be, or refuse it with a 503, "
      "slo_unattainable, that says what is predicted");
}

std::string governor_name(const GovernorChoice& choice) {
  if (choice.kind == GovernorKind::kPayback) return "payback";
  if (choice.kind == GovernorKind::kSlack) return "slack";
  std::ostringstream name;
  name << kStepsPerRequest << choice.steps_per_request;
  return name.str();
}

// False if the text names no governor.
bool parse_governor(const std::string& text, GovernorChoice& choice) {
  choice.kind = text == "payback" ? GovernorKind::kPayback
                : text == "slack" ? GovernorKind::kSlack
                                  : GovernorKind::kStepsPerRequest;
  if (choice.kind != GovernorKind::kStepsPerRequest) return true;
  std::istringstream number(text.starts_with(kStepsPerRequest) ? text.substr(kStepsPerRequest.size()) : "");
  return number >> choice.steps_per_request && number.eof() && choice.steps_per_request >= 0 &&
         choice.steps_per_request <= kMaxStepsPerRequest;
}

void visit_governor(FieldVisitor& to, GovernorChoice& choice) {
  to.field("latency_slack", choice.latency_slack, {0, 10},
           "slack: share by which training may lengthen p99 inter-token latency");
  to.field("steps_per_request", choice.steps_per_request, {0, kMaxStepsPerRequest},
           "payback, slack: most optimizer steps for each finished request of a topic; payback takes 1 to 3/8 while "
           "busy");
  to.field("max_share", choice.max_share, {0, 1}, "payback: share of time that learning may cost while requests run");
  to.field("payback_s", choice.payback_s, {1, 86'400},
           "payback: seconds of serving in which a gain must repay its cost");
  std::string name = governor_name(choice);
  to.field("governor", name,
           R"("payback": while its gain pays for it; "slack": while p99 latency holds; "steps_per_request:N": N )"
           "steps a request (0 to 64) whatever the load");
  to.require(parse_governor(name, choice), "governor",
             "must be \"payback\", \"slack\" or \"steps_per_request:N\" with N from 0 to 64");
}

void visit_trainer(FieldVisitor& to, TrainerOptions& trainer) {
  to.field("device", trainer.device, {{"cpu", TrainingDevice::kCpu}, {"cuda", TrainingDevice::kCuda}},
           "cuda: the first GPU, at a lower priority than serving; needs torch with all its packages");
  to.field("loss", trainer.loss.kind,
           {{"kl", LossKind::kForwardKl},
            {"rkl", LossKind::kReverseKl},
            {"jsd", LossKind::kJsd},
            {"tv", LossKind::kTotalVariation}},
           "forward KL, reverse KL, Jensen-Shannon, total variation");
  to.field("jsd_beta", trainer.loss.beta, {0.001, 0.999}, "loss jsd: the target's weight in the mixture");
  to.field("optimizer", trainer.optimizer, {{"adamw", OptimizerKind::kAdamW}, {"muon", OptimizerKind::kMuon}},
           "muon: Muon for the layers' matrices, AdamW for the rest");
  to.field("learning_rate", trainer.learning_rate, {0, 1}, "AdamW's");
  to.field("matrix_learning_rate", trainer.matrix_learning_rate, {0, 1}, "Muon's");
  to.field("weight_decay", trainer.weight_decay, {0, 1}, "of both optimizers");
  to.field("average_decay", trainer.average_decay, {0, 0.9999},
           "decay of a candidate's moving average of weights; 0 = the last step's");
  to.field("max_grad_norm", trainer.max_grad_norm, {1e-6, 1e6}, "larger gradients are scaled down to it");
  to.field("microbatch_tokens", trainer.microbatch_tokens, {1, 1 << 20}, "bounds the memory of a training pass");
}

void visit_learning(FieldVisitor& to, ServeConfig& config) {
  LearnerOptions& learner = config.learner;
  to.section("learning");
  to.field("enabled", config.learning, "false: serve the drafts without training them, and remember no answers");
  visit_governor(to, config.governor);
  to.field("cores", learner.cores, {1, 1024}, "most cores of learning while it trains; the engine has the others");
  visit_trainer(to, learner.trainer);
  to.field("batch_requests", learner.batch_requests, {1, 1024}, "answers per optimizer step");
  to.field("steps_between_candidates", learner.steps_between_candidates, {1, 1'000'000},
           "optimizer steps, up to 4 times as many after hundreds of them; the next candidate replaces one without a "
           "verdict");
  to.field("sampled_answers", learner.sampled_answers, {0, 64},
           "further answers to each prompt that the target samples to learn from, after a second without a request; "
           "0 = none");
  to.field("memory_bytes", learner.memory_bytes, {0, kMaxBytes},
           "of the trainers in memory, one a topic; the least recently used are kept on disk");
  to.duration("save_s", learner.save_us, kSecondUs, {1, 86'400}, "a crash loses at most so much training");
  to.field("past_answers_bytes", config.past_answers_bytes, {0, kMaxBytes},
           "of the past answers in memory that prompt_lookup searches too, 1.25 MiB for each topic and API key; the "
           "least recently used are dropped; 0 = none");
  to.field("queue_observations", learner.queue_observations, {1, 1 << 20}, "beyond it the oldest are dropped");
  to.field("seed", learner.seed, {0, kMaxInt64}, "of the draws of records for training batches");
}

void visit_canary(FieldVisitor& to, CanaryOptions& canary) {
  to.section("canary");
  to.field("margin", canary.margin, {0, 1}, "the acceptance rate must rise by more than this");
  to.field("min_requests", canary.min_requests, {2, 1'000'000},
           "least requests that a decision about a candidate needs");
  to.field(
      "odds_to_publish", canary.odds_to_publish, {1, 1e9},
      "odds that a candidate is better; more after exports that were not, less where its probabilities too are better");
  to.field("odds_to_refuse", canary.odds_to_refuse, {1, 1e9}, "odds that its gain is below the margin");
  to.field("odds_to_roll_back", canary.odds_to_roll_back, {1, 1e9},
           "odds that the live draft is worse than its predecessor or the base draft, as long as it serves");
}

void visit_retention(FieldVisitor& to, ServeConfig& config) {
  ReplayOptions& replay = config.replay;
  to.section("replay");
  to.field("max_bytes_per_topic", replay.max_bytes_per_topic, {1 << 16, kMaxBytes}, "of a topic's records on disk");
  to.field("segment_bytes", replay.segment_bytes, {1 << 12, ReplayOptions::kMaxSegmentBytes}, "of one file of records");
  to.duration("ttl_days", replay.ttl_us, kDayUs, {1, kDays.high}, "older records are deleted");
  to.field("recency_half_life_requests", replay.recency_half_life_requests, {1, 1e9},
           "so many newer records halve the probability that a record is drawn");
  to.field("heldout_share", replay.heldout_share, {0, 0.9}, "share of the records that is never trained on");
  to.section("drafts");
  to.field("keep_last", config.retention.keep_last, {1, 1'000'000}, "newest versions of each draft that are kept");
  to.duration("keep_days", config.retention.keep_younger_than_us, kDayUs, kDays, "younger versions are kept too");
  to.field("max_bytes", config.retention.max_bytes, {1 << 20, kMaxBytes}, "of all versions of all drafts");
  LedgerOptions& ledger = config.ledger;
  to.section("ledger");
  // One second is the most that promise 5 allows.
  to.duration("commit_interval_ms", ledger.commit_interval_us, 1000, {10, 1000}, "a crash loses at most so much");
  to.duration("keep_days", ledger.keep_requests_us, kDayUs, kDays, "older rows are deleted");
  to.field("max_bytes", ledger.max_bytes, {1 << 20, kMaxBytes}, "beyond it the oldest rows are deleted");
  to.field("queue_rows", ledger.queue_rows, {16, 1 << 20}, "rows that wait for the disk; further ones are dropped");
}

}  // namespace

void FieldVisitor::field(const char* key, std::filesystem::path& value, const char* help) {
  std::string name = value.string();
  text(key, name, help);
  value = name;
}

void FieldVisitor::field(const char* key, std::chrono::milliseconds& value, const char* help) {
  std::int64_t ms = value.count();
  integer(key, ms, {1, 86'400'000}, help);
  value = std::chrono::milliseconds(ms);
}

void FieldVisitor::duration(const char* key, std::int64_t& value_us, std::int64_t unit_us, Range<std::int64_t> range,
                            const char* help) {
  std::int64_t units = value_us / unit_us;
  integer(key, units, range, help);
  value_us = units * unit_us;
}

void FieldVisitor::topics_file(const char* key, std::filesystem::path& file, std::vector<Topic>& /*topics*/,
                               const char* help) {
  field(key, file, help);
}

void visit_fields(FieldVisitor& visitor, ServeConfig& config) {
  visit_model(visitor, config);
  visit_data(visitor, config);
  visit_topics(visitor, config);
  visit_log(visitor, config.log);
  visit_access(visitor, config);
  visit_sizes(visitor, config.server);
  visit_timeouts(visitor, config.server);
  visit_engine(visitor, config);
  visit_slo(visitor, config);
  visit_learning(visitor, config);
  visit_canary(visitor, config.learner.canary);
  visit_retention(visitor, config);
}

}  // namespace slip::cli
