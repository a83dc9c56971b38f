#!/usr/bin/env bash
# The end-to-end tests: a testbed of its own, the chart in it, all scenarios, and nothing left behind, however it ends.
# usage: e2e/run.sh FAIRWAY IMAGE ARCHIVE [ARGUMENTS OF THE TESTS, e.g. -test.run=Propagation]
# `make e2e` calls it; NIGHTLY=1 is the long form. The figures are in e2e.json beside the archive.
# SUITE=ecosystem, as in `make ecosystem`, runs the scenarios with programs that people run beside Fairway instead, with an image of each
# program; PROGRAMS='NAME...' are the folders of e2e/programs that are needed, for a run of some scenarios. Its figures are in ecosystem.json.
#
# With FAIRWAY_BEFORE, the binary of the release before, and FAIRWAY_BEFORE_CHART, its chart, there is one more scenario: the upgrade
# from it and the way back.
set -euo pipefail
# Background jobs get process groups of their own, so that all of one can be ended.
set -m

fairway=$(realpath "$1") image=$2 archive=$(realpath "$3")
shift 3
cd "$(dirname "$0")/.."
results=$(dirname "$archive")
name=e2e-$$
testbed=$PWD/testbed/testbed
next=$image-next
backend=localhost/fairway-e2e-backend:$name
coredns=localhost/fairway-e2e-coredns:$name
redis=localhost/fairway-e2e-redis:$name
work=$(mktemp -d "$results/e2e.XXXXXX")
running=

