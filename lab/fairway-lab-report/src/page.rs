//! The complete page: the data of its template. Computes no figures.

use fairway_lab_measure::results::{Completeness, PeerRecord, Results};
use minijinja::value::Serde;
use minijinja::{Value, context};
use serde_json::Value as Json;

use super::evidence::notice;
use super::glance::glance;
use super::merge::{Scenario, distinct, gather};
use super::palette::Palette;
use super::pool::ENOUGH_ROUNDS;
use super::{number, view};

/// The figures of the studies as they were printed; a copy of what the project agreed on.
const STUDIES: &str = include_str!("../published.json");

/// The report of runs as a complete HTML file.
///
/// # Errors
/// The published figures or the template, which are part of this program, cannot be read.
pub fn page(results: &[Results]) -> anyhow::Result<String> {
    let scenarios = gather(results);
    let palette = Palette::for_runs(results);
    let part = |run: &Scenario| {
        let revisions = run.sources.iter().map(|at| results[*at].environment.facts.get("revision"));
        let notices = distinct(revisions).into_iter().filter_map(|revision| notice(revision.cloned()));
        view::scenario_view(run, notices.collect(), &palette)
    };
    let parts: Vec<Value> = scenarios.iter().map(part).collect();
    let glance = glance(&scenarios.iter().collect::<Vec<_>>(), &palette);
    let studies: Json = serde_json::from_str(STUDIES)?;
    let bare: Vec<Results> = results.iter().map(without_runs).collect();
    let mut environment = number::environment();
    let classes = palette.clone();
    environment.add_filter("class", move |peer: &str| classes.class(peer));
    let palette_of_page = palette.clone();
    environment.add_filter("by_place", move |mut peers: Vec<String>| {
        peers.sort_by_key(|peer| palette_of_page.position(peer));
        peers
    });
    environment.add_filter("quoted", |Serde(words): Serde<Vec<String>>| quoted(&words));
    environment.add_filter("printed", printed);
    environment.add_template("page.html", include_str!("page.html"))?;
    let context = context! {
        style => include_str!("page.css"),
        enough_rounds => ENOUGH_ROUNDS,
        machines => machines(results),
        partial => Serde(partial_results(results)),
        parts,
        glance => Serde(glance),
        studies => Serde(studies),
        results => Serde(&bare),
        absent => Serde(distinct(results.iter().flat_map(|result| &result.absent))),
        limitations => distinct(results.iter().flat_map(|result| result.limitations.clone())),
        peers => Serde(peers(results, &palette)),
    };
    Ok(environment.get_template("page.html")?.render(context)?)
}

fn without_runs(results: &Results) -> Results {
    let Results { schema, completeness, begun, seconds, command, environment, .. } = results.clone();
    let (peers, absent, runs, limitations) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    Results { schema, completeness, begun, seconds, command, environment, peers, absent, runs, limitations }
}

/// Time, machine and scenarios of the measurements, one sentence per machine.
fn machines(results: &[Results]) -> Vec<String> {
    let machine_of = |result: &Results| (result.environment.cpu.clone(), result.environment.cpus);
    let sentence = |(cpu, cpus): (String, u32)| {
        let own_results = results.iter().filter(|result| machine_of(result) == (cpu.clone(), cpus));
        let started = own_results.map(|result| {
            let when = result.begun.replace('T', " ").replace('Z', " UTC");
            format!("{when} ({})", number::duration(result.seconds))
        });
        format!("Measured on {cpu}, {cpus} CPUs: {}.", started.collect::<Vec<_>>().join("; "))
    };
    distinct(results.iter().map(machine_of)).into_iter().map(sentence).collect()
}

/// The incomplete runs and the reasons.
fn partial_results(all: &[Results]) -> Vec<(String, &str)> {
    let label = |results: &Results| match all.len() {
        0 | 1 => "Partial: ".to_owned(),
        _ => format!("What began {} is partial: ", results.begun),
    };
    all.iter()
        .filter_map(|results| match &results.completeness {
            Completeness::Partial { reason } => Some((label(results), reason.as_str())),
            Completeness::Complete => None,
        })
        .collect()
}

/// The peers of runs in order, with the start of those runs. Peers that several runs have in common are listed once.
fn peers<'a>(all: &'a [Results], palette: &Palette) -> Vec<(Vec<&'a str>, Vec<&'a PeerRecord>)> {
    let text = |results: &Results| serde_json::to_string(&results.peers).unwrap_or_default();
    let runs_with_text = |value: String| {
        let own_results: Vec<&Results> = all.iter().filter(|results| text(results) == value).collect();
        let mut peers: Vec<&PeerRecord> = own_results[0].peers.iter().collect();
        peers.sort_by_key(|peer| palette.position(&peer.name));
        (own_results.iter().map(|results| results.begun.as_str()).collect(), peers)
    };
    distinct(all.iter().map(text)).into_iter().map(runs_with_text).collect()
}

/// A command line that a shell reads as the same words.
fn quoted(words: &[String]) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,@%+".contains(letter);
    let quote = |word: &String| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// A value of a study as it is in the file, so that a figure is not rounded.
fn printed(value: &Value) -> String {
    match u64::try_from(value.clone()) {
        Ok(whole) if value.is_integer() => number::count(whole),
        _ if value.is_undefined() || value.is_none() => number::UNKNOWN.to_owned(),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect_strings(value: &Json, found: &mut Vec<String>) {
        match value {
            Json::Object(fields) => fields.values().for_each(|field| collect_strings(field, found)),
            Json::Array(items) => items.iter().for_each(|item| collect_strings(item, found)),
            other => found.push(printed(&Value::from(Serde(other)))),
        }
    }

    #[test]
    fn every_published_figure_is_on_the_page_even_without_a_run_of_ours() {
        let page = page(&[]).unwrap();
        let mut all = Vec::new();
        collect_strings(&serde_json::from_str(STUDIES).unwrap(), &mut all);
        assert!(all.len() > 200, "{}", all.len());
        for leaf in all {
            let escaped = minijinja::HtmlEscape(&leaf).to_string();
            assert!(page.contains(&escaped), "{leaf} is not on the page");
        }
    }
}
