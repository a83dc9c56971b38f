//! A figure of each peer as bars, case by case, with a dot for each of its streams or blocks: how far they lie apart is
//! how far the bar can be believed. Never claims a difference.

use super::builder::PageBuilder;
use super::drawing::cut;
use super::gather::Scenario;
use super::html::Html;
use super::number;
use super::pool::{Pool, distinct, titled, whole};

/// More dots than these are a line: of many blocks every second or third has one.
const DOTS: usize = 40;

/// A figure of a stream.
pub(super) struct Quantity {
    /// The heading.
    pub title: &'static str,
    /// The unit, short.
    pub unit: &'static str,
    /// What it means and which way is better.
    pub reading: &'static str,
    /// The figure, where it says something.
    pub value: fn(&Pool<'_>) -> Option<f64>,
}

/// CPU per request.
pub(super) const COST: Quantity = Quantity {
    title: "CPU per request",
    unit: "µs",
    reading: "CPU time of the proxy alone for each answered request. Shorter is better.",
    value: |pool| pool.cpu(),
};

/// Draws a figure of all cases of a run; nothing where nobody has it.
pub(super) fn bars(quantity: &Quantity, run: &Scenario, builder: &mut PageBuilder) {
    let pools = whole(run, &builder.palette);
    let usable =
        |pool: &&Pool<'_>| (quantity.value)(pool).is_some_and(|value| value.is_finite() && value >= 0.0);
    let known: Vec<&Pool<'_>> = pools.iter().filter(usable).collect();
    if known.is_empty() {
        return;
    }
    builder.html.element("<figure class=\"costs\"><figcaption><h4>", quantity.title, "</h4>");
    builder.reading(&format!(
        "{} A dot is one stream or block, the bar is all of them together: where dots of two peers overlap, so may the truth.",
        quantity.reading
    ));
    builder.html.raw("</figcaption><div class=\"small-multiples\">");
    for (case, workers) in distinct(known.iter().map(|pool| (pool.case, pool.workers))) {
        let own = known.iter().filter(|pool| (pool.case, pool.workers) == (case, workers));
        let rows: Vec<Bar<'_>> = own.map(|pool| Bar::of(pool, quantity)).collect();
        of_case(&titled(case, workers), quantity.unit, &rows, builder);
    }
    builder.html.raw("</div></figure>");
}

/// A peer in a case.
struct Bar<'a> {
    peer: &'a str,
    name: String,
    value: f64,
    each: Vec<f64>,
}

impl<'a> Bar<'a> {
    fn of(pool: &Pool<'a>, quantity: &Quantity) -> Self {
        let alone = pool.measures.iter().map(|one| Pool { measures: vec![*one], ..*pool });
        let each =
            alone.filter_map(|one| (quantity.value)(&one)).filter(|value| value.is_finite() && *value >= 0.0);
        let each: Vec<f64> = each.collect();
        let every = each.len().div_ceil(DOTS).max(1);
        Self {
            peer: pool.peer,
            name: cut(&pool.name()),
            each: each.into_iter().step_by(every).collect(),
            value: (quantity.value)(pool).unwrap_or_default(),
        }
    }

    fn largest(&self) -> f64 {
        self.each.iter().copied().fold(self.value, f64::max)
    }
}

fn of_case(title: &str, unit: &str, rows: &[Bar<'_>], builder: &mut PageBuilder) {
    const ROW: f64 = 20.0;
    const LEFT: f64 = 122.0;
    const WIDTH: f64 = 180.0;
    let largest = rows.iter().map(Bar::largest).fold(0.0, f64::max);
    let scale = if largest > 0.0 { WIDTH / largest } else { 0.0 };
    let mut html = Html::default();
    html.element("<div><h5>", title, "</h5><svg class=\"bars\" role=\"img\" viewBox=\"0 0 390 ");
    html.number(rows.len() as f64 * ROW + 4.0).raw("\"").attribute("aria-label", title).raw(">");
    for (at, row) in rows.iter().enumerate() {
        let y = at as f64 * ROW;
        html.raw("<g class=\"")
            .raw(builder.palette.class(row.peer))
            .raw("\"")
            .attribute("data-peer", row.peer);
        html.raw("><text class=\"tick end\" x=\"116\" y=\"").number(y + 14.0).raw("\">").text(&row.name);
        html.raw("</text><rect class=\"bar\" rx=\"2\" height=\"12\" x=\"122\" y=\"").number(y + 4.0);
        html.raw("\" width=\"").number((row.value * scale).max(0.5)).raw("\"/>");
        for value in &row.each {
            html.raw("<circle r=\"2.5\" cx=\"").number(LEFT + value * scale).raw("\" cy=\"").number(y + 10.0);
            html.raw("\"/>");
        }
        let end = LEFT + row.largest() * scale + 8.0;
        html.raw("<text class=\"value\" x=\"").number(end).raw("\" y=\"").number(y + 14.0).raw("\">");
        html.text(&format!("{} {unit}", number::figure(row.value))).raw("</text></g>");
    }
    html.raw("</svg></div>");
    builder.html.append(&html);
}
