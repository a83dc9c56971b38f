//! What counts as a replacement of a status by another writer, and the consequences: [`ObjectSchedule`] alone, event by event.

use std::sync::Arc;
use std::time::Duration;

use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use imbl::OrdMap;
use tokio::time::Instant;

use crate::status::objects::{JobResult, ObjectSchedule};
use crate::status::replacements::LastWritten;
use crate::status::statement::{ComparableStatus, FieldNames};

const HOUR: Duration = Duration::from_secs(60 * 60);

/// The desired status of the route.
#[derive(Debug, PartialEq)]
struct Word {
    word: &'static str,
    /// The version of the route that it is made from.
    version: u32,
}

impl ComparableStatus for Word {
    fn is_same_as(&self, before: &Self) -> bool {
        self.word == before.word
    }
}

/// The schedule with one route, and the time.
struct Fixture {
    objects: ObjectSchedule<Word>,
    now: Instant,
    version: u32,
}

impl Fixture {
    /// Without the route.
    fn new() -> Self {
        Self { objects: ObjectSchedule::new(), now: Instant::now(), version: 0 }
    }

    /// With a route whose status "good" this process has written.
    fn written() -> Self {
        let mut fixture = Self::new();
        fixture.notice("good");
        fixture.write();
        fixture
    }

    /// The route has a new version and this desired status.
    fn notice(&mut self, word: &'static str) {
        self.version += 1;
        let status = Arc::new(Word { word, version: self.version });
        self.objects.update_desired(&OrdMap::unit(route(), status), self.now);
    }

    /// Starts the due job; returns what is known about the status.
    fn begin_write(&mut self) -> LastWritten {
        let (object, _) = self.objects.take_due(self.now).unwrap();
        self.objects.last_written(&object)
    }

    fn done(&mut self, result: JobResult) {
        self.objects.record_result(&route(), result, self.now);
    }

    /// Performs the due write.
    fn write(&mut self) {
        self.now = self.now.max(self.objects.next_due().unwrap());
        assert_eq!(self.begin_write(), LastWritten::Unknown);
        self.done(JobResult::Written(FieldNames::new()));
    }

    /// Another writer replaces the status. Returns for how many seconds it is not written.
    fn replace(&mut self) -> u64 {
        self.notice("good");
        assert!(self.begin_write().is_replaced(&fields(&["conditions"])));
        self.done(JobResult::Replaced(Some("rival".into())));
        (self.objects.next_due().unwrap() - self.now).as_secs()
    }

    fn contested(&mut self) -> Vec<String> {
        self.objects.conflict_diagnostics(self.now).iter().map(ToString::to_string).collect()
    }
}

fn route() -> ObjectRef {
    ObjectRef::new(Kind::HttpRoute, ObjectKey::new("shop", "web"))
}

fn fields(names: &[&str]) -> FieldNames {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_replaced_status_pauses_longer_each_time_and_names_the_other_writer() {
    let mut fixture = Fixture::written();
    let mut pauses = Vec::new();
    for times in 1..=12 {
        pauses.push(fixture.replace());
        assert_eq!(fixture.contested().len(), usize::from(times >= 3), "{times}");
        let due = fixture.objects.next_due();
        fixture.notice("good");
        fixture.notice("better");
        fixture.notice("good");
        assert_eq!(fixture.objects.next_due(), due, "whatever comes meanwhile");
        fixture.write();
    }
    assert_eq!((&pauses[..4], pauses[11]), (&[2, 4, 8, 16][..], 1800));
    let message = fixture.contested().remove(0);
    assert!(
        message.starts_with(
            "warning[contested-status]: HTTPRoute shop/web status: field manager \"rival\" keeps replacing"
        ),
        "{message}"
    );
}

#[test]
fn a_later_write_of_this_process_is_no_replacement() {
    let mut fixture = Fixture::written();
    fixture.notice("better");
    assert_eq!(fixture.begin_write(), LastWritten::Unknown, "what it wrote is not what it should say");
    fixture.notice("best");
    fixture.done(JobResult::Written(FieldNames::new()));
    assert_eq!(fixture.begin_write(), LastWritten::Unknown, "nor is what was written by now");
    fixture.notice("best");
    fixture.done(JobResult::Written(FieldNames::new()));
    assert_eq!(
        fixture.begin_write(),
        LastWritten::Own(FieldNames::new()),
        "its own write was seen before the answer"
    );
    fixture.done(JobResult::NoWrite);
    assert_eq!((fixture.objects.next_due(), fixture.contested().len()), (None, 0));
}

#[test]
fn fields_dropped_by_the_api_server_are_no_replacement() {
    let mut fixture = Fixture::new();
    fixture.notice("good");
    fixture.begin_write();
    fixture.done(JobResult::Written(fields(&["supportedFeatures"])));
    fixture.notice("good");
    let before = fixture.begin_write();
    assert!(!before.is_replaced(&fields(&["supportedFeatures"])));
    assert!(before.is_replaced(&fields(&["conditions", "supportedFeatures"])));
}

#[test]
fn after_an_hour_without_replacements_the_other_writer_is_forgotten() {
    let mut fixture = Fixture::written();
    for _ in 0..5 {
        fixture.replace();
        fixture.write();
    }
    assert_eq!(fixture.contested().len(), 1);
    fixture.now += HOUR;
    assert!(fixture.contested().is_empty());
    assert_eq!(fixture.replace(), 2, "as if it were the first time");
}

#[test]
fn a_new_leader_has_no_conflicts() {
    let mut fixture = Fixture::written();
    for _ in 0..3 {
        fixture.replace();
        fixture.write();
    }
    fixture.objects.forget_conflicts();
    fixture.objects.schedule_all(fixture.now);
    assert_eq!(fixture.begin_write(), LastWritten::Unknown, "the leader before may have written it");
    fixture.done(JobResult::Written(FieldNames::new()));
    assert!(fixture.contested().is_empty());
    assert_eq!(fixture.replace(), 2);
}

#[test]
fn a_deleted_object_is_forgotten_with_its_conflicts() {
    let mut fixture = Fixture::written();
    for _ in 0..3 {
        fixture.replace();
        fixture.write();
    }
    fixture.replace();
    fixture.objects.update_desired(&OrdMap::new(), fixture.now);
    assert!(fixture.contested().is_empty());
    assert_eq!(fixture.objects.next_due(), None);
    fixture.notice("good");
    fixture.write();
    assert_eq!(fixture.replace(), 2);
}
