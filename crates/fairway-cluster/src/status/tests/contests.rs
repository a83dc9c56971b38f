//! What counts as a replacement of a status by another writer, and what follows from it: [`Objects`] alone, event by event.

use std::sync::Arc;
use std::time::Duration;

use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use imbl::OrdMap;
use tokio::time::Instant;

use crate::status::objects::{Objects, Said};
use crate::status::replacements::Before;
use crate::status::statement::{Fields, Statement};

const HOUR: Duration = Duration::from_secs(60 * 60);

/// What the status of the route should say.
#[derive(Debug, PartialEq)]
struct Word {
    word: &'static str,
    /// The version of the route that it is made of.
    version: u32,
}

impl Statement for Word {
    fn repeats(&self, before: &Self) -> bool {
        self.word == before.word
    }
}

/// The statuses with one route, and the time.
struct Fixture {
    objects: Objects<Word>,
    now: Instant,
    version: u32,
}

impl Fixture {
    /// Without the route.
    fn new() -> Self {
        Self { objects: Objects::new(), now: Instant::now(), version: 0 }
    }

    /// With a route of which this process has written that it is good.
    fn written() -> Self {
        let mut fixture = Self::new();
        fixture.notice("good");
        fixture.write();
        fixture
    }

    /// The route has another version, and its status should say this.
    fn notice(&mut self, word: &'static str) {
        self.version += 1;
        let status = Arc::new(Word { word, version: self.version });
        self.objects.want(&OrdMap::unit(route(), status), self.now);
    }

    /// Begins the job that is due; what is known of the status before.
    fn begin(&mut self) -> Before {
        let (object, _) = self.objects.take(self.now).unwrap();
        self.objects.before(&object)
    }

    fn done(&mut self, said: Said) {
        self.objects.done(&route(), said, self.now);
    }

    /// Writes once that is due.
    fn write(&mut self) {
        self.now = self.now.max(self.objects.next_due().unwrap());
        assert_eq!(self.begin(), Before::Unknown);
        self.done(Said::Written(Fields::new()));
    }

    /// Another writer replaces what was written. Gives for how many seconds the status is left alone.
    fn replace(&mut self) -> u64 {
        self.notice("good");
        assert!(self.begin().is_replaced(&fields(&["conditions"])));
        self.done(Said::Replaced(Some("rival".into())));
        (self.objects.next_due().unwrap() - self.now).as_secs()
    }

    fn contested(&mut self) -> Vec<String> {
        self.objects.contested(self.now).iter().map(ToString::to_string).collect()
    }
}

fn route() -> ObjectRef {
    ObjectRef::new(Kind::HttpRoute, ObjectKey::new("shop", "web"))
}

fn fields(names: &[&str]) -> Fields {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_replaced_status_is_left_alone_for_longer_each_time_and_the_other_writer_is_named() {
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
    let said = fixture.contested().remove(0);
    assert!(
        said.starts_with(
            "warning[contested-status]: HTTPRoute shop/web status: field manager \"rival\" keeps replacing"
        ),
        "{said}"
    );
}

#[test]
fn what_this_process_says_later_is_no_replacement() {
    let mut fixture = Fixture::written();
    fixture.notice("better");
    assert_eq!(fixture.begin(), Before::Unknown, "what it wrote is not what it should say");
    fixture.notice("best");
    fixture.done(Said::Written(Fields::new()));
    assert_eq!(fixture.begin(), Before::Unknown, "nor is what was written by now");
    fixture.notice("best");
    fixture.done(Said::Written(Fields::new()));
    assert_eq!(fixture.begin(), Before::Own(Fields::new()), "its own write was seen before the answer");
    fixture.done(Said::Nothing);
    assert_eq!((fixture.objects.next_due(), fixture.contested().len()), (None, 0));
}

#[test]
fn fields_that_the_api_server_does_not_keep_are_no_replacement() {
    let mut fixture = Fixture::new();
    fixture.notice("good");
    fixture.begin();
    fixture.done(Said::Written(fields(&["supportedFeatures"])));
    fixture.notice("good");
    let before = fixture.begin();
    assert!(!before.is_replaced(&fields(&["supportedFeatures"])));
    assert!(before.is_replaced(&fields(&["conditions", "supportedFeatures"])));
}

#[test]
fn after_an_hour_of_peace_the_other_writer_is_forgotten() {
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
fn a_new_leader_is_at_peace_with_what_it_finds() {
    let mut fixture = Fixture::written();
    for _ in 0..3 {
        fixture.replace();
        fixture.write();
    }
    fixture.objects.forget_contests();
    fixture.objects.look_at_all(fixture.now);
    assert_eq!(fixture.begin(), Before::Unknown, "the leader before may have written it");
    fixture.done(Said::Written(Fields::new()));
    assert!(fixture.contested().is_empty());
    assert_eq!(fixture.replace(), 2);
}

#[test]
fn an_object_that_is_gone_is_forgotten_with_its_fights() {
    let mut fixture = Fixture::written();
    for _ in 0..3 {
        fixture.replace();
        fixture.write();
    }
    fixture.replace();
    fixture.objects.want(&OrdMap::new(), fixture.now);
    assert!(fixture.contested().is_empty());
    assert_eq!(fixture.objects.next_due(), None);
    fixture.notice("good");
    fixture.write();
    assert_eq!(fixture.replace(), 2);
}
