# Two commands do everything: `make demo` and `make test`. `make help` lists the rest.
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON = python3
VENV = .venv
BIN = $(VENV)/bin
SECONDS = 60
BUS = zeromq
SHAPE = requests
MINUTES = 10
WORKERS = 2
LANES = 3
SPARKS = 2
SOURCES = coordinator agent api cli pipeline simulation proto tests tools bench examples hatch_build.py

# Every start of a process would compile all modules again where this is set, as it is in
# many images: importing the server takes 3.3 s of a core instead of 1.4.
unexport PYTHONDONTWRITEBYTECODE

# Quick tests: no process, no socket, no clock.  Those marked `long` take a second or
# more of a core, and run with the simulation.
QUICK = tests/unit tests/scenarios coordinator agent cli
SIMULATED = tests/simulation
REAL = tests/api tests/web tests/integration tests/e2e

# Tests of real parts wait most of the time: LANES of them run at once, a module in one
# lane.  Spark computes in SPARKS lanes, and gets what they leave of the cores: a test of
# it may take long.  Tests marked `alone` promise something about time: they run after
# services and Spark, in two lanes, beside nothing but the simulation.  They leave most of
# the cores to it, whose results no load can change, so it begins after the services.
# What fails there for want of the machine runs once more, by itself (decision 63).
# `make test` leaves out what is marked `thorough` (decision 77).
SAMPLE = $(if $(BESIDE), and not thorough)
LANE = $(BIN)/pytest -q --cache-clear -o cache_dir=.pytest_cache/$@
FAILED = .pytest_cache/$@/v/cache/lastfailed
FORGIVEN = $(if $(AGAIN),|| { [ $$? = 1 ] && grep -qs : $(FAILED) && [ $$(grep -c : $(FAILED)) -le 20 ]; })
SIDE_BY_SIDE = $(MAKE) --no-print-directory --output-sync=target
POLITE = nice -n 10
LEFTOVER = nice -n 19

# The demo needs the server alone; the checks and tests need all tools.
READY = $(VENV)/.installed
DEMO_EXTRAS = server$(if $(filter kafka,$(BUS)),-kafka)
DEMO_READY = $(or $(wildcard $(READY)),$(VENV)/.installed-$(DEMO_EXTRAS))

.PHONY: help demo docs test check format lint types mypy pyright layers unit simulated sampled \
  real parts programs services pipeline alone again compiled accuracy regimes soak bench peers clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

INSTALLED_FROM = pyproject.toml hatch_build.py tools/front_door.py tools/make_venv.sh

$(READY): $(INSTALLED_FROM)
	@PYTHON="$(PYTHON)" VENV="$(VENV)" sh tools/make_venv.sh dev "three minutes, 2.3 GB"
	@touch $@

$(VENV)/.installed-$(DEMO_EXTRAS): $(INSTALLED_FROM)
	@PYTHON="$(PYTHON)" VENV="$(VENV)" sh tools/make_venv.sh $(DEMO_EXTRAS) "under a minute, 200 MB"
	@touch $@

demo: $(DEMO_READY) ## run one quota over five processes  (SECONDS=30, BUS=kafka, SHAPE=tokens)
	@if [ "$(BUS)" = kafka ]; then sh tools/require.sh java maven; fi
	@$(BIN)/headgate demo --seconds $(SECONDS) --bus $(BUS) --shape $(SHAPE)

test: ## run everything, with real services
	@$(MAKE) --no-print-directory --output-sync=line -j3 programs check types docs parts
	@echo "headgate: running services and Spark side by side, then the simulation; each prints its tests when it ends"
	@$(SIDE_BY_SIDE) -j3 AGAIN=yes BESIDE=sampled again

check: format lint mypy layers unit ## check format, lint, types and layers; run the unit tests

format: $(READY) ## check the formatting (`ruff format .` fixes it)
	@$(BIN)/ruff format --quiet --check . || { $(BIN)/ruff format --check .; exit 1; }

lint: $(READY)
	@$(BIN)/ruff check --quiet .

types: mypy pyright ## check types with both checkers

mypy: $(READY)
	@$(BIN)/mypy --no-error-summary

