# Builds, runs and tests Maple. `make help` lists what there is.

PYTHON ?= python3
VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin
# Mininet's module belongs to the system's interpreter.
SYSTEM_PYTHON ?= /usr/bin/python3
MATURIN := $(VENV)/.maturin
TOOLS := $(VENV)/.tools
CARGO_TOOLS := $(CURDIR)/target/tools
CARGO_DENY_VERSION := 0.20.2
CARGO_AUDITABLE_VERSION := 0.7.7
CARGO_CYCLONEDX_VERSION := 0.5.9
CARGO_DENY := $(CARGO_TOOLS)/cargo-deny-$(CARGO_DENY_VERSION)/bin/cargo-deny
CARGO_AUDITABLE := $(CARGO_TOOLS)/cargo-auditable-$(CARGO_AUDITABLE_VERSION)/bin/cargo-auditable
CARGO_CYCLONEDX := $(CARGO_TOOLS)/cargo-cyclonedx-$(CARGO_CYCLONEDX_VERSION)/bin/cargo-cyclonedx
# How the Rust in the wheel is built: a profile of Cargo.toml, and features for development.
PROFILE = release
FEATURES =
# A distribution of its own.
IMPORTERS := python/maple/importers
# The page, in the folder of the crate that embeds it. Without Node, Maple is built without the page, and says so at `/`.
PAGE := crates/maple-controller/page/dist/index.html
PAGE_SOURCES := $(shell find web/src -type f) web/index.html web/package.json web/package-lock.json web/tsconfig.json web/vite.config.ts
NODE := $(shell node -e 'const [a, b] = process.versions.node.split(".").map(Number); if (a > 20 || (a === 20 && b >= 19)) console.log("node")' 2>/dev/null)
PAGE_IF_NODE := $(if $(NODE),$(PAGE))
# What the tests in Chromium need of npm; npm writes this file when it has installed the rest.
BROWSER_MODULES := tests/browser/node_modules/.package-lock.json
export CARGO_TERM_COLOR ?= auto
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: help demo build web docs test test-nightly test-programs test-rust test-python test-browser test-system bench-page screenshots system-packages lint-rust lint-python lint-web bench-runtime bench-flows bench-campus bench-http bench-restart bench-away bench-exchange bench-explain bench-record bench-tls bench-api bench-mutation bench-packages lint advisories dist debian-packages clean

help:
	@echo 'make demo   build into .venv and run a policy on an emulated ring of four switches (no root needed)'
	@echo 'make build  build into .venv: .venv/bin/maple, and the package maple'
	@echo 'make web    the page of `maple run --http`, which `make build` embeds; where there is Node 20, `make build` makes it too'
	@echo 'make docs   the documentation as a site, in target/site; any broken link is an error'
	@echo 'make test   all tests: Rust, Python, and as root those on Open vSwitch and Mininet'
	@echo 'make bench-runtime  throughput and latency of the runtime, and the figures of docs/results/runtime.md (a quarter of an hour)'
	@echo 'make bench-flows    new flows through whole networks, beside os-ken (docs/benchmarks.md; an hour)'
	@echo 'make bench-campus   500 flows a second through 200 emulated switches'
	@echo 'make bench-http  HTTP connection time on Open vSwitch under three controllers (root; docs/benchmarks.md)'
	@echo 'make bench-restart  what a restart and a reload cost the traffic on Open vSwitch, beside os-ken and Faucet (root; five minutes)'
	@echo 'make bench-away  what it costs the traffic on Open vSwitch that control connections end (root; an hour, ARGS="--seconds 4" some minutes)'
	@echo 'make bench-exchange  all rules of a switch are exchanged while packets flow (root, Open vSwitch; five minutes)'
	@echo 'make bench-explain  random packets, explained and traced on Open vSwitch (root; an hour for all examples)'
	@echo 'make bench-record  what recording costs, and an hour that is recorded and replayed (an hour and a quarter)'
	@echo 'make bench-page  how soon the page shows 1,000 switches and 10,000 hosts, and how smoothly (Chromium; two minutes)'
	@echo 'make screenshots  the pictures of the page in docs/images (Chromium)'
	@echo 'make bench-tls  what TLS costs the controller: packet-ins a core, reconnects of 5,000 switches (five minutes)'
	@echo 'make bench-api  what the HTTP API costs, and how quickly it answers beside full load (ten minutes)'
	@echo 'make bench-mutation  faults in the examples, and how many of them the examples own tests find (some minutes)'
	@echo 'make test-nightly  28,000 fresh random cases of the contract with the engine alone, 5,000 with the whole controller'
	@echo 'make lint   rustfmt, clippy, licences and versions of dependencies, ruff, mypy, stubtest, links of the documentation'
	@echo 'make dist   what a release consists of, in dist/: wheels, sdists, Debian package, static binary, lists of what is in them'
	@echo 'make advisories  known faults of dependencies (needs the network)'

