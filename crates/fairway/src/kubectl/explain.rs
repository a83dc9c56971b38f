//! `explain`: like `fairway explain`, with the running configuration of a pod or the recorded requests of all pods.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use super::fleet::{Fleet, Replica, ReplicaPage};
use crate::admin_client::Extent;
use crate::args::RequestArgs;
use crate::explain;
use crate::terminal::PlainText;

/// Explains one request.
pub(super) async fn explain(args: &RequestArgs) -> Result<ExitCode> {
    let fleet = Fleet::find_one(&args.target).await?;
    let RequestArgs { url, method, headers, request_id, .. } = args;
    let text = match (request_id, url) {
        (Some(id), _) => remembered(&fleet, id).await?,
        (None, Some(url)) => {
            let ReplicaPage { replica, body } = fleet.first_page("/config").await?;
            explain::by_config(url, method, headers, &replica, &body)?
        }
        (None, None) => bail!("no URL was given"),
    };
    PlainText(io::stdout()).write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// The recorded requests of all replicas with this `X-Request-ID`. Problems of single replicas go to standard error.
async fn remembered(fleet: &Fleet, id: &str) -> Result<String> {
    let path = explain::recorded::path(id);
    let ask = |replica: Replica| {
        let path = path.clone();
        async move {
            let page = replica.page(&path, Extent::Whole).await;
            (replica.to_string(), page)
        }
    };
    let (mut text, mut problems) = (String::new(), Vec::new());
    for (replica, page) in fleet.query_all(ask).await? {
        let found = page
            .and_then(|body| explain::recorded::read(&body).with_context(|| format!("{replica}: {path}")));
        match found {
            Ok(exchanges) => {
                for exchange in exchanges {
                    // Writing to a String cannot fail.
                    _ = writeln!(text, "{}Served by {replica}.", if text.is_empty() { "" } else { "\n" });
                    explain::recorded::write(&mut text, &exchange);
                }
            }
            Err(error) => problems.push(format!("{error:#}")),
        }
    }
    for problem in &problems {
        writeln!(PlainText(io::stderr()), "{problem}")?;
    }
    if text.is_empty() {
        bail!("no replica that responded has recorded a request with X-Request-ID {id:?}");
    }
    Ok(text)
}
