//! Background shells with real processes: they outlive their call, are read piece by piece, and leave nothing behind.
// Helpers of tests may panic like the tests themselves.
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use common::{Office, alive, fresh_call, metadata, settles_at, words};
use posse_session::{BoxFuture, CallId, Delegate, Dispatch, Errand, Inquiry, Outcome, Sent, SessionId, TaskView};
use posse_tools::{Shells, builtin_with};
use serde_json::{Value, json};

/// A session with a registry that the test can see.
struct Den {
    office: Office,
    shells: Arc<Shells>,
}

/// Nothing here takes as long on a quiet machine.
const LONG: Duration = Duration::from_secs(20);

impl Den {
    fn new() -> Self {
        Self::in_office(Office::new(), Shells::default())
    }

    fn in_office(mut office: Office, shells: Shells) -> Self {
        let shells = Arc::new(shells);
        office.tools = builtin_with(&shells);
        Self { office, shells }
    }

    /// The same session in another process: posse was restarted.
    fn restarted(self) -> Self {
        let Self { office, .. } = self;
        Self::in_office(office, Shells::default())
    }

    async fn run(&self, tool: &str, input: Value) -> Outcome {
        self.office.run(tool, input).await
    }

    async fn say(&self, tool: &str, input: Value) -> String {
        self.office.say(tool, input).await
    }

    /// The notice of the end of the `at`-th shell; none when the model knows already.
    async fn notice(&self, at: usize) -> Option<String> {
        self.office.desk.over(at).await
    }

    async fn start(&self, command: &str) -> String {
        let outcome = self.run("bash", json!({"command": command, "run_in_background": true})).await;
        assert_eq!(outcome.word(), "done", "{}", words(&outcome));
        metadata(&outcome)["shell_id"].as_str().unwrap().to_owned()
    }

    /// All that comes until the shell has ended, and the last status line.
    async fn to_the_end(&self, id: &str) -> (String, String) {
        let (begun, mut all) = (Instant::now(), String::new());
        loop {
            let outcome = self.run("bash_output", json!({"shell_id": id, "block": true, "timeout": 20_000})).await;
            let text = words(&outcome);
            let (said, status) = text.trim_end().rsplit_once('\n').unwrap_or(("", text.trim_end()));
            if !said.starts_with("(no new output") && !said.is_empty() {
                all.push_str(said);
                all.push('\n');
            }
            if metadata(&outcome)["status"] != "running" {
                return (all, status.to_owned());
            }
            assert!(begun.elapsed() < LONG, "{id} does not end: {text}");
        }
    }

    fn output_of(&self, id: &str) -> String {
        self.office.context.spool.canonicalize().unwrap().join(format!("{id}.out")).display().to_string()
    }
}

