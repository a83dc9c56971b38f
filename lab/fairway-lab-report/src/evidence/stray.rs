//! Finds figures in documents outside of the parts that are generated. Never judges a figure.

/// Units that only a measurement has.
const UNITS: [&str; 14] =
    ["x", "×", "%", "µs", "us", "ns", "ms", "KiB", "MiB", "Gbit/s", "RPS", "TPS", "requests/s", "failed"];
/// Numbers that are no measurements: the level of intervals, and the sizes in names of scenarios.
const NAMES: [&str; 3] = ["95%", "1 KiB", "1 MiB"];

/// The lines with a figure outside of generated regions, code and tables of contents.
pub(super) fn strays(text: &str) -> Vec<&str> {
    let mut inside = false;
    let mut code = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.starts_with("<!-- ") && line.ends_with(":begin -->") {
            inside = true;
        } else if line.starts_with("<!-- ") && line.ends_with(":end -->") {
            inside = false;
        } else if line.trim_start().starts_with("```") {
            code = !code;
        } else if !inside && !code && !line.starts_with("    ") && has_figure(line) {
            found.push(line);
        }
    }
    found
}

fn has_figure(line: &str) -> bool {
    let line = NAMES.iter().fold(line.to_owned(), |line, name| line.replace(name, ""));
    let ends = line.char_indices().filter(|(at, letter)| {
        letter.is_ascii_digit() && !line[at + 1..].starts_with(|next: char| next.is_ascii_digit())
    });
    let mut ends = ends.map(|(at, _)| line[at + 1..].trim_start_matches([' ', '*', '_', '\u{a0}']));
    ends.any(|rest| {
        UNITS.iter().any(|unit| {
            rest.strip_prefix(unit)
                .is_some_and(|after| !after.starts_with(|next: char| next.is_alphanumeric()))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::strays;

    #[test]
    fn figures_outside_generated_regions_are_found() {
        for line in
            ["It is 1.33x faster.", "| p99 | **4.5** ms |", "only 12% of it", "takes 3 µs", "0 failed"]
        {
            assert_eq!(strays(line), [line], "{line}");
            assert!(strays(&format!("<!-- a:begin -->\n{line}\n<!-- a:end -->")).is_empty(), "{line}");
            assert_eq!(strays(&format!("<!-- a:begin -->\n<!-- a:end -->\n{line}")), [line]);
        }
        for line in
            ["HTTP/1.1 and TLS 1.3", "a 95% interval", "port 8443", "1 KiB bodies", "nginx 1.22", "64-bit x"]
        {
            assert!(strays(line).is_empty(), "{line}");
        }
    }
}
