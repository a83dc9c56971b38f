//! The result of a cross-check as a table. Never measures.

use std::fmt;

use super::block::{Block, Report};
use super::figures::Figures;

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "{} connections, {} s a run, answers take {}; ours, the tool twice, ours; latency from the send time",
            self.connections, self.seconds, self.delay
        )?;
        writeln!(
            out,
            "{:<30} {:>12} {:>20} {:>12} {:>12}",
            "generator", "case", "requests/s", "p50 ms", "p99 ms"
        )?;
        for block in &self.blocks {
            write!(out, "{block}")?;
        }
        let noise = self.noise;
        writeln!(
            out,
            "noise floor, ours against ours at most {:>24.1}% {:>11.1}% {:>11.1}%",
            noise.rate, noise.p50_ms, noise.p99_ms
        )?;
        for (tool, reason) in &self.absent {
            writeln!(out, "{tool:<30} absent: {reason}")?;
        }
        let late = &self.lateness;
        writeln!(
            out,
            "lateness of our own at {}/s: p50 {:.3} ms, p99 {:.3} ms, p99.9 {:.3} ms, max {:.3} ms",
            self.lateness_rate, late.p50_ms, late.p99_ms, late.p999_ms, late.max_ms
        )
    }
}

impl fmt::Display for Block {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, figures: Figures| {
            writeln!(
                out,
                "{name:<30} {:>12} {:>20.1} {:>12.3} {:>12.3}",
                self.case, figures.rate, figures.p50_ms, figures.p99_ms
            )
        };
        row("ours", self.own[0])?;
        row(&self.version, self.other[0])?;
        row(&self.version, self.other[1])?;
        row("ours", self.own[1])?;
        let verdict = if self.agrees() { "agrees within 5%" } else { "DISAGREES" };
        let (off, noise) = (self.disagreement, self.noise);
        writeln!(
            out,
            "  {} against ours {:>+27.1}% {:>+11.1}% {:>+11.1}%  rate {verdict}",
            self.tool, off.rate, off.p50_ms, off.p99_ms
        )?;
        writeln!(
            out,
            "  noise (ours against ours) {:>+28.1}% {:>+11.1}% {:>+11.1}%",
            noise.rate, noise.p50_ms, noise.p99_ms
        )
    }
}