/// A number of seconds that marks the sleeps of one test, also where the environment is gone. Half a minute at most.
fn mark() -> String {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    format!("28.{:07}{:03}", std::process::id(), COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
}

fn sleeping(mark: &str) -> String {
    format!("sleep\0{mark}")
}

#[tokio::test]
async fn a_background_shell_answers_at_once_and_is_read_piece_by_piece() {
    let den = Den::new();
    let command = "echo one; until [ -e go ]; do sleep 0.05; done; echo two; exit 3";
    let started = den.say("bash", json!({"command": command, "run_in_background": true})).await;
    let path = den.output_of("bash_1");
    assert!(started.starts_with(&format!("shell_id: bash_1\noutput: {path}\n(it runs in the background")), "{started}");
    let read = async |input: Value| den.say("bash_output", input).await;
    assert_eq!(read(json!({"shell_id": "bash_1", "block": true, "timeout": 20_000})).await, "one\n(bash_1: running; next read: since 4)\n");
    assert_eq!(read(json!({"shell_id": "bash_1"})).await, "(no new output)\n(bash_1: running; next read: since 4)\n");
    for _ in 0..2 {
        assert_eq!(read(json!({"shell_id": "bash_1", "since": 0})).await, "one\n(bash_1: running; next read: since 4)\n", "idempotent");
    }
    assert_eq!(read(json!({"shell_id": "bash_1", "since": 2})).await, "e\n(bash_1: running; next read: since 4)\n");
    assert_eq!(
        read(json!({"shell_id": "bash_1", "block": true, "timeout": 200})).await,
        "(no new output within 200 ms)\n(bash_1: running; next read: since 4)\n"
    );
    den.office.file("go", "");
    assert_eq!(den.to_the_end("bash_1").await, ("two\n".into(), "(bash_1: exited with code 3; next read: since 8)".into()));
    assert_eq!(read(json!({"shell_id": "bash_1"})).await, "(no new output)\n(bash_1: exited with code 3; next read: since 8)\n");
    let outcome = den.run("bash_output", json!({"shell_id": "bash_1", "since": 0})).await;
    assert_eq!(words(&outcome), "one\ntwo\n(bash_1: exited with code 3; next read: since 8)\n");
    assert_eq!(metadata(&outcome), json!({"shell_id": "bash_1", "status": "exited", "since": 8, "outputPath": path, "exit": 3}));
    assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n", "the whole stays in the file that was named");
}

#[tokio::test]
async fn parameters_have_the_spellings_that_models_know() {
    let den = Den::new();
    for (number, input) in [
        json!({"command": "echo hi", "run_in_background": true}),
        json!({"command": "echo hi", "runInBackground": true}),
        json!({"command": "echo hi", "background": "true"}),
    ]
    .into_iter()
    .enumerate()
    {
        assert!(den.say("bash", input.clone()).await.starts_with(&format!("shell_id: bash_{}\n", number + 1)), "{input}");
    }
    den.to_the_end("bash_1").await;
    for input in [
        json!({"shell_id": "bash_1", "since": 0}),
        json!({"bash_id": "bash_1", "since": 0}),
        json!({"shellId": " bash_1 ", "since": "0"}),
        json!({"id": "1", "since": 0, "filter": ""}),
    ] {
        let said = den.say("bash_output", input.clone()).await;
        assert!(said.starts_with("hi\n(bash_1: exited with code 0") && said.ends_with("next read: since 3)\n"), "{input}: {said}");
    }
    for (tool, input, complaint) in [
        ("bash_output", json!({}), "the required parameter `shell_id` (a string) is missing"),
        ("kill_shell", json!({"shell_id": 7}), "parameter `shell_id` must be a string; got the number 7"),
        ("bash_output", json!({"shell_id": "bash_1", "since": -1}), "parameter `since` must be a whole number"),
        ("bash_output", json!({"shell_id": "bash_1", "filter": "("}), "`(` is not a valid regular expression"),
        ("bash", json!({"command": "x", "run_in_background": "maybe"}), "parameter `run_in_background` must be true or false"),
    ] {
        let said = den.say(tool, input.clone()).await;
        assert!(said.starts_with(&format!("failed: {tool}: {complaint}")), "{input}: {said}");
    }
    let look = |tool: &str| den.office.tool(tool).look(&json!({"shell_id": "bash_1"}), &*den.office.context.workspace).unwrap();
    assert_eq!((look("bash_output").touches, look("kill_shell").touches), (vec![], vec![]), "judged by their names");
    assert!(look("bash_output").repeatable && !look("kill_shell").repeatable);
}

#[tokio::test]
async fn a_shell_outlives_its_call_and_other_calls_and_is_ended_with_all_it_started() {
    let den = Den::new();
    let mark = mark();
    let id = den
        .start(&format!(
            "trap '' TERM; setsid sleep {mark} & (env -i setsid sleep {mark} &); nohup sleep {mark} & echo up; while :; do sleep 0.1; done"
        ))
        .await;
    assert_eq!(settles_at(&sleeping(&mark), 3, LONG), 3);
    // Neither the end of another call nor a sweep for it touches the shell.
    assert_eq!(den.say("bash", json!({"command": "echo meanwhile"})).await, "meanwhile\n");
    den.office.context.workspace.sweep(&[fresh_call()]).await;
    assert_eq!(alive(&sleeping(&mark)), 3);
    assert_eq!(den.shells.running().len(), 1);
    let outcome = den.run("kill_shell", json!({"shell_id": id})).await;
    assert_eq!((outcome.word(), words(&outcome).as_str()), ("done", "up\n(bash_1: ended by kill_shell; next read: since 3)\n"));
    assert_eq!((metadata(&outcome)["status"].as_str(), alive(&sleeping(&mark))), (Some("killed"), 0));
    assert_eq!(den.shells.running(), [""; 0]);
    assert_eq!(
        den.say("kill_shell", json!({"shell_id": id})).await,
        "(it had ended before)\n(bash_1: ended by kill_shell; next read: since 3)\n"
    );
}

#[tokio::test]
async fn what_hides_from_a_foreground_call_ends_with_it_also_when_a_shell_runs_beside_it() {
    let den = Den::new();
    let (stays, hides) = (mark(), mark());
    den.start(&format!("(env -i setsid sleep {stays} &); sleep {stays}; true")).await;
    assert_eq!(settles_at(&sleeping(&stays), 2, LONG), 2);
    let said = den.say("bash", json!({"command": format!("(env -i setsid sleep {hides} >/dev/null 2>&1 &); sleep 0.3; echo over")})).await;
    assert!(said.starts_with("over\n"), "{said}");
    assert_eq!(settles_at(&sleeping(&hides), 0, Duration::from_secs(5)), 0, "by its mark, when all else is gone");
    assert_eq!(alive(&sleeping(&stays)), 2, "and nobody else");
}

#[tokio::test]
async fn ids_that_name_no_shell_are_answered_with_those_that_do() {
    let den = Den::new();
    assert_eq!(
        den.say("bash_output", json!({"shell_id": "bash_1"})).await,
        "failed: bash_output: there is no background shell `bash_1`, and none was started in this session. Start one with bash and run_in_background: true."
    );
    den.start("echo first").await;
    den.to_the_end("bash_1").await;
    den.start("sleep 25").await;
    for tool in ["bash_output", "kill_shell"] {
        assert_eq!(
            den.say(tool, json!({"shell_id": "server"})).await,
            format!(
                "failed: {tool}: there is no background shell `server`. There are: bash_2 (running: sleep 25), bash_1 (exited with code 0: echo first). \
                 Call {tool} again with one of them."
            )
        );
    }
}

// Several threads: the end of a dropped shell is the runtime's work while this test looks on.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_do_not_see_each_others_shells_and_closing_one_ends_its_own() {
    let mut den = Den::new();
    let (one, other) = (mark(), mark());
    den.start(&format!("sleep {one}")).await;
    let first_spool = den.office.context.spool.clone();
    den.office.context.session = SessionId::new("ses_2");
    den.office.context.spool = first_spool.with_file_name("spool2");
    assert!(den.say("bash_output", json!({"shell_id": "bash_1"})).await.contains("none was started in this session"));
    assert_eq!(den.start(&format!("sleep {other}")).await, "bash_1");
    assert_eq!((settles_at(&sleeping(&one), 1, LONG), settles_at(&sleeping(&other), 1, LONG)), (1, 1));
    den.shells.close(&SessionId::new("ses_1"));
    assert_eq!((settles_at(&sleeping(&one), 0, LONG), alive(&sleeping(&other))), (0, 1));
    // The registry itself is the last that holds them.
    let Den { mut office, shells } = den;
    office.tools.clear();
    drop(shells);
    assert_eq!(settles_at(&sleeping(&other), 0, LONG), 0);
}

