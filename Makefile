# Two commands for everybody: `make run` and `make test`. The others are for those who change the code.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# The node that `make run` simulates where there is no driver.
SCENARIO ?= rtx5090-x8-ddp-bound
# Extra pytest options; .ci/run passes --no-skips.
TESTFLAGS ?=
LOCKING := --quiet --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.10

.PHONY: run test check format docs golden lock soak clean

run: $(VENV)/runtime
	@if [ -e /proc/driver/nvidia/version ] || $(BIN)/python -c 'import ctypes; ctypes.CDLL("libnvidia-ml.so.1")' 2>/dev/null; then \
	    exec $(BIN)/gpumon run; \
	else \
	    echo; echo "  No NVIDIA driver here: SIMULATING 8x RTX 5090. Every figure is made up (gpumon_node_simulated 1)."; echo; \
	    exec $(BIN)/gpumon run --simulate $(SCENARIO); \
	fi

# The whole suite: no GPU, no root, no network beyond the package index. What runs in real time runs alone.
test: $(VENV)/development
	$(BIN)/pytest -n 2 -m "not realtime" $(TESTFLAGS)
	$(BIN)/pytest -m realtime $(TESTFLAGS)

# What review asks for: format, lint, types, then the suite.
check: $(VENV)/development
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(MAKE) test

format: $(VENV)/development
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# Files that are written from the tables in the code. The dashboards need Python 3.11.
docs: $(VENV)/development
	$(BIN)/python -m gpumon.config.example > config.example.toml
	$(BIN)/python -m tools.reference
	$(BIN)/python -m tools.alerting
	$(BIN)/python -m grafana.generate

# requirements.txt: what a node gets, for the packages. requirements-dev.txt: the same and what the tests need.
lock: $(VENV)/development
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile $(LOCKING) pyproject.toml --no-annotate -o requirements.txt
	$(BIN)/uv pip compile $(LOCKING) --constraint requirements.txt pyproject.toml requirements-dev.in -o requirements-dev.txt

# Ten times the healthy transitions of the suite, on both versions of Prometheus and through the whole analysis, and a
# day of steady jobs: some hours on two cores.
soak: $(VENV)/development
	TRANSITIONS=2000 $(BIN)/pytest tests/rules/test_transitions.py tests/findings/test_healthy.py $(TESTFLAGS)
	TRANSITIONS=2000 STEADY_HOURS=24 $(BIN)/pytest -n 2 tests/accuracy/test_changes.py $(TESTFLAGS)

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# Runtime only: what a node gets. Compiled, since bytecode halves the memory of a start.
$(VENV)/runtime: $(VENV)/bin/python pyproject.toml
	$(BIN)/pip install --quiet --editable .
	@$(BIN)/python -m compileall -q gpumon
	@touch $@

$(VENV)/development: $(VENV)/bin/python requirements-dev.txt pyproject.toml
	$(BIN)/pip install --quiet --require-hashes -r requirements-dev.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@ $(VENV)/runtime
