//! One manifest file: the objects it defines now, compared with those it defined before.

use std::collections::btree_map::Entry;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use fairway_model::{Origin, SourceLine};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::manifest::{self as manifest, ReadDocument, Section};
use fairway_objects::object::{DocumentSource, Object, ObjectRef};

/// What is remembered of a file: enough to re-read only changed documents. There may be 100,000 files, so rarely used state is
/// behind a pointer.
#[derive(Debug, Default)]
pub struct ManifestFile {
    documents: Box<[Document]>,
    trouble: Option<Box<FileProblems>>,
}

/// Problems of a file as a whole, and their consequences.
#[derive(Debug, Default)]
struct FileProblems {
    /// Objects that a document defined before it became unreadable.
    kept_objects: BTreeSet<ObjectRef>,
    /// Objects that could never be read, whose targets are closed.
    closed: BTreeSet<ObjectRef>,
    refusal: Option<Diagnostic>,
    doubles: Vec<Diagnostic>,
}

/// The result of reading a file again.
#[derive(Debug, Default)]
pub struct FileUpdate {
    /// Objects that are new or in a changed document, each once.
    pub set: BTreeMap<ObjectRef, (Object, DocumentSource)>,
    /// Stand-ins for objects that could never be read, as far as they are new.
    pub stand_ins: BTreeMap<ObjectRef, (Object, DocumentSource)>,
    /// Objects that the file no longer defines.
    pub removed: BTreeSet<ObjectRef>,
}

#[derive(Debug)]
struct Document {
    identity: DocumentIdentity,
    objects: Box<[ObjectRef]>,
    flaws: Option<Box<DocumentFlaws>>,
}

/// What is wrong with a document.
#[derive(Debug)]
struct DocumentFlaws {
    /// Whether it is not YAML: it is unknown which objects it defines. Otherwise only single objects may be broken.
    is_unreadable: bool,
    broken: Vec<ObjectRef>,
    /// The broken objects that have a stand-in.
    stand_ins: Vec<ObjectRef>,
    diagnostics: Vec<Diagnostic>,
}

/// What reading a document gave.
struct DocumentObjects {
    objects: Vec<(Object, DocumentSource)>,
    stand_ins: Vec<(Object, DocumentSource)>,
}

/// An unchanged document at the same line is not read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct DocumentIdentity {
    hash: u64,
    line: u32,
}

impl ManifestFile {
    /// Reads the file's new text.
    pub fn update(&mut self, file: &Arc<str>, text: &str) -> FileUpdate {
        let before = self.references();
        let written = self.documents.iter().flat_map(|it| it.objects.iter().chain(it.stand_ins()));
        if written.clone().count() > written.collect::<BTreeSet<_>>().len() {
            // An object that is defined twice: which of the two is served may change, so both are read.
            self.forget_identities();
        }
        let known = std::mem::take(&mut self.documents).into_vec().into_iter();
        let mut known: HashMap<DocumentIdentity, Document> =
            known.map(|document| (document.identity, document)).collect();
        let mut update = FileUpdate::default();
        let (mut carried, mut documents) = (BTreeSet::new(), Vec::new());
        for section in manifest::sections(text) {
            let identity = DocumentIdentity::from_section(&section);
            let document = if let Some(document) = known.remove(&identity) {
                carried.extend(document.objects.iter().cloned());
                document
            } else {
                let (document, DocumentObjects { objects, stand_ins }) =
                    Document::read(&section, identity, file);
                for (reference, (object, source)) in document.objects.iter().zip(objects) {
                    if !carried.contains(reference) {
                        update.set.entry(reference.clone()).or_insert((object, source));
                    }
                }
                for (object, source) in stand_ins {
                    update.stand_ins.entry(object.reference()).or_insert((object, source));
                }
                document
            };
            documents.push(document);
        }
        self.documents = documents.into();
        let doubles = self.find_duplicates(file);
        let (kept, closed) = self.keep_last(&before);
        update.stand_ins.retain(|reference, _| closed.contains(reference));
        self.trouble = FileProblems { kept_objects: kept, closed, refusal: None, doubles }.boxed();
        let after = self.references();
        update.removed = before.difference(&after).cloned().collect();
        update
    }