// Several threads: the end of a dropped shell is the runtime's work while this test looks on.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_the_model_is_told_what_became_of_its_shells() {
    let den = Den::new();
    let mark = mark();
    den.start("echo done").await;
    den.to_the_end("bash_1").await;
    den.start(&format!("echo serving; sleep {mark}")).await;
    assert_eq!(settles_at(&sleeping(&mark), 1, LONG), 1);
    let (first, second) = (den.output_of("bash_1"), den.output_of("bash_2"));
    let den = den.restarted();
    assert_eq!(settles_at(&sleeping(&mark), 0, LONG), 0);
    assert_eq!(
        den.say("bash_output", json!({"shell_id": "bash_2"})).await,
        format!(
            "(bash_2: ended with the posse process that ran it (`echo serving; sleep {mark}`); its output is in {second} (use read))\n"
        )
    );
    assert!(den.say("read", json!({"filePath": second})).await.contains("serving"));
    assert_eq!(
        den.say("bash_output", json!({"shell_id": "bash_1"})).await,
        format!("(bash_1: exited with code 0 (`echo done`); its output is in {first} (use read))\n"),
        "what had ended by itself is said to have"
    );
    assert!(den.say("kill_shell", json!({"shell_id": "bash_2"})).await.contains("there is nothing left to end"));
    assert_eq!(den.start("echo next").await, "bash_3", "a number is never used twice");
    fs::remove_file(&second).unwrap();
    let said = den.say("bash_output", json!({"shell_id": "bash_2"})).await;
    assert!(said.contains("ended with the posse process") && !said.contains("its output"), "{said}");
}

