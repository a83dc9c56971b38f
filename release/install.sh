#!/bin/sh
# Installs Fairway: a released binary where there is one, else one that it builds from this checkout.
#
#   install.sh [--prefix FOLDER]
#
# The binary, man pages and completions go below FOLDER (PREFIX; /usr/local). They are checked against SHA256SUMS, and the binary is run
# once, before anything is put in place.
#
#   FAIRWAY_RELEASES   the folder of the release: an address (https://, file://) with SHA256SUMS and the archives
#   FAIRWAY_VERSION    its version
set -eu
# release/build writes both into the script that it publishes.
releases=${FAIRWAY_RELEASES:-}
version=${FAIRWAY_VERSION:-}
prefix=${PREFIX:-/usr/local}

say() {
    echo "install: $*" >&2
}
fail() {
    say "$*; nothing was installed"
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
    --prefix) [ $# -gt 1 ] || fail "--prefix needs a folder"; prefix=$2; shift 2 ;;
    --help | -h) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p;}' "$0"; exit ;;
    *) fail "there is no $1; see --help" ;;
    esac
done

system=$(uname -s) machine=$(uname -m)
[ "$system" = Linux ] || fail "Fairway runs on Linux, and this is $system"
case $machine in
x86_64 | amd64) architecture=amd64 ;;
aarch64 | arm64) architecture=arm64 ;;
*) fail "there is no Fairway for $machine; it is built for amd64 (x86_64) and arm64 (aarch64)" ;;
esac

# The checkout that this script is in, if any.
checkout=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
[ -f "$checkout/release/install.sh" ] && [ -f "$checkout/Cargo.toml" ] || checkout=
[ -n "$version" ] || [ -z "$checkout" ] || version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$checkout/Cargo.toml")

mkdir -p "$prefix" 2>/dev/null && [ -w "$prefix" ] || fail "$prefix cannot be written; run this with sudo, or name another --prefix"
# Below the prefix, so that putting a file in place is a rename.
work=$(mktemp -d "$prefix/.fairway-install.XXXXXX") || fail "$prefix cannot be written"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# download FILE: 0 when it was there, 1 when the release does not have it; anything else is the end.
download() {
    command -v curl >/dev/null || fail "curl is missing; install it first, on Debian and Ubuntu: sudo apt-get install curl"
    code=0
    status=$(curl -sSfL --retry 2 -w '%{http_code}' -o "$work/$1" "$releases/$1" 2>"$work/error") || code=$?
    case $code-$status in
    0-*) return 0 ;;
    # Not found; 37 is that of file://.
    22-404 | 37-*) return 1 ;;
    esac
    fail "$releases/$1 could not be downloaded: $(head -n 1 "$work/error")"
}

# released NAME: the tree of the archive, if there is such a release.
released() {
    [ -n "$releases" ] && [ -n "$version" ] || return 1
    download SHA256SUMS || return 1
    expected=$(sed -n "s/^\([0-9a-f]\{64\}\)  $1\.tar\.gz$/\1/p" "$work/SHA256SUMS")
    [ -n "$expected" ] || fail "SHA256SUMS of $releases does not list $1.tar.gz; is FAIRWAY_VERSION=$version the version of this release?"
    download "$1.tar.gz" || fail "SHA256SUMS of $releases lists $1.tar.gz, which is not there"
    found=$(sha256sum "$work/$1.tar.gz" | cut -d' ' -f1)
    [ "$found" = "$expected" ] || fail "$1.tar.gz has the SHA-256 $found instead of $expected: it was damaged or replaced"
    tar -C "$work" -xzf "$work/$1.tar.gz" || fail "$1.tar.gz cannot be unpacked"
}

# built NAME: the same tree, of a binary that is built here.
built() {
    [ -n "$checkout" ] || fail "there is no release ${version:+$version }at ${releases:-FAIRWAY_RELEASES, which is not set}, and this script is not in a checkout that it could build"
    PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
    command -v cargo >/dev/null || fail "there is no release yet, and cargo is missing to build Fairway; install rustup first (https://rustup.rs)"
    say "there is no release${releases:+ at $releases}: building Fairway $version from $checkout, some minutes"
    revision=$(git -C "$checkout" rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
    (cd "$checkout" && FAIRWAY_REVISION=$revision cargo build --quiet --release --locked -p fairway) || fail "the build failed"
    target=${CARGO_TARGET_DIR:-$checkout/target}
    mkdir -p "$work/$1/bin" "$work/$1/share/man/man1" "$work/$1/share/bash-completion/completions" \
        "$work/$1/share/zsh/site-functions" "$work/$1/share/fish/vendor_completions.d"
    cp "$target/release/fairway" "$work/$1/bin/fairway"
    share=$work/$1/share
    "$work/$1/bin/fairway" man "$share/man/man1"
    "$work/$1/bin/fairway" completions bash >"$share/bash-completion/completions/fairway"
    "$work/$1/bin/fairway" completions zsh >"$share/zsh/site-functions/_fairway"
    "$work/$1/bin/fairway" completions fish >"$share/fish/vendor_completions.d/fairway.fish"
}

name=fairway-$version-linux-$architecture
released "$name" || built "$name"
"$work/$name/bin/fairway" version >"$work/version" 2>"$work/error" ||
    fail "the binary does not run on this system; it needs glibc 2.34 or newer: $(head -n 1 "$work/error")"
# All folders first: they are what can fail. The binary comes last, so that an older one serves until then.
files=$(cd "$work/$name" && find share -type f)
for file in $files bin/fairway; do
    folder=$prefix/$(dirname "$file")
    mkdir -p "$folder" 2>/dev/null && [ -w "$folder" ] || fail "$folder cannot be written"
done
for file in $files bin/fairway; do
    mv -f "$work/$name/$file" "$prefix/$file"
done
echo "$(head -n 1 "$work/version") is $prefix/bin/fairway"
