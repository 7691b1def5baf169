# Every target stands alone: it makes the virtual environment it needs. `make help` lists them.
PYTHON  ?= python3
VENV    := .venv
MINUTES ?= 60
BIN     := $(VENV)/bin
# `--without-pip` and `pip --python`: Debian's python3 has venv and pip, but not ensurepip.
INSTALL = $(PYTHON) -m venv --without-pip $(VENV) && \
          $(PYTHON) -m pip --python $(BIN)/python install --quiet --disable-pip-version-check

# EXTRA=scrapy installs a large extra as well, without which its tests are skipped.
comma := ,

# The suite starts hundreds of programs: without byte code each one compiles DPQ anew, which doubles
# its time, and each of pytest's processes all tests.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test coverage check lint twins bench soak test-all pictures docs mutants wheel sdist packages newest redis-versions clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

demo: $(VENV)/.run ## crawl the standard library under two limits; one of three processes is killed
	$(BIN)/python examples/crawler.py --modules 180 $(ARGS)

test: $(VENV)/.test ## run the suite on every real server found
	$(BIN)/python -m pytest --durations=10 -n 5 --dist worksteal $(ARGS)

coverage: ## the same, and which branches of dpq/ it has not run; it takes twice as long
	$(MAKE) test ARGS="--cov --cov-report=term $(ARGS)"

check: $(VENV)/.dev lint test ## what must pass before a commit: format, lint, types, tests

lint: $(VENV)/.dev ## format, lint and types; also of what documents and examples show
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q --hypothesis-profile soak tests/daemon/test_types.py

twins: $(VENV)/.dev ## make the blocking twins of the asyncio modules anew: tools/twins.py
	$(BIN)/python tools/twins.py

bench: $(VENV)/.test ## measure, as ratios against the raw Redis commands; writes benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks --write $(ARGS)

soak: $(VENV)/.test ## an hour (MINUTES=60) of work under kills, failovers and clock steps; writes tests/soak/REPORT.md
	PYTHONPATH=tests $(BIN)/python -m soak --minutes $(MINUTES) --keep --out tests/soak/REPORT.md $(ARGS)

test-all: $(VENV)/.test ## every test on every server found, with long searches and many faults
	$(BIN)/python tests/all_servers.py $(or $(ARGS),-n 3 --dist worksteal)

pictures: $(VENV)/.test ## take the dashboard's pictures in docs/ anew, from a crawl (with Chromium)
	$(INSTALL) pillow
	$(BIN)/python tools/dashboard_pictures.py

docs: $(VENV)/.docs ## build the site of docs/ into site/
	$(BIN)/zensical build

mutants: $(VENV)/.test ## plant changes in copies of the code, one by one: do the tests catch them?
	PYTHONPATH=tests $(BIN)/python -m mutants $(ARGS)

wheel: ## build dist/delayed_priority_queue-VERSION-py3-none-any.whl, to be installed by pip
	$(PYTHON) -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

sdist: $(VENV)/.test ## build dist/delayed_priority_queue-VERSION.tar.gz, with tests and documents
	$(BIN)/python -m hatchling build -t sdist -d dist

packages: $(VENV)/.test ## install wheel and sdist in clean environments: each Python, each extra (ARGS="web httpx")
	$(BIN)/python tools/packages.py $(ARGS)

newest: $(VENV)/.test ## test with the newest of all dependencies, without upper bounds; it only warns
	$(BIN)/python tools/packages.py --newest $(ARGS)

redis-versions: $(VENV)/.test ## run the core of the tests on the redis-py versions that DPQ supports (ARGS="6.4")
	$(BIN)/python tools/packages.py --redis $(ARGS)

clean: ## remove the virtual environment and all caches
	rm -rf $(VENV) dist build site .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache

$(VENV)/.run: pyproject.toml
	$(INSTALL) --editable '.[embedded,fast]'
	@touch $@

$(VENV)/.test: pyproject.toml
	$(INSTALL) --editable '.[embedded,fast,web,test$(if $(EXTRA),$(comma)$(EXTRA))]'
	@touch $@ $(VENV)/.run

$(VENV)/.dev: pyproject.toml
	$(INSTALL) --editable '.[embedded,fast,web,test,dev$(if $(EXTRA),$(comma)$(EXTRA))]'
	@touch $@ $(VENV)/.test $(VENV)/.run

$(VENV)/.docs: pyproject.toml
	$(INSTALL) --editable '.[docs]'
	@touch $@