    /// The file cannot be read; its objects stay.
    pub fn mark_unreadable(&mut self, diagnostic: Diagnostic) {
        self.trouble.get_or_insert_default().refusal = Some(diagnostic);
    }

    /// Forgets the known documents, so that the next update returns all objects.
    pub(crate) fn forget_identities(&mut self) {
        for document in self.documents.iter_mut() {
            document.identity = DocumentIdentity { hash: 0, line: 0 };
        }
    }

    /// The objects of the file.
    #[must_use]
    pub fn references(&self) -> BTreeSet<ObjectRef> {
        let listed = self.documents.iter().flat_map(|document| document.objects.iter());
        let kept_objects = self.trouble.iter().flat_map(|it| it.kept_objects.iter().chain(&it.closed));
        listed.chain(kept_objects).cloned().collect()
    }

    /// The diagnostics of the file.
    pub fn diagnostics(&self) -> impl Iterator<Item = &Diagnostic> {
        let of_all = self.trouble.iter().flat_map(|it| it.refusal.iter().chain(&it.doubles));
        of_all.chain(self.flaws().flat_map(|flaws| flaws.diagnostics.iter()))
    }

    fn flaws(&self) -> impl Iterator<Item = &DocumentFlaws> {
        self.documents.iter().filter_map(|document| document.flaws.as_deref())
    }

    fn readable_objects(&self) -> BTreeSet<ObjectRef> {
        self.documents.iter().flat_map(|document| document.objects.iter()).cloned().collect()
    }

    /// Diagnostics for objects that are defined twice.
    fn find_duplicates(&self, file: &Arc<str>) -> Vec<Diagnostic> {
        let (mut first, mut doubles) = (BTreeMap::new(), Vec::new());
        for document in &self.documents {
            for reference in &document.objects {
                match first.entry(reference) {
                    Entry::Vacant(place) => _ = place.insert(document.identity.line),
                    Entry::Occupied(winner) => {
                        let written = |line| SourceLine { file: file.clone(), line };
                        let (lost, won) = (written(document.identity.line), written(*winner.get()));
                        doubles.push(duplicate_diagnostic(reference, lost, &won));
                    }
                }
            }
        }
        doubles
    }

    /// The objects whose last state stays, and those that are closed. While a document is unreadable, every object that the file
    /// defined before and that no readable document defines now stays: it is unknown which of them the broken document defines. A
    /// stand-in stays until the object can be read; it never replaces a state that could be read.
    fn keep_last(&self, before: &BTreeSet<ObjectRef>) -> (BTreeSet<ObjectRef>, BTreeSet<ObjectRef>) {
        let unreadable = self.flaws().any(|flaws| flaws.is_unreadable);
        let broken: BTreeSet<_> = self.flaws().flat_map(|flaws| flaws.broken.iter()).cloned().collect();
        let readable = self.readable_objects();
        let stays = |reference: &&ObjectRef| {
            (unreadable || broken.contains(*reference)) && !readable.contains(*reference)
        };
        let none = BTreeSet::new();
        let closed = self.trouble.as_ref().map_or(&none, |it| &it.closed);
        let still_kept: BTreeSet<_> = before.difference(closed).filter(stays).cloned().collect();
        let stand_ins = self.documents.iter().flat_map(Document::stand_ins);
        let stand_ins = stand_ins.filter(|reference| !readable.contains(*reference));
        let closed = closed.iter().filter(stays).chain(stand_ins);
        let closed = closed.filter(|reference| !still_kept.contains(*reference)).cloned().collect();
        (still_kept, closed)
    }
}

impl FileProblems {
    /// Boxed, because most files have none.
    fn boxed(self) -> Option<Box<Self>> {
        let Self { kept_objects: kept, closed, refusal, doubles } = &self;
        let is_none = kept.is_empty() && closed.is_empty() && refusal.is_none() && doubles.is_empty();
        (!is_none).then(|| Box::new(self))
    }
}

