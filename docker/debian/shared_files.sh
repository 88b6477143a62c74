#!/usr/bin/env bash
# Puts what belongs beside an installed gateway below a folder: shared_files.sh COMMAND SHARE.
#
# Documentation, alert rules and board are files of this checkout. Completion and manual page come from the command
# itself, which is called by its name, as completion needs it.
set -euo pipefail
COMMAND=$1 SHARE=$2
ROOT=$(dirname "$0")/../..
put() { install -D --mode 0644 --target-directory "$SHARE/$1" "${@:2}"; }

put doc/amqp-gateway "$ROOT"/{README.md,CHANGELOG.md,LICENSE}
put doc/amqp-gateway/docs "$ROOT"/docs/*.md
put doc/amqp-gateway/docs/_static "$ROOT"/docs/_static/*.{svg,png}
put amqp-gateway/prometheus "$ROOT"/docker/prometheus/alerts.yml
put amqp-gateway/grafana "$ROOT"/docker/grafana/amqp-brokers.json
mkdir -p "$SHARE"/{bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d,man/man1}
export PYTHONDONTWRITEBYTECODE=1
_AMQP_GATEWAY_COMPLETE=bash_source "$COMMAND" >"$SHARE/bash-completion/completions/amqp-gateway"
_AMQP_GATEWAY_COMPLETE=zsh_source "$COMMAND" >"$SHARE/zsh/vendor-completions/_amqp-gateway"
_AMQP_GATEWAY_COMPLETE=fish_source "$COMMAND" >"$SHARE/fish/vendor_completions.d/amqp-gateway.fish"
"$COMMAND" manual | gzip --no-name --best >"$SHARE/man/man1/amqp-gateway.1.gz"
