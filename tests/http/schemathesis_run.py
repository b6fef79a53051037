#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""schemathesis against the built service: requests made from /openapi.json, good and bad ones, and every answer held
against the same document. Development only: it needs the `schemathesis` package in the Python that runs it, which
neither the build nor CI installs. Exit 0 when there is no finding; more arguments go to schemathesis.

    python tests/http/schemathesis_run.py build/slipstream checkpoints/demo/target checkpoints/demo/draft --seed 1

Bad requests are made from the document as it is; good ones from one that is narrowed by what it cannot say: the
context of the model that is served, which schemas can be answered in, which tiers there are, that best_of equals n.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from service import KEY, Service

MAX_TOKENS = 8
MAX_CHARACTERS = 200
VOCABULARY = 8192  # of the embedded model, and as a pattern:
TOKEN_ID = r"^(0|[1-9][0-9]{0,2}|[1-7][0-9]{3}|80[0-9]{2}|81[0-8][0-9]|819[01])$"


HOOKS = """
import schemathesis

@schemathesis.hook
def map_body(context, body):
    if not isinstance(body, dict):
        return body
    if "prompt" in body and body.get("best_of") is not None:
        body["best_of"] = body.get("n") or 1
    if body.get("max_tokens") is not None:  # both must be equal, which the document cannot say
        body.pop("max_completion_tokens", None)
    speculative = body.get("speculative")
    if isinstance(speculative, dict) and isinstance(speculative.get("tree"), dict):
        speculative["tree"].pop("depth", None)  # the same holds for depth and max_tokens
    if isinstance(body.get("metadata"), dict):  # the header may name another topic
        body["metadata"].pop("topic", None)
    return body
"""
SCHEMAS = [
    {"type": "object"},
    {"type": "array", "items": {"type": "integer"}, "maxItems": 2},
    {"type": "object", "properties": {"a": {"enum": ["x", 1, None]}, "b": {"type": "string", "maxLength": 3}}, "required": ["a"]},
]


def know_vocabulary(document):
    schemas = document["components"]["schemas"]
    for tokens in schemas["CompletionRequest"]["properties"]["prompt"]["anyOf"][2:]:
        ids = tokens["items"] if tokens["items"]["type"] == "integer" else tokens["items"]["items"]
        ids["maximum"] = VOCABULARY - 1
    for name in ("ChatRequest", "CompletionRequest"):
        schemas[name]["properties"]["stop_token_ids"]["items"]["maximum"] = VOCABULARY - 1
        schemas[name]["properties"]["logit_bias"]["propertyNames"]["pattern"] = TOKEN_ID
    schemas["DetokenizeRequest"]["properties"]["tokens"]["items"]["maximum"] = VOCABULARY - 1


def narrow(document):
    schemas = document["components"]["schemas"]
    for name in ("ChatRequest", "CompletionRequest"):
        properties = schemas[name]["properties"]
        for field in ("max_tokens", "max_completion_tokens"):
            if field in properties:
                properties[field] = {"type": "integer", "minimum": 1, "maximum": MAX_TOKENS}
        properties["min_tokens"]["maximum"] = 1
        properties["n"]["maximum"] = 32
        properties["slo"] = {"type": "null"}  # the header must not name another speed
        properties["service_tier"] = {"enum": ["auto", "default", None]}  # no tier is configured
        schemas[name]["required"].append("max_tokens")
    schemas["TextPart"]["properties"]["text"]["maxLength"] = MAX_CHARACTERS // 8
    content = schemas["TextContent"]
    content["anyOf"][0]["maxLength"] = MAX_CHARACTERS // 4
    content["anyOf"][1]["maxItems"] = 2
    schemas["ChatRequest"]["properties"]["messages"]["maxItems"] = 3
    prompt = schemas["CompletionRequest"]["properties"]["prompt"]
    prompt["maxLength"] = MAX_CHARACTERS
    for several in (prompt["anyOf"][1], prompt["anyOf"][3]):
        several["maxItems"] = 4  # times n, at most 128
    document["components"]["parameters"]["Slo"]["schema"] = {"enum": ["tpot=40", "ttft=500, e2e=4000"]}
    schemas["ResponseFormat"]["oneOf"][1]["properties"]["json_schema"]["properties"]["schema"] = {"enum": SCHEMAS}


def run(service, folder, document, mode, more):
    document["security"] = [{"key": []}]  # this service has a key
    path = pathlib.Path(folder) / f"{mode}.json"
    path.write_text(json.dumps(document))
    command = [sys.executable, "-m", "schemathesis.cli", "run", str(path), "--url", service.url, "--checks", "all",
               "--mode", mode, "--header", f"Authorization: Bearer {KEY}", "--phases", "examples,coverage,fuzzing",
               "--generation-database", "none"] + more
    environment = dict(os.environ, PYTHONPATH=folder, SCHEMATHESIS_HOOKS="hooks")
    return subprocess.run(command, cwd=folder, env=environment).returncode


def main():
    program, target, draft, *more = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "hooks.py").write_text(HOOKS)
        service = Service(program, ["--target", target, "--draft", draft, "--no-learning"], folder, with_key=True)
        text = service.ask("/openapi.json")
        document = json.loads(text)
        know_vocabulary(document)
        narrowed = json.loads(json.dumps(document))
        narrow(narrowed)
        found = run(service, folder, document, "negative", more)
        found += run(service, folder, narrowed, "positive", more)
        alive = service.process.poll() is None
        ended = service.stop()
        log = service.log.read_text()
        if not alive or ended != 0:
            print(f"the service ended with {ended}:\n{log[-2000:]}")
        leaked = KEY in log
        if leaked:
            print("the key stands in the log")
        sys.exit(1 if found or not alive or ended != 0 or leaked else 0)


if __name__ == "__main__":
    main()
