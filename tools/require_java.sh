#!/bin/sh
# Requires Java 17+ and Maven, for Kafka and Spark: installs them if it may (as root on
# Debian or Ubuntu), otherwise prints the command that does.
set -eu

say() { printf 'headgate: %s\n' "$1" >&2; }

java_is_new_enough() {
    command -v java >/dev/null 2>&1 || return 1
    major=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    [ "${major:-0}" -ge 17 ]
}

missing=""
java_is_new_enough || missing="openjdk-17-jre-headless"
command -v mvn >/dev/null 2>&1 || missing="$missing maven"
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    say "installing $missing"
    apt-get -o Acquire::Retries=5 update -qq
    # Newer Debian releases have no openjdk-17; their default is newer still.
    apt-cache show openjdk-17-jre-headless >/dev/null 2>&1 ||
        missing=$(printf '%s' "$missing" | sed 's/openjdk-17-jre-headless/default-jre-headless/')
    # shellcheck disable=SC2086  # two names on purpose
    DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=5 install -y -qq $missing >/dev/null
    java_is_new_enough && command -v mvn >/dev/null 2>&1 && exit 0
fi
say "Java 17+ and Maven are needed here; run: sudo apt-get install $missing"
exit 1
