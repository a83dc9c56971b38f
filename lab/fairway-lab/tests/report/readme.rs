//! The figures of README: made from results by a command, and held to them by a check.

use std::fs;
use std::path::PathBuf;

use super::fixture::{SMALL, results as synthetic};
use super::laboratory;

struct Place {
    folder: tempfile::TempDir,
    readme: PathBuf,
}

fn place(text: &str) -> Place {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("docs/results");
    fs::create_dir_all(&run).unwrap();
    fairway_lab_measure::results::write(&run, &synthetic(SMALL)).unwrap();
    let readme = folder.path().join("README.md");
    fs::write(&readme, text).unwrap();
    Place { folder, readme }
}

impl Place {
    fn run(&self, more: &[&str]) -> (Option<i32>, String) {
        laboratory(self.folder.path(), &[&["report", "docs/results", "--readme", "README.md"], more].concat())
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.readme).unwrap()
    }
}

const MARKED: &str = "# Words before\n<!-- lab:begin -->\nold\n<!-- lab:end -->\nwords after\n";

#[test]
fn the_region_is_rewritten_and_nothing_else() {
    let place = place(MARKED);
    assert_eq!(place.run(&[]), (Some(0), String::new()));
    let text = place.text();
    assert!(text.starts_with("# Words before\n<!-- lab:begin -->\n") && !text.contains("old"));
    assert!(text.ends_with("<!-- lab:end -->\nwords after\n"));
    for told in [
        "[the report](docs/results/report.html)",
        "|  | fairway | nginx-reload | haproxy | envoy | contour | traefik |",
        "| failed requests, dynamic: dynamic | 0 of 120,000 |",
        "| failed requests, comparison: 1 x 250 | 0 of 90,000 |",
        "| longest spike, s, timeline: 500/s | 0 |",
        "| propagation p50 / p99 ms, propagation: add one by one |",
        "&lt;script>window.harmed=1&lt;/script>",
    ] {
        assert!(text.contains(told), "{told} is not in\n{text}");
    }
    assert_eq!(
        (place.run(&[]), place.text()),
        ((Some(0), String::new()), text),
        "the second time changes nothing"
    );
    place.run(&["--link", "https://example.org/report (1).html"]);
    assert!(
        place.text().contains("[the report](https://example.org/report%20(1%29.html)"),
        "{}",
        place.text()
    );
}

#[test]
fn the_check_finds_a_figure_that_was_changed_by_hand() {
    let place = place(MARKED);
    let (code, told) = place.run(&["--check"]);
    assert!(code == Some(1) && told.contains("README.md does not say what the results say"), "{told}");
    place.run(&[]);
    assert_eq!(place.run(&["--check"]), (Some(0), String::new()));
    fs::write(&place.readme, place.text().replace("0 of 120,000", "0 of 990,000")).unwrap();
    let (code, told) = place.run(&["--check"]);
    assert!(code == Some(1) && told.contains("0 of 990,000") && told.contains("0 of 120,000"), "{told}");
    assert!(place.text().contains("0 of 990,000"), "a check changes nothing");
}

#[test]
fn a_readme_without_its_markers_is_refused_and_left_alone() {
    for (text, expected) in [
        ("nothing", "has no line <!-- lab:begin -->; put <!-- lab:begin --> and <!-- lab:end --> where"),
        ("<!-- lab:begin -->", "has no line <!-- lab:end -->"),
        ("<!-- lab:end --><!-- lab:begin -->", "has <!-- lab:end --> before <!-- lab:begin -->"),
        ("<!-- lab:begin --><!-- lab:begin --><!-- lab:end -->", "<!-- lab:begin --> twice"),
    ] {
        let place = place(text);
        let (code, told) = place.run(&[]);
        assert!(code == Some(2) && told.contains(expected), "{told}");
        assert_eq!(place.text(), text);
    }
}

#[test]
fn runs_of_one_machine_are_one_table_and_those_of_another_have_their_own() {
    for (kernel, tables, sum, dates) in [
        ("6.0.0-synthetic", 1, "0 of 240,000", "2026-01-02 and 2031-01-01"),
        ("7.0.0-synthetic", 2, "0 of 120,000", "2031-01-01"),
    ] {
        let place = place(MARKED);
        let (mut second, later) = (synthetic(SMALL), place.folder.path().join("later"));
        second.begun = "2031-01-01T00:00:00Z".to_owned();
        kernel.clone_into(&mut second.environment.kernel);
        let mut more = second.runs[0].clone();
        more.scenario = "another".to_owned();
        second.runs.push(more);
        fs::create_dir(&later).unwrap();
        fairway_lab_measure::results::write(&later, &second).unwrap();
        let arguments = ["report", "docs/results", "later", "--readme", "README.md"];
        assert_eq!(laboratory(place.folder.path(), &arguments).0, Some(0));
        let text = place.text();
        assert_eq!(text.matches("|  | fairway | nginx-reload |").count(), tables, "{text}");
        assert!(text.contains(&format!("| failed requests, dynamic: dynamic | {sum} |")), "{text}");
        assert!(text.contains(&format!("Measured {dates}")) && text.contains("another: "), "{text}");
    }
}