end() {
    local code=$?
    trap - EXIT INT TERM HUP
    if [ -n "$running" ]; then kill -TERM -- "-$running" 2>/dev/null || true; wait "$running" 2>/dev/null || true; fi
    "$testbed" --name "$name" down || { echo "e2e: testbed $name could not be taken down" >&2; code=2; }
    rm -rf "$work"
    exit $code
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# watched COMMAND...: in the background, so that a signal ends it at once.
watched() {
    local result=0
    "$@" &
    running=$!
    wait "$running" || result=$?
    running=
    return $result
}

begin=$SECONDS
more=()
if [ -n "${FAIRWAY_BEFORE:-}" ]; then
    E2E_BEFORE_FAIRWAY=$(realpath "$FAIRWAY_BEFORE")
    E2E_BEFORE_CHART=$(realpath "${FAIRWAY_BEFORE_CHART:?FAIRWAY_BEFORE_CHART names the chart of FAIRWAY_BEFORE}")
    export E2E_BEFORE_FAIRWAY E2E_BEFORE_CHART E2E_BEFORE_IMAGE=$image-before
    strip --strip-debug -o "$work/fairway-before" "$E2E_BEFORE_FAIRWAY"
    "$testbed" image build --name "$E2E_BEFORE_IMAGE" --binary "$work/fairway-before:/usr/bin/fairway" --entrypoint /usr/bin/fairway \
        --user 65532:65532 -o "$work/before.tar"
    more=("$work/before.tar")
fi
# Without a release before, or without the plugin of Argo Rollouts, their scenarios are not there.
tags=${FAIRWAY_BEFORE:+before},${E2E_ROLLOUTS_GATEWAY_PLUGIN:+plugin}
[ -n "${E2E_ROLLOUTS_GATEWAY_PLUGIN:-}" ] || [ "${SUITE:-}" != ecosystem ] ||
    echo "e2e: E2E_ROLLOUTS_GATEWAY_PLUGIN names no program, so rollouts-gateway is left out; docs/ecosystem.md says where releases of it are"
(cd e2e && CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o "$work/backend" ./backend &&
    go test -c -tags "$tags" -o "$work/scenarios" ./scenario)
"$testbed" image build --name "$backend" --binary "$work/backend:/backend" --entrypoint /backend -o "$work/backend.tar"
# The same program under another name: what Fairway is rolled to.
"$testbed" image build --name "$next" --binary "$results/fairway-stripped:/usr/bin/fairway" --entrypoint /usr/bin/fairway \
    --user 65532:65532 --label org.opencontainers.image.title=fairway-next -o "$work/next.tar"
# What users put behind TCP and UDP services: the CoreDNS of the testbed itself, and Debian's Redis, whose server is the same program as
# its check of dumps under another name.
server=$(command -v redis-server || command -v redis-check-rdb) ||
    { echo "e2e: redis-check-rdb is missing; on Debian and Ubuntu: sudo apt-get install redis-tools" >&2; exit 2; }
"$testbed" image build --name "$redis" --binary "$server:/usr/bin/redis-server" --entrypoint /usr/bin/redis-server -o "$work/redis.tar"
command -v openssl >/dev/null || { echo "e2e: openssl is missing; on Debian and Ubuntu: sudo apt-get install openssl" >&2; exit 2; }
programs=$("$testbed" binaries)
"$testbed" image build --name "$coredns" --binary "$(ls -t "$programs"/coredns-*/coredns | head -n 1):/coredns" \
    --entrypoint /coredns -o "$work/coredns.tar"
selected=-test.skip=^TestEcosystem
if [ "${SUITE:-}" = ecosystem ]; then
    selected=-test.run=^TestEcosystem
    for each in ${PROGRAMS:-$(e2e/programs/tool)}; do
        built=$(e2e/programs/tool "$each")
        for program in "$built"/*; do
            base=$(basename "$program")
            "$testbed" image build --name "localhost/fairway-e2e-$base:$name" --binary "$program:/$base" --entrypoint "/$base" \
                --user 65532:65532 -o "$work/program-$base.tar"
        done
    done
fi
charts/tools/helm version --short >/dev/null
watched "$testbed" --name "$name" up
"$testbed" --name "$name" image load "$archive" "$work/next.tar" "$work/backend.tar" "$work/coredns.tar" "$work/redis.tar" "${more[@]}"
for each in "$work"/program-*.tar; do
    # An archive that is loaded is not needed any more, and some are large.
    [ ! -f "$each" ] || { "$testbed" --name "$name" image load "$each"; rm "$each"; }
done
echo "e2e: testbed $name is up with its images after $((SECONDS - begin)) s"

export E2E_TESTBED=$testbed E2E_NAME=$name E2E_HELM=$PWD/charts/tools/helm E2E_CHART=$PWD/charts/fairway
export E2E_FAIRWAY=$fairway E2E_IMAGE=$image E2E_IMAGE_NEXT=$next E2E_BACKEND_IMAGE=$backend E2E_RESULTS=$results
export E2E_COREDNS_IMAGE=$coredns E2E_REDIS_IMAGE=$redis E2E_PROGRAMS=$PWD/e2e/programs/tool E2E_SUITE=${SUITE:-e2e}
# Nothing can be fetched inside of the testbed.
E2E_DEFINITIONS=$(lab/peers/tool gateway-api)/config/crd/standard
export E2E_DEFINITIONS
E2E_REVISION=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
git diff --quiet HEAD 2>/dev/null || E2E_REVISION="$E2E_REVISION with changes"
export E2E_REVISION
result=0
scenarios() {
    "$testbed" --name "$name" exec "$work/scenarios" -test.v -test.parallel=3 -test.timeout=4h "$selected" "$@" 2>&1 | tee "$work/log"
}
watched scenarios "$@" || result=$?
passed=$(grep -c '^--- PASS' "$work/log" || true) failed=$(grep -c '^--- FAIL' "$work/log" || true)
# A busy machine can fail one scenario of a run; one that fails by itself as well is no chance. More than one is none either.
retried=-
if [ $result != 0 ] && [ "$failed" = 1 ]; then
    retried=$(sed -n 's/^--- FAIL: \([^ ]*\) .*/\1/p' "$work/log")
    echo "e2e: $retried failed; once more by itself"
    result=0
    watched scenarios "-test.run=^$retried\$" || result=$?
    [ $result = 0 ] && passed=$((passed + 1)) failed=0 && echo "retried: $retried"
fi
# `make verify` looks for scenarios that had to be retried again and again.
printf '%s\t%s\t%s\t%s\n' "$(date -u +%FT%TZ)" "$E2E_REVISION" "$result" "$retried" >>"${XDG_CACHE_HOME:-$HOME/.cache}/fairway/e2e-runs.tsv"
# In the words of cargo, so that .ci/run adds them up. Scenarios that never ran have no line of their own.
[ $result = 0 ] || [ "$failed" != 0 ] || failed=1
if [ $result != 0 ] && [ -n "${FAIRWAY_FAILURES:-}" ]; then
    sed -n "s/^--- FAIL: \([^ ]*\) .*/\1\tmake cluster SCENARIOS='^\1\$'/p" "$work/log" >>"$FAIRWAY_FAILURES"
fi
echo "test result: $([ $result = 0 ] && echo ok || echo FAILED). $passed passed; $failed failed; in $((SECONDS - begin)) s"
exit $result
