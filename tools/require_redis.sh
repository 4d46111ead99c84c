#!/bin/sh
# Requires a Redis server, which the tests of Celery start themselves: installs
# it if it may (as root on Debian or Ubuntu), otherwise prints the command that does.
set -eu

say() { printf 'headgate: %s\n' "$1" >&2; }

has_server() { command -v redis-server >/dev/null 2>&1; }

has_server && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    say "installing redis-server"
    apt-get -o Acquire::Retries=5 update -qq
    DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=5 install -y -qq --no-install-recommends \
        redis-server >/dev/null
    has_server && exit 0
fi
say "a Redis server is needed here; run: sudo apt-get install redis-server"
exit 1
