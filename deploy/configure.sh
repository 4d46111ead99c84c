#!/bin/sh
# Creates the group that the three agents of docker-compose.yml share; may run again.
set -eu
headgate group show gold > /dev/null 2>&1 ||
  headgate group create gold --limit requests=1000/s,burst=1000
headgate tenant create acme
headgate attach gold --tenant acme
