//! Scratch of a helper; it is removed before the work is handed over and says nothing about posse.
#![allow(clippy::unwrap_used)]
mod support;
use serde_json::{Value, json};
use std::time::Duration;
use support::*;

fn own(world: &World, name: &str, text: &str) {
    let path = world.posse_home.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}
fn obedient(seen: &Seen) -> Answer {
    let words = *seen.user_texts().iter().rev().find(|text| !text.starts_with("<system-reminder>")).unwrap();
    match (words.split_once(' '), seen.last_results().first()) {
        (_, Some(result)) => Answer::text(result),
        (Some((tool, input)), None) if input.starts_with('{') => Answer::call(tool, serde_json::from_str(input).unwrap()),
        _ => Answer::text("ok"),
    }
}
fn show(name: &str, done: &Done) {
    println!("== {name}: code {:?} sig {:?} out {:?}\n   err {:?}", done.code, done.signal, done.out, done.err);
}
fn texts(world: &World) {
    println!("   last texts {:?}", world.model.last().user_texts());
}
fn nreq(world: &World) {
    println!("   requests {}", world.model.requests().len());
}

#[test]
fn a_forks() {
    let world = World::new(
        |seen: &Seen| if seen.user_texts()[0].contains("bad") { Answer::error(400, "no such thing") } else { Answer::text("answer") },
    );
    own(&world, "skills/f/SKILL.md", "---\ndescription: d\ncontext: fork\n---\nfork $1.\n");
    own(&world, "skills/g/SKILL.md", "---\ndescription: d\ncontext: fork\nagent: nobody\n---\nfork $1.\n");
    own(&world, "skills/h/SKILL.md", "---\ndescription: d\ncontext: fork\nmodel: mock/none\n---\nfork $1.\n");
    show("fork bad", &world.run(&["/f bad"]));
    nreq(&world);
    show("fork nobody", &world.run(&["/g x"]));
    nreq(&world);
    show("fork wrong model", &world.run(&["/h x"]));
    nreq(&world);
    show("fork ok", &world.run(&["hi"]));
    nreq(&world);
    show("fork -c", &world.run(&["-c", "/f x"]));
    nreq(&world);
    show("fork -c 2", &world.run(&["-c", "/f x\n/f y"]));
    nreq(&world);
    show(
        "resume settled",
        &world.posse(&[
            "sessions",
            "resume",
            world.posse(&["sessions", "list", "--format", "json"]).json()[0]["session"].as_str().unwrap(),
        ]),
    );
    nreq(&world);
    for n in 1..14 {
        let w = World::new(|_: &Seen| Answer::text("answer"));
        own(&w, "skills/f/SKILL.md", "---\ndescription: d\ncontext: fork\n---\nfork $1.\n");
        let d = w.command(&["run", "/f x"]).env("POSSE_CRASH_AT", &format!("after_append:{n}")).run();
        if d.signal.is_none() {
            println!("n {n} lived");
            break;
        }
        let id = w.posse(&["sessions", "list", "--format", "json"]).json()[0]["session"].as_str().unwrap().to_owned();
        let r = w.posse(&["sessions", "resume", &id]);
        println!("n {n} code {:?} out {:?} requests {}", r.code, r.out, w.model.requests().len());
    }
}

#[test]
fn b_unknown() {
    let world = World::with()
        .config(
            "command",
            json!({"a": {"template": "do a", "agent": "nobody"}, "m": {"template": "do m", "model": "mock/none"},
      "ms": {"template": "do ms", "model": "mock/none", "agent": "general"}}),
        )
        .script(|_: &Seen| Answer::text("ok"));
    show("inline unknown agent", &world.run(&["/a"]));
    texts(&world);
    show("inline unknown model", &world.run(&["/m"]));
    texts(&world);
    show("subtask unknown model", &world.run(&["/ms"]));
    texts(&world);
    println!("{:?}", world.model.last().results());
}

#[test]
fn c_rights() {
    let world = World::with()
        .config(
            "command",
            json!({"edit": {"template": "write {\"filePath\": \"$1\", \"content\": \"x\"}", "allowed-tools": "Edit, Write"},
      "sub": {"template": "write {\"filePath\": \"$1\", \"content\": \"x\"}", "agent": "general", "allowed-tools": "Edit, Write"}}),
        )
        .script(obedient);
    for file in ["posse.json", ".posse/x.md", "../out.txt", "plain.txt"] {
        show(&format!("allowed edit {file}"), &world.run(&[&format!("/edit {file}")]));
        println!("   exists {}", world.project.join(file).exists());
        let _ = std::fs::remove_file(world.project.join(file));
    }
    show("plan + sub", &world.run(&["--agent", "plan", "/sub plain.txt"]));
    println!("   exists {}", world.project.join("plain.txt").exists());
    show("plan + edit", &world.run(&["--agent", "plan", "/edit plain.txt"]));
    println!("   exists {}", world.project.join("plain.txt").exists());
}

