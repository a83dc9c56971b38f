//! The report's answer: a few sentences, one for each study, made of the data, and a table of peers by questions. What
//! a study found stands as it was printed; what was found here has its numbers, and says whom it concerns.

use fairway_lab_measure::results::Settings;
use serde_json::Value;

use super::builder::PageBuilder;
use super::effects::{quantile, sorted};
use super::gather::Scenario;
use super::headline::{against_fairway, has_too_few, is_noise};
use super::html::{Cell, Table};
use super::number;
use super::palette::Palette;
use super::peers::FAIRWAY;
use super::pool::distinct;
use super::question::{Lost, Standing, lost, questions};

/// What is said of one study.
#[derive(Debug, PartialEq)]
struct Verdict {
    /// What it is about.
    subject: &'static str,
    /// What it found.
    there: String,
    /// What was found here.
    here: String,
    /// For whom that matters.
    whom: &'static str,
}

/// The chapter.
///
/// # Errors
/// The published figures that are part of this program cannot be read.
pub(super) fn chapter(all: &[Scenario], builder: &mut PageBuilder) -> anyhow::Result<()> {
    let published = super::published::figures()?;
    let verdicts = verdicts(all, &builder.palette, &published);
    let table = matrix(all, builder);
    if verdicts.is_empty() && table.is_empty() {
        return Ok(());
    }
    builder.html.raw("<section id=\"answer\"><h2>The answer</h2><ul class=\"verdict\">");
    for verdict in &verdicts {
        builder.html.element("<li><b>", verdict.subject, "</b> ");
        let text = format!("{} {} {}", verdict.there, verdict.here, verdict.whom);
        builder.html.text(&text).raw("</li>");
    }
    builder.html.raw("</ul>");
    if !table.is_empty() {
        builder.table(&table);
        builder.reading("One row for each proxy, with recommended settings. Losses have the exact interval of a Poisson count, ratios the interval of their pairs. ▲ is worse than Fairway and ▼ better, where the intervals lie apart; = where they do not tell the two apart. A median of changes has the interval of its own values; how often such an interval covers the true median stands beside it. A percentile of several rounds is their median, with the lowest and the highest round from four rounds on. A figure without a sign was measured too few times for an interval: it ranks nobody.");
    }
    builder.html.raw("</section>");
    Ok(())
}

fn matrix(all: &[Scenario], builder: &PageBuilder) -> Table {
    let questions = questions(all, &builder.palette);
    let peers = distinct(questions.iter().flat_map(|question| &question.answers).map(|one| &one.peer));
    let mut columns = vec![String::new()];
    columns.extend(questions.iter().map(|question| format!("#{}", question.name)));
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new("Peers by questions", &columns);
    let mut peers: Vec<&String> = peers;
    peers.sort_by_key(|peer| builder.palette.place(peer));
    for peer in peers {
        let mut cells = vec![Cell::Markup(builder.palette.cell(peer, Settings::Recommended))];
        cells.extend(questions.iter().map(|question| {
            match question.answers.iter().find(|answer| answer.peer == *peer) {
                None => Cell::Text(missing(all, peer)),
                Some(answer) => match answer.standing {
                    Standing::Unjudged => Cell::Number(answer.text.clone()),
                    Standing::Alike => Cell::Number(format!("= {}", answer.text)),
                    Standing::Better => Cell::Good(format!("▼ {}", answer.text)),
                    Standing::Worse => Cell::Bad(format!("▲ {}", answer.text)),
                },
            }
        }));
        table.row(cells);
    }
    table
}

/// Why a peer has no answer to a question that others answer.
fn missing(all: &[Scenario], peer: &str) -> String {
    let absent = all.iter().flat_map(|run| &run.absent).find(|absent| absent.peer == peer);
    absent.map_or_else(|| number::TOO_FEW.to_owned(), |absent| format!("absent: {}", absent.reason))
}

