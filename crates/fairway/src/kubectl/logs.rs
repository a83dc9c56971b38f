//! `logs`: prints the access log of all pods, each line prefixed with the name of its pod.

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
use crate::terminal::PlainText;

/// Interval of the search for new pods.
const SEARCH_INTERVAL: Duration = Duration::from_secs(5);

/// Number of lines that may wait to be printed.
const MAX_WAITING: usize = 256;

/// A line or a problem of a pod's log.
struct PodLog {
    pod: String,
    event: LogEvent,
}

enum LogEvent {
    Line(String),
    /// The log cannot be read, or its end was reached.
    Problem(String),
}

/// Prints the access log. Exits with 0 if the logs of all pods could be read.
pub(super) async fn logs(args: &LogsArgs) -> Result<ExitCode> {
    let hosts = args.host.as_deref().map(SelectedHosts::read).transpose()?;
    let mut cluster = Cluster::find(&args.pods).await?.one_installation()?;
    let range = LogRange { follow: args.follow, tail: u32::try_from(args.tail).ok() };
    let (sender, mut receiver) = channel(MAX_WAITING);
    let mut printer = Printer { hosts, has_text: false, has_problem: false };
    if !args.follow {
        tokio::spawn(read_all(cluster.client.clone(), cluster.pods.clone(), range, sender));
        while let Some(pod_log) = receiver.recv().await {
            printer.print(&pod_log)?;
        }
        return Ok(printer.exit_code());
    }
    // One reader per pod. It ends if the pod has not started or its container restarts.
    let mut followed: BTreeMap<(String, String), JoinHandle<()>> = BTreeMap::new();
    let mut is_first = true;
    let mut searches = interval(SEARCH_INTERVAL);
    loop {
        tokio::select! {
            Some(pod_log) = receiver.recv() => printer.print(&pod_log)?,
            _ = searches.tick() => {
                if !is_first {
                    // Keep the known pods while the API server does not respond.
                    cluster = cluster.refreshed().await.unwrap_or(cluster);
                }
                // Print everything that a new pod has logged so far.
                let unlimited = LogRange { tail: None, ..range };
                for pod in &cluster.pods {
                    let name = (pod.namespace.clone(), pod.name.clone());
                    let range = match followed.get(&name) {
                        Some(reader) if !reader.is_finished() => continue,
                        // The earlier lines of this pod have already been printed.
                        Some(_) => LogRange { tail: Some(0), ..range },
                        None if is_first => range,
                        None => unlimited,
                    };
                    let reader = read(cluster.client.clone(), pod.clone(), range, sender.clone());
                    followed.insert(name, tokio::spawn(reader));
                }
                is_first = false;
            }
        }
    }
}

/// Reads the logs of the pods one after the other.
async fn read_all(client: Client, pods: Vec<FairwayPod>, range: LogRange, sender: Sender<PodLog>) {
    for pod in pods {
        read(client.clone(), pod, range, sender.clone()).await;
    }
}

/// Reads the log of a pod until it ends or the receiver is gone.
async fn read(client: Client, pod: FairwayPod, range: LogRange, sender: Sender<PodLog>) {
    let mut lines = match pods::read_log(&client, &pod, range).await {
        Ok(lines) => lines,
        Err(error) => {
            send_event(&sender, &pod, LogEvent::Problem(error.to_string())).await;
            return;
        }
    };
    loop {
        let event = match lines.next_line().await {
            Ok(Some(line)) => LogEvent::Line(line),
            Ok(None) if range.follow => LogEvent::Problem("its log has ended".to_owned()),
            Ok(None) => return,
            Err(error) => LogEvent::Problem(format!("its log cannot be read any further: {error}")),
        };
        let is_last = matches!(event, LogEvent::Problem(_));
        if !send_event(&sender, &pod, event).await || is_last {
            return;
        }
    }
}

/// Sends an event. Returns whether the receiver still exists.
async fn send_event(sender: &Sender<PodLog>, pod: &FairwayPod, event: LogEvent) -> bool {
    sender.send(PodLog { pod: pod.name.clone(), event }).await.is_ok()
}

struct Printer {
    hosts: Option<SelectedHosts>,
    /// Whether `--host` was given and there were text lines, which do not show the host.
    has_text: bool,
    has_problem: bool,
}

impl Printer {
    fn print(&mut self, pod_log: &PodLog) -> Result<()> {
        let PodLog { pod, event: what } = pod_log;
        match what {
            LogEvent::Line(line) if self.selects(line)? => {
                writeln!(PlainText(io::stdout()), "[{pod}] {}", line.trim_end_matches('\r'))?;
            }
            LogEvent::Line(_) => {}
            LogEvent::Problem(problem) => {
                self.has_problem = true;
                writeln!(PlainText(io::stderr()), "[{pod}] {problem}")?;
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
                        "--host needs a JSON access log, but this one is text. Set the chart value logs.access: json, or use \
                         --access-log json."
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
    fn a_host_selects_its_lines_and_messages_are_skipped() {
        let line = |host: &str| format!(r#"{{"request":{{"host":"{host}"}},"took_us":1}}"#);
        let printer = |host: Option<&str>| Printer {
            hosts: host.map(|host| SelectedHosts::read(host).unwrap()),
            has_text: false,
            has_problem: false,
        };
        let mut all = printer(None);
        assert!(all.selects(&line("a.test")).unwrap() && all.selects("192.0.2.1 - - []").unwrap());
        assert!(!all.selects(r#"{"level":"INFO","message":"m"}"#).unwrap());
        let mut filtering = printer(Some("*.test"));
        assert!(
            filtering.selects(&line("a.test")).unwrap() && !filtering.selects(&line("a.example")).unwrap()
        );
        assert!(!filtering.has_text);
        assert!(!filtering.selects("192.0.2.1 - - []").unwrap() && filtering.has_text);
    }
}
