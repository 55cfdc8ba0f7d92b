# A thin front over CMake. `make run` and `make test` set up what is missing, build, and go.
#
#   make run [MODEL=FILE|smollm2] [PROMPT=..] [DEVICE=SPEC]   a small model writes English
#   make test            every short test            make test-long      the rest
#   make bench           measurements and peers      make mutants        planted faults are all found
#   make asan ubsan tsan the tests under sanitizers
#   make fuzz [OPS=".."] [DEVICE=SPEC]  operations and random graphs against the oracles with new seeds, until interrupted; failures go to tests/regressions/
#   make fuzz-readers    libFuzzer on the readers and the tokenizer, FUZZ_S seconds each
#   make docs            docs/ops.md and the type stubs, from the table of operations
#   make check           layering, exports, headers  make lint           WGSL through Tint
#   make conformance DEVICE=SPEC                     that a device keeps the contract of hal.h
#   make setup, build, install PREFIX=.., clean
PRESET ?= release
PROMPT ?= Once upon a time
DEVICE ?= $(or $(WEFT_DEVICE),auto)
N ?= 120
FUZZ_S ?= 60
FUZZ_DEVICE = $(if $(filter auto,$(DEVICE)),cpu,$(DEVICE))
B = build/$(PRESET)
PY = build/venv/bin/python3
STORY = models/stories260k/stories260K.F32.gguf
MODEL ?= $(STORY)

.PHONY: run test test-long bench mutants asan ubsan tsan fuzz fuzz-readers docs conformance check lint setup configure build program install clean

setup:
	@sh tools/setup.sh

configure: setup
	@cmake --preset $(PRESET) >build/cmake-$(PRESET).log 2>&1 || { cat build/cmake-$(PRESET).log; exit 1; }

build: configure
	@cmake --build --preset $(PRESET)

program: configure
	@cmake --build --preset $(PRESET) --target weft-program

run: program
ifeq ($(MODEL),smollm2)
	@python3 tools/fetch_smollm2.py build
	@$(B)/weft run build/models/SmolLM2-135M-Instruct.Q4_1.gguf --device $(DEVICE) -p "$(PROMPT)" -n $(N)
else
	@$(B)/weft run "$(MODEL)" --device $(DEVICE) -p "$(PROMPT)" -n $(N)
endif

test: build
	@python3 tools/run_tests.py --build $(B)

test-long: build
	@python3 tools/fetch_smollm2.py build
	@python3 tools/run_tests.py --build $(B) --long

asan:
	@$(MAKE) --no-print-directory PRESET=asan build
	@python3 tools/run_tests.py --build build/asan --sanitizer address

ubsan:
	@$(MAKE) --no-print-directory PRESET=ubsan build
	@python3 tools/run_tests.py --build build/ubsan --sanitizer undefined

tsan:
	@$(MAKE) --no-print-directory PRESET=tsan build
	@python3 tools/run_tests.py --build build/tsan --sanitizer thread

fuzz: build
	@WEFT_BUILD=$(abspath $(B)) WEFT_TEST_DEVICE=$(FUZZ_DEVICE) $(PY) tests/python/fuzz_ops.py $(OPS)

fuzz-readers: setup
	@python3 tools/run_fuzz.py --seconds $(FUZZ_S) --keep

docs: build
	@python3 tools/op_docs.py --build $(B)
	@PYTHONPATH=$(B)/python python3 bindings/python/tools/stubs.py

conformance: build
	@WEFT_TEST_DEVICE=$(DEVICE) $(B)/test_hal_conformance

mutants: build
	@python3 tools/mutants.py

bench: build
	@python3 bench/bench.py --build $(B)
	@if [ -x $(PY) ]; then $(PY) tools/setup_peers.py build && $(PY) bench/bench_ops.py --build $(B); \
	else echo "no Python environment (build/venv): operations are not compared"; fi

check: build
	@python3 tools/check_tree.py --build $(B)

lint: build
	@python3 tools/lint_wgsl.py --build $(B)

install: build
	cmake --install $(B) --prefix $(or $(PREFIX),/usr/local)

clean:
	rm -rf build
