//! `fairway migrate gateway-api`: converts Ingresses to Gateway API objects, reports what is lost, and checks that both lead to the
//! same routing.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use fairway_migrate::gateway::{
    self, ConversionOptions, Missing, Moved, MovedIngress, Outcome, WrittenObject,
};
use fairway_model::on_one_line;
use fairway_objects::object::ObjectKey;
use fairway_objects::resources::Change;

use super::{output, proof};
use crate::args::GatewayApiArgs;
use crate::offline::{Input, OfflineTranslation};
use crate::terminal::{self, PlainText};

/// Maximum number of differing requests that are listed.
const MAX_LISTED_DIFFERENCES: usize = 20;

/// Exits with 0 if nothing is lost, with 1 if something is; the objects are written in both cases.
pub(super) fn migrate(args: &GatewayApiArgs) -> Result<ExitCode> {
    let GatewayApiArgs { manifests, cluster, translation, .. } = args;
    let mut read = Input { manifests: manifests.as_deref(), cluster, translation, addresses: None }.read()?;
    let missing = gateway::missing(&read.changes);
    read.changes.extend(placeholders(&missing));
    let (changes, options) = (read.changes.clone(), read.options.clone());
    let found = read.translate()?;
    if found.outcome.translation.status.is_empty() {
        bail!("found no Ingress to convert; is its class served (--ingress-class-compat)?");
    }
    let moved = convert(args, &found)?;
    let text = objects_yaml(&moved)?;
    let proof = proof::compare_apis(&found.outcome, changes, options, &text, &args.gateway_class)?;
    output::write(args.output.as_deref(), &text)?;
    let mut report = String::new();
    // Writing to a String cannot fail.
    _ = write_losses(&mut report, &moved, &missing);
    _ = proof::write_agreement(&mut report, &proof, MAX_LISTED_DIFFERENCES);
    PlainText(io::stderr().lock()).write_all(report.as_bytes())?;
    let lost = moved.ingresses.iter().any(|entry| entry.fate == Outcome::Lost);
    Ok(if lost { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn convert(args: &GatewayApiArgs, found: &OfflineTranslation) -> Result<Moved> {
    let gateway = ObjectKey::parse(&args.gateway)
        .with_context(|| format!("--gateway {}: is not a NAMESPACE/NAME", args.gateway))?;
    let translation = &args.translation;
    let choice = ConversionOptions {
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
    Ok(gateway::move_objects(&input, &choice))
}

/// Placeholders for missing Services and certificates. The certificates are valid for their hosts; they are used only for the
/// translation and not written anywhere.
fn placeholders(missing: &Missing) -> Vec<Change> {
    let certificate = |(key, hosts): &(ObjectKey, Vec<String>)| {
        // Skip hosts that no certificate can contain: no client requests them over TLS.
        let self_signed = rcgen::generate_simple_self_signed(hosts.clone()).ok()?;
        Some(gateway::certificate(key, &self_signed.cert.pem(), &self_signed.signing_key.serialize_pem()))
    };
    missing.services.iter().cloned().chain(missing.certificates.iter().filter_map(certificate)).collect()
}

/// The objects as YAML, with their comments.
fn objects_yaml(moved: &Moved) -> Result<String> {
    let mut text = String::new();
    for (number, WrittenObject { about, object }) in moved.objects.iter().enumerate() {
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

/// Writes the differences and losses of each Ingress, followed by the totals.
fn write_losses(out: &mut String, moved: &Moved, missing: &Missing) -> std::fmt::Result {
    for entry in &moved.ingresses {
        let location = entry.place.as_ref().map(|place| format!(" ({place})")).unwrap_or_default();
        for line in entry.lines() {
            let (fate, what) = line.split_once(": ").unwrap_or(("", &line));
            writeln!(out, "{fate}: Ingress {}{location}: {what}", entry.ingress)?;
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
            "note: assumed to be certificates of their hosts, because the input has no such Secrets: {list}"
        )?;
    }
    let count = |fate| moved.ingresses.iter().filter(|entry: &&MovedIngress| entry.fate == fate).count();
    let [same, differs, lost] = [Outcome::Same, Outcome::Differs, Outcome::Lost].map(count);
    let of_others = match moved.of_others {
        0 => String::new(),
        others => format!("; {others} more belong to other controllers"),
    };
    let all = moved.ingresses.len();
    let name = if all == 1 { "Ingress" } else { "Ingresses" };
    writeln!(out, "{all} {name}: {same} the same, {differs} with differences, {lost} with losses{of_others}")
}
