#!/bin/sh
# Writes a Secret of type kubernetes.io/tls with a fresh self-signed RSA-2048 certificate to the standard output.
# For trying things out only: nobody trusts it.
#
#   examples/certificate.sh NAMESPACE/NAME HOST...
set -eu
[ $# -ge 2 ] || { echo "usage: $0 NAMESPACE/NAME HOST..." >&2; exit 2; }
secret=$1
shift
names=
for host in "$@"; do names="$names${names:+,}DNS:$host"; done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj "/CN=$1" -addext "subjectAltName=$names" \
    -keyout "$work/tls.key" -out "$work/tls.crt" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }

cat <<YAML
apiVersion: v1
kind: Secret
metadata:
  namespace: ${secret%%/*}
  name: ${secret#*/}
type: kubernetes.io/tls
data:
  tls.crt: $(base64 -w0 <"$work/tls.crt")
  tls.key: $(base64 -w0 <"$work/tls.key")
YAML
