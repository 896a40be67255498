#!/bin/sh
# Real systemd as PID 1 of a throw-away machine, and inboxd on it: make test-systemd
set -eu
cd "$(dirname "$0")/../.."
if [ "$(id -u)" != 0 ]; then
  echo "make test-systemd makes namespaces and mounts: run it as root, or with sudo -E" >&2
  exit 1
fi
exec .venv/bin/python -m pytest -m systemd -p no:cacheprovider tests/systemd "$@"
