# What this checkout needs beyond Rust and Python 3 is installed into .tools, by version and hash.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:

PYTHON ?= python3
DENY_VERSION := 0.20.2
FUZZ_VERSION := 0.13.2

TOOLS := $(CURDIR)/.tools
TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))
RELEASE := $(TARGET_DIR)/release
TIDEGATE := $(RELEASE)/tidegate

# The local AWS (ministack) and what deploys into it; cargo-lambda, for `make watch` alone.
LOCAL_VENV := $(TOOLS)/local/.installed
LOCAL_PYTHON := $(TOOLS)/local/bin/python
WATCH_VENV := $(TOOLS)/watch/.installed
WATCH_BIN := $(TOOLS)/watch/bin

# A cargo-deny of the same version on the PATH is as good as our own, and saves building it.
FOUND_DENY := $(filter $(DENY_VERSION),$(shell cargo-deny --version 2>/dev/null))
OWN_DENY := $(TOOLS)/deny/.installed-$(DENY_VERSION)
CARGO_DENY := $(if $(FOUND_DENY),cargo-deny,$(TOOLS)/deny/bin/cargo-deny)

# On the stable toolchain: without a sanitizer cargo-fuzz needs no nightly, and in safe Rust (core
# forbids unsafe code) a sanitizer would find little. What finds are the oracles in tests/oracles.
OWN_FUZZ := $(TOOLS)/fuzz/.installed-$(FUZZ_VERSION)
CARGO_FUZZ := $(TOOLS)/fuzz/bin/cargo-fuzz fuzz
FUZZ_OPTIONS := --fuzz-dir tests/fuzz --sanitizer none --target-dir $(TARGET_DIR)/fuzz
# What a run finds stays here: inputs that reach something new, crashes, the log.
FUZZ_FOUND := .local/fuzz

# For `make run`: QUOTA=200 MESSAGES=6000 LATENCY=80ms SECONDS=120 KEEP=1, or any options in ARGS.
LOCAL_OPTIONS = --python $(LOCAL_PYTHON) --bin-dir $(RELEASE) \
  $(if $(QUOTA),--quota $(QUOTA)) $(if $(MESSAGES),--messages $(MESSAGES)) \
  $(if $(LATENCY),--latency $(LATENCY)) \
  $(if $(filter command line,$(origin SECONDS)),--seconds $(SECONDS)) \
  $(if $(KEEP),--keep-running) $(ARGS)

# ---------------------------------------------------------------------------------- to use it

.PHONY: help
help: ## What can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: $(LOCAL_VENV) build ## Sends two campaigns through a local AWS, and reports (QUOTA MESSAGES LATENCY SECONDS KEEP ARGS)
	$(TIDEGATE) local $(LOCAL_OPTIONS)

.PHONY: watch
watch: $(LOCAL_VENV) $(WATCH_VENV) build ## The same on `cargo lambda watch`, for work on the code
	PATH="$(WATCH_BIN):$$PATH" $(TIDEGATE) local --watch $(LOCAL_OPTIONS)

FUNCTION ?= poller
EVENT ?= events/empty_tick.json
.PHONY: invoke
invoke: $(WATCH_VENV) ## Invokes a function under `make watch` (FUNCTION=poller EVENT=events/tick.json)
	$(WATCH_BIN)/cargo-lambda lambda invoke $(FUNCTION) --data-file $(EVENT)

# ---------------------------------------------------------------------------------- to build it

.PHONY: build
build: rust ## Builds every binary for this machine, in release mode
	cargo build --release --locked --workspace --bins

.PHONY: tools
tools: $(LOCAL_VENV) $(WATCH_VENV) $(OWN_FUZZ) $(if $(FOUND_DENY),,$(OWN_DENY)) ## Installs into .tools what the other targets need

.PHONY: clean
clean: ## Removes what was built, installed into .tools, or left by a local run
	cargo clean
	rm -rf .tools .local

# ---------------------------------------------------------------------------------- to prove it

.PHONY: test
test: lint doc test-infra test-rust ## Everything that CI checks

.PHONY: lint
lint: rust deny ## Format, clippy without a warning, licences and sources of the dependencies
	cargo fmt --all --check
	cargo fmt --manifest-path tests/fuzz/Cargo.toml --check
	cargo clippy --locked --workspace --all-targets -- -D warnings

.PHONY: deny
deny: rust $(if $(FOUND_DENY),,$(OWN_DENY))
	$(CARGO_DENY) --locked --workspace check licenses bans sources

