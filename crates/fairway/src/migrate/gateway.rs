//! `fairway migrate gateway-api`: the Ingresses of an installation as objects of the Gateway API, with what is lost, and whether the
//! two serve the same.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use fairway_migrate::gateway::{self, Choice, Entry, Fate, Missing, Moved, Written};
use fairway_model::on_one_line;
use fairway_objects::object::ObjectKey;
use fairway_objects::resources::Change;

use super::{output, proof};
use crate::args::GatewayApiArgs;
use crate::offline::{Input, Offline};
use crate::terminal::{self, Plain};

/// At most so many requests that are served otherwise are written.
const MOST_DIFFERING: usize = 20;

/// 0 when nothing is lost, 1 when something is; the objects are written all the same.
pub(super) fn migrate(args: &GatewayApiArgs) -> Result<ExitCode> {
    let GatewayApiArgs { manifests, cluster, translation, .. } = args;
    let mut read = Input { manifests: manifests.as_deref(), cluster, translation, addresses: None }.read()?;
    let missing = gateway::missing(&read.changes);
    read.changes.extend(assumed(&missing));
    let (changes, options) = (read.changes.clone(), read.options.clone());
    let found = read.judged()?;
    if found.outcome.translation.status.is_empty() {
        bail!("there is no Ingress to turn: is the class of yours served (--ingress-class-compat)?");
    }
    let moved = moved(args, &found)?;
    let text = yaml(&moved)?;
    let proof = proof::of(&found.outcome, changes, options, &text, &args.gateway_class)?;
    output::write(args.output.as_deref(), &text)?;
    let mut said = String::new();
    // Writing to a String cannot fail.
    _ = told(&mut said, &moved, &missing);
    _ = proof::told(&mut said, &proof, MOST_DIFFERING);
    Plain(io::stderr().lock()).write_all(said.as_bytes())?;
    let lost = moved.ingresses.iter().any(|entry| entry.fate == Fate::Lost);
    Ok(if lost { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn moved(args: &GatewayApiArgs, found: &Offline) -> Result<Moved> {
    let gateway = ObjectKey::parse(&args.gateway)
        .with_context(|| format!("--gateway {}: is no NAMESPACE/NAME", args.gateway))?;
    let translation = &args.translation;
    let choice = Choice {
        gateway,
        class: args.gateway_class.clone(),
        http_port: translation.ports.public_http_port,
        https_port: translation.ports.public_https_port,
        allow_loss: args.allow_loss,
    };
    let input = gateway::Input {
        ingresses: &found.ingresses,
        translation: &found.outcome.translation,
        resources: &found.outcome.resources,
        prefix: translation.annotations_prefix.trim_end_matches('/'),
    };
    Ok(gateway::moved(&input, &choice))
}

/// Services and certificates that stand for those that are not there. The certificates are good for their hosts, and nobody sees
/// them.
fn assumed(missing: &Missing) -> Vec<Change> {
    let certificate = |(key, hosts): &(ObjectKey, Vec<String>)| {
        // A host that no certificate can have is one that no client asks for over TLS.
        let made = rcgen::generate_simple_self_signed(hosts.clone()).ok()?;
        Some(gateway::certificate(key, &made.cert.pem(), &made.signing_key.serialize_pem()))
    };
    missing.services.iter().cloned().chain(missing.certificates.iter().filter_map(certificate)).collect()
}

/// The objects with their comments.
fn yaml(moved: &Moved) -> Result<String> {
    let mut text = String::new();
    for (number, Written { about, object }) in moved.objects.iter().enumerate() {
        if number > 0 {
            text.push_str("---\n");
        }
        for line in about {
            _ = writeln!(text, "# {}", on_one_line(line));
        }
        text.push_str(&terminal::yaml(object).context("cannot write an object as YAML")?);
    }
    Ok(text)
}

/// What differs and what is lost, Ingress by Ingress, and how many there are of what.
fn told(out: &mut String, moved: &Moved, missing: &Missing) -> std::fmt::Result {
    for entry in &moved.ingresses {
        let place = entry.place.as_ref().map(|place| format!(" ({place})")).unwrap_or_default();
        for line in entry.lines() {
            let (fate, what) = line.split_once(": ").unwrap_or(("", &line));
            writeln!(out, "{fate}: Ingress {}{place}: {what}", entry.ingress)?;
        }
    }
    for what in &moved.general {
        writeln!(out, "note: {what}")?;
    }
    let secrets: Vec<_> = missing.certificates.iter().map(|(key, _)| key.to_string()).collect();
    if !secrets.is_empty() {
        let list = secrets.join(", ");
        writeln!(
            out,
            "note: taken for certificates of their hosts, because the input has no such Secrets: {list}"
        )?;
    }
    let count = |fate| moved.ingresses.iter().filter(|entry: &&Entry| entry.fate == fate).count();
    let [same, differs, lost] = [Fate::Same, Fate::Differs, Fate::Lost].map(count);
    let of_others = match moved.of_others {
        0 => String::new(),
        others => format!("; {others} more are other controllers'"),
    };
    let all = moved.ingresses.len();
    let name = if all == 1 { "Ingress" } else { "Ingresses" };
    writeln!(out, "{all} {name}: {same} the same, {differs} with differences, {lost} with losses{of_others}")
}
