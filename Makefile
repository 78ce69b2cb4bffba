# Thin names for `python3 run ...`, which works without make.

PYTHON ?= python3
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test check fix bench soak docs lock lock-upgrade

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo '  Arguments go in ARGS: make test ARGS="-k lease"'

demo:  ## see it work on Spark: a tour of a minute or two
	@$(PYTHON) run demo $(ARGS)

test:  ## the tests (ARGS go to pytest)
	@$(PYTHON) run test $(ARGS)

check:  ## formatting, lint, types and import arrows
	@$(PYTHON) run check

fix:  ## the same, after repairing what can be repaired
	@$(PYTHON) run check --fix

bench:  ## the benchmarks
	@$(PYTHON) run bench $(ARGS)

soak:  ## the long test: load and faults, in large numbers; ends by itself
	@$(PYTHON) run soak $(ARGS)

docs:  ## build the documentation
	@$(PYTHON) run docs $(ARGS)

# One resolution for every platform and Python from 3.11 on. run.txt is held to the versions of dev.txt, so that
# dev.txt stays a superset of it. Pins already in the files are kept unless they no longer fit.
COMPILE = uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command "make lock"

lock:  ## rewrite requirements/ after a change of dependencies (needs uv)
	@$(COMPILE) --group dev --output-file requirements/dev.txt $(ARGS)
	@$(COMPILE) --group run --constraints requirements/dev.txt --output-file requirements/run.txt $(ARGS)

lock-upgrade:  ## the same, taking the newest versions that fit
	@$(MAKE) --no-print-directory lock ARGS=--upgrade
