#!/usr/bin/env python3
"""Benchmark driver: runs peers against mockllm and records what they cost.

  bench.py run   --tests version,say,loop50 --peers opencode,codex --reps 5
  bench.py serve --sessions 100 --reps 5          opencode's HTTP server
  bench.py grep  --tree DIR --reps 5              ripgrep floor
  bench.py report                                 results.jsonl -> results.json, table

Every run appends one line to results.jsonl. Peers are run/<peer>.sh scripts, so
adding one more peer means adding one script.
"""
import argparse, fcntl, http.client, json, os, re, resource, signal, statistics, subprocess, sys, threading, time

BENCH = os.environ.get("BENCH", os.path.dirname(os.path.abspath(__file__)))
PORT = int(os.environ.get("MOCK_PORT", "8931"))
FIXTURE = f"{BENCH}/fixture"
OUT = os.environ.get("BENCH_OUT", f"{BENCH}/results.jsonl")
TICK = os.sysconf("SC_CLK_TCK")
PEERS = ["floor", "posse", "codex", "pi", "opencode", "qwen", "gemini", "kimi", "mini"]
NOISY = 0.35  # cores used by others during a run above which it is not counted
SLACK = 0.02  # CPU seconds: the kernel counts in ticks of 10 ms, so short runs need room
SUBAGENTS = ["posse", "posse_bg", "floor", "codex", "opencode", "qwen", "gemini", "kimi"]

# test name -> (prompt, response delay in ms, time limit in s)
TESTS = {
    "version": (None, 0, 60),
    "say": ("BENCH say", 0, 60),
    "loop50": ("BENCH loop 50", 0, 180),
    "loop200": ("BENCH loop 200", 0, 300),
    "shell50": ("BENCH loop 50 shell", 0, 180),
    "fanout10": ("BENCH fanout 10 loop 5", 0, 120),
    "fanout50": ("BENCH fanout 50 loop 5", 0, 240),
    "fanout100": ("BENCH fanout 100 loop 5", 0, 300),
    "fanout50d200": ("BENCH fanout 50 loop 5", 200, 300),
}


# ------------------------------------------------------------------ plumbing

def http_json(method, path, body=None, port=PORT, timeout=60):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    c.request(method, path, None if body is None else json.dumps(body), {"content-type": "application/json"})
    data = c.getresponse().read()
    c.close()
    return json.loads(data) if data else None


def read(path):
    try:
        with open(path) as f:
            return f.read()
    except OSError:
        return ""


def machine_busy():
    """CPU seconds all cores have spent on something since boot."""
    v = [int(x) for x in read("/proc/stat").split("\n", 1)[0].split()[1:]]
    return (sum(v[:8]) - v[3] - v[4]) / TICK


def proc_cpu(pid, children=False):
    """CPU seconds of a live process, or of its children that have ended."""
    s = read(f"/proc/{pid}/stat")
    if not s:
        return 0.0
    f = s.rsplit(")", 1)[1].split()
    at = 13 if children else 11
    return (int(f[at]) + int(f[at + 1])) / TICK


def tree(pid):
    out, todo = [], [pid]
    while todo:
        p = todo.pop()
        out.append(p)
        try:
            tids = os.listdir(f"/proc/{p}/task")
        except OSError:
            continue
        for t in tids:
            todo += [int(c) for c in read(f"/proc/{p}/task/{t}/children").split()]
    return out


def rss_kb(pid):
    m = re.search(r"VmRSS:\s+(\d+)", read(f"/proc/{pid}/status"))
    return int(m.group(1)) if m else 0


class TreeRss(threading.Thread):
    """Samples the summed RSS of a process and its descendants."""

    def __init__(self, pid, skip=0, every=0.1):
        super().__init__(daemon=True)
        self.pid, self.skip, self.every = pid, skip, every
        self.peak, self.procs, self.stop = 0, 0, threading.Event()

    def run(self):
        while not self.stop.wait(self.every):
            pids = tree(self.pid)[self.skip:]
            self.peak = max(self.peak, sum(rss_kb(p) for p in pids))
            self.procs = max(self.procs, len(pids))


