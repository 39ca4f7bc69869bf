# `make demo` and `make test` do all set-up themselves; they need Python >= 3.10 and make, `make test` also a C++ compiler.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint types unit bench clean

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

unit: .venv/test
	$(BIN)/python -m pytest

bench: .venv/test
	$(BIN)/python benchmarks/recorder_cost.py
	$(BIN)/python benchmarks/sim_speed.py

.venv/made:
	$(PYTHON) -m venv .venv
	touch $@

.venv/demo: .venv/made pyproject.toml
	$(BIN)/python -m pip install --quiet -e .
	touch $@

.venv/test: .venv/made pyproject.toml
	$(BIN)/python -m pip install --quiet -e '.[test]'
	touch $@ .venv/demo

clean:
	rm -rf .venv build *.egg-info runs
