#!/usr/bin/env python3
"""results.json -> markdown tables on stdout (median, minimum in brackets)."""
import json, os

BENCH = os.environ.get("BENCH", os.path.dirname(os.path.abspath(__file__)))
rows = {(s["test"], s["peer"]): s for s in json.load(open(f"{BENCH}/results.json"))["summary"]}
ORDER = ["floor", "posse", "codex", "pi", "gemini", "qwen", "kimi", "mini", "opencode", "opencode_fresh", "opencode_ns"]


def cell(s, key, scale=1, digits=0, both=True):
    if not s or key not in s:
        return "–"
    f = lambda v: f"{v * scale:,.{digits}f}"
    return f(s[key]["med"]) + (f" ({f(s[key]['min'])})" if both else "")


def runs(s):
    """Runs behind the numbers / all runs; a star marks fewer than three undisturbed ones."""
    if not s:
        return "–"
    used = s["calm"] if s["calm"] >= 3 else s["ok"]
    return f"{used}/{s['runs']}" + ("" if s["calm"] >= 3 else "*")


def table(title, tests, cols):
    print(f"\n### {title}\n")
    print("| test | peer | counted/run | " + " | ".join(c[0] for c in cols) + " |")
    print("|---|---|---|" + "---:|" * len(cols))
    for t in tests:
        for p in ORDER:
            s = rows.get((t, p))
            if s:
                print(f"| {t} | {p} | {runs(s)} | " + " | ".join(cell(s, *c[1:]) for c in cols) + " |")


table("1. `--version`", ["version"], [("wall ms", "wall_s", 1000), ("CPU s", "cpu_s", 1, 2), ("peak RSS MB", "rss_mb")])
table("2. Cold start, `BENCH say`", ["say"], [
    ("first request ms", "first_request_ms"), ("first request with tools ms", "main_first_ms"), ("wall ms", "wall_s", 1000), ("CPU s", "cpu_s", 1, 2),
    ("peak RSS MB", "rss_mb"), ("tree RSS MB", "tree_rss_mb"), ("requests", "requests", 1, 0, False)])
table("3. Loops", ["loop50", "loop200", "shell50"], [
    ("wall s", "wall_s", 1, 2), ("per turn ms", "gap_med_ms", 1, 2), ("first 10 ms", "gap_first10_ms", 1, 1, False),
    ("last 10 ms", "gap_last10_ms", 1, 1, False), ("CPU s", "cpu_s", 1, 2), ("peak RSS MB", "rss_mb"), ("tree RSS MB", "tree_rss_mb"),
    ("first body B", "first_body", 1, 0, False), ("growth B/turn", "grow_bytes", 1, 0, False), ("tools", "tools", 1, 0, False), ("prefix %", "prefix_pct", 1, 0, False)])
table("4. Fan-out, each subagent `BENCH loop 5`", ["fanout10", "fanout50", "fanout100", "fanout50d200"], [
    ("wall s", "wall_s", 1, 2), ("CPU s", "cpu_s", 1, 2), ("peak RSS MB", "rss_mb"), ("tree RSS MB", "tree_rss_mb"),
    ("subagents finished", "subs_finished", 1, 0, False), ("open at once", "max_open_subs", 1, 0, False), ("requests in flight", "max_in_flight", 1, 0, False),
    ("requests", "requests", 1, 0, False), ("sub first body B", "sub_first_body", 1, 0, False)])
table("5. `opencode serve`, sessions prompted at once (`BENCH loop 5`)", [t for t, p in rows if t.startswith("serve")], [
    ("ready s", "ready_s", 1, 2), ("idle RSS MB", "idle_rss_mb"), ("create s", "create_s", 1, 2), ("wall s", "wall_s", 1, 2), ("fastest s", "fastest_s", 1, 2),
    ("slowest s", "slowest_s", 1, 2), ("CPU s", "cpu_s", 1, 1), ("peak RSS MB", "rss_mb"), ("in flight", "max_in_flight", 1, 0, False), ("requests", "requests", 1, 0, False)])
print("\n### 7. ripgrep floor\n\n| case | counted/run | wall ms | CPU s | peak RSS MB | lines |\n|---|---|---:|---:|---:|---:|")
for (t, p), s in rows.items():
    if p == "ripgrep":
        print(f"| {t} | {runs(s)} | {cell(s, 'wall_s', 1000)} | {cell(s, 'cpu_s', 1, 2)} | {cell(s, 'rss_mb')} | {cell(s, 'lines', 1, 0, False)} |")