def wait_quiet(limit):
    """Waits until other work leaves the machine mostly idle; returns the load seen."""
    end = time.time() + limit
    while True:
        b, t = machine_busy(), time.time()
        time.sleep(0.25)
        load = (machine_busy() - b) / (time.time() - t)
        if load < 0.3 or time.time() > end:
            return round(load, 2)


CHILDREN = set()


def start(cmd, **kw):
    """A child in a process group of its own, which ends with the driver."""
    p = subprocess.Popen(cmd, process_group=0, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, **kw)
    CHILDREN.add(p.pid)
    return p


def stop_children(*_):
    for pid in CHILDREN:
        try:
            os.killpg(pid, signal.SIGKILL)
        except OSError:
            pass
    os._exit(143)


def raise_priority(nice):
    """With autogroup scheduling plain nice only counts within a session, so set the session's too."""
    os.setpriority(os.PRIO_PROCESS, 0, nice)
    try:
        with open("/proc/self/autogroup", "w") as f:
            f.write(str(nice))
    except OSError:
        pass


def is_noisy(r):
    return r["foreign_cores"] * r["wall_s"] > max(NOISY * r["wall_s"], SLACK)


def save(rec):
    rec["at"] = time.strftime("%H:%M:%S")
    with open(OUT, "a") as f:
        f.write(json.dumps(rec) + "\n")


# ----------------------------------------------------------------- one run

def timed(script_args, limit, env=None, cwd=FIXTURE):
    """Runs under /usr/bin/time and samples the process tree."""
    tfile = f"{BENCH}/tmp/time.{os.getpid()}"
    busy, mine = machine_busy(), sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    began = time.time()
    p = start(["/usr/bin/time", "-v", "-o", tfile] + script_args, cwd=cwd, env=env, stdout=open(f"{BENCH}/tmp/last.out", "w"))
    sampler = TreeRss(p.pid, skip=1)
    sampler.start()
    # A blocking wait: Popen.wait(timeout) polls and would round the time up to 50 ms.
    killer = threading.Timer(limit, lambda: os.killpg(p.pid, signal.SIGKILL))  # our own group only
    killer.start()
    p.wait()
    wall = time.time() - began
    CHILDREN.discard(p.pid)
    killer.cancel()
    sampler.stop.set()
    timed_out = wall >= limit
    mine = sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) - mine
    t = read(tfile)
    num = lambda pat: float((re.search(pat, t) or [0, "0"])[1])
    cpu = num(r"User time \(seconds\): ([\d.]+)") + num(r"System time \(seconds\): ([\d.]+)")
    return dict(start=began, wall_s=round(wall, 4), rc=p.returncode, timed_out=timed_out, cpu_s=round(cpu, 2),
                rss_mb=round(num(r"Maximum resident set size \(kbytes\): (\d+)") / 1024, 1),
                tree_rss_mb=round(sampler.peak / 1024, 1), procs=sampler.procs,
                busy_s=machine_busy() - busy, self_s=mine)


