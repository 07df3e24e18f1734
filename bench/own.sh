#!/bin/sh
# What the harness has no test for: opening a long session, and the log's durable throughput. Needs a release build and the mock.
cd "$(dirname "$0")" || exit 1
BENCH=$PWD
. run/common.sh; isolate posse_own
BIN=${POSSE_BIN:-$BENCH/../target/release/posse}
mkdir -p "$H"
cat > "$H/posse.json" <<J
{"model": "mock/mock", "permission": {"*": "allow"}, "provider": {"mock": {"api": "anthropic", "base_url": "$MOCK", "api_key": "x", "models": {"mock": {"context": 10000000, "output": 32000}}}}}
J
cd fixture || exit 1
posse() { env -i $ENVV POSSE_HOME="$H" "$BIN" "$@" </dev/null; }
rm -rf "$H/data"
posse run -q "BENCH loop 2000" > /dev/null
ID=$(posse sessions list | head -n 1 | cut -d' ' -f1)
echo "events in the long session: $(posse sessions show "$ID" --format json | python3 -c 'import json,sys; print(len(json.load(sys.stdin)["events"]))')"
for n in 1 2 3 4 5; do
  s=$(date +%s%N); posse sessions resume -q "$ID" > /dev/null; e=$(date +%s%N)
  echo "open it, fold it, print its last answer: $(( (e - s) / 1000000 )) ms"
done
cd ../.. && cargo run --release -q -p posse-store --example throughput
