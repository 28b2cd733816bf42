//! Quantities as people write them: `10ms`, `5%`, `2.5mbit`.

use maple_switch::time::{MICROSECOND, MILLISECOND, Nanoseconds, SECOND};

/// The maximum time in nanoseconds: a day.
const MAX_TIME: f64 = 86_400.0 * SECOND as f64;

/// Parses a time such as `10ms`, `250us`, `1.5s`, `2m`; at most a day.
///
/// # Errors
/// A text that describes the valid form.
pub fn time(text: &str) -> Result<Nanoseconds, String> {
    let units = [
        ("ms", MILLISECOND as f64),
        ("us", MICROSECOND as f64),
        ("ns", 1.0),
        ("s", SECOND as f64),
        ("m", 60.0 * SECOND as f64),
    ];
    let wrong = || format!("{text:?} is not a time such as 10ms, 250us or 1.5s");
    let value = with_unit(text, &units).ok_or_else(wrong)?;
    if value <= MAX_TIME { Ok(value as Nanoseconds) } else { Err(format!("{text:?} is longer than a day")) }
}

/// Parses a share such as `5%` or `0.5%`, from 0 to 1.
///
/// # Errors
/// A text that describes the valid form.
pub fn share(text: &str) -> Result<f64, String> {
    let value = with_unit(text, &[("%", 0.01)]);
    value.filter(|share| *share <= 1.0).ok_or_else(|| format!("{text:?} is not a share such as 5%, from 0% to 100%"))
}

/// Parses a rate such as `500kbit`, `10mbit`, `1gbit`, in bits a second.
///
/// # Errors
/// A text that describes the valid form.
pub fn rate(text: &str) -> Result<u64, String> {
    let units = [("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9), ("bit", 1.0)];
    let value = with_unit(text, &units).filter(|rate| (1.0..=1e15).contains(rate));
    value.map(|rate| rate as u64).ok_or_else(|| format!("{text:?} is not a rate such as 500kbit, 10mbit or 1gbit"))
}

/// Writes a rate in the form that [`rate`] parses.
pub fn rate_text(bits_per_second: u64) -> String {
    let units = [(1e9, "gbit"), (1e6, "mbit"), (1e3, "kbit")];
    let (size, unit) = units.into_iter().find(|(size, _)| bits_per_second as f64 >= *size).unwrap_or((1.0, "bit"));
    let value = format!("{:.2}", bits_per_second as f64 / size);
    format!("{}{unit}", value.trim_end_matches('0').trim_end_matches('.'))
}

/// Writes a time in the form that [`time`] parses, to about three digits.
pub fn time_text(time: Nanoseconds) -> String {
    let units = [(SECOND, "s"), (MILLISECOND, "ms"), (MICROSECOND, "us")];
    let (size, unit) = units.into_iter().find(|(size, _)| time >= *size).unwrap_or((1, "ns"));
    let value = format!("{:.2}", time as f64 / size as f64);
    format!("{}{unit}", value.trim_end_matches('0').trim_end_matches('.'))
}

/// Parses a number that is not negative, in the first of these units that fits.
fn with_unit(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let lower = text.to_ascii_lowercase();
    let (digits, size) = units.iter().find_map(|(unit, size)| Some((lower.strip_suffix(unit)?, size)))?;
    let value: f64 = digits.trim_end().parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some(value * size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_and_written() {
        assert_eq!(time("10ms"), Ok(10 * MILLISECOND));
        assert_eq!(time("1.5s"), Ok(SECOND + 500 * MILLISECOND));
        assert_eq!(time("250us"), Ok(250 * MICROSECOND));
        assert_eq!(share("5%"), Ok(0.05));
        assert_eq!(rate("2.5Mbit"), Ok(2_500_000));
        assert_eq!(rate("64kbit"), Ok(64_000));
        for text in ["1.5gbit", "64kbit", "10mbit", "999bit"] {
            assert_eq!(rate_text(rate(text).unwrap()), text);
        }
        for text in ["10ms", "1.5s", "250us", "7ns"] {
            assert_eq!(time_text(time(text).unwrap()), text);
        }
    }

    #[test]
    fn invalid_quantities_are_refused() {
        for text in ["", "10", "ms", "-1s", "infs", "1h", "2000m", "1e30s"] {
            assert!(time(text).is_err(), "{text}");
        }
        for text in ["5", "101%", "-1%", "%", "nan%"] {
            assert!(share(text).is_err(), "{text}");
        }
        for text in ["10", "0bit", "10mb", "1e30gbit"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
