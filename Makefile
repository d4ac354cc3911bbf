# Targets for users and for continuous integration; `make help` lists them. Prerequisites: Linux, Python 3.11 to 3.13 with venv, make.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory
export PATH := $(CURDIR)/.tools/bin:$(CURDIR)/.venv/bin:$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# PYTHONDONTWRITEBYTECODE would prevent compiled modules: each import of TensorFlow takes 7 s instead of 3.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE PYTHONDONTWRITEBYTECODE

VENV := .venv/bin/python
HOST := .venv-host/bin/python
UV := .venv/bin/uv
# uv does not read pip's configuration of indexes, so pip installs if uv cannot. Modules are compiled at their first import:
# compiling all of aws-cdk-lib, moto and the others takes 43 s of processor time, the imported ones 5 s.
install = $(UV) pip install --quiet --require-hashes --python $(1) $(2) || \
	$(1) -m pip install --quiet --require-hashes --no-compile $(2)

# Two packages install this module, and aws-cdk-lib must be the last: otherwise the CDK fails when it reads an account's
# zones. pip keeps the order; uv installs in parallel.
SCHEMA := .venv/lib/python3*/site-packages/aws_cdk/cloud_assembly_schema/__init__.py

.PHONY: help setup demo preflight deploy destroy test simulate permissions frameworks interoperability conformance docs
.PHONY: aws-check check dist pictures changelog format texts lock bench clean jupyter trackers
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

SETUP := .venv/.command .tools/cdk/.ready .tools/awscli/.ready .venv-host/.ready
setup: .venv/.ready ## install everything that the other targets need (they call it)
	@$(MAKE) -j3 $(SETUP)

demo: .venv/.command .tools/cdk/.ready ## train and evaluate a model from nothing; JOB=path runs another job file, KEEP=1 keeps the cloud running
	@$(VENV) -m scripts.demo

preflight: .venv/.ready ## list what the account lacks for a yard; ARGS=--request requests larger quotas
	@$(VENV) -m trainyard.cli doctor $(ARGS)

deploy: .venv/.ready ## deploy the yard into the account or endpoint of the environment
	@scripts/deploy $(ARGS)

destroy: .venv/.ready ## destroy the yard, and list what remains with its cost (ARGS='--images --data')
	@$(VENV) -m trainyard.cli yard destroy $(ARGS)

test: .venv/.ready ## run all tests: core, templates, local cloud, host software, whole runs
	@$(MAKE) -j4 $(SETUP) jupyter trackers
	@$(VENV) -m scripts.test $(ARGS)

jupyter: .tools/wheels/.jupyter ## download JupyterLab for dev hosts of the local cloud; bake an image afterwards

trackers: .tools/trackers/.ready ## install the client of MLflow for the tests of trackers

simulate: .venv/.ready ## inject each fault at each fault point in a simulated AWS; SEEDS=2000 random cases, SEED=x one case as a trace; ARGS=--help
	@$(VENV) -m simulation $(ARGS)

planted: .venv/.ready ## plant each defect of tests/simulation/planted in its own process; DEFECT=name plants one
	@DEFECT="$(DEFECT)" scripts/planted

permissions: setup ## remove each permission of each role, one for each run (an hour)
	@scripts/permissions $(ARGS)

frameworks: setup .tools/wheels-frameworks/.ready ## run the examples of PyTorch and JAX on two hosts, and ten published scripts, with interruptions; downloads 390 MB of wheels
	@$(VENV) -m pytest tests/frameworks $(ARGS)

interoperability: setup ## run moto's own tests and Ansible's EC2 modules against the local cloud; writes docs/interoperability.md
	@$(VENV) -m tests.interoperability $(ARGS)

conformance: setup ## compare recordings of AWS with the local cloud and the simulator (ORACLE=folder; default ../shared/oracle); writes docs/conformance.md
	@ORACLE="$(ORACLE)" $(VENV) -m tests.conformance $(ARGS)

aws-check: .venv/.ready ## observe in your AWS account what docs/unverified.md assumes; only reads; ARGS='--spend cents' or '--spend host' does more
	@$(VENV) -m scripts.aws_check $(ARGS)

docs: .venv/.ready ## build the documentation as a site in build/site; SERVE=1 serves it on 127.0.0.1:8000
	@NO_MKDOCS_2_WARNING=1 $(VENV) -m mkdocs $(if $(SERVE),serve --dev-addr 127.0.0.1:8000,build --strict) && echo build/site/index.html

dist: .venv/.ready ## build the wheel and the source archive, check them, and use the wheel in an empty environment; ARGS=--no-try leaves that out
	@PATH="$(CURDIR)/.venv/bin:$$PATH" $(VENV) -m scripts.dist $(ARGS)

pictures: setup ## take the pictures of the page, and record the transcript of a submit, for README and docs; needs Chromium
	@$(VENV) -m tests.pictures

changelog: .venv/.ready ## move the fragments of changes/ into CHANGELOG.md, under the version of the package
	@$(VENV) -m towncrier build --yes

check: .venv/.ready ## check format, lint, types and layers, and run unit tests (some minutes)
	@scripts/check

format: .venv/.ready ## correct the format; write the generated schemas, tables and pages
	@ruff check --quiet --fix . ; ruff format --quiet .
	@$(VENV) -m tests.unit.core.jobfile.reference && $(VENV) -m tests.unit.core.patrol.patrol_page && $(VENV) -m tests.unit.cli.reference && $(VENV) -m tests.unit.protocol.reference
	@$(VENV) -m tests.unit.voice --lower

texts: .venv/.ready ## write all texts for users to build/texts.md, for review
	@$(VENV) -m tests.unit.texts

