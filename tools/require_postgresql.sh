#!/bin/sh
# Requires a PostgreSQL server, which the tests of the store start themselves: installs
# it if it may (as root on Debian or Ubuntu), otherwise prints the command that does.
set -eu

say() { printf 'headgate: %s\n' "$1" >&2; }

has_server() {
    for initdb in /usr/lib/postgresql/*/bin/initdb; do
        [ -x "$initdb" ] && return 0
    done
    return 1
}

has_server && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    say "installing postgresql"
    apt-get -o Acquire::Retries=5 update -qq
    DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=5 install -y -qq --no-install-recommends \
        postgresql >/dev/null
    has_server && exit 0
fi
say "a PostgreSQL server is needed here; run: sudo apt-get install postgresql"
exit 1
