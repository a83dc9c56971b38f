# The commands of the README; `make help` lists them. CARGO_TARGET_DIR is respected.
target_dir := $(or $(CARGO_TARGET_DIR),target)
fairway := $(target_dir)/release/fairway
revision := $(shell git rev-parse --short=12 HEAD 2>/dev/null)
# Where rustup puts cargo, for a shell that was not told.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

version := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
# The image that `make image` writes: its name and its archive.
IMAGE ?= localhost/fairway:$(version)
image_archive = $(target_dir)/fairway-image.tar

# More arguments, for the benchmark (ARGS='--scenario http-1k-50 --blocks 4') or the end-to-end tests (ARGS=-test.run=Kill).
ARGS ?=
# UPDATE=1: interop, otel, extensions, http3, http3-clients, conformance and gateway-conformance write their results into the repository, not only into the target folder.
UPDATE ?=
export UPDATE
# How long each fuzz target runs.
FUZZ_SECONDS ?= 30

# Where `make lab` and `make lab-long` put their reports.
LAB_OUT ?= $(target_dir)/lab
LAB_LONG_OUT ?= $(target_dir)/lab-long
lab_run = $(target_dir)/release/fairway-lab run --fairway $(fairway) --fairway-image $(image_archive) --replace

.PHONY: help build quick release release-try run test setup lint bench cluster e2e-programs fips fuzz outdated properties repeat verify h2spec codecs interop otel extensions http3 http3-clients conformance image chart deploy gateway-types testbed-test dashboard-test waf waf-conformance waf-image waf-test e2e ecosystem gateway-conformance gateway-conformance-quick gateway-crds lab lab-binary lab-builds lab-gateway lab-long lab-peers lab-report lab-test
.DEFAULT_GOAL := build

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/make \1	\2/p' $(MAKEFILE_LIST) | expand -t 20

build: ## the release binary
	FAIRWAY_REVISION=$(revision) cargo build --release --locked -p fairway

quick: ## a binary for trying things out, in about half of the time (target/quick/fairway)
	FAIRWAY_REVISION=$(revision) cargo build --profile quick --locked -p fairway

run: quick ## builds that, then serves examples/quickstart and says what to try
	examples/quickstart/run.sh $(target_dir)/quick/fairway

setup: ## installs what building and testing need, or names it
	@.ci/setup

# The laboratory and the benchmark are built only by what needs them. Their report is here for the check that the published pages
# agree with the published results.
product := --workspace --exclude fairway-bench --exclude fairway-lab --exclude fairway-lab-traffic
host := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
runner := CARGO_TARGET_$(shell echo '$(host)' | tr a-z- A-Z_)_RUNNER=$(CURDIR)/.ci/test-program

test: setup ## all tests of the product, with those of the documentation; one that hangs is named and ended (TEST_LIMIT=300 s)
	$(runner) cargo test $(product) --locked --no-fail-fast

fips: setup ## tests of the proxy with the FIPS module of AWS-LC, which needs cmake, Go and a C compiler
	cargo test --locked -p fairway-proxy --features fips
	cargo run --quiet --locked -p fairway --features fips -- version

outdated: ## published results that are older than 20 commits to the data plane; never a failure
	cargo run --quiet --locked -p fairway-lab -- publish --check --outdated

lint: setup ## format, spelling, names, clippy, documentation, workflows, licences and bans of the dependencies
	cargo fmt --all --check
	.ci/typos --format brief
	.ci/names
	cd conformance/grpc/tonic && cargo fmt --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps --document-private-items --locked
	.ci/actionlint
	@$(MAKE) --no-print-directory chart
	.ci/deny

# $(call pack,BINARY,FOLDER): the image of a binary, without its tables of source lines, which are three quarters of it; panics still
# name their functions.
define pack
	strip --strip-debug -o $(2)/fairway-stripped $(1)
	testbed/testbed image build --name $(IMAGE) --binary $(2)/fairway-stripped:/usr/bin/fairway --entrypoint /usr/bin/fairway \
		--user 65532:65532 --label org.opencontainers.image.title=fairway \
		--label org.opencontainers.image.licenses=Apache-2.0 \
		--label org.opencontainers.image.revision=$(or $(revision),unknown) -o $(2)/fairway-image.tar
endef

