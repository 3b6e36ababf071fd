# SPDX-License-Identifier: Apache-2.0
# The commands of everyday work. Building itself is CMake's (CMakePresets.json).
JOBS ?= $(shell nproc)
DEPS := $(or $(LEAT_DEPS_DIR),$(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME)/leat-build,$(HOME)/.cache/leat-build))
export JOBS

.DEFAULT_GOAL := help
.PHONY: help setup release package image demo newcomer test soak tsan bench check \
  lint mutants format tidy clean

help: ## this list
	@echo "Leat. make COMMAND, where COMMAND is"
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1@\2/p' $(MAKEFILE_LIST) | \
	  awk -F@ '{ printf "  %-13s %s\n", $$1, $$2 }'

setup: ## install what building needs
	@tools/setup build

release: setup ## build the binary: build/release/leat
	@cmake --preset release
	@ninja -j$(JOBS) -C build/release leat

package: ## a Debian package, a tarball and their symbols in build/package
	@tools/setup package
	@cmake --preset release
	@ninja -j$(JOBS) -C build/release leat
	@tools/package

image: package ## a container image of build/package, where buildah, podman or docker can build
	@tools/image

demo: ## train a digit classifier from a mounted bucket, and compare (sets up all it needs)
	@tools/setup demo
	@cmake --preset release
	@ninja -j$(JOBS) -C build/release leat
	@LEAT_DEPS_DIR=$(DEPS) examples/mnist/demo

newcomer: ## the README's commands on a fresh Debian 12, timed (root); records them in docs/newcomer.md
	@tools/newcomer

test: ## everything that must pass (sets up all it needs); ends with "N passed, N failed"
	@tools/run_tests test

soak: ## tests for much longer, kills, power cuts, fuzzers; records the result in docs/soak.md
	@tools/run_tests soak

tsan: ## the modules' tests under ThreadSanitizer
	@tools/setup build
	@cmake --preset tsan
	@ninja -j$(JOBS) -C build/tsan
	@ctest --preset tsan -j$(JOBS)

bench: ## what is promised, measured (root); BENCH="stores fuse:hot" picks, RUNS=5, SMOKE=1
	@python3 bench/run --programs $(BENCH) >/dev/null
	@tools/setup bench
	@cmake --preset release
	@ninja -j$(JOBS) -C build/release $$(python3 bench/run --programs $(BENCH))
	@LEAT_DEPS_DIR=$(DEPS) $(DEPS)/venv/bin/python bench/run $(if $(RUNS),--runs $(RUNS)) \
	  $(if $(SMOKE),--smoke) $(BENCH_FLAGS) $(BENCH)

format: ## lay out the C++ sources
	@git ls-files -z '*.cc' '*.h' | xargs -0 clang-format-19 -i

check: ## the tests of MODULE with sanitizers, in build/dev; TEST='Evictor.*' picks
	@test -n "$(MODULE)" || { echo "say which: make check MODULE=cache TEST='Evictor.*'" >&2; exit 1; }
	@tools/setup build
	@test -f build/dev/build.ninja || cmake --preset dev
	@ninja -j$(JOBS) -C build/dev leat_$(subst /,_,$(MODULE))_test
	@tools/check_module build/dev/src/$(MODULE)/leat_$(subst /,_,$(MODULE))_test '$(TEST)'

lint: ## style, modules, layout and language of this tree; ruff, cargo fmt
	@tools/lint

mutants: ## small changes of MODULE that no test notices (docs/mutants.md); COUNT=60, SEED=1, AGAIN=1
	@test -n "$(MODULE)" || { echo "say which: make mutants MODULE=fetch" >&2; exit 1; }
	@tools/setup test
	@LEAT_DEPS_DIR=$(DEPS) tools/mutation/run.py $(if $(COUNT),--count $(COUNT)) \
	  $(if $(SEED),--seed $(SEED)) $(if $(AGAIN),--again) $(MODULE)

tidy: ## clang-tidy over the modules (slow); build/dev must be configured
	@cmake --preset dev
	@run-clang-tidy-19 -quiet -p build/dev -j$(JOBS) '^$(CURDIR)/src/.*\.cc$$'

clean: ## remove what was built in this tree
	@rm -rf build
