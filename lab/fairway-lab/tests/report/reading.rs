//! The report in a browser: it opens by itself, peers can be hidden, plots zoomed, it is dark where that is wished, fits
//! a phone, and can be printed. Pictures of it are left in the target folder, to be looked at.

use std::fs;
use std::path::{Path, PathBuf};

use fairway_lab_measure::results::{Distance, Grounds};
use serde_json::json;

use super::browser::Browser;
use super::fixture::{HOSTILE, SMALL, results};

/// The plot of latency over time, with all peers on one axis.
const TIMELINE: &str = "[...document.querySelectorAll('.plot')].find((plot) => plot.querySelector('h4').textContent.startsWith('Latency over time, 1000/s: all'))";

/// The parts of the tables of ratios that end to the right of their frame, which scrolls.
const CUT_OFF: &str = "[...document.querySelectorAll('.ratios .scroll *')].filter((part) => part.getBoundingClientRect().right > part.closest('.scroll').getBoundingClientRect().right + 0.5).map((part) => part.tagName + ' ' + part.textContent)";

fn opened(folder: &Path) -> (Browser, PathBuf) {
    let file = fairway_lab_report::write(&[results(SMALL)], folder).unwrap();
    let mut browser = Browser::start();
    browser.size(1280, 900, false);
    browser.prefer("light");
    browser.open(&file);
    (browser, file)
}

/// Scrolls to the timeline, waits until it is drawn and says where on the window its plot begins and how large it is.
fn at_timeline(browser: &mut Browser) -> [f64; 4] {
    browser.value(&format!("document.documentElement.style.scrollBehavior = 'auto'; window.plot = {TIMELINE}; plot.scrollIntoView({{ block: 'start' }})"));
    browser.until("plot.querySelector('.live svg path')");
    let area = browser.value(
        "(() => { const box = plot.querySelector('.live clipPath rect'); const at = plot.querySelector('.live svg').getBoundingClientRect(); \
         const n = (name) => Number(box.getAttribute(name)); return [at.left + n('x'), at.top + n('y'), n('width'), n('height')]; })()",
    );
    serde_json::from_value(area).unwrap()
}

fn keep(name: &str, picture: &[u8]) {
    assert!(picture.len() > 20_000, "the picture {name} is empty");
    fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name), picture).unwrap();
}

#[test]
fn it_opens_without_network_and_without_a_word_on_the_console() {
    let folder = tempfile::tempdir().unwrap();
    let (mut browser, _) = opened(folder.path());
    let plots = browser.value("document.querySelectorAll('.plot').length").as_u64().unwrap();
    assert!(plots >= 15, "{plots} plots");
    for plot in 0..plots {
        browser.value(&format!("document.querySelectorAll('.plot')[{plot}].scrollIntoView()"));
        browser.until(&format!("document.querySelectorAll('.plot')[{plot}].querySelector('.live svg path')"));
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
    assert_eq!(browser.value("window.harmed ?? null"), json!(null), "a text of the results ran as a script");
    assert_eq!(browser.value("document.querySelectorAll('script').length"), json!(2));
}

#[test]
fn its_policy_forbids_scripts_that_are_not_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let (mut browser, _) = opened(folder.path());
    browser.value("(() => { const own = document.createElement('script'); own.textContent = 'window.harmed = 3'; document.body.append(own); })()");
    browser.value("fetch('http://127.0.0.1:9/').catch(() => 0).then(() => 0)");
    assert_eq!(browser.value("window.harmed ?? null"), json!(null));
    assert!(browser.complaints().iter().any(|told| told.contains("Content Security Policy")));
}

