# The commands of the README. CARGO_TARGET_DIR is respected.
target_dir := $(or $(CARGO_TARGET_DIR),target)
fairway := $(target_dir)/release/fairway
revision := $(shell git rev-parse --short=12 HEAD 2>/dev/null)

.PHONY: build run

build:
	FAIRWAY_REVISION=$(revision) cargo build --release --locked -p fairway

run: build
	examples/quickstart/run.sh $(fairway)
