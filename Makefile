# Every target makes its own .venv first (scripts/setup): nothing else needs to be installed by hand.
PY := .venv/bin/python
# Of the presets that a board would have the one whose simulator is built soonest.
CONFIG ?= n8

.PHONY: help setup demo test test-all check docs bench lock clean

help:
	@echo "make demo      run the digits network on the RTL (CONFIG=n8; n16 builds twice as long)"
	@echo "make test      all tests but the long sweeps"
	@echo "make test-all  all tests"
	@echo "make check     ruff and mypy"
	@echo "make docs      the documentation as a site, in build/site; checks every link"
	@echo "make bench     cycles and simulator speed; resources and clock of the bare accelerator"
	@echo "make lock      renew requirements.lock from pyproject.toml"
	@echo "make clean     remove what the targets above made, .venv too"

setup:
	@scripts/setup

demo: setup
	@$(PY) examples/digits/demo.py --config $(CONFIG)

test: setup
	@scripts/test -m "not slow"

test-all: setup
	@scripts/test

check: setup
	@$(PY) -m ruff check .
	@$(PY) -m mypy
	@$(PY) -m mypy examples scripts benches docs/figures

docs: setup
	@$(PY) docs/figures/draw.py
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet
	@echo "open build/site/index.html"

bench: setup
	@$(PY) benches/run.py

lock: setup
	@$(PY) scripts/lock.py

clean:
	rm -rf .venv build tq_hw.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis sim_build results.xml
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