#[test]
fn a_peer_can_be_hidden_in_all_plots_and_shown_again() {
    let folder = tempfile::tempdir().unwrap();
    let (mut browser, _) = opened(folder.path());
    at_timeline(&mut browser);
    let drawn = |peer: &str| format!("plot.querySelectorAll('.live [data-peer=\"{peer}\"] path').length");
    let pressed = "plot.querySelector('.key[data-peer=\"envoy\"]').getAttribute('aria-pressed')";
    assert_eq!(browser.value(&drawn("envoy")), json!(1));
    browser.value("plot.querySelector('.key[data-peer=\"envoy\"]').click()");
    assert_eq!(browser.value(&drawn("envoy")), json!(0));
    assert_eq!(browser.value(&drawn("fairway")), json!(1));
    assert_eq!(browser.value(pressed), json!("false"));
    let elsewhere = "document.querySelectorAll('.live [data-peer=\"envoy\"], .bars g[data-peer=\"envoy\"]:not(.hidden)').length";
    assert_eq!(browser.value(elsewhere), json!(0));
    browser.value("plot.querySelector('.key[data-peer=\"envoy\"]').click()");
    assert_eq!(browser.value(&drawn("envoy")), json!(1));
    assert_eq!(browser.value(pressed), json!("true"));
}

#[test]
fn dragging_zooms_both_axes_and_reset_shows_all_again() {
    let folder = tempfile::tempdir().unwrap();
    let (mut browser, _) = opened(folder.path());
    let [x, y, width, height] = at_timeline(&mut browser);
    let ticks = "[...plot.querySelectorAll('.live text.tick')].map((tick) => tick.textContent).join(' ')";
    let reset = "plot.querySelector('.reset').classList.contains('hidden')";
    let before = browser.value(ticks);
    assert_eq!(browser.value(reset), json!(true));
    browser.drag((x + width * 0.2, y + height * 0.1), (x + width * 0.4, y + height * 0.6));
    browser.until("!plot.querySelector('.reset').classList.contains('hidden')");
    let zoomed = browser.value(ticks);
    assert_ne!(zoomed, before);
    assert!(!zoomed.as_str().unwrap().contains("60"), "12 to 24 s of 60 s: {zoomed}");
    browser.value("plot.querySelector('.reset').click()");
    assert_eq!(browser.value(ticks), before);
    assert_eq!(browser.value(reset), json!(true));
    browser.value("plot.querySelector('.spread').click()");
    assert_ne!(browser.value(ticks), before, "a linear axis has other ticks");
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
}

#[test]
fn pointing_at_a_plot_tells_the_values_of_all_peers() {
    let folder = tempfile::tempdir().unwrap();
    let (mut browser, _) = opened(folder.path());
    let [x, y, width, height] = at_timeline(&mut browser);
    browser.point((x + width / 3.0, y + height / 2.0));
    browser.until("!plot.querySelector('.tip').classList.contains('hidden')");
    let told = browser.value("plot.querySelector('.tip').textContent");
    let told = told.as_str().unwrap();
    for peer in ["fairway", "traefik", HOSTILE, "seconds"] {
        assert!(told.contains(peer), "{peer}: {told}");
    }
}

#[test]
fn it_is_dark_where_the_reader_wishes_it() {
    let folder = tempfile::tempdir().unwrap();
    let (mut browser, file) = opened(folder.path());
    keep("report.html", &fs::read(file).unwrap());
    let paper = "getComputedStyle(document.body).backgroundColor";
    assert_eq!(browser.value(paper), json!("rgb(255, 255, 255)"));
    keep("report-light.png", &browser.picture());
    at_timeline(&mut browser);
    keep("report-light-timeline.png", &browser.picture());
    browser.prefer("dark");
    browser.until(&format!("{paper} === 'rgb(20, 23, 28)'"));
    keep("report-dark-timeline.png", &browser.picture());
    browser.value("document.getElementById('theme').click()");
    assert_eq!(browser.value(paper), json!("rgb(255, 255, 255)"));
    browser.value("document.getElementById('theme').click()");
    assert_eq!(browser.value(paper), json!("rgb(20, 23, 28)"));
    browser.value("window.scrollTo(0, 0)");
    keep("report-dark.png", &browser.picture());
}

