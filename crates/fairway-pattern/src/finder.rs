//! Finds capture groups for rewrites.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use crate::clauses::read;
use crate::cost::Cost;
use crate::engine::{Engine, Slots};
use crate::lower;
use crate::plain::{Plain, Split};
use crate::refusal::Refusal;
use crate::shared::PatternCache;
use crate::way::{Anchor, CompiledClause};

/// Step limit of a search for captures.
pub(crate) const MAX_ENGINE_STEPS: u64 = 600_000;

static SHARED: LazyLock<PatternCache<Finder>> =
    LazyLock::new(|| PatternCache::new(|finder: &Finder| finder.cost().memory));

/// A pattern whose capture groups a rewrite uses.
#[derive(Clone, Debug)]
pub struct Finder {
    plain: Option<Plain>,
    ways: Box<[(Option<CompiledClause>, Engine)]>,
    /// Work of parsing it.
    work: u64,
}

/// Buffer for group positions. Most patterns do not need the engine, so it is zeroed only when the engine is used.
#[derive(Clone, Debug, Default)]
pub struct GroupBuffer(Option<Slots>);

/// Positions of the groups of a match.
#[derive(Clone, Copy, Debug)]
pub struct GroupMatches<'b>(GroupSource<'b>);

#[derive(Clone, Copy, Debug)]
enum GroupSource<'b> {
    Plain(Split),
    Slots(&'b Slots),
}

impl GroupMatches<'_> {
    /// The range of group 0 to 9, if it matched.
    #[inline]
    #[must_use]
    pub fn group(&self, number: usize) -> Option<Range<usize>> {
        match self.0 {
            GroupSource::Plain(split) => split.group(number),
            GroupSource::Slots(slots) => {
                let slot = |at: usize| slots.get(at).copied().flatten().map(|place| place.get());
                Some(slot(2 * number)?..slot(2 * number + 1)?)
            }
        }
    }
}

impl Finder {
    /// Compiles `text` as used by nginx's `rewrite` after `^text` has matched: anchored at the start, or anywhere if
    /// it has several alternatives.
    ///
    /// # Errors
    /// Why it is unusable.
    pub fn new(text: &str, ignore_case: bool) -> Result<Self, Refusal> {
        let (clauses, work) = read(text, ignore_case)?;
        let ways = clauses.iter().map(|clause| {
            let engine = Engine::new(&match &clause.branches[..] {
                [only] => lower::anchored(only),
                several => lower::anywhere(several),
            })?;
            let way = (!clause.guards.is_empty())
                .then(|| CompiledClause::new(clause, Anchor::Start))
                .transpose()?;
            Ok((way, engine))
        });
        let plain = Plain::parse(text, ignore_case);
        let finder = Self { plain, ways: ways.collect::<Result<_, Refusal>>()?, work };
        let steps = finder.cost().steps;
        if steps > MAX_ENGINE_STEPS {
            let cost = format!("{MAX_ENGINE_STEPS} steps to find its captures in a path of 8 KiB: {steps}");
            return Err(Refusal::exceeds(cost));
        }
        Ok(finder)
    }

    /// As [`Self::new`], but returns a shared result while it is or recently was in use.
    ///
    /// # Errors
    /// Why it is unusable.
    pub fn shared(text: &str, ignore_case: bool) -> Result<Arc<Self>, Refusal> {
        SHARED.get_or_compile((text.into(), Anchor::Start, ignore_case), || Self::new(text, ignore_case))
    }

    /// The groups of a match in `text`. Allocates nothing once the thread is warm.
    #[inline]
    #[must_use]
    pub fn find<'b>(&self, text: &[u8], buffer: &'b mut GroupBuffer) -> Option<GroupMatches<'b>> {
        match self.plain.as_ref().and_then(|plain| plain.find(text)) {
            Some(found) => found.map(|split| GroupMatches(GroupSource::Plain(split))),
            None => self.search(text, buffer.0.insert(Slots::default())),
        }
    }

    fn search<'b>(&self, text: &[u8], slots: &'b mut Slots) -> Option<GroupMatches<'b>> {
        let mut ways = self.ways.iter().filter(|(way, _)| way.as_ref().is_none_or(|way| way.is_match(text)));
        ways.any(|(_, engine)| engine.find(text, slots)).then_some(GroupMatches(GroupSource::Slots(slots)))
    }

    /// What it costs.
    #[must_use]
    pub fn cost(&self) -> Cost {
        let guards =
            || self.ways.iter().filter_map(|(way, _)| way.as_ref()).flat_map(CompiledClause::automata);
        let engines = || self.ways.iter().map(|(_, engine)| engine);
        let (mut memory, mut work) = (0, self.work);
        guards().for_each(|it| (memory, work) = (memory + it.memory() as u64, work + it.work));
        engines().for_each(|it| (memory, work) = (memory + it.memory() as u64, work + it.work));
        let steps = guards().map(|it| it.max_read as u64).sum::<u64>()
            + engines().map(|it| it.steps).max().unwrap_or_default();
        Cost { steps, memory, work }
    }
}
