# Everything runs inside .venv, which `make` creates; nothing is installed outside this folder.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# CrewAI needs mcp 1 and our server mcp 2, so it has an environment of its own, which calls the server in .venv.
CREWAI := .venv-crewai
CREWAI_READY := $(CREWAI)/.ready

.PHONY: demo test upstream floors lint types bench evals-smoke notebooks conformance model wheel clean help

help:           ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/'

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Retain needs Python 3.11 or newer; say which: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[server,evals,langgraph,autogen,ag2]" --group dev
	@touch $@

$(CREWAI_READY): $(READY) constraints-crewai.txt
	$(PYTHON) -m venv $(CREWAI)
	$(CREWAI)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(CREWAI)/bin/python -m pip install --quiet -c constraints-crewai.txt -e ".[crewai]" pytest pytest-asyncio pytest-timeout
	@touch $@

demo: $(READY)  ## store lifelike memories and find them again over REST, MCP and the command line
	@$(BIN)/python tools/demo.py

test: $(READY) $(CREWAI_READY)  ## run the whole suite
	$(BIN)/python -m pytest -n auto --dist loadfile
	RETAIN_SERVER_BIN=$(CURDIR)/$(BIN)/retain $(CREWAI)/bin/python -m pytest tests/integrations/crewai

upstream: $(READY) $(CREWAI_READY) ## LangGraph's, CrewAI's and AutoGen's own test suites against our classes
	$(BIN)/python tests/upstream/run.py

floors: $(READY) ## the adapters' tests with the oldest frameworks that are supported
	$(BIN)/python tools/floors.py

lint: $(READY)  ## formatting rules, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: $(READY) $(CREWAI_READY) ## static types, strict
	$(BIN)/pyright
	$(BIN)/pyright -p pyrightconfig.crewai.json

bench: $(READY) ## measure and compare; writes docs/benchmarks.md
	$(BIN)/python -m benchmarks --packages

evals-smoke: $(READY) ## LongMemEval and LoCoMo on the small samples, in both modes, beside full-text search
	$(BIN)/retain-eval longmemeval --data tests/evals/samples/longmemeval_sample.json --mode both -s retain -s bm25 --out var/evals/longmemeval --fresh
	$(BIN)/retain-eval locomo --data tests/evals/samples/locomo_sample.json -s retain -s bm25 --out var/evals/locomo --fresh

notebooks: $(READY) ## execute the notebooks; HTML in notebooks/rendered. SET="DATA=/path SAMPLE=20" changes parameters
	$(BIN)/python tools/notebooks.py $(foreach each,$(SET),--set $(each))

conformance: $(READY) ## the official MCP conformance suite against our server (needs npm)
	$(BIN)/python tests/mcp_conformance/run.py

model: $(READY) ## build the bundled model anew from its original weights
	$(BIN)/python tools/build_model.py

wheel: $(READY) ## build the wheel and prove it in a fresh environment
	$(BIN)/python tools/prove_wheel.py

clean:          ## remove what make created
	rm -rf $(VENV) $(CREWAI) dist var
