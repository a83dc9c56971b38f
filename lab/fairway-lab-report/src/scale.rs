//! Axes: from a value to a place, and where ticks go. Never draws.

use super::number;

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spread {
    /// Evenly, from zero.
    Linear,
    /// Each power of ten as wide as the next.
    Log,
    /// Percentiles as HDR plots have them: 90, 99, 99.9, … equally far apart.
    Nines,
}

impl Spread {
    fn transform(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log => value.max(1e-6).log10(),
            Self::Nines => -(1.0 - value.clamp(0.0, 99.999_999) / 100.0).log10(),
        }
    }
}

/// An axis with its ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    spread: Spread,
    from: f64,
    to: f64,
}

impl Scale {
    /// The axis that holds all values. Values that cannot be drawn do not count; without any it is 0 to 1.
    pub(super) fn for_values(spread: Spread, values: impl Iterator<Item = f64>) -> Self {
        let drawable = |value: &f64| value.is_finite() && (*value > 0.0 || spread != Spread::Log);
        let (low, high) = values
            .filter(drawable)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = if low > high { (0.1, 1.0) } else { (low, high) };
        let (from, to) = match spread {
            Spread::Linear => (low.min(0.0), if high > 0.0 { high * 1.02 } else { 1.0 }),
            Spread::Log => rounded_outwards(low, high),
            Spread::Nines => (0.0, high.clamp(90.0, 99.9999)),
        };
        Self { spread, from, to }
    }

    /// The position of a value: 0 at the start of the axis, 1 at its end.
    pub(super) fn position(&self, value: f64) -> f64 {
        let from = self.spread.transform(self.from);
        let width = self.spread.transform(self.to) - from;
        if width <= 0.0 { 0.0 } else { ((self.spread.transform(value) - from) / width).clamp(0.0, 1.0) }
    }

    /// Tick values and their labels.
    pub(super) fn ticks(&self, about: usize) -> Vec<(f64, String)> {
        let values = match self.spread {
            Spread::Linear => even(self.from, self.to, about),
            Spread::Log => powers(self.from, self.to, about),
            Spread::Nines => vec![0.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999],
        };
        let within = values.into_iter().filter(|value| (self.from..=self.to).contains(value));
        within.map(|value| (value, self.tick(value))).collect()
    }

    fn tick(&self, value: f64) -> String {
        match self.spread {
            Spread::Nines => format!("{value}%"),
            _ if value >= 1_000.0 => number::count(value.round() as u64),
            _ => format!("{}", (value * 1e6).round() / 1e6),
        }
    }
}

fn rounded_outwards(low: f64, high: f64) -> (f64, f64) {
    let step = |value: f64, up: bool| {
        let power = 10f64.powf(value.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
        let found = if up {
            steps.iter().find(|step| **step >= value * 0.999_999)
        } else {
            steps.iter().rev().find(|step| **step <= value * 1.000_001)
        };
        found.copied().unwrap_or(value)
    };
    let (from, to) = (step(low, false), step(high, true));
    if to > from { (from, to) } else { (from, from * 10.0) }
}

fn even(from: f64, to: f64, about: usize) -> Vec<f64> {
    let rough = (to - from) / about.max(1) as f64;
    if !(rough.is_finite() && rough > 0.0) {
        return vec![from];
    }
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|step| step * power)
        .find(|step| *step >= rough)
        .unwrap_or(rough);
    let first = (from / step).ceil() as i64;
    (0..64).map(|at| (first + at) as f64 * step).take_while(|value| *value <= to).collect()
}

fn powers(from: f64, to: f64, about: usize) -> Vec<f64> {
    let decades = (to / from).log10().max(0.1);
    let steps: &[f64] = if decades * 3.0 <= about as f64 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let every = (decades / about.max(1) as f64).ceil().max(1.0) as usize;
    let first = from.log10().floor() as i32;
    let last = to.log10().ceil() as i32;
    (first..=last)
        .step_by(every)
        .flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nines_are_equally_far_apart() {
        let scale = Scale::for_values(Spread::Nines, [0.0, 99.99].into_iter());
        let positions =
            [0.0, 90.0, 99.0, 99.9, 99.99].map(|percent| (scale.position(percent) * 100.0).round());
        assert_eq!(positions, [0.0, 25.0, 50.0, 75.0, 100.0]);
    }

    #[test]
    fn unusual_values_give_a_valid_axis() {
        for spread in [Spread::Linear, Spread::Log, Spread::Nines] {
            for values in [vec![], vec![f64::NAN], vec![0.0], vec![5.0, 5.0], vec![-1.0], vec![1e-9, 1e12]] {
                let scale = Scale::for_values(spread, values.iter().copied());
                assert!(scale.ticks(5).len() < 70, "{spread:?} {values:?}");
                assert!(values.iter().all(|value| value.is_nan() || scale.position(*value).is_finite()));
            }
        }
    }

    #[test]
    fn ticks_are_round() {
        let text = |scale: Scale| scale.ticks(5).into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        let linear = Scale::for_values(Spread::Linear, [0.0, 360.0].into_iter());
        assert_eq!(text(linear), ["0", "100", "200", "300"]);
        let log = Scale::for_values(Spread::Log, [0.7, 25_000.0].into_iter());
        assert_eq!(text(log), ["1", "10", "100", "1,000", "10,000"]);
    }
}
