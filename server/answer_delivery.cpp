// SPDX-License-Identifier: Apache-2.0
#include "server/answer_delivery.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "common/log.h"
#include "server/openai/routes.h"

namespace slip {

namespace asio = boost::asio;
using asio::awaitable;

namespace {

Error no_memory_fault() {
  AnswerChannel::Taken lost;
  lost.overflowed = lost.no_memory = true;
  return *fault_of(lost, /*streamed=*/false);
}

}  // namespace

AnswerDelivery::AnswerDelivery(Wire& wire, Responder& responder, Service& service)
    : responder_(responder),
      service_(service),
      executor_(wire.socket().get_executor()),
      waker_(std::make_shared<Waker>(executor_)),
      peer_(wire.socket(), service.options().heartbeat) {}

SinkMaker AnswerDelivery::sink_maker() {
  return [self = shared_from_this()] {
    return self->channels_.emplace_back(std::make_shared<AnswerChannel>(
        self->options().max_answer_bytes, [waker = self->waker_] { Waker::notify(waker); },
        MemoryBudget::Reservation(self->service_.memory())));
  };
}

awaitable<AnswerDelivery::Next> AnswerDelivery::run(AnswerIdentity who, std::shared_ptr<void> connection) {
  who_ = std::move(who);
  try {
    return deliver_or_cancel(std::move(connection));
  } catch (const std::bad_alloc&) {  // no memory for the coroutine
    service_.cancel(who_);
    throw;
  }
}

awaitable<AnswerDelivery::Next> AnswerDelivery::deliver_or_cancel(std::shared_ptr<void> connection) {
  std::exception_ptr fault;
  auto next = Next::kClose;
  try {
    next = co_await deliver(std::move(connection));
  } catch (const std::exception&) {
    fault = std::current_exception();
  }
  peer_.stop();
  if (fault) {
    service_.cancel(who_);
    co_await say_exhausted();
    std::rethrow_exception(fault);
  }
  co_return next;
}

std::string AnswerDelivery::text_of_exhaustion() const {
  const std::string event = error_event(no_memory_fault());
  return responder_.exchange().http_1_0 ? event : chunk_text(event) + std::string(kLastChunk);
}

// Ends a stream that has begun with an error event. A stream that has not begun is answered by the caller.
awaitable<void> AnswerDelivery::say_exhausted() {
  const Exchange& exchange = responder_.exchange();
  if (!who_.stream || !exchange.answer_begun || exchange.in_mid_send) co_return;
  try {
    co_await responder_.send(std::move(exhausted_text_));
  } catch (const std::exception&) {  // no memory for that either: the client sees a stream that was cut off
  }
}

awaitable<AnswerDelivery::Next> AnswerDelivery::deliver(std::shared_ptr<void> connection) {
  choices_.resize(channels_.size());
  RequestLog& log = responder_.exchange().log;
  log.answer = who_.id;
  log.topic = who_.topic;
  log.draft = who_.draft;
  if (who_.stream) exhausted_text_ = text_of_exhaustion();
  asio::co_spawn(
      executor_, [self = shared_from_this(), connection]() -> awaitable<void> { co_await self->watch(); },
      asio::detached);
  // Not a ?: expression: GCC 12 loses exceptions of an awaited branch of ?:.
  if (who_.stream) co_return co_await stream();
  co_return co_await collect();
}

// Detects a client that leaves between writes, or during a write that makes no progress.
awaitable<void> AnswerDelivery::watch() {
  // Not awaited in the loop's condition: GCC 12 would pass another object.
  while (true) {
    const bool changed = co_await peer_.wait_for_change();
    if (!changed) co_return;
    Waker::notify(waker_);
    if (peer_.gone()) service_.cancel(who_);
  }
}

awaitable<AnswerDelivery::Next> AnswerDelivery::collect() {
  const auto send_probe = [this] { return probe(); };
  while (true) {
    std::optional<Error> fault;
    bool no_room = false;
    const std::size_t bytes_before = room_.bytes();
    for (std::size_t i = 0; i < channels_.size(); ++i) {
      auto taken = channels_[i]->take();
      no_room |= taken.no_memory;
      gather(who_, i, taken, /*kept=*/true, choices_[i]);
      room_.absorb(std::move(taken.room));
      taken.overflowed |= choices_[i].part.text.size() > options().max_answer_bytes;
      if (taken.finished) responder_.exchange().log.add(*taken.finished);
      if (!fault) fault = fault_of(taken, /*streamed=*/false);
    }
    if (peer_.gone()) {
      on_client_gone();
      co_return Next::kClose;
    }
    no_room |= takes_room_of_small(bytes_before);
    if (no_room && !fault) fault = no_memory_fault();
    if (no_room && room_.bytes() > service_.memory().most_at_once() / 2) fault = answer_too_large(room_.bytes());
    if (fault) co_return co_await give_up(*fault);
    if (all_finished(choices_)) {
      log_answers();
      Reply whole;
      whole.body = whole_answer(who_, choices_);
      choices_.clear();
      co_return co_await responder_.reply(std::move(whole), std::move(room_));
    }
    const bool left = co_await peer_.has_left(send_probe);
    if (left) {
      on_client_gone();
      co_return Next::kClose;
    }
    co_await waker_->wait(options().heartbeat);
  }
}

// Output that comes in small parts may use what the budget keeps for small requests. The sum of many parts may not.
bool AnswerDelivery::takes_room_of_small(std::size_t bytes_before) const {
  const MemoryBudget& memory = service_.memory();
  const bool has_grown = room_.bytes() > bytes_before;
  return has_grown && room_.bytes() > MemoryBudget::kSmallBytes && memory.used() > memory.most_at_once();
}

// If one choice fails, all of the answer's choices are cancelled. Their room is free for others before the client reads
// the error.
awaitable<AnswerDelivery::Next> AnswerDelivery::give_up(const Error& why) {
  if (!all_finished(choices_)) service_.cancel(who_);
  choices_.clear();
  room_.release();
  co_return co_await responder_.reply(error_reply(why, options().retry_after_s));
}

void AnswerDelivery::log_answers() const {
  if (!options().log_prompts) return;
  for (const Choice& choice : choices_) log_info(who_.id + " answer: " + choice.part.text);
}

awaitable<AnswerDelivery::Next> AnswerDelivery::stream() {
  const auto send_probe = [this] { return probe(); };
  const Exchange& exchange = responder_.exchange();
  bool left = false;
  while (true) {
    if (!left && !peer_.gone()) {
      StreamOutput output = take_output();
      if (output.refusal) {
        co_await responder_.reply(std::move(*output.refusal));
      } else if (!output.bytes.empty()) {
        const bool sent = co_await responder_.send(std::move(output.bytes));
        left = !sent;
      }
    }
    if (left || peer_.gone()) {
      on_client_gone();
      co_return Next::kClose;
    }
    if (all_finished(choices_)) {
      co_return !broken_ && exchange.keep_alive && !exchange.http_1_0 ? Next::kGoOn : Next::kClose;
    }
    if (broken_) {
      service_.cancel(who_);
      co_return Next::kClose;
    }
    const bool woken = co_await waker_->wait(options().heartbeat);
    if (woken) {
      left = co_await peer_.has_left(send_probe);
    } else {
      const bool sent = co_await send_heartbeat();
      left = !sent;
    }
  }
}

// Status, headers and the opening events are sent with the first token; until then an error can still set the status.
std::string AnswerDelivery::stream_opening() {
  std::string opening = opening_events(who_);
  if (!responder_.exchange().http_1_0 && !opening.empty()) opening = chunk_text(opening);
  return responder_.stream_head() + opening;
}

awaitable<bool> AnswerDelivery::send_heartbeat() {
  std::string bytes = std::exchange(head_sent_, true) ? std::string() : stream_opening();
  bytes += responder_.exchange().http_1_0 ? std::string(kHeartbeat) : chunk_text(kHeartbeat);
  co_return co_await responder_.send(std::move(bytes));
}

// An interim answer is only valid before the answer's own head, and HTTP/1.0 has none.
awaitable<bool> AnswerDelivery::probe() {
  if (who_.stream && (head_sent_ || responder_.exchange().http_1_0)) co_return co_await send_heartbeat();
  co_return co_await responder_.send_continue();
}

// The new output of all choices, for one write.
AnswerDelivery::StreamOutput AnswerDelivery::take_output() {
  StreamOutput output;
  std::string events;
  bool came = false;
  for (std::size_t i = 0; i < channels_.size() && !broken_; ++i) {
    auto taken = channels_[i]->take();
    if (taken.empty()) continue;
    output.room.absorb(std::move(taken.room));
    gather(who_, i, taken, /*kept=*/false, choices_[i]);
    if (taken.finished) responder_.exchange().log.add(*taken.finished);
    const auto fault = fault_of(taken, /*streamed=*/true);
    broken_ = fault.has_value();
    if (fault && !came && !head_sent_) {
      responder_.exchange().keep_alive = false;
      output.refusal = error_reply(*fault, options().retry_after_s);
      return output;
    }
    came = true;
    events += stream_text(who_, i, taken, choices_);
    if (options().log_prompts) choices_[i].part.text += taken.part.text;
  }
  if (!came) return output;
  const bool ends = broken_ || all_finished(choices_);
  if (ends) log_answers();
  const bool chunked = !responder_.exchange().http_1_0;
  if (!std::exchange(head_sent_, true)) output.bytes = stream_opening();
  if (!events.empty()) output.bytes += chunked ? chunk_text(events) : events;
  if (chunked && ends) output.bytes += kLastChunk;
  return output;
}

void AnswerDelivery::on_client_gone() {
  service_.cancel(who_);
  service_.metrics().on_client_gone();
  RequestLog& log = responder_.exchange().log;
  if (log.status == 0) responder_.unanswered();
  log.client_gone = true;
}

}  // namespace slip