impl DocumentFlaws {
    /// Boxed, because most documents have none.
    fn boxed(self) -> Option<Box<Self>> {
        let Self { is_unreadable, broken, stand_ins, diagnostics } = &self;
        let is_read = !is_unreadable && broken.is_empty() && stand_ins.is_empty();
        (!is_read || !diagnostics.is_empty()).then(|| Box::new(self))
    }
}

/// The diagnostic that the object at `lost` is ignored in favour of the one at `won`.
#[must_use]
pub fn duplicate_diagnostic(object: &ObjectRef, lost: SourceLine, won: &SourceLine) -> Diagnostic {
    let origin = Origin {
        source: Some(lost),
        ..Origin::object(object.kind.name(), &object.key.namespace, &object.key.name)
    };
    Diagnostic {
        severity: Severity::Error,
        origin,
        code: "duplicate-object",
        problem: format!("the same object is written in {}:{}", won.file, won.line),
        consequence:
            "that one is served (the first file by name, the first document in it), this one is ignored"
                .into(),
    }
}

impl DocumentIdentity {
    fn from_section(section: &Section<'_>) -> Self {
        let mut hasher = DefaultHasher::new();
        section.text.hash(&mut hasher);
        Self { hash: hasher.finish(), line: section.line }
    }
}

impl Document {
    fn read(section: &Section<'_>, identity: DocumentIdentity, file: &Arc<str>) -> (Self, DocumentObjects) {
        let mut is_unreadable = false;
        let ReadDocument { objects, broken, stand_ins, diagnostics } = match manifest::parse(section) {
            Ok(Some(root)) => manifest::read(&root, file),
            Ok(None) => ReadDocument::default(),
            Err(flaw) => {
                is_unreadable = true;
                let consequence = "the document is not read; what the file gave before stays";
                let because = (flaw.problem, consequence);
                let diagnostic = manifest::line_diagnostic(file, flaw.line, "not-yaml", because);
                ReadDocument { diagnostics: vec![diagnostic], ..ReadDocument::default() }
            }
        };
        let documents = DocumentObjects { objects, stand_ins };
        let flaws =
            DocumentFlaws { is_unreadable, broken, stand_ins: references(&documents.stand_ins), diagnostics };
        (Self { identity, objects: references(&documents.objects).into(), flaws: flaws.boxed() }, documents)
    }

    fn stand_ins(&self) -> impl Iterator<Item = &ObjectRef> + Clone {
        self.flaws.iter().flat_map(|flaws| flaws.stand_ins.iter())
    }
}

