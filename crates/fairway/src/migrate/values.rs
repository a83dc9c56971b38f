//! `fairway migrate values`: values of the Helm chart of ingress-nginx as values of Fairway's.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use fairway_migrate::values::{self, Converted, Finding};
use fairway_objects::manifest::{self, Node, Schema};
use serde_json::{Map, Value};

use super::output;
use crate::args::ValuesArgs;
use crate::terminal::{self, Plain};
use crate::{nginx_flags, standard_input};

/// 0 when nothing is lost, 1 when something is.
pub(super) fn migrate(args: &ValuesArgs) -> Result<ExitCode> {
    let Converted { values, lost, notes } = values::convert(&read(args)?, &nginx_flags::of_chart);
    let text = terminal::yaml(&values).context("cannot write the values as YAML")?;
    output::write(args.output.as_deref(), &text)?;
    let mut err = Plain(io::stderr().lock());
    for (word, findings) in [("lost", &lost), ("note", &notes)] {
        for (paths, what) in by_words(findings) {
            writeln!(err, "{word}: {}: {what}", paths.join(", "))?;
        }
    }
    Ok(if lost.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// What is said, once, with all paths of which it is said.
fn by_words(findings: &[Finding]) -> Vec<(Vec<&str>, &str)> {
    let mut said: Vec<(Vec<&str>, &str)> = Vec::new();
    for Finding { path, what } in findings {
        match said.iter_mut().find(|(_, known)| *known == what) {
            Some((paths, _)) => paths.push(path),
            None => said.push((vec![path], what)),
        }
    }
    said
}

/// The values of the file. One without any has none, as Helm reads it.
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