image: build ## the image of the release binary, as an archive that ctr, Docker and podman load
	$(call pack,$(fairway),$(target_dir))
	@echo "$(image_archive) is $(IMAGE); docs/install.md says how to load it"

chart: gateway-crds ## the tests of the Helm chart; helm is built once, into the cache
	cd charts/tools && go vet ./... && go test -count=1 ./...

release: ## all artefacts of a release in $(target_dir)/release-VERSION: make release VERSION=...; release/README.md
	release/build $(VERSION) $(ARGS)

# Quick binaries: what differs from a release is how fast they are.
release-try: export FAIRWAY_REGISTRY = 127.0.0.1:5000
release-try: ## makes a release, publishes it to a registry in a testbed, verifies and installs it, and asks it; root
	@.ci/setup release
	release/build $(version) --profile quick
	release/try $(target_dir)/release-$(version)

h2spec: ## h2spec's 146 cases of HTTP/2, strict ones included, against the codec and the proxy; h2spec is built by go
	conformance/h2spec/run
	conformance/h2spec/run --proxy

interop: ## gRPC's interoperability cases with grpc-go and tonic through Fairway; both are built, tonic once: docs/grpc.md
	cargo test --locked -p fairway --test integration --no-run
	timeout 900 cargo test --locked -p fairway --test integration -- --ignored --nocapture conformance::grpc::interop

otel: ## traces, metrics and logs against the real OpenTelemetry collector, which go builds; twenty minutes; ARGS='-only trees' for a part
	cd conformance/otel && test -z "$$(gofmt -l .)" && go vet ./... && go test -count=1 ./...
	timeout 3600 conformance/otel/run $(ARGS)

# No file system: bodies and uploads stay in memory, and the program runs in a container that has nothing but it.
waf_tags := -tags no_fs_access

waf: ## fairway-waf, the WAF that Fairway asks by ext_proc, into $(target_dir): waf/README.md
	cd waf && CGO_ENABLED=0 go build -trimpath $(waf_tags) -ldflags '-s -w -X main.version=$(version)' -o '$(abspath $(target_dir))/fairway-waf' .

waf-test: ## the tests of fairway-waf and of the program that runs the Core Rule Set's tests
	cd waf && test -z "$$(gofmt -l .)" && go vet $(waf_tags) ./... && go test -count=1 $(waf_tags) ./...
	cd conformance/waf && test -z "$$(gofmt -l .)" && go vet $(waf_tags) ./... && go test -count=1 $(waf_tags) ./...

waf-conformance: ## the Core Rule Set's regression tests through fairway-waf, compared with Coraza alone: conformance/waf/README.md
	conformance/waf/run $(ARGS)

waf-image: waf ## the image of fairway-waf, as an archive that ctr, Docker and podman load
	testbed/testbed image build --name localhost/fairway-waf:$(version) --binary $(target_dir)/fairway-waf:/usr/bin/fairway-waf \
		--entrypoint /usr/bin/fairway-waf --user 65532:65532 --label org.opencontainers.image.title=fairway-waf \
		--label org.opencontainers.image.licenses=Apache-2.0 \
		--label org.opencontainers.image.revision=$(or $(revision),unknown) -o $(target_dir)/fairway-waf-image.tar
	@echo "$(target_dir)/fairway-waf-image.tar is localhost/fairway-waf:$(version)"

extensions: ## ext_proc and ext_authz with services that are right and wrong, and with OPA, which go builds; ARGS='-peer envoy' for Envoy
	cd conformance/extensions && test -z "$$(gofmt -l .)" && go vet ./... && go test -count=1 ./...
	timeout 3600 conformance/extensions/run $(ARGS)

http3: ## HTTP/3 from outside: quic-go's client, smuggling, hostile frames and floods, which go builds; ARGS='-peer quic-go' for its server
	cd conformance/http3 && test -z "$$(gofmt -l .)" && go vet ./... && go test -count=1 ./...
	timeout 3600 conformance/http3/run $(ARGS)

http3-clients: ## HTTP/3 with aioquic, curl and Chromium, also hostile QUIC: pip, go, and Chromium where it is installed
	cd conformance/http3 && test -z "$$(gofmt -l clients)" && go vet ./clients/...
	timeout 1800 conformance/http3/clients/run $(ARGS)

