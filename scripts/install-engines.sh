#!/bin/sh
# Installs the embedded engines where they are missing, and says nothing when all is there:
#   redis-server   with apt (asks sudo when not root)
#   libchdb.so     from the npm package @chdb/lib-linux-x64-gnu, into ${HOTLEDGER_CACHE:-$HOME/.cache/hotledger}/chdb/VERSION/
# Arguments are further commands to have, each installed with apt from the package of the same name, or of the one after a colon:
#   install-engines.sh hledger pg_ctlcluster:postgresql
# CHDB_LIB_PATH, when set, names a libchdb.so of your own: then none is downloaded.
set -eu

chdb_package=@chdb/lib-linux-x64-gnu
chdb_version=26.7.3-stable.1
chdb_tarball_sha256=c0d32b129e988f2b9a9a31c9141aecf5e1e2453f9a079efc4d36ab8e3f92b2ad
chdb_library_bytes=566330096
chdb_disk_kib=1200000 # tarball, unpacked library and its rename, with room

cache=${HOTLEDGER_CACHE:-$HOME/.cache/hotledger}
chdb_dir=$cache/chdb/$chdb_version

say() { printf 'install-engines: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

install_commands() {
    missing=
    for name in "$@"; do
        command -v "${name%%:*}" >/dev/null 2>&1 || missing="$missing ${name##*:}"
    done
    [ -n "$missing" ] || return 0
    command -v apt-get >/dev/null 2>&1 || die "install these with your package manager, then try again:$missing"
    sudo=
    if [ "$(id -u)" -ne 0 ]; then sudo=sudo; fi
    say "installing with apt:$missing"
    # shellcheck disable=SC2086 # a list of words on purpose
    $sudo apt-get install -y -q --no-install-recommends $missing >/dev/null 2>&1 || {
        $sudo apt-get update -q >/dev/null
        $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing >/dev/null
    }
    # A package may start a service of its own; the ledger runs private servers on ports of their own and does not mind.
}

have_chdb() {
    [ -f "$chdb_dir/package.json" ] && [ -f "$chdb_dir/libchdb.so" ] &&
        grep -q "\"version\": *\"$chdb_version\"" "$chdb_dir/package.json" &&
        [ "$(wc -c <"$chdb_dir/libchdb.so")" -eq "$chdb_library_bytes" ]
}

install_chdb() {
    if [ -n "${CHDB_LIB_PATH:-}" ]; then
        [ -f "$CHDB_LIB_PATH" ] || die "CHDB_LIB_PATH names no file: $CHDB_LIB_PATH"
        return 0
    fi
    if have_chdb; then return 0; fi
    [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || die "libchdb is packaged for Linux on x86-64; set CHDB_LIB_PATH, or CLICKHOUSE_ADDRS to use a server"
    command -v npm >/dev/null 2>&1 || die "npm is needed to download libchdb, install it first (apt: npm)"

    mkdir -p "$cache/chdb"
    free=$(df -Pk "$cache/chdb" | awk 'NR == 2 { print $4 }')
    [ "$free" -ge "$chdb_disk_kib" ] || die "$cache has $free KiB free, $chdb_disk_kib KiB are needed"

    # Everything happens in a directory of this run's own; the last step is a rename.
    work=$(mktemp -d "$cache/chdb/.download.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' HUP INT TERM

    say "downloading $chdb_package@$chdb_version (178 MB) to $chdb_dir"
    tarball=$(cd "$work" && npm pack --silent "$chdb_package@$chdb_version" | tail -n 1)
    [ -f "$work/$tarball" ] || die "npm pack left no file $tarball"
    echo "$chdb_tarball_sha256  $work/$tarball" | sha256sum --check --status || die "the download is not the expected file: SHA-256 differs"

    say "unpacking libchdb.so (566 MB)"
    mkdir "$work/new"
    tar -xzf "$work/$tarball" -C "$work/new" --strip-components=1 package/package.json package/libchdb.so
    rm -f "$work/$tarball"
    rm -rf "$chdb_dir"
    mv -T "$work/new" "$chdb_dir" 2>/dev/null || have_chdb || die "cannot move the library to $chdb_dir" # another run may have been first
    have_chdb || die "$chdb_dir does not hold libchdb $chdb_version"
    say "libchdb $chdb_version is in $chdb_dir"
}

install_commands redis-server "$@"
install_chdb
