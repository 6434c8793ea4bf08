#!/bin/sh
# Java and Maven for local Kafka brokers, where packages can be installed. It never fails: where there is no way to a
# broker, the tests that need one fail and say so.
set -u
missing=""
command -v java >/dev/null || missing="default-jre-headless"
command -v mvn >/dev/null || missing="$missing maven"
[ -z "$missing" ] && exit 0

if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    echo "installing $missing for local Kafka brokers ..." >&2
    export DEBIAN_FRONTEND=noninteractive
    { apt-get -qq update && apt-get -qq install -y --no-install-recommends $missing; } >/dev/null && exit 0
    echo "apt-get could not install them." >&2
fi
cat >&2 <<MESSAGE
No local Kafka broker: $missing cannot be installed here. Install Java 17 or newer and Maven (Debian, Ubuntu: sudo apt-get
install default-jre-headless maven). Tests that kill no broker also run with STREAMINFER_TEST_KAFKA=host:port or with a
Docker engine that answers \`docker info\`.
MESSAGE
exit 0
