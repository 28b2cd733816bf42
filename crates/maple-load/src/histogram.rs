//! A histogram of times: exact below 64 ns, within 1/64 above.

/// The binary logarithm of the number of sub-buckets of each power of two: with 64 of them a time is exact to 1/64.
const BITS: u32 = 6;
/// The number of buckets: enough for any 64-bit number.
const BUCKETS: usize = (64 - BITS as usize + 1) << BITS;

/// The number of times in each bucket, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: vec![0; BUCKETS], total: 0, max: 0 }
    }
}

impl Histogram {
    /// Counts one time.
    #[inline]
    pub fn add(&mut self, nanoseconds: u64) {
        self.counts[bucket(nanoseconds)] += 1;
        self.total += 1;
        self.max = self.max.max(nanoseconds);
    }

    /// Returns the number of counted times.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the longest counted time, in nanoseconds.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the time in nanoseconds that this share of all times (0 to 1) does not exceed: the lower end of its
    /// bucket.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = ((share * self.total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        found.map_or(0, lower_end)
    }
}

#[inline]
fn bucket(value: u64) -> usize {
    let order = 63 - (value | 1).leading_zeros();
    if order < BITS {
        return value as usize;
    }
    let shift = order - BITS;
    ((shift as usize) << BITS) + (value >> shift) as usize
}

fn lower_end(bucket: usize) -> u64 {
    if bucket < 2 << BITS {
        return bucket as u64;
    }
    let shift = (bucket >> BITS) - 1;
    ((bucket & ((1 << BITS) - 1)) as u64 + (1 << BITS)) << shift
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_sorted_list_within_a_64th(
            mut times in prop::collection::vec(prop_oneof![0u64..200, 0u64..1 << 40, any::<u64>()], 1..300),
            share in 0.0..1.0f64,
        ) {
            let mut histogram = Histogram::default();
            times.iter().for_each(|time| histogram.add(*time));
            times.sort_unstable();
            let exact = times[((share * times.len() as f64).ceil() as usize).max(1) - 1];
            let found = histogram.quantile(share);
            prop_assert!(found <= exact && exact - found <= exact / 64, "{} for {}", found, exact);
            prop_assert_eq!((histogram.max(), histogram.total()), (times[times.len() - 1], times.len() as u64));
        }

        #[test]
        fn a_bucket_begins_where_it_says(value: u64) {
            let bucket = bucket(value);
            prop_assert!(bucket < BUCKETS && lower_end(bucket) <= value);
            prop_assert!(bucket + 1 == BUCKETS || lower_end(bucket + 1) > value);
        }
    }
}
