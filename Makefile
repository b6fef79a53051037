# SPDX-License-Identifier: Apache-2.0
# `make` sets up and builds · `make demo` · `make test` · `make help` lists the rest.
# ROOTLESS=1, needed once, unpacks packages under .deps/ instead of installing them; remove .deps/ to go back.
# SLIPSTREAM_NO_INSTALL=1 never installs anything; SLIPSTREAM_CUDA=ON|OFF overrides the detection of a CUDA toolkit.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := build
export PATH := $(PATH):$(CURDIR)/.deps/programs
JOBS := $(shell bash tools/jobs.sh)

PREFIX ?= /usr/local

.PHONY: build setup test demo install image lint format asan asan-io tsan tsan-learner clean help
build: setup ## Set up what is missing and build build/slipstream and build/bench/*
	@bash tools/build.sh release $(JOBS)

setup: ## Install missing packages and the LibTorch wheels (asks, or names the command)
	@bash tools/setup.sh

test: build ## Build and run all tests
	@ctest --test-dir build --output-on-failure --no-tests=error -j $(JOBS) --timeout 900

demo: build ## Start a service on a larger copy of the embedded model and watch its drafts learn
	@bash tools/demo.sh

# What another user built is installed as it is (`sudo make install`): a build as root would leave root's files there.
OWN := $(shell [ -e build/slipstream ] && [ ! -O build/slipstream ] || echo build)
install: $(OWN) ## Install under PREFIX (/usr/local): program, configuration, systemd unit, completions (DESTDIR stages)
	@DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(PREFIX)"

image: ## Build the container image `slipstream` (docker or podman)
	@$(or $(shell command -v docker),$(shell command -v podman),docker) build -t slipstream .

lint: setup ## clang-format, clang-tidy, include directions and documents (LINT_BASE=<commit>, default: last commit)
	@bash tools/lint.sh

format: ## clang-format every source file
	@git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | xargs clang-format-14 -i

asan: setup ## All C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@bash tools/build.sh asan $(JOBS) sanitized
	@ctest --test-dir build-asan --output-on-failure --no-tests=error -j $(JOBS) --timeout 1800

asan-io: setup ## The part of `asan` that CI runs: what reads files and sockets, and what keeps data
	@bash tools/build.sh asan-io $(JOBS) sanitized
	@ctest --test-dir build-asan-io --output-on-failure --no-tests=error -j $(JOBS) --timeout 1800

TSAN_OPTIONS := suppressions='$(CURDIR)/tests/tsan.supp' halt_on_error=1
tsan: setup ## The threading tests under ThreadSanitizer
	@bash tools/build.sh tsan $(JOBS) sanitized
	@TSAN_OPTIONS="$(TSAN_OPTIONS)" \
	  ctest --test-dir build-tsan --output-on-failure --no-tests=error -j $(JOBS) --timeout 1800

# The tests in which a learner's thread meets an engine's, a service's, or another learner's.
LEARNER_TESTS := ^(Learner|LearningLoop|UnitChoice|LossyInbox|ResidentTrainers|WrittenAndGiven|CanaryScorer|LiveWatch)
tsan-learner: setup ## The part of `tsan` that CI runs: the learner's threads
	@bash tools/build.sh tsan-learner $(JOBS) sanitized
	@TSAN_OPTIONS="$(TSAN_OPTIONS)" \
	  ctest --test-dir build-tsan-learner --output-on-failure --no-tests=error -j $(JOBS) --timeout 1800 -R '$(LEARNER_TESTS)'

clean: ## Remove build folders (.venv and .deps stay)
	@rm -rf build build-*

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' Makefile
