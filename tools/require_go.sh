#!/bin/sh
# Requires Go 1.19+, in which a test writes and reads reports as another language would:
# installs it if it may (as root on Debian or Ubuntu), otherwise prints the command.
set -eu

say() { printf 'headgate: %s\n' "$1" >&2; }

go_is_new_enough() {
    command -v go >/dev/null 2>&1 || return 1
    minor=$(go version | sed -n 's/.*go1\.\([0-9]*\).*/\1/p')
    [ "${minor:-0}" -ge 19 ]
}

go_is_new_enough && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    say "installing golang"
    apt-get -o Acquire::Retries=5 update -qq
    DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=5 install -y -qq --no-install-recommends \
        golang-go ca-certificates >/dev/null
    go_is_new_enough && exit 0
fi
say "Go 1.19+ is needed here; run: sudo apt-get install golang-go"
exit 1
