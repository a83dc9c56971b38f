//! Prints the report as text.

use std::io::{self, Write};

use fairway_model::on_one_line;

use super::report::{Change, Example, Report, RouteName, RouteReport};
use crate::check::count_noun;
use crate::kubectl::age::age;
use crate::kubectl::table::Table;

/// Writes the report.
pub(super) fn write(out: &mut impl Write, report: &Report) -> io::Result<()> {
    writeln!(out, "{}", summary(report))?;
    let totals = report.totals;
    writeln!(
        out,
        "{} would have been treated otherwise, {} under other settings, {} in the same way; {} undecided",
        totals.otherwise, totals.settings, totals.same, totals.undecided
    )?;
    if report.left_out > 0 {
        let requests = count_noun(report.left_out, "request");
        writeln!(out, "{requests} left out: refused before a route was looked for")?;
    }
    if report.incomplete {
        writeln!(
            out,
            "The input has no Service or no Secret: what routes without them would have done is undecided (object)"
        )?;
    }
    let (untouched, touched): (Vec<_>, Vec<_>) = report.routes.iter().partition(|it| it.is_untouched());
    if !touched.is_empty() {
        writeln!(out)?;
        table(&touched).write(out)?;
    }
    for route in touched {
        writeln!(out, "\n{}", on_one_line(&title(&route.route)))?;
        route.changes.iter().try_for_each(|change| writeln!(out, "  {}", on_one_line(&line(change))))?;
    }
    if !untouched.is_empty() {
        let requests = untouched.iter().map(|route| route.requests + route.samples).sum();
        let routes = count_noun(untouched.len(), "route");
        writeln!(out, "\nUnchanged: {routes} with {}", count_noun(requests, "request"))?;
    }
    Ok(())
}

/// The first line: which requests of which replicas were examined.
fn summary(report: &Report) -> String {
    let seconds = |seconds: u64| age(i64::try_from(seconds).unwrap_or(i64::MAX));
    let complete = match report.complete_seconds {
        Some(complete) => format!(" (all of the last {})", seconds(complete)),
        None => String::new(),
    };
    let requests = match report.requests {
        0 => "no request".to_owned(),
        count => {
            format!(
                "{} of the last {}{complete}",
                count_noun(count, "request"),
                seconds(report.oldest_seconds)
            )
        }
    };
    let samples = match report.samples {
        0 => String::new(),
        count => format!(
            ", and {count} more as samples of {} of the last {}",
            count_noun(report.sampled_routes, "route"),
            seconds(report.sample_seconds)
        ),
    };
    format!("Against {}: {requests}{samples}", count_noun(report.replicas, "replica"))
}

fn table(routes: &[&RouteReport]) -> Table {
    let headings = ["ROUTE", "HOST", "PATH", "REQUESTS", "SAMPLES", "OTHERWISE", "SETTINGS", "UNDECIDED"];
    let mut table = Table::new(headings);
    for RouteReport { route, requests, samples, counts, .. } in routes {
        let counts = [*requests, *samples, counts.otherwise, counts.settings, counts.undecided];
        let texts = [object(route), route.host.clone(), route.path.clone()];
        table.row(texts.into_iter().chain(counts.map(|count| count.to_string())));
    }
    table
}

fn object(route: &RouteName) -> String {
    match &*route.kind {
        "" => "(no route)".to_owned(),
        kind => format!("{kind} {}/{}", route.namespace, route.name),
    }
}

fn title(route: &RouteName) -> String {
    let field = if route.field.is_empty() { String::new() } else { format!(" {}", route.field) };
    let location =
        if route.host.is_empty() { String::new() } else { format!(" ({}{})", route.host, route.path) };
    format!("{}{field}{location}", object(route))
}

fn line(change: &Change) -> String {
    let Change { verdict, kind, count, example } = change;
    let text = match *verdict {
        "otherwise" => format!("{count} otherwise ({kind})"),
        "settings" => format!("{count} under other settings ({kind})"),
        _ => format!("{count} undecided ({kind})"),
    };
    let Example { time, method, url, status, before, after } = example;
    let words = match (before, after) {
        (Some(before), Some(after)) => format!(": {before} -> {after}"),
        _ => String::new(),
    };
    format!("{text}{words}; as {method} {url} with {status} at {time}")
}

#[cfg(test)]
mod tests {
    use super::super::report::VerdictCounts;
    use super::*;

    fn example(before: Option<&str>, after: Option<&str>) -> Example {
        Example {
            time: "2026-11-30T14:03:07.412Z".to_owned(),
            method: "GET".to_owned(),
            url: "http://shop.test/cart".to_owned(),
            status: 200,
            before: before.map(str::to_owned),
            after: after.map(str::to_owned),
        }
    }

    fn route(path: &str, counts: VerdictCounts, changes: Vec<Change>) -> RouteReport {
        let route = RouteName {
            kind: "Ingress".to_owned(),
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            field: "spec.rules[0]".to_owned(),
            host: "shop.test".to_owned(),
            path: path.to_owned(),
        };
        RouteReport { route, requests: 3, samples: 1, counts, changes }
    }

    #[test]
    fn routes_that_change_are_listed_and_the_others_counted() {
        let change = |verdict, kind, before, after| Change {
            verdict,
            kind,
            count: 2,
            example: example(before, after),
        };
        let counts = VerdictCounts { otherwise: 2, undecided: 2, ..VerdictCounts::default() };
        let otherwise =
            change("otherwise", "backend", Some("Service shop/web:80"), Some("Service shop/\u{7}next:80"));
        let changes = vec![otherwise, change("undecided", "headers", None, None)];
        let same = VerdictCounts { same: 4, ..VerdictCounts::default() };
        let report = Report {
            replicas: 2,
            requests: 6,
            oldest_seconds: 720,
            complete_seconds: Some(40),
            samples: 2,
            sampled_routes: 2,
            sample_seconds: 3_600,
            left_out: 1,
            totals: VerdictCounts { otherwise: 2, undecided: 2, same: 4, settings: 0 },
            routes: vec![route("/cart", counts, changes), route("/", same, Vec::new())],
            ..Report::default()
        };
        let mut out = Vec::new();
        write(&mut out, &report).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "Against 2 replicas: 6 requests of the last 12m (all of the last 40s), and 2 more as samples of 2 routes of the last 60m\n\
             2 would have been treated otherwise, 0 under other settings, 4 in the same way; 2 undecided\n\
             1 request left out: refused before a route was looked for\n\
             \n\
             ROUTE              HOST        PATH    REQUESTS   SAMPLES   OTHERWISE   SETTINGS   UNDECIDED\n\
             Ingress shop/web   shop.test   /cart   3          1         2           0          2\n\
             \n\
             Ingress shop/web spec.rules[0] (shop.test/cart)\n\
             \x20 2 otherwise (backend): Service shop/web:80 -> Service shop/?next:80; as GET http://shop.test/cart with 200 at \
             2026-11-30T14:03:07.412Z\n\
             \x20 2 undecided (headers); as GET http://shop.test/cart with 200 at 2026-11-30T14:03:07.412Z\n\
             \n\
             Unchanged: 1 route with 4 requests\n"
        );
    }

    #[test]
    fn a_report_without_requests_says_so() {
        let mut out = Vec::new();
        write(&mut out, &Report { replicas: 1, ..Report::default() }).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("Against 1 replica: no request\n0 would have been"), "{text}");
    }
}
