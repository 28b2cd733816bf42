//! Places on the map: points that keep their distance from each other, and room for whole components.

use rustc_hash::FxHashMap;

/// The minimum distance of two switches, in units of the map. Chosen: half of [`LINK`], so that symbols and names of
/// neighbours do not cover each other.
pub(super) const APART: f64 = 5.0;
/// The length of a link where nothing is in the way, in units of the map. It is the unit of everything else here; the
/// page scales the map to its window.
pub(super) const LINK: f64 = 10.0;
/// The room between components, in units of the map. It must exceed [`LINK`], so that no two components look linked.
const MARGIN: f64 = 2.0 * LINK;
/// The side of a cell: two points of one would be nearer than [`APART`], even if they are at opposite corners.
const CELL: f64 = APART * std::f64::consts::FRAC_1_SQRT_2;
/// The angle between two attempts to find a free place, in radians: π (3 - √5), with which attempts cover the plane
/// evenly.
const GOLDEN_ANGLE: f64 = 2.399_963_229_728_653;
/// The number of boxes beside which room for a further one is looked for. Chosen: in a network of thousands of
/// components the search must not compare each with each.
const TRIED_BOXES: usize = 64;

/// A place on the map.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Point {
    pub x: f64,
    pub y: f64,
}

impl Point {
    /// Returns the point at this angle and distance from the origin.
    pub fn polar(angle: f64, radius: f64) -> Point {
        Point { x: radius * angle.cos(), y: radius * angle.sin() }
    }

    /// Returns the point this far away.
    pub fn plus(self, x: f64, y: f64) -> Point {
        Point { x: self.x + x, y: self.y + y }
    }

    /// Returns the distance to another point.
    pub fn to(self, other: Point) -> f64 {
        (self.x - other.x).hypot(self.y - other.y)
    }

    /// Returns the point with one digit after the decimal point, as programs read it.
    fn rounded(self) -> Point {
        let round = |value: f64| (value * 10.0).round() / 10.0 + 0.0;
        Point { x: round(self.x), y: round(self.y) }
    }
}

/// The places that are taken.
#[derive(Debug, Default)]
pub(super) struct TakenPlaces {
    cells: FxHashMap<(i64, i64), Point>,
    /// The attempt that the last search from a cell ended with: those before it are taken mostly.
    attempts: FxHashMap<(i64, i64), u32>,
}

impl TakenPlaces {
    /// Takes the free place that is nearest to this point, more or less, and returns it.
    pub fn take(&mut self, wished: Point) -> Point {
        let attempt = |number: u32| {
            let number = f64::from(number);
            let Point { x, y } = Point::polar(number * GOLDEN_ANGLE, APART / 2.0 * number.sqrt());
            wished.plus(x, y).rounded()
        };
        let first = self.attempts.get(&cell(wished)).copied().unwrap_or_default();
        let mut numbers = first..;
        let found = numbers.find_map(|number| Some((number, attempt(number))).filter(|(_, at)| self.is_free(*at)));
        let Some((number, at)) = found else { return wished };
        self.attempts.insert(cell(wished), number);
        self.add(at);
        at
    }

    /// Keeps a place that was taken earlier.
    pub fn add(&mut self, at: Point) {
        self.cells.insert(cell(at), at);
    }

    fn is_free(&self, at: Point) -> bool {
        let (column, row) = cell(at);
        let mut near = (-2..=2).flat_map(|x| (-2..=2).map(move |y| (column + x, row + y)));
        !near.any(|cell| self.cells.get(&cell).is_some_and(|other| other.to(at) < APART))
    }
}

fn cell(at: Point) -> (i64, i64) {
    ((at.x / CELL).floor() as i64, (at.y / CELL).floor() as i64)
}

/// A rectangle around places.
#[derive(Clone, Copy, Debug)]
struct Area {
    low: Point,
    high: Point,
}

impl Area {
    fn around(points: impl IntoIterator<Item = Point>) -> Option<Area> {
        points.into_iter().map(|point| Area { low: point, high: point }).reduce(Area::with)
    }

    fn with(self, other: Area) -> Area {
        let low = Point { x: self.low.x.min(other.low.x), y: self.low.y.min(other.low.y) };
        Area { low, high: Point { x: self.high.x.max(other.high.x), y: self.high.y.max(other.high.y) } }
    }

    fn moved(self, x: f64, y: f64) -> Area {
        Area { low: self.low.plus(x, y), high: self.high.plus(x, y) }
    }

    fn is_near(self, other: Area) -> bool {
        let is_apart = |low: f64, high: f64| high + MARGIN > low;
        is_apart(self.low.x, other.high.x)
            && is_apart(other.low.x, self.high.x)
            && is_apart(self.low.y, other.high.y)
            && is_apart(other.low.y, self.high.y)
    }

    /// Returns how far the farthest side is from the origin.
    fn reach(self) -> f64 {
        [self.low.x, self.low.y, self.high.x, self.high.y].into_iter().map(f64::abs).fold(0.0, f64::max)
    }
}

/// The room that components have.
#[derive(Debug, Default)]
pub(super) struct Rooms(Vec<Area>);

impl Rooms {
    /// Gives these places the room around them.
    pub fn add(&mut self, points: impl IntoIterator<Item = Point>) {
        self.0.extend(Area::around(points));
    }

    /// Finds room for these places, and returns how far they have to be moved there: beside or below what is there
    /// already, and as near to the origin as possible.
    pub fn find(&mut self, points: &[Point]) -> (f64, f64) {
        let Some(own) = Area::around(points.iter().copied()) else { return (0.0, 0.0) };
        let all = self.0.iter().copied().reduce(Area::with);
        let Some(all) = all else {
            let centre = (-(own.low.x + own.high.x) / 2.0, -(own.low.y + own.high.y) / 2.0);
            self.0.push(own.moved(centre.0, centre.1));
            return centre;
        };
        let beside = |other: &Area| (other.high.x + MARGIN - own.low.x, other.low.y - own.low.y);
        let below = |other: &Area| (other.low.x - own.low.x, other.high.y + MARGIN - own.low.y);
        let newest = self.0.iter().rev().take(TRIED_BOXES).flat_map(|other| [beside(other), below(other)]);
        let mut best = below(&all);
        for (x, y) in newest {
            let room = own.moved(x, y);
            if room.reach() < own.moved(best.0, best.1).reach() && !self.0.iter().any(|other| room.is_near(*other)) {
                best = (x, y);
            }
        }
        self.0.push(own.moved(best.0, best.1));
        best
    }
}
