//! Where the groups of a pattern match, which is what a rewrite asks.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use crate::clauses::read;
use crate::cost::Cost;
use crate::engine::{Engine, Slots};
use crate::lower;
use crate::plain::{Plain, Split};
use crate::refusal::Refusal;
use crate::shared::Shared;
use crate::way::{Anchor, Way};

/// Upper bound of a search for captures, in steps.
pub(crate) const ENGINE_STEPS: u64 = 600_000;

static SHARED: LazyLock<Shared<Finder>> =
    LazyLock::new(|| Shared::new(|finder: &Finder| finder.cost().memory));

/// A pattern whose groups a rewrite asks for.
#[derive(Clone, Debug)]
pub struct Finder {
    plain: Option<Plain>,
    ways: Box<[(Option<Way>, Engine)]>,
    /// Of reading it.
    work: u64,
}

/// What the engine writes places to. Most patterns need no engine: nothing is zeroed before one is asked.
#[derive(Clone, Debug, Default)]
pub struct GroupBuffer(Option<Slots>);

/// Where the groups of a pattern matched.
#[derive(Clone, Copy, Debug)]
pub struct Found<'b>(Groups<'b>);

#[derive(Clone, Copy, Debug)]
enum Groups<'b> {
    Plain(Split),
    Slots(&'b Slots),
}

impl Found<'_> {
    /// Where group 0 to 9 matched, if it did.
    #[inline]
    #[must_use]
    pub fn group(&self, number: usize) -> Option<Range<usize>> {
        match self.0 {
            Groups::Plain(split) => split.group(number),
            Groups::Slots(slots) => {
                let slot = |at: usize| slots.get(at).copied().flatten().map(|place| place.get());
                Some(slot(2 * number)?..slot(2 * number + 1)?)
            }
        }
    }
}

impl Finder {
    /// Compiles `text` as nginx's `rewrite` finds it where `^text` has matched: at the start, or anywhere when it has
    /// several alternatives.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn new(text: &str, ignore_case: bool) -> Result<Self, Refusal> {
        let (clauses, work) = read(text, ignore_case)?;
        let ways = clauses.iter().map(|clause| {
            let engine = Engine::new(&match &clause.branches[..] {
                [only] => lower::anchored(only),
                several => lower::anywhere(several),
            })?;
            let way = (!clause.guards.is_empty()).then(|| Way::new(clause, Anchor::Start)).transpose()?;
            Ok((way, engine))
        });
        let plain = Plain::of(text, ignore_case);
        let finder = Self { plain, ways: ways.collect::<Result<_, Refusal>>()?, work };
        let steps = finder.cost().steps;
        if steps > ENGINE_STEPS {
            let what = format!("{ENGINE_STEPS} steps to find its captures in a path of 8 KiB: {steps}");
            return Err(Refusal::needs(what));
        }
        Ok(finder)
    }

    /// [`Self::new`], or what it gave while the result is in use somewhere, or was a moment ago.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn shared(text: &str, ignore_case: bool) -> Result<Arc<Self>, Refusal> {
        SHARED.get((text.into(), Anchor::Start, ignore_case), || Self::new(text, ignore_case))
    }

    /// Where the groups match in `text`, or `None` where the pattern does not. Allocates nothing once the thread is warm.
    #[inline]
    #[must_use]
    pub fn find<'b>(&self, text: &[u8], buffer: &'b mut GroupBuffer) -> Option<Found<'b>> {
        match self.plain.as_ref().and_then(|plain| plain.find(text)) {
            Some(found) => found.map(|split| Found(Groups::Plain(split))),
            None => self.search(text, buffer.0.insert(Slots::default())),
        }
    }

    fn search<'b>(&self, text: &[u8], slots: &'b mut Slots) -> Option<Found<'b>> {
        let mut ways = self.ways.iter().filter(|(way, _)| way.as_ref().is_none_or(|way| way.holds(text)));
        ways.any(|(_, engine)| engine.find(text, slots)).then_some(Found(Groups::Slots(slots)))
    }

    /// What it costs.
    #[must_use]
    pub fn cost(&self) -> Cost {
        let guards = || self.ways.iter().filter_map(|(way, _)| way.as_ref()).flat_map(Way::automata);
        let engines = || self.ways.iter().map(|(_, engine)| engine);
        let (mut memory, mut work) = (0, self.work);
        guards().for_each(|it| (memory, work) = (memory + it.memory() as u64, work + it.work));
        engines().for_each(|it| (memory, work) = (memory + it.memory() as u64, work + it.work));
        let steps = guards().map(|it| it.reads as u64).sum::<u64>()
            + engines().map(|it| it.steps).max().unwrap_or_default();
        Cost { steps, memory, work }
    }
}
