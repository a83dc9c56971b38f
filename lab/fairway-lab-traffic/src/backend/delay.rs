//! How long answers take: a distribution, as text and as draws.

use std::str::FromStr;
use std::time::Duration;

use crate::load::flags::duration;

/// A distribution of delays: `0`, `5ms`, `uniform:1ms..5ms`, `exp:10ms`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Delay {
    /// At once.
    #[default]
    None,
    /// Always the same.
    Constant(Duration),
    /// Between the two, each as likely.
    Uniform(Duration, Duration),
    /// Exponential, with this mean.
    Exponential(Duration),
}

impl Delay {
    /// One delay; none when the answer goes at once.
    #[must_use]
    pub fn draw(&self, random: &mut fastrand::Rng) -> Option<Duration> {
        match *self {
            Self::None => None,
            Self::Constant(delay) => Some(delay),
            Self::Uniform(low, high) => Some(low + (high - low).mul_f64(random.f64())),
            Self::Exponential(mean) => Some(mean.mul_f64(-(1.0 - random.f64()).ln())),
        }
    }
}

impl FromStr for Delay {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "0" {
            return Ok(Self::None);
        }
        if let Some(mean) = text.strip_prefix("exp:") {
            return Ok(Self::Exponential(duration(mean)?));
        }
        let Some(range) = text.strip_prefix("uniform:") else { return Ok(Self::Constant(duration(text)?)) };
        let (low, high) =
            range.split_once("..").ok_or_else(|| format!("{text:?} is not uniform:LOW..HIGH"))?;
        let (low, high) = (duration(low)?, duration(high)?);
        if low > high {
            return Err(format!("{text:?} ends before it begins"));
        }
        Ok(Self::Uniform(low, high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_ms(text: &str) -> f64 {
        let (delay, mut random) = (text.parse::<Delay>().unwrap(), fastrand::Rng::with_seed(7));
        let sum: f64 =
            (0..20_000).map(|_| delay.draw(&mut random).map_or(0.0, |one| one.as_secs_f64())).sum();
        sum / 20.0
    }

    #[test]
    fn draws_have_the_mean_of_their_distribution() {
        for (text, mean) in [("0", 0.0), ("5ms", 5.0), ("uniform:1ms..5ms", 3.0), ("exp:10ms", 10.0)] {
            assert!((mean_ms(text) - mean).abs() <= mean * 0.05, "{text}: {}", mean_ms(text));
        }
    }

    #[test]
    fn what_is_no_distribution_is_refused() {
        for wrong in ["5", "uniform:5ms", "uniform:5ms..1ms", "exp:", "normal:5ms"] {
            assert!(wrong.parse::<Delay>().is_err(), "{wrong}");
        }
    }
}