# Built as quickly as can be; `make build` puts the program that runs fastest in its place. With ARGS='--http 127.0.0.1:8653'
# the network stays until Ctrl-C, and the last line names the page's address.
demo: PROFILE = demo
demo: build
	$(BIN)/maple run examples/secure_routing.py --emulate ring:4 $(if $(findstring --traffic,$(ARGS)),,--traffic 10s) $(ARGS)

build: $(MATURIN) $(PAGE_IF_NODE)
	$(BIN)/maturin build --profile $(PROFILE) --features '$(FEATURES)' --out target/wheels --compatibility linux
	cd $(IMPORTERS) && $(BIN)/hatchling build --target wheel --directory $(CURDIR)/target/wheels >/dev/null
	$(BIN)/pip install --quiet --force-reinstall --no-deps target/wheels/*.whl
	touch .venv/.installed

# Moved at once: other builds may be reading the files there.
web: $(PAGE)
$(PAGE): $(PAGE_SOURCES)
	@test -n '$(NODE)' || { echo 'make: the page needs Node 20.19 or newer, and npm' >&2; exit 1; }
	cd web && npm ci --silent --no-audit --no-fund && npm run --silent build
	rm -rf $(dir $(PAGE)) && mv web/dist $(dir $(PAGE))

$(BROWSER_MODULES): tests/browser/package-lock.json
	cd tests/browser && npm ci --silent --no-audit --no-fund
	touch $@

# A virtual environment with what builds the wheels. Debian's Python may lack ensurepip; then another pip fills it.
$(MATURIN): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	    { $(PYTHON) -m venv --without-pip $(VENV) && $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; }
	$(BIN)/pip install --quiet 'maturin>=1.9.4,<2' 'hatchling>=1.24,<2'
	touch $(MATURIN)

# The tools of tests, lints and documentation.
$(TOOLS): $(MATURIN)
	$(BIN)/pip install --quiet 'pytest>=8' 'pytest-xdist>=3.6' 'hypothesis>=6' 'mypy>=1.14' 'ruff>=0.9' \
	    'mkdocs-material>=9.5,<10' 'mkdocstrings-python>=1.10,<3' 'pyyaml>=6' 'types-pyyaml' 'aerleon>=1.18,<2' 'ruamel.yaml>=0.18' 'jsonschema>=4' 'types-jsonschema' 'schemathesis==4.32.5'
	touch $(TOOLS)

# As root it installs what tests need first: Rust tests want Open vSwitch and etcd too, and start their own. What Python's
# tests need is fetched while Rust is compiled, and their wheel is made while Rust's tests run.
test:
	@if [ "$$(id -u)" = 0 ]; then $(MAKE) --no-print-directory system-packages; fi
	@$(MAKE) --no-print-directory --jobs 2 test-programs $(TOOLS)
	@$(MAKE) --no-print-directory --jobs 2 test-rust build PROFILE=$(TEST_PROFILE) FEATURES=$(TEST_FEATURES)
	@$(MAKE) --no-print-directory --old-file build test-python test-browser test-system

# Two programs at a time, and of each three tests for two processors: those on sockets mostly wait.
test-rust: $(PAGE_IF_NODE)
	RUST_TEST_THREADS=$${RUST_TEST_THREADS:-$$((3 * $$(nproc) / 2))} $(PYTHON) tests/rust.py $(AS_IN_WHEEL)
test-programs: $(PAGE_IF_NODE)
	cargo test --no-run --quiet $(AS_IN_WHEEL)
# What the wheel for tests has too, so that it takes the same crates. The tests of maple-python are in Python.
AS_IN_WHEEL = --workspace --features maple-python/bench,maple-python/as-in-tests

# Both contracts with many more fresh cases than in each run. Each seed is printed; MAPLE_SEED=N plays it again.
test-nightly:
	MAPLE_CASES=28000 cargo test -p maple-sim --test network contract -- --nocapture
	MAPLE_CASES=5000 cargo test -p maple-lab --test all contract -- --nocapture
	MAPLE_FRAMES=20000 cargo test -p maple-switch --test open_vswitch -- --nocapture

# They wait for processes most of the time.
test-python: build $(TOOLS)
	$(BIN)/python -m pytest tests/python --numprocesses 6 --dist loadfile

# Tests take the program with the crates that `cargo test` has built, and with the benchmark that has policies in Python;
# `make build` puts the one that runs fastest in its place.
TEST_PROFILE = dev
TEST_FEATURES = bench,as-in-tests
test-python test-browser test-system: PROFILE = $(TEST_PROFILE)
test-python test-browser test-system: FEATURES = $(TEST_FEATURES)

# The page in Debian's Chromium, and what it works out without one. Both are skipped where Node or Chromium is missing, but not in CI.
test-browser: build $(if $(NODE),$(BROWSER_MODULES))
	@if [ -n '$(NODE)' ] && which chromium >/dev/null; then \
	    (cd web && { [ -d node_modules ] || npm ci --silent --no-audit --no-fund; } && npm test --silent) && \
	    cd tests/browser && MAPLE=$(BIN)/maple npm test --silent; \
	elif [ "$$CI" = true ]; then \
	    echo 'make: the tests of the page need Node 20.19 and Chromium, and may not be skipped in CI' >&2; exit 1; \
	else \
	    echo '*** SKIPPED: the tests of the page (web, tests/browser) need Node 20.19 and Chromium ***' >&2; \
	fi

# The page on 1,000 switches and 10,000 hosts: the first picture, frames a second, from an event to the screen.
bench-page: build $(BROWSER_MODULES)
	cd tests/browser && MAPLE=$(BIN)/maple node measure.js

# The pictures of the page in docs/images.
screenshots: build $(BROWSER_MODULES)
	cd tests/browser && MAPLE=$(BIN)/maple node screenshots.js

# Six files at once, each with an Open vSwitch of its own. The examples in Rust are those that `cargo test` builds.
test-system: build $(if $(NODE),$(BROWSER_MODULES))
	@if [ "$$(id -u)" = 0 ]; then \
	    $(MAKE) --no-print-directory system-packages && \
	    cargo test --no-run --quiet $(AS_IN_WHEEL) && \
	    MAPLE=$(BIN)/maple $(SYSTEM_PYTHON) tests/system/parallel.py; \
	elif [ "$$CI" = true ]; then \
	    echo 'make: the tests on Open vSwitch and Mininet need root, and may not be skipped in CI' >&2; exit 1; \
	else \
	    echo '*** SKIPPED: the tests on Open vSwitch and Mininet (tests/system) need root ***' >&2; \
	fi

# What the tests on Open vSwitch, Mininet, Prometheus, etcd, in Chromium and of the Debian package need; installed where it is absent.
system-packages: debian-packages
	@if ! $(SYSTEM_PYTHON) -c 'import mininet, pytest' 2>/dev/null || ! which ovs-vswitchd mn ethtool ping ip curl prometheus promtool chromium etcd etcdctl >/dev/null; then \
	    apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
	        openvswitch-switch mininet python3-pytest ethtool iputils-ping iproute2 curl prometheus chromium etcd-server etcd-client; \
	fi

# Tables and plots go to target/bench/runtime, the finished figures to docs/results/runtime. AGAINST='NAME=COMMAND {port}' compares.
bench-runtime:
	cargo build --release -p maple-cli -p maple-bench
	bench/runtime/run.sh "$$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release/maple-bench" \
	    $(CURDIR)/target/bench/runtime; status=$$?; cp target/bench/runtime/*.svg docs/results/runtime/; exit $$status

# os-ken, to compare with, in an environment of its own.
PEERS := $(CURDIR)/target/peers
$(PEERS)/bin/python:
	$(PYTHON) -m venv $(PEERS) || \
	    { $(PYTHON) -m venv --without-pip $(PEERS) && $(PYTHON) -m pip --python $(PEERS)/bin/python install --quiet pip; }
	$(PEERS)/bin/python -m pip install --quiet os-ken

# ARGS="--lines 1 --leaves 1000" and the like; `maple-bench flows --help` has all. The row of os-ken is OpenFlow 1.0, one switch.
bench-flows: build $(PEERS)/bin/python
	cargo run --release -p maple-bench -- flows --maple $(BIN)/maple --policy builtin:shortest-path --policy examples/shortest_path.py --heap --plot target/bench/flows $(ARGS)
	cargo run --release -p maple-bench -- flows --maple $(BIN)/maple --policy builtin:shortest-path --policy examples/shortest_path.py --of 1.0 --lines 1 --hosts 128 --leaves 1000,5000 \
	    --against 'os-ken=$(PEERS)/bin/python bench/peers/os_ken_simple_switch.py {port}'

# ARGS="--of 1.0" and the like go to `maple emulate`; RATE, TRAFFIC, POLICY, CORES as in the script.
bench-campus:
	cargo build --release -p maple-cli
	bench/campus/run.sh "$$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release/maple" $(ARGS)

# ARGS="--rates 1,100 --json" and the like; bench/http/run.py --help has all.
bench-http: build bench-packages
	MAPLE=$(BIN)/maple $(SYSTEM_PYTHON) bench/http/run.py --plot target/bench $(ARGS)

# ARGS="--minutes 5 --rounds 10" and the like; bench/record/measure.py --help has all. An hour is recorded in an hour.
bench-record: build
	$(BIN)/python bench/record/measure.py $(ARGS)
	$(BIN)/python bench/record/measure.py --policy bench/record/misses.py --macs 1000000 --minutes 0 $(ARGS)

# Faucet likewise. It needs a version of os-ken of its own.
FAUCET := $(CURDIR)/target/faucet
$(FAUCET)/bin/faucet:
	$(PYTHON) -m venv $(FAUCET) || \
	    { $(PYTHON) -m venv --without-pip $(FAUCET) && $(PYTHON) -m pip --python $(FAUCET)/bin/python install --quiet pip; }
	$(FAUCET)/bin/python -m pip install --quiet faucet

# The same restart under os-ken and Faucet beside it. ARGS='--json FILE' has all figures.
bench-restart: build bench-packages $(PEERS)/bin/python $(FAUCET)/bin/faucet
	mkdir -p target/bench
	MAPLE=$(BIN)/maple $(SYSTEM_PYTHON) bench/restart/run.py --os-ken $(PEERS)/bin/python --faucet $(FAUCET)/bin/faucet \
	    --plot target/bench/restart.svg $(ARGS)

# ARGS='--seconds 4 --of OpenFlow13' and the like.
bench-away: build bench-packages
	MAPLE=$(BIN)/maple $(SYSTEM_PYTHON) bench/restart/away.py $(ARGS)

# ARGS='--rules 20000 --seconds 15' and the like.
bench-exchange: build bench-packages
	MAPLE=$(BIN)/maple $(SYSTEM_PYTHON) bench/restart/exchange.py $(ARGS)

# ARGS='--rounds 3' and the like.
bench-tls: build
	$(BIN)/python bench/tls/measure.py $(ARGS)

# ARGS='--periods 4 --flaps 100' and the like. From an event to the screen: bench-page.
bench-api: build
	$(BIN)/python bench/api/measure.py $(ARGS)

# ARGS='acl learning --packets 1000' and the like.
bench-explain: build bench-packages
	$(SYSTEM_PYTHON) bench/explain/run.py $(ARGS)

# ARGS='--only acl --jobs 2' and the like.
bench-mutation: build $(TOOLS)
	$(BIN)/python bench/mutation/run.py $(ARGS)

# What the Debian package is made, checked and installed with.
debian-packages:
	@if ! which dh dh_python3 lintian adduser >/dev/null; then \
	    apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
	        debhelper dh-python lintian adduser; \
	fi

# What the benchmarks on Open vSwitch and Mininet needs besides what the tests do.
bench-packages: system-packages
	@if ! $(SYSTEM_PYTHON) -c 'import matplotlib' 2>/dev/null || ! which fping httperf iperf3 >/dev/null; then \
	    apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
	        fping httperf iperf3 python3-matplotlib; \
	fi

lint: lint-rust lint-python lint-web

# Documentation is built twice: the second time with what only a crate itself sees, and its links.
lint-rust: $(CARGO_DENY)
	cargo fmt --all --check
	$(CARGO_DENY) --locked check licenses bans sources
	cargo clippy --workspace --all-targets --features maple-python/bench -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --exclude maple-python --no-deps --quiet
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --exclude maple-python --no-deps --quiet --document-private-items
	cargo package --workspace --exclude maple-python --exclude maple-sim --exclude maple-bench --no-verify --allow-dirty --quiet

# The stubs are compared with the wheel that was installed last.
lint-python: $(TOOLS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	MYPYPATH=python $(BIN)/python -m mypy.stubtest maple._maple
	$(MAKE) --no-print-directory docs

# The types of the page; its tests are in `make test-browser`.
lint-web: $(PAGE_IF_NODE)
	@if [ -n '$(NODE)' ]; then cd web && { [ -d node_modules ] || npm ci --silent --no-audit --no-fund; } && npm run --silent lint; \
	elif [ "$$CI" = true ]; then echo 'make: the lint of the page needs Node 20.19' >&2; exit 1; \
	else echo '*** SKIPPED: the lint of the page (web) needs Node 20.19 ***' >&2; fi

# What a release consists of, in dist/ (docs/install.md). Zig links the wheel to an older glibc than this system's, so that
# it works on older systems. cargo-auditable puts the list of dependencies into both binaries; maturin and the script for
# the static binary run it in the place of cargo.
MANYLINUX := manylinux_2_28
AUDITABLE := $(CARGO_TOOLS)/auditable
dist: $(MATURIN) $(PAGE) $(CARGO_AUDITABLE) $(CARGO_CYCLONEDX) debian-packages
	rm -rf dist && mkdir dist
	$(BIN)/pip install --quiet 'ziglang==0.15.2'
	printf '#!/bin/sh\nunset CARGO\nPATH=%s:$$PATH exec cargo auditable "$$@"\n' '$(dir $(CARGO_AUDITABLE))' > $(AUDITABLE) && chmod +x $(AUDITABLE)
	PATH=$(BIN):$$PATH CARGO=$(AUDITABLE) $(BIN)/maturin build --profile $(PROFILE) --strip --out dist --zig --compatibility $(MANYLINUX)
	$(BIN)/maturin sdist --out dist
	cd $(IMPORTERS) && $(BIN)/hatchling build --directory $(CURDIR)/dist
	CARGO=$(AUDITABLE) contrib/release/static $(PROFILE) dist
	contrib/release/licences.py > dist/licences.txt
	contrib/debian/build dist/maple_sdn-*.whl dist/maple_importers-*.whl dist/licences.txt dist
	contrib/release/sbom $(CARGO_CYCLONEDX) dist
	cp contrib/Containerfile dist
	cd dist && sha256sum * > SHA256SUMS
	@ls -l dist

# The database of advisories is fetched, so this is not a part of `make lint`. It fails too where it can't be fetched.
advisories: $(CARGO_DENY)
	$(CARGO_DENY) --locked check advisories

# A tool of Cargo's, each with its version. Not optimised: compiling one takes a minute, running it seconds.
CARGO_TOOL = CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR=$(CARGO_TOOLS)/build cargo install --quiet --locked --debug
$(CARGO_DENY):
	$(CARGO_TOOL) --root $(@:/bin/cargo-deny=) cargo-deny@$(CARGO_DENY_VERSION)
$(CARGO_AUDITABLE):
	$(CARGO_TOOL) --root $(@:/bin/cargo-auditable=) cargo-auditable@$(CARGO_AUDITABLE_VERSION)
$(CARGO_CYCLONEDX):
	$(CARGO_TOOL) --root $(@:/bin/cargo-cyclonedx=) cargo-cyclonedx@$(CARGO_CYCLONEDX_VERSION)

# The reference of Rust is `cargo doc`'s: too slow to build for each check.
docs: $(TOOLS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:
	cargo clean
	rm -rf $(VENV) dist
