#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a document names a link, path, test, function or key that the repository does not have, or is too long.

Checked are DOCUMENTS: links, what stands in backticks, and the paths and `ctest -R` patterns of code blocks.
`--self-test` plants faults, each of which must be found."""
import fnmatch
import os
import pathlib
import re
import subprocess
import sys

COLUMNS = 120
DOCUMENTS = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/*.md", "bench/results/README.md",
             "checkpoints/demo/*/README.md"]
MOST_LINES = {"README.md": 120, "ARCHITECTURE.md": 150}
# What may begin a path that is not in the repository, and why.
NOT_HERE = {
    "build": "made by make", ".venv": "made by make", ".deps": "made by make ROOTLESS=1", ".carry": "made by tools/carry.sh",
    "slipstream-data": "made by serve", "drafts": "made by warmup", "etc": "made by make install",
    "DEV": "prompts of the reader's own", "TRAIN": "prompts of the reader's own",
    "DIR": "recorded by build/bench/adapt", "OTHER": "recorded by build/bench/adapt",
}
NO_NAMES = {"PascalCase", "snake_case", "snake_case_"}  # styles, which no source spells
SOURCE = re.compile(r"\.(h|cpp|in|cu|cuh|py|sh|toml|yml|cmake|txt)$|(^|/)(Makefile|Dockerfile|run|openapi\.json|CMakePresets\.json)$")
LINK = re.compile(r"\]\(([^)\s]+)\)|<img [^>]*src=\"([^\"]+)\"|^\[[^\]]+\]: (\S+)", re.M)
FENCE = re.compile(r"^```.*?^```", re.M | re.S)
SPAN = re.compile(r"`([^`]+)`")
PATH = re.compile(r"(?<![\w/.~>…-])[\w.-]+(?:/[\w.*-]+)+")
FILE = re.compile(r"(?<![\w/.*-])[\w-]+\.(?:h|cpp|cuh?|py|sh|toml|yml|cmake|md|svg)\b")
TEST = re.compile(r"\b[A-Z]\w+\.(?:[A-Z]\w*\*?|\*)")
MEMBER = re.compile(r"\b(\w+)::(\w+)")
NAME = re.compile(r"\b(?:[A-Za-z0-9]+_\w+|[A-Z][a-z]+[A-Z]\w*)\b")  # snake_case, PascalCase of two parts
PATTERN = re.compile(r"ctest .*-R '?([^'\s]+)")
DEFINED_TEST = re.compile(r"\bTEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\s*\)")
DECLARED = re.compile(r"\b(?:class|struct|enum(?: class)?|namespace) (\w+)")


class Repository:
    def __init__(self, root):
        self.root, self.words, self.tests, self.members = root, set(NO_NAMES), set(), {}
        git = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True)
        found = git.stdout.splitlines() if git.returncode == 0 else self.walk()
        self.files = {name for name in found if (root / name).exists()}
        self.folders = {str(parent) for name in self.files for parent in pathlib.PurePath(name).parents}
        self.names = {name.rsplit("/", 1)[-1] for name in self.files}
        for name in self.files:
            if SOURCE.search(name) and name != "tests/documents.py":
                self.read((root / name).read_text(errors="replace"))

    def walk(self):  # sources that came without git
        for folder, inner, names in os.walk(self.root):
            inner[:] = [one for one in inner if one not in NOT_HERE and not one.startswith(".git")]
            yield from (os.path.relpath(os.path.join(folder, name), self.root) for name in names)

    def read(self, text):
        words = set(re.findall(r"\w+", text))
        self.words |= words
        self.tests |= {f"{suite}.{test}" for suite, test in DEFINED_TEST.findall(text)}
        for declared in DECLARED.findall(text):
            self.members.setdefault(declared, set()).update(words)

    def has_path(self, path):
        """A file, a folder, or a file's path without its ending; * stands for anything."""
        if path.rstrip("/.") in self.folders:
            return True
        if "*" in path:
            return bool(fnmatch.filter(self.files, path))
        return path in self.files or any(name.startswith(path + ".") for name in self.files)

    def has_test(self, test):
        return bool(fnmatch.filter(self.tests, test)) if "*" in test else test in self.tests

    def has_link(self, document, target):
        file, _, section = target.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(document), file)) if file else document
        if path not in self.files | self.folders:
            return False
        headings = re.findall(r"^#+ (.*)", (self.root / path).read_text(), re.M) if section else []
        return not section or section in [re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings]