fn references(objects: &[(Object, DocumentSource)]) -> Vec<ObjectRef> {
    objects.iter().map(|(object, _)| object.reference()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str) -> String {
        format!("---\napiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n")
    }

    fn names(references: impl IntoIterator<Item = ObjectRef>) -> Vec<String> {
        references.into_iter().map(|reference| reference.key.name.to_string()).collect()
    }

    fn update(file: &mut ManifestFile, text: &str) -> (Vec<String>, Vec<String>) {
        let update = file.update(&"web.yaml".into(), text);
        (names(update.set.into_keys()), names(update.removed))
    }

    #[test]
    fn only_changed_documents_are_read_again() {
        let mut file = ManifestFile::default();
        let (a, b) = (service("a"), service("b"));
        assert_eq!(update(&mut file, &format!("{a}{b}")).0, ["a", "b"]);
        assert_eq!(update(&mut file, &format!("{a}{b}spec: {{}}\n")), (vec!["b".into()], vec![]));
        assert_eq!(update(&mut file, &a), (vec![], vec!["b".into()]));
    }

    #[test]
    fn an_unreadable_document_keeps_the_objects_of_the_file() {
        let mut file = ManifestFile::default();
        let (a, b, c) = (service("a"), service("b"), service("c"));
        update(&mut file, &format!("{a}{b}"));
        let (set, gone) = update(&mut file, &format!("{a}---\n{{half\n{c}"));
        assert_eq!((set, gone), (vec!["c".into()], vec![]));
        assert_eq!(names(file.references()), ["a", "b", "c"]);
        assert_eq!(file.diagnostics().count(), 1);
        assert_eq!(update(&mut file, &format!("{a}{c}")).1, ["b"]);
        assert_eq!(file.diagnostics().count(), 0);
    }

    #[test]
    fn the_first_of_two_documents_for_an_object_counts() {
        let mut file = ManifestFile::default();
        let (first, second) = (service("a"), format!("{}spec: {{type: ExternalName}}\n", service("a")));
        let name = Arc::from("web.yaml");
        let update = file.update(&name, &format!("{first}{second}"));
        assert_eq!(update.set.values().map(|(_, source)| source.line).collect::<Vec<_>>(), [2]);
        assert_eq!(file.diagnostics().map(|it| it.code).collect::<Vec<_>>(), ["duplicate-object"]);
        let update = file.update(&name, &second);
        assert_eq!(update.set.len(), 1);
        assert_eq!(file.diagnostics().count(), 0);
    }

    #[test]
    fn a_broken_object_keeps_only_its_own_last_state() {
        let mut file = ManifestFile::default();
        update(&mut file, &format!("{}{}", service("a"), service("b")));
        let (_, gone) = update(&mut file, &format!("{}spec: 5\n", service("a")));
        assert_eq!(gone, ["b"]);
        assert_eq!(names(file.references()), ["a"]);
    }

    fn policy(name: &str, requests: &str) -> String {
        let head = "---\napiVersion: fairway.dev/v1alpha1\nkind: SecurityPolicy\nmetadata:\n  name: ";
        format!("{head}{name}\nspec: {{rateLimits: [{{requests: {requests}}}]}}\n")
    }

    /// The names of objects that are set, of stand-ins, and of removed objects.
    fn with_stand_ins(file: &mut ManifestFile, text: &str) -> (Vec<String>, Vec<String>, Vec<String>) {
        let update = file.update(&"policies.yaml".into(), text);
        (names(update.set.into_keys()), names(update.stand_ins.into_keys()), names(update.removed))
    }

    #[test]
    fn an_unreadable_policy_has_a_stand_in_until_it_can_be_read() {
        let mut file = ManifestFile::default();
        let broken = policy("a", "many");
        let a = || vec!["a".to_owned()];
        assert_eq!(with_stand_ins(&mut file, &broken), (vec![], a(), vec![]));
        assert_eq!(names(file.references()), ["a"]);
        assert_eq!(with_stand_ins(&mut file, &broken), (vec![], vec![], vec![]), "nothing changed");
        assert_eq!(with_stand_ins(&mut file, &policy("a", "more")), (vec![], a(), vec![]));
        assert_eq!(with_stand_ins(&mut file, "{half"), (vec![], vec![], vec![]), "it stays closed");
        assert_eq!(with_stand_ins(&mut file, &policy("a", "5")), (a(), vec![], vec![]));
        assert_eq!(with_stand_ins(&mut file, ""), (vec![], vec![], a()));
        assert_eq!(with_stand_ins(&mut file, &broken), (vec![], a(), vec![]));
        assert_eq!(with_stand_ins(&mut file, ""), (vec![], vec![], a()));
    }

    #[test]
    fn a_stand_in_never_replaces_an_object_that_was_read() {
        let mut file = ManifestFile::default();
        let (good, broken) = (policy("a", "5"), policy("a", "many"));
        with_stand_ins(&mut file, &good);
        assert_eq!(with_stand_ins(&mut file, &broken), (vec![], vec![], vec![]));
        assert_eq!(with_stand_ins(&mut file, &format!("{}{broken}", service("b"))).1, Vec::<String>::new());
        assert_eq!(names(file.references()), ["b", "a"]);
        file.forget_identities();
        assert_eq!(with_stand_ins(&mut file, &broken).1, Vec::<String>::new());
        let mut file = ManifestFile::default();
        let (set, stand_ins, _) = with_stand_ins(&mut file, &format!("{broken}{good}"));
        assert_eq!((set, stand_ins), (vec!["a".to_owned()], vec![]));
    }
}
