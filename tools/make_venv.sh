#!/bin/sh
# Creates the virtual environment that the Makefile works in, and installs Headgate
# with extras: `make_venv.sh server-kafka "half a minute"`.  The second argument says
# how long that takes.  PYTHON and VENV come from the Makefile.
set -eu

extras=$(printf '%s' "$1" | tr - ,)

say() { printf 'headgate: %s\n' "$1" >&2; }

if ! command -v "$PYTHON" >/dev/null 2>&1; then
    say "no $PYTHON found; install Python 3.11 or newer, or name one: make PYTHON=python3.12"
    exit 1
fi
if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    say "$PYTHON is older than 3.11; name a newer one: make PYTHON=python3.12"
    exit 1
fi
if [ ! -x "$VENV/bin/python" ] && ! "$PYTHON" -m venv "$VENV" 2>/dev/null; then
    rm -rf "$VENV"
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "installing python3-venv"
        # `require.sh` may install packages at the same time.
        flock /var/lib/apt sh -c \
            'apt-get update -qq && apt-get install -y -qq python3-venv' >/dev/null
        "$PYTHON" -m venv "$VENV"
    else
        say "$PYTHON can't make virtual environments; run: sudo apt-get install python3-venv"
        exit 1
    fi
fi
say "installing headgate[$extras] into $VENV ($2, once)"
# A module is compiled when it is first imported; compiling all of them here takes a
# quarter of the time, and most are never used.
"$VENV/bin/pip" install --quiet --disable-pip-version-check --no-compile \
    --editable ".[$extras]"