codecs: ## the HTTP/2 codec beside those of Go and nghttp2: verdicts, codes, fields and windows of the same bytes; go, python3, libnghttp2
	timeout 600 cargo test --locked -p fairway-http2 --test integration -- --ignored codecs::

conformance: ## h2spec, HTTP/1, smuggling and TLS against Fairway, nginx, HAProxy and Envoy: docs/conformance.md; some minutes
	cargo test --locked -p fairway --test integration -- conformance::
	timeout 3600 cargo test --locked -p fairway --test integration -- --ignored --nocapture conformance::report

e2e-programs:
	cd e2e && test -z "$$(gofmt -l .)" && go vet -tags before,plugin ./... && go test -count=1 $$(go list ./... | grep -v '/scenario$$')

# The gate's proof in a cluster: pods 5 -> 7 -> 5, Fairway's own replicas rolled, a route of a Gateway changed, all under load.
SCENARIOS ?= ^(TestScalingADeploymentLosesNoRequest|TestRollingFairwayToANewImageLosesNoRequest|TestAChangedRouteOfAGatewayLosesNoRequest)$$

cluster: setup e2e-programs quick ## a few of the end-to-end tests with the quick binary, in a cluster of their own, as root: minutes
	$(call pack,$(target_dir)/quick/fairway,$(target_dir)/quick)
	e2e/run.sh $(target_dir)/quick/fairway $(IMAGE) $(target_dir)/quick/fairway-image.tar '-test.run=$(SCENARIOS)' $(ARGS)

e2e: setup e2e-programs image ## the end-to-end tests in a cluster of their own, as root; NIGHTLY=1 for the long form, QUIET=1 to assert times
	NIGHTLY=$(NIGHTLY) QUIET=$(QUIET) e2e/run.sh $(fairway) $(IMAGE) $(image_archive) $(ARGS)

dashboard-test: build ## every page of the dashboard in Chromium, with 5,000 and 100,000 routes: axe, keyboard, scripts, other origins, times
	@.ci/setup dashboard
	cd e2e/dashboard && npm ci --ignore-scripts --no-audit --no-fund && node test.mjs --fairway $(abspath $(fairway)) --out $(abspath $(target_dir)/dashboard) $(ARGS)

ecosystem: setup e2e-programs image ## cert-manager, external-dns, oauth2-proxy and Argo Rollouts beside Fairway, in a cluster of its own, as root
	@.ci/setup ecosystem
	SUITE=ecosystem e2e/run.sh $(fairway) $(IMAGE) $(image_archive) $(ARGS)

# The newest release that is served: it has all fields of the earlier ones that Fairway reads.
gateway-types: ## the types of Gateway API, from the CRDs of the module that conformance/gateway/next.mod names
	crds=$$(cd conformance/gateway && export GOTOOLCHAIN=go$$(sed -n 's/^go //p' next.mod) && go mod download -modfile=next.mod sigs.k8s.io/gateway-api && \
		go list -modfile=next.mod -m -f '{{.Dir}}' sigs.k8s.io/gateway-api)/config/crd/experimental && \
	cargo run --quiet --locked -p fairway-objects --example generate -- $$crds crates/fairway-objects/src/gateway_api && \
	cargo fmt -p fairway-objects

gateway := conformance/gateway/run --image $(IMAGE) --archive $(image_archive)

gateway-conformance: setup image ## Gateway API's conformance suite in a cluster of its own, as root; ARGS='--run HTTPRoute' for some tests
	cd conformance/gateway && test -z "$$(gofmt -l .)" && go vet ./... && go test -count=1 ./claims ./results
	$(gateway) $(if $(filter 1,$(UPDATE)),--report conformance/reports/v1.6/fairway-fairway/experimental-v$(version)-default-report.yaml) $(ARGS)

gateway-conformance-quick: setup image
	$(gateway) --quick $(ARGS)

gateway-crds: ## the CRDs of Gateway API in the chart, from the module that conformance/gateway pins
	charts/tools/crds

deploy: ## deploy/fairway.yaml, from the chart
	mkdir -p deploy
	charts/tools/render >deploy/fairway.yaml.new
	mv deploy/fairway.yaml.new deploy/fairway.yaml

testbed-test: setup ## the tests of testbed/, with real clusters side by side; needs root
	cd testbed && test -z "$$(gofmt -l .)" && go vet ./... && go test -count=1 -timeout 20m ./...

