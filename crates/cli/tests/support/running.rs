//! A started `posse`: what it prints as it prints it, and the ways to end it.

use std::{
    io::Read,
    process::{Child, ExitStatus},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

/// How a run ended.
#[derive(Debug, Clone)]
pub struct Done {
    /// Absent when a signal ended it.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub out: String,
    pub err: String,
    /// It did not end by itself in the time it was given.
    pub timed_out: bool,
    /// Somebody else still holds its pipes.
    pub pipes_held: bool,
}

impl Done {
    /// Standard output as one JSON value.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("stdout is not JSON: {error}: {self:?}"))
    }

    /// Standard output as JSON lines; a last line without its end was cut by a crash and does not count.
    pub fn lines(&self) -> Vec<Value> {
        let whole = self.out.rfind('\n').map_or("", |end| &self.out[..end]);
        whole.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("not a JSON line: {error}: {line}"))).collect()
    }

    /// Ended well; else the test fails with everything it said.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Done {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }
}

pub struct Running {
    child: Child,
    out: Pipe,
    err: Pipe,
    ended: Option<ExitStatus>,
}

impl Running {
    /// The child leads its own process group and has both outputs piped.
    pub fn new(mut child: Child) -> Running {
        let out = Pipe::read(child.stdout.take().unwrap());
        let err = Pipe::read(child.stderr.take().unwrap());
        Running { child, out, err, ended: None }
    }

    /// The child's stderr is a terminal, of which this is the other side.
    pub fn at_terminal(mut child: Child, screen: impl Read + Send + 'static) -> Running {
        let out = Pipe::read(child.stdout.take().unwrap());
        Running { child, out, err: Pipe::read(screen), ended: None }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn out_so_far(&self) -> String {
        self.out.text()
    }

    pub fn err_so_far(&self) -> String {
        self.err.text()
    }

    /// Waits until its standard output holds this.
    pub fn wait_for_out(&self, what: &str, within: Duration) -> bool {
        self.out.wait_for(what, within)
    }

    pub fn wait_for_err(&self, what: &str, within: Duration) -> bool {
        self.err.wait_for(what, within)
    }

    pub fn signal(&self, signal: Signal) {
        // It may have ended just now: that is for the caller's checks to notice.
        let _ = kill_process(self.as_pid(), signal);
    }

    /// Only the process itself; what it started lives on, if it can.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// The process and all that stayed in its group.
    pub fn kill_group(&self) {
        let _ = kill_process_group(self.as_pid(), Signal::KILL);
    }

    pub fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    fn as_pid(&self) -> Pid {
        Pid::from_raw(self.pid() as i32).unwrap()
    }

    pub fn has_ended(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().unwrap();
        }
        self.ended.is_some()
    }

    /// Waits for the end, and makes one when it takes longer than this.
    pub fn wait(mut self, within: Duration) -> Done {
        let end = Instant::now() + within;
        while !self.has_ended() && Instant::now() < end {
            thread::sleep(Duration::from_millis(2));
        }
        let timed_out = !self.has_ended();
        if timed_out {
            self.kill_group();
            self.ended = Some(self.child.wait().unwrap());
        }
        self.done(timed_out)
    }

    fn done(&mut self, timed_out: bool) -> Done {
        use std::os::unix::process::ExitStatusExt;
        let status = self.ended.unwrap();
        // The pipes close with the process, unless a child of it has them too.
        let both_closed = self.out.wait_closed(Duration::from_secs(3)) && self.err.wait_closed(Duration::from_secs(1));
        Done {
            code: status.code(),
            signal: status.signal(),
            out: self.out.text(),
            err: self.err.text(),
            timed_out,
            pipes_held: !both_closed,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.has_ended() {
            self.kill_group();
            let _ = self.child.wait();
        }
    }
}

/// An output being read by a thread of its own.
struct Pipe {
    shared: Arc<(Mutex<Text>, Condvar)>,
}

#[derive(Default)]
struct Text {
    bytes: Vec<u8>,
    closed: bool,
}

impl Pipe {
    fn read(mut from: impl Read + Send + 'static) -> Pipe {
        let shared = Arc::new((Mutex::new(Text::default()), Condvar::new()));
        let filling = shared.clone();
        thread::spawn(move || {
            let mut bytes = [0; 16 * 1024];
            loop {
                let length = from.read(&mut bytes).unwrap_or(0);
                let mut text = filling.0.lock().unwrap();
                text.bytes.extend(&bytes[..length]);
                text.closed = length == 0;
                filling.1.notify_all();
                if text.closed {
                    return;
                }
            }
        });
        Pipe { shared }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.shared.0.lock().unwrap().bytes).into_owned()
    }

    fn wait_until(&self, within: Duration, holds: impl Fn(&Text) -> bool) -> bool {
        let end = Instant::now() + within;
        let mut text = self.shared.0.lock().unwrap();
        loop {
            if holds(&text) {
                return true;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || text.closed {
                return false;
            }
            text = self.shared.1.wait_timeout(text, left).unwrap().0;
        }
    }

    fn wait_for(&self, what: &str, within: Duration) -> bool {
        self.wait_until(within, |text| String::from_utf8_lossy(&text.bytes).contains(what))
    }

    fn wait_closed(&self, within: Duration) -> bool {
        self.wait_until(within, |text| text.closed)
    }
}
