# Everything runs inside .venv, made on demand. PYTHON picks the interpreter (3.11 or newer).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
INSTALL := $(BIN)/python -m pip install
# Where torch has builds without CUDA, and the torchvision that fits them. Asked first where there is no card, once,
# for five seconds: the alarm ends waiting for a name, too. Else pip's own index decides.
TORCH_CPU := https://download.pytorch.org/whl/cpu
REACHED := 'import signal, urllib.request as u; signal.alarm(5); u.urlopen("$(TORCH_CPU)/torch/")'

.PHONY: demo test test-times nightly pages families trust faults mutants gpu versions calibrate validate reproduce lint format types docs notebooks docs-serve looks benchmark package release clean

$(VENV)/installed-%: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "deeplimit needs Python 3.11 or newer; set PYTHON=python3.12, say" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import torch' 2> /dev/null || command -v nvidia-smi > /dev/null \
		|| { $(BIN)/python -c $(REACHED) 2> /dev/null && $(BIN)/python -m pip install --quiet --no-deps --retries 0 \
			--timeout 5 --constraint constraints.txt --index-url $(TORCH_CPU) torch torchvision; } || true
	$(INSTALL) --quiet --constraint constraints.txt --editable '.[$(subst -,$(comma),$*)]'
	touch $@

comma := ,

demo: $(VENV)/installed-data-fast
	$(BIN)/deeplimit demo --out out/demo

# The fast tier: ten minutes or so on two cores. ROOMS="theory equations" runs these folders of tests; ROOMS=changed runs what
# uncommitted changes can break, ROOMS="changed main" what a branch has changed.
ROOMS :=
test: $(VENV)/installed-data-dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(if $(ROOMS),$$($(BIN)/python tests/helpers/rooms.py $(ROOMS)))

# Where the CPU seconds of `make test` go, by room and by function, with processes and shared fixtures.
test-times: $(VENV)/installed-data-dev
	rm -rf out/test-times
	TEST_TIMES=out/test-times $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal $(if $(ROOMS),$$($(BIN)/python tests/helpers/rooms.py $(ROOMS)))
	$(BIN)/python tests/helpers/cpu_times.py out/test-times

# Everything that `make test` leaves out; docs/contributing.md says how long it takes.
nightly: $(VENV)/installed-data-dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m nightly $(if $(ROOMS),$$($(BIN)/python tests/helpers/rooms.py $(ROOMS)))

# Every block of code and every command of every page.
pages: $(VENV)/installed-data-dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m nightly tests/docs $(SELECT)

# Every configuration of the depth checks with three seeds, and all planted faults. Rates at the end.
families: $(VENV)/installed-data-dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "" $(addprefix tests/modules/test_,configurations.py depth_campaign.py families.py planted_faults.py) tests/judge/test_known_limits.py

# Thirty thousand bad calls, all of docs/promises.md's first section.
trust: $(VENV)/installed-data-dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "" tests/common/test_every_bad_value.py tests/cli/test_every_bad_option.py \
		tests/common/test_switches.py tests/common/test_text_that_leaves.py tests/modules/test_threads.py

# 912 processes and Dask workers are killed at random moments, and executors and disks fail. A test of the fast tier
# may take three times its seconds, as in CI: machines on which this is run have other work, too.
faults: $(VENV)/installed-data-dev
	TEST_LIMIT=6 $(BIN)/python -m pytest -m "" $(addprefix tests/common/test_,kills.py executors.py lost_files.py flipped_bits.py machines.py signals.py) tests/cli/test_full_disks.py

# A sample of broken lines, each against the tests near it: an hour or so; a stopped run goes on. ARGUMENTS="theory
# inference --size 50 --seed 3" chooses. --again runs what survived once more, after a test was added.
mutants: $(VENV)/installed-data-dev
	$(BIN)/python -m mutation $(ARGUMENTS)

# On a machine with a CUDA card: all tests that take a device, the fused kernel's law, its speed; one JSON.
gpu: $(VENV)/installed-data-dev
	$(BIN)/python -m benchmarks.card $(ARGUMENTS)

# All tests on every Python from 3.11 on that is found, with the newest packages and with the lowest. Each
# combination installs some 5 GB: plain torch brings CUDA.
versions: $(VENV)/installed-versions
	PATH=$(abspath $(BIN)):$$PATH $(BIN)/nox $(ARGUMENTS)

# Every cell of docs/calibration.md, 400 calls of those that decide and 100 of the rest; a stopped run goes on.
# ARGUMENTS="--seconds 3600", "--calls 40" or "--only Growth" takes less.
calibrate: $(VENV)/installed-data-dev
	$(BIN)/python -m calibration --workers $(WORKERS) $(ARGUMENTS)

lint: $(VENV)/installed-data-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/installed-data-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/installed-data-dev
	$(BIN)/mypy

# FIGURES="cohen-fig8 marion-fig1" draws these alone.
FIGURES := --all
reproduce: $(VENV)/installed-data-dev
	$(BIN)/deeplimit reproduce $(FIGURES) --quick --quiet

docs: $(VENV)/installed-docs
	$(BIN)/mkdocs build --strict

notebooks: $(VENV)/installed-data-dev
	$(BIN)/python docs/notebooks.py out/notebooks

docs-serve: $(VENV)/installed-docs
	$(BIN)/mkdocs serve

# Every page of the site in Chromium, at 1280 and 390 px, in light and dark; ARGUMENTS="--pictures out/looks" keeps them.
looks: docs
	$(BIN)/python docs/looks.py $(ARGUMENTS)

# ROWS="--only 'Thm 4.3'" takes these rows alone.
ROWS :=
validate: $(VENV)/installed-data-dev
	$(BIN)/deeplimit validate --quick $(ROWS)

benchmark: $(VENV)/installed-data-dev
	$(BIN)/python -m benchmarks

# What one publishes, in dist: both archives are checked, and the wheel is imported from an environment of its own, beside
# the packages of .venv.
package: $(VENV)/installed-data-dev
	rm -rf build dist out/package
	$(BIN)/python -m build --no-isolation > /dev/null
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python -m venv --without-pip out/package
	$(BIN)/python -m pip --quiet --python out/package/bin/python install --no-deps --no-index dist/*.whl
	cd out/package && PYTHONPATH=$$($(abspath $(BIN))/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
		bin/python -P -c 'import deeplimit, sys; assert deeplimit.__file__.startswith(sys.prefix); print(deeplimit.res1(2).regime())'

# What is missing before a tag is published: TAG=v1.0.0 is the tag.
release: package
	@test "$(TAG)" = "v$$(sed -n 's/^__version__ = "\(.*\)"$$/\1/p' deeplimit/version.py)" \
		|| { echo "TAG must be v and the version in deeplimit/version.py, got '$(TAG)'" >&2; exit 1; }
	@grep -q '^repository = "http' pyproject.toml || { echo "pyproject.toml: set repository under [tool.deeplimit]" >&2; exit 1; }
	@! grep -q 'INSERT CONTACT' CODE_OF_CONDUCT.md || { echo "CODE_OF_CONDUCT.md: say who is to be written to" >&2; exit 1; }

clean:
	rm -rf $(VENV) out site build dist