def analyse(log, start_us, test):
    """Numbers that only the server side can know."""
    convs = {}
    for r in log:
        if r["tools"] > 0:
            convs.setdefault(r["conv"], []).append(r)
    roots = [c for c in convs if not re.search(r"id=\S+\.\d+$", c)]
    subs = [c for c in convs if c not in roots]
    out = dict(requests=len(log), side_requests=sum(r["tools"] == 0 for r in log))
    if log:
        out["first_request_ms"] = round((log[0]["t_recv"] - start_us) / 1000, 1)
        out["mock_ms"] = round(sum(max(0, r["t_end"] - r["t_body"]) for r in log) / 1000, 1)
    if roots:
        rs = convs[roots[0]]
        out.update(turns=len(rs), tools=rs[0]["tools"], first_body=rs[0]["bytes_in"], last_body=rs[-1]["bytes_in"],
                   main_first_ms=round((rs[0]["t_recv"] - start_us) / 1000, 1), done=rs[-1]["note"] in ("final", "finish"))
        gaps = [(b["t_body"] - a["t_end"]) / 1000 for a, b in zip(rs, rs[1:])]
        if gaps and "fanout" not in test:
            out.update(gap_med_ms=round(statistics.median(gaps), 2), gap_max_ms=round(max(gaps), 1),
                       gap_first10_ms=round(statistics.median(gaps[:10]), 2),
                       gap_last10_ms=round(statistics.median(gaps[-10:]), 2),
                       grow_bytes=round((rs[-1]["bytes_in"] - rs[0]["bytes_in"]) / len(gaps), 1),
                       prefix_pct=round(100 * statistics.mean(r["prefix"] / r["previous"] for r in rs[1:] if r["previous"]), 1))
    if "fanout" in test:
        spans, finished, reqs = [], 0, 0
        for c in subs:
            rs = convs[c]
            reqs += len(rs)
            spans.append((rs[0]["t_recv"], max(r["t_end"] for r in rs)))
            finished += any(r["note"] in ("final", "finish") for r in rs)
        edges = sorted([(a, 1) for a, _ in spans] + [(b, -1) for _, b in spans])
        level = top = 0
        for _, d in edges:
            level += d
            top = max(top, level)
        out.update(subs_seen=len(subs), subs_finished=finished, sub_requests=reqs, max_open_subs=top,
                   max_in_flight=max([r["in_flight"] + 1 for r in log], default=0),
                   sub_span_s=round((max(b for _, b in spans) - min(a for a, _ in spans)) / 1e6, 3) if spans else None,
                   sub_first_body=convs[subs[0]][0]["bytes_in"] if subs else None)
    return out


def run_one(peer, test, rep, quiet):
    prompt, delay, limit = TESTS[test]
    load = wait_quiet(quiet)
    http_json("POST", "/ctl/run", {"run": f"{peer}/{test}/{rep}", "delay_ms": delay})
    mock_pid = http_json("GET", "/ctl/stat")["pid"]
    mock_cpu = proc_cpu(mock_pid)
    arg = "--version" if prompt is None else f"{prompt} id={peer}{rep}"
    env = dict(os.environ)
    if "shell" in test:
        env["FLOOR_ARGS"] = "--shell"
    r = timed([f"{BENCH}/run/{peer}.sh", arg], limit, env)
    mock_cpu = proc_cpu(mock_pid) - mock_cpu
    foreign = r.pop("busy_s") - r["cpu_s"] - mock_cpu - r.pop("self_s")
    rec = dict(peer=peer, test=test, rep=rep, load_before=load, mock_cpu_s=round(mock_cpu, 2),
               foreign_cores=round(max(0, foreign) / max(r["wall_s"], 0.01), 2), **r)
    if prompt is not None:
        log = http_json("GET", "/ctl/log")
        rec.update(analyse(log, r["start"] * 1e6, test))
    rec.pop("start")
    rec["noisy"] = is_noisy(rec)
    rec["ok"] = r["rc"] == 0 and (prompt is None or bool(rec.get("done")))
    if "fanout" in test:  # every subagent must have come to its end
        rec["ok"] = rec["ok"] and rec.get("subs_finished") == int(prompt.split()[2])
    if not rec["ok"]:
        rec["tail"] = read(f"{BENCH}/tmp/last.out")[-600:]
    save(rec)
    return rec


def cmd_run(a):
    peers = a.peers.split(",") if a.peers else PEERS
    for test in a.tests.split(","):
        for rep in range(a.reps):
            for peer in peers:  # interleaved: one of each peer per round
                if "fanout" in test and peer not in SUBAGENTS:
                    continue
                for _ in range(a.tries):  # other work on the machine spoils a run: try again
                    r = run_one(peer, test, rep, a.quiet)
                    if not r["noisy"]:
                        break
                show = {k: r.get(k) for k in ("wall_s", "cpu_s", "rss_mb", "first_request_ms", "gap_med_ms", "requests",
                                              "subs_finished", "max_open_subs", "foreign_cores", "ok") if r.get(k) is not None}
                print(f"{test:10} {rep} {peer:9}", show, flush=True)


