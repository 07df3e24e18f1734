//! A desk with nobody behind it: whatever is delegated is refused, and what goes on after its call is kept.

use std::{sync::Mutex, time::Duration};

use posse_session::{BoxFuture, CallId, Delegate, Dispatch, Errand, Inquiry, Sent, TaskView};
use tokio::task::JoinHandle;

#[derive(Default)]
pub struct Desk(Mutex<Vec<Kept>>);

struct Kept {
    call: CallId,
    title: String,
    over: Option<JoinHandle<Option<String>>>,
}

impl Desk {
    /// Whose call left something running, and what.
    pub fn kept(&self) -> Vec<(CallId, String)> {
        self.0.lock().unwrap().iter().map(|kept| (kept.call.clone(), kept.title.clone())).collect()
    }

    /// What is said of the end of the `at`-th thing that is kept. Can be asked once.
    pub async fn over(&self, at: usize) -> Option<String> {
        let over = self.0.lock().unwrap()[at].over.take().expect("asked twice, or let go");
        tokio::time::timeout(Duration::from_secs(20), over).await.expect("it is not over").unwrap()
    }

    /// Whether the `at`-th is over.
    pub fn is_over(&self, at: usize) -> bool {
        self.0.lock().unwrap()[at].over.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Drops the `at`-th before its end.
    pub fn let_go(&self, at: usize) {
        self.0.lock().unwrap()[at].over.take().expect("asked twice, or let go").abort();
    }
}

impl Delegate for Desk {
    fn spawn<'a>(&'a self, _: &'a CallId, errand: Errand) -> BoxFuture<'a, String> {
        Box::pin(async move { format!("nobody does {errand:?}") })
    }

    fn send<'a>(&'a self, _: &'a CallId, dispatch: Dispatch) -> BoxFuture<'a, Result<Sent, String>> {
        Box::pin(async move { Err(format!("nobody is called {}", dispatch.to)) })
    }

    fn read<'a>(&'a self, _: &'a CallId, inquiry: Inquiry) -> BoxFuture<'a, Result<TaskView, String>> {
        Box::pin(async move { Err(format!("nobody is called {}", inquiry.task)) })
    }

    fn stop<'a>(&'a self, _: &'a CallId, task: &'a str) -> BoxFuture<'a, Result<TaskView, String>> {
        Box::pin(async move { Err(format!("nobody is called {task}")) })
    }

    fn list<'a>(&'a self) -> BoxFuture<'a, Result<Vec<TaskView>, String>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn keep<'a>(&'a self, call: &'a CallId, title: String, over: BoxFuture<'static, Option<String>>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let over = Some(tokio::spawn(over));
            self.0.lock().unwrap().push(Kept { call: call.clone(), title, over });
        })
    }
}
