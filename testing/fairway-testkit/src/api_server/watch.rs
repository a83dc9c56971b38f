//! A watch: the initial objects and later changes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;
use tokio::sync::watch as channel;

use super::faults::{Listing, Network};
use super::objects::{Selection, line};
use super::request::{ApiRequest, Target};
use super::state::ServerState;

/// The lines of a watch, one after the other.
pub struct Watch {
    state: Arc<Mutex<ServerState>>,
    /// Rings after every change of the state.
    bell: channel::Receiver<u64>,
    selection: Selection,
    number: u64,
    first: VecDeque<First>,
    /// The watch's position in the history.
    at: usize,
    /// The watch was open while the connection was stalled.
    is_lost: bool,
}

/// An initial line of a watch.
enum First {
    /// An existing object.
    Object(Arc<str>),
    Line(String),
}

/// The next action of a watch.
pub(super) enum WatchStep {
    Line(String),
    /// Nothing has changed.
    Waits,
    Closed,
}

impl Watch {
    /// Starts at the server's current state.
    pub(super) fn start(
        (shared, bell): (Arc<Mutex<ServerState>>, channel::Receiver<u64>),
        request: &ApiRequest,
        target: &Target,
        state: &mut ServerState,
    ) -> Self {
        state.watches.begun += 1;
        let selection = request.selection(target);
        let objects = &state.objects;
        let mut first = VecDeque::new();
        let from = if request.is_true("sendInitialEvents") {
            first.extend(objects.selected(&selection).cloned().map(First::Object));
            let annotations = json!({ "k8s.io/initial-events-end": "true" });
            let metadata =
                json!({ "resourceVersion": objects.version().to_string(), "annotations": annotations });
            let end = json!({ "kind": "X", "apiVersion": "v1", "metadata": metadata });
            if state.lists != Listing::NeverComplete {
                first.push_back(First::Line(line("BOOKMARK", &end.to_string())));
            }
            objects.version()
        } else {
            request.number("resourceVersion").unwrap_or(objects.version())
        };
        if objects.is_too_old(from) {
            let gone = json!({
                "kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"
            });
            first.push_back(First::Line(line("ERROR", &gone.to_string())));
        }
        Self {
            state: shared,
            bell,
            selection,
            number: state.watches.begun,
            first,
            at: objects.after(from),
            is_lost: false,
        }
    }

    /// The next line; `None` once the watch is closed.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            match self.step() {
                WatchStep::Line(line) => return Some(line),
                WatchStep::Closed => return None,
                WatchStep::Waits => self.wait_for_change().await,
            }
        }
    }

    /// Waits for a change of the state since the last step; forever once the server has stopped.
    pub(super) async fn wait_for_change(&mut self) {
        if self.bell.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    pub(super) fn step(&mut self) -> WatchStep {
        match self.first.pop_front() {
            Some(First::Object(text)) => return WatchStep::Line(line("ADDED", &text)),
            Some(First::Line(line)) => return WatchStep::Line(line),
            None => {}
        }
        self.bell.borrow_and_update();
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if self.number <= state.watches.closed {
            return WatchStep::Closed;
        }
        // Events sent during the outage are lost, and so is the connection.
        self.is_lost |= state.network == Network::Silent;
        if self.is_lost || self.number <= state.watches.stalled {
            return WatchStep::Waits;
        }
        while let Some(event) = state.objects.event(self.at) {
            self.at += 1;
            if let Some(line) = event.line(&self.selection) {
                return WatchStep::Line(line);
            }
        }
        WatchStep::Waits
    }
}
