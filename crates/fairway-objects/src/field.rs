//! Parses values that policies and annotations share, and names invalid fields.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::duration;
use crate::external_processor::InvalidField;

/// A time within these bounds.
pub(crate) fn time(
    field: &str,
    value: Option<&str>,
    within: RangeInclusive<Duration>,
) -> Result<Option<Duration>, InvalidField> {
    let read = |text: &str| {
        let problem =
            || format!("is no duration from {:?} to {:?}, such as 10s", within.start(), within.end());
        duration::read(text)
            .filter(|time| within.contains(time))
            .ok_or_else(|| invalid_field(field, text, problem()))
    };
    value.map(read).transpose()
}

/// A number within these bounds.
pub(crate) fn read_number<T: TryFrom<i64>>(
    field: &str,
    value: Option<i64>,
    within: RangeInclusive<i64>,
) -> Result<Option<T>, InvalidField> {
    let read = |number: i64| {
        let read = T::try_from(number).ok().filter(|_| within.contains(&number));
        let problem = || format!("is not from {} to {}", within.start(), within.end());
        read.ok_or_else(|| invalid_field(field, &number, problem()))
    };
    value.map(read).transpose()
}

/// The error for an invalid field.
pub(crate) fn invalid_field(
    field: &str,
    value: &(impl ToString + ?Sized),
    problem: impl Into<String>,
) -> InvalidField {
    let value = Some(value.to_string()).filter(|value| !value.is_empty());
    InvalidField { field: field.to_owned(), value, problem: problem.into() }
}
