#!/bin/sh
# posse with agents that always run in the background: the same fan-out, nobody waits. Usage: posse_bg.sh --version | PROMPT
POSSE_NAME=posse_bg POSSE_AGENTS='"agent": {"general": {"background": true}, "explore": {"background": true}},' exec "$(dirname "$0")/posse.sh" "$@"
