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

/// The zone with this name: of the time zone database (any case), an abbreviation, or a POSIX text like
/// `UTC+3` or `+05:30` (which counts west, as POSIX does).
pub fn zone(name: &str) -> Option<TimeZone> {
    let lower = name.to_ascii_lowercase();
    if let Some(east) = abbreviation(&lower) {
        return Some(fixed(east));
    }
    let is_full =
        name.contains('/') || name.bytes().all(|b| b.is_ascii_alphabetic()) || name.contains("EST5");
    if is_full && let Ok(zone) = TimeZone::get(name) {
        return Some(zone);
    }
    let digits = name.find(['+', '-']).or_else(|| name.find(|c: char| c.is_ascii_digit()))?;
    let (word, offset) = name.split_at(digits);
    if !word.bytes().all(|b| b.is_ascii_alphabetic()) || word.len() == 1 {
        return None;
    }
    if let Some(zone) = TimeZone::get(name).ok().filter(|_| !word.is_empty()) {
        return Some(zone);
    }
    let west = if offset.starts_with(['+', '-']) {
        super::parse::offset(offset)?
    } else {
        super::parse::offset(&format!("+{offset}"))?
    };
    Some(fixed(-west))
}

/// The zone that is always `east` seconds east.
pub(super) fn fixed(east: i32) -> TimeZone {
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
}