.PHONY: audit
audit: rust $(if $(FOUND_DENY),,$(OWN_DENY)) ## Known vulnerabilities of the dependencies (needs the network)
	$(CARGO_DENY) --locked --workspace check advisories

.PHONY: doc
doc: rust ## The documentation, without a broken link
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps

.PHONY: test-infra
test-infra: $(LOCAL_VENV) ## The template and its local deployment
	cd infra/local && AWS_DEFAULT_REGION=us-east-1 $(LOCAL_PYTHON) -B -m unittest
	cd infra/bench && $(PYTHON) -B -m unittest

# End to end runs on the release binaries and on the local AWS.
.PHONY: test-rust
test-rust: $(LOCAL_VENV) build ## Unit, property, contract and end-to-end tests
	TIDEGATE_PYTHON=$(LOCAL_PYTHON) TIDEGATE_BIN_DIR=$(RELEASE) cargo test --locked --workspace

FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?= message tick attributes configuration
.PHONY: fuzz
fuzz: rust cxx $(OWN_FUZZ) ## Fuzzes the parsers, one after the other (FUZZ_SECONDS=60 each, FUZZ_TARGETS="message tick")
	cargo fetch --locked --manifest-path tests/fuzz/Cargo.toml
	$(CARGO_FUZZ) build $(FUZZ_OPTIONS)
	@for target in $(FUZZ_TARGETS); do $(MAKE) --no-print-directory fuzz-$$target; done

# The log of libFuzzer is long; its last line says executions, coverage and speed.
fuzz-%:
	@mkdir -p $(FUZZ_FOUND)/$*/corpus $(FUZZ_FOUND)/$*/crashes
	@$(CARGO_FUZZ) run $(FUZZ_OPTIONS) $* \
	    $(FUZZ_FOUND)/$*/corpus tests/fuzz/corpus/$* events -- \
	    -max_total_time=$(FUZZ_SECONDS) -timeout=10 -print_final_stats=1 \
	    -dict=tests/fuzz/dictionaries/$*.dict -artifact_prefix=$(FUZZ_FOUND)/$*/crashes/ \
	    > $(FUZZ_FOUND)/$*/log 2>&1 || { \
	  grep -m1 -A2 'panicked at' $(FUZZ_FOUND)/$*/log >&2 || tail -n 20 $(FUZZ_FOUND)/$*/log >&2; \
	  found=$$(ls -t $(FUZZ_FOUND)/$*/crashes | head -n 1); \
	  echo "make: $* does not hold (all of it: $(FUZZ_FOUND)/$*/log). To replay it:" >&2; \
	  echo "  cargo run --locked -p tidegate-oracles --example replay -- $* $(FUZZ_FOUND)/$*/crashes/$$found" >&2; \
	  exit 1; }
	@echo "$*: $$(grep -a DONE $(FUZZ_FOUND)/$*/log | tail -n 1)"

ONLY ?=
.PHONY: bench
bench: $(LOCAL_VENV) build ## The README's figures, measured here (ONLY=start,14,200,… for a part)
	$(PYTHON) infra/bench/bench.py --python $(LOCAL_PYTHON) --bin-dir $(RELEASE) $(if $(ONLY),--only $(ONLY))
	$(if $(ONLY),,cargo bench --locked -p tidegate-core --bench decisions)

# ---------------------------------------------------------------------------------- what it needs

.PHONY: rust
rust:
	@command -v cargo >/dev/null || { \
	  echo "make: Rust is missing. Install rustup (https://rustup.rs); rust-toolchain.toml picks the version." >&2; \
	  exit 1; }

# libFuzzer is C++, and built from its source.
.PHONY: cxx
cxx:
	@command -v $${CXX:-c++} >/dev/null || { \
	  echo "make: a C++ compiler is missing. Install one (Debian, Ubuntu: apt-get install g++; macOS: xcode-select --install)." >&2; \
	  exit 1; }

.PHONY: python
python:
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || { \
	  echo "make: Python 3.10 or newer with venv is missing. Install it (Debian, Ubuntu: apt-get install python3 python3-venv;" >&2; \
	  echo "      macOS: brew install python3), or name another: make PYTHON=/path/to/python3" >&2; \
	  exit 1; }

$(LOCAL_VENV): infra/local/requirements.txt | python
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	touch $@

$(WATCH_VENV): infra/local/requirements-watch.txt | python
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r $<
	touch $@

$(OWN_DENY): | rust
	cargo install cargo-deny --locked --version $(DENY_VERSION) --root $(@D)
	touch $@

$(OWN_FUZZ): | rust
	cargo install cargo-fuzz --locked --version $(FUZZ_VERSION) --root $(@D)
	touch $@
