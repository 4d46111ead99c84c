#!/bin/sh
# Makes the topic of reports on a Kafka that has an authorizer, and gives agents and
# readers the rights that they need, and no others.  See README.md.
#
#     grant.sh ADMIN.json AGENT [READER …]
set -eu

section=$1 agent=$2
shift 2
headgate bus init "$section"
headgate bus allow "$section" --user "$agent"
for reader in "$@"; do
    headgate bus allow "$section" --user "$reader" --read-only
done