lock: .venv/.ready ## write requirements/locks after a change of a list, with the SHA-256 of each package
	@scripts/lock

bench: setup ## measure the budgets and write build/bench.json; PARTS="patrol saving" measures only these
	@$(VENV) -m benchmarks $(PARTS)

clean: ## stop the local cloud and delete what was built, except the environments (.venv, .venv-host, .tools)
	@if [ -x $(VENV) ] && [ -d .localcloud ]; then $(VENV) -m localcloud down; fi
	rm -rf .localcloud build cdk.out .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -not -path './.venv*' -not -path './.tools/*' -prune -exec rm -rf {} +

.venv/.ready: requirements/locks/bootstrap.txt requirements/locks/dev.txt
	@echo "setup: Python environment (.venv)"
	@python=$$(PYTHON='$(PYTHON)' sh scripts/interpreter) && { [ -x $(VENV) ] || "$$python" -m venv .venv; }
	@$(VENV) -m pip install --quiet --require-hashes -r requirements/locks/bootstrap.txt
	@$(call install,$(VENV),-r requirements/locks/dev.txt)
	@grep -q 'jsii_type="aws-cdk-lib' $(SCHEMA) || $(UV) pip install --quiet --require-hashes --no-deps \
		--python $(VENV) --reinstall-package aws-cdk-lib -r requirements/locks/dev.txt
	@touch $@

# The command, and the package of that name for any program of this environment, from whichever folder: a link to it alone,
# since a path to the clone would bring all its other packages. -I: none of the user's own packages (PYTHONPATH) counts.
.venv/.command: Makefile .venv/.ready
	@printf '#!%s -I\nimport sys\nsys.path.insert(0, "%s")\nfrom trainyard.cli.__main__ import main\nmain()\n' \
		"$(CURDIR)/$(VENV)" "$(CURDIR)" >.venv/bin/trainyard && chmod +x .venv/bin/trainyard
	@for packages in .venv/lib/python3*/site-packages; do ln -sfn "$(CURDIR)/trainyard" "$$packages/trainyard"; done
	@touch $@

.tools/cdk/.ready: scripts/cdk/package.json scripts/cdk/package-lock.json .venv/.ready
	@echo "setup: the cdk command (.tools/cdk)"
	@mkdir -p .tools/cdk .tools/bin && cp scripts/cdk/package.json scripts/cdk/package-lock.json .tools/cdk/
	@npm ci --prefix .tools/cdk --loglevel error --no-audit --no-fund --no-update-notifier
	@ln -sf ../cdk/node_modules/.bin/cdk .tools/bin/cdk
	@touch $@

.tools/awscli/.ready: requirements/locks/awscli.txt .venv/.ready
	@echo "setup: the aws command (.tools/awscli)"
	@mkdir -p .tools/bin && { [ -x .tools/awscli/bin/python ] || $(VENV) -m venv .tools/awscli; }
	@$(call install,.tools/awscli/bin/python,-r requirements/locks/awscli.txt)
	@ln -sf ../awscli/bin/aws .tools/bin/aws
	@touch $@

# What the local cloud's base image carries instead of a way to the package index, downloaded once for both.
LOCAL := requirements/locks/bootstrap.txt requirements/locks/host-local.txt requirements/locks/host-tf-keras.txt
.tools/wheels/.ready: $(LOCAL) .venv/.ready
	@echo "setup: wheels for the local cloud's base image (.tools/wheels; TensorFlow, about 300 MB)"
	@mkdir -p .tools/wheels
	@for list in $(LOCAL); do \
	    $(VENV) -m pip download -qq --only-binary :all: --no-deps --require-hashes --dest .tools/wheels -r $$list || exit 1; done
	@touch $@

# The same for hosts that run other frameworks, and what these ask for.
.tools/wheels-frameworks/.ready: tests/frameworks/requirements.txt .tools/wheels/.ready
	@echo "setup: wheels of PyTorch, Lightning, Hugging Face and JAX for the local cloud's hosts (.tools/wheels-frameworks; 390 MB)"
	@mkdir -p .tools/wheels-frameworks && ln -f .tools/wheels/*.whl .tools/wheels-frameworks/
	@$(VENV) -m pip download -qq --only-binary :all: --dest .tools/wheels-frameworks -r tests/frameworks/requirements.txt
	@touch $@

# More of them, which images baked from then on have; make demo need not wait for them.
.tools/wheels/.jupyter: requirements/locks/jupyter.txt .tools/wheels/.ready
	@echo "setup: wheels of JupyterLab for the local cloud's dev hosts (.tools/wheels; 40 MB)"
	@$(VENV) -m pip download -qq --only-binary :all: --no-deps --require-hashes --dest .tools/wheels -r $<
	@touch $@

.tools/trackers/.ready: requirements/locks/mlflow.txt requirements/locks/otel.txt .venv/.ready
	@echo "setup: the clients of MLflow and OpenTelemetry (.tools/trackers; 60 MB)"
	@[ -x .tools/trackers/bin/python ] || $(VENV) -m venv --without-pip .tools/trackers
	@$(call install,.tools/trackers/bin/python,-r $< -r requirements/locks/otel.txt)
	@touch $@

.venv-host/.ready: .tools/wheels/.ready requirements/locks/host-dev.txt
	@echo "setup: TensorFlow environment for evaluation and tests (.venv-host)"
	@[ -x $(HOST) ] || $(VENV) -m venv .venv-host
	@$(call install,$(HOST),--find-links .tools/wheels -r requirements/locks/host-dev.txt)
	@$(call install,$(HOST),--find-links .tools/wheels --no-deps -r requirements/locks/host-tf-keras.txt)
	@touch $@
