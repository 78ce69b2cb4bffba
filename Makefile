# Short names for `python3 run ...`, which works without make.

PYTHON ?= python3
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test check fix bench soak docs lock lock-upgrade

help:  ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo '  Arguments go in ARGS: make test ARGS="-k lease"'

demo:  ## watch Holdfast run jobs on Spark: one or two minutes
	@$(PYTHON) run demo $(ARGS)

test:  ## run the tests (ARGS go to pytest; ARGS=--all adds the long ones)
	@$(PYTHON) run test $(ARGS)

check:  ## check formatting, lint, types and import rules
	@$(PYTHON) run check

fix:  ## repair what can be repaired, then check
	@$(PYTHON) run check --fix

bench:  ## run the benchmarks
	@$(PYTHON) run bench $(ARGS)

soak:  ## run the long tests: load and faults in large numbers
	@$(PYTHON) run soak $(ARGS)

docs:  ## build the documentation
	@$(PYTHON) run docs $(ARGS)

# One resolution for every platform and every Python from 3.11 on. dev.txt constrains the versions of run.txt, so that
# dev.txt stays a superset of run.txt. Existing pins do not change unless they conflict with pyproject.toml.
COMPILE = uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command "make lock"

lock:  ## update requirements/ after a change of dependencies (needs uv)
	@$(COMPILE) --group dev --output-file requirements/dev.txt $(ARGS)
	@$(COMPILE) --group run --constraints requirements/dev.txt --output-file requirements/run.txt $(ARGS)

lock-upgrade:  ## update requirements/ to the newest allowed versions (needs uv)
	@$(MAKE) --no-print-directory lock ARGS=--upgrade
