//! Members that stream to each other over a network that loses, repeats and delays messages, while masters change. The
//! naive side keeps each change of each source in a list.

use std::collections::{BTreeMap, VecDeque};

use fastrand::Rng;

use super::*;

const LIMITS: StreamLimits = StreamLimits { rows: 8, bytes: 120, row: 24, deletions: 3, part: 20 };
/// The number of random schedules of a usual run.
const CASES: u64 = 300;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn question(number: u64, positions: &[(u64, u64)]) -> StreamQuestion {
    let position = |(life, change): &(u64, u64)| StreamPosition { life: *life, began: 0, change: *change };
    StreamQuestion { number, positions: positions.iter().map(position).collect() }
}

/// Has a follower ask until it has everything. Returns the number of rows that were sent.
fn follow(source: &StreamSource, follower: &mut StreamFollower, generation: u64) -> usize {
    let mut sent = 0;
    for _ in 0..100 {
        let part = source.answer(&follower.ask(), generation);
        sent += part.rows.len();
        follower.on_part(part).expect("it is right");
        if follower.behind() == Some(0) {
            return sent;
        }
    }
    panic!("it is never current");
}

#[test]
fn a_copy_goes_on_where_it_was_and_gets_each_row_as_it_is_by_then() {
    let (mut source, mut follower) = (StreamSource::new(1, LIMITS), StreamFollower::new(LIMITS));
    assert_eq!((follow(&source, &mut follower, 5), follower.whole().unwrap().rows.len()), (0, 0));
    (0..4u8).for_each(|key| assert!(source.put(&[key], Some(b"a value"))));
    assert_eq!(follow(&source, &mut follower, 5), 4);
    // Many changes of one row are one row.
    (0..100u8).for_each(|value| assert!(source.put(&[0], Some(&[value]))));
    assert!(source.put(&[1], None) && !source.put(&[1], None) && !source.put(&[2], Some(b"a value")));
    assert_eq!(follow(&source, &mut follower, 6), 2);
    let whole = follower.take().expect("it is whole");
    let rows = Rows::from([(vec![0], vec![99]), (vec![2], b"a value".to_vec()), (vec![3], b"a value".to_vec())]);
    assert_eq!((whole.rows, whole.generation), (rows, 6));
    assert_eq!(follower.whole(), None);
}

#[test]
fn a_follower_that_missed_more_deletions_than_are_remembered_begins_anew() {
    let (mut source, mut follower) = (StreamSource::new(1, LIMITS), StreamFollower::new(LIMITS));
    (0..6u8).for_each(|key| assert!(source.put(&[key], Some(b"x"))));
    follow(&source, &mut follower, 5);
    (0..3u8).for_each(|key| assert!(source.put(&[key], None)));
    assert_eq!(follow(&source, &mut follower, 5), 3, "three are remembered");
    for key in 0..6u8 {
        source.put(&[key], Some(b"y"));
        source.put(&[key], None);
    }
    assert!(source.is_empty());
    let part = source.answer(&follower.ask(), 5);
    assert_eq!((part.from, part.rows.len()), (0, 3));
    assert_eq!(follower.on_part(part), Ok(StreamNews::Whole));
    assert_eq!(follower.whole().map(|copy| copy.rows.len()), Some(0));
}

/// Otherwise nobody would ever have a copy of a source that has forgotten deletions lately.
#[test]
fn a_copy_that_began_after_deletions_were_forgotten_goes_on() {
    let (mut source, mut follower) = (StreamSource::new(1, LIMITS), StreamFollower::new(LIMITS));
    (0..3u8).for_each(|key| _ = source.put(&[key], Some(&[0; 20])));
    (10..18u8).for_each(|key| _ = (source.put(&[key], Some(b"x")), source.put(&[key], None)));
    assert_eq!(follow(&source, &mut follower, 5), 6, "three rows and three deletions, in several parts");
    // In the middle of a copy, too many are forgotten that it may have.
    let mut late = StreamFollower::new(LIMITS);
    let part = source.answer(&late.ask(), 5);
    assert_eq!(late.on_part(part), Ok(StreamNews::Partial));
    (0..3u8).for_each(|key| _ = source.put(&[key], None));
    (10..14u8).for_each(|key| _ = (source.put(&[key], Some(b"x")), source.put(&[key], None)));
    assert_eq!(source.answer(&late.ask(), 5).from, 0);
}

#[test]
fn rows_that_do_not_fit_are_left_out_and_counted() {
    let mut source = StreamSource::new(1, LIMITS);
    assert!(!source.put(b"key", Some(&[0; 22])), "it is one byte too long");
    assert!(source.put(b"key", Some(&[0; 21])));
    assert!(source.put(b"key", Some(&[0; 22])), "what was there is not right any more");
    assert_eq!((source.len(), source.left_out()), (0, 2));
    (0..9u8).for_each(|key| _ = source.put(&[key], Some(b"x")));
    assert_eq!((source.len(), source.left_out()), (8, 3), "there are more rows than may be");
    (0..8u8).for_each(|key| _ = source.put(&[key], Some(&[0; 20])));
    assert_eq!((source.len(), source.left_out()), (5, 6), "there are more bytes than may be");
}

