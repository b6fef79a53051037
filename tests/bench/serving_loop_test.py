#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What bench/serving_loop.py reads from streams and computes from their times."""
import contextlib
import http.server
import pathlib
import sys
import threading
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import closed_loop  # noqa: E402
import serving_loop  # noqa: E402


def answer(*pieces, text="a"):
    return serving_loop.Stream(0.0, list(pieces), text)


@contextlib.contextmanager
def service_that_says(status, body):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address
    finally:
        server.shutdown()
        server.server_close()


class Streams(unittest.TestCase):
    def test_a_piece_counts_when_it_has_text(self):
        body = (b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n: a comment\n\n'
                b'data: {"choices":[{"delta":{"content":"ab"}}]}\n\ndata: {"choices":[{"delta":{"content":"c"}}]}\n\n'
                b'data: {"choices":[],"usage":{}}\n\ndata: [DONE]\n\n')
        with service_that_says(200, body) as address:
            found = serving_loop.stream(address, [], 3)
        self.assertEqual((found.text, len(found.pieces)), ("abc", 2))
        self.assertGreater(found.ttft_ms, 0)

    def test_negative_a_refusal_an_error_and_an_empty_answer_are_no_measurements(self):
        for status, body in ((429, b"{}"), (200, b'data: {"error":{"message":"cut"}}\n\n'), (200, b"data: [DONE]\n\n")):
            with service_that_says(status, body) as address, self.assertRaises(closed_loop.ServiceError):
                serving_loop.stream(address, [], 3)

    def test_a_counter_is_summed_over_its_labels(self):
        text = '# HELP x\nslipstream:hits_total{topic="a"} 3\nslipstream:hits_total{topic="b"} 4\nslipstream:hits_total_other 9\n'
        self.assertEqual(serving_loop.counter(text, "hits_total"), 7)


class Figures(unittest.TestCase):
    def test_only_gaps_beside_a_prompt_count(self):
        streams = [answer(1.0, 1.1, 1.4), answer(1.3, 1.35)]
        found = serving_loop.gaps_ms(streams, [(1.2, 1.32)])
        self.assertEqual([round(gap) for gap in found], [300, 50])
        self.assertEqual(serving_loop.gaps_ms(streams, []), [])

    def test_gaps_beside_long_and_short_prompts_are_compared(self):
        answers = {"long": [answer(0.0, 0.3)], "short": [answer(0.0, 0.2)], "whole_chunks": [answer(0.0, 0.6, text="b")]}
        figures = serving_loop.figures_of_long(4096, answers, dict.fromkeys(answers, [(0.1, 0.2), (0.1, 0.4)]))
        self.assertAlmostEqual(figures["p99_ratio"], 1.5)
        self.assertAlmostEqual(figures["whole_chunks"]["p99_ms"], 600)
        self.assertAlmostEqual(figures["short"]["read_ms"], 200)
        self.assertEqual(figures["different"], 1)

    def test_texts_have_as_many_words(self):
        self.assertEqual(serving_loop.in_pieces("a b c d e".split(), 2), ["a b", "c d"])

    def test_the_last_turn_is_compared_and_answers_too(self):
        def chat(ms, text="a"):
            return [answer(ms / 1e3 * turn, text=text) for turn in range(1, serving_loop.TURNS + 1)]

        chats = {"cached": [chat(10), chat(10)], "uncached": [chat(40), chat(40)], "plain": [chat(10), chat(10, text="b")]}
        metrics = {name: f"slipstream:prefix_cache_hits_total {hits}\nslipstream:prompt_tokens_total 100\n"
                   for name, hits in (("cached", 60), ("uncached", 0), ("plain", 60))}
        figures = serving_loop.figures_of_turns(chats, metrics)
        self.assertAlmostEqual(figures["last_turn_ratio"], 0.25)
        self.assertEqual(figures["hit_rate"], {"cached": 0.6, "uncached": 0.0, "plain": 0.6})
        self.assertEqual(figures["different"], 1)

    def test_negative_answers_that_differ_fail(self):
        command = ["serving_loop.py", "--target", "t", "--prompts-root", "p", "--parts", "turns", "--json", "-"]
        with unittest.mock.patch.object(serving_loop, "measure_turns", return_value={"different": 2}), \
                unittest.mock.patch.object(sys, "argv", command), contextlib.redirect_stdout(None), \
                self.assertRaises(SystemExit) as ended:
            serving_loop.main()
        self.assertEqual(ended.exception.code, "serving_loop: 2 answers differ between the arms")


if __name__ == "__main__":
    unittest.main()
