//! The report as a file: its size and content, unusual results, a full disk, several runs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use fairway_lab_measure::results::{Completeness, Latency, OverTime, Results, Run};

use super::fixture::{Extent, HOSTILE, SMALL, results as synthetic};
use super::laboratory;

/// The page with two escapes read back, so that tests can name texts with slashes and quotes.
fn page(all: &[Results]) -> String {
    fairway_lab_report::page(all).unwrap().replace("&#x2f;", "/").replace("&#x27;", "&#39;")
}

#[test]
fn long_series_of_seven_peers_stay_within_four_megabytes() {
    let results = synthetic(Extent { seconds: 360, chunks: 10 });
    let raw = serde_json::to_vec(&results).unwrap().len();
    let page = page(&[results]);
    assert!(raw > 15_000_000, "the results are only {raw} bytes, which tests nothing");
    assert!(page.len() < 4 << 20, "{} bytes from {raw}", page.len());
    let plots = page.matches("<svg class=\"static\"").count();
    assert!(plots >= 8, "plots are missing: there are {plots}");
}

#[test]
fn all_findings_are_on_the_page() {
    let page = page(&[synthetic(SMALL)]);
    for told in [
        "60 s instead of 180 s (--quick)",
        "30,000/s",
        "synthetic: apt-get has no package caddy",
        "Synthetic CPU @ 2.00 GHz",
        "1.2.3-synthetic",
        "synthetic.conf (recommended)",
        "fairway-lab run --quick --note &#39;made up by a test; it&#39;\\&#39;&#39;s synthetic&#39;",
        "Synthetic: every figure comes from a formula in a test.",
        "Non-2xx or 3xx",
        "in vegeta&#39;s Status Codes",
        "RPS",
        "TPS",
        "Gbit/s",
        "published, another machine",
        "33,365",
        "The generator, stream by stream",
    ] {
        assert!(page.contains(told), "{told} is not on the page");
    }
    assert!(!page.contains("href=\"http") && !page.contains(" src="), "nothing leads to the network");
}

#[test]
fn text_of_results_never_becomes_markup() {
    let page = page(&[synthetic(SMALL)]);
    assert!(page.contains("&lt;script&gt;window.harmed=1"));
    assert!(!page.contains(HOSTILE));
    assert!(!page.contains("<script"), "the report has no script at all");
    assert!(!page.contains("<b>connect-refused"));
}

/// The row of a peer in the table of what backends saw, of the first scenario and its first case.
fn row_of_deliveries(page: &str, peer: &str) -> Vec<String> {
    let table = &page[page.find("<h4>Requests as backends saw them</h4>").unwrap()..];
    let rows = table[..table.find("</table>").unwrap()].split("<tr");
    let row = rows.into_iter().find(|row| row.contains(&format!(">{peer}<"))).unwrap();
    row.split("<td").skip(2).map(|cell| cell.split(['>', '<']).nth(1).unwrap().to_owned()).collect()
}

#[test]
fn condensed_results_give_the_same_tables() {
    let folder = tempfile::tempdir().unwrap();
    let full_folder = folder.path().join("studies");
    fs::create_dir(&full_folder).unwrap();
    fairway_lab_measure::results::write(&full_folder, &synthetic(SMALL)).unwrap();
    let run =
        |arguments: &[&str]| assert_eq!(laboratory(folder.path(), arguments).0, Some(0), "{arguments:?}");
    run(&["condense", "studies", "--out", "kept"]);
    let size_of = |name: &str| fs::metadata(folder.path().join(name)).unwrap().len();
    assert!(size_of("kept/studies.json.gz") * 4 < size_of("studies/results.json"), "nothing was left out");
    let is_of_number = |letter: char| letter.is_ascii_digit() || letter == '.';
    let tables_of = |name: &str| {
        run(&["report", name, "-o", "all.html"]);
        let page = fs::read_to_string(folder.path().join("all.html")).unwrap();
        let tables = page.split("<table").skip(1).map(|rest| rest.split("</table>").next().unwrap());
        let text = tables.collect::<String>();
        let numbers = text.split(|letter| !is_of_number(letter)).filter_map(|number| number.parse().ok());
        (text.replace(is_of_number, ""), numbers.collect::<Vec<f64>>())
    };
    let (kept, whole) = (tables_of("kept/studies.json.gz"), tables_of("studies"));
    assert_eq!(kept.0, whole.0);
    assert!(whole.1.len() > 1_000 && kept.1.len() == whole.1.len());
    // A figure in the middle between two of three digits may be rounded either way.
    for (kept, whole) in kept.1.iter().zip(&whole.1) {
        assert!((kept - whole).abs() <= whole * 0.02, "{kept} instead of {whole}");
    }
}

#[test]
fn deliveries_are_shown_next_to_errors_with_a_dash_if_unknown() {
    let page = page(&[synthetic(SMALL)]);
    let fairway = row_of_deliveries(&page, "fairway");
    assert_eq!(fairway, ["120,000", "6,000", "120,000", "0", "0", "0", "0", "0"]);
    for peer in ["envoy", "contour"] {
        assert_eq!(row_of_deliveries(&page, peer), ["–"; 8], "{peer}");
    }
    assert!(page.contains("Not counted for envoy: synthetic: &lt;b&gt;nobody&lt;/b&gt; could tell."));
    assert!(page.contains("POST 1f-0-2a, 2 times, answered"));
    assert_eq!(
        page.matches("<h4>Requests as backends saw them</h4>").count(),
        1,
        "other scenarios had no ids"
    );
}