#[tokio::test]
async fn what_a_killed_posse_and_a_killed_keeper_left_is_swept_before_the_next_command() {
    let den = Den::new();
    let (mark, call) = (mark(), fresh_call());
    let mut orphan = Command::new("setsid").args(["sleep", &mark]).env("POSSE_CALL", call.as_str()).stdin(Stdio::null()).spawn().unwrap();
    let spool = &den.office.context.spool;
    fs::create_dir_all(spool).unwrap();
    fs::write(spool.join("bash_7.json"), json!({"call": call, "command": "npm run dev"}).to_string()).unwrap();
    assert_eq!(settles_at(&sleeping(&mark), 1, LONG), 1);
    assert_eq!(den.say("bash", json!({"command": "echo here"})).await, "here\n");
    assert_eq!(settles_at(&sleeping(&mark), 0, Duration::from_secs(5)), 0);
    orphan.wait().unwrap();
    assert_eq!(den.start("true").await, "bash_8");
    assert_eq!(
        den.say("bash_output", json!({"shell_id": "bash_7"})).await,
        "(bash_7: ended with the posse process that ran it (`npm run dev`))\n"
    );
}

#[tokio::test]
async fn only_sixteen_run_at_once() {
    let den = Den::new();
    for number in 1..=16 {
        assert_eq!(den.start(&format!("sleep 25 # {number}")).await, format!("bash_{number}"));
    }
    let said = den.say("bash", json!({"command": "echo one more", "run_in_background": true})).await;
    assert!(
        said.starts_with("failed: bash: 16 background shells run already, and no more are started: bash_1 (sleep 25 # 1), bash_2"),
        "{said}"
    );
    assert!(said.ends_with("bash_16 (sleep 25 # 16). End one with kill_shell first."), "{said}");
    assert!(den.say("bash", json!({"command": "echo still"})).await.starts_with("still\n"), "the foreground is free");
    den.run("kill_shell", json!({"shell_id": "bash_5"})).await;
    assert_eq!(den.start("echo fits").await, "bash_17");
}

#[tokio::test]
async fn a_start_that_fails_leaves_no_trace() {
    let den = Den::new();
    // Where the output should go is a folder.
    fs::create_dir_all(den.office.context.spool.join("bash_1.out")).unwrap();
    let said = den.say("bash", json!({"command": "echo never", "run_in_background": true})).await;
    assert!(said.starts_with("failed: bash: cannot start "), "{said}");
    assert_eq!(den.shells.running(), [""; 0]);
    assert!(den.say("bash_output", json!({"shell_id": "bash_1"})).await.contains("none was started in this session"));
    assert_eq!(den.start("echo well").await, "bash_2");
}

#[tokio::test]
async fn a_shell_has_no_time_limit_unless_it_is_given_one() {
    let den = Den::new();
    let outcome = den.run("bash", json!({"command": "echo begun; sleep 25 & sleep 25", "run_in_background": true, "timeout": 3000})).await;
    assert_eq!(outcome.word(), "done");
    let (said, status) = den.to_the_end("bash_1").await;
    // What the shell says of its child's end depends on who is faster.
    assert!(said.starts_with("begun\n"), "{said}");
    assert!(status.starts_with("(bash_1: timed out after 3000 ms and was ended with all it had started; next read: since "), "{status}");
}

