#!/bin/sh
# Fetches what one Apache Kafka broker needs to run, and says nothing when it is there already:
#   java, mvn   with apt where they are missing (asks sudo when not root)
#   the jars    with Maven, into ${HOTLEDGER_CACHE:-$HOME/.cache/hotledger}/kafka/VERSION/lib
#   beside them, an empty formatted log directory, so that a broker starts without formatting its own
# "install-kafka.sh dir" says where that is.
set -eu

kafka_version=4.1.1
kafka_jars_sha256=cc103740486a3dac6e1ea7592ee7d3ae8307b7b5ad7f45e8003104a16f2548c2 # of the list that sha256sum prints
cluster_id=hotledgerSandboxKafkaA

dir=${HOTLEDGER_CACHE:-$HOME/.cache/hotledger}/kafka/$kafka_version
if [ "${1:-}" = dir ]; then echo "$dir"; exit 0; fi

say() { printf 'install-kafka: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

install_commands() {
    missing=
    command -v java >/dev/null 2>&1 || missing="$missing default-jre-headless"
    have_kafka || command -v mvn >/dev/null 2>&1 || missing="$missing maven"
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
}

sum_of() { (cd "$1" && LC_ALL=C sha256sum -- *.jar | LC_ALL=C sort -k 2 | sha256sum | cut -d ' ' -f 1); }

have_kafka() { [ -f "$dir/formatted/meta.properties" ] && [ -d "$dir/lib" ] && [ "$(sum_of "$dir/lib")" = "$kafka_jars_sha256" ]; }

pom() {
    cat <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>hotledger</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$kafka_version</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
POM
}

# properties of the broker that the directory is formatted for and the archive is made with; the sandbox writes its own.
properties() {
    cat <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:1
listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:1
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$1/formatted
PROPERTIES
}

fetch() {
    mkdir -p "${dir%/*}"
    work=$(mktemp -d "${dir%/*}/.download.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' HUP INT TERM

    say "fetching Apache Kafka $kafka_version with Maven (43 MB) to $dir"
    pom >"$work/pom.xml"
    (cd "$work" && mvn -B -q dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$work/new/lib" >"$work/maven.log" 2>&1) ||
        { tail -n 20 "$work/maven.log" >&2; die "Maven cannot fetch the jars"; }
    [ "$(sum_of "$work/new/lib")" = "$kafka_jars_sha256" ] || die "the jars are not the expected ones: their SHA-256 is $(sum_of "$work/new/lib")"

    properties "$work/new" >"$work/server.properties"
    java -cp "$work/new/lib/*" kafka.tools.StorageTool format -t "$cluster_id" -c "$work/server.properties" >"$work/format.log" 2>&1 ||
        { tail -n 20 "$work/format.log" >&2; die "cannot format a log directory"; }
    rm -rf "$dir"
    mv -T "$work/new" "$dir" 2>/dev/null || have_kafka || die "cannot move the jars to $dir" # another run may have been first
    have_kafka || die "$dir does not hold Apache Kafka $kafka_version"
    say "Apache Kafka $kafka_version is in $dir"
}

install_commands
have_kafka || fetch
