//! The binary as a real process: started on free ports, watched, scraped, ended. Never ends a process it did not start.

use std::ffi::OsStr;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::client::{Client, RawResponse, Request};
use crate::wait::{WAIT_TIMEOUT, eventually, free_address, holds_within};

/// Timeout for readiness: a debug build compiles patterns for seconds on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A started program with its output; it is killed with this value.
pub struct Program {
    child: Child,
    id: u32,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Program {
    /// Starts `program` with `arguments`; its standard output and error are both kept as lines.
    pub fn start<A: AsRef<OsStr>>(program: &Path, arguments: &[A]) -> Self {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let id = child.id().expect("a child that was not awaited has an id");
        let lines = Arc::default();
        tokio::spawn(collect(child.stdout.take().expect("the output is piped"), Arc::clone(&lines)));
        tokio::spawn(collect(child.stderr.take().expect("the error output is piped"), Arc::clone(&lines)));
        Self { child, id, lines }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Everything it printed so far, line by line.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("no holder of this lock panics").clone()
    }

    /// Waits for a line that contains `text` and gives it.
    pub async fn line_with(&self, text: &str) -> String {
        let find = || self.lines().into_iter().find(|line| line.contains(text));
        if !holds_within(WAIT_TIMEOUT, || async { find().is_some() }).await {
            panic!("no line with {text:?}; the output is:\n{}", self.lines().join("\n"));
        }
        find().expect("lines are only added")
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) -> io::Result<()> {
        self.signal(Signal::TERM)
    }

    /// Sends SIGKILL.
    pub fn kill(&self) -> io::Result<()> {
        self.signal(Signal::KILL)
    }

    /// Sends any signal.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(kill_process(id.ok_or(io::ErrorKind::NotFound)?, signal)?)
    }

    /// Waits until it ends.
    pub async fn exit_within(&mut self, limit: Duration) -> ExitStatus {
        match timeout(limit, self.child.wait()).await {
            Ok(status) => status.expect("a child process can be awaited"),
            Err(_) => panic!("still running after {limit:?}; the output is:\n{}", self.lines().join("\n")),
        }
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("the status of a child process can be read").is_none()
    }
}

async fn collect(output: impl AsyncRead + Unpin, lines: Arc<Mutex<Vec<String>>>) {
    let mut output = BufReader::new(output).lines();
    loop {
        match output.next_line().await {
            Ok(Some(line)) => lines.lock().expect("no holder of this lock panics").push(line),
            Ok(None) => return,
            Err(error) => {
                lines.lock().expect("no holder of this lock panics").push(format!("(output lost: {error})"));
                return;
            }
        }
    }
}

/// The path of the `fairway` binary: cargo's variable in integration tests, otherwise next to the test's directory.
pub fn fairway_binary() -> PathBuf {
    if let Some(path) = std::env::var_os("CARGO_BIN_EXE_fairway") {
        return path.into();
    }
    let test = std::env::current_exe().expect("a test knows its own path");
    // target/debug/deps/test-1234 beside target/debug/fairway
    let path = test.ancestors().nth(2).expect("tests lie in the target directory").join("fairway");
    assert!(path.exists(), "{} is not built", path.display());
    path
}

/// `fairway run` on free ports of the loopback address.
pub struct Fairway {
    program: Program,
    /// The HTTP address.
    pub http: SocketAddr,
    /// The HTTPS address.
    pub https: SocketAddr,
    /// The admin address.
    pub admin: SocketAddr,
}

impl Fairway {
    /// Starts `binary` with `manifests` and `more` arguments; does not wait.
    pub fn start(binary: &Path, manifests: &Path, flags: &[&str]) -> Self {
        Self::start_with(binary, &[&["--manifests", &manifests.display().to_string()], flags].concat())
    }

    /// Starts `binary` with these arguments, which name the source too; does not wait.
    pub fn start_with(binary: &Path, flags: &[&str]) -> Self {
        Self::start_by(binary, &[], flags)
    }

    /// As [`Fairway::start_with`] in a process that may open `limit` files.
    pub fn start_with_open_files(limit: u32, binary: &Path, flags: &[&str]) -> Self {
        let script = format!("ulimit -n {limit} && exec \"$0\" \"$@\"");
        Self::start_by(Path::new("/bin/sh"), &["-c", &script, &binary.display().to_string()], flags)
    }

    /// Starts another process on the addresses of this one, whose place it is to take; does not wait.
    pub fn start_successor(&self, binary: &Path, flags: &[&str]) -> Self {
        Self::start_on([self.http, self.https, self.admin], binary, &[], flags)
    }