#[test]
fn d_mentions() {
    let world = World::new(obedient);
    std::process::Command::new("mkfifo").arg(world.project.join("pipe")).status().unwrap();
    std::fs::write(world.home.join("secret.txt"), "the secret").unwrap();
    std::os::unix::fs::symlink(world.home.join("secret.txt"), world.project.join("README.md")).unwrap();
    std::fs::write(world.project.join(".env"), "KEY=1").unwrap();
    std::os::unix::fs::symlink(".env", world.project.join("notes")).unwrap();
    std::fs::write(world.project.join("bin.dat"), [0u8, 159, 146, 150, 0, 1]).unwrap();
    for m in [
        "@pipe",
        "@/dev/zero",
        "@README.md",
        "@notes",
        "@bin.dat",
        "ask @plan to plan",
        "ask @title for one",
        "see @bin.dat#5-9",
        "@/etc/hostname",
    ] {
        let typed = format!("see {m}");
        show(m, &world.command(&["run", &typed]).within(Duration::from_secs(10)).run());
        texts(&world);
    }
}

#[test]
fn e_memory_link() {
    let world = World::with()
        .config("agent", json!({"keeper": {"mode": "primary", "description": "d", "prompt": "p", "memory": "project"}}))
        .script(obedient);
    let ssh = world.home.join(".sshx");
    std::fs::create_dir_all(&ssh).unwrap();
    std::fs::create_dir_all(world.project.join(".posse/agent-memory")).unwrap();
    std::os::unix::fs::symlink(&ssh, world.project.join(".posse/agent-memory/keeper")).unwrap();
    let f = world.project.join(".posse/agent-memory/keeper/authorized_keys");
    show("memory link", &world.run(&["--agent", "keeper", &format!("write {}", json!({"filePath": f, "content": "x"}))]));
    println!("   written {}", ssh.join("authorized_keys").exists());
    show("memory link2", &world.run(&["--agent", "keeper", &format!("write {}", json!({"filePath": ssh.join("b"), "content": "x"}))]));
    println!("   written {}", ssh.join("b").exists());
}

#[test]
fn f_interrupt() {
    let world = World::with()
        .config("command", json!({"slow": {"template": "got !`sleep 30; echo slept`."}}))
        .script(|_: &Seen| Answer::text("ok"));
    let running = world.start(&["run", "/slow"]);
    std::thread::sleep(Duration::from_millis(1500));
    running.interrupt();
    show("interrupted expansion", &running.wait(Duration::from_secs(10)));
    nreq(&world);
    show("next", &world.command(&["run", "-c", "hello"]).within(Duration::from_secs(10)).run());
    if !world.model.requests().is_empty() {
        texts(&world);
    }
}

#[test]
fn g_letter() {
    let world = World::with()
        .config("command", json!({"hello": {"template": "expanded $1"}, "sub": {"template": "subbed $1", "agent": "general"}}))
        .script(|seen: &Seen| match seen.user_texts()[0] {
            "wait" if seen.steps() == 0 => Answer::call("bash", json!({"command": "sleep 3", "description": "d"})),
            _ => Answer::text("ok"),
        });
    let running = world.start(&["run", "wait"]);
    assert!(world.model.wait_for_requests(1));
    std::thread::sleep(Duration::from_millis(300));
    show("letter", &world.run(&["-c", "/hello you\n/sub it"]));
    show("first", &running.wait(Duration::from_secs(20)));
    for seen in world.model.requests() {
        println!("   {:?}", seen.user_texts());
    }
    let _: Value = json!(null);
}

#[test]
fn h_no_tools() {
    let world = World::with()
        .config("agent", json!({"bare": {"mode": "primary", "description": "d", "prompt": "p", "tools": {"*": false}}}))
        .config("command", json!({"sub": {"template": "subbed $1", "agent": "general"}, "sh": {"template": "got !`echo hi` and @f.txt"}}))
        .file("f.txt", "file text")
        .script(|_: &Seen| Answer::text("ok"));
    show("bare", &world.run(&["--agent", "bare", "/sub it"]));
    println!("   {} tools {:?}", world.model.last().json["tools"], world.model.last().results());
    show("bare", &world.run(&["--agent", "bare", "/sh"]));
    texts(&world);
    show("denied task", &world.run(&["--deny", "task", "/sub it"]));
    println!("{:?}", world.model.last().results());
}