#[tokio::test]
async fn floods_and_hogs_are_ended_in_the_background_too() {
    let den = Den::in_office(Office::new(), Shells::default().with_spool_max(4_000_000));
    den.start("yes & yes").await;
    let (_, status) = den.to_the_end("bash_1").await;
    assert!(status.contains("it printed more than 4000000 bytes and was ended"), "{status}");
    assert_eq!(fs::metadata(den.output_of("bash_1")).unwrap().len(), 4_000_000);
    let shown = den.say("bash_output", json!({"shell_id": "bash_1", "since": 0})).await;
    assert!(shown.len() < 31_000 && shown.contains("bytes omitted; full output: "), "{}", shown.len());

    let den = Den::in_office(Office::new(), Shells::default().with_memory_max(80_000_000));
    // One that has slipped away from its shell counts for it all the same.
    let hog = "(env -i /bin/bash -c 'setsid /bin/bash -c \"x=\\$(head -c 120000000 /dev/zero | tr \\\"\\\\0\\\" a); sleep 25\" &' &)";
    den.start(&format!("{hog}; sleep 25")).await;
    let (_, status) = den.to_the_end("bash_1").await;
    assert!(status.contains("of the machine's memory"), "{status}");
}

#[tokio::test]
async fn a_filter_shows_only_lines_that_match_and_a_wait_waits_for_one() {
    let den = Den::new();
    den.start("echo start; echo noise; until [ -e go ]; do echo noise; sleep 0.05; done; echo 'ready on port 80'; sleep 25").await;
    let wait = json!({"shell_id": "bash_1", "filter": "ready|start", "block": true, "timeout": 20_000});
    let first = den.say("bash_output", wait.clone()).await;
    assert!(first.starts_with("start\n(bash_1: running; "), "{first}");
    assert!(
        den.say("bash_output", json!({"shell_id": "bash_1", "filter": "ready"}))
            .await
            .starts_with("(no new output that matches)\n(bash_1: running")
    );
    let (second, ()) = tokio::join!(den.say("bash_output", wait), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        den.office.file("go", "");
    });
    assert!(second.starts_with("ready on port 80\n(bash_1: running; "), "{second}");
}

#[tokio::test]
async fn a_wait_ends_when_it_is_told_to_stop_and_the_shell_goes_on() {
    let den = Den::new();
    let mark = mark();
    den.start(&format!("sleep {mark}")).await;
    let stop = den.office.stop.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(200)).await;
        stop.stop();
    });
    let begun = Instant::now();
    let said = den.say("bash_output", json!({"shell_id": "bash_1", "block": true, "timeout": 600_000})).await;
    assert_eq!(said, "cancelled: (stopped while waiting for bash_1)\n");
    assert!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
    assert_eq!(alive(&sleeping(&mark)), 1);
}

#[tokio::test]
async fn a_shell_starts_where_the_last_command_ended_and_moves_nobody() {
    let den = Den::new();
    den.office.file("sub/a", "");
    fs::create_dir(den.office.root.join("other")).unwrap();
    let root = den.office.root.display();
    den.say("bash", json!({"command": "cd sub"})).await;
    den.start("pwd; cd ../other; echo \"${POSSE_FOLDER-unset} ${BASH_ENV-unset}\"; cat; [ -t 0 ] || echo no input").await;
    assert_eq!(den.to_the_end("bash_1").await.0, format!("{root}/sub\nunset unset\nno input\n"));
    assert_eq!(den.say("bash", json!({"command": "pwd"})).await, format!("{root}/sub\n"));
    let outcome = den.run("bash", json!({"command": "pwd", "run_in_background": true, "workdir": "other"})).await;
    assert_eq!(outcome.word(), "done");
    assert_eq!(den.to_the_end("bash_2").await.0, format!("{root}/other\n"));
}

