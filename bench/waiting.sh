#!/bin/sh
# What a background task costs that waits for its turn: the peak memory of a run with N tasks behind a lane of one, for
# two N. Needs a release build, GNU time and the mock.
cd "$(dirname "$0")" || exit 1
BENCH=$PWD
. run/common.sh; isolate posse_waiting
BIN=${POSSE_BIN:-$BENCH/../target/release/posse}
mkdir -p "$H"
cat > "$H/posse.json" <<J
{"model": "mock/mock", "permission": {"*": "allow"}, "concurrency": {"default": 1}, "limits": {"children": 4000, "tree": 8000},
 "agent": {"general": {"background": true}, "explore": {"background": true}},
 "provider": {"mock": {"api": "anthropic", "base_url": "$MOCK", "api_key": "x", "models": {"mock": {"context": 1000000, "output": 32000}}}}}
J
cd fixture || exit 1
peak() {
  rm -rf "$H/data"
  env -i $ENVV POSSE_HOME="$H" /usr/bin/time -f %M "$BIN" run -q "BENCH fanout $1 loop 1" </dev/null 2>&1 >/dev/null | tail -n 1
}
FEW=100 MANY=1100
A=$(peak $FEW); B=$(peak $MANY)
echo "peak with $FEW waiting tasks: $A KB; with $MANY: $B KB; each more: $(( (B - A) / (MANY - FEW) )) KB"