bench: build ## the paired benchmark beside nginx, HAProxy, Envoy, Traefik and Caddy: all scenarios, 24 blocks of each, about an hour
	cargo build --release --locked -p fairway-bench
	$(target_dir)/release/fairway-bench run --fairway $(fairway) $(ARGS)

# Runs of the laboratory that are published.
published := $(wildcard docs/results/studies*.json.gz docs/results/gateway-api.json.gz)

lab-binary: ## the laboratory's command, $(target_dir)/release/fairway-lab
	cargo build --release --locked -p fairway-lab

lab-builds:
	@test -x $(fairway) -a -x $(target_dir)/release/fairway-lab || \
		echo "lab: first the release binaries are built, once, about ten minutes each on two cores; then the laboratory says its plan"

lab: lab-builds image lab-binary ## every published benchmark, shortened, beside nginx, HAProxy, Envoy, Caddy, Contour and Traefik: about 20 minutes, root
	@.ci/setup lab
	$(lab_run) all --quick --out $(LAB_OUT) $(ARGS)

lab-gateway: lab-builds image lab-binary ## gateway-api-bench, shortened, with Fairway, Contour and Traefik: some minutes, root
	@.ci/setup lab
	$(lab_run) gateway-api --quick --peers fairway,contour,traefik --out $(target_dir)/lab-gateway $(ARGS)

lab-long: lab-builds image lab-binary ## the benchmarks in a cluster in four rounds with both settings: two to two and a half hours, root
	@.ci/setup lab
	$(lab_run) dynamic comparison timeline propagation --long --out $(LAB_LONG_OUT) $(ARGS)

lab-peers: ## today's nginx, HAProxy and Caddy in a root folder in the cache, for the laboratory and the benchmark: a minute
	@command -v mmdebstrap >/dev/null || .ci/setup peers
	@lab/peers/current $(ARGS)

publish_steps := cpu http2 study2 tcp-udp routes floods promises studies-pods studies-routes cluster
.PHONY: publish $(publish_steps:%=publish-%)
publish: lab-binary image lab-peers ## the next step of the published measurements, 20 minutes at most; again until all are done: root, a quiet machine
	cargo build --release --locked -p fairway-bench
	lab/publish $(target_dir)

$(publish_steps:%=publish-%): publish-%: lab-binary image lab-peers
	cargo build --release --locked -p fairway-bench
	lab/publish $(target_dir) $*

lab-report: ## docs/results/report.html and the figures of README.md and docs/performance.md, from the published results
	cargo build --locked -p fairway-lab
	find docs/results -name '*.json' -size +50k | xargs --no-run-if-empty gzip -9nf
	$(target_dir)/debug/fairway-lab report $(published) -o docs/results/report.html
	$(target_dir)/debug/fairway-lab publish

lab-test: image ## the tests of the laboratory and the benchmark, and a few seconds in a testbed: Fairway must lose nothing there; root
	$(runner) cargo test --locked --no-fail-fast -p fairway-bench -p fairway-lab -p fairway-lab-traffic
	cargo build --locked -p fairway-lab
	$(target_dir)/debug/fairway-lab run dynamic --quick --peers fairway,nginx@system --fail-on-errors fairway \
		--set posts=0.0 --set rate=300 --set static_s=2.0 --set dynamic_s=6.0 --fairway $(fairway) --fairway-image $(image_archive) --out $(target_dir)/lab-test --replace

fuzz: ## each fuzz target for FUZZ_SECONDS
	.ci/fuzz $(FUZZ_SECONDS)

properties: setup ## the tests with a random seed, which is printed: PROPTEST_RNG_SEED repeats it; 10,000 COMPRESSED_BODIES
	@seed=$${PROPTEST_RNG_SEED:-$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}; echo "PROPTEST_RNG_SEED=$$seed"; \
		PROPTEST_RNG_SEED=$$seed COMPRESSED_BODIES=$${COMPRESSED_BODIES:-10000} $(runner) cargo test $(product) --locked --no-fail-fast

verify: ## everything that .ci/run leaves out, step by step; goes on where it was interrupted: target/verify/summary.md
	.ci/verify $(ARGS)

STEP ?= test
N ?= 10
repeat: ## a step of the gate N times on this revision, every second time on a busy machine: STEP=test N=10, STEP=cluster N=6
	.ci/repeat $(N) $(STEP)
