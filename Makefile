# `make demo` and `make test` do all set-up themselves; they need Python >= 3.10 and make, `make test` also a C++ compiler.
PYTHON ?= python3
BIN := .venv/bin

FUZZ_SECONDS ?= 60
FUZZED := sqlite parquet kineto kineto_gzip paddle run tables

.PHONY: demo test lint types unit unit-modules unit-others browser bench fuzz clean

demo: .venv/demo
	$(BIN)/fdprof compare sync async

test: lint types unit

lint: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# ops, scenarios and reports are type-checked under the names they install as.
types: .venv/test
	rm -rf build/mypy && mkdir -p build/mypy/fdprof
	for entry in fdprof/* ops scenarios reports; do ln -s ../../../$$entry build/mypy/fdprof/; done
	$(BIN)/mypy build/mypy/fdprof

# In two processes: alone they take a quarter of an hour.
unit: .venv/test browser
	+$(MAKE) --no-print-directory -j2 --output-sync=target unit-modules unit-others

unit-modules: .venv/test
	$(BIN)/python -m pytest tests/unit

unit-others: .venv/test browser
	$(BIN)/python -m pytest --ignore=tests/unit

# The tests of the HTML report drive a real Chromium; without one they are skipped, and say so.
browser:
	command -v chromedriver >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
	  { apt-get update -q && apt-get install -yq --no-install-recommends chromium chromium-driver; } || true

bench: .venv/test
	$(BIN)/python benchmarks/recorder_cost.py
	$(BIN)/python benchmarks/sim_speed.py

# Each reader by coverage for FUZZ_SECONDS, then hypothesis; what broke something lies in build/fuzz.
fuzz: .venv/fuzz
	for kind in $(FUZZED); do \
	  $(BIN)/python tests/fuzz/fuzz_reader.py $$kind build/fuzz -max_total_time=$(FUZZ_SECONDS) || exit 1; \
	done
	FUZZ_EXAMPLES=3000 $(BIN)/python -m pytest -q tests/unit/test_hostile_captures.py -k test_any_

.venv/made:
	$(PYTHON) -m venv .venv
	touch $@

.venv/demo: .venv/made pyproject.toml
	$(BIN)/python -m pip install --quiet -e .
	touch $@

.venv/test: .venv/made pyproject.toml
	$(BIN)/python -m pip install --quiet -e '.[test]'
	touch $@ .venv/demo

.venv/fuzz: .venv/test pyproject.toml
	$(BIN)/python -m pip install --quiet -e '.[fuzz]'
	touch $@

clean:
	rm -rf .venv build *.egg-info runs