fn verdicts(runs: &[Scenario], palette: &Palette, published: &Value) -> Vec<Verdict> {
    [
        dynamic(runs, palette, &published["study1_dynamic"]),
        capacity(runs, &published["study2_capacity"]),
        comparison(runs, palette, &published["study3_comparison"]),
        timeline(runs, palette, &published["study4_timeline"]),
        propagation(runs, palette),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What was not the proxies' doing in runs of before the adapters waited for events; nginx's had another name then.
fn caveat(runs: &[Scenario]) -> &'static str {
    let old = runs.iter().flat_map(|run| &run.propagations).any(|one| one.peer == "nginx-reload")
        || runs.iter().flat_map(|run| &run.spikes).any(|one| one.peer == "nginx-reload");
    if old {
        " In this run the adapters still polled or held changes back, and connect time-outs differed: the figures of nginx, \
         HAProxy, Caddy and Envoy contain that."
    } else {
        ""
    }
}

fn count(value: &Value) -> String {
    value.as_u64().map_or_else(|| number::UNKNOWN.to_owned(), number::count)
}

/// `Fairway lost 0 of 39,000 requests, haproxy 0 of 24,000, ...`, fewest first.
fn losses(runs: &[Scenario], palette: &Palette, scenario: &str) -> Option<String> {
    let names = distinct(runs.iter().flat_map(|run| &run.measures).map(|one| &one.peer));
    let proxies = names.into_iter().filter(|peer| !palette.is_neutral(peer));
    let mut found: Vec<(&String, Lost)> =
        proxies.filter_map(|peer| Some((peer, lost(runs, palette, peer, &[scenario])?))).collect();
    found.sort_by_key(|(peer, lost)| (*peer != FAIRWAY, lost.failed, palette.place(peer)));
    let text = |(peer, lost): &(&String, Lost)| match peer.as_str() {
        FAIRWAY => {
            format!("Fairway lost {} of {} requests", number::count(lost.failed), number::count(lost.of))
        }
        other => format!("{other} {} of {}", number::count(lost.failed), number::count(lost.of)),
    };
    (!found.is_empty()).then(|| format!("Here {}.", found.iter().map(text).collect::<Vec<_>>().join(", ")))
}

fn dynamic(runs: &[Scenario], palette: &Palette, study: &Value) -> Option<Verdict> {
    let errors = &study["dynamic_errors"];
    let there = format!(
        "While pods came and went, the study's NGINX OSS controller had {} connection errors, ingress-nginx {} time-outs, \
         NGINX Plus none.",
        count(&errors["nginx_oss"]["connection_errors"]),
        count(&errors["community"]["connection_timeouts"]),
    );
    let here = losses(runs, palette, "dynamic")?;
    let whom = "It concerns everybody who deploys while clients are connected.";
    Some(Verdict { subject: "Pods come and go.", there, here, whom })
}

fn comparison(runs: &[Scenario], palette: &Palette, study: &Value) -> Option<Verdict> {
    let (one, five) = (&study["one_generator_codes"], &study["five_generators_errors"]);
    let there = format!(
        "Of a million requests in the study Traefik answered {} with 502, ingress-nginx {}, HAProxy none; with five \
         generators HAProxy answered {} with 404.",
        count(&one["Traefik"]["502"]),
        count(&one["Nginx"]["502"]),
        count(&five["HAProxy"]["404"]),
    );
    let here = losses(runs, palette, "comparison")?;
    let whom = "It concerns those who scale the controller itself or change its routes by day.";
    Some(Verdict { subject: "The proxy scales and its routes change.", there, here, whom })
}

fn capacity(runs: &[Scenario], study: &Value) -> Option<Verdict> {
    let there = format!(
        "One CPU of the study's NGINX gave {} HTTPS requests or {} new TLS connections a second.",
        count(&study["https_rps"][0]),
        count(&study["tls_tps"][0]),
    );
    let https = spread(runs, |case| case.starts_with("HTTPS 1 KB"));
    let handshakes = spread(runs, |case| case.ends_with("handshakes"));
    let parts: Vec<String> = [(https, "HTTPS request of 1 KB"), (handshakes, "full handshake")]
        .into_iter()
        .filter_map(|(spread, what)| Some(format!("{} per {what}", spread?)))
        .collect();
    if parts.is_empty() {
        return None;
    }
    let here =
        format!("Here the other proxies spend, as multiples of Fairway's CPU, {}.", parts.join(", and "));
    let whom = "It concerns those who pay for CPUs; at light load nobody notices.";
    Some(Verdict { subject: "What a CPU does.", there, here, whom })
}

/// `1.25 x (haproxy) to 4.6 x (traefik)`: the lowest and the highest median of all cases that are meant, of those that have
/// enough pairs for a claim.
fn spread(runs: &[Scenario], is_meant: impl Fn(&str) -> bool) -> Option<String> {
    let ratios = runs.iter().flat_map(|run| {
        let others = against_fairway(&run.ratios).filter(|ratio| !is_noise(ratio));
        let others = others.filter(|ratio| !has_too_few(ratio));
        others.filter(|ratio| ratio.figure.starts_with("CPU") && is_meant(&ratio.case))
    });
    let mut ratios: Vec<_> = ratios.filter(|ratio| ratio.median.is_finite()).collect();
    ratios.sort_by(|a, b| a.median.total_cmp(&b.median));
    let (low, high) = (ratios.first()?, ratios.last()?);
    let end = |ratio: &fairway_lab_measure::results::Ratio| {
        format!("{} x ({})", number::ratio(ratio.median), ratio.peer)
    };
    Some(if low.median == high.median { end(low) } else { format!("{} to {}", end(low), end(high)) })
}

fn timeline(runs: &[Scenario], palette: &Palette, study: &Value) -> Option<Verdict> {
    let there = format!(
        "At 500 requests a second the study saw with HAProxy {}, with NGINX {}, with Envoy {}.",
        study["haproxy"]["500"].as_str()?,
        study["nginx"]["500"].as_str()?,
        study["envoy"]["500"].as_str()?,
    );
    let spikes = || {
        let all = runs.iter().flat_map(|run| &run.spikes);
        all.filter(|one| one.settings == Settings::Recommended && one.beside.is_none())
    };
    let mut peers = distinct(spikes().map(|spike| &spike.peer));
    peers.sort_by_key(|peer| palette.place(peer));
    let worst = peers.into_iter().filter_map(|peer| {
        let own = spikes().filter(|spike| spike.peer == *peer && spike.highest_ms.is_finite());
        let worst = own.max_by(|a, b| a.highest_ms.total_cmp(&b.highest_ms))?;
        let name = if peer == FAIRWAY { "Fairway" } else { peer };
        Some(format!("{name} {}", number::figure(worst.highest_ms)))
    });
    let worst: Vec<String> = worst.collect();
    if worst.is_empty() {
        return None;
    }
    let direct = spikes().filter_map(|spike| spike.direct_ms).filter(|ms| ms.is_finite()).reduce(f64::max);
    let beside = direct.map_or_else(String::new, |ms| {
        format!(" (straight to the pods, at the same time, at most {})", number::figure(ms))
    });
    let here = format!(
        "Here the highest latency after any event was, in ms: {}{beside}.{}",
        worst.join(", "),
        caveat(runs)
    );
    let whom = "It concerns those whose clients have deadlines.";
    Some(Verdict { subject: "Latency over time.", there, here, whom })
}

fn propagation(runs: &[Scenario], palette: &Palette) -> Option<Verdict> {
    let all = || runs.iter().flat_map(|run| &run.propagations);
    let recommended = || all().filter(|one| one.settings == Settings::Recommended);
    let case = &recommended().next()?.case;
    let mut medians: Vec<(&String, f64)> = recommended()
        .filter(|one| one.case == *case)
        .filter_map(|one| Some((&one.peer, quantile(&sorted(one), 0.5)?)))
        .collect();
    medians.sort_by(|a, b| {
        (a.0 != FAIRWAY).cmp(&(b.0 != FAIRWAY)).then(palette.place(a.0).cmp(&palette.place(b.0)))
    });
    let text = |(peer, ms): &(&String, f64)| {
        let name = if *peer == FAIRWAY { "Fairway" } else { peer };
        format!("{name} {}", number::figure(*ms))
    };
    let medians: Vec<String> = medians.iter().map(text).collect();
    if medians.is_empty() {
        return None;
    }
    let there = "gateway-api-bench asks how long a new route takes until it serves.".to_owned();
    let here = format!("Here that took, as a median in ms ({case}): {}.{}", medians.join(", "), caveat(runs));
    let whom = "It concerns those who create hosts or routes by program.";
    Some(Verdict { subject: "A change takes effect.", there, here, whom })
}

#[cfg(test)]
mod tests {
    use fairway_lab_measure::results::{Load, Measure, Propagation, Ratio, Spike};

    use super::*;

    fn run(scenario: &str) -> fairway_lab_measure::results::Run {
        fairway_lab_measure::results::Run {
            scenario: scenario.to_owned(),
            ..fairway_lab_measure::results::Run::default()
        }
    }

    fn published() -> Value {
        super::super::published::figures().unwrap()
    }

    fn text(verdict: Option<Verdict>) -> String {
        let verdict = verdict.expect("there is something to say");
        format!("{} {}", verdict.there, verdict.here)
    }

    #[test]
    fn without_a_run_nothing_is_claimed() {
        assert_eq!(verdicts(&[], &Palette::of([]), &published()), []);
    }

    #[test]
    fn losses_stand_with_what_the_study_lost_and_ours_comes_first() {
        let mut run = run("dynamic");
        for (peer, failed) in [("haproxy", 0_u64), ("traefik", 293), ("fairway", 7)] {
            let measure = serde_json::json!({
                "peer": peer, "settings": "recommended", "case": "dynamic", "phase": "pooled", "begun_s": 0.0,
                "load": Load::default(),
            });
            let mut measure: Measure = serde_json::from_value(measure).unwrap();
            measure.load.counts.requests = 24_000;
            measure.load.errors.insert(fairway_lab_measure::results::Class::ReadEof, failed);
            run.measures.push(measure);
        }
        let text = text(dynamic(&[run.into()], &Palette::of([]), &published()["study1_dynamic"]));
        assert!(text.contains("33,365 connection errors"), "{text}");
        assert!(
            text.ends_with(
                "Here Fairway lost 7 of 24,000 requests, haproxy 0 of 24,000, traefik 293 of 24,000."
            ),
            "{text}"
        );
    }

    #[test]
    fn ratios_are_told_from_the_lowest_to_the_highest_and_losses_of_ours_too() {
        let mut run = run("capacity");
        for (peer, median) in [("haproxy", 0.9), ("envoy", 3.25), ("fairway", 1.0)] {
            run.ratios.push(Ratio {
                figure: "CPU per request".to_owned(),
                case: "HTTPS 1 KB TLS 1.3".to_owned(),
                peer: peer.to_owned(),
                base: "fairway".to_owned(),
                settings: Settings::Recommended,
                workers: Some(1),
                median,
                interval: (median, median),
                pairs: 15,
                set_aside: 0,
                grounds: fairway_lab_measure::results::Grounds::default(),
            });
        }
        let text = text(capacity(&[run.into()], &published()["study2_capacity"]));
        assert!(
            text.contains("CPU, 0.90 x (haproxy) to 3.25 x (envoy) per HTTPS request of 1 KB."),
            "{text}"
        );
    }

    #[test]
    fn a_ratio_of_too_few_pairs_is_not_quoted() {
        let mut run = run("capacity");
        for (peer, median, pairs) in [("haproxy", 0.9, 3), ("envoy", 3.25, 15)] {
            let grounds = fairway_lab_measure::results::Grounds {
                coverage: Some(0.96),
                ..fairway_lab_measure::results::Grounds::default()
            };
            run.ratios.push(Ratio {
                figure: "CPU per request".to_owned(),
                case: "HTTPS 1 KB TLS 1.3".to_owned(),
                peer: peer.to_owned(),
                base: "fairway".to_owned(),
                settings: Settings::Recommended,
                workers: Some(1),
                median,
                interval: (median, median),
                pairs,
                set_aside: 0,
                grounds,
            });
        }
        let text = text(capacity(&[run.into()], &published()["study2_capacity"]));
        assert!(text.contains("CPU, 3.25 x (envoy) per HTTPS request of 1 KB."), "{text}");
    }

    #[test]
    fn changes_and_spikes_have_a_figure_for_each_peer() {
        let mut run = run("timeline");
        for (peer, highest_ms) in [("envoy", 20.0), ("fairway", 7.5)] {
            run.spikes.push(Spike {
                peer: peer.to_owned(),
                settings: Settings::Recommended,
                case: "500/s".to_owned(),
                event: "backend 3 -> 4".to_owned(),
                at_s: 1.0,
                highest_ms,
                direct_ms: Some(4.0),
                lasted_s: 0.0,
                errors: 0,
                beside: None,
            });
            run.propagations.push(Propagation {
                peer: peer.to_owned(),
                settings: Settings::Recommended,
                case: "add one by one".to_owned(),
                ms: (1..=30).map(f64::from).collect(),
                lost: 0,
                wrong: 0,
                routes: 30,
                memory_bytes: None,
            });
        }
        let palette = Palette::of([]);
        let runs = [Scenario::from(run)];
        let spikes = text(timeline(&runs, &palette, &published()["study4_timeline"]));
        assert!(
            spikes.contains(
                "in ms: Fairway 7.50, envoy 20.0 (straight to the pods, at the same time, at most 4.00)"
            ),
            "{spikes}"
        );
        let changes = text(propagation(&runs, &palette));
        assert!(changes.ends_with("(add one by one): Fairway 15.0, envoy 15.0."), "{changes}");
    }
}
