//! `logs`: the access log of all pods, each line behind the name of its pod.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use fairway_cluster::pods::{self, FairwayPod, LogRange};
use fairway_cluster::source::Client;
use tokio::sync::mpsc::{Sender, channel};
use tokio::task::JoinHandle;
use tokio::time::interval;

use super::cluster::Cluster;
use super::host::SelectedHosts;
use super::log_line::LogLine;
use crate::args::LogsArgs;
use crate::terminal::Plain;

/// How often new pods are looked for.
const SEARCH_INTERVAL: Duration = Duration::from_secs(5);

/// How many lines wait to be printed.
const MAX_WAITING: usize = 256;

/// What a pod has to say.
struct Said {
    pod: String,
    what: What,
}

enum What {
    Line(String),
    /// Its log cannot be read, or not any further.
    Problem(String),
}

/// Prints the lines; 0 when the logs of all pods could be read.
pub(super) async fn logs(args: &LogsArgs) -> Result<ExitCode> {
    let hosts = args.host.as_deref().map(SelectedHosts::read).transpose()?;
    let mut cluster = Cluster::find(&args.pods).await?.one_installation()?;
    let range = LogRange { follow: args.follow, tail: u32::try_from(args.tail).ok() };
    let (sender, mut receiver) = channel(MAX_WAITING);
    let mut printer = Printer { hosts, has_text: false, has_problem: false };
    if !args.follow {
        tokio::spawn(read_all(cluster.client.clone(), cluster.pods.clone(), range, sender));
        while let Some(said) = receiver.recv().await {
            printer.print(&said)?;
        }
        return Ok(printer.exit_code());
    }
    // Readers by pod. That of a pod that has not started, or whose container starts again, ends.
    let mut followed: BTreeMap<(String, String), JoinHandle<()>> = BTreeMap::new();
    let mut is_first = true;
    let mut searches = interval(SEARCH_INTERVAL);
    loop {
        tokio::select! {
            Some(said) = receiver.recv() => printer.print(&said)?,
            _ = searches.tick() => {
                if !is_first {
                    // Pods that are known go on while the API server does not answer.
                    cluster = cluster.again().await.unwrap_or(cluster);
                }
                // What a new pod has printed so far is new as well.
                let whole = LogRange { tail: None, ..range };
                for pod in &cluster.pods {
                    let name = (pod.namespace.clone(), pod.name.clone());
                    let range = match followed.get(&name) {
                        Some(reader) if !reader.is_finished() => continue,
                        // What it printed before was read.
                        Some(_) => LogRange { tail: Some(0), ..range },
                        None if is_first => range,
                        None => whole,
                    };
                    let reader = read(cluster.client.clone(), pod.clone(), range, sender.clone());
                    followed.insert(name, tokio::spawn(reader));
                }
                is_first = false;
            }
        }
    }
}

/// Reads one log after the other.
async fn read_all(client: Client, pods: Vec<FairwayPod>, range: LogRange, sender: Sender<Said>) {
    for pod in pods {
        read(client.clone(), pod, range, sender.clone()).await;
    }
}

/// Reads the log of a pod until it ends, or nobody wants it.
async fn read(client: Client, pod: FairwayPod, range: LogRange, sender: Sender<Said>) {
    let mut lines = match pods::read_log(&client, &pod, range).await {
        Ok(lines) => lines,
        Err(error) => {
            say(&sender, &pod, What::Problem(error.to_string())).await;
            return;
        }
    };
    loop {
        let what = match lines.next().await {
            Ok(Some(line)) => What::Line(line),
            Ok(None) if range.follow => What::Problem("its log has ended".to_owned()),
            Ok(None) => return,
            Err(error) => What::Problem(format!("its log cannot be read any further: {error}")),
        };
        let is_last = matches!(what, What::Problem(_));
        if !say(&sender, &pod, what).await || is_last {
            return;
        }
    }
}

/// Whether somebody still listens.
async fn say(sender: &Sender<Said>, pod: &FairwayPod, what: What) -> bool {
    sender.send(Said { pod: pod.name.clone(), what }).await.is_ok()
}

struct Printer {
    hosts: Option<SelectedHosts>,
    /// Whether there were lines in which no host can be found, though some host was asked for.
    has_text: bool,
    has_problem: bool,
}

impl Printer {
    fn print(&mut self, said: &Said) -> Result<()> {
        let Said { pod, what } = said;
        match what {
            What::Line(line) if self.selects(line)? => {
                writeln!(Plain(io::stdout()), "[{pod}] {}", line.trim_end_matches('\r'))?;
            }
            What::Line(_) => {}
            What::Problem(problem) => {
                self.has_problem = true;
                writeln!(Plain(io::stderr()), "[{pod}] {problem}")?;
            }
        }
        Ok(())
    }

    /// Whether a line is printed.
    fn selects(&mut self, line: &str) -> Result<bool> {
        Ok(match (LogLine::read(line), &self.hosts) {
            (LogLine::Message, _) => false,
            (LogLine::Access { .. } | LogLine::Text, None) => true,
            (LogLine::Access { host }, Some(hosts)) => host.is_some_and(|host| hosts.include(&host)),
            (LogLine::Text, Some(_)) => {
                if !self.has_text {
                    writeln!(
                        io::stderr(),
                        "The access log is text, in which --host can find no host. Make it JSON with the value logs.access: \
                         json of the chart, or with --access-log json."
                    )?;
                }
                self.has_text = true;
                false
            }
        })
    }

    fn exit_code(&self) -> ExitCode {
        if self.has_problem || self.has_text { ExitCode::from(1) } else { ExitCode::SUCCESS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_selects_its_lines_and_messages_are_left_out() {
        let line = |host: &str| format!(r#"{{"request":{{"host":"{host}"}},"took_us":1}}"#);
        let printer = |host: Option<&str>| Printer {
            hosts: host.map(|host| SelectedHosts::read(host).unwrap()),
            has_text: false,
            has_problem: false,
        };
        let mut all = printer(None);
        assert!(all.selects(&line("a.test")).unwrap() && all.selects("192.0.2.1 - - []").unwrap());
        assert!(!all.selects(r#"{"level":"INFO","message":"m"}"#).unwrap());
        let mut some = printer(Some("*.test"));
        assert!(some.selects(&line("a.test")).unwrap() && !some.selects(&line("a.example")).unwrap());
        assert!(!some.has_text);
        assert!(!some.selects("192.0.2.1 - - []").unwrap() && some.has_text);
    }
}
