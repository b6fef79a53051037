#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure what floods of large requests cost: the time of short chats, and memory.

    python3 bench/flood.py --target checkpoints/demo/target --draft checkpoints/demo/draft

Four floods take turns with quiet parts in which only the chats run: clients that tokenize large texts, clients whose
every chat has a schema that is new, both, and as a bound clients that tokenize large texts at a second service on the
same machine, which takes cores from the chats but no place in their service. Every second round has the reverse order.
After that, clients that do not read answers of /tokenize and others that never end their bodies stay for some seconds,
and memory is compared with server.max_buffered_bytes. Exit status 1: it grew by more than 1.2 times that."""
import argparse
import contextlib
import http.client
import itertools
import json
import multiprocessing
import os
import pathlib
import socket
import sys
import tempfile
import threading
import time

import closed_loop

CHAT = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 4, "temperature": 0, "store": False}
FLOODS = {"tokenize": ["tokenize"], "schemas": ["schemas"], "both": ["tokenize", "schemas"], "elsewhere": ["tokenize"]}
PAUSE_S = 0.02  # between two short chats
BUDGET_MIB = 256  # the default of server.max_buffered_bytes
MOST_GROWTH = 1.2  # of memory, over that budget


def post(address, path, body, timeout=closed_loop.ANSWER_S):
    connection = http.client.HTTPConnection(*address, timeout=timeout)
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        return response.status, float(response.getheader("Retry-After") or 0)
    finally:
        connection.close()


def costly_schema(number):
    """A new schema for every number; it takes about 10 ms to compile."""
    return {"type": "string", "pattern": f"^n{number}(a|b)*a(a|b){{11}}$"}


def request_of(flood, number, large):
    if flood == "tokenize":
        return "/tokenize", large
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": costly_schema(number)}}
    return "/v1/chat/completions", json.dumps(CHAT | {"max_tokens": 1, "response_format": form})


def send_flood(address, kinds, clients, large, first_number, n_answered):
    """Clients that send their next large request as soon as the last one is answered, after a 503 as late as it says; never
    returns. Counts the requests that were answered with 200."""
    os.nice(19)  # these clients share the service's cores, where others' clients have their own
    numbers, lock = itertools.count(first_number), threading.Lock()

    def send(kind):
        while True:
            with lock:
                number = next(numbers)
            with contextlib.suppress(OSError, http.client.HTTPException):
                status, retry_after_s = post(address, *request_of(kind, number, large))
                with n_answered.get_lock():
                    n_answered.value += status == 200
                time.sleep(retry_after_s)

    threads = [threading.Thread(target=send, args=(kinds[i % len(kinds)],)) for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextlib.contextmanager
def flooded(*arguments):
    """The flood runs in a process of its own, since Python's lock would hold up the chats' clock. Yields the count of its
    answers."""
    n_answered = multiprocessing.Value("q", 0)
    flood = multiprocessing.Process(target=send_flood, args=(*arguments, n_answered), daemon=True)
    flood.start()
    time.sleep(1)  # so that all of its clients are under way
    try:
        yield n_answered
    finally:
        flood.kill()
        flood.join()


def chat_times(address, seconds):
    """Milliseconds of each short chat; failures end the run."""
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        status, _ = post(address, "/v1/chat/completions", json.dumps(CHAT))
        if status != 200:
            raise closed_loop.ServiceError(f"a short chat got {status}")
        times.append(1e3 * (time.monotonic() - began))
        time.sleep(PAUSE_S)
    return times


def parts_of(round_number):
    """The parts of a round in order: each flood beside a quiet part. Every second round has the reverse order, so that
    a machine that drifts evenly favours none. Pure."""
    parts = [part for flood in FLOODS for part in ("quiet", flood)]
    return parts[::-1] if round_number % 2 else parts


def measure_times(service, other, options, large):
    """{part: milliseconds} and {flood: large requests answered}, the floods and the quiet parts in turns."""
    found, answered, n_floods = {"quiet": []} | {flood: [] for flood in FLOODS}, dict.fromkeys(FLOODS, 0), 0
    chat_times(service.address, 2)
    for part in itertools.chain.from_iterable(parts_of(number) for number in range(options.rounds)):
        if part == "quiet":
            found[part] += chat_times(service.address, options.seconds)
            continue
        n_floods += 1
        flooded_service = other if part == "elsewhere" else service
        first_number = n_floods * 1_000_000  # new schemas
        with flooded(flooded_service.address, FLOODS[part], options.clients, large, first_number) as n_answered:
            found[part] += chat_times(service.address, options.seconds)
            answered[part] += n_answered.value
        if answered[part] == 0:
            raise closed_loop.ServiceError(f"the service answered none of the flood's requests ({part})")
    return found, answered


def open_request(address, path, body, n_missing=0):
    """Sends all but the last bytes of the body, and reads nothing."""
    connection = socket.create_connection(address, timeout=closed_loop.ANSWER_S)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with contextlib.suppress(OSError):  # refused before all of it was sent
        connection.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                           % (path.encode(), len(body)) + body[:len(body) - n_missing])
    return connection


def measure_memory(service, options, large):
    """MiB before the flood, and the most in it."""
    before, most, connections, end = service.rss_mib(), 0.0, [], time.monotonic() + options.seconds
    body = large.encode()
    try:
        for i in range(max(options.unread, options.unfinished)):
            if i < options.unread:
                connections.append(open_request(service.address, "/tokenize", body))
                most = max(most, service.rss_mib())
            if i < options.unfinished:
                connections.append(open_request(service.address, "/v1/chat/completions", body, n_missing=100))
        while time.monotonic() < end:
            most = max(most, service.rss_mib())
            time.sleep(0.05)
        chat_times(service.address, 1)
    finally:
        for connection in connections:
            connection.close()
    return {"before_mib": before, "most_mib": max(most, service.rss_mib()), "budget_mib": BUDGET_MIB}


def figures_of(times, answered, memory):
    """What is printed and recorded. Pure."""
    rounds = {name: {"n": len(ms), "p50_ms": closed_loop.percentile(ms, 0.5), "p99_ms": closed_loop.percentile(ms, 0.99)} for name, ms in times.items()}
    for one in rounds.values():
        one["p99_ratio"] = one["p99_ms"] / rounds["quiet"]["p99_ms"]
    for flood, n in answered.items():
        rounds[flood]["n_flood_answers"] = n
    return {"chats": rounds, "memory": memory | {"growth_over_budget": (memory["most_mib"] - memory["before_mib"]) / memory["budget_mib"]}}


def fault_of(found):
    """Why the run counts as failed; None: it does not. Times are no reason: they depend on the machine. Pure."""
    growth = found["memory"]["growth_over_budget"]
    return f"memory grew by {growth:.2f} × server.max_buffered_bytes, beyond {MOST_GROWTH}" if growth > MOST_GROWTH else None


def print_table(found):
    print(f"{'short chats':<14}{'n':>6}{'p50 ms':>10}{'p99 ms':>10}{'p99 / quiet':>14}{'flood answers':>16}")
    for name, one in found["chats"].items():
        print(f"{name:<14}{one['n']:>6}{one['p50_ms']:>10.1f}{one['p99_ms']:>10.1f}{one['p99_ratio']:>14.2f}"
              f"{one.get('n_flood_answers', ''):>16}")
    memory = found["memory"]
    print(f"\nmemory {memory['before_mib']:.0f} MiB before, {memory['most_mib']:.0f} MiB at most: "
          f"{memory['growth_over_budget']:.2f} × server.max_buffered_bytes")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True, type=pathlib.Path)
    parser.add_argument("--draft", required=True, type=pathlib.Path)
    parser.add_argument("--slipstream", type=pathlib.Path, default=closed_loop.ROOT / "build/slipstream")
    parser.add_argument("--clients", type=int, default=30, help="of each flood")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10, help="of each part of a round")
    parser.add_argument("--bytes", type=int, default=500_000, help="of a large text; its answer must fit server.max_answer_bytes")
    parser.add_argument("--unread", type=int, default=60, help="clients that do not read")
    parser.add_argument("--unfinished", type=int, default=150, help="bodies that never end")
    parser.add_argument("--json", action="store_true", help="print JSON, for bench/record.py")
    return parser.parse_args()


def main():
    options = parse()
    large = json.dumps({"prompt": "hello word " * (options.bytes // 11), "return_token_strs": True})
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.ExitStack() as services:
            def started(name):
                service = closed_loop.Service(options.slipstream, name, pathlib.Path(folder),
                                              ["--target", options.target, "--draft", options.draft, "--no-learning"])
                services.callback(service.stop)
                return service

            service = started("flood")
            times, answered = measure_times(service, started("other"), options, large)
            found = figures_of(times, answered, measure_memory(service, options, large))
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        print_table(found)
    fault = fault_of(found)
    if fault:
        sys.exit(f"flood: {fault}")


if __name__ == "__main__":
    closed_loop.run("flood", main)