def faults_of_code(repository, code):
    """Of what stands in one pair of backticks."""
    for path in PATH.findall(code):
        if path.split("/")[0] not in NOT_HERE and not repository.has_path(path):
            yield f"no path {path}"
    code = PATH.sub(" ", code)
    yield from (f"no file {name}" for name in FILE.findall(code) if name not in repository.names)
    yield from (f"no test {test}" for test in TEST.findall(code) if not repository.has_test(test))
    for owner, member in MEMBER.findall(code):
        if member not in repository.members.get(owner, ()):
            yield f"no {owner}::{member}"
    names = NAME.findall(MEMBER.sub(" ", TEST.sub(" ", FILE.sub(" ", code))))
    yield from (f"no name {name}" for name in names if name not in repository.words)


def faults_of_block(repository, block):
    """Of a code block: its commands may name files of the reader's own, but what begins as our folders do is ours."""
    for path in PATH.findall(block):
        if path.split("/")[0] in repository.folders and not repository.has_path(path):
            yield f"no path {path}"
    for pattern in PATTERN.findall(block):
        if not any(re.search(pattern, test) for test in repository.tests):
            yield f"no test matches {pattern}"


def faults(repository, document, text):
    lines = text.splitlines()
    if len(lines) > MOST_LINES.get(document, len(lines)):
        yield f"{document}: {len(lines)} lines, more than {MOST_LINES[document]}"
    yield from (f"{document}:{i}: {len(line)} columns" for i, line in enumerate(lines, 1) if len(line) > COLUMNS)

    def found(match, kinds):
        where = f"{document}:{text.count(chr(10), 0, match.start()) + 1}: "
        return [where + kind for kind in kinds]

    for block in FENCE.finditer(text):
        yield from found(block, faults_of_block(repository, block[0]))
    prose = FENCE.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), text)  # places stay
    for span in SPAN.finditer(prose):
        yield from found(span, faults_of_code(repository, span[1]))
    for link in LINK.finditer(prose):
        target = link[1] or link[2] or link[3]
        if ":" not in target and not repository.has_link(document, target):
            yield from found(link, [f"no link {target}"])


PLANTED = ["[x](docs/absent.md)", "[x]: docs/absent.md", "[x](docs/api.md#absent)", "![x](docs/absent.svg)", "`engine/absent.h`", "`absent.cpp`", "`engin/engine.h`",
           "`tests/absent/*.py`", "`Absent.Test`", "`CallRefusal.Absent`", "`AbsentTest.*`", "`Engine::absent`", "`Absent::step`",
           "`AbsentType`", "`learning.absent_key`", "```\npython3 tests/absent.py\n```", "```\nctest -R 'AbsentTest'\n```", "x" * (COLUMNS + 1),
           "x\n" * (MOST_LINES["README.md"] + 1)]
SOUND = ("[x](docs/api.md) `engine/engine.h` `engine/engine` `tests/http/*.py` `engine.h`\n`Engine::step` `Acceptance*.*` `slip::Error` "
         "`build/x.h`\n`max_tokens`\n```\npython3 tests/exactness.py\nctest -R Acceptance\n```\n")


def self_test(repository):
    missed = [f"not found: {plant[:60]!r}" for plant in PLANTED if not list(faults(repository, "README.md", plant))]
    return missed + [f"found where nothing is wrong: {fault}" for fault in faults(repository, "ARCHITECTURE.md", SOUND)]


def main(arguments):
    roots = [one for one in arguments if one != "--self-test"]
    repository = Repository(pathlib.Path(roots[0] if roots else "."))
    if "--self-test" in arguments:
        return self_test(repository)
    documents = sorted({name for pattern in DOCUMENTS for name in fnmatch.filter(repository.files, pattern)})
    return [fault for name in documents for fault in faults(repository, name, (repository.root / name).read_text())]


if __name__ == "__main__":
    wrong = main(sys.argv[1:])
    print("\n".join(wrong) or "the documents are right")
    sys.exit(1 if wrong else 0)
