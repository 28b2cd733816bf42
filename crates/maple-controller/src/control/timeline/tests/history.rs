//! Random histories against a naive oracle: the list of all looks, each with the network as it was.

use proptest::prelude::*;

use super::*;
use crate::control::timeline::segment_format::{MAGIC, entry_at};

/// A step of a history. What it does is chosen by the first number, and the last one chooses a damage.
type Step = (u8, u32, bool, u32);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec((0u8..12, 0u32..6, any::<bool>(), any::<u32>()), 1..60)
}

/// A look that was taken.
struct Seen {
    /// The time of the timeline's own clock.
    own: u64,
    network: NetworkThen,
    /// The file in which it is.
    number: u32,
    /// Whether it may be missing.
    is_lost: bool,
}

struct History {
    lab: Lab,
    seen: Vec<Seen>,
    /// The number of looks that are in files.
    written: usize,
}

impl History {
    fn look(&mut self, milliseconds: u64) {
        self.lab.after(milliseconds);
        // An entry that says that the look has been taken, whether something has changed or not.
        self.lab.rate();
        let own = self.lab.kept(|kept| kept.now);
        let number = self.lab.kept(|kept| kept.segments.all.back().map(|last| last.number)).expect("there is one");
        self.seen.push(Seen { own, network: self.lab.present(), number, is_lost: false });
    }

    fn write(&mut self) {
        self.lab.write();
        self.written = self.seen.len();
    }

    /// Ends the run at once: what is not written is lost. Then a file may be damaged, or go. The next run comes
    /// `later`.
    fn crash(mut self, later: u64, damage: Option<u32>) -> History {
        self.seen.iter_mut().skip(self.written).for_each(|seen| seen.is_lost = true);
        let mut names: Vec<PathBuf> = std::fs::read_dir(&self.lab.path)
            .expect("it is there")
            .map(|entry| entry.expect("it can be read").path())
            .collect();
        names.sort();
        if let Some(damage) = damage.filter(|_| !names.is_empty()) {
            let path = &names[damage as usize % names.len()];
            let mut bytes = std::fs::read(path).expect("it can be read");
            let place = (damage >> 8) as usize;
            let at = place % bytes.len().max(1);
            let ends = ends_of_entries(&bytes);
            match (damage >> 4) % 6 {
                0 | 1 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << (place % 8)),
                2 => bytes.truncate(at),
                // As if the disk had refused the rest.
                3 => bytes.truncate(ends.get(place % ends.len().max(1)).copied().unwrap_or_default()),
                4 => bytes.clear(),
                _ => std::fs::remove_file(path).expect("it is ours"),
            }
            if path.exists() {
                std::fs::write(path, bytes).expect("it is ours");
            }
            let name = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
            self.seen.iter_mut().filter(|seen| Some(seen.number) == name).for_each(|seen| seen.is_lost = true);
        }
        History { lab: self.lab.restarted(later), ..self }
    }

    fn step(mut self, (what, number, is_so, damage): Step) -> History {
        let location = at(1 + u64::from(number % 2), 2 + number);
        let write = match what {
            0 => switch(3, is_so),
            1 => port(at(1, 1), is_so, PortKind::Link(at(2, 1))),
            2 => port(location, is_so, PortKind::Edge),
            3 | 4 => host(number, is_so.then_some(location)),
            5 => {
                if is_so {
                    self.lab.away.insert(Dpid(1))
                } else {
                    self.lab.away.remove(&Dpid(1))
                };
                return self.looked(1000);
            }
            // Another segment begins.
            6 => {
                for _ in 0..3 * HOUR / 25_000 {
                    self.lab.wall += 25_000;
                    self.lab.passed += 25_000;
                    let (wall, passed) = (self.lab.wall, self.lab.passed);
                    self.lab.kept(|kept| kept.advance(Reading { wall, passed }));
                }
                return self.looked(1000);
            }
            7 => {
                let by = u64::from(number + 1) * 1_300_000;
                self.lab.wall = if is_so { self.lab.wall + by } else { self.lab.wall - by };
                return self.looked(1000);
            }
            8 => {
                let mut next = self.crash(u64::from(number) * 1_700_000, is_so.then_some(damage));
                next.written = next.seen.len();
                return next.looked(1000);
            }
            9 => return self.looked(40_000),
            _ => {
                self.write();
                return self;
            }
        };
        self.lab.store.update(|_| vec![write]);
        self.looked(1000)
    }

    fn looked(mut self, milliseconds: u64) -> History {
        self.look(milliseconds);
        self
    }

    /// Checks that each look is shown as it was, or refused if it may be missing; it is never shown otherwise.
    fn check(&self) -> Result<(), TestCaseError> {
        let (first, _) = self.lab.kept(|kept| kept.range()).expect("something is kept");
        let sure: Vec<u64> = self.seen.iter().filter(|seen| !seen.is_lost).map(|seen| seen.own).collect();
        prop_assert!(sure.is_sorted(), "times are in order");
        for (at, seen) in self.seen.iter().enumerate() {
            // A look at the same moment, after the clock went back by less than is noticed, takes its place.
            if self.seen.get(at + 1).is_some_and(|next| next.own == seen.own) {
                continue;
            }
            // Nobody knows any more what time was reached by what is lost, so later runs may have gone over it again.
            let is_again = self.seen[..at].iter().any(|one| one.own >= seen.own)
                || self.seen[at + 1..].iter().any(|one| one.own <= seen.own);
            if seen.is_lost && is_again {
                continue;
            }
            let shown = self.lab.kept(|kept| kept.clock.shown(seen.own));
            match self.lab.timeline.moment(Some(shown), u64::MAX) {
                Ok(moment) => prop_assert_eq!(&moment.network, &seen.network, "look {}", at),
                Err(why) => prop_assert!(seen.is_lost || seen.own < first, "look {}: {:?}", at, why),
            }
        }
        // A span is shown as if nothing were remembered of it.
        let middle = self.seen[self.seen.len() / 2].own;
        let starts = [None, Some(self.lab.kept(|kept| kept.clock.shown(middle)))];
        for from in starts {
            let reported = || {
                let span = self.lab.timeline.span((from, None), u64::MAX);
                span.map(|span| (span.from, span.to, span.before, span.after, span.happened))
            };
            let first = reported();
            prop_assert_eq!(&first, &reported());
            *self.lab.timeline.span_answers() = SpanAnswers::default();
            prop_assert_eq!(&first, &reported());
        }
        let gaps = self.lab.gaps();
        prop_assert!(gaps.iter().all(|gap| gap.from <= gap.to));
        prop_assert!(gaps.windows(2).all(|two| two[0].to <= two[1].from), "gaps are in order");
        Ok(())
    }
}

/// Returns the places at which whole entries of a file end.
fn ends_of_entries(bytes: &[u8]) -> Vec<usize> {
    let mut ends = vec![MAGIC.len().min(bytes.len())];
    while let Ok((_, length)) = entry_at(&bytes[ends[ends.len() - 1]..]) {
        ends.push(ends[ends.len() - 1] + length);
    }
    ends
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_past_moment_is_shown_as_it_was_or_refused_if_it_was_lost(steps in steps()) {
        let folder = tempfile::tempdir().expect("a folder");
        let lab = Lab::in_files(folder.path());
        let mut history = History { lab, seen: Vec::new(), written: 0 };
        history.lab.store.update(|_| linked());
        history.look(1000);
        for step in steps {
            history = history.step(step);
        }
        history.check()?;
        history.write();
        history.check()?;
        history = history.crash(0, None);
        history.look(1000);
        history.check()?;
    }
}