#[test]
fn a_section_is_replaced_by_its_difference() {
    let mut source = StreamSource::new(1, LIMITS);
    let rows = |all: &[(&[u8], &[u8])]| all.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect::<Rows>();
    source.put(b"ax", Some(b"1"));
    assert!(source.replace(b"b", &rows(&[(b"b1", b"1"), (b"b2", b"2")])));
    let before = source.answer(&question(1, &[]), 5).latest;
    assert!(!source.replace(b"b", &rows(&[(b"b1", b"1"), (b"b2", b"2")])));
    assert!(source.replace(b"b", &rows(&[(b"b2", b"3"), (b"b4", b"4")])));
    assert_eq!(source.answer(&question(2, &[]), 5).latest, before + 3);
    let here: Vec<(&[u8], &[u8])> = source.rows(b"b").collect();
    assert_eq!(here, [(&b"b2"[..], &b"3"[..]), (b"b4", b"4")]);
    assert_eq!(source.rows(b"").count(), 3);
}

#[test]
fn a_part_that_contradicts_itself_or_the_copy_is_refused() {
    let mut source = StreamSource::new(1, LIMITS);
    (0..6u8).for_each(|key| _ = source.put(&[key], Some(b"some value")));
    let outcome_of = |change: fn(&mut StreamedPart)| {
        let mut follower = StreamFollower::new(LIMITS);
        let mut part = source.answer(&follower.ask(), 5);
        change(&mut part);
        let outcome = follower.on_part(part);
        assert_eq!(follow(&source, &mut follower, 5), 6, "it goes on");
        outcome
    };
    assert_eq!(outcome_of(|part| part.from = 1), Err(StreamError::Gap));
    assert_eq!(outcome_of(|part| (part.from, part.to) = (7, 7)), Err(StreamError::Order));
    assert_eq!(outcome_of(|part| part.to = 100), Err(StreamError::Order));
    assert_eq!(outcome_of(|part| part.to = 0), Err(StreamError::Order), "it would never end");
    assert_eq!(
        outcome_of(|part| part.rows = (0..17).map(|key| (vec![key], Some(Vec::new()))).collect()),
        Err(StreamError::TooMuch)
    );
    assert_eq!(outcome_of(|part| part.rows = vec![(vec![0; 300], Some(Vec::new()))]), Err(StreamError::TooMuch));
    assert_eq!(outcome_of(|part| part.number = 0), Ok(StreamNews::Ignored));
}

/// A fault on the way from a source to a follower, so that the test has something to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plant {
    LosesDeletions,
    LosesRows,
    AnswersAnything,
    ClaimsToBeWhole,
    FormerMasters,
}

#[derive(Clone)]
enum Mail {
    Question { from: usize, from_life: u64, question: StreamQuestion },
    Part { to_life: u64, part: StreamedPart },
}

struct Member {
    life: u64,
    source: StreamSource,
    follower: StreamFollower,
    /// Whom it takes for the master.
    believed: usize,
    /// The generation in which it takes itself for the master.
    generation: Option<u64>,
    is_cut_off: bool,
}

/// A network of members, and each change of each source.
struct Net {
    random: Rng,
    plant: Option<Plant>,
    members: Vec<Member>,
    mail: VecDeque<(usize, Mail)>,
    logs: BTreeMap<u64, Vec<StreamedRow>>,
    lives: u64,
    /// The life of the master of each generation.
    masters: BTreeMap<u64, u64>,
    master: usize,
    generation: u64,
    is_calm: bool,
    /// The numbers of copies that became whole, of rows that came, and of take-overs with a copy.
    counts: [u64; 3],
}

fn replayed(log: &[StreamedRow]) -> Rows {
    let mut rows = Rows::new();
    for (key, value) in log {
        match value {
            Some(value) => rows.insert(key.clone(), value.clone()),
            None => rows.remove(key),
        };
    }
    rows
}

impl Net {
    fn new(seed: u64, plant: Option<Plant>) -> Net {
        let mut random = Rng::with_seed(seed);
        let count = random.usize(2..=4);
        let mut net = Net {
            random,
            plant,
            members: Vec::new(),
            mail: VecDeque::new(),
            logs: BTreeMap::new(),
            lives: 0,
            masters: BTreeMap::from([(1, 1)]),
            master: 0,
            generation: 1,
            is_calm: false,
            counts: [0; 3],
        };
        net.members = (0..count).map(|_| net.begin()).collect();
        net.members[0].generation = Some(1);
        net
    }

