#!/bin/sh
# The grep tool beside ripgrep on one tree, by turns: bench/grep.sh TREE [TIMES]. Needs rg and
# cargo build --release -p posse-tools --example grep. Prints the medians and their ratio.
cd "$(dirname "$0")/.." || exit 1
TREE=${1:?a large folder}; TIMES=${2:-7}
OURS=target/release/examples/grep
echo "files $(rg --files --hidden "$TREE" | wc -l), MB $(du -sm "$TREE" | cut -f1), cores $(nproc), load $(cut -d' ' -f1 /proc/loadavg)"
median() { sort -n | awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)] }'; }
for PATTERN in 'serialize_struct' 'fn\s+\w+_with_capacity_\w+\(' 'zzz_never_there' '(?i)needs?_?never'; do
  rg -n "$PATTERN" "$TREE" > /dev/null
  "$OURS" "$TREE" "$PATTERN" > /dev/null
  : > /tmp/grep-ours.$$; : > /tmp/grep-rg.$$
  for n in $(seq "$TIMES"); do
    s=$(date +%s%N); rg -n "$PATTERN" "$TREE" > /dev/null; e=$(date +%s%N)
    echo $(( (e - s) / 1000 )) >> /tmp/grep-rg.$$
    s=$(date +%s%N); "$OURS" "$TREE" "$PATTERN" > /dev/null; e=$(date +%s%N)
    echo $(( (e - s) / 1000 )) >> /tmp/grep-ours.$$
  done
  awk -v ours="$(median < /tmp/grep-ours.$$)" -v rg="$(median < /tmp/grep-rg.$$)" -v found="$("$OURS" "$TREE" "$PATTERN" | cut -d' ' -f3-)" -v p="$PATTERN" \
    'BEGIN { printf "%-32s rg %.0f ms, ours %.0f ms, ratio %.2f  %s\n", p, rg / 1000, ours / 1000, ours / rg, found }'
  rm -f /tmp/grep-ours.$$ /tmp/grep-rg.$$
done
