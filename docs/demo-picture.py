#!/usr/bin/env python3
"""Runs the real `posse demo` and draws what it told as docs/demo.svg, the picture in the README.

    python3 docs/demo-picture.py [PATH_OF_POSSE]

Without a path it takes target/release/posse or target/debug/posse, whichever is newer. Nothing is drawn when the demo
fails. What differs from run to run (ids, times, the folder) is told in the same words each time, and what most commands
print is left out, so that the picture stays small and changes only when the demo does.
"""

import html
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "demo.svg"

# Commands whose output is worth its room.
SHOWN = ("sh tests.sh", "posse sessions tree", "posse tasks wrote", "posse tasks diff", "posse asks answer")
# What a run tells of itself comes whenever it comes, between other lines.
NARRATED = re.compile(r"  (  (● |✓ general |waiting for )|posse: |● build )")
COLUMNS = 92
LETTER, LINE, SIZE, MARGIN = 7.25, 17, 12, 18


def binary():
    if len(sys.argv) == 2:
        return Path(sys.argv[1])
    built = [path for path in (ROOT / "target/release/posse", ROOT / "target/debug/posse") if path.exists()]
    if not built:
        sys.exit("there is no posse to run: `cargo build` first, or name one: python3 docs/demo-picture.py PATH")
    return max(built, key=lambda path: path.stat().st_mtime)


def told(posse):
    done = subprocess.run([posse, "demo"], capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    if done.returncode != 0:
        sys.exit(f"{posse} demo: exit {done.returncode}; nothing is drawn\n{done.stdout}\n{done.stderr}")
    return done.stdout.splitlines()


def chosen(lines):
    """Headlines, commands and checks, and what the commands above have printed."""
    command = ""
    for line in lines:
        if line.startswith("$ "):
            command = line[2:]
        is_output = line.startswith("  ") and not line.startswith("  ✓ ")
        if line.startswith("  ✓ ") and "  ses_" in line:
            is_output = True  # a line of a tree
        if NARRATED.match(line) or is_output and not command.startswith(SHOWN):
            continue
        yield line


def steady(lines):
    """The same words for what differs from run to run."""
    known = {}

    def name(match):
        kind, end = match.group(1), match.group(2).upper()
        if end not in known:
            known[end] = f"{kind}_{1 + sum(1 for other in known.values() if other.startswith(kind))}"
        return known[end]

    for line in lines:
        line = re.sub(r"\b(ses|ask|call)_…(\w{5})", name, line)
        line = re.sub(r"\S*/posse-demo-\w+", "$TMPDIR/posse-demo-…", line)
        line = re.sub(r" · 0 tokens.*", "", line)
        line = re.sub(r"Done in [\d.]+ s", "Done in seconds", line)
        yield line if len(line) <= COLUMNS else line[: COLUMNS - 1] + "…"


def kind(line):
    if line.startswith("$ "):
        return "command"
    if re.match(r"\d\. ", line):
        return "act"
    return "plain"


def drawn(line, row):
    text = html.escape(line, quote=False)
    text = re.sub(r"^(\s*(?:[├└]─ )?)✓", r'\1<tspan class="good">✓</tspan>', text)
    text = re.sub(r"^(\s*)FAIL", r'\1<tspan class="bad">FAIL</tspan>', text)
    text = re.sub(r"^(\s*)ok(\s)", r'\1<tspan class="good">ok</tspan>\2', text)
    return f'<text class="{kind(line)}" x="{MARGIN}" y="{MARGIN + SIZE + row * LINE}" xml:space="preserve">{text}</text>'


def picture(lines):
    width, height = round(2 * MARGIN + COLUMNS * LETTER), 2 * MARGIN + len(lines) * LINE
    rows = "\n".join(drawn(line, row) for row, line in enumerate(lines) if line)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">
<title>posse demo: two agents in worktrees, a refused ask, kill -9, and all work home</title>
<style>
  .paper {{ fill: #f6f8fa; stroke: #d0d7de; }}
  text {{ font: {SIZE}px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #1f2328; white-space: pre; }}
  .act {{ font-weight: bold; }}
  .command {{ fill: #0969da; }}
  .good {{ fill: #1a7f37; }}
  .bad {{ fill: #cf222e; }}
  @media (prefers-color-scheme: dark) {{
    .paper {{ fill: #161b22; stroke: #30363d; }}
    text {{ fill: #e6edf3; }}
    .command {{ fill: #79c0ff; }}
    .good {{ fill: #3fb950; }}
    .bad {{ fill: #ff7b72; }}
  }}
</style>
<rect class="paper" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>
{rows}
</svg>
"""


def main():
    lines = list(steady(chosen(told(binary()))))
    PICTURE.write_text(picture(lines), encoding="utf-8")
    print(f"{PICTURE.relative_to(ROOT)}: {len(lines)} lines")


if __name__ == "__main__":
    main()