pyright: $(READY)
	@$(BIN)/pyright --pythonpath $(BIN)/python > $(VENV)/pyright.txt || { cat $(VENV)/pyright.txt; exit 1; }

layers: $(READY)
	@$(BIN)/python tools/check_layers.py > $(VENV)/layers.txt || { cat $(VENV)/layers.txt; exit 1; }

docs: $(READY) ## build the documentation site in .headgate/site and check its links
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

unit: $(READY) ## run the unit tests and doctests
	@$(BIN)/pytest -q -n $(WORKERS) -m "not long" $(QUICK)

simulated: $(READY) ## run the whole scenario library and the long unit tests
	@$(LEFTOVER) $(BIN)/pytest -q -n $(WORKERS) --timeout 3600 -m long $(SIMULATED) $(QUICK)

sampled: $(READY)
	@$(LEFTOVER) $(BIN)/pytest -q -n $(WORKERS) --timeout 3600 -m "long and not thorough" $(SIMULATED) $(QUICK)

real: parts ## run the tests with Kafka, ZeroMQ, HTTP, Spark and processes
	@echo "headgate: running services and Spark side by side; each prints its tests when it ends"
	@$(SIDE_BY_SIDE) -j2 AGAIN=yes again

parts: programs $(READY)
	@sh tools/fetch_parts.sh $(BIN)

# First, and beside pip, which uses one core.
programs:
	@sh tools/require.sh java maven postgresql redis nginx browser go

services: $(READY)
	@$(LANE) -n $(LANES) --dist loadfile -m "not alone$(SAMPLE)" $(REAL) $(FORGIVEN)

pipeline: $(READY)
	@$(POLITE) $(LANE) -n $(SPARKS) --dist loadfile --timeout 1200 -m "not alone$(SAMPLE)" tests/pipeline $(FORGIVEN)

alone: $(READY)
	@$(LANE) -n $(if $(filter 1,$(LANES)),1,2) --dist loadfile -m alone $(REAL) $(FORGIVEN)

ifdef AGAIN
sampled: services
alone: services pipeline
again: alone $(BESIDE)
endif

again: $(READY)
	@failed=; for lane in services pipeline alone; do \
	  cache=.pytest_cache/$$lane; \
	  grep -qs : $$cache/v/cache/lastfailed || continue; \
	  echo "headgate: running the failed tests of $$lane once more, on their own"; \
	  $(BIN)/pytest -q --timeout 1200 --last-failed --last-failed-no-failures none \
	    -o cache_dir=$$cache $(REAL) tests/pipeline || failed=yes; \
	done; [ -z "$$failed" ]

compiled: $(READY) ## run the limiter's tests on a wheel compiled by mypyc
	@$(BIN)/python tools/check_compiled.py

accuracy: $(READY) ## write docs/accuracy.md from ten seeds of each scenario
	@$(BIN)/python -m headgate.simulation.accuracy

regimes: $(READY) ## write docs/regimes.md from the grid of regimes; continues where it stopped
	@$(BIN)/python -m headgate.simulation.regimes --workers $(WORKERS)

soak: $(READY) ## simulate random scenarios for MINUTES=10
	@$(BIN)/python -m headgate.simulation.soak --minutes $(MINUTES)

bench: $(READY) ## measure the tables of docs/benchmarks.md; takes hours, needs an idle machine
	@for script in $$(grep -rl "^if __name__" bench --include="*.py" | sort); do \
	  echo "== $$script"; PYTHONPATH=. $(BIN)/python $$script || exit 1; done

peers: $(READY) ## measure Envoys under one limit; compare with envoyproxy/ratelimit and LiteLLM
	@sh tools/require.sh go redis
	@PYTHONPATH=. $(BIN)/python bench/processes/envoy_quota.py
	@PYTHONPATH=. $(BIN)/python bench/processes/envoy_quota.py --killed
	@PYTHONPATH=. $(BIN)/python bench/processes/envoy_descriptors.py
	@PYTHONPATH=. $(BIN)/python bench/league.py
	@PYTHONPATH=. $(BIN)/python tools/peers.py

clean: ## delete everything that make created
	rm -rf $(VENV) .headgate .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
