//! Rate and latency as tools print them, and how far two of them disagree. Reads text, starts nothing.

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::load::{Outcome, at_percent};

/// What is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Answers a second.
    pub rate: f64,
    /// Median latency, milliseconds.
    pub p50_ms: f64,
    /// 99th percentile, milliseconds.
    pub p99_ms: f64,
}

impl Figures {
    /// Those of the laboratory's generator, from the send time.
    #[must_use]
    pub fn own(outcome: &Outcome) -> Self {
        let at = |percent| at_percent(&outcome.load.service, percent).unwrap_or_default();
        Self { rate: outcome.load.rate, p50_ms: at(50.0), p99_ms: at(99.0) }
    }

    /// The mean of two runs.
    #[must_use]
    pub fn mean(one: Self, other: Self) -> Self {
        Self {
            rate: (one.rate + other.rate) / 2.0,
            p50_ms: (one.p50_ms + other.p50_ms) / 2.0,
            p99_ms: (one.p99_ms + other.p99_ms) / 2.0,
        }
    }

    /// How far `self` is from `base`, in percent of `base`.
    #[must_use]
    pub fn against(self, base: Self) -> Self {
        let percent = |one: f64, base: f64| if base > 0.0 { (one / base - 1.0) * 100.0 } else { 0.0 };
        Self {
            rate: percent(self.rate, base.rate),
            p50_ms: percent(self.p50_ms, base.p50_ms),
            p99_ms: percent(self.p99_ms, base.p99_ms),
        }
    }

    /// `wrk --latency`.
    pub(super) fn of_wrk(text: &str) -> anyhow::Result<Self> {
        Ok(Self {
            rate: number(after(text, "Requests/sec:")?)?,
            p50_ms: milliseconds(after(text, "50%")?)?,
            p99_ms: milliseconds(after(text, "99%")?)?,
        })
    }

    /// `hey`: it prints tenths of milliseconds.
    pub(super) fn of_hey(text: &str) -> anyhow::Result<Self> {
        Ok(Self {
            rate: number(after(text, "Requests/sec:")?)?,
            p50_ms: number(after(text, "50% in")?)? * 1e3,
            p99_ms: number(after(text, "99% in")?)? * 1e3,
        })
    }

    /// `oha --output-format json`, and the older `--json`.
    pub(super) fn of_oha(text: &str) -> anyhow::Result<Self> {
        let document: serde_json::Value = serde_json::from_str(text).context("read the JSON of oha")?;
        let number = |place: &str| {
            document
                .pointer(place)
                .and_then(serde_json::Value::as_f64)
                .with_context(|| format!("oha printed no {place}"))
        };
        Ok(Self {
            rate: number("/summary/requestsPerSec")?,
            p50_ms: number("/latencyPercentiles/p50")? * 1e3,
            p99_ms: number("/latencyPercentiles/p99")? * 1e3,
        })
    }

    /// `h2load`: it prints no percentiles, but logs every request (start, status, microseconds).
    pub(super) fn of_h2load(text: &str, log: &str) -> anyhow::Result<Self> {
        let rate = after(text, "finished in")?
            .split(',')
            .nth(1)
            .and_then(|part| part.trim().split(' ').next())
            .context("h2load printed no rate")?;
        let mut micros: Vec<u64> =
            log.lines().filter_map(|line| line.split('\t').nth(2)?.trim().parse().ok()).collect();
        anyhow::ensure!(!micros.is_empty(), "h2load logged no request");
        micros.sort_unstable();
        let at = |quantile: f64| micros[((micros.len() - 1) as f64 * quantile).round() as usize] as f64 / 1e3;
        Ok(Self { rate: number(rate)?, p50_ms: at(0.5), p99_ms: at(0.99) })
    }
}

/// The rest of the first line that begins with a label.
fn after<'a>(text: &'a str, label: &str) -> anyhow::Result<&'a str> {
    text.lines()
        .find_map(|line| line.trim().strip_prefix(label))
        .map(str::trim)
        .with_context(|| format!("no line with {label:?} was printed"))
}

/// The number at the beginning.
fn number(text: &str) -> anyhow::Result<f64> {
    let word = text.split_whitespace().next().unwrap_or_default();
    word.parse().with_context(|| format!("{text:?} is no number"))
}

/// `12.34us`, `1.2ms`, `3.4s`, as wrk prints them.
fn milliseconds(text: &str) -> anyhow::Result<f64> {
    for (unit, factor) in [("us", 1e-3), ("ms", 1.0), ("s", 1e3), ("m", 6e4)] {
        if let Some(number) = text.strip_suffix(unit).and_then(|number| number.parse::<f64>().ok()) {
            return Ok(number * factor);
        }
    }
    anyhow::bail!("{text:?} is no length of time")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_each_tool_prints() {
        let wrk = "  Latency Distribution\n     50%  635.00us\n     75%    1.00ms\n     99%    2.50ms\nRequests/sec:  71234.56\n";
        let hey = "  Requests/sec:\t1999.1234\n  50% in 0.0003 secs\n  99% in 0.0012 secs\n";
        let oha = r#"{"summary":{"requestsPerSec":2000.5},"latencyPercentiles":{"p50":0.0002,"p99":0.001}}"#;
        let h2load = "finished in 10.00s, 1998.70 req/s, 2.31MB/s\n";
        let log = "1\t200\t100\n2\t200\t300\n3\t200\t200\n";
        let figures = |rate, p50_ms, p99_ms| Figures { rate, p50_ms, p99_ms };
        assert_eq!(Figures::of_wrk(wrk).unwrap(), figures(71_234.56, 0.635, 2.5));
        let read = Figures::of_hey(hey).unwrap();
        assert!(
            (read.p50_ms - 0.3).abs() < 1e-9 && (read.p99_ms - 1.2).abs() < 1e-9 && read.rate == 1_999.123_4
        );
        assert_eq!(Figures::of_oha(oha).unwrap(), figures(2_000.5, 0.2, 1.0));
        assert_eq!(Figures::of_h2load(h2load, log).unwrap(), figures(1_998.7, 0.2, 0.3));
    }

    #[test]
    fn output_without_the_figures_is_an_error_that_names_them() {
        assert!(Figures::of_wrk("unable to connect").unwrap_err().to_string().contains("Requests/sec:"));
        assert!(Figures::of_oha("{}").unwrap_err().to_string().contains("requestsPerSec"));
        assert!(Figures::of_h2load("finished in 1s, 2 req/s, x", "").is_err());
    }

    #[test]
    fn disagreement_is_in_percent_of_the_base() {
        let base = Figures { rate: 100.0, p50_ms: 1.0, p99_ms: 2.0 };
        let other = Figures { rate: 95.0, p50_ms: 1.5, p99_ms: 2.0 };
        let percent = other.against(base);
        assert!((percent.rate + 5.0).abs() < 1e-9 && percent.p50_ms == 50.0 && percent.p99_ms == 0.0);
    }
}