#[test]
fn it_fits_a_phone() {
    let folder = tempfile::tempdir().unwrap();
    let (mut browser, file) = opened(folder.path());
    browser.size(390, 844, true);
    browser.open(&file);
    at_timeline(&mut browser);
    assert_eq!(browser.value("document.documentElement.scrollWidth"), json!(390));
    let wide = "[...document.querySelectorAll('.live svg, .static, .bars')].filter((svg) => svg.getBoundingClientRect().right > 391).length";
    assert_eq!(browser.value(wide), json!(0));
    keep("report-phone-timeline.png", &browser.picture());
    browser.value("window.scrollTo(0, 0)");
    keep("report-phone.png", &browser.picture());
}

#[test]
fn the_ratios_fit_a_window_of_1200_pixels_and_paper() {
    let folder = tempfile::tempdir().unwrap();
    let mut results = results(SMALL);
    for ratio in results.runs.iter_mut().flat_map(|run| &mut run.ratios) {
        // The longest text in each column, as a long run has it.
        (ratio.pairs, ratio.set_aside) = (23, 1);
        let median_of_all = Some(ratio.median);
        ratio.grounds = Grounds { distance: Some(Distance::TwoCores), coverage: Some(0.965), median_of_all };
    }
    let file = fairway_lab_report::write(&[results], folder.path()).unwrap();
    let mut browser = Browser::start();
    browser.size(1200, 900, false);
    browser.prefer("light");
    browser.open(&file);
    let text = browser.value("document.querySelector('.ratios').textContent");
    let text = text.as_str().unwrap();
    for long in ["(96.5%)", "no difference: interval includes 1", "23 of 24", HOSTILE] {
        assert!(text.contains(long), "{long}: {text}");
    }
    assert_eq!(browser.value("document.documentElement.scrollWidth"), json!(1200));
    assert_eq!(browser.value(CUT_OFF), json!([]));
    browser.value("document.querySelector('.ratios').scrollIntoView()");
    keep("report-ratios.png", &browser.picture());
    // A4 without its margins.
    browser.size(700, 1000, false);
    browser.call("Emulation.setEmulatedMedia", &json!({ "media": "print" }));
    assert_eq!(browser.value(CUT_OFF), json!([]));
}

#[test]
fn it_can_be_printed_with_everything_open_and_every_peer_in_the_plots() {
    let folder = tempfile::tempdir().unwrap();
    let (mut browser, _) = opened(folder.path());
    at_timeline(&mut browser);
    browser.value("plot.querySelector('.key[data-peer=\"envoy\"]').click()");
    let paper = browser.paper();
    fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join("report.pdf"), &paper).unwrap();
    assert!(paper.starts_with(b"%PDF"));
    let pages = String::from_utf8_lossy(&paper).matches("/Type /Page\n").count();
    assert!(pages >= 8, "{pages} pages");
    browser.call("Emulation.setEmulatedMedia", &json!({ "media": "print" }));
    let printed = "getComputedStyle(plot.querySelector('svg.static')).display + getComputedStyle(plot.querySelector('.live')).display";
    assert_eq!(browser.value(printed), json!("blocknone"));
    assert_eq!(
        browser.value("plot.querySelectorAll('svg.static [data-peer=\"envoy\"] path').length"),
        json!(1)
    );
}

#[test]
fn without_scripts_there_are_drawings_of_every_plot() {
    let folder = tempfile::tempdir().unwrap();
    let (mut browser, file) = opened(folder.path());
    browser.call("Emulation.setScriptExecutionDisabled", &json!({ "value": true }));
    browser.open(&file);
    let shown = "[...document.querySelectorAll('.plot svg.static')].filter((svg) => svg.getBoundingClientRect().height > 100).length";
    let plots = browser.value("document.querySelectorAll('.plot').length");
    assert_eq!(browser.value(shown), plots);
    assert_eq!(browser.value("document.querySelectorAll('.live svg').length"), json!(0));
}