#[tokio::test]
async fn what_a_shell_leaves_with_an_ampersand_is_ended_and_said() {
    let den = Den::new();
    let mark = mark();
    den.start(&format!("sleep {mark} & echo started")).await;
    let (said, status) = den.to_the_end("bash_1").await;
    assert_eq!((said.as_str(), alive(&sleeping(&mark))), ("started\n", 0));
    assert!(status.starts_with("(bash_1: exited with code 0; 1 processes left in the background were ended;"), "{status}");
}

#[tokio::test]
async fn a_shell_whose_keeper_dies_is_lost_and_leaves_nothing() {
    let den = Den::new();
    let mark = mark();
    den.start(&format!("setsid sleep {mark} & sleep {mark}")).await;
    assert_eq!(settles_at(&sleeping(&mark), 2, LONG), 2);
    let keeper = rustix::process::Pid::from_raw(den.office.keeper.pid().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(keeper, rustix::process::Signal::KILL).unwrap();
    let (_, status) = den.to_the_end("bash_1").await;
    assert!(status.contains("the process that watches commands died"), "{status}");
    assert_eq!(settles_at(&sleeping(&mark), 0, LONG), 0);
}

#[tokio::test]
async fn ended_shells_are_forgotten_but_not_their_records() {
    let den = Den::new();
    for number in 1..=70 {
        let id = den.start(&format!("echo {number}")).await;
        den.to_the_end(&id).await;
    }
    assert_eq!(
        den.say("bash_output", json!({"shell_id": "bash_1"})).await,
        format!("(bash_1: exited with code 0 (`echo 1`); its output is in {} (use read))\n", den.output_of("bash_1"))
    );
    assert_eq!(
        den.say("bash_output", json!({"shell_id": "bash_70", "since": 0})).await,
        "70\n(bash_70: exited with code 0; next read: since 3)\n"
    );
    let listed = den.say("bash_output", json!({"shell_id": "bash_99"})).await;
    assert_eq!(listed.matches("exited with code 0").count(), 20, "{listed}");
}

/// CC-135, CC-248: the end of a shell comes as a notice with how it ended, the last it printed, and where the rest is.
#[tokio::test]
async fn cc_135_a_shell_is_kept_and_its_end_is_a_notice() {
    let den = Den::new();
    let more = "reads what you have not read, with since: 0 all of it)";
    let table = [
        // Input beside the command, title, first lines of the notice, what it shows of the output.
        (json!({"command": "echo one; echo two"}), "echo one; echo two", "exited with code 0", "", "one\ntwo\n"),
        (json!({"command": "echo bad >&2; exit 3", "description": "Build it"}), "Build it", "exited with code 3", "", "bad\n"),
        (json!({"command": "true"}), "true", "exited with code 0", "", "(no output)\n"),
        (json!({"command": "printf half"}), "printf half", "exited with code 0", "", "half\n"),
        (json!({"command": "kill -9 $$"}), "kill -9 $$", "killed by signal 9", "", "(no output)\n"),
        (
            json!({"command": "exec sleep 25", "timeout": 300}),
            "exec sleep 25",
            "timed out",
            "(timed out after 300 ms and was ended with all it had started)\n",
            "(no output)\n",
        ),
    ];
    for (at, (mut input, title, how, detail, output)) in table.into_iter().enumerate() {
        input["run_in_background"] = true.into();
        let id = format!("bash_{}", at + 1);
        let started = den.run("bash", input).await;
        assert_eq!(metadata(&started)["shell_id"], json!(id));
        assert_eq!(den.office.desk.kept()[at].1, format!("{id}: {title}"), "kept before it answers");
        let path = den.output_of(&id);
        let expected = format!("[shell {id} {how}] {title}\n{detail}\n{output}\noutput: {path} (bash_output with shell_id {id} {more}");
        assert_eq!(den.notice(at).await.as_deref(), Some(expected.as_str()));
    }
    assert_eq!(den.office.desk.kept().len(), 6, "each of them once");
    assert_eq!(den.shells.running(), [""; 0]);
    assert_eq!(
        den.say("bash_output", json!({"shell_id": "bash_1"})).await,
        "one\ntwo\n(bash_1: exited with code 0; next read: since 8)\n",
        "a notice reads nothing away"
    );
}

#[tokio::test]
async fn a_foreground_command_is_not_kept() {
    let den = Den::new();
    den.say("bash", json!({"command": "echo here"})).await;
    assert_eq!(den.office.desk.kept(), []);
}

#[tokio::test]
async fn a_notice_is_short_however_much_was_printed() {
    let den = Den::new();
    den.start("for i in $(seq 2000); do echo line $i; done; echo last").await;
    let notice = den.notice(0).await.unwrap();
    assert!(notice.len() < 2_600, "{}", notice.len());
    assert!(notice.contains("line 1999\nline 2000\nlast\n\noutput: ") && !notice.contains("line 1\n"), "{notice}");
    let before: u64 = notice.split("... ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let whole = fs::read_to_string(den.output_of("bash_1")).unwrap();
    let shown = &whole[usize::try_from(before).unwrap()..];
    assert!(shown.starts_with("line ") && notice.contains(&format!("bytes before this\n{shown}\noutput: ")), "{notice}");
}

#[tokio::test]
async fn a_shell_whose_keeper_dies_is_lost_by_notice() {
    let den = Den::new();
    let mark = mark();
    den.start(&format!("echo up; sleep {mark}")).await;
    assert_eq!(settles_at(&sleeping(&mark), 1, LONG), 1);
    let keeper = rustix::process::Pid::from_raw(den.office.keeper.pid().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(keeper, rustix::process::Signal::KILL).unwrap();
    let notice = den.notice(0).await.unwrap();
    assert!(
        notice.starts_with(&format!("[shell bash_1 lost] echo up; sleep {mark}\n(the process that watches commands died;")),
        "{notice}"
    );
}

/// Who knows already hears nothing: the model ended it, or was shown the end, also by a call that was waiting for it.
#[tokio::test]
async fn an_end_is_told_once() {
    let den = Den::new();
    den.start("sleep 25").await;
    assert_eq!(den.run("kill_shell", json!({"shell_id": "bash_1"})).await.word(), "done");
    assert_eq!(den.notice(0).await, None, "kill_shell");

    // Nothing is printed, so that the wait ends with the shell and not before. It begins before the file is there: of two
    // that are joined the first is asked first.
    den.start("until [ -e go ]; do sleep 0.05; done").await;
    let wait = json!({"shell_id": "bash_2", "block": true, "timeout": 20_000});
    let (said, _) = tokio::join!(den.say("bash_output", wait), async { den.office.file("go", "") });
    assert_eq!(said, "(no new output)\n(bash_2: exited with code 0; next read: since 0)\n");
    assert_eq!(den.notice(1).await, None, "bash_output");

    // A read before the end says nothing of it.
    den.start("echo begun; until [ -e then ]; do sleep 0.05; done").await;
    let said = den.say("bash_output", json!({"shell_id": "bash_3", "block": true, "timeout": 20_000})).await;
    assert!(said.starts_with("begun\n(bash_3: running"), "{said}");
    assert!(!den.office.desk.is_over(2), "it goes on, and its session waits");
    den.office.file("then", "");
    let notice = den.notice(2).await.unwrap();
    assert!(notice.starts_with("[shell bash_3 exited with code 0] "), "{notice}");
}

/// A wait that is given up has shown nothing, so the notice comes.
#[tokio::test]
async fn a_wait_that_was_stopped_leaves_the_end_to_the_notice() {
    let den = Den::new();
    den.start("until [ -e go ]; do sleep 0.05; done").await;
    let wait = json!({"shell_id": "bash_1", "block": true, "timeout": 600_000});
    let (said, ()) = tokio::join!(den.say("bash_output", wait), async { den.office.stop.stop() });
    assert_eq!(said, "cancelled: (stopped while waiting for bash_1)\n");
    den.office.file("go", "");
    assert!(den.notice(0).await.is_some());
}

// Several threads: the end of a dropped shell is the runtime's work while this test looks on.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_lets_go_of_a_shell_ends_it_with_all_it_has_started() {
    let den = Den::new();
    let (goes, stays) = (mark(), mark());
    den.start(&format!("trap '' TERM; setsid sleep {goes} & (env -i setsid sleep {goes} &); sleep {goes}; true")).await;
    den.start(&format!("sleep {stays}")).await;
    assert_eq!((settles_at(&sleeping(&goes), 3, LONG), settles_at(&sleeping(&stays), 1, LONG)), (3, 1));
    den.office.desk.let_go(0);
    assert_eq!((settles_at(&sleeping(&goes), 0, LONG), alive(&sleeping(&stays))), (0, 1));
    let (_, status) = den.to_the_end("bash_1").await;
    assert!(status.starts_with("(bash_1: ended with its session; "), "{status}");
    assert_eq!(den.shells.running(), [format!("sleep {stays}")]);
    // A session that is closed ends them too, and nobody waits for ever.
    den.shells.close(&SessionId::new("ses_1"));
    assert_eq!(settles_at(&sleeping(&stays), 0, LONG), 0);
    let notice = den.notice(1).await.unwrap();
    assert!(notice.starts_with(&format!("[shell bash_2 ended] sleep {stays}\n(ended with its session)\n")), "{notice}");
}

/// Dropped before it was ever looked at, it ends the shell all the same: a call that is stopped while it is kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_shell_that_nobody_keeps_is_ended() {
    struct Careless;
    impl Delegate for Careless {
        fn spawn<'a>(&'a self, _: &'a CallId, _: Errand) -> BoxFuture<'a, String> {
            unreachable!()
        }
        fn send<'a>(&'a self, _: &'a CallId, _: Dispatch) -> BoxFuture<'a, Result<Sent, String>> {
            unreachable!()
        }
        fn read<'a>(&'a self, _: &'a CallId, _: Inquiry) -> BoxFuture<'a, Result<TaskView, String>> {
            unreachable!()
        }
        fn stop<'a>(&'a self, _: &'a CallId, _: &'a str) -> BoxFuture<'a, Result<TaskView, String>> {
            unreachable!()
        }
        fn list<'a>(&'a self) -> BoxFuture<'a, Result<Vec<TaskView>, String>> {
            unreachable!()
        }
        fn keep<'a>(&'a self, _: &'a CallId, _: String, over: BoxFuture<'static, Option<String>>) -> BoxFuture<'a, ()> {
            drop(over);
            Box::pin(async {})
        }
    }
    let mut den = Den::new();
    den.office.context.delegate = Arc::new(Careless);
    let mark = mark();
    den.start(&format!("sleep {mark}; echo survived")).await;
    let (said, status) = den.to_the_end("bash_1").await;
    assert_eq!((said.as_str(), alive(&sleeping(&mark))), ("", 0));
    assert!(status.starts_with("(bash_1: ended with its session; "), "{status}");
}

/// CC-039: where background work is off, bash neither offers it nor does it.
#[tokio::test]
async fn cc_039_without_background_nothing_is_left_running() {
    let den = Den::in_office(Office::new(), Shells::default().without_background());
    let off = den.office.tool("bash").spec().clone();
    assert!(off.schema["properties"].get("run_in_background").is_none() && !off.description.contains("background"), "{off:?}");
    assert_eq!(
        den.say("bash", json!({"command": "touch made", "run_in_background": true})).await,
        "failed: bash: nothing may run in the background here (the user has turned `background` off). Run it without run_in_background, \
         with a timeout of at most 600000 ms."
    );
    assert!(!den.office.root.join("made").exists());
    assert_eq!(den.say("bash", json!({"command": "echo here", "run_in_background": false})).await, "here\n");
    let on = Den::new().office.tool("bash").spec().clone();
    let words = on.schema["properties"]["run_in_background"]["description"].as_str().unwrap().to_owned();
    assert!(words.contains("posse waits for it before it exits") && words.contains("kill_shell"), "{words}");
}
