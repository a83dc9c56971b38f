//! A real browser for tests: headless Chromium, spoken to over pipes in the Chrome DevTools Protocol, with a profile of
//! its own. Waits for conditions inside the page and never sleeps. Needs no crate: a message is JSON and a zero byte.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Names under which distributions have it.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// How long a condition in a page may take, on a machine that does other things too.
const PATIENCE_MS: u32 = 60_000;

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    session: Option<String>,
    next: u64,
    /// What the page did by itself: requests, messages on the console, exceptions.
    pub events: Vec<Value>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts it.
    pub(crate) fn start() -> Self {
        let found = NAMES.iter().find(|name| {
            let paths = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&paths).any(|folder| folder.join(name).is_file())
        });
        let name = found.unwrap_or_else(|| {
            panic!("no Chromium ({NAMES:?}): the report cannot be tested; install it, on Debian: apt-get install chromium")
        });
        let profile = tempfile::tempdir().unwrap();
        // The protocol is on descriptors 3 and 4, which only a shell can place without unsafe code.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null", name])
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .args(["--disable-background-networking", "--hide-scrollbars", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut browser =
            Self { child, orders, answers, session: None, next: 1, events: Vec::new(), _profile: profile };
        let target = browser.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attached = browser
            .call("Target.attachToTarget", &json!({ "targetId": target["targetId"], "flatten": true }));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        browser
    }

    /// Gives an order and waits for its answer.
    pub(crate) fn call(&mut self, method: &str, parameters: &Value) -> Value {
        let id = self.next;
        self.next += 1;
        let mut order = json!({ "id": id, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            order["sessionId"] = json!(session);
        }
        let mut bytes = order.to_string().into_bytes();
        bytes.push(0);
        self.orders.as_mut().unwrap().write_all(&bytes).unwrap();
        loop {
            let message = self.message();
            if message["id"] == json!(id) {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    fn message(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.answers.read_until(0, &mut bytes).unwrap();
        assert_eq!(bytes.pop(), Some(0), "Chromium ended");
        serde_json::from_slice(&bytes).unwrap()
    }

    fn wait_for(&mut self, event: &str) {
        while !self.events.iter().any(|one| one["method"] == event) {
            let message = self.message();
            self.events.push(message);
        }
    }

    /// Sets the size of the window, as on a phone if so asked.
    pub(crate) fn size(&mut self, width: u32, height: u32, phone: bool) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone });
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
    }

    /// Light or dark, as the reader's system has it.
    pub(crate) fn prefer(&mut self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "media": "", "features": features }));
    }

    /// Opens a file and waits until it is there.
    pub(crate) fn open(&mut self, file: &Path) {
        self.events.clear();
        self.call("Page.navigate", &json!({ "url": format!("file://{}", file.display()) }));
        self.wait_for("Page.loadEventFired");
    }

    /// The value of an expression in the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", &parameters);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Waits until a condition holds in the page.
    pub(crate) fn until(&mut self, condition: &str) {
        let held = self.value(&format!(
            "new Promise((done) => {{ const end = performance.now() + {PATIENCE_MS}; \
             const look = () => ({condition}) ? done(true) : performance.now() > end ? done(false) : setTimeout(look, 20); \
             look(); }})"
        ));
        assert_eq!(held, json!(true), "it never came true: {condition}");
    }

    /// A movement of the mouse with its left button down from one place to the other.
    pub(crate) fn drag(&mut self, from: (f64, f64), to: (f64, f64)) {
        for (kind, (x, y), buttons) in [
            ("mouseMoved", from, 0),
            ("mousePressed", from, 1),
            ("mouseMoved", to, 1),
            ("mouseReleased", to, 0),
        ] {
            let button = if kind == "mouseMoved" && buttons == 0 { "none" } else { "left" };
            let event = json!({ "type": kind, "x": x, "y": y, "button": button, "buttons": buttons, "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", &event);
        }
    }

    /// Moves the mouse.
    pub(crate) fn point(&mut self, (x, y): (f64, f64)) {
        self.call("Input.dispatchMouseEvent", &json!({ "type": "mouseMoved", "x": x, "y": y }));
    }

    /// A picture of the window, PNG.
    pub(crate) fn picture(&mut self) -> Vec<u8> {
        let picture = self.call("Page.captureScreenshot", &json!({ "format": "png" }));
        STANDARD.decode(picture["data"].as_str().unwrap()).unwrap()
    }

    /// The page on paper, PDF.
    pub(crate) fn paper(&mut self) -> Vec<u8> {
        let paper =
            self.call("Page.printToPDF", &json!({ "printBackground": true, "preferCSSPageSize": true }));
        STANDARD.decode(paper["data"].as_str().unwrap()).unwrap()
    }

    /// What a page must not have: requests beyond its own file, messages on the console, exceptions.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let complaint = |event: &Value| {
            let parameters = &event["params"];
            match event["method"].as_str()? {
                "Network.requestWillBeSent" => {
                    let url = parameters["request"]["url"].as_str()?;
                    let own = parameters["type"] == "Document" && url.starts_with("file://");
                    (!own && !url.starts_with("data:")).then(|| format!("request for {url}"))
                }
                "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded" => {
                    Some(event.to_string())
                }
                _ => None,
            }
        };
        self.events.iter().filter_map(complaint).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It ends when nobody can give orders any more, and has then let go of its profile.
        self.orders = None;
        if std::thread::panicking() {
            _ = self.child.kill();
        }
        _ = self.child.wait();
    }
}
