#!/bin/sh
# `fanout` with forks in place of fresh subagents: each begins with its caller's conversation. Needs a release build and no running mock.
cd "$(dirname "$0")" || exit 1
BENCH=$PWD
. run/common.sh; isolate posse_forks
BIN=${POSSE_BIN:-$BENCH/../target/release/posse}
echo '{"agent_types": ["fork"]}' > tmp/forkmap.json
./mock.sh start --map "$BENCH/tmp/forkmap.json"; sleep 1
mkdir -p "$H"
cat > "$H/posse.json" <<J
{"model": "mock/mock", "fork": "explicit", "permission": {"*": "allow"}, "concurrency": {"default": 1000}, "limits": {"children": 2000, "tree": 4000},
 "provider": {"mock": {"api": "anthropic", "base_url": "$MOCK", "api_key": "x",
   "models": {"mock": {"context": 1000000, "output": 32000, "cost": {"input": 1, "output": 1, "cache_read": 0.1}}}}}}
J
cd fixture || exit 1
for n in 10 50 100 100 100; do
  rm -rf "$H/data"
  env -i $ENVV POSSE_HOME="$H" /usr/bin/time -f "fanout $n as forks: %e s, %M KB" "$BIN" run -q "BENCH fanout $n loop 5" < /dev/null > /dev/null
done
cd .. && ./mock.sh stop