#[test]
fn a_partial_run_is_marked_at_the_top() {
    let mut results = synthetic(SMALL);
    assert!(!page(&[results.clone()]).contains("class=\"partial\""));
    results.completeness = Completeness::Partial { reason: "interrupted by Ctrl-C in dynamic".to_owned() };
    let page = page(&[results]);
    let mark = page.find("class=\"partial\"").unwrap();
    assert!(page[mark..].contains("interrupted by Ctrl-C in dynamic"));
    assert!(mark < page.find("<nav").unwrap(), "it stands before everything else");
}

#[test]
fn unusual_results_make_a_valid_page() {
    let mut results = synthetic(SMALL);
    let measures: Vec<_> = results.runs.iter_mut().flat_map(|run| &mut run.measures).collect();
    for (at, measure) in measures.into_iter().enumerate() {
        match at % 6 {
            0 => measure.load.latency = Latency::default(),
            1 => measure.load.over_time = OverTime::default(),
            2 => measure.load.latency.percentiles[5].ms = f64::NAN,
            3 => measure.load.seconds = 0.0,
            4 => measure.load.over_time.series.iter_mut().for_each(|bucket| bucket.max_ms = f64::INFINITY),
            _ => measure.cost = None,
        }
    }
    for run in &mut results.runs {
        run.propagations.iter_mut().for_each(|entry| entry.ms.clear());
        run.spikes.iter_mut().for_each(|spike| spike.highest_ms = f64::NAN);
    }
    let bare = |run: &Run| Run {
        scenario: run.scenario.clone(),
        question: run.question.clone(),
        shortened: run.shortened.clone(),
        seconds: run.seconds,
        ..Run::default()
    };
    let empty = bare(&results.runs[0]);
    results.runs.push(empty);
    let page = page(&[results]);
    assert!(page.contains("No stream of this scenario ended"));
    for odd in ["NaN", ">inf<", "\"inf", " inf"] {
        assert!(!page.contains(odd), "{odd} is on the page");
    }
    assert!(super::file::page(&[]).contains("There are no results"));
}

#[test]
fn the_source_of_cpu_figures_is_named_unless_it_is_the_kernel() {
    let mut results = synthetic(SMALL);
    let quiet = page(std::slice::from_ref(&results));
    assert!(!quiet.contains("kubelets") && !quiet.contains("no figure of CPU"));
    let run = results.runs.iter_mut().find(|run| run.scenario == "dynamic").unwrap();
    let cost = run.measures[0].cost.as_mut().unwrap();
    "kubelet".clone_into(&mut cost.source);
    cost.covered = Some(0.815);
    let other = run.measures.iter_mut().rfind(|measure| measure.cost.is_some()).unwrap();
    (other.cost, other.backstage.uncosted) =
        (None, Some("it is forbidden: grant `get` <b>now</b>".to_owned()));
    run.supplement.notes.push("fairway: the change had no effect".to_owned());
    run.supplement.findings.push(
        serde_json::from_value(serde_json::json!({
            "peer": "fairway", "settings": "recommended", "case": "scale", "figure": "CPU", "unit": "s", "value": 1.0,
        }))
        .unwrap(),
    );
    let html = page(&[results]);
    assert!(
        html.contains("counters of its pods&#39; kubelets") && html.contains("samples cover 82% of the time")
    );
    assert!(html.contains("it is forbidden: grant `get` &lt;b&gt;now&lt;/b&gt;"));
    assert!(html.contains("fairway: the change had no effect"));
    assert!(html.contains("<td class=t>CPU, s<td>1.00"));
}

#[test]
fn figures_that_are_no_numbers_are_read_again_and_make_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let mut odd = synthetic(SMALL);
    for run in &mut odd.runs {
        for measure in &mut run.measures {
            (measure.load.rate, measure.load.latency.mean_ms) = (f64::NAN, f64::INFINITY);
        }
        run.propagations.iter_mut().for_each(|entry| entry.ms.push(f64::NAN));
        run.spikes.iter_mut().for_each(|spike| spike.highest_ms = f64::NAN);
    }
    fairway_lab_measure::results::write(folder.path(), &odd).unwrap();
    let read = fairway_lab_measure::results::read(folder.path()).unwrap();
    assert!(read.runs[0].measures[0].load.rate.is_nan());
    page(&[read]);
}

/// The results of a long run: every scenario five times, each time a little slower.
fn rounds() -> Results {
    let mut results = synthetic(SMALL);
    let first = std::mem::take(&mut results.runs);
    for round in 1..=5_u32 {
        for run in &first {
            let mut run = run.clone();
            run.round = round;
            for point in run.measures.iter_mut().flat_map(|entry| &mut entry.load.latency.percentiles) {
                point.ms *= 1.0 + f64::from(round) / 10.0;
            }
            results.runs.push(run);
        }
    }
    results
}

