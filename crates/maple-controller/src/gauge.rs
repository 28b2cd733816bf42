//! Gauges that other parts of the program export as metrics, read when metrics are exported.

use std::fmt;

use parking_lot::Mutex;

/// The maximum number of gauges. Chosen: more than programs measure, and a bound on the text of a scrape.
const MAX_GAUGES: usize = 64;
/// The maximum number of values of a gauge. Chosen: each is a time series of its own, and one for each tenant or
/// service fits.
const MAX_VALUES: usize = 1024;

/// A gauge: one value, or one for each value of a label.
pub struct Gauge {
    /// Its name, of letters, digits and underscores, as in `maple_heap_bytes`.
    pub name: &'static str,
    /// Its meaning, in a sentence without quotation marks.
    pub meaning: &'static str,
    /// The name of its label, if it has one.
    pub label: Option<&'static str>,
    /// Reads the values, each with its value of the label. The thread that exports metrics calls it, so it must be
    /// quick.
    pub read: Box<dyn Fn() -> Vec<(String, f64)> + Send + Sync>,
}

impl fmt::Debug for Gauge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gauge").field("name", &self.name).field("label", &self.label).finish_non_exhaustive()
    }
}

impl Gauge {
    /// Creates a gauge with one value. `read` returns `None` while the value is unknown.
    pub fn new(
        name: &'static str,
        meaning: &'static str,
        read: impl Fn() -> Option<f64> + Send + Sync + 'static,
    ) -> Gauge {
        let read = move || read().into_iter().map(|value| (String::new(), value)).collect();
        Gauge { name, meaning, label: None, read: Box::new(read) }
    }
}

/// The gauges of a controller, at most [`MAX_GAUGES`].
#[derive(Default)]
pub(crate) struct Gauges(Mutex<Vec<Gauge>>);

impl Gauges {
    /// Adds a gauge, or replaces the one with this name. Beyond [`MAX_GAUGES`] a gauge is not added, and the log says
    /// so.
    pub fn add(&self, gauge: Gauge) {
        let mut gauges = self.0.lock();
        gauges.retain(|there| there.name != gauge.name);
        if gauges.len() < MAX_GAUGES {
            gauges.push(gauge);
        } else {
            tracing::error!(gauge = gauge.name, "there are too many gauges; this one is not exported");
        }
    }

    /// Calls `each` with each gauge and its values, until it fails.
    pub fn read<E>(&self, mut each: impl FnMut(&Gauge, Vec<(String, f64)>) -> Result<(), E>) -> Result<(), E> {
        let gauges = self.0.lock();
        gauges.iter().try_for_each(|gauge| {
            let mut values = (gauge.read)();
            values.truncate(MAX_VALUES);
            each(gauge, values)
        })
    }
}

impl fmt::Debug for Gauges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gauges")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(gauges: &Gauges) -> Vec<(&'static str, usize)> {
        let mut all = Vec::new();
        let _: Result<(), ()> = gauges.read(|gauge, values| {
            all.push((gauge.name, values.len()));
            Ok(())
        });
        all
    }

    #[test]
    fn a_gauge_takes_the_place_of_one_with_its_name() {
        let gauges = Gauges::default();
        gauges.add(Gauge::new("a", "One.", || Some(1.0)));
        gauges.add(Gauge::new("b", "Another.", || None));
        gauges.add(Gauge::new("a", "None.", || None));
        assert_eq!(all(&gauges), [("b", 0), ("a", 0)]);
    }

    #[test]
    fn the_values_of_a_gauge_are_bounded() {
        let gauges = Gauges::default();
        let read = || (0..2 * MAX_VALUES).map(|n| (n.to_string(), 0.0)).collect();
        gauges.add(Gauge { name: "a", meaning: "Many.", label: Some("n"), read: Box::new(read) });
        assert_eq!(all(&gauges), [("a", MAX_VALUES)]);
    }
}
