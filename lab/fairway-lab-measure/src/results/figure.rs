//! Figures that are not a number. JSON cannot express them: they are written as `null` and read back as NaN, so that one
//! odd figure does not make a run unreadable. The report shows them as unknown.

use serde::{Deserialize, Deserializer};

pub(super) fn read_number<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

pub(super) fn read_numbers<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
    let figures = Vec::<Option<f64>>::deserialize(from)?;
    Ok(figures.into_iter().map(|figure| figure.unwrap_or(f64::NAN)).collect())
}