    fn begin(&mut self) -> Member {
        self.lives += 1;
        let life = self.lives;
        self.logs.insert(life, Vec::new());
        Member {
            life,
            source: StreamSource::new(life, LIMITS),
            follower: StreamFollower::new(LIMITS),
            believed: 0,
            generation: None,
            is_cut_off: false,
        }
    }

    fn put(&mut self, at: usize, key: &[u8], value: Option<&[u8]>) {
        let member = &mut self.members[at];
        let log = self.logs.get_mut(&member.life).expect("each life has one");
        if member.source.put(key, value) {
            let now = member.source.rows(key).find(|(of, _)| *of == key).map(|(_, value)| value.to_vec());
            log.push((key.to_vec(), now));
        }
    }

    /// Does one random thing.
    fn step(&mut self) -> Result<(), String> {
        let at = self.random.usize(0..self.members.len());
        match self.random.u8(0..40) {
            0..12 => {
                let key = [b'k', self.random.u8(0..12)];
                let value = vec![self.random.u8(..); self.random.usize(0..26)];
                let is_deleted = self.random.u8(0..3) == 0;
                let who = self.master;
                self.put(who, &key, (!is_deleted).then_some(&value));
            }
            12..22 => self.ask(at),
            22..36 => return self.deliver(),
            36 => self.members[at].is_cut_off ^= true,
            37 => self.members[at].believed = self.master,
            38 if self.random.bool() => self.elect(at)?,
            39 if self.random.u8(0..4) == 0 && at != self.master => self.members[at] = self.begin(),
            _ => {}
        }
        Ok(())
    }

    fn ask(&mut self, at: usize) {
        let member = &mut self.members[at];
        let to = member.believed;
        if to == at {
            return;
        }
        let (from_life, question) = (member.life, member.follower.ask());
        self.send(to, at, Mail::Question { from: at, from_life, question });
    }

    fn send(&mut self, to: usize, from: usize, mail: Mail) {
        let is_lost = self.members[to].is_cut_off || self.members[from].is_cut_off || self.random.u8(0..10) == 0;
        if is_lost && !self.is_calm {
            return;
        }
        self.mail.push_back((to, mail));
    }

    fn deliver(&mut self) -> Result<(), String> {
        if self.mail.is_empty() {
            return Ok(());
        }
        let at = if self.is_calm { 0 } else { self.random.usize(0..self.mail.len()) };
        let is_twice = !self.is_calm && self.random.u8(0..10) == 0;
        let Some((to, mail)) = self.mail.remove(at) else { return Ok(()) };
        if is_twice {
            self.mail.push_back((to, mail.clone()));
        }
        match mail {
            Mail::Question { from, from_life, question } => {
                let member = &self.members[to];
                let generation = match self.plant {
                    Some(Plant::FormerMasters) => Some(self.generation),
                    _ => member.generation,
                };
                if let Some(generation) = generation {
                    let part = member.source.answer(&question, generation);
                    self.send(from, to, Mail::Part { to_life: from_life, part });
                }
                Ok(())
            }
            // A connection ends with the process.
            Mail::Part { to_life, part } if to_life == self.members[to].life => self.take_in(to, part),
            Mail::Part { .. } => Ok(()),
        }
    }

    fn take_in(&mut self, at: usize, mut part: StreamedPart) -> Result<(), String> {
        match self.plant {
            Some(Plant::LosesDeletions) => part.rows.retain(|(_, value)| value.is_some()),
            Some(Plant::LosesRows) if part.rows.len() > 1 => drop(part.rows.remove(0)),
            Some(Plant::ClaimsToBeWhole) => part.latest = part.to,
            Some(Plant::AnswersAnything) => part.number = self.members[at].follower.ask().number,
            _ => {}
        }
        let (life, to, latest) = (part.life, part.to, part.latest);
        if self.masters[&part.generation] != life {
            return Err(format!("life {life} was never master in generation {}", part.generation));
        }
        let follower = &mut self.members[at].follower;
        let news = match follower.on_part(part) {
            Ok(news) => news,
            // Only a fault makes such a part.
            Err(error) => return Err(format!("{error}")),
        };
        let log = &self.logs[&life];
        match news {
            StreamNews::Ignored => return Ok(()),
            StreamNews::Whole => self.counts[0] += 1,
            StreamNews::Partial | StreamNews::Changes => self.counts[1] += 1,
        }
        let copy = match news {
            StreamNews::Partial => follower.partial.as_ref(),
            _ => follower.whole.as_ref(),
        };
        let copy = copy.ok_or("it was said to be there")?;
        if (copy.position.life, copy.position.change) != (life, to) {
            return Err(format!("{:?} is not {life} {to}", copy.position));
        }
        let bytes: usize = copy.rows.iter().map(|(key, value)| key.len() + value.len()).sum();
        if copy.bytes != bytes {
            return Err(format!("{} bytes are {bytes}", copy.bytes));
        }
        if to == latest && copy.rows != replayed(&log[..to as usize]) {
            return Err(format!("at {to} the copy is {:?}, not {:?}", copy.rows, replayed(&log[..to as usize])));
        }
        check_rows(copy, log)
    }

