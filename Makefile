# What this checkout needs beyond Rust and Python 3 is installed into .tools, by version and hash.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:

PYTHON ?= python3
DENY_VERSION := 0.20.2

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
tools: $(LOCAL_VENV) $(WATCH_VENV) $(if $(FOUND_DENY),,$(OWN_DENY)) ## Installs into .tools what the other targets need

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
