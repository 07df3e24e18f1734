//! Keys that posse keeps: where they go, which count, who can read them, and that nobody else ever does.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::json;

use super::commands::files_below;
use crate::support::{Answer, Done, Seen, World, world::Invocation};

const KEY: &str = "sk-kept-0123456789abcdef";

/// A user whose provider is configured without a key, and a keyring that is a folder.
struct Keyed {
    world: World,
    keyring: PathBuf,
    path: String,
}

/// Keeps what it is given in files named by the attributes, and writes down how it was called.
const SECRET_TOOL: &str = r#"#!/bin/sh
here=$(dirname "$0")
echo "$@" >> "$here/calls"
[ -e "$here/locked" ] && exec sleep 30
verb=$1; shift
[ "$verb" = store ] && shift 2
name="$here/kept-$(echo "$@" | tr -c 'a-z0-9\n' -)"
[ "$verb" = lookup ] && [ -e "$here/forgetful" ] && exit 1
case $verb in
store) cat > "$name" ;;
lookup) [ -e "$name" ] && cat "$name" || exit 1 ;;
clear) rm -f "$name" ;;
esac
"#;

impl Keyed {
    fn new(script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Keyed {
        let world = World::with().script(script);
        let url = &world.model.url;
        let mock = json!({"api": "anthropic", "base_url": url, "env": ["MOCK_KEY"], "models": {"m1": {}}});
        let other = json!({"api": "anthropic", "base_url": url, "api_key": "other-key", "models": {"m1": {}}});
        world.configure(&json!({"model": "mock/m1", "provider": {"mock": mock, "other": other}}));
        let keyring = world.folder().canonicalize().unwrap().join("keyring");
        std::fs::create_dir(&keyring).unwrap();
        let path = format!("{}:{}", keyring.display(), std::env::var("PATH").unwrap());
        Keyed { world, keyring, path }
    }

    fn with_keyring(self) -> Keyed {
        let program = self.keyring.join("secret-tool");
        std::fs::write(&program, SECRET_TOOL).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn command(&self, args: &[&str]) -> Invocation<'_> {
        self.world.command(args).env("PATH", &self.path)
    }

    fn add(&self, args: &[&str], key: &str) -> Done {
        self.command(&[&["auth", "add"], args].concat()).stdin(format!("{key}\n")).run()
    }

    fn file(&self) -> PathBuf {
        self.world.posse_home.join("data/auth.json")
    }

    fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.keyring.join("calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The keys that the keyring has.
    fn in_keyring(&self) -> Vec<String> {
        let files = std::fs::read_dir(&self.keyring).unwrap().map(|entry| entry.unwrap());
        let kept = files.filter(|file| file.file_name().to_string_lossy().starts_with("kept-"));
        kept.map(|file| std::fs::read_to_string(file.path()).unwrap()).collect()
    }

    fn sent_key(&self) -> Option<String> {
        self.world.model.last().header("x-api-key").map(str::to_owned)
    }
}

fn ok(_: &Seen) -> Answer {
    Answer::text("ok")
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_key_is_kept_in_a_file_for_its_user_only_and_used_listed_and_removed() {
    let keyed = Keyed::new(ok);
    let without = keyed.command(&["run", "hi"]).run().expect_code(2);
    assert!(without.err.contains("posse auth add mock") && without.err.contains("MOCK_KEY"), "{}", without.err);
    let added = keyed.add(&["mock", "--file"], KEY).expect_code(0);
    assert!(added.out.contains("auth.json") && !format!("{added:?}").contains(KEY), "{added:?}");
    assert_eq!((mode(&keyed.file()), mode(keyed.file().parent().unwrap())), (0o600, 0o700));
    assert_eq!(keyed.command(&["run", "hi"]).run().expect_code(0).out, "ok\n");
    assert_eq!(keyed.sent_key().as_deref(), Some(KEY));

    let list = keyed.command(&["auth", "list"]).run().expect_code(0);
    assert!(list.out.starts_with("mock  file") && list.out.contains("since 20") && !list.out.contains("sk-"), "{}", list.out);
    let rows = keyed.command(&["auth", "list", "--format", "json"]).run().expect_code(0).json();
    assert_eq!((&rows[0]["provider"], &rows[0]["place"], &rows[0]["shadowed_by"]), (&json!("mock"), &json!("file"), &json!(null)));
    assert!(rows[0]["since"].as_u64().is_some_and(|since| 1_700_000_000_000 < since));

    keyed.add(&["mock", "--file"], "sk-another-key").expect_code(0);
    keyed.command(&["run", "hi"]).run().expect_code(0);
    assert_eq!(keyed.sent_key().as_deref(), Some("sk-another-key"), "a new key replaces the old one");
    keyed.command(&["auth", "remove", "mock"]).run().expect_code(0);
    keyed.command(&["run", "hi"]).run().expect_code(2);
    assert!(keyed.command(&["auth", "remove", "mock"]).run().expect_code(2).err.contains("no key is kept for `mock`"));
    assert!(!std::fs::read_to_string(keyed.file()).unwrap().contains("sk-"));
}

#[test]
fn files_count_before_the_environment_and_that_before_what_is_kept() {
    let keyed = Keyed::new(ok);
    keyed.add(&["mock", "--file"], KEY).expect_code(0);
    keyed.command(&["run", "hi"]).env("MOCK_KEY", "from-shell").run().expect_code(0);
    assert_eq!(keyed.sent_key().as_deref(), Some("from-shell"));
    let doctor = keyed.command(&["doctor"]).env("MOCK_KEY", "from-shell").run().expect_code(0).out;
    let line = doctor.lines().find(|line| line.contains("mock: from")).unwrap_or_else(|| panic!("{doctor}"));
    assert!(line.contains("from MOCK_KEY; shadowed by it: ") && line.contains("auth.json"), "{line}");
    let list = keyed.command(&["auth", "list"]).env("MOCK_KEY", "from-shell").run().expect_code(0).out;
    assert!(list.contains("MOCK_KEY counts before it"), "{list}");
    let added = keyed.add(&["other", "--file"], KEY).expect_code(0);
    assert!(added.err.contains("api_key in") && added.err.contains("counts before it"), "{}", added.err);
    keyed.command(&["run", "-m", "other/m1", "hi"]).run().expect_code(0);
    assert_eq!(keyed.sent_key().as_deref(), Some("other-key"));
}

#[test]
fn the_keyring_keeps_a_key_and_is_asked_only_when_it_has_it() {
    let keyed = Keyed::new(ok).with_keyring();
    keyed.command(&["run", "-m", "other/m1", "hi"]).run().expect_code(0);
    keyed.command(&["auth", "list"]).run().expect_code(0);
    assert!(keyed.calls().is_empty(), "nothing is kept, so nobody is asked");

    let added = keyed.add(&["mock"], KEY).expect_code(0);
    assert!(added.out.contains("the keyring"), "{added:?}");
    assert!(!std::fs::read_to_string(keyed.file()).unwrap().contains(KEY));
    assert!(keyed.calls().iter().all(|call| !call.contains("sk-")), "no argument holds the key: {:?}", keyed.calls());
    let before = keyed.calls().len();
    keyed.command(&["run", "-m", "other/m1", "hi"]).run().expect_code(0);
    keyed.command(&["run", "hi"]).env("MOCK_KEY", "from-shell").run().expect_code(0);
    assert_eq!(keyed.calls().len(), before, "another key was found first");
    keyed.command(&["run", "hi"]).run().expect_code(0);
    assert_eq!(keyed.sent_key().as_deref(), Some(KEY));
    assert_eq!(keyed.calls().len(), before + 1, "once is enough: {:?}", keyed.calls());
    assert!(keyed.command(&["auth", "list"]).run().expect_code(0).out.starts_with("mock  keyring"));
    keyed.command(&["auth", "remove", "mock"]).run().expect_code(0);
    assert!(keyed.calls().last().unwrap().starts_with("clear"), "{:?}", keyed.calls());
    keyed.command(&["run", "hi"]).run().expect_code(2);
}

#[test]
fn a_keyring_that_does_not_answer_is_passed_over_with_a_word() {
    let keyed = Keyed::new(ok).with_keyring();
    std::fs::write(keyed.keyring.join("locked"), "").unwrap();
    let begun = Instant::now();
    let strict = keyed.add(&["mock", "--keyring"], KEY).expect_code(1);
    assert!(strict.err.contains("did not answer within 2 s") && strict.err.contains("--file"), "{}", strict.err);
    assert!(!keyed.file().exists(), "nothing is kept");
    let added = keyed.add(&["mock"], KEY).expect_code(0);
    assert!(added.err.contains("did not answer") && added.out.contains("auth.json"), "{added:?}");
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    keyed.command(&["run", "hi"]).run().expect_code(0);
    assert_eq!(keyed.sent_key().as_deref(), Some(KEY));

    std::fs::remove_file(keyed.keyring.join("locked")).unwrap();
    keyed.add(&["mock", "--keyring"], KEY).expect_code(0);
    std::fs::write(keyed.keyring.join("locked"), "").unwrap();
    let locked = keyed.command(&["run", "hi"]).run().expect_code(2);
    assert!(locked.err.contains("no key for mock/m1: the keyring cannot be asked") && locked.err.contains("unlock it"), "{}", locked.err);
}

#[test]
fn a_file_that_others_can_read_is_not_used() {
    let keyed = Keyed::new(ok);
    keyed.add(&["mock", "--file"], KEY).expect_code(0);
    std::fs::set_permissions(keyed.file(), std::fs::Permissions::from_mode(0o644)).unwrap();
    for args in [&["run", "hi"][..], &["auth", "list"], &["auth", "remove", "mock"], &["doctor"]] {
        let done = keyed.command(args).run();
        assert_ne!(done.code, Some(0), "{args:?}");
        assert!(format!("{}{}", done.out, done.err).contains("chmod 600"), "{done:?}");
    }
    let added = keyed.add(&["mock", "--file"], "sk-new-key-1234567").expect_code(1);
    assert!(added.err.contains("chmod 600") && !format!("{added:?}").contains("sk-"), "{added:?}");
    keyed.command(&["run", "-m", "other/m1", "hi"]).run().expect_code(0);
    assert_eq!(keyed.sent_key().as_deref(), Some("other-key"), "who needs no kept key is not held up");
}

#[test]
fn a_key_is_taken_from_stdin_and_from_nowhere_else() {
    let keyed = Keyed::new(ok);
    for args in [&["mock", KEY][..], &["mock", "--file", KEY], &[KEY], &["mock", KEY, "more"]] {
        let done = keyed.command(&[&["auth", "add"], args].concat()).stdin("").run().expect_code(2);
        assert!(!format!("{}{}", done.out, done.err).contains("sk-"), "it is not repeated: {done:?}");
    }
    assert!(keyed.add(&["mock", KEY], "x").err.contains("command line"));
    let slip = keyed.add(&["mokc"], KEY).expect_code(2);
    assert!(slip.err.contains("did you mean `mock`?") && slip.err.contains("anthropic"), "{}", slip.err);
    for nothing in ["", "\n", "two words", "two\nlines"] {
        let done = keyed.command(&["auth", "add", "mock"]).stdin(nothing).run().expect_code(2);
        assert!(done.err.contains("nothing was kept") && !done.err.contains("two\n"), "{}", done.err);
    }
    assert!(!keyed.file().exists());
    assert!(keyed.command(&["auth", "list"]).run().expect_code(0).err.contains("no keys are kept"));
}

#[test]
fn at_a_terminal_a_key_is_asked_for_and_not_shown() {
    let keyed = Keyed::new(ok);
    let mut person = keyed.world.command(&["auth", "add", "mock", "--file"]).at_terminal();
    person.sees("Key for mock (not shown): ");
    person.types("sk-wrong\x15sk-typed-0123456789\r");
    let done = person.wait().expect_code(0);
    assert!(!done.err.contains("sk-") && !done.err.contains("0123"), "{}", done.err);
    keyed.command(&["run", "hi"]).run().expect_code(0);
    assert_eq!(keyed.sent_key().as_deref(), Some("sk-typed-0123456789"));

    let mut person = keyed.world.command(&["auth", "add", "other", "--file"]).at_terminal();
    person.sees("Key for other (not shown): ");
    person.types("sk-half\x03");
    let done = person.wait().expect_code(130);
    assert!(done.err.contains("nothing was kept") && !done.err.contains("sk-"), "{}", done.err);
    assert!(!std::fs::read_to_string(keyed.file()).unwrap().contains("other"));
}

#[test]
fn a_kept_key_is_in_no_event_log_error_or_export() {
    for in_keyring in [true, false] {
        let keyed = Keyed::new(|seen: &Seen| match (seen.user_texts()[0], seen.steps()) {
            ("refuse", _) => Answer::error(401, &format!("invalid x-api-key: {KEY}")),
            (_, 0) => Answer::call("bash", json!({"command": "env; cat /proc/$PPID/environ; set"})),
            _ => Answer::text("done"),
        })
        .with_keyring();
        keyed.add(&["mock", if in_keyring { "--keyring" } else { "--file" }], KEY).expect_code(0);
        let traced = |args: &[&str]| keyed.command(args).env("POSSE_LOG", "trace").run();
        let mut said = vec![
            traced(&["run", "--format", "stream-json", "--permission-mode", "bypass", "look around"]).expect_code(0),
            traced(&["run", "--format", "json", "refuse"]).expect_code(1),
            traced(&["run", "refuse"]).expect_code(1),
            traced(&["doctor", "--try", "mock"]),
            traced(&["models", "list"]).expect_code(0),
            traced(&["config", "show", "--origin"]).expect_code(0),
            traced(&["auth", "list", "--format", "json"]).expect_code(0),
        ];
        assert!(said[2].err.contains("401"), "{}", said[2].err);
        assert_eq!(keyed.sent_key().as_deref(), Some(KEY), "the model itself does get it");
        let sessions = keyed.command(&["sessions", "list", "--format", "json"]).run().expect_code(0).json();
        for session in sessions.as_array().unwrap() {
            let id = session["session"].as_str().or(session["id"].as_str()).unwrap();
            said.push(keyed.command(&["sessions", "export", id, "--format", "jsonl"]).run().expect_code(0));
            said.push(keyed.command(&["sessions", "show", id]).run().expect_code(0));
        }
        for done in &said {
            assert!(!done.out.contains(KEY) && !done.err.contains(KEY), "{done:#?}");
        }
        let files = files_below(keyed.world.folder());
        assert!(files.iter().any(|file| file.ends_with("posse.db")) && files.iter().any(|file| file.ends_with("posse.log")), "{files:?}");
        let may = |file: &Path| if in_keyring { file.starts_with(&keyed.keyring) } else { *file == keyed.file() };
        let holders: Vec<&PathBuf> =
            files.iter().filter(|file| std::fs::read(file).unwrap().windows(KEY.len()).any(|window| window == KEY.as_bytes())).collect();
        assert!(holders.len() == 1 && may(holders[0]), "only the place it was given to: {holders:?}");
    }
}

/// A list that cannot be written: somebody made a folder of its lock.
#[test]
fn an_add_that_fails_leaves_the_keyring_as_it_was() {
    let keyed = Keyed::new(ok).with_keyring();
    let lock = keyed.file().with_file_name("auth.lock");
    let spoil = || {
        let _ = std::fs::remove_file(&lock);
        std::fs::create_dir_all(&lock).unwrap();
    };
    spoil();
    keyed.add(&["mock"], KEY).expect_code(1);
    assert_eq!(keyed.in_keyring(), [""; 0], "a key that no list names is of no use");
    std::fs::remove_dir(&lock).unwrap();
    keyed.add(&["mock"], KEY).expect_code(0);
    spoil();
    let failed = keyed.add(&["mock"], "sk-newer-0123456789").expect_code(1);
    assert!(failed.err.contains("nothing was changed") && !failed.err.contains("sk-"), "{}", failed.err);
    assert_eq!(keyed.in_keyring(), [KEY]);
    keyed.command(&["run", "hi"]).run().expect_code(0);
    assert_eq!(keyed.sent_key().as_deref(), Some(KEY), "the older key is still good");
}

#[test]
fn a_keyring_that_did_not_seem_to_keep_a_key_is_left_without_it() {
    let keyed = Keyed::new(ok).with_keyring();
    std::fs::write(keyed.keyring.join("forgetful"), "").unwrap();
    let added = keyed.add(&["mock"], KEY).expect_code(0);
    assert!(added.err.contains("secret-tool did not keep it") && added.out.contains("auth.json"), "{added:?}");
    assert_eq!(keyed.in_keyring(), [""; 0]);
    keyed.add(&["mock", "--keyring"], KEY).expect_code(1);
    assert_eq!(keyed.in_keyring(), [""; 0]);
}

#[test]
fn a_kept_key_that_is_refused_is_named_by_its_place_with_what_to_do() {
    for (place, words) in [("--file", "data/auth.json"), ("--keyring", "kept in the keyring")] {
        let keyed = Keyed::new(|_: &Seen| Answer::error(401, "invalid x-api-key")).with_keyring();
        keyed.add(&["mock", place], KEY).expect_code(0);
        let refused = keyed.command(&["run", "hi"]).run().expect_code(1).err;
        for part in [words, "posse doctor --try mock", "posse auth add mock"] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
        let refused = keyed.command(&["run", "hi"]).env("MOCK_KEY", "from-shell").run().expect_code(1).err;
        assert!(refused.contains("check the key in MOCK_KEY") && !refused.contains("auth.json"), "{refused}");
    }
}

/// Kept keys, tokens and passwords are in no recording, wherever the model has them from.
#[test]
fn a_recording_has_no_kept_key_no_token_and_no_password() {
    const TOKEN: &str = "token-0123456789";
    const PASSWORD: &str = "hunter2-hunter2";
    for place in ["--file", "--keyring"] {
        let keyed = Keyed::new(|_: &Seen| Answer::text(&format!("they are {KEY}, {TOKEN} and {PASSWORD}"))).with_keyring();
        let url = keyed.world.model.url.replace("http://", &format!("http://me:{PASSWORD}@"));
        let headers = json!({"x-relay": format!("Bearer {TOKEN}"), "x-title": "recording"});
        let mock = json!({"api": "anthropic", "base_url": url, "env": ["MOCK_KEY"], "headers": headers, "models": {"m1": {}}});
        keyed.world.configure(&json!({"model": "mock/m1", "provider": {"mock": mock}}));
        keyed.add(&["mock", place], KEY).expect_code(0);
        let tape = keyed.world.folder().join("run.jsonl");
        let said = keyed.command(&["run", "--record", tape.to_str().unwrap(), "about the recording"]).run().expect_code(0);
        assert!(said.out.contains(KEY), "{}", said.out);
        let text = std::fs::read_to_string(&tape).unwrap();
        for secret in [KEY, TOKEN, PASSWORD] {
            assert!(!text.contains(secret), "{secret} of {place}: {text}");
        }
        assert!(text.contains("they are (hidden), (hidden) and (hidden)") && text.contains("about the recording"), "{text}");
    }
}
