#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Differential test of HTTP parsing: the built service beside h11, another strict parser of HTTP/1.1. Development only:
it needs the `h11` package in the Python that runs it, which neither the build nor CI installs.

    python tests/http/h11_run.py build/slipstream checkpoints/demo/target checkpoints/demo/draft [--random 2000] [--seed 1]
    python tests/http/h11_run.py --write    # h11's part of tests/data/http_requests.json anew, for another version of it

Every request of tests/data/http_requests.json, and random changes of them, go to both. Nothing may be served that h11
refuses, and no request may be found where h11 finds none. The file gives the reason of each case where the service is
"stricter", and of those where the RFC has it "laxer", which random requests leave out.
"""
import argparse
import json
import pathlib
import random
import re
import socket
import sys
import tempfile
import urllib.parse

import h11

from service import Service

TABLE = pathlib.Path(__file__).resolve().parents[1] / "data" / "http_requests.json"
REFUSALS = {400, 413, 431}  # of a parser that could not read on


def verdict(data):
    """How many requests h11 reads whole before the connection ends, and whether it refuses what follows."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(data)
    served, ended = 0, False
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError:
            return {"served": served, "refused": True}
        if event is h11.NEED_DATA and not ended:
            ended = True
            try:
                connection.receive_data(b"")
            except h11.RemoteProtocolError:
                return {"served": served, "refused": True}
        elif isinstance(event, h11.EndOfMessage):
            served += 1
            connection.send(h11.Response(status_code=404, headers=[("Content-Length", "0")]))
            connection.send(h11.EndOfMessage())
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return {"served": served, "refused": False}
            connection.start_next_cycle()
        elif event is h11.NEED_DATA or event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
            return {"served": served, "refused": False}


def statuses(address, data):
    with socket.create_connection(address, timeout=30) as connection:
        received = b""
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65536):
                received += piece
        except ConnectionError:
            pass  # refused and closed before all was sent
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", received) if status != b"100"]


def change(generator, data):
    """Some bytes or lines of a request changed: what a careless or hostile client might send."""
    data = bytearray(data)
    for _ in range(generator.randint(1, 3)):
        at = generator.randrange(len(data) + 1)
        kind = generator.randrange(5)
        odd = bytes([generator.choice(b"\r\n\t :;,=0189afAFxX\x00\x0b\x7f\x80\xff/?#@[]*%-+\"")])
        if kind == 0:
            data[at:at] = odd
        elif kind == 1:
            data[at:at + 1] = odd
        elif kind == 2:
            del data[at:at + generator.randint(1, 4)]
        else:
            lines = bytes(data).split(b"\r\n")
            i, j = generator.randrange(len(lines)), generator.randrange(len(lines))
            lines[i:i] = [lines[j]] if kind == 3 else [lines[j].swapcase()]
            data = bytearray(b"\r\n".join(lines))
    return bytes(data)


def may_be_laxer(data):
    """Whether a request is of a kind where the RFC has the service laxer than h11."""
    return data.startswith(b"\r\n") or b"\r\n\r\n\r\n" in data or b"HTTP/1.0" in data


def compare(address, data):
    """What is wrong, or None."""
    there = verdict(data)
    answers = statuses(address, data)
    served = [status for status in answers if status not in REFUSALS]
    if served and served[-1] >= 400:
        served.pop()  # refused for what its head says, so that its body was not read
    if any(status >= 500 for status in answers):
        return f"answers {answers}"
    return f"served {len(served)} requests {answers}, h11 {there}" if len(served) > there["served"] else None


def check_table(rows, address):
    failures = 0
    for row in rows:
        data = row["bytes"].encode("latin-1")
        said = []
        if verdict(data) != row["h11"]:
            said.append(f"h11 {h11.__version__} says {verdict(data)}, the file {row['h11']}")
        if statuses(address, data) != row["statuses"]:
            said.append(f"answers {statuses(address, data)}, the file says {row['statuses']}")
        failures += bool(said)
        for what in said:
            print(f"FAIL {row['name']}: {what}")
    return failures


def write_table(table):
    table["h11_version"] = h11.__version__
    for row in table["requests"]:
        row["h11"] = verdict(row["bytes"].encode("latin-1"))
    lines = ",\n  ".join(json.dumps(row) for row in table["requests"])
    TABLE.write_text(f'{{\n "h11_version": "{table["h11_version"]}",\n "requests": [\n  {lines}\n ]\n}}\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?")
    parser.add_argument("target", nargs="?")
    parser.add_argument("draft", nargs="?")
    parser.add_argument("--random", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    table = json.loads(TABLE.read_text())
    if given.write:
        return write_table(table)
    if given.draft is None:
        parser.error("the program, a target and a draft are needed")
    rows = table["requests"]
    with tempfile.TemporaryDirectory() as folder:
        service = Service(given.program, ["--target", given.target, "--draft", given.draft, "--no-learning"], folder)
        url = urllib.parse.urlsplit(service.url)
        address = (url.hostname, url.port)
        failures, skipped = check_table(rows, address), 0
        generator = random.Random(given.seed)
        seeds = [row["bytes"].encode("latin-1") for row in rows if "laxer" not in row]
        for i in range(given.random):
            data = change(generator, generator.choice(seeds))
            if may_be_laxer(data):
                skipped += 1
                continue
            if wrong := compare(address, data):
                failures += 1
                print(f"FAIL change {i}: {wrong}: {data!r}")
        if service.stop() != 0:
            failures += 1
            print("FAIL the service did not end well")
    print(f"{len(rows)} requests and {given.random - skipped} changed ones (seed {given.seed}) beside h11 "
          f"{h11.__version__}, {skipped} changed ones left out: {failures} failures")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
