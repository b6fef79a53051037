#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""schemathesis against the built service: requests made from /openapi.json, good and bad ones, and every answer held
against the same document. Development only: it needs the `schemathesis` package in the Python that runs it, which
neither the build nor CI installs. Exit 0 when there is no finding; more arguments go to schemathesis.

    python tests/http/schemathesis_run.py build/slipstream checkpoints/demo/target checkpoints/demo/draft --seed 1

Bad requests are made from the document as it is; good ones from one that is narrowed by what it cannot know, the
context and vocabulary of the model that is served, and never with 1.0 for an integer: JSON Schema calls that one, this
API does not.
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
MAX_TOKEN_ID = 8000


HOOKS = """
import schemathesis

def whole(value):
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: whole(inner) for key, inner in value.items()}
    return [whole(inner) for inner in value] if isinstance(value, list) else value

@schemathesis.hook
def map_body(context, body):
    return whole(body)
"""


def narrow(document):
    schemas = document["components"]["schemas"]
    for name in ("ChatRequest", "CompletionRequest"):
        properties = schemas[name]["properties"]
        for field in ("max_tokens", "max_completion_tokens"):
            if field in properties:
                properties[field] = {"type": "integer", "minimum": 1, "maximum": MAX_TOKENS}
        schemas[name]["required"].append("max_tokens")
    schemas["TextPart"]["properties"]["text"]["maxLength"] = MAX_CHARACTERS // 8
    content = schemas["Message"]["properties"]["content"]
    content["anyOf"][0]["maxLength"] = MAX_CHARACTERS // 4
    content["anyOf"][1]["maxItems"] = 2
    schemas["ChatRequest"]["properties"]["messages"]["maxItems"] = 3
    schemas["CompletionRequest"]["properties"]["prompt"]["maxLength"] = MAX_CHARACTERS
    schemas["DetokenizeRequest"]["properties"]["tokens"]["items"]["maximum"] = MAX_TOKEN_ID


def run(service, folder, document, mode, more):
    document["security"] = [{"key": []}]  # this service has a key
    path = pathlib.Path(folder) / f"{mode}.json"
    path.write_text(json.dumps(document))
    command = [sys.executable, "-m", "schemathesis.cli", "run", str(path), "--url", service.url, "--checks", "all",
               "--mode", mode, "--header", f"Authorization: Bearer {KEY}", "--phases", "examples,coverage,fuzzing",
               "--generation-database", "none"] + more
    hooks = {"SCHEMATHESIS_HOOKS": "hooks"} if mode == "positive" else {}
    return subprocess.run(command, cwd=folder, env=dict(os.environ, PYTHONPATH=folder, **hooks)).returncode


def main():
    program, target, draft, *more = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "hooks.py").write_text(HOOKS)
        service = Service(program, ["--target", target, "--draft", draft, "--no-learning"], folder, with_key=True)
        text = service.ask("/openapi.json")
        narrowed = json.loads(text)
        narrow(narrowed)
        found = run(service, folder, json.loads(text), "negative", more)
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
