//! Moments as users write them: clock times in UTC, times since the start of a recording, or times before now.

use std::time::{Duration, SystemTime};

use anyhow::bail;
use maple_controller::replay::Recorded;
use maple_core::engine::Time;
use time::{Date, Month, UtcDateTime};

use crate::values::duration;

/// The seconds of a day.
const DAY: u64 = 86_400;

/// Parses a moment of a recording: `90s` since its start, `2026-11-26T04:15:11Z`, or `04:15` of the day on which it
/// began (of the next day if that is before its start).
///
/// # Errors
/// If the text is not such a time, or if the time is before the recording's start.
pub fn of_recording(text: &str, recorded: &Recorded) -> anyhow::Result<Time> {
    if let Ok(since) = duration(text) {
        return Ok(Time(since.as_nanos() as u64));
    }
    let began = recorded.began().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let moment = of_clock(text, began)
        .map(|(moment, has_day)| if !has_day && moment < began { moment + Duration::from_secs(DAY) } else { moment });
    let Some(moment) = moment else {
        bail!("{text:?} is not a time of a recording such as 90s since its start, 2026-11-26T04:15:11Z, or 04:15:11");
    };
    match moment.checked_sub(began) {
        Some(since) => Ok(Time(since.as_nanos() as u64)),
        None => bail!("the recording began later, at {}", recorded.timestamp(Time(0))),
    }
}

/// Parses a moment before now: `15m` ago, `2026-11-26T04:15:11Z`, or `04:15` of today (of yesterday if that is still to
/// come). Returns the time since 1970.
///
/// # Errors
/// If the text is not such a time.
pub fn before(text: &str, now: SystemTime) -> anyhow::Result<Duration> {
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    if let Ok(ago) = duration(text) {
        return Ok(now.saturating_sub(ago));
    }
    match of_clock(text, now) {
        Some((moment, false)) if moment > now => Ok(moment.saturating_sub(Duration::from_secs(DAY))),
        Some((moment, _)) => Ok(moment),
        None => bail!("{text:?} is not a moment such as 15m ago, 2026-11-26T04:15:11Z, or 04:15:11"),
    }
}

/// Parses a time with its day, or a time of the day that has this moment. Returns the time since 1970, and whether the
/// text has the day.
fn of_clock(text: &str, of_day_of: Duration) -> Option<(Duration, bool)> {
    match text.split_once('T') {
        Some((date, time)) => Some((Duration::from_secs(day(date)? * DAY) + of_day(time)?, true)),
        None => Some((Duration::from_secs(of_day_of.as_secs() / DAY * DAY) + of_day(text)?, false)),
    }
}

/// Parses the time since midnight in UTC: `04:15`, `04:15:11`, `04:15:11.250Z`.
fn of_day(text: &str) -> Option<Duration> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let parts: Vec<&str> = text.split(':').collect();
    let (hours, minutes, seconds) = match parts[..] {
        [hours, minutes] => (hours, minutes, "0"),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return None,
    };
    let below = |text: &str, most: u64| text.parse::<u64>().ok().filter(|number| *number < most);
    let seconds: f64 = seconds.parse().ok().filter(|seconds| (0.0..60.0).contains(seconds))?;
    let whole = below(hours, 24)? * 3600 + below(minutes, 60)? * 60;
    Some(Duration::from_secs(whole) + Duration::try_from_secs_f64(seconds).ok()?)
}

/// Returns the number of days from 1970 to a date: `2026-11-26`.
fn day(text: &str) -> Option<u64> {
    let mut parts = text.split('-');
    let (year, month, day) = (parts.next()?.parse().ok()?, parts.next()?.parse::<u8>().ok()?, parts.next()?);
    let date = Date::from_calendar_date(year, Month::try_from(month).ok()?, day.parse().ok()?).ok()?;
    let is_whole = parts.next().is_none();
    (date - UtcDateTime::UNIX_EPOCH.date()).whole_days().try_into().ok().filter(|_| is_whole)
}

#[cfg(test)]
mod tests {
    use maple_controller::timestamp;

    use super::*;

    #[test]
    fn dates_are_read_as_they_are_printed() {
        for seconds in [0, 951_782_400, 951_868_800, 1_795_666_511, 4_107_542_399] {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            let printed = timestamp(time);
            let (date, rest) = printed.split_once('T').expect("it has a date");
            let read = Duration::from_secs(day(date).expect("a date") * DAY) + of_day(rest).expect("a time");
            assert_eq!(read.as_secs(), seconds, "{printed}");
        }
    }

    #[test]
    fn a_moment_before_now_is_ago_of_today_or_of_yesterday() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(10 * DAY + 6 * 3600);
        let read = |text: &str| before(text, now).map(|moment| moment.as_secs()).ok();
        assert_eq!(read("15m"), Some(10 * DAY + 6 * 3600 - 900));
        assert_eq!(read("04:15"), Some(10 * DAY + 4 * 3600 + 900));
        assert_eq!(read("23:00:01"), Some(9 * DAY + 23 * 3600 + 1));
        assert_eq!(read("1970-01-02T00:00:00Z"), Some(DAY));
        assert_eq!((read("yesterday"), read("")), (None, None));
    }

    #[test]
    fn invalid_times_and_days_are_refused() {
        for wrong in ["", "4", "24:00", "04:60", "04:15:60", "a:b", "1:2:3:4"] {
            assert_eq!(of_day(wrong), None, "{wrong}");
        }
        for wrong in ["2026-13-01", "2026-11", "26-11-26", "2026-11-00", "2026-02-31", "2025-02-29", "2026-11-26-01"] {
            assert_eq!(day(wrong), None, "{wrong}");
        }
    }
}
