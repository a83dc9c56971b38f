# The commands of the README. CARGO_TARGET_DIR is respected.
target_dir := $(or $(CARGO_TARGET_DIR),target)
fairway := $(target_dir)/release/fairway
revision := $(shell git rev-parse --short=12 HEAD 2>/dev/null)

# More arguments for the benchmark, e.g. ARGS='--scenario http-1k --blocks 4'.
ARGS ?=

.PHONY: build run bench

build:
	FAIRWAY_REVISION=$(revision) cargo build --release --locked -p fairway

run: build
	examples/quickstart/run.sh $(fairway)

bench: build
	cargo build --release --locked -p fairway-bench
	$(target_dir)/release/fairway-bench run --fairway $(fairway) $(ARGS)
