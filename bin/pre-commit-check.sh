#!/bin/sh
# "weir check" for pre-commit, in the clone that it keeps. The packages that it needs come with the first run.
set -e
clone=$(cd "$(dirname "$0")/.." && pwd)
if [ ! -e "$clone/node_modules" ]; then
  npm ci --prefix "$clone" --omit=dev --ignore-scripts --no-audit --no-fund --silent >&2
fi
exec "$clone/bin/weir" check --quiet "$@"