# ------------------------------------------------------- opencode's server

def cmd_serve(a):
    port = a.port
    for rep in range(a.reps):
        wait_quiet(a.quiet)
        began = time.time()
        p = start([f"{BENCH}/run/opencode.sh", "serve", str(port)], cwd=FIXTURE, stdout=open(f"{BENCH}/tmp/serve.out", "w"))
        try:
            while True:
                try:  # a request that arrives while the port is just opening is never answered: retry
                    http_json("GET", "/global/health", port=port, timeout=1)
                    break
                except OSError:
                    if time.time() - began > 60:
                        raise
                    time.sleep(0.02)
            ready = time.time() - began
            http_json("GET", "/session", port=port)  # loads the project
            idle = rss_kb(p.pid) / 1024
            http_json("POST", "/ctl/run", {"run": f"serve/{rep}", "delay_ms": a.delay})
            mock_pid = http_json("GET", "/ctl/stat")["pid"]
            mock_cpu, cpu, busy = proc_cpu(mock_pid), proc_cpu(p.pid), machine_busy()
            t0 = time.time()
            ids = [http_json("POST", "/session", {"title": f"s{i}"}, port=port)["id"] for i in range(a.sessions)]
            created = time.time() - t0
            sampler = TreeRss(p.pid)
            sampler.start()
            fails, took = [], []

            def prompt(i, sid):
                t = time.time()
                try:
                    v = http_json("POST", f"/session/{sid}/message", port=port, timeout=300, body={
                        "model": {"providerID": "mock", "modelID": "mock"},
                        "parts": [{"type": "text", "text": f"BENCH loop 5 id=serve{rep}.{i}"}]})
                    if "Finished after 5" not in json.dumps(v):
                        fails.append(json.dumps(v)[:200])
                except Exception as e:
                    fails.append(repr(e))
                took.append(time.time() - t)

            t1 = time.time()
            threads = [threading.Thread(target=prompt, args=x) for x in enumerate(ids)]
            [t.start() for t in threads]
            [t.join() for t in threads]
            wall = time.time() - t1
            sampler.stop.set()
            log = http_json("GET", "/ctl/log")
            hwm = re.search(r"VmHWM:\s+(\d+)", read(f"/proc/{p.pid}/status"))
            own, mock = proc_cpu(p.pid) - cpu, proc_cpu(mock_pid) - mock_cpu
            kids = proc_cpu(p.pid, children=True)
            rec = dict(peer="opencode", test=f"serve{a.sessions}" + (f"d{a.delay}" if a.delay else ""), rep=rep, ready_s=round(ready, 3),
                       idle_rss_mb=round(idle, 1), create_s=round(created, 3), wall_s=round(wall, 3), cpu_s=round(own, 2),
                       cpu_children_s=round(kids, 2), rss_mb=round(int(hwm.group(1)) / 1024, 1) if hwm else None, tree_rss_mb=round(sampler.peak / 1024, 1),
                       slowest_s=round(max(took), 2), fastest_s=round(min(took), 2), requests=len(log),
                       max_in_flight=max([r["in_flight"] + 1 for r in log], default=0), failures=len(fails), fail_samples=fails[:3],
                       foreign_cores=round(max(0, machine_busy() - busy - own - kids - mock) / (wall + created), 2), ok=not fails)
            save(rec)
            print(rec, flush=True)
        finally:
            os.killpg(p.pid, signal.SIGTERM)
            p.wait()
            CHILDREN.discard(p.pid)


# ------------------------------------------------------------------ ripgrep

