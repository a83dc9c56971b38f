//! `report --readme` writes the figures of the README from results; with `--check` it only compares them.

use std::fs;
use std::path::PathBuf;

use super::fixture::{SMALL, results as synthetic_results};
use super::laboratory;

/// A temporary project with results in `docs/results` and a `README.md`.
struct ReportProject {
    folder: tempfile::TempDir,
    readme: PathBuf,
}

fn project_with_readme(text: &str) -> ReportProject {
    let folder = tempfile::tempdir().unwrap();
    let results_folder = folder.path().join("docs/results");
    fs::create_dir_all(&results_folder).unwrap();
    fairway_lab_measure::results::write(&results_folder, &synthetic_results(SMALL)).unwrap();
    let readme = folder.path().join("README.md");
    fs::write(&readme, text).unwrap();
    ReportProject { folder, readme }
}

impl ReportProject {
    /// Runs the report command; returns its exit code and its output.
    fn report(&self, extra_arguments: &[&str]) -> (Option<i32>, String) {
        let arguments = [&["report", "docs/results", "--readme", "README.md"], extra_arguments].concat();
        laboratory(self.folder.path(), &arguments)
    }

    fn readme_text(&self) -> String {
        fs::read_to_string(&self.readme).unwrap()
    }
}

const README_WITH_MARKERS: &str = "# Words before\n<!-- lab:begin -->\nold\n<!-- lab:end -->\nwords after\n";

#[test]
fn a_report_rewrites_only_the_text_between_the_markers() {
    let project = project_with_readme(README_WITH_MARKERS);
    assert_eq!(project.report(&[]), (Some(0), String::new()));
    let text = project.readme_text();
    assert!(text.starts_with("# Words before\n<!-- lab:begin -->\n") && !text.contains("old"));
    assert!(text.ends_with("<!-- lab:end -->\nwords after\n"));
    for expected in [
        "[the report](docs/results/report.html)",
        "| dynamic | fairway | nginx-reload | haproxy | envoy | contour | traefik |",
        "| failed requests, dynamic | 0 of 120,000 |",
        "| failed requests, 1 x 250 | 0 of 90,000 |",
        "| highest ms in the second after an event (straight to the pods), 500/s |",
        "| propagation p50 / p99 ms, add one by one |",
        // The synthetic results contain a peer with this name, which would be a script if it were not escaped.
        "&lt;script>window.harmed=1&lt;/script>",
    ] {
        assert!(text.contains(expected), "expected {expected} in\n{text}");
    }
    assert_eq!(
        (project.report(&[]), project.readme_text()),
        ((Some(0), String::new()), text),
        "expected no change by a second report"
    );
    project.report(&["--link", "https://example.org/report (1).html"]);
    assert!(
        project.readme_text().contains("[the report](https://example.org/report%20(1%29.html)"),
        "{}",
        project.readme_text()
    );
}

#[test]
fn a_check_reports_a_figure_that_was_edited_by_hand_and_keeps_it() {
    let project = project_with_readme(README_WITH_MARKERS);
    let (code, output) = project.report(&["--check"]);
    assert!(
        code == Some(1) && output.contains("README.md does not say what the results say"),
        "expected a mismatch between README.md and the results: {output}"
    );
    project.report(&[]);
    assert_eq!(project.report(&["--check"]), (Some(0), String::new()));
    fs::write(&project.readme, project.readme_text().replace("0 of 120,000", "0 of 990,000")).unwrap();
    let (code, output) = project.report(&["--check"]);
    assert!(
        code == Some(1) && output.contains("0 of 990,000") && output.contains("0 of 120,000"),
        "expected the edited and the measured figure: {output}"
    );
    assert!(project.readme_text().contains("0 of 990,000"), "expected the check to keep README.md");
}

#[test]
fn a_readme_with_missing_or_misplaced_markers_is_an_error_and_stays_unchanged() {
    for (text, expected) in [
        ("nothing", "has no line <!-- lab:begin -->; put <!-- lab:begin --> and <!-- lab:end --> where"),
        ("<!-- lab:begin -->", "has no line <!-- lab:end -->"),
        ("<!-- lab:end --><!-- lab:begin -->", "has <!-- lab:end --> before <!-- lab:begin -->"),
        ("<!-- lab:begin --><!-- lab:begin --><!-- lab:end -->", "<!-- lab:begin --> twice"),
    ] {
        let project = project_with_readme(text);
        let (code, output) = project.report(&[]);
        assert!(code == Some(2) && output.contains(expected), "expected {expected} in {output}");
        assert_eq!(project.readme_text(), text);
    }
}

#[test]
fn results_of_one_machine_share_a_table_and_other_machines_have_their_own() {
    for (second_kernel, table_count, failed_requests, dates) in [
        ("6.0.0-synthetic", 1, "0 of 240,000", "2026-01-02 and 2031-01-01"),
        ("7.0.0-synthetic", 2, "0 of 120,000", "2031-01-01"),
    ] {
        let project = project_with_readme(README_WITH_MARKERS);
        let (mut second, second_folder) = (synthetic_results(SMALL), project.folder.path().join("later"));
        second.begun = "2031-01-01T00:00:00Z".to_owned();
        second_kernel.clone_into(&mut second.environment.kernel);
        let mut other_scenario = second.runs[0].clone();
        other_scenario.scenario = "another".to_owned();
        second.runs.push(other_scenario);
        fs::create_dir(&second_folder).unwrap();
        fairway_lab_measure::results::write(&second_folder, &second).unwrap();
        let arguments = ["report", "docs/results", "later", "--readme", "README.md"];
        assert_eq!(laboratory(project.folder.path(), &arguments).0, Some(0));
        let text = project.readme_text();
        assert_eq!(text.matches("| dynamic | fairway | nginx-reload |").count(), table_count, "{text}");
        assert!(text.contains(&format!("| failed requests, dynamic | {failed_requests} |")), "{text}");
        assert!(text.contains(&format!("Measured {dates}")) && text.contains("| another |"), "{text}");
    }
}
