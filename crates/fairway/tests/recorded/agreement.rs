//! How many exchanges agree with the recording, and why the others do not: counted, and compared with the page that states it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use fairway_testkit::golden;

const PAGE: &str = "docs/design/0003-differences-from-ingress-nginx.md";
const BEGIN: &str = "<!-- agreement:begin -->\n";
const END: &str = "<!-- agreement:end -->";
const PREFIX: &str = "nginx.ingress.kubernetes.io/";

/// The results of the exchanges.
pub(crate) struct Agreement {
    cases: usize,
    pub(crate) same: usize,
    pub(crate) by_design: usize,
    /// Exchanges that differ, by the unsupported annotations that they need.
    left_out: BTreeMap<String, usize>,
}

impl Agreement {
    pub(crate) fn for_cases(cases: usize) -> Self {
        Self { cases, same: 0, by_design: 0, left_out: BTreeMap::new() }
    }

    /// Counts an exchange that differs because of these unsupported annotations.
    pub(crate) fn leave_out(&mut self, annotations: &BTreeSet<String>) {
        let names = annotations.iter().map(|name| format!("`{}`", name.strip_prefix(PREFIX).unwrap_or(name)));
        *self.left_out.entry(names.collect::<Vec<_>>().join(", ")).or_default() += 1;
    }

    /// Checks that the page states the same numbers.
    pub(crate) fn is_documented(&self) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
        let page = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = page.split_once(BEGIN).expect("the page has the marker");
        let (_, after) = rest.split_once(END).expect("the page has the marker");
        let expected = self.text();
        println!("{expected}");
        golden::check(path, &[before, BEGIN, &expected, END, after].concat());
    }

    fn text(&self) -> String {
        let Self { cases, same, by_design, left_out } = self;
        let without: usize = left_out.values().sum();
        let all = same + by_design + without;
        let mut text = format!(
            "Of {all} recorded exchanges in {cases} cases, {same} are answered as recorded, {by_design} differ by design as listed \
             above,\nand {without} differ because an annotation of their Ingress does not work yet:\n\n\
             | annotations | exchanges that differ |\n| --- | --- |\n"
        );
        for (names, count) in left_out {
            _ = writeln!(text, "| {names} | {count} |");
        }
        text
    }
}
