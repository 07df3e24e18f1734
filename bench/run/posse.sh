#!/bin/sh
# posse, the release binary of this checkout (POSSE_BIN picks another). Usage: posse.sh --version | PROMPT
. "$(dirname "$0")/common.sh"; isolate "${POSSE_NAME:-posse}"
BIN=${POSSE_BIN:-$BENCH/../target/release/posse}
[ -f "$H/posse.json" ] || cat > "$H/posse.json" <<J
{
  "model": "mock/mock",
  "permission": {"*": "allow"}, $POSSE_AGENTS
  "concurrency": {"default": 1000}, "limits": {"children": 2000, "tree": 4000},
  "provider": {"mock": {"api": "anthropic", "base_url": "$MOCK", "api_key": "x",
    "models": {"mock": {"context": 1000000, "output": 32000}}}}
}
J
V="POSSE_HOME=$H"
case $1 in
  --version) exec env -i $ENVV $V "$BIN" --version ;;
  *) exec env -i $ENVV $V "$BIN" run "$1" </dev/null ;;
esac
