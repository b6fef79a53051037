#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What bench/repeats.py computes from answers."""

import contextlib
import io
import pathlib
import random
import sys
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import closed_loop  # noqa: E402
import repeats  # noqa: E402


def reply(topic, seconds, tokens=10, steps=5):
    return closed_loop.Reply(topic, "text", tokens, steps, tokens - steps, 1, 0, 3.0, 3.0 + seconds)


class Figures(unittest.TestCase):
    def test_a_prediction_is_the_answer_with_a_few_other_words(self):
        text = " ".join(f"word{i}" for i in range(600))
        words = repeats.edited(text, random.Random(1)).split(" ")
        self.assertEqual(len(words), 600)
        changed = [i for i, word in enumerate(words) if word != f"word{i}"]
        self.assertTrue(all(words[i] == "edited" for i in changed))
        self.assertTrue(25 < len(changed) < 80, len(changed))
        self.assertEqual(repeats.edited(text, random.Random(1)), " ".join(words))

    def test_a_ratio_counts_the_time_of_the_same_answers(self):
        topics = ("sql", "math", "code", "lang")
        figures = repeats.figures_of({"draft": [reply(topic, 2) for topic in topics],
                                      "default": [reply(topic, 0.5 if topic == "sql" else 1, steps=2) for topic in topics]})
        self.assertAlmostEqual(figures["ratio"], 8 / 3.5)
        self.assertAlmostEqual(figures["ratio_by_topic"]["sql"], 4)
        self.assertAlmostEqual(figures["ratio_by_topic"]["lang"], 2)
        self.assertAlmostEqual(figures["draft"]["tokens_per_s"], 5)
        self.assertAlmostEqual(figures["draft"]["accepted_length"], 2)
        self.assertAlmostEqual(figures["default"]["accepted_length"], 5)

    def test_negative_answers_that_differ_fail(self):
        # Bug: they were printed and the status was 0, so bench/record.py kept the speed of other answers.
        for different, status in ((0, None), (2, "repeats: 2 answers differ between the arms")):
            result = dict.fromkeys(repeats.PARTS, {}) | {"different": different}
            command = ["repeats.py", "--target", "t", "--prompts-root", "p", "--json", "-"]
            with unittest.mock.patch.object(repeats, "measure", return_value=result), \
                    unittest.mock.patch.object(sys, "argv", command), contextlib.redirect_stdout(io.StringIO()):
                if status is None:
                    repeats.main()
                    continue
                with self.assertRaises(SystemExit) as ended:
                    repeats.main()
                self.assertEqual(ended.exception.code, status)


if __name__ == "__main__":
    unittest.main()
