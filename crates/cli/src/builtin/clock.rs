//! Tells the time without a time zone database: UTC, the machine's own offset, or a given one.

use chrono::{DateTime, FixedOffset, Local, SecondsFormat, Utc};
use schemars::JsonSchema;
use serde::Serialize;

/// A point in time, in one time zone offset.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Time {
    /// RFC 3339, with the offset asked for.
    time: String,
    /// Such as `+02:00`.
    offset: String,
    /// RFC 3339, UTC.
    utc: String,
    /// Seconds since 1970-01-01T00:00:00Z.
    unix: i64,
    /// Such as `Friday`.
    weekday: String,
}

impl Time {
    /// Returns the time as one line.
    pub(super) fn line(&self) -> String {
        format!("{} ({}); {} in UTC", self.time, self.weekday, self.utc)
    }
}

/// A time zone that is neither UTC, nor the local one, nor an offset.
#[derive(Debug, thiserror::Error)]
#[error("`{timezone}` is not known here: use `UTC`, `local`, or an offset such as `+02:00`")]
pub(super) struct BadTimezone {
    timezone: String,
}

/// `now` as seen from `timezone`.
pub(super) fn time_in(now: DateTime<Utc>, timezone: &str) -> Result<Time, BadTimezone> {
    let time_in_zone: DateTime<FixedOffset> = match timezone {
        zone if zone.eq_ignore_ascii_case("utc") || zone.eq_ignore_ascii_case("z") => now.fixed_offset(),
        zone if zone.eq_ignore_ascii_case("local") => now.with_timezone(&Local).fixed_offset(),
        zone => now.with_timezone(&zone.parse::<FixedOffset>().map_err(|_| BadTimezone { timezone: zone.to_owned() })?),
    };
    Ok(Time {
        time: time_in_zone.to_rfc3339_opts(SecondsFormat::Secs, true),
        offset: time_in_zone.offset().to_string(),
        utc: now.to_rfc3339_opts(SecondsFormat::Secs, true),
        unix: now.timestamp(),
        weekday: time_in_zone.format("%A").to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment() -> DateTime<Utc> {
        DateTime::from_timestamp(1_795_300_200, 0).unwrap()
    }

    #[test]
    fn an_offset_moves_the_clock_and_the_weekday() {
        let utc = time_in(moment(), "utc").unwrap();
        assert_eq!(utc.time, "2026-11-21T22:30:00Z");
        assert_eq!((utc.offset.as_str(), utc.weekday.as_str()), ("+00:00", "Saturday"));
        let east = time_in(moment(), "+02:00").unwrap();
        assert_eq!(east.line(), "2026-11-22T00:30:00+02:00 (Sunday); 2026-11-21T22:30:00Z in UTC");
        assert_eq!(east.unix, utc.unix);
    }

    #[test]
    fn the_local_clock_shows_the_same_moment() {
        let local = time_in(moment(), "local").unwrap();
        let read = DateTime::parse_from_rfc3339(&local.time).unwrap();
        assert_eq!(read.to_utc(), moment());
    }

    #[test]
    fn an_unknown_time_zone_is_refused_with_a_suggestion() {
        for zone in ["Mars/Olympus", "", "+99:00", "+2"] {
            let error = time_in(moment(), zone).unwrap_err().to_string();
            assert!(error.contains("`UTC`, `local`"), "{error}");
        }
    }
}
