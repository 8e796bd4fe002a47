# Two commands do everything, set-up included: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
# What is imported is compiled once, not by every process anew, as where images for containers turn this off.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo configs test run-tests test-all test-fast fuzz test-transformer-lens test-mib compare-published published-code lint install \
	docs benchmark benchmark-auto-circuit benchmark-scaling leaderboard leaderboard-learned

# What is made from classes: configs/, what is stored of methods, docs/methods.md. A test says if it is not current.
configs: install
	$(BIN)/interpbench configs

demo: install
	$(BIN)/interpbench demo

# Modules whose tensors' shapes beartype checks in the second part of the tests: that takes an eighth longer.
KERNEL := interpbench.transformer
CHECKED := $(KERNEL).model,$(KERNEL).interventions,$(KERNEL).recording,$(KERNEL).worlds,$(KERNEL).routes
CHECKED := $(CHECKED),$(KERNEL).fast.run_circuits,interpbench.tasks.metrics,interpbench.tasks.problem

# `make -j 2 test` has lint and types checked beside the tests.
test: lint run-tests

run-tests: install
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder \
		--ignore tests/transformer --ignore tests/tasks/test_metrics.py
	$(BIN)/pytest -n 2 --dist loadfile --jaxtyping-packages=$(CHECKED),beartype.beartype \
		tests/transformer tests/tasks/test_metrics.py

test-fast: install
	$(BIN)/pytest -m "not slow and not gpu and not network and not fuzz and not exhaustive"

# Of every task, model and place what `make test` tests of some.
test-all: test
	$(BIN)/pytest -n 2 -m exhaustive

# Ten thousand damaged files of every kind that is read.
fuzz: install
	$(BIN)/pytest -n 2 -m fuzz tests/runs/test_fuzzing.py tests/runs/test_wrong_calls.py

# Whether HookedTransformer of the last 1.x, 2.x and 3.x releases reads our models, in environments of their own.
TRANSFORMER_LENS_1 := 'transformer-lens==1.19.0' 'transformers<5' 'typeguard<3' 'numpy<2' 'pyarrow<22'
TRANSFORMER_LENS_2 := 'transformer-lens==2.18.0' 'numpy<2' 'pyarrow<22'
TRANSFORMER_LENS_3 := 'transformer-lens==3.9.0'

test-transformer-lens: test-transformer-lens-1 test-transformer-lens-2 test-transformer-lens-3

test-transformer-lens-%: install .venv-transformer-lens-%/installed
	INTERPBENCH_TL=$(CURDIR)/.venv-transformer-lens-$*/bin/python $(BIN)/pytest -m transformer_lens

.PRECIOUS: .venv-transformer-lens-%/installed
.venv-transformer-lens-%/installed:
	$(PYTHON) -m venv .venv-transformer-lens-$*
	.venv-transformer-lens-$*/bin/python -m pip install --quiet --disable-pip-version-check \
		$(TRANSFORMER_LENS_$*) 'torch==2.13.0'
	touch $@

# Whether EAP-IG and MIB read our files, and whether methods agree with their authors' code, in an environment of
# its own. PUBLISHED is a folder with clones of that code; what is missing in it is said, with its commit.
test-mib: published-code install .venv-published/installed
	INTERPBENCH_MIB=$(CURDIR)/.venv-published/bin/python INTERPBENCH_PUBLISHED=$(abspath $(PUBLISHED)) \
		$(BIN)/pytest -m mib

compare-published: install .venv-published/installed
	$(BIN)/python -m benchmarks.compare_published --python .venv-published/bin/python --published "$(PUBLISHED)"

published-code:
	@test -d "$(PUBLISHED)/EAP-IG/src" -a -d "$(PUBLISHED)/MIB-circuit-track/EAP-IG/src" || { echo "PUBLISHED=folder: \
	clone github.com/hannamw/EAP-IG at 795f560 and MIB-circuit-track at b759df3, with submodules, into it"; exit 1; }

.venv-published/installed:
	$(PYTHON) -m venv .venv-published
	.venv-published/bin/python -m pip install --quiet --disable-pip-version-check \
		$(TRANSFORMER_LENS_2) 'torch==2.13.0' matplotlib tabulate seaborn
	touch $@

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/pyright --pythonpath $(BIN)/python

# The site: open site/index.html. A warning is an error (with --quiet MkDocs counts none); the first variable turns off
# the notice of its theme about a successor.
docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

benchmark: install
	$(BIN)/python -m benchmarks.training
	$(BIN)/python -m benchmarks.acdc
	$(BIN)/python -m benchmarks.discovery
	$(BIN)/python -m benchmarks.certificates

# Costs against the number of edges, up to 32,491 of them: an hour, and 8 GiB of memory.
benchmark-scaling: install
	$(BIN)/python -m benchmarks.scaling

# The same work done by auto-circuit, whose pins clash with ours, in an environment of its own.
benchmark-auto-circuit: install .venv-auto-circuit/installed
	$(BIN)/python -m benchmarks.discovery --auto-circuit .venv-auto-circuit/bin/python

.venv-auto-circuit/installed:
	$(PYTHON) -m venv .venv-auto-circuit
	.venv-auto-circuit/bin/python -m pip install --quiet --disable-pip-version-check \
		'transformer-lens==2.18.0' 'torch==2.13.0' 'numpy<2' 'pyarrow<22' 'plotly<6' ordered-set blobfile
	.venv-auto-circuit/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
		'auto-circuit==1.0.1'
	touch $@

# Methods that train masks take most of the time, and are compared on models whose circuit has several nodes.
UNTRAINED := acdc,activation_std,atp,atp_star,atp_star_grad_drop,cdt,clean_corrupted,eap,eap_ig,eap_ig_activations
UNTRAINED := $(UNTRAINED),exact,fitted_features,gim,hisp,ifr,mask_ig,path_patching,random,relp,weight_norm

# With their authors' steps, on eight models: an hour on one core.
LEARNED := paren_balance,direction_change,multiple_of_first,docstring,all_equal,add_next,equals_mirror,parity_alternates
METHODS := acdc,eap,eap_ig,exact,edge_sp,node_sp,edge_pruning,random,weight_norm

leaderboard-learned: install
	rm -f docs/learned/leaderboard.json
	$(BIN)/python evaluate.py method=$(METHODS),ugs checkpoint=$(LEARNED) board=docs/learned pictures=false \
		thorough=false baselines=false
	$(BIN)/python evaluate.py method=edge_sp+steps=3000 board=docs/learned pictures=false thorough=false \
		baselines=false checkpoint=paren_balance,direction_change,multiple_of_first,docstring,all_equal

leaderboard: install
	rm -f docs/leaderboard.json
	$(BIN)/python evaluate.py method=$(UNTRAINED),edge_pruning,edge_sp,node_sp checkpoint=nontrivial board=docs \
		pictures=false
	$(BIN)/python evaluate.py method=$(UNTRAINED) checkpoint=trivial board=docs pictures=false

install: .venv/installed

# Without --no-compile, pip compiles 20,000 files one by one, most of which nothing ever imports.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile \
		-c constraints.txt -e '.[dev,docs]'
	touch $@
