//! The objects that a server has, their versions, and every change of them so far.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

/// The labels of an object.
pub(super) type Labels = BTreeMap<String, String>;

/// Which object. Its group is left out: no two resources of a test have the same name, but for Events, whose two APIs have
/// the same objects in a cluster, too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ObjectPath {
    pub(super) resource: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// The objects that a list or a watch is about.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    pub(super) resource: String,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    /// Without a value any is good.
    pub(super) labels: Vec<(String, Option<String>)>,
}

#[derive(Clone, Debug)]
struct Stored {
    text: Arc<str>,
    labels: Arc<Labels>,
}

/// A change of an object.
pub(super) struct Event {
    version: u64,
    path: ObjectPath,
    /// The labels before the change; `None` for a new object.
    before: Option<Arc<Labels>>,
    /// The labels after the change; `None` for a deleted object.
    after: Option<Arc<Labels>>,
    object: Arc<str>,
}

pub(super) struct Objects {
    all: BTreeMap<ObjectPath, Stored>,
    version: u64,
    /// By their versions.
    history: Vec<Event>,
    /// Watches from before this version learn that it is too old.
    oldest: u64,
}

impl ObjectPath {
    pub(super) fn new(resource: &str, namespace: &str, name: &str) -> Self {
        Self { resource: resource.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// The path of an object, from its own namespace and name.
    pub(super) fn from_object(resource: &str, object: &Value) -> Self {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        Self::new(resource, text("namespace"), text("name"))
    }
}

impl Selection {
    /// All objects of a resource.
    pub(super) fn all(resource: &str) -> Self {
        Self { resource: resource.to_owned(), namespace: None, name: None, labels: Vec::new() }
    }

    pub(super) fn covers(&self, path: &ObjectPath, labels: &Labels) -> bool {
        let has = |(name, value): &(String, Option<String>)| {
            labels.get(name).is_some_and(|found| value.as_ref().is_none_or(|value| value == found))
        };
        path.resource == self.resource
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == path.namespace)
            && self.name.as_ref().is_none_or(|name| *name == path.name)
            && self.labels.iter().all(has)
    }
}

impl Objects {
    /// An empty store at version 1; version 0 has a special meaning in requests.
    pub(super) const fn new() -> Self {
        Self { all: BTreeMap::new(), version: 1, history: Vec::new(), oldest: 0 }
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn text(&self, path: &ObjectPath) -> Option<&Arc<str>> {
        self.all.get(path).map(|stored| &stored.text)
    }

    pub(super) fn value(&self, path: &ObjectPath) -> Option<Value> {
        self.text(path).map(|text| read(text))
    }

    /// The texts of the objects that are selected, by namespace and name.
    pub(super) fn selected<'a>(&'a self, selection: &'a Selection) -> impl Iterator<Item = &'a Arc<str>> {
        let first = ObjectPath::new(&selection.resource, "", "");
        let of_resource =
            self.all.range(first..).take_while(|(place, _)| place.resource == selection.resource);
        let selected = of_resource.filter(|(place, stored)| selection.covers(place, &stored.labels));
        selected.map(|(_, stored)| &stored.text)
    }

    /// Stores an object with the next version and, unless it has one, with the uid of the one before or a new one. Gives its
    /// text.
    pub(super) fn store(&mut self, path: ObjectPath, mut object: Value) -> Arc<str> {
        self.version += 1;
        let before = self.all.get(&path);
        let metadata = &mut object["metadata"];
        metadata["resourceVersion"] = json!(self.version.to_string());
        if metadata["uid"].is_null() {
            metadata["uid"] = match before {
                Some(stored) => read(&stored.text)["metadata"]["uid"].clone(),
                None => json!(format!("u{}", self.version)),
            };
        }
        let labels = metadata["labels"].as_object().into_iter().flatten();
        let labels: Labels = labels
            .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
            .collect();
        let (text, labels) = (Arc::<str>::from(object.to_string()), Arc::new(labels));
        self.history.push(Event {
            version: self.version,
            path: path.clone(),
            before: before.map(|stored| stored.labels.clone()),
            after: Some(labels.clone()),
            object: text.clone(),
        });
        self.all.insert(path, Stored { text: text.clone(), labels });
        text
    }

    /// Gives the text of the object that was there, with the version of its end.
    pub(super) fn delete(&mut self, path: &ObjectPath) -> Option<Arc<str>> {
        let stored = self.all.remove(path)?;
        self.version += 1;
        let mut gone = read(&stored.text);
        gone["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let object = Arc::<str>::from(gone.to_string());
        self.history.push(Event {
            version: self.version,
            path: path.clone(),
            before: Some(stored.labels),
            after: None,
            object: object.clone(),
        });
        Some(object)
    }

    /// Expires the history: all earlier versions are too old from now on.
    pub(super) fn forget_history(&mut self) {
        self.version += 1;
        self.oldest = self.version;
    }

    pub(super) fn is_too_old(&self, version: u64) -> bool {
        version < self.oldest
    }

    /// The index of the first change after a version.
    pub(super) fn after(&self, version: u64) -> usize {
        self.history.partition_point(|event| event.version <= version)
    }

    pub(super) fn event(&self, at: usize) -> Option<&Event> {
        self.history.get(at)
    }
}

impl Event {
    /// The watch event for a change; `None` if nothing selected changed. An object that leaves the selection is reported as
    /// deleted.
    pub(super) fn line(&self, selection: &Selection) -> Option<String> {
        let covers = |labels: &Option<Arc<Labels>>| {
            labels.as_ref().is_some_and(|labels| selection.covers(&self.path, labels))
        };
        let change = match (covers(&self.before), covers(&self.after)) {
            (false, false) => return None,
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
        };
        Some(line(change, &self.object))
    }
}

/// A line of a watch.
pub(super) fn line(change: &str, object: &str) -> String {
    format!("{{\"type\":\"{change}\",\"object\":{object}}}\n")
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).expect("it was written here")
}