#[test]
fn rounds_of_a_scenario_are_one_set_of_tables() {
    let page = page(&[rounds()]);
    fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join("report-rounds.html"), &page).unwrap();
    for heading in ["<h2>dynamic</h2>", "<h2>comparison</h2>", "<h2>timeline</h2>"] {
        assert_eq!(page.matches(heading).count(), 1, "{heading}");
    }
    assert!(page.contains("5 rounds: counts are their sums, a percentile is the median of the rounds"));
    // 5 times 120,000 requests without a failure.
    assert!(page.contains("0 of 600,000") && page.contains("0 (0 – 6.15)"), "losses are sums");
    assert_eq!(row_of_deliveries(&page, "fairway")[0], "600,000");
    // The second of 5 rounds has 1.2 times the latency of the formula, the fifth 1.5 times; the median 1.3 times.
    let p99 = page.split("p99 / highest ms").nth(1).unwrap().split("<td").nth(1).unwrap();
    let numbers: Vec<f64> = p99
        .split(|letter: char| !(letter.is_ascii_digit() || letter == '.'))
        .filter_map(|number| number.parse().ok())
        .collect();
    let [median, low, high, ..] = numbers[..] else { panic!("no range: {p99}") };
    assert!((median / low - 1.3 / 1.1).abs() < 0.02 && (high / median - 1.5 / 1.3).abs() < 0.02, "{p99}");
    // A single round has no interval, and the page says so.
    let single = super::file::page(&[synthetic(SMALL)]);
    assert!(single.contains("Everything here is of one round") && !single.contains("5 rounds"));
}

#[test]
fn runs_of_several_files_are_merged_and_different_ones_kept_apart_with_the_reason() {
    let (first, mut second) = (synthetic(SMALL), synthetic(SMALL));
    second.begun = "2026-02-03T04:05:06Z".to_owned();
    second.runs.truncate(2);
    second.runs[1].parameters[1].used = "9/s".to_owned();
    let page = page(&[first, second]);
    for heading in ["<h2>dynamic</h2>", "<h2>comparison</h2>", "<h2>comparison, set 2</h2>"] {
        assert_eq!(page.matches(heading).count(), 1, "{heading}");
    }
    assert!(!page.contains("<h2>dynamic, set 2</h2>") && !page.contains("run 2"));
    let apart = &page[page.find("<h2>comparison, set 2</h2>").unwrap()..];
    assert!(apart.contains("<li>rate: 2,000/s there, 9/s here</li>"));
    assert!(
        page.find("<h2>comparison, set 2</h2>") < page.find("<h2>timeline</h2>"),
        "in the order of scenarios"
    );
}

#[test]
fn the_command_writes_the_report_and_names_it_and_unusable_input() {
    let folder = tempfile::tempdir().unwrap();
    fairway_lab_measure::results::write(folder.path(), &synthetic(SMALL)).unwrap();
    let run = folder.path().to_str().unwrap();
    let (code, told) = laboratory(folder.path(), &["report", run]);
    assert_eq!((code, told.trim()), (Some(0), format!("{run}/report.html").as_str()));
    let report = folder.path().join("report.html");
    assert_eq!(fs::metadata(&report).unwrap().permissions().mode() & 0o777, 0o644);
    let elsewhere = folder.path().join("elsewhere.html");
    let (code, _) = laboratory(folder.path(), &["report", run, "-o", elsewhere.to_str().unwrap()]);
    assert_eq!(code, Some(0));
    assert_eq!(
        fs::read(report).unwrap(),
        fs::read(elsewhere).unwrap(),
        "the same results give the same file"
    );

    let (code, told) = laboratory(folder.path(), &["report", run, run]);
    assert!(code == Some(2) && told.contains("given twice"), "{told}");
    let (code, told) = laboratory(folder.path(), &["report", "/nowhere"]);
    assert!(code == Some(2) && told.contains("/nowhere: there is no such folder"), "{told}");
    let bare = tempfile::tempdir().unwrap();
    let (code, told) = laboratory(folder.path(), &["report", bare.path().to_str().unwrap()]);
    assert!(code == Some(2) && told.contains("results.json: is this the folder of a run?"), "{told}");
}

#[test]
fn on_a_full_disk_the_previous_report_stays_with_a_message() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("report.html"), "the report before").unwrap();
    fairway_lab_measure::results::write(folder.path(), &synthetic(SMALL)).unwrap();
    // A limit on the size of files fails a write in the middle, as a full disk does, and needs no mount.
    let order = "trap '' XFSZ; ulimit -f 200; exec \"$0\" report \"$1\"";
    let output = Command::new("bash")
        .args(["-c", order, env!("CARGO_BIN_EXE_fairway-lab"), folder.path().to_str().unwrap()])
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("report.html: it cannot be written; a report that was there stays"), "{stderr}");
    assert!(stderr.contains("File too large"), "{stderr}");
    assert_eq!(fs::read_to_string(folder.path().join("report.html")).unwrap(), "the report before");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing half written is left");
}
