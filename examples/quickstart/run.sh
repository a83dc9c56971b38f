#!/bin/sh
# Starts three echo backends and Fairway over them, says what to try, and ends everything on Ctrl-C.
#
#   examples/quickstart/run.sh PATH-TO-FAIRWAY [FLAGS OF fairway run...]
set -eu
fairway=$1
shift
here=$(dirname "$0")
[ -f "$here/tls.yaml" ] || "$here/../certificate.sh" shop/shop-tls shop.example.com >"$here/tls.yaml"

children=
stop() {
    trap - EXIT INT TERM
    [ -z "$children" ] || kill $children 2>/dev/null || true
    wait
}
trap stop EXIT
trap 'exit 0' INT TERM

for number in 1 2 3; do
    "$fairway" echo --listen "127.0.0.1:300$number" --name "echo-$number" &
    children="$children $!"
done
"$fairway" run --manifests "$here" --http 127.0.0.1:8080 --https 127.0.0.1:8443 \
    --public-http-port 8080 --public-https-port 8443 --drain-delay 0 --drain-timeout 5 "$@" &
main=$!
children="$children $main"

cat <<TEXT

  Fairway serves $here. In another terminal:

    curl -k --resolve shop.example.com:8443:127.0.0.1 https://shop.example.com:8443/cart
    curl -i --resolve shop.example.com:8080:127.0.0.1 http://shop.example.com:8080/cart
    curl --resolve api.example.com:8080:127.0.0.1 http://api.example.com:8080/v1/items
    curl http://127.0.0.1:10254/readyz

    $fairway explain https://shop.example.com/cart --manifests $here
    $fairway check $here

  Change a file in $here and ask again: nothing is restarted. Ctrl-C ends everything.

TEXT
wait "$main"
