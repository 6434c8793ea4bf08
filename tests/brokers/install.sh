#!/bin/sh
# Java and Maven for local Kafka brokers, and further packages that are arguments and have commands of the same names,
# where packages can be installed. It runs once before all tests: several package managers at a time get into each
# other's way. It never fails: where something is missing, the tests that need it fail and say so.
set -u
missing=""
command -v java >/dev/null || missing="default-jre-headless"
command -v mvn >/dev/null || missing="$missing maven"
for package in "$@"; do
    command -v "$package" >/dev/null || missing="$missing $package"
done
[ -z "$missing" ] && exit 0

if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    echo "installing $missing ..." >&2
    export DEBIAN_FRONTEND=noninteractive
    { apt-get -qq update && apt-get -qq install -y --no-install-recommends $missing; } >/dev/null && exit 0
    echo "apt-get could not install them." >&2
fi
cat >&2 <<MESSAGE
Missing, and cannot be installed here: $missing. A local Kafka broker needs Java 17 or newer and Maven (Debian, Ubuntu: sudo
apt-get install default-jre-headless maven). Tests that kill no broker also run with STREAMINFER_TEST_KAFKA=host:port or
with a Docker engine that answers \`docker info\`.
MESSAGE
exit 0