    /// Makes a member master with what it has.
    fn elect(&mut self, at: usize) -> Result<(), String> {
        if at == self.master {
            return Ok(());
        }
        self.generation += 1;
        let former = std::mem::replace(&mut self.master, at);
        if self.random.bool() {
            self.members[former].generation = None;
        }
        let member = &mut self.members[at];
        (member.generation, member.believed) = (Some(self.generation), at);
        self.masters.insert(self.generation, member.life);
        let copy = member.follower.take();
        if let Some(copy) = copy {
            self.counts[2] += 1;
            check_rows(&copy, &self.logs[&copy.position.life])?;
            for (key, value) in copy.rows {
                self.put(at, &key, Some(&value));
            }
        }
        Ok(())
    }

    /// Ends all faults, and asserts that all have what the master has.
    fn rest(&mut self) -> Result<(), String> {
        self.is_calm = true;
        self.mail.clear();
        let (master, generation) = (self.master, self.generation);
        for (at, member) in self.members.iter_mut().enumerate() {
            member.believed = master;
            member.generation = (at == master).then_some(generation);
        }
        for _ in 0..60 {
            (0..self.members.len()).for_each(|at| self.ask(at));
            while !self.mail.is_empty() {
                self.deliver()?;
            }
        }
        let source = &self.members[self.master].source;
        let rows: Rows = source.rows(b"").map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        if rows != replayed(&self.logs[&self.members[self.master].life]) {
            return Err("the source has other rows than were written".into());
        }
        for (at, member) in self.members.iter().enumerate().filter(|(at, _)| *at != self.master) {
            let copy = member.follower.whole().ok_or_else(|| format!("{at} has no copy: {:?}", member.follower))?;
            if copy.rows != rows || copy.generation != self.generation || member.follower.behind() != Some(0) {
                return Err(format!("{at} has {copy:?}, not {rows:?}"));
            }
        }
        Ok(())
    }
}

/// Checks that a copy has each row that has not changed since its position, and of others what they were at one time.
fn check_rows(copy: &StreamCopy, log: &[StreamedRow]) -> Result<(), String> {
    let mut latest = BTreeMap::new();
    for (change, (key, value)) in log.iter().enumerate() {
        latest.insert(key, (change as u64 + 1, value.as_ref()));
    }
    for (key, (change, value)) in &latest {
        let here = copy.rows.get(*key);
        if *change <= copy.position.change && here != *value {
            return Err(format!("row {key:?} is {here:?}, and has been {value:?} since {change}: {:?}", copy.position));
        }
    }
    let was = |key: &Vec<u8>, value: &Vec<u8>| log.iter().any(|(of, had)| of == key && had.as_ref() == Some(value));
    match copy.rows.iter().find(|(key, value)| !was(key, value)) {
        Some(row) => Err(format!("nobody wrote {row:?}")),
        None => Ok(()),
    }
}

fn play(seed: u64, plant: Option<Plant>) -> Result<[u64; 3], String> {
    let mut net = Net::new(seed, plant);
    for _ in 0..800 {
        net.step()?;
    }
    net.rest()?;
    Ok(net.counts)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|error| panic!("{variable}: {error}")))
}

#[test]
fn every_copy_is_what_its_source_was_whatever_becomes_of_messages_and_masters() {
    let seeds: Vec<u64> = match number("MAPLE_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("MAPLE_CASES").unwrap_or(CASES)).map(|_| fastrand::u64(..)).collect(),
    };
    let (mut sums, cases) = ([0; 3], seeds.len() as u64);
    for seed in seeds {
        let counts = play(seed, None).unwrap_or_else(|why| panic!("MAPLE_SEED={seed}: {why}"));
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    // Schedules in which nothing happens would show nothing.
    let [whole, parts, taken] = sums;
    assert!(cases == 1 || whole > cases && parts > 10 * cases && taken > cases / 5, "{sums:?}");
}

#[test]
fn planted_faults_are_found() {
    for plant in
        [Plant::LosesDeletions, Plant::LosesRows, Plant::AnswersAnything, Plant::ClaimsToBeWhole, Plant::FormerMasters]
    {
        let found = (0..1_000).find_map(|_| play(fastrand::u64(..), Some(plant)).err());
        println!("{plant:?}: {found:?}");
        assert!(found.is_some(), "{plant:?} was not found in 1,000 schedules");
    }
}
