//! `fairway migrate values`: converts values of the ingress-nginx Helm chart to values of Fairway's chart.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use fairway_migrate::values::{self, Converted, Finding};
use fairway_objects::manifest::{self, Node, Schema};
use serde_json::{Map, Value};

use super::output;
use crate::args::ValuesArgs;
use crate::terminal::{self, PlainText};
use crate::{nginx_flags, standard_input};

/// Exits with 0 if nothing is lost, with 1 if something is.
pub(super) fn migrate(args: &ValuesArgs) -> Result<ExitCode> {
    let Converted { values, lost, findings: notes } =
        values::convert(&read(args)?, &nginx_flags::chart_flag_meaning);
    let text = terminal::yaml(&values).context("cannot write the values as YAML")?;
    output::write(args.output.as_deref(), &text)?;
    let mut err = PlainText(io::stderr().lock());
    for (word, findings) in [("lost", &lost), ("note", &notes)] {
        for (paths, what) in group_by_text(findings) {
            writeln!(err, "{word}: {}: {what}", paths.join(", "))?;
        }
    }
    Ok(if lost.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Groups findings with the same text: each text once, with all its paths.
fn group_by_text(findings: &[Finding]) -> Vec<(Vec<&str>, &str)> {
    let mut losses: Vec<(Vec<&str>, &str)> = Vec::new();
    for Finding { path, description: what } in findings {
        match losses.iter_mut().find(|(_, known)| *known == what) {
            Some((paths, _)) => paths.push(path),
            None => losses.push((vec![path], what)),
        }
    }
    losses
}

/// Reads the values of the file. An empty file has none, as in Helm.
fn read(args: &ValuesArgs) -> Result<Map<String, Value>> {
    let (name, text) = match args.file.to_str() {
        Some("-") => ("standard input".to_owned(), standard_input::text()?),
        _ => {
            let name = args.file.display().to_string();
            let text = std::fs::read_to_string(&args.file);
            let text = text.with_context(|| format!("cannot read {name}"))?;
            (name, text)
        }
    };
    let document = manifest::parse_single(&text, Schema::Yaml11)
        .map_err(|flaw| anyhow!("{name}:{}: this {}", flaw.line, flaw.problem))?;
    match document.as_ref().map(Node::to_json) {
        Some(Value::Object(values)) => Ok(values),
        None | Some(Value::Null) => Ok(Map::new()),
        Some(_) => bail!("{name}:1: expected a mapping of values, found a list or a scalar"),
    }
}
