#!/bin/sh
# Counts the instructions in user space that Fairway spends on a request, with callgrind:
# docs/design/0037-cost-of-features.md.
#
#   bench/instructions.sh PATH-TO-FAIRWAY [CASE...]
#
# A case is an Ingress and what its client sends; `plain`, `origin` and `cookie` have no annotations and differ in what
# they send. Each has a process of its own with one worker; after a warm-up, 2,000 requests on one connection are
# counted. With INSTRUCTIONS_HTTP=2 that connection is one of HTTP/2 in the clear, with one stream at a time. Needs valgrind,
# curl and for HTTP/2 h2load, and debug information for the profiles that it leaves in INSTRUCTIONS_OUT.
set -eu
fairway=$1
shift
[ $# -gt 0 ] || set -- plain origin features rate connections cookie session persistent hash canary basic auth
requests=2000
http=${INSTRUCTIONS_HTTP:-1}
case $http in 1 | 2) ;; *) echo "INSTRUCTIONS_HTTP is 1 or 2" >&2; exit 2 ;; esac
port=${INSTRUCTIONS_PORT:-18480}
out=${INSTRUCTIONS_OUT:-$(mktemp -d)}
mkdir -p "$out"

children=
stop() {
    trap - EXIT INT TERM
    [ -z "$children" ] || kill $children 2>/dev/null || true
    wait
}
trap stop EXIT
trap 'exit 1' INT TERM

"$fairway" echo --listen "127.0.0.1:$((port + 4))" >/dev/null 2>&1 &
children=$!

# A Service and its only endpoint, the echo backend; or $far as well, which gets no request.
service() {
    cat <<YAML
---
apiVersion: v1
kind: Service
metadata: {name: $1, namespace: a}
spec: {ports: [{port: 80, targetPort: $((port + 4))}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: $1-1, namespace: a, labels: {kubernetes.io/service-name: $1}}
addressType: IPv4
ports: [{port: $((port + 4))}]
endpoints:
- {addresses: [127.0.0.1], conditions: {ready: true}, zone: a}
${far:-}
YAML
}

# An Ingress NAME of a path to a Service, with annotations as a flow mapping.
ingress() {
    cat <<YAML
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: $1, namespace: a, annotations: {$4}}
spec:
  ingressClassName: fairway
  rules:
  - host: a.test
    http: {paths: [{path: "$2", pathType: ImplementationSpecific, backend: {service: {name: $3, port: {number: 80}}}}]}
YAML
}

manifests() {
    n=nginx.ingress.kubernetes.io
    path=/
    annotations=
    far=
    case $1 in
    features)
        path='/(.*)'
        annotations="$n/enable-cors: 'true', $n/custom-headers: a/headers, $n/rewrite-target: '/\$1'"
        ;;
    rewrite)
        path='/(.*)'
        annotations="$n/rewrite-target: '/\$1'"
        ;;
    cors) annotations="$n/enable-cors: 'true'" ;;
    header) annotations="$n/custom-headers: a/headers" ;;
    rate) annotations="$n/limit-rps: '1000000'" ;;
    connections) annotations="$n/limit-connections: '100'" ;;
    session) annotations="$n/affinity: cookie, $n/session-cookie-name: route" ;;
    persistent) annotations="$n/affinity: cookie, $n/affinity-mode: persistent, $n/session-cookie-name: route" ;;
    hash) annotations="$n/upstream-hash-by: \$request_uri" ;;
    basic) annotations="$n/auth-type: basic, $n/auth-secret: users" ;;
    auth) annotations="$n/auth-url: http://other.a.svc.cluster.local/bytes/0" ;;
    zones)
        annotations="fairway.dev/traffic-distribution: PreferSameZone"
        far='- {addresses: [127.0.0.9], conditions: {ready: true}, zone: b}'
        ;;
    health) annotations="fairway.dev/health: '{\"check\": {\"interval\": \"1h\"}, \"slowStart\": \"1s\"}'" ;;
    esac
    cat <<YAML
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: fairway}
spec: {controller: fairway.dev/ingress-controller}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: a}
data: {global-allowed-response-headers: X-One}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: headers, namespace: a}
data: {X-One: one}
---
apiVersion: v1
kind: Secret
metadata: {name: users, namespace: a}
stringData: {auth: 'u:\$2y\$04\$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW'}
YAML
    service web
    service other
    ingress web "$path" web "$annotations"
    [ "$1" != canary ] || ingress web-canary / other "$n/canary: 'true', $n/canary-weight: '10'"
}

# As many requests as the second word says, on one connection, as a browser sends them.
ask() {
    case $1 in
    origin | features | cors) set -- "$1" "$2" -H 'Origin: http://o.test' ;;
    cookie) set -- "$1" "$2" -H 'Cookie: route=0123456789abcdef|fedcba9876543210fedcba9876543210' ;;
    session | persistent) set -- "$1" "$2" -H "Cookie: $session" ;;
    basic) set -- "$1" "$2" -H 'Authorization: Basic dTpzZWNyZXQ=' ;;
    esac
    count=$2
    shift 2
    set -- -H 'User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0' \
        -H 'Accept: text/html,application/xhtml+xml' -H 'Accept-Language: en-US,en;q=0.5' \
        -H 'Accept-Encoding: gzip, deflate, br' "$@"
    if [ "$http" = 2 ]; then
        h2load -n "$count" -c 1 -m 1 -H ':authority: a.test' "$@" "http://127.0.0.1:$port/bytes/1024" |
            grep -q "status codes: $count 2xx,"
    else
        curl -sS -o /dev/null -w '%{http_code}\n' -H 'Host: a.test' "$@" "http://127.0.0.1:$port/bytes/1024?[1-$count]" |
            sort | uniq -c | grep -qx " *$count 200"
    fi || { echo "not all requests were answered 200" >&2; exit 1; }
}

for name in "$@"; do
    here=$out/$name
    rm -rf "$here"
    mkdir -p "$here/manifests"
    manifests "$name" >"$here/manifests/all.yaml"
    [ "$name" = zones ] && zone=a || zone=
    FAIRWAY_ZONE=$zone valgrind --tool=callgrind --instr-atstart=no --callgrind-out-file="$here/callgrind.out" "$fairway" run \
        --manifests "$here/manifests" --configmap a/settings --http "127.0.0.1:$port" --https "127.0.0.1:$((port + 1))" \
        --admin "127.0.0.1:$((port + 2))" --workers 1 --access-log off --drain-delay 0 --drain-timeout 1 \
        >"$here/log" 2>&1 &
    proxy=$!
    children="$children $proxy"
    until curl -sf -o /dev/null "http://127.0.0.1:$((port + 2))/readyz"; do
        kill -0 "$proxy"
        sleep 0.2
    done
    session=$(curl -s -o /dev/null -D - -H 'Host: a.test' "http://127.0.0.1:$port/" | sed -n 's/^[Ss]et-[Cc]ookie: \([^;]*\).*/\1/p')
    ask "$name" 500
    callgrind_control -i on "$proxy" >/dev/null 2>&1
    ask "$name" 1
    callgrind_control -z "$proxy" >/dev/null 2>&1
    ask "$name" $requests
    callgrind_control -d "$proxy" >/dev/null 2>&1
    sleep 0.5
    kill "$proxy"
    wait "$proxy" || true
    total=$(sed -n 's/^\(summary\|totals\): \([0-9]*\).*/\2/p' "$here/callgrind.out.1" | head -n 1)
    printf '%-12s %6d\n' "$name" $((total / requests))
done
