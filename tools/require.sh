#!/bin/sh
# Requires programs that tests and the demo start themselves, by name:
#
#   java        Java 17+, for Kafka and Spark
#   maven       Maven, which fetches them
#   postgresql  a PostgreSQL server, for the store
#   redis       a Redis server, for Celery
#   nginx       nginx, for auth-request
#   browser     Chromium, for the web page
#   go          Go 1.19+, with which a test writes and reads reports
#
# Installs what is missing if it may (as root on Debian or Ubuntu), otherwise prints the
# command that does.
set -eu

PATH=$PATH:/usr/sbin # where nginx is

say() { printf 'headgate: %s\n' "$1" >&2; }

is_there() {
    case $1 in
    java) at_least 17 "$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)" ;;
    maven) command -v mvn ;;
    postgresql) ls /usr/lib/postgresql/*/bin/initdb ;;
    redis) command -v redis-server ;;
    nginx) command -v nginx ;;
    browser) command -v chromium || command -v chromium-browser ;;
    go) at_least 19 "$(go version | sed -n 's/.*go1\.\([0-9]*\).*/\1/p')" ;;
    *) false ;;
    esac >/dev/null 2>&1
}

at_least() { [ "${2:-0}" -ge "$1" ]; }

packages_of() {
    case $1 in
    java) java_package ;;
    redis) echo redis-server ;;
    nginx) echo nginx-light ;;
    browser) echo chromium fonts-dejavu-core ;;
    go) echo golang-go ca-certificates ;;
    maven | postgresql) echo "$1" ;;
    *)
        say "unknown program $1"
        exit 2
        ;;
    esac
}

# Newer Debian releases have no openjdk-17; their default is newer still.
java_package() {
    if apt-cache show openjdk-17-jre-headless >/dev/null 2>&1; then
        echo openjdk-17-jre-headless
    else
        echo default-jre-headless
    fi
}

# `make_venv.sh` may run beside this, and installs packages in the same way.
apt_get() {
    DEBIAN_FRONTEND=noninteractive flock /var/lib/apt apt-get -o Acquire::Retries=5 "$@"
}

# Prints the packages of the named programs that are missing.
missing() {
    for program in "$@"; do
        is_there "$program" || packages_of "$program"
    done
}

packages=$(missing "$@")
[ -n "$packages" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    apt_get update -qq
    packages=$(missing "$@" | tr '\n' ' ') # Debian's package names are known only now
    say "installing $packages"
    # shellcheck disable=SC2086  # several packages on purpose
    apt_get install -y -qq --no-install-recommends $packages >/dev/null
    packages=$(missing "$@" | tr '\n' ' ')
    [ -n "$packages" ] || exit 0
fi
say "some programs are missing; run: sudo apt-get install $(echo $packages)"
exit 1
