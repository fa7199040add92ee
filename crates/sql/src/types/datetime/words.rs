//! Words in dates and times: months, days of the week, and names of time zones.

use jiff::tz::{Offset, TimeZone};

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const DAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

/// The month that a word in lower case names (`jan`, `january`, `sept`), from 1.
pub(super) fn month(word: &str) -> Option<i64> {
    let found = MONTHS.iter().position(|name| *name == word || &name[..3] == word);
    found.map(|at| at as i64 + 1).or((word == "sept").then_some(9))
}

/// Whether a word in lower case names a day of the week.
pub(super) fn is_weekday(word: &str) -> bool {
    let other = ["tues", "weds", "wednes", "thur", "thurs"];
    DAYS.iter().any(|name| *name == word || &name[..3] == word) || other.contains(&word)
}

/// Abbreviations of zones with their offsets in minutes east (of PostgreSQL's default set, those that are in
/// use).
const ABBREVIATIONS: &[(&str, i32)] = &[
    ("acdt", 630),
    ("acst", 570),
    ("adt", -180),
    ("aedt", 660),
    ("aest", 600),
    ("akdt", -480),
    ("akst", -540),
    ("art", -180),
    ("ast", -240),
    ("awst", 480),
    ("bdt", 360),
    ("bnt", 480),
    ("bot", -240),
    ("brst", -120),
    ("brt", -180),
    ("bst", 60),
    ("cadt", 630),
    ("cast", 570),
    ("cct", 480),
    ("cdt", -300),
    ("cest", 120),
    ("cet", 60),
    ("clst", -180),
    ("clt", -240),
    ("cot", -300),
    ("cst", -360),
    ("cxt", 420),
    ("eat", 180),
    ("edt", -240),
    ("eest", 180),
    ("eet", 120),
    ("egst", 0),
    ("egt", -60),
    ("est", -300),
    ("fjt", 720),
    ("gft", -180),
    ("gmt", 0),
    ("gyt", -240),
    ("hkt", 480),
    ("hst", -600),
    ("ict", 420),
    ("idt", 180),
    ("ist", 120),
    ("jst", 540),
    ("kst", 540),
    ("mart", -570),
    ("mdt", -360),
    ("mest", 120),
    ("met", 60),
    ("mmt", 390),
    ("msd", 240),
    ("msk", 180),
    ("mst", -420),
    ("ndt", -150),
    ("nst", -210),
    ("nzdt", 780),
    ("nzst", 720),
    ("pdt", -420),
    ("pet", -300),
    ("pgt", 600),
    ("phot", 780),
    ("pht", 480),
    ("pkt", 300),
    ("pst", -480),
    ("pyt", -240),
    ("sast", 120),
    ("sgt", 480),
    ("uct", 0),
    ("ut", 0),
    ("utc", 0),
    ("uyt", -180),
    ("wadt", 480),
    ("wast", 420),
    ("wat", 60),
    ("wdt", 540),
    ("west", 60),
    ("wet", 0),
    ("wst", 480),
    ("z", 0),
    ("zulu", 0),
];

/// Offset in seconds east of an abbreviation in lower case.
pub(super) fn abbreviation(word: &str) -> Option<i32> {
    let at = ABBREVIATIONS.binary_search_by(|(name, _)| (*name).cmp(word)).ok()?;
    Some(ABBREVIATIONS[at].1 * 60)
}

/// The zone with this name: an abbreviation, or what [`named_zone`] finds.
pub fn zone(name: &str) -> Option<TimeZone> {
    match abbreviation(&name.to_ascii_lowercase()) {
        Some(east) => Some(fixed(east)),
        None => named_zone(name).map(|(_, zone)| zone),
    }
}

/// The zone of the time zone database with this name (in any case), or that of a POSIX text like `UTC+3`,
/// `+05:30` or `EST5EDT,M3.2.0,M11.1.0` (which counts west, as POSIX does); and how it is called
/// (`pg_tzset`).
pub fn named_zone(name: &str) -> Option<(String, TimeZone)> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'_' | b'-' | b'+');
    if name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(is_name)
        && let Ok(zone) = TimeZone::get(name)
    {
        let called = zone.iana_name().unwrap_or(name).to_string();
        return Some((called, zone));
    }
    Some((name.to_ascii_uppercase(), posix(name)?))
}

/// The daylight saving time of a POSIX text that does not say when it is: that of the United States.
const DEFAULT_RULE: &str = ",M3.2.0,M11.1.0";

fn posix(text: &str) -> Option<TimeZone> {
    let named = match text.strip_prefix('<') {
        Some(quoted) => quoted.find('>')? + 2,
        None => text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len()),
    };
    let (word, rest) = text.split_at(named);
    let sign = usize::from(rest.starts_with(['+', '-']));
    let end =
        sign + rest[sign..].find(|c: char| !c.is_ascii_digit() && c != ':').unwrap_or(rest.len() - sign);
    let (offset, saving) = rest.split_at(end);
    if offset.len() == sign {
        return None;
    }
    let west = super::parse::offset(&if sign == 0 { format!("+{offset}") } else { offset.to_string() })?;
    if saving.is_empty() {
        // The library wants names of three letters, and no colon between < and >.
        let is_odd = word.len() < 3 || word.starts_with('<');
        return TimeZone::posix(text).ok().or_else(|| is_odd.then(|| fixed(-west)));
    }
    let rule = if saving.contains(',') { "" } else { DEFAULT_RULE };
    TimeZone::posix(&format!("{text}{rule}")).ok()
}

/// The zone that is always `east` seconds east.
pub fn fixed(east: i32) -> TimeZone {
    match east {
        0 => TimeZone::UTC,
        _ => TimeZone::fixed(Offset::from_seconds(east).expect("offsets are within 26 hours")),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn abbreviations_are_sorted() {
        assert!(super::ABBREVIATIONS.is_sorted());
        assert_eq!(super::abbreviation("pst"), Some(-8 * 3600));
        assert!(super::zone("europe/berlin").is_some() && super::zone("nowhere").is_none());
    }

    #[test]
    fn posix_counts_west() {
        let east = |name| super::zone(name).map(|zone| super::super::offset_at(&zone, 0));
        assert_eq!(east("UTC+2"), Some(-7200));
        assert_eq!(east("GMT-02:00"), Some(7200));
        assert_eq!(east("+05:30"), Some(-19_800));
        assert_eq!(east("<-02>+02"), Some(-7200));
        assert_eq!(east("EST5EDT"), Some(-18_000));
        assert_eq!(east("FOO5BAR"), Some(-18_000));
        assert_eq!((east("FOO"), east("5x"), east("UTC+")), (None, None, None));
    }
}
