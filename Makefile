# `make demo`, `make test` and `make check` need nothing but python3 (3.11 to 3.13) and make:
# each of them makes .venv first where it is missing or older than what it was made from.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RESULTS := build/test-results
CONFORMANCE := build/conformance
WHEEL := build/wheel
HARNESS := build/harness

# Two cores share the work: one thread a process, and as many processes as WORKERS says.
WORKERS ?= 2
export OMP_NUM_THREADS ?= 1
export MPLBACKEND ?= Agg
PYTEST := $(BIN)/python -m pytest -q -n $(WORKERS)

.NOTPARALLEL:
.PHONY: demo test check install lint types imports tests slow-tests interpreter-tests harness-tests gpu-tests conformance conformance-check performance performance-check efficiency efficiency-check notebooks notebooks-sync study study-check linearization linearization-check language language-check ledger-fast ledger wheel docs clean

demo: $(STAMP)
	@$(BIN)/lt2 demo $(ARGS)

test: lint types imports tests ledger-fast

check: test slow-tests interpreter-tests harness-tests notebooks conformance-check performance-check efficiency-check study-check linearization-check language-check ledger wheel docs

install: $(STAMP)

# torch comes first and alone, so that its build decides about Triton: a CUDA or ROCm build
# brings its own, beside a CPU build FLA needs the release named here.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; ok = (3, 11) <= sys.version_info[:2] <= (3, 13); sys.exit(None if ok else "lt2theory needs Python 3.11 to 3.13, and $(PYTHON) is " + sys.version.split()[0] + "; choose another with make PYTHON=...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet torch -c constraints.txt
	@set -e; \
	triton=$$($(BIN)/python -c 'import sys, torch; cpu = torch.version.cuda is None and torch.version.hip is None; print("triton==3.6.0" if cpu and sys.platform == "linux" else "")'); \
	echo "$(BIN)/python -m pip install -e '.[dev]' $$triton -c constraints.txt"; \
	$(BIN)/python -m pip install --quiet -e '.[dev]' $$triton -c constraints.txt
	@touch $@

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports

# Tests that need a CUDA device report themselves as skipped where there is none.
tests: $(STAMP)
	@mkdir -p $(RESULTS)
	$(PYTEST) -m "not slow and not interpreter" --junitxml=$(RESULTS)/fast.xml --conformance=$(CONFORMANCE)/fast.json

slow-tests: $(STAMP)
	@mkdir -p $(RESULTS)
	$(PYTEST) -m "slow and not interpreter" --junitxml=$(RESULTS)/slow.xml --conformance=$(CONFORMANCE)/slow.json

# What needs a CUDA device, which every other set reports as skipped. The kernels of FLA are tuned for
# minutes on a machine that has not run them.
gpu-tests: $(STAMP)
	@mkdir -p $(RESULTS)
	$(PYTEST) --dist worksteal -m gpu --junitxml=$(RESULTS)/gpu.xml

# FLA's kernels on this CPU: tests/fla_interpreter.py says how.
interpreter-tests: $(STAMP)
	@mkdir -p $(RESULTS)
	TRITON_INTERPRET=1 $(PYTEST) -m interpreter --junitxml=$(RESULTS)/interpreter.xml --conformance=$(CONFORMANCE)/interpreter.json

# Saved models under lm-evaluation-harness. It needs some 35 packages that nothing else here does, so they
# go into an environment of their own, which sees those of $(VENV) through a .pth file.
harness-tests: $(STAMP)
	@test -x $(HARNESS)/bin/python || $(BIN)/python -m venv $(HARNESS)
	@site=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	echo "import site; site.addsitedir('$$site')" \
	> $$($(HARNESS)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/tested.pth
	$(HARNESS)/bin/python -m pip install --quiet lm-eval accelerate -c constraints.txt
	$(HARNESS)/bin/python -m pytest -q tests/hf/test_harness.py

# Every notebook, on tiny settings; figures need the kernel's own backend.
notebooks: $(STAMP)
	@mkdir -p $(RESULTS)
	LT2_NOTEBOOKS=fast MPLBACKEND= $(PYTEST) --nbmake --nbmake-timeout=300 --junitxml=$(RESULTS)/notebooks.xml notebooks/*.ipynb

# The .ipynb files anew, from the scripts.
notebooks-sync: $(STAMP)
	$(BIN)/python -m jupytext --quiet --to ipynb --update notebooks/*.py

# docs/conformance.md anew, from the tests marked `conforms` alone.
conformance: $(STAMP)
	@rm -rf $(CONFORMANCE)
	$(PYTEST) -m "conforms and not interpreter" --conformance=$(CONFORMANCE)/fast.json
	TRITON_INTERPRET=1 $(PYTEST) -m "conforms and interpreter" --conformance=$(CONFORMANCE)/interpreter.json
	$(BIN)/python -m tests.conformance.page $(CONFORMANCE)

# Whether it is what the three sessions of tests above gave.
conformance-check: $(STAMP)
	$(BIN)/python -m tests.conformance.page $(CONFORMANCE) --check

# docs/performance.md anew, from the committed files in results/; and whether it is that still.
performance: $(STAMP)
	$(BIN)/python -m lt2theory.report.performance

performance-check: $(STAMP)
	$(BIN)/python -m lt2theory.report.performance --check

# The same for docs/efficiency.md and its figures, from results/efficiency-h200.json.
efficiency: $(STAMP)
	$(BIN)/python -m lt2theory.report.efficiency

efficiency-check: $(STAMP)
	$(BIN)/python -m lt2theory.report.efficiency --check

# The same for docs/study.md and its figures, from results/study.parquet.
study: $(STAMP)
	$(BIN)/python -m lt2theory.experiments.study_page

study-check: $(STAMP)
	$(BIN)/python -m lt2theory.experiments.study_page --check

# The same for docs/linearization-study.md and its figures, from results/linearization.parquet.
linearization: $(STAMP)
	$(BIN)/python -m lt2theory.experiments.linearization.page

linearization-check: $(STAMP)
	$(BIN)/python -m lt2theory.experiments.linearization.page --check

# The same for docs/language-study.md and its figures, from results/language-study.parquet.
language: $(STAMP)
	$(BIN)/python -m lt2theory.experiments.language.page

language-check: $(STAMP)
	$(BIN)/python -m lt2theory.experiments.language.page --check

# The claims of proofs_checks/, each with its evidence; docs/theory.md says what they are.
ledger-fast: $(STAMP)
	$(BIN)/lt2 verify --fast --workers $(WORKERS)

ledger: $(STAMP)
	$(BIN)/lt2 verify --workers $(WORKERS)

# The source distribution, and from it the wheel, are built without the network. The wheel goes into an
# environment of its own, which sees the packages of $(VENV) but not this tree, and is tried there.
wheel: $(STAMP)
	@rm -rf $(WHEEL)
	$(BIN)/python -m build --no-isolation --outdir $(WHEEL) .
	$(BIN)/python -m venv $(WHEEL)/venv
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	> $$($(WHEEL)/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/tested.pth
	$(WHEEL)/venv/bin/python -m pip install --quiet --no-deps --force-reinstall $(WHEEL)/*.whl
	cd $(WHEEL) && set -e && export PATH="$$PWD/venv/bin:$$PATH" && python ../../.ci/smoke.py && \
	lt2 --version && lt2 tasks show group_word --group S3 --stage 8 > tasks.txt && \
	lt2 data prepare --sources excerpt --piece-bytes 2000 --out corpus && lt2 verify --fast --only R4

docs: $(STAMP)
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html

clean:
	rm -rf build dist docs/_build docs/_notebooks .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
