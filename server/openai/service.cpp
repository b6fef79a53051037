// SPDX-License-Identifier: Apache-2.0
#include "server/openai/service.h"

#include <algorithm>

#include "common/clock.h"
#include "common/error.h"
#include "common/escape_controls.h"
#include "common/log.h"
#include "server/http/json_text.h"
#include "server/openai/answer_id.h"
#include "server/openai/call_texts.h"
#include "server/openai/lists.h"

namespace slip {
namespace {

// max_tokens, limited to the room that the prompt leaves in the context.
std::int32_t answer_length(const ServedModel& model, const CompletionCall& call, std::size_t prompt_tokens) {
  const auto context = static_cast<std::size_t>(model.max_positions);
  const std::size_t least = call.max_tokens == 0 ? 0 : 1;
  if (prompt_tokens + least > context) {
    throw Error(ErrorCode::kTooLarge,
                "this model's context is " + std::to_string(context) + " tokens, and the prompt has " +
                    std::to_string(prompt_tokens) + (least > 0 ? ", which leaves none for an answer" : ""),
                "shorten the prompt", call.endpoint == Endpoint::kChat ? "messages" : "prompt");
  }
  const auto left = static_cast<std::int32_t>(context - prompt_tokens);
  return std::min(call.max_tokens.value_or(left), left);
}

// More choices than may wait would be refused at every try, as if others were waiting.
void check_choices(std::size_t n, std::size_t max_waiting) {
  if (n <= max_waiting) return;
  throw Error(ErrorCode::kInvalidArgument,
              "the call asks for " + std::to_string(n) + " choices, more than may wait here (" +
                  std::to_string(max_waiting) + ")",
              "ask for fewer, in several calls", "n");
}

// Prompt scores are buffered until the answer is complete, and cost the engine almost nothing per token. So they need
// their own limit.
void check_scores(const std::vector<Request>& prepared, std::int32_t choices_of_each) {
  constexpr std::int64_t kMostScores = std::int64_t{1} << 18;
  std::int64_t scores = 0;
  for (const Request& request : prepared) {
    if (!request.score_prompt) return;
    scores += static_cast<std::int64_t>(request.prompt.size()) * choices_of_each * (1 + request.top_logprobs);
  }
  if (scores <= kMostScores) return;
  throw Error(ErrorCode::kInvalidArgument,
              "'logprobs' of these prompts are " + std::to_string(scores) +
                  " (tokens times n times 1 + logprobs), over " + std::to_string(kMostScores),
              "send fewer prompts at a time", "logprobs");
}

// An echo is written once for each choice, and no budget counts it. So it needs its own limit.
void check_echoes(const AnswerIdentity& who, std::size_t most_bytes) {
  std::size_t bytes = 0;
  for (const std::string& echo : who.echoes) bytes += echo.size() * static_cast<std::size_t>(who.choices_per_prompt);
  if (bytes <= most_bytes) return;
  throw Error(ErrorCode::kInvalidArgument,
              "'echo' adds " + std::to_string(bytes) + " bytes of prompts to this answer (their text times n), over " +
                  std::to_string(most_bytes) + ", server.max_answer_bytes",
              "ask for fewer choices, send fewer prompts at a time, or leave out 'echo'", "echo");
}

// Checks each choice after those before it, and all of them before one is submitted: the engine would begin those that
// came before a refusal.
void check_speeds(const std::vector<Request>& prepared, std::int32_t choices_of_each, const EngineCalls& engine) {
  if (!engine.check_speed) return;
  std::int32_t n_before = 0;
  for (const Request& request : prepared) {
    for (std::int32_t i = 0; i < choices_of_each; ++i) engine.check_speed(request, n_before++);
  }
}

// The i-th choice of a prompt, still without a sink. `who` has the requests of the call before it.
Request choice_of(const Request& prepared, std::int32_t i, const AnswerIdentity& who) {
  Request request = prepared;
  request.id = {new_request_number()};
  request.choice = static_cast<std::uint32_t>(i);
  request.call = who.requests.empty() ? request.id : who.requests.front();
  request.learn = prepared.learn && i == 0;  // near-copies would count as independent evidence for a new draft
  return request;
}

void log_prompts(const AnswerIdentity& who, const ServedModel& served, const std::vector<Request>& prepared) {
  for (const Request& request : prepared) log_info(who.id + " prompt: " + served.tokenizer->decode(request.prompt));
}

void check_model(const ServedModel& model, const std::optional<std::string>& wanted) {
  if (!wanted || std::find(model.names.begin(), model.names.end(), *wanted) != model.names.end()) return;
  throw Error(ErrorCode::kNotFound, "the model '" + escape_controls(wanted->substr(0, 128)) + "' does not exist",
              "this server has '" + model.names.front() + "'", "model");
}

// Bytes that parsing and tokenizing take per byte of a body. Measured with bodies of 1 to 4 MB and the demo model: 21
// to 33 times the body, depending on its text, and 112 MiB at most. A merge symbol has 12 bytes and may stand for one
// byte.
constexpr std::uint64_t kWorkOfAByte = 28;

// Memory reserved for the work on one large body at a time (WorkerPool::Lane::kSlow), so that later bodies cannot take
// it. In a small budget the largest body and answer have priority.
std::uint64_t kept_for_work(const ServerOptions& options) {
  const std::uint64_t largest = std::uint64_t{options.max_body_bytes} + options.max_answer_bytes;
  const std::uint64_t spare = options.max_buffered_bytes - std::min(options.max_buffered_bytes, largest);
  return std::min(kWorkOfAByte * options.max_body_bytes, spare / 2);
}

std::size_t for_bodies_and_answers(const ServerOptions& options) {
  return options.max_buffered_bytes - kept_for_work(options);
}

// At most one answer's size, so that the largest body always fits an idle service.
std::size_t kept_for_small(const ServerOptions& options) {
  return std::min<std::size_t>(for_bodies_and_answers(options) / 8, options.max_answer_bytes);
}

}  // namespace

Service::Service(const ServerOptions& options, Metrics& metrics)
    : options_(options),
      metrics_(metrics),
      memory_(for_bodies_and_answers(options), kept_for_small(options)),
      expose_acceptance_(options.expose_acceptance) {}

void Service::open(std::shared_ptr<const ServedModel> model) {
  model_.store(std::move(model), std::memory_order_release);
  phase_.store(Phase::kReady, std::memory_order_release);
  metrics_.set_ready(true);
}

void Service::drain() {
  phase_.store(Phase::kDraining, std::memory_order_release);
  metrics_.set_ready(false);
}

std::optional<std::string> Service::not_ready() const {
  switch (phase_.load(std::memory_order_acquire)) {
    case Phase::kLoading:
      return "loading the model";
    case Phase::kDraining:
      return "draining: the server is shutting down";
    case Phase::kReady:
      break;
  }
  return std::nullopt;
}

std::shared_ptr<const ServedModel> Service::model() const {
  if (const auto reason = not_ready()) throw Error(ErrorCode::kUnavailable, "the server is " + *reason);
  return model_.load(std::memory_order_acquire);
}

Request Service::prepare(const ServedModel& served, const CompletionCall& call, const Caller& caller,
                         const Route& route, std::vector<std::int32_t> prompt) const {
  Request request;
  request.tenant = caller.tenant;
  request.name = caller.request_id;
  request.prompt = std::move(prompt);
  request.max_tokens = answer_length(served, call, request.prompt.size());
  request.route.topic = route.topic;
  request.route.source = route.source;
  if (!served.live_drafts.empty()) {
    request.draft = served.live_drafts.at(request.route.topic.value);
    request.route.draft = request.draft->id();
  }
  request.sampling = call.sampling;
  if (!call.ignore_eos) request.end_ids = served.end_ids;
  request.end_ids.insert(request.end_ids.end(), call.stop_token_ids.begin(), call.stop_token_ids.end());
  request.stop_strings = call.stop;
  request.prediction = predicted_tokens(served, call);
  if (call.k) request.k = std::min(*call.k, served.k);
  request.tree = call.tree;
  request.propose_by = call.propose_by;
  request.slo = call.slo;
  request.slo_tier = call.slo_tier;
  request.priority = call.priority;
  if (served.past_answers) request.past_answers = served.past_answers->of(caller.tenant, route.topic);
  request.keep_stop = call.keep_stop;
  if (call.endpoint == Endpoint::kCompletion) {
    request.answer_start = StreamDecoder::behind(*served.tokenizer, request.prompt);
  }
  request.top_logprobs = call.top_logprobs;
  request.score_prompt = call.echo && call.top_logprobs >= 0;
  request.learn = call.learn;
  return request;
}

AnswerIdentity Service::identify(const ServedModel& served, const CompletionCall& call, const Request& first) const {
  AnswerIdentity who;
  who.endpoint = call.endpoint;
  who.choices_per_prompt = call.n;
  if (call.echo) {
    for (const Prompt& prompt : call.prompts) who.echoes.push_back(echo_of(served, prompt));
  }
  who.model = call.model.value_or(served.names.front());
  who.system_fingerprint = served.system_fingerprint;
  who.service_tier = call.service_tier;
  if (call.sampling.seed) who.seed = static_cast<std::int64_t>(*call.sampling.seed);
  who.created_s = wall_us() / 1'000'000;
  who.topic = (*served.router->topics())[first.route.topic].name;
  who.topic_source = first.route.source;
  if (first.draft && served.k > 0) who.draft = first.draft->name();
  who.stream = call.stream;
  who.include_usage = call.include_usage;
  who.logprobs = call.top_logprobs >= 0;
  who.prompt_scored = first.score_prompt;
  who.expose_acceptance = expose_acceptance_.load(std::memory_order_relaxed) != ExposeAcceptance::kNone;
  who.tokenizer = served.tokenizer;
  return who;
}

Admission Service::admit(Endpoint endpoint, std::string_view body, const CallHeaders& headers, const Caller& caller,
                         const SinkMaker& make_sink, NewSchemas new_schemas) {
  Admission admission;
  AnswerIdentity& who = admission.who;
  std::shared_ptr<const ServedModel> served;
  try {
    served = model();
    CompletionCall call = parse_request(endpoint, body, headers, served->slo_tiers);
    admission.must_compile = new_schemas == NewSchemas::kReturn && !grammars_.is_ready(call.format);
    if (admission.must_compile) return admission;
    check_model(*served, call.model);
    call.sampling.grammar = grammars_.grammar(call.format);
    const std::string asked = asked_text(*served, call);
    const Route route = served->router->route(call.topic_label, asked);
    std::vector<Request> prepared;
    for (auto& prompt : tokenise(*served, call)) {
      prepared.push_back(prepare(*served, call, caller, route, std::move(prompt)));
    }
    check_scores(prepared, call.n);
    const std::size_t n_choices = prepared.size() * static_cast<std::size_t>(call.n);
    check_choices(n_choices, served->max_waiting);
    check_speeds(prepared, call.n, served->engine);
    who = identify(*served, call, prepared.front());
    check_echoes(who, options_.max_answer_bytes);
    for (const Request& of_prompt : prepared) {
      if (call.continuous_usage) who.prompt_tokens.push_back(static_cast<std::int32_t>(of_prompt.prompt.size()));
    }
    who.requests.reserve(n_choices);  // first, so that every submitted request is recorded
    for (const Request& of_prompt : prepared) {
      for (std::int32_t i = 0; i < call.n; ++i) {
        Request request = choice_of(of_prompt, i, who);
        request.sink = make_sink();
        const RequestId id = request.id;
        served->engine.submit(std::move(request));
        who.requests.push_back(id);
      }
    }
    if (route.source == TopicSource::kLabel && call.learn) served->router->learn(route.topic, asked);
    who.id = http_id(call.endpoint, who.requests.front());
    if (options_.log_prompts) log_prompts(who, *served, prepared);
  } catch (...) {
    for (const RequestId id : who.requests) served->engine.cancel(id);
    who = {};
    admission.refusal = failure_reply(options_.retry_after_s);
  }
  return admission;
}

void Service::cancel(const AnswerIdentity& answer) {
  const auto served = model_.load(std::memory_order_acquire);
  if (!served) return;
  for (const RequestId id : answer.requests) served->engine.cancel(id);
}

void Service::purge(PurgeOrder order, std::function<void(PurgeResult)> done) const {
  const auto served = model();
  if (!served->purge) throw Error(ErrorCode::kUnsupported, "this server keeps nothing of requests");
  served->purge(std::move(order), std::move(done));
}

Reply Service::tokenize(const TokenizeCall& call) const {
  const auto served = model();
  check_model(*served, call.model);
  auto ids = call.prompt ? served->tokenizer->encode(*call.prompt, SpecialTokens::kParse)
                         : render(*served, call.messages, call.add_generation_prompt);
  if (call.add_special_tokens) ids = served->tokenizer->with_special_tokens(std::move(ids));
  JsonText json(options_.max_answer_bytes, "server.max_answer_bytes");
  json.begin_object();
  json.member("count", ids.size());
  json.member("max_model_len", served->max_positions);
  json.key("tokens");
  json.begin_array();
  for (const std::int32_t id : ids) json.value(id);
  json.end_array();
  if (call.return_token_strs) {
    json.key("token_strs");
    json.begin_array();
    for (const std::int32_t id : ids) json.value(served->tokenizer->token_content(id));
    json.end_array();
  }
  json.end_object();
  return json_reply(std::move(json).take());
}

Reply Service::detokenize(const DetokenizeCall& call) const {
  const auto served = model();
  check_model(*served, call.model);
  JsonText json(options_.max_answer_bytes, "server.max_answer_bytes");
  json.begin_object();
  json.member("prompt", text_with_specials(served->tokenizer, call.tokens));
  json.end_object();
  return json_reply(std::move(json).take());
}

Reply Service::models() const {
  return model_list(model_.load(std::memory_order_acquire).get());
}

Reply Service::model_named(const std::string& name) const {
  const auto served = model();
  check_model(*served, name);
  return model_reply(*served, name);
}

Reply Service::drafts() const {
  const bool all = expose_acceptance_.load(std::memory_order_relaxed) == ExposeAcceptance::kAll;
  return draft_list(model_.load(std::memory_order_acquire).get(), metrics_, all);
}

Reply Service::topics() const {
  return topic_list(model_.load(std::memory_order_acquire).get());
}

}  // namespace slip