    fn start_by(program: &Path, before: &[&str], flags: &[&str]) -> Self {
        Self::start_on([(); 3].map(|()| free_address()), program, before, flags)
    }

    fn start_on(
        [http, https, admin]: [SocketAddr; 3],
        program: &Path,
        before: &[&str],
        more: &[&str],
    ) -> Self {
        let addresses = [http, https, admin].map(|address| address.to_string());
        let arguments = ["run", "--http", &addresses[0], "--https", &addresses[1], "--admin", &addresses[2]];
        let program = Program::start(program, &[before, &arguments, more].concat());
        Self { program, http, https, admin }
    }

    /// Starts the process and waits until `/readyz` returns 200.
    pub async fn ready(binary: &Path, manifests: &Path, flags: &[&str]) -> Self {
        Self::start(binary, manifests, flags).until_ready().await
    }

    /// Waits until `/readyz` returns 200.
    pub async fn until_ready(mut self) -> Self {
        let ready = holds_within(START_TIMEOUT, || {
            let running = self.program.is_running();
            let admin = self.admin;
            async move {
                !running || matches!(request(admin, "/readyz").await, Ok(answer) if answer.status == 200)
            }
        });
        let in_time = ready.await;
        let running = self.program.is_running();
        assert!(running && in_time, "not ready; the output is:\n{}", self.program.lines().join("\n"));
        self
    }

    /// The output so far.
    pub fn lines(&self) -> Vec<String> {
        self.program.lines()
    }

    /// Waits for a line that contains `text` and gives it.
    pub async fn line_with(&self, text: &str) -> String {
        self.program.line_with(text).await
    }

    /// The process.
    pub fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    /// Asks the admin server for `path`.
    pub async fn admin(&self, path: &str) -> io::Result<RawResponse> {
        request(self.admin, path).await
    }

    /// The metrics of now.
    pub async fn metrics(&self) -> Metrics {
        self.try_metrics().await.expect("the admin server answers")
    }

    /// The current metrics, if the admin server responds.
    pub(crate) async fn try_metrics(&self) -> io::Result<Metrics> {
        let response = self.admin("/metrics").await?;
        match response.status {
            200 => Ok(Metrics(response.text())),
            status => Err(io::Error::other(format!("/metrics answers {status}: {}", response.text()))),
        }
    }

    /// Waits until the sum of a metric's series satisfies the condition.
    pub async fn until_metric(&self, name: &str, labels: &[(&str, &str)], is_wanted: impl Fn(f64) -> bool) {
        let expectation = format!("{name} {labels:?} as wanted");
        eventually(&expectation, WAIT_TIMEOUT, || async {
            is_wanted(self.metrics().await.sum(name, labels))
        })
        .await;
    }
}

async fn request(address: SocketAddr, path: &str) -> io::Result<RawResponse> {
    let mut client = Client::connect(address).await?;
    client.exchange(&Request::get(&address.to_string(), path).close()).await
}

/// A scrape in the Prometheus text format.
#[derive(Clone, Debug)]
pub struct Metrics(
    /// The body of `/metrics`, unparsed.
    pub String,
);

impl Metrics {
    /// The sum of all series of `name` with all of `labels`; 0 if there are none.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.series(name, labels).iter().sum()
    }

    /// The value of every series of `name` that has all of `labels`.
    pub fn series(&self, name: &str, labels: &[(&str, &str)]) -> Vec<f64> {
        let label_texts: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
        let of_line = |line: &str| {
            let rest = line.strip_prefix(name)?;
            // A value may contain a brace; the last one ends the labels.
            let (series, value) = match rest.strip_prefix('{') {
                Some(rest) => rest.rsplit_once('}')?,
                None => ("", rest.starts_with(' ').then_some(rest)?),
            };
            let has = |label: &String| format!(",{series}").contains(&format!(",{label}"));
            label_texts.iter().all(has).then(|| value.split_whitespace().next()?.parse().ok()).flatten()
        };
        self.0.lines().filter_map(of_line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_found_by_name_and_labels() {
        let metrics = Metrics(
            "# TYPE a counter\na{x=\"1\",y=\"}\"} 2\na{x=\"2\",y=\"z\"} 3 1700000000\nab{x=\"1\"} 7\nb 4.5\n"
                .into(),
        );
        assert_eq!(metrics.series("a", &[]), [2.0, 3.0]);
        assert_eq!(metrics.sum("a", &[("x", "1")]), 2.0);
        assert_eq!(metrics.sum("a", &[("y", "z"), ("x", "2")]), 3.0);
        assert_eq!(metrics.sum("b", &[]), 4.5);
        assert_eq!(metrics.sum("c", &[]), 0.0);
    }
}
