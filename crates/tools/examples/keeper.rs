//! For tests only. `keeper __keeper` is what `posse __keeper` is in the product; `keeper hold OUTPUT CALL COMMAND` plays a
//! posse that starts a command, prints its own keeper's pid and waits to be killed.

use std::{io::Write, path::PathBuf};

use posse_session::{CallId, CommandLine};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("hold") => hold(&arguments[2..]),
        _ => posse_tools::keeper_main(),
    }
}

fn hold(arguments: &[String]) {
    let [output, call, command] = arguments else { panic!("usage: keeper hold OUTPUT CALL COMMAND") };
    let line = CommandLine {
        argv: vec!["/bin/bash".into(), "-c".into(), command.clone()],
        cwd: "/".into(),
        env: posse_tools::child_env(),
        output: PathBuf::from(output),
        call: CallId::new(call),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        // The default keeper: this very program with `__keeper`.
        let keeper = posse_tools::Keeper::new();
        let process = keeper.spawn(line).await.expect("started");
        println!("{}", keeper.pid().expect("a keeper"));
        std::io::stdout().flush().expect("flushed");
        process.wait().await;
        std::future::pending::<()>().await;
    });
}
