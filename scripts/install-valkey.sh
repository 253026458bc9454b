#!/bin/sh
# Installs Valkey, for the tests and benchmarks that run on it instead of Redis, as ${HOTLEDGER_CACHE:-$HOME/.cache/hotledger}/valkey/valkey-server, and says
# nothing when it is there. A valkey-server in PATH is taken; else it comes from Debian's packages, verified by apt, and is unpacked into the cache with the
# libraries that it needs: the machine's Debian may be older than the one that has it, and nothing of the machine changes.
set -eu

release=trixie # the first Debian release with a Valkey that keeps hashes in its dense table (8.1)
packages='valkey-tools libc6 libssl3t64 libatomic1 libjemalloc2 liblzf1 libsystemd0 libcap2 libzstd1 zlib1g libgcc-s1'

dir=${HOTLEDGER_CACHE:-$HOME/.cache/hotledger}/valkey

say() { printf 'install-valkey: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

if "$dir/valkey-server" --version >/dev/null 2>&1; then exit 0; fi
rm -rf "$dir"
mkdir -p "$(dirname "$dir")"

if system=$(command -v valkey-server); then
    mkdir "$dir"
    ln -s "$system" "$dir/valkey-server"
    exit 0
fi
command -v apt-get >/dev/null 2>&1 || die "install valkey-server 8.1 or later with your package manager, then try again"
# shellcheck disable=SC2016 # apt expands it
site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Origin: Debian' | head -n 1)
[ -n "$site" ] || die "this is not Debian: install valkey-server 8.1 or later with your package manager, then try again"

# Everything happens in a directory of this run's own, apt's lists included; the last step is a rename.
work=$(mktemp -d "$dir.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
mkdir -p "$work/state/lists/partial" "$work/archives/partial" "$work/packages" "$work/new"
: >"$work/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site $release main" >"$work/sources.list"
apt() {
    apt-get -q -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State="$work/state" -o Dir::State::status="$work/status" \
        -o Dir::Cache="$work" -o Acquire::Languages=none -o APT::Sandbox::User=root "$@" >"$work/apt.log" 2>&1 || die "apt-get $1: $(tail -n 3 "$work/apt.log")"
}
say "downloading Valkey of Debian $release with its libraries (14 MB)"
apt update
# shellcheck disable=SC2086 # a list of words on purpose
(cd "$work/packages" && apt download $packages)
for package in "$work"/packages/*.deb; do dpkg-deb -x "$package" "$work/new"; done

# The server is one program under several names; valkey-tools has it as the checker of append-only files. Its own loader finds its own libraries.
cat >"$work/new/valkey-server" <<'WRAPPER'
#!/bin/sh
dir=$(dirname "$0")
lib=$(echo "$dir"/usr/lib/*-linux-gnu)
exec "$lib"/ld-linux-*.so.* --argv0 valkey-server --library-path "$lib" "$dir/usr/bin/valkey-check-aof" "$@"
WRAPPER
chmod 755 "$work/new/valkey-server"
version=$("$work/new/valkey-server" --version) || die "what was downloaded does not run here"
mv -T "$work/new" "$dir" 2>/dev/null || [ -x "$dir/valkey-server" ] || die "cannot move Valkey to $dir" # another run may have been first
say "$version is in $dir"
