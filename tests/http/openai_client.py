#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The unmodified `openai` client against the built service, as its users would call it. Development only: it needs the
`openai` package in the Python that runs it (pydantic comes with it), which neither the build nor CI installs.

    python tests/http/openai_client.py build/slipstream checkpoints/demo/target checkpoints/demo/draft
"""
import datetime
import enum
import json
import sys
import tempfile
import threading
import time
import typing
import uuid

import openai
import pydantic

from service import Service

FAILURES = []


def check(name, condition, detail=""):
    print(f"{'ok  ' if condition else 'FAIL'} {name}{'' if condition else f': {detail}'}", flush=True)
    if not condition:
        FAILURES.append(name)


MESSAGES = [{"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "What is 12 plus 30? "}, {"type": "text", "text": "Explain."}]}]

# What the embedded target answers greedily without ever coming to an end.
ENDLESS = [{"role": "user", "content": "Write a SQL query that counts the rows of table users."}]


def chat(client):
    model = client.models.list().data[0].id
    answer = client.chat.completions.create(model=model, messages=MESSAGES, max_tokens=40, temperature=0,
                                            metadata={"topic": "math"}, user="tester", store=True)
    check("chat answers", answer.choices[0].message.role == "assistant" and len(answer.choices[0].message.content) > 0, answer)
    check("chat usage adds up", answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens)
    details = answer.usage.completion_tokens_details
    figures = answer.model_extra["metrics"]["speculative_decoding"]
    check("usage details are the draft's", details.accepted_prediction_tokens == figures["num_accepted_draft_tokens"] and
          details.rejected_prediction_tokens == figures["num_draft_tokens"] - figures["num_accepted_draft_tokens"], figures)
    check("topic is routed", figures["topic"] == "math" and figures["draft"] == "math", figures)
    follow = MESSAGES + [answer.choices[0].message, {"role": "user", "content": "And 5 more?"}]
    again = client.chat.completions.create(model=model, messages=follow, max_completion_tokens=10, temperature=0)
    check("an answer's message can be sent back", again.usage.completion_tokens <= 10)
    reason, n_tokens = answer.choices[0].finish_reason, answer.usage.completion_tokens
    check("a cut answer says length, another one stop", reason == "stop" or (reason == "length" and n_tokens == 40),
          (reason, n_tokens))
    seeded = [client.chat.completions.create(model=model, messages=MESSAGES, max_tokens=30, temperature=1, top_p=0.9, seed=5)
              for _ in range(2)]
    texts = [one.choices[0].message.content for one in seeded]
    check("a seed repeats its answer", texts[0] == texts[1], texts)
    check("a seed comes back", seeded[0].model_extra["metrics"]["seed"] == 5 and "seed" not in answer.model_extra["metrics"], seeded[0])
    check("all name one system", answer.system_fingerprint.startswith("fp_") and
          {one.system_fingerprint for one in seeded} == {answer.system_fingerprint}, answer.system_fingerprint)
    return model, answer.choices[0].message.content


def stream(client, model, whole):
    chunks = list(client.chat.completions.create(model=model, messages=MESSAGES, max_tokens=40, temperature=0, stream=True,
                                                 stream_options={"include_usage": True}, extra_headers={"X-Slipstream-Topic": "math"}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    check("the stream is the whole answer", text == whole, (text, whole))
    check("the first chunk has the role", chunks[0].choices[0].delta.role == "assistant")
    reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices and chunk.choices[0].finish_reason]
    check("one finish reason", len(reasons) == 1, reasons)
    check("usage in a last chunk without choices", chunks[-1].choices == [] and chunks[-1].usage.completion_tokens > 0)
    check("every chunk names the system", len({chunk.system_fingerprint for chunk in chunks}) == 1 and
          chunks[0].system_fingerprint.startswith("fp_"), chunks[0])
    check("no usage before", all(chunk.usage is None for chunk in chunks[:-1]))
    check("metrics in the last chunk", chunks[-1].model_extra["metrics"]["speculative_decoding"]["num_spec_steps"] > 0)


def stops(client, model, whole):
    """Every stop string that the answer contains, most of which begin inside one token and end in another."""
    wrong, tried = [], 0
    for start in range(2, min(len(whole) - 6, 60), 3):
        stop = whole[start:start + 5]
        cut = whole[:whole.find(stop)]
        chunks = list(client.chat.completions.create(model=model, messages=MESSAGES, max_tokens=40, temperature=0, stream=True,
                                                     stop=["never there", stop]))
        deltas = [chunk.choices[0].delta.content or "" for chunk in chunks]
        reason = next(chunk.choices[0].finish_reason for chunk in chunks if chunk.choices[0].finish_reason)
        plain = client.chat.completions.create(model=model, messages=MESSAGES, max_tokens=40, temperature=0, stop=stop)
        tried += 1
        if "".join(deltas) != cut or reason != "stop" or plain.choices[0].message.content != cut:
            wrong.append((stop, cut, deltas, plain.choices[0].message.content))
    check(f"{tried} stop strings cut before them, across chunks", tried > 3 and not wrong, wrong[:2])


def logprobs(client, model):
    answer = client.chat.completions.create(model=model, messages=MESSAGES, max_tokens=8, temperature=0, logprobs=True, top_logprobs=3)
    content = answer.choices[0].logprobs.content
    check("logprobs come with their alternatives", 0 < len(content) <= 8 and
          all(len(token.top_logprobs) == 3 and token.logprob <= 0 for token in content), content[:1])
    check("greedy tokens are the best ones", all(abs(token.logprob - token.top_logprobs[0].logprob) < 1e-6 for token in content))
    completion = client.completions.create(model=model, prompt="SELECT", max_tokens=5, temperature=0, logprobs=2)
    check("completions answer with logprobs", len(completion.choices[0].logprobs.token_logprobs) > 0)


def scoring(client, model):
    text = "SELECT name FROM users WHERE id = 1;"
    score = lambda **fields: client.completions.create(**({"model": model, "prompt": text, "temperature": 0, "echo": True,
                                                           "logprobs": 2} | fields))
    alone, answered = score(max_tokens=0).choices[0], score(max_tokens=6).choices[0]
    scores = alone.logprobs
    n = len(scores.tokens)
    check("a text is scored and nothing answered", alone.text == text and alone.finish_reason == "length" and n > 5 and
          scores.token_logprobs[0] is None and all(one < 0 for one in scores.token_logprobs[1:]), scores)
    check("offsets cut the text into its tokens", [text[start:end] for start, end in zip(scores.text_offset, scores.text_offset[1:] + [len(text)])]
          == scores.tokens, scores)
    check("an answer after it changes no score", answered.logprobs.token_logprobs[:n] == scores.token_logprobs and
          answered.logprobs.text_offset[n] == len(text) and answered.text.startswith(text), answered.logprobs)
    prefix = client.completions.create(model=model, prompt=text[:scores.text_offset[4]], max_tokens=1, temperature=0, logprobs=5)
    known = prefix.choices[0].logprobs.top_logprobs[0]
    check("a score is what the target says after the tokens before", all(known[token] == value for token, value in
                                                                        scores.top_logprobs[4].items() if token in known) and
          set(scores.top_logprobs[4]) & set(known), (known, scores.top_logprobs[4]))
    streamed = [None]
    for chunk in score(max_tokens=6, stream=True):
        if chunk.choices and chunk.choices[0].logprobs:
            streamed += chunk.choices[0].logprobs.token_logprobs
    check("streams bring the same scores", streamed[1:] == answered.logprobs.token_logprobs, streamed)
    prompts = client.completions.create(model=model, prompt=[text, "UPDATE"], max_tokens=0, echo=True, logprobs=0)
    check("several texts at once", [choice.text for choice in prompts.choices] == [text, "UPDATE"] and
          prompts.choices[0].logprobs.token_logprobs == scores.token_logprobs, prompts)


def choices(client, model):
    def ask(**fields):
        return client.chat.completions.create(**({"model": model, "messages": MESSAGES, "max_tokens": 12, "temperature": 1} | fields))

    three = ask(n=3, seed=7)
    texts = [choice.message.content for choice in three.choices]
    check("n gives that many choices", [choice.index for choice in three.choices] == [0, 1, 2] and len(set(texts)) > 1, texts)
    check("choices repeat with their seed", [choice.message.content for choice in ask(n=3, seed=7).choices] == texts)
    check("the first is the one without n", ask(seed=7).choices[0].message.content == texts[0])
    one = ask(seed=7).usage
    check("usage sums over choices, the prompt once", three.usage.prompt_tokens == one.prompt_tokens and
          three.usage.completion_tokens > one.completion_tokens, three.usage)
    streamed = ["", "", ""]
    reasons = []
    chunks = list(ask(n=3, seed=7, stream=True, stream_options={"include_usage": True}))
    for chunk in chunks[:-1]:
        choice = chunk.choices[0]
        streamed[choice.index] += choice.delta.content or ""
        if choice.finish_reason:
            reasons.append(choice.index)
    check("streamed choices are the same ones", streamed == texts, (streamed, texts))
    check("each ends once, then comes the usage", sorted(reasons) == [0, 1, 2] and chunks[-1].choices == [] and
          chunks[-1].usage.total_tokens == three.usage.total_tokens, chunks[-1])
    several = client.completions.create(model=model, prompt=["SELECT", "UPDATE"], n=2, best_of=2, max_tokens=4, temperature=0, echo=True)
    check("prompts times n, each after its echo", [choice.text[:6] for choice in several.choices] == ["SELECT"] * 2 + ["UPDATE"] * 2,
          several.choices)


def parameters(client, model):
    def ask(**fields):
        answer = client.chat.completions.create(**({"model": model, "messages": ENDLESS, "max_tokens": 40, "temperature": 0,
                                                    "logprobs": True, "top_logprobs": 1} | fields))
        return answer, [token.token for token in answer.choices[0].logprobs.content]

    _, plain = ask()
    first = client.completions.create(model=model, prompt="SELECT", max_tokens=1, temperature=0, logprobs=1)
    best = first.choices[0].logprobs.tokens[0]
    vocabulary = client.completions.create(model=model, prompt="SELECT", max_tokens=1, temperature=0, logit_bias={"300": 100}, logprobs=5)
    chosen = vocabulary.choices[0].logprobs
    check("logit_bias makes a token", chosen.tokens[0] != best and chosen.tokens[0] in chosen.top_logprobs[0], (best, chosen))
    _, forbidden = ask(extra_body={"stop_token_ids": []}, logit_bias={str(i): -100 for i in range(1000)})
    check("logit_bias takes a thousand tokens", forbidden != plain)
    distinct = lambda tokens: len(set(tokens)) / max(1, len(tokens))
    for name in ("frequency_penalty", "presence_penalty"):
        _, penalised = ask(**{name: 2})
        check(f"{name} makes the answer less repetitive", distinct(penalised) > distinct(plain), (distinct(plain), distinct(penalised)))
        check(f"{name} 0 changes nothing", ask(**{name: 0})[1] == plain)
    _, repeated = ask(extra_body={"repetition_penalty": 1.5})
    check("repetition_penalty changes the answer", repeated != plain)
    sampled = [ask(temperature=1, seed=3, extra_body={"min_p": min_p})[1] for min_p in (0, 1)]
    check("min_p of 1 is greedy", sampled[1] == plain and sampled[0] != plain, sampled)
    long, tokens = ask(messages=MESSAGES, extra_body={"min_tokens": 40})
    check("min_tokens keeps the answer going", long.usage.completion_tokens == 40 and long.choices[0].finish_reason == "length", long.usage)
    stop = "".join(plain)[4:9]
    kept, _ = ask(stop=stop, extra_body={"include_stop_str_in_output": True})
    check("the stop string may be kept", kept.choices[0].message.content.endswith(stop), kept.choices[0].message.content)


def habits(service, client, model):
    """What clients send although it changes nothing, and what they mean by values that are none."""
    def ask(**fields):
        return client.chat.completions.create(**({"model": model, "messages": MESSAGES, "max_tokens": 20, "temperature": 0} | fields))

    plain = ask().choices[0].message.content
    hints = ask(reasoning_effort="low", verbosity="low", prompt_cache_key="k", safety_identifier="u", tool_choice="auto",
                extra_body={"prompt_cache_retention": "24h", "skip_special_tokens": True, "use_beam_search": False,
                            "length_penalty": 1, "priority": -3, "metadata": {"number": 7, "list": [1]}})
    check("hints and neutral values change nothing", hints.choices[0].message.content == plain, (hints, plain))
    marked = [MESSAGES[0] | {"id": "msg_1"}, MESSAGES[1] | {"name": "anna", "content": [part | {"cache_control": {"type": "ephemeral"}}
                                                                                      for part in MESSAGES[1]["content"]]}]
    check("names, ids and cache marks change nothing", ask(messages=marked).choices[0].message.content == plain)
    turns = MESSAGES + [{"role": "assistant", "content": "42", "tool_calls": [], "reasoning_content": ""}, MESSAGES[1]]
    check("a message with nothing in its other fields is taken", ask(messages=turns).usage.completion_tokens > 0)
    check("whole floats are integers", ask(max_tokens=20.0, seed=7.0, n=1.0).choices[0].message.content == plain)
    check("top_p 0 is greedy", ask(temperature=1, top_p=0).choices[0].message.content == plain)
    lengths = [ask(max_tokens=max_tokens, extra_body={"ignore_eos": True}).usage.total_tokens for max_tokens in (-1, 100_000)]
    context = client.models.list().data[0].model_extra["max_model_len"]
    check("max_tokens -1 or beyond the context is what is left", lengths == [context] * 2, (lengths, context))
    many = ask(n=128, temperature=1, max_tokens=2)
    check("128 choices", [choice.index for choice in many.choices] == list(range(128)), many.usage)
    chunks = list(ask(stream=True, stream_options={"include_usage": True, "continuous_usage_stats": True}))
    counts = [chunk.usage.completion_tokens for chunk in chunks]
    check("each chunk counts its tokens", counts == sorted(counts) and counts[0] == 0 < counts[-1], counts)
    for path in ("/v1/models/", "/health", "/ping"):
        check(f"{path} answers", service.ask(path).startswith("{"))


# What people's models hold, so that the schema has what pydantic writes of its own: $defs and $ref, anyOf with null, const,
# discriminated unions, formats, titles, defaults and examples.
class Size(str, enum.Enum):
    small = "small"
    large = "large"


class Book(pydantic.BaseModel):
    """A docstring becomes a description."""
    kind: typing.Literal["book"]
    pages: int = pydantic.Field(ge=1, le=2000, description="how many", examples=[3])


class Tool(pydantic.BaseModel):
    kind: typing.Literal["tool"]
    sharp: bool


class Part(pydantic.BaseModel):
    number: int
    parts: list["Part"] = pydantic.Field(max_length=1)


class Article(pydantic.BaseModel):
    name: str = pydantic.Field(min_length=1, max_length=12)
    size: Size
    thing: typing.Union[Book, Tool] = pydantic.Field(discriminator="kind")
    code: str = pydantic.Field(pattern="^[A-Z]{2}-[0-9]{3}$")
    share: float = pydantic.Field(gt=0, lt=1, default=0.5)
    note: typing.Optional[typing.Annotated[str, pydantic.Field(max_length=8)]] = None
    made: typing.Optional[datetime.date] = None
    price: float = pydantic.Field(ge=0, le=100, multiple_of=0.25)
    page: pydantic.AnyUrl
    pair: tuple[bool, Size]
    whole: Part
    id: uuid.UUID


def structured(client, model):
    def ask(create=client.chat.completions.create, **fields):
        # The penalty keeps a small model from filling the gaps of a document with all the blanks it may write.
        return create(**({"model": model, "messages": MESSAGES, "max_tokens": 400, "temperature": 0.9, "seed": 11,
                          "frequency_penalty": 0.4} | fields))

    def strict(model_type):
        return openai.lib._pydantic.to_strict_json_schema(model_type)

    def schema_format(schema, **fields):
        return {"type": "json_schema", "json_schema": {"name": "article", "schema": schema} | fields}

    def valid(text, model_type=Article):
        try:
            model_type.model_validate_json(text)
            return True
        except pydantic.ValidationError:
            return False

    short = {"type": "object", "properties": {"z": {"type": "integer", "maximum": 99, "minimum": 0}, "a": {"enum": ["x", "y"]}},
             "required": ["z", "a"], "additionalProperties": False}
    objects = [ask(seed=seed, response_format={"type": "json_object"}).choices[0] for seed in range(8)]
    whole = [json.loads(choice.message.content) for choice in objects if choice.finish_reason == "stop"]
    check(f"json_object: {len(whole)} whole answers are objects",
          whole and all(isinstance(one, dict) for one in whole), objects)
    answers = [ask(seed=seed, response_format=schema_format(short, strict=True)).choices[0] for seed in range(8)]
    texts = [choice.message.content for choice in answers if choice.finish_reason == "stop"]
    check(f"json_schema: {len(texts)} whole answers hold the schema's keys in order",
          len(texts) > 4 and all(list(json.loads(text)) == ["z", "a"] for text in texts), answers)

    # A small model, whose bits differ between processors, does not end each document within the limit.
    def ends(seed, schema):
        return ask(seed=seed, response_format=schema_format(schema)).choices[0].finish_reason == "stop"
    schemas = {"pydantic's own schema": Article.model_json_schema(), "its strict schema": strict(Article)}
    seed = next(seed for seed in range(11, 100) if all(ends(seed, schema) for schema in schemas.values()))

    for name, schema in schemas.items():
        both = ask(n=2, seed=seed, response_format=schema_format(schema))
        whole = [choice for choice in both.choices if choice.finish_reason == "stop"]
        check(f"{name} with n", len(both.choices) == 2 and whole and all(valid(choice.message.content) for choice in whole), both)
        chunks = list(ask(n=1, seed=seed, response_format=schema_format(schema), stream=True))
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        check(f"{name} streamed", text == both.choices[0].message.content, (text, both))

    for name, parse in (("parse", client.chat.completions.parse), ("beta.parse", client.beta.chat.completions.parse)):
        parsed = ask(parse, seed=seed, response_format=Article).choices[0].message.parsed
        check(f"{name} gives the model's object", isinstance(parsed, Article) and 0 < parsed.share < 1, parsed)
    with client.chat.completions.stream(model=model, messages=MESSAGES, max_tokens=400, temperature=0.9, seed=seed,
                                        frequency_penalty=0.4, response_format=Article) as events:
        final = events.get_final_completion().choices[0].message.parsed
    check("a parsed stream gives the same object", final == parsed, (final, parsed))

    cut = ask(max_tokens=5, response_format=schema_format(strict(Article))).choices[0]
    check("a cut document says length", cut.finish_reason == "length" and not valid(cut.message.content), cut)
    try:
        ask(client.chat.completions.parse, max_tokens=5, response_format=Article)
        check("parse refuses a cut document", False)
    except openai.LengthFinishReasonError:
        check("parse refuses a cut document", True)


def refusals(client, model):
    def refused(name, expected_param, **fields):
        try:
            client.chat.completions.create(**({"model": model, "messages": MESSAGES, "max_tokens": 2} | fields))
            check(f"{name} is refused", False, "it was accepted")
        except openai.BadRequestError as error:
            check(f"{name} is refused by name", error.param == expected_param, (error.param, str(error)))

    refused("n beyond its bound", "n", n=129)
    refused("a bias of no token", "logit_bias", logit_bias={"100000000": 1})
    refused("a bias beyond its bound", "logit_bias.5", logit_bias={"5": 101})
    refused("presence_penalty", "presence_penalty", presence_penalty=2.5)
    refused("min_tokens beyond max_tokens", "min_tokens", extra_body={"min_tokens": 3})
    refused("top_logprobs", "top_logprobs", logprobs=True, top_logprobs=21)
    refused("response_format", "response_format.json_schema.schema.not",
            response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": {"not": {}}}})
    refused("min_tokens with response_format", "min_tokens", response_format={"type": "json_object"},
            extra_body={"min_tokens": 1})
    refused("tools", "tools", tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}])
    refused("temperature", "temperature", temperature=3)
    refused("an unknown field", "foo", extra_body={"foo": 1})
    refused("an image", "messages[0].content[0].type",
            messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}])
    refused("audio", "audio", extra_body={"audio": {"voice": "x", "format": "wav"}})
    refused("a prompt that is too long", "messages", messages=[{"role": "user", "content": "word " * 20_000}])
    try:
        client.chat.completions.create(model="other", messages=MESSAGES)
        check("another model is refused", False)
    except openai.NotFoundError as error:
        check("another model is not found", error.code == "model_not_found", str(error))


def gone_clients(service, client, model):
    for count, streaming in enumerate((True, False), start=1):
        timed = client.with_options(timeout=0.3, max_retries=0)
        try:
            answer = timed.chat.completions.create(model=model, messages=ENDLESS, temperature=0, stream=streaming, max_tokens=900,
                                                    n=8)  # seconds of work, on a fast machine too
            if streaming:
                next(iter(answer))
                answer.close()
        except openai.APITimeoutError:
            pass
        for _ in range(100):
            if "slipstream:num_requests_running 0\n" in service.ask("/metrics"):
                break
            time.sleep(0.05)
        metrics = service.ask("/metrics")
        check(f"a gone client's request ends (stream {streaming})", "slipstream:num_requests_running 0\n" in metrics and
              f"slipstream:clients_gone_total {count}\n" in metrics)


def drain(service, client, model):
    text, reason = [], []

    def run():
        for chunk in client.chat.completions.create(model=model, messages=MESSAGES, max_tokens=300, temperature=1, seed=1, stream=True):
            text.append(chunk.choices[0].delta.content or "")
            reason.append(chunk.choices[0].finish_reason)

    thread = threading.Thread(target=run)
    thread.start()
    while len(text) < 2:
        time.sleep(0.01)
    status = service.stop()
    thread.join(10)
    check("SIGTERM finishes what was begun", reason and reason[-1] in ("stop", "length"), reason[-3:])
    check("SIGTERM exits 0", status == 0, status)


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    program, target, draft = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        service = Service(program, ["--target", target, "--draft", draft, "--k", "3"], folder)
        client = openai.OpenAI(base_url=service.url + "/v1", api_key="unused", max_retries=0)
        try:
            model, whole = chat(client)
            stream(client, model, whole)
            stops(client, model, whole)
            logprobs(client, model)
            scoring(client, model)
            choices(client, model)
            parameters(client, model)
            habits(service, client, model)
            structured(client, model)
            refusals(client, model)
            gone_clients(service, client, model)
            drain(service, client, model)
        finally:
            if service.process.poll() is None:
                service.process.kill()
    print(f"{len(FAILURES)} failed" if FAILURES else "all passed")
    return 1 if FAILURES else 0


if __name__ == "__main__":
    sys.exit(main())
