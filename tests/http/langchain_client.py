#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The unmodified `langchain-openai` package against the built service, as its users would call it. Development only: it
needs that package in the Python that runs it (langchain-core, openai and pydantic come with it), which neither the build
nor CI installs.

    python tests/http/langchain_client.py build/slipstream checkpoints/demo/target checkpoints/demo/draft
"""
import asyncio
import sys
import tempfile

import langchain_core.messages as messages
import langchain_openai
import openai
import pydantic
from langchain_core.prompts import ChatPromptTemplate

from service import Service

FAILURES = []


def check(name, condition, detail=""):
    print(f"{'ok  ' if condition else 'FAIL'} {name}{'' if condition else f': {detail}'}", flush=True)
    if not condition:
        FAILURES.append(name)


TALK = [messages.SystemMessage("Be brief."), messages.HumanMessage("What is 12 plus 30? Explain.")]


def model_of(service, **fields):
    arguments = {"model": "target", "base_url": service.url + "/v1", "api_key": "unused", "temperature": 0, "max_tokens": 40,
                 "max_retries": 0}
    return langchain_openai.ChatOpenAI(**(arguments | fields))


def chat(service):
    model = model_of(service)
    answer = model.invoke(TALK)
    check("chat answers", isinstance(answer, messages.AIMessage) and len(answer.content) > 0, answer)
    check("usage adds up", answer.usage_metadata["total_tokens"] ==
          answer.usage_metadata["input_tokens"] + answer.usage_metadata["output_tokens"], answer.usage_metadata)
    check("the end has its reason", answer.response_metadata["finish_reason"] in ("stop", "length"), answer.response_metadata)
    again = model.invoke(TALK + [answer, messages.HumanMessage("And 5 more?")])
    check("an answer's message can be sent back", again.usage_metadata["output_tokens"] > 0, again)
    parts = [TALK[0], messages.HumanMessage([{"type": "text", "text": "What is 12 plus 30? "},
                                             {"type": "text", "text": "Explain.", "cache_control": {"type": "ephemeral"}}])]
    check("content in parts is the same text", model.invoke(parts).content == answer.content)
    seeded = [model_of(service, temperature=1, seed=5, top_p=0.9).invoke(TALK).content for _ in range(2)]
    check("a seed repeats its answer", seeded[0] == seeded[1], seeded)
    hinted = model_of(service, reasoning_effort="low", verbosity="low", service_tier="auto", store=True,
                      metadata={"topic": "math"}, model_kwargs={"user": "tester"})
    check("hints change nothing", hinted.invoke(TALK, tool_choice="auto").content == answer.content)
    check("top_p 0 is greedy", model_of(service, temperature=1, top_p=0).invoke(TALK).content == answer.content)
    check("max_tokens of -1 is what is left", model_of(service, max_tokens=-1, stop=["\n"]).invoke(TALK).content != "")
    several = model_of(service, n=3, temperature=1).generate([TALK]).generations[0]
    check("n gives that many answers", len(several) == 3, several)
    check("logprobs come along", len(model_of(service, logprobs=True, top_logprobs=2).invoke(TALK).response_metadata
                                     ["logprobs"]["content"]) > 0)
    check("a batch keeps its order", [one.content for one in model.batch([TALK, parts, TALK])] == [answer.content] * 3)
    check("a template fills in", model.invoke(ChatPromptTemplate.from_messages(
        [("system", "Be brief."), ("human", "What is {a} plus {b}? Explain.")]).invoke({"a": 12, "b": 30})).content == answer.content)
    return answer.content


def names(service, whole):
    model = model_of(service)
    named = [messages.SystemMessage("Be brief.", name="rules"), messages.HumanMessage(TALK[1].content, name="anna")]
    check("message names are taken", model.invoke(named).content == whole)
    turns = [messages.HumanMessage("Hi.", name="anna"), messages.AIMessage("Hello.", name="slip", id="run-1"),
             messages.HumanMessage(TALK[1].content, name="bert")]
    check("so are those of a conversation", model.invoke(turns).content != "")


def stream(service, whole):
    model = model_of(service, stream_usage=True)
    chunks = list(model.stream(TALK))
    check("the stream is the whole answer", "".join(chunk.content for chunk in chunks) == whole, chunks)
    added = sum(chunks[1:], chunks[0])
    check("usage comes with the stream", added.usage_metadata["output_tokens"] > 0, added)

    async def collect():
        return "".join([chunk.content async for chunk in model.astream(TALK)])

    check("the asynchronous stream is the same", asyncio.run(collect()) == whole)
    kept = [chunk.content for chunk in model_of(service, stop=[whole[4:8]]).stream(TALK)]
    check("a stop string ends it", "".join(kept) == whole[:whole.find(whole[4:8])], kept)


class Item(pydantic.BaseModel):
    """Something on a shelf."""
    name: str = pydantic.Field(min_length=1, max_length=12, description="what it is called")
    count: int = pydantic.Field(ge=0, le=99)
    used: bool
    note: str | None = pydantic.Field(default=None, max_length=8)


def structured(service):
    # The penalty keeps a small model from filling the gaps of a document with all the blanks it may write.
    model = model_of(service, max_tokens=300, temperature=0.9, seed=11, frequency_penalty=0.4)
    for strict in (None, True):
        found = model.with_structured_output(Item, method="json_schema", strict=strict).invoke(TALK)
        check(f"structured output is the model's object (strict {strict})", isinstance(found, Item) and 0 <= found.count <= 99, found)
    check("so it is by default", isinstance(model.with_structured_output(Item).invoke(TALK), Item))
    raw = model.with_structured_output(Item, include_raw=True).invoke(TALK)
    check("with the raw message beside it", raw["parsing_error"] is None and isinstance(raw["parsed"], Item), raw)
    schema = {"title": "item", "type": "object", "properties": {"z": {"type": "integer", "multipleOf": 5, "minimum": 0, "maximum": 50},
                                                               "a": {"enum": ["x", "y"]}},
              "required": ["z", "a"], "additionalProperties": False}
    found = model.with_structured_output(schema).invoke(TALK)
    check("a schema of one's own gives a dictionary", list(found) == ["z", "a"] and found["z"] % 5 == 0, found)
    objects = model.bind(response_format={"type": "json_object"}).invoke(TALK)
    check("json_object is taken", objects.content.startswith("{"), objects)
    last = list(model.with_structured_output(Item).stream(TALK))[-1]
    check("structured output streams", isinstance(last, Item), last)


def completions(service):
    model = langchain_openai.OpenAI(model="target", base_url=service.url + "/v1", api_key="unused", temperature=0, max_tokens=12,
                                    max_retries=0)
    whole = model.invoke("SELECT")
    check("completions answer", len(whole) > 0)
    check("and stream", "".join(model.stream("SELECT")) == whole)


def refusals(service):
    def refused(name, run, param):
        try:
            run()
            check(f"{name} is refused", False, "it was accepted")
        except openai.BadRequestError as error:
            check(f"{name} is refused by name", error.param == param, (error.param, str(error)))

    tool = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}}
    refused("a tool", lambda: model_of(service).bind_tools([tool]).invoke(TALK), "tools")
    refused("an image", lambda: model_of(service).invoke(
        [messages.HumanMessage([{"type": "image_url", "image_url": {"url": "data:,"}}])]), "messages[0].content[0].type")
    try:
        model_of(service, use_responses_api=True).invoke(TALK)
        check("the Responses API is refused", False, "it was accepted")
    except openai.BadRequestError as error:
        check("the Responses API is refused and says what to use", "/v1/chat/completions" in str(error), str(error))


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    program, target, draft = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        service = Service(program, ["--target", target, "--draft", draft, "--k", "3"], folder)
        try:
            whole = chat(service)
            names(service, whole)
            stream(service, whole)
            structured(service)
            completions(service)
            refusals(service)
        finally:
            if service.process.poll() is None:
                service.stop()
    print(f"{len(FAILURES)} failed" if FAILURES else "all passed")
    return 1 if FAILURES else 0


if __name__ == "__main__":
    sys.exit(main())