def cmd_grep(a):
    count = subprocess.run(f"rg --files --hidden --no-ignore {a.tree} | wc -l; du -sm {a.tree} | cut -f1", shell=True,
                           capture_output=True, text=True).stdout.split()
    cases = {"rg_literal": ["rg", "-n", "serialize_struct"], "rg_regex": ["rg", "-n", r"fn\s+\w+_with_\w+\("],
             "rg_rare": ["rg", "-n", "zzz_never_there"], "rg_files": ["rg", "--files"],
             "rg_1thread": ["rg", "-j1", "-n", "serialize_struct"],
             "grep_literal": ["grep", "-rn", "serialize_struct"]}
    for rep in range(a.reps):
        for name, cmd in cases.items():
            load = wait_quiet(a.quiet)
            full = cmd + [a.tree]
            r = timed(full, 120)
            lines = sum(1 for _ in open(f"{BENCH}/tmp/last.out", errors="replace"))
            foreign = (r.pop("busy_s") - r["cpu_s"] - r.pop("self_s")) / max(r["wall_s"], 0.01)
            r.pop("start")
            save(dict(peer="ripgrep", test=name, rep=rep, lines=lines, tree=a.tree, files=int(count[0]), tree_mb=int(count[1]),
                      load_before=load, foreign_cores=round(max(0, foreign), 2), ok=r["rc"] in (0, 1), **r))
            print(name, rep, r["wall_s"], lines, flush=True)


# ------------------------------------------------------------------- report

def cmd_report(a):
    rows = {}
    for line in open(OUT):
        r = json.loads(line)
        rows.setdefault((r["test"], r["peer"]), []).append(r)
    summary = []
    for (test, peer), rs in rows.items():
        good = [r for r in rs if r.get("ok")]
        calm = [r for r in good if not is_noisy(r)]
        item = dict(test=test, peer=peer, runs=len(rs), ok=len(good), calm=len(calm))
        good = calm if len(calm) >= 3 else good
        for k in sorted({k for r in good for k, v in r.items() if isinstance(v, (int, float)) and not isinstance(v, bool)} - {"rep", "rc"}):
            vals = [r[k] for r in good if r.get(k) is not None]
            if vals:
                item[k] = dict(med=round(statistics.median(vals), 3), min=min(vals), max=max(vals))
        if item["ok"] < item["runs"]:
            item["failure_samples"] = [r.get("tail") or r.get("fail_samples") for r in rs if not r.get("ok")][:2]
        summary.append(item)
    json.dump(dict(generated=time.strftime("%F %T"), summary=summary), open(f"{BENCH}/results.json", "w"), indent=1)
    for s in summary:
        cells = [f"{k}={s[k]['med']:g}/{s[k]['min']:g}" for k in a.keys.split(",") if k in s]
        print(f"{s['test']:13}{s['peer']:10}{s['calm']}/{s['ok']}/{s['runs']} ", *cells)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(required=True)
    for name, fn in (("run", cmd_run), ("serve", cmd_serve), ("grep", cmd_grep), ("report", cmd_report)):
        s = sub.add_parser(name)
        s.set_defaults(fn=fn)
        s.add_argument("--reps", type=int, default=5)
        s.add_argument("--quiet", type=float, default=4, help="longest wait for an idle machine before a run, s")
        s.add_argument("--tests", default="version,say,loop50,loop200")
        s.add_argument("--peers", default="")
        s.add_argument("--tries", type=int, default=2)
        s.add_argument("--sessions", type=int, default=100)
        s.add_argument("--delay", type=int, default=0)
        s.add_argument("--port", type=int, default=8941)
        s.add_argument("--tree", default=os.path.expanduser("~/.cargo/registry/src"))
        s.add_argument("--keys", default="wall_s,cpu_s,rss_mb,tree_rss_mb,first_request_ms,gap_med_ms,first_body,grow_bytes,subs_finished,max_open_subs,foreign_cores")
    a = p.parse_args()
    if a.fn is not cmd_report:  # one driver at a time: runs share the mock's log
        os.makedirs(f"{BENCH}/tmp", exist_ok=True)
        lock = open(f"{BENCH}/tmp/driver.lock", "w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        signal.signal(signal.SIGTERM, stop_children)
        signal.signal(signal.SIGINT, stop_children)
        if os.geteuid() == 0:  # on a shared machine: other work should not decide the result
            raise_priority(int(os.environ.get("BENCH_NICE", "-12")))
    a.fn(a)


if __name__ == "__main__":
    main()
