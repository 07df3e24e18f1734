#!/bin/sh
# What years of work cost: a session of 100,000 events and 1 GB, and 10,000 sessions. Needs a release build, Python 3 and about 3 GB of disk.
cd "$(dirname "$0")/.." || exit 1
BIN=${POSSE_BIN:-$PWD/target/release/posse}
cargo build --release -q -p posse-store --example large || exit 1
W=$(mktemp -d); trap 'rm -rf "$W"' EXIT
mkdir -p "$W/home" "$W/long" "$W/many"
cat > "$W/home/posse.json" <<J
{"model": "mock/mock", "provider": {"mock": {"api": "anthropic", "base_url": "http://127.0.0.1:9", "api_key": "x", "models": {"mock": {"context": 200000, "output": 8192}}}}}
J
posse() { env -i PATH="$PATH" HOME="$W/home" POSSE_HOME="$W/home" NO_COLOR=1 "$BIN" "$@" </dev/null; }
# Runs it, and prints seconds and the most memory it had.
measured() {
  env -i PATH="$PATH" HOME="$W/home" POSSE_HOME="$W/home" NO_COLOR=1 python3 - "$BIN" "$@" <<'P'
import resource, subprocess, sys, time
begun = time.monotonic()
done = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
took = time.monotonic() - begun
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
print(f"  {took * 1000:.0f} ms, {peak} MB, exit {done.returncode}  {done.stderr.strip()[:200]}")
P
}
store() { posse config path --format json | python3 -c 'import json,sys; print(json.load(sys.stdin)["project_data"])'; }
EVENTS=${EVENTS:-100000}; BYTES=${BYTES:-1000000000}; COUNT=${COUNT:-10000}
cd "$W/long" || exit 1
OLDPWD_REPO=$OLDPWD
"$OLDPWD_REPO/target/release/examples/large" "$(store)" "$PWD" long "$EVENTS" "$BYTES"
ID=$(posse sessions list | head -n 1 | cut -d' ' -f1)
echo "open the long session for the first time (its fold is made and kept)"; measured sessions resume -q "$ID"
for n in 1 2 3; do echo "open it again, print its last answer"; measured sessions resume -q "$ID"; done
echo "its list"; measured sessions list
echo "show it, the end of it"; measured sessions show "$ID"
echo "export it whole"; measured sessions export "$ID" --format jsonl
cd "$W/many" || exit 1
"$OLDPWD_REPO/target/release/examples/large" "$(store)" "$PWD" many "$COUNT"
for n in 1 2 3; do echo "list $COUNT sessions"; measured sessions list; done
echo "the same as JSON"; measured sessions list --format json
