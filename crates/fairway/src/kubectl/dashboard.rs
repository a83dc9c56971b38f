//! `dashboard`: forwards a local port to the dashboard of a pod until Ctrl-C.

use std::io::{self, ErrorKind, Write};
use std::net::Ipv4Addr;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};
use tokio::net::TcpListener;

use super::cluster::Cluster;
use super::relay::Relay;
use crate::args::DashboardArgs;

/// Programs that open a URL in a browser, on Linux and on macOS.
const OPENERS: [&str; 2] = ["xdg-open", "open"];

/// Prints the URL and forwards connections until Ctrl-C.
pub(super) async fn dashboard(args: &DashboardArgs) -> Result<ExitCode> {
    let cluster = Cluster::find(&args.pods).await?.one_installation()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).await;
    let listener = listener.with_context(|| format!("--port {}", args.port))?;
    let url = format!("http://{}/dashboard/", listener.local_addr()?);
    let relay = Relay::start(cluster).await?;
    writeln!(io::stdout(), "{url}")?;
    if args.open && !args.no_open {
        open(&url)?;
    }
    tokio::select! {
        ended = relay.serve(listener) => ended?,
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens the URL in a browser if one of the programs exists.
fn open(url: &str) -> Result<()> {
    for program in OPENERS {
        let mut command = Command::new(program);
        command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.spawn() {
            Ok(mut child) => {
                // Reap the process, which exits as soon as it has passed the URL on.
                std::thread::spawn(move || {
                    _ = child.wait();
                });
                return Ok(());
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).context(program),
        }
    }
    writeln!(io::stderr(), "Found neither xdg-open nor open: open the address in a browser yourself.")?;
    Ok(())
}
