#!/bin/sh
# Requires Chromium, for the tests of the web page: installs it if it may (as root on
# Debian or Ubuntu), otherwise prints the command that does.
set -eu

say() { printf 'headgate: %s\n' "$1" >&2; }

has_browser() {
    command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1
}

has_browser && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    say "installing chromium"
    apt-get -o Acquire::Retries=5 update -qq
    DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=5 install -y -qq --no-install-recommends \
        chromium fonts-dejavu-core >/dev/null
    has_browser && exit 0
fi
say "Chromium is needed here; run: sudo apt-get install chromium"
exit 1
