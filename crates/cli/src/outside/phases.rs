//! Where the time goes after a host's death: what the hosts' diaries say of it, by kill.
//!
//! Invariants:
//! 1. The diaries are the only source, but for when the host works again, which whoever starts it sees.
//! 2. What no diary has, or another death has undone, has no time: nothing is concluded.
//! 3. A kill's phases end with the next kill of the same host.

use std::collections::BTreeMap;
use std::fmt::Write;

use liger_server::log::time_us;
use serde::Serialize;

use super::history::History;
use super::timeline::Kill;
use crate::pod::PodDir;

/// A phase's name in reports, and the head of its column.
pub const PHASES: [(&str, &str); 18] = [
    ("accused", "accused"),
    ("cut_off", "cut off"),
    ("locks_resolved", "locks"),
    ("log_closed", "closed"),
    ("takeover_begun", "begun"),
    ("logs_hold", "hold"),
    ("logs_read", "read"),
    ("images_opened", "images"),
    ("transactions_ended", "ended"),
    ("rows_joined", "joined"),
    ("taken_over", "taken"),
    ("followed", "followed"),
    ("first_row", "1st row"),
    ("all_rows", "all rows"),
    ("checkpoint", "checkpt"),
    ("released", "released"),
    ("member", "member"),
    ("back", "back"),
];

/// Steps of a takeover that are phases by their names.
const STEPS: [&str; 5] = ["logs_hold", "logs_read", "images_opened", "transactions_ended", "rows_joined"];

/// A line of a diary.
struct Noted {
    at_ns: u64,
    /// Whose diary it is.
    by: usize,
    event: String,
    fields: BTreeMap<String, String>,
}

impl Noted {
    fn number(&self, name: &str) -> Option<u64> {
        self.fields.get(name)?.parse().ok()
    }

    /// Whether it is about this dead host.
    fn is_about(&self, host: usize) -> bool {
        let is_it = |name: &str| name.trim().parse() == Ok(host);
        let names = |field: &String| field.split(',').any(is_it);
        self.fields.get("host").is_some_and(names) || self.fields.get("dead").is_some_and(names)
    }
}

/// What the hosts of a pod have noted, in the order of time.
pub struct Diaries {
    noted: Vec<Noted>,
    hosts: usize,
}

impl Diaries {
    /// Reads what is there by now. The hosts write JSON.
    pub fn read(dir: &PodDir, history: &History) -> Self {
        let said =
            |host| String::from_utf8_lossy(&std::fs::read(dir.said(host)).unwrap_or_default()).into_owned();
        Self::new((0..dir.hosts()).map(said), |us| history.ns_of(us))
    }

    fn new(said: impl ExactSizeIterator<Item = String>, ns_of: impl Fn(i64) -> Option<u64>) -> Self {
        let (hosts, mut noted) = (said.len(), Vec::new());
        for (by, said) in said.enumerate() {
            for line in said.lines() {
                // Others are what a host says when it fails.
                let Ok(mut fields) = serde_json::from_str::<BTreeMap<String, String>>(line) else { continue };
                let at_ns = fields.get("time").and_then(|shown| ns_of(time_us(shown)?));
                let (Some(at_ns), Some(event)) = (at_ns, fields.remove("event")) else { continue };
                let ago_us = fields.get("ago_us").and_then(|ago| ago.parse::<u64>().ok()).unwrap_or(0);
                noted.push(Noted { at_ns: at_ns.saturating_sub(ago_us * 1000), by, event, fields });
            }
        }
        noted.sort_by_key(|noted| noted.at_ns);
        Self { noted, hosts }
    }
}

/// One kill's phases.
#[derive(Serialize)]
pub struct Phases {
    /// Who was killed.
    host: usize,
    /// When, in seconds since the beginning.
    at_s: f64,
    /// Who has taken over.
    successor: Option<usize>,
    /// Partitions that it has taken over.
    partitions: Option<u64>,
    /// What the dead host's log lacked.
    log_tail_bytes: Option<u64>,
    /// Of all logs that were read.
    log_bytes: Option<u64>,
    log_segments: Option<u64>,
    /// Of images that were opened.
    image_bytes: Option<u64>,
    /// By phase: milliseconds since the kill.
    ms: BTreeMap<&'static str, Option<f64>>,
    /// Until the host owned partitions again, handed over to it or taken over.
    owner_again_ms: Option<f64>,
}

/// The events of one kill.
struct After<'d> {
    diaries: &'d Diaries,
    kill: &'d Kill,
    until_ns: u64,
}

impl<'d> After<'d> {
    fn events(&self, event: &'d str) -> impl Iterator<Item = &'d Noted> + use<'d> {
        let range = self.kill.at_ns..self.until_ns;
        self.diaries.noted.iter().filter(move |it| it.event == event && range.contains(&it.at_ns))
    }

    /// Those about the dead host.
    fn about(&self, event: &'d str) -> impl Iterator<Item = &'d Noted> + use<'d> {
        let host = self.kill.host;
        self.events(event).filter(move |it| it.is_about(host))
    }

    /// When the last one of all that are asked had first said it; none if one has not.
    fn all_said(&self, event: &'d str, but: &[Option<usize>]) -> Option<u64> {
        let asked = (0..self.diaries.hosts).filter(|host| !but.contains(&Some(*host)));
        let said: Option<Vec<u64>> =
            asked.map(|host| self.about(event).find(|it| it.by == host).map(|it| it.at_ns)).collect();
        said?.into_iter().max()
    }

    fn phases(&self) -> Phases {
        let dead = self.kill.host;
        let first = |event| self.about(event).next().map(|it| it.at_ns);
        let begun = self.about("takeover_begins");
        let ended = self.about("takeover_ends").next();
        let successor = ended.or(begun.last()).map(|it| it.by);
        let taken_ns = ended.map(|it| it.at_ns);
        let of_successor = |it: &&Noted| Some(it.by) == successor;
        let begun = self.about("takeover_begins").filter(of_successor);
        // One that fails begins again.
        let begun_ns = begun.take_while(|it| taken_ns.is_none_or(|taken_ns| it.at_ns <= taken_ns)).last();
        let begun_ns = begun_ns.map(|it| it.at_ns);
        let step = |name: &str| {
            let is_it = |it: &&Noted| {
                of_successor(it)
                    && it.fields.get("step").is_some_and(|step| step == name)
                    && begun_ns.is_some_and(|begun_ns| begun_ns <= it.at_ns)
            };
            // The last one: a death in between takes it back to the logs.
            self.about("takeover_reaches").filter(is_it).last()
        };
        let at = |it: Option<&Noted>| it.map(|it| it.at_ns);
        let behind = |event: &'d str, from: Option<u64>| {
            let from = from?;
            self.events(event).filter(of_successor).map(|it| it.at_ns).find(|at_ns| *at_ns >= from)
        };
        // From the successor's next takeover on nobody knows of which one it is.
        let joined_ns = at(step("images_opened").and(step("rows_joined")));
        let joins_next = |it: &&Noted| {
            it.fields.get("step").is_some_and(|step| step == "rows_joined") && joined_ns < Some(it.at_ns)
        };
        let next_ns = at(self.events("takeover_reaches").filter(of_successor).find(joins_next));
        let first_row = behind("first_row", joined_ns);
        let first_row = first_row.filter(|at_ns| next_ns.is_none_or(|next_ns| *at_ns < next_ns));
        let mut ns = BTreeMap::from([
            ("accused", first("host_accused")),
            ("cut_off", first("host_cut_off")),
            ("locks_resolved", self.all_said("locks_resolved", &[Some(dead)])),
            ("log_closed", first("log_closed")),
            ("takeover_begun", begun_ns),
            ("taken_over", taken_ns),
            ("first_row", first_row),
            ("all_rows", behind("all_rows", at(step("images_opened")))),
            ("checkpoint", first("takeover_kept")),
            ("released", first("host_released")),
            ("member", self.events("host_started").find(|it| it.by == dead).map(|it| it.at_ns)),
            ("back", self.kill.back_ns),
        ]);
        ns.extend(STEPS.map(|name| (name, at(step(name)))));
        let moved = ended.is_some_and(|it| it.number("partitions") > Some(0)) && self.diaries.hosts > 2;
        let followed = moved.then(|| self.all_said("partitions_followed", &[Some(dead), successor]));
        ns.insert("followed", followed.flatten());
        let is_owner = |it: &&Noted| it.by == dead && it.number("partitions") > Some(0);
        let came = ["partitions_arrived", "takeover_ends"].map(|event| self.events(event).find(is_owner));
        let owner_again = came.into_iter().flatten().map(|it| it.at_ns).min();
        let ms = |at_ns: u64| at_ns.saturating_sub(self.kill.at_ns) as f64 / 1e6;
        debug_assert!(PHASES.iter().all(|(name, _)| ns.contains_key(name)), "each has a time or none");
        Phases {
            host: dead,
            at_s: self.kill.at_ns as f64 / 1e9,
            successor,
            partitions: ended.and_then(|it| it.number("partitions")),
            log_tail_bytes: self.about("log_closed").next().and_then(|it| it.number("bytes")),
            log_bytes: step("logs_read").and_then(|it| it.number("bytes")),
            log_segments: step("logs_read").and_then(|it| it.number("segments")),
            image_bytes: step("images_opened").and_then(|it| it.number("bytes")),
            ms: ns.into_iter().map(|(name, at_ns)| (name, at_ns.map(ms))).collect(),
            owner_again_ms: owner_again.map(ms),
        }
    }
}

/// The phases of all kills.
pub fn of(diaries: &Diaries, kills: &[Kill]) -> Vec<Phases> {
    let of_kill = |(number, kill): (usize, &Kill)| {
        let next = kills[number + 1..].iter().find(|next| next.host == kill.host);
        After { diaries, kill, until_ns: next.map_or(u64::MAX, |next| next.at_ns) }.phases()
    };
    kills.iter().enumerate().map(of_kill).collect()
}

/// A line for each kill.
pub fn table(phases: &[Phases]) -> String {
    let mut text = String::from("\nphases of each kill, ms since it (- has not come)\n");
    let _ = write!(text, "{:>6}{:>5}{:>5}", "at s", "host", "heir");
    PHASES.iter().for_each(|(_, head)| _ = write!(text, "{head:>9}"));
    let _ = writeln!(
        text,
        "{:>9}{:>6}{:>9}{:>9}{:>9}{:>11}",
        "owner", "parts", "tail KiB", "logs MiB", "segments", "images MiB"
    );
    for one in phases {
        let whole = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
        let ms = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
        let shifted = |value: Option<u64>, unit: u64| {
            value.map_or("-".to_owned(), |value| format!("{:.1}", value as f64 / unit as f64))
        };
        let heir = one.successor.map_or("-".to_owned(), |host| host.to_string());
        let _ = write!(text, "{:>6.1}{:>5}{heir:>5}", one.at_s, one.host);
        PHASES.iter().for_each(|(name, _)| _ = write!(text, "{:>9}", ms(one.ms[name])));
        let _ = writeln!(
            text,
            "{:>9}{:>6}{:>9}{:>9}{:>9}{:>11}",
            ms(one.owner_again_ms),
            whole(one.partitions),
            shifted(one.log_tail_bytes, 1 << 10),
            shifted(one.log_bytes, 1 << 20),
            whole(one.log_segments),
            shifted(one.image_bytes, 1 << 20)
        );
    }
    text
}

/// Each phase with the times, in seconds, of the kills after which it came, and when.
pub fn spans(phases: &[Phases]) -> Vec<(&'static str, Vec<(f64, f64)>)> {
    let of = |(name, head): (&str, &'static str)| {
        let span = |one: &Phases| Some((one.at_s, one.at_s + one.ms[name]? / 1e3));
        (head, phases.iter().filter_map(span).collect())
    };
    PHASES.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three hosts' diaries, lines as `(host, ms, event, fields)`; host 1 died at 100 ms.
    fn phases(lines: &[(usize, u64, &str, &str)], kills: &[Kill]) -> Vec<Phases> {
        let mut said = vec!["a host's last words\n".to_owned(); 3];
        for (host, ms, event, fields) in lines {
            let time = liger_server::log::shown_time(*ms as i64 * 1000);
            let _ = writeln!(said[*host], r#"{{"time":"{time}","level":"info","event":"{event}"{fields}}}"#);
        }
        of(&Diaries::new(said.into_iter(), |us| u64::try_from(us * 1000).ok()), kills)
    }

    fn kill(at_ms: u64, host: usize) -> Kill {
        let (hangs, partitions) = Default::default();
        Kill { at_ns: at_ms * 1_000_000, host, hangs, partitions, back_ns: Some((at_ms + 90) * 1_000_000) }
    }

    const DEAD: &str = r#","host":"1""#;
    const TAKEN: &str = r#","dead":"1","partitions":"2""#;

    fn step(name: &str) -> String {
        format!(r#","dead":"1","step":"{name}","bytes":"1048576","segments":"3""#)
    }

    #[test]
    fn what_the_diaries_say_is_told_of_each_kill() {
        let [read, images, joined] = ["logs_read", "images_opened", "rows_joined"].map(step);
        let lines = [
            (0, 90, "log_closed", DEAD),
            (0, 105, "host_accused", r#","host":"1","ago_us":"2000""#),
            (0, 104, "host_cut_off", DEAD),
            (2, 105, "host_cut_off", DEAD),
            (0, 106, "locks_resolved", DEAD),
            (2, 108, "locks_resolved", DEAD),
            (0, 107, "log_closed", r#","host":"1","bytes":"2048""#),
            (0, 109, "takeover_begins", r#","dead":"1""#),
            (0, 110, "takeover_reaches", &read),
            (0, 111, "takeover_reaches", &images),
            // Of another takeover, which had not ended.
            (0, 110, "all_rows", ""),
            // A death takes it back to the logs.
            (0, 112, "takeover_reaches", &read),
            (0, 113, "takeover_reaches", &images),
            (0, 114, "takeover_reaches", &joined),
            (0, 115, "takeover_ends", TAKEN),
            (2, 116, "partitions_followed", DEAD),
            (2, 117, "first_row", ""),
            (0, 118, "first_row", ""),
            (0, 130, "all_rows", ""),
            (0, 140, "takeover_kept", r#","dead":"1, 5""#),
            (0, 141, "host_released", DEAD),
            (1, 150, "host_started", DEAD),
            (0, 240, "host_cut_off", DEAD),
        ];
        let all = phases(&lines, &[kill(100, 1), kill(230, 1), kill(230, 0)]);
        let ms = |of: usize, name| all[of].ms[name];
        let expected = [
            ("accused", 3.0),
            ("cut_off", 4.0),
            ("locks_resolved", 8.0),
            ("log_closed", 7.0),
            ("takeover_begun", 9.0),
            ("logs_read", 12.0),
            ("images_opened", 13.0),
            ("rows_joined", 14.0),
            ("taken_over", 15.0),
            ("followed", 16.0),
            ("first_row", 18.0),
            ("all_rows", 30.0),
            ("checkpoint", 40.0),
            ("released", 41.0),
            ("member", 50.0),
            ("back", 90.0),
        ];
        for (name, at) in expected {
            assert_eq!(ms(0, name), Some(at), "{name}");
        }
        assert_eq!((ms(0, "logs_hold"), all[0].owner_again_ms), (None, None), "nobody has noted it");
        let counts = (all[0].successor, all[0].partitions, all[0].log_tail_bytes, all[0].log_segments);
        assert_eq!(counts, (Some(0), Some(2), Some(2048), Some(3)));
        // What comes behind the next kill of the same host is that one's; a death of its own each.
        assert_eq!((ms(1, "cut_off"), ms(1, "accused"), ms(1, "locks_resolved")), (Some(10.0), None, None));
        assert_eq!((ms(2, "cut_off"), all[2].partitions), (None, None));
        let text = table(&all);
        let heads = text.lines().nth(2).expect("heads").split_whitespace().count();
        let lines: Vec<&str> = text.lines().skip(3).collect();
        assert_eq!(lines.len(), 3, "{text}");
        // Some heads have blanks.
        let blanks = PHASES.iter().filter(|(_, head)| head.contains(' ')).count() + 4;
        assert!(lines.iter().all(|line| line.split_whitespace().count() == heads - blanks), "{text}");
        assert!(text.lines().nth(4).expect("the second").contains(" - "), "{text}");
        let (name, cut_off) = &spans(&all)[1];
        let in_ms = |at: f64| (at * 1000.0).round() as u64;
        let cut_off: Vec<_> = cut_off.iter().map(|(from, to)| (in_ms(*from), in_ms(*to))).collect();
        assert_eq!((*name, cut_off), ("cut off", vec![(100, 104), (230, 240)]));
    }

    #[test]
    fn who_has_not_said_so_is_not_done() {
        let lines = [(0, 106, "locks_resolved", DEAD), (0, 115, "takeover_ends", TAKEN)];
        let all = phases(&lines, &[kill(100, 1)]);
        assert_eq!((all[0].ms["locks_resolved"], all[0].ms["followed"]), (None, None), "host 2 has not");
        assert_eq!((all[0].ms["taken_over"], all[0].ms["takeover_begun"]), (Some(15.0), None));
        // Nothing to follow to.
        let none = r#","dead":"1","partitions":"0""#;
        let all = phases(
            &[(0, 115, "takeover_ends", none), (2, 116, "partitions_followed", DEAD)],
            &[kill(100, 1)],
        );
        assert_eq!((all[0].ms["followed"], all[0].partitions), (None, Some(0)));
    }

    #[test]
    fn rows_of_another_takeover_are_not_this_ones() {
        let joined = step("rows_joined");
        let (begins, opened) = (r#","dead":"1""#, step("images_opened"));
        let later = [(0, 150, "first_row", ""), (0, 160, "all_rows", "")];
        // It had no partitions.
        let none = [(0, 109, "takeover_begins", begins), (0, 114, "takeover_reaches", &*joined)];
        let all = phases(&[&none[..], &later].concat(), &[kill(100, 1)]);
        assert_eq!((all[0].ms["first_row"], all[0].ms["all_rows"]), (None, None));
        // It had, and nobody wanted its rows before the successor took over from somebody else.
        let its = [(0, 113, "takeover_reaches", &*opened)];
        let next = joined.replace(r#""1""#, r#""2""#);
        let next = [(0, 140, "takeover_reaches", &*next)];
        let all = phases(&[&none[..1], &its, &none[1..], &next, &later].concat(), &[kill(100, 1)]);
        assert_eq!((all[0].ms["first_row"], all[0].ms["all_rows"]), (None, Some(60.0)));
        let all = phases(&[&none[..1], &its, &none[1..], &later].concat(), &[kill(100, 1)]);
        assert_eq!(all[0].ms["first_row"], Some(50.0));
    }

    #[test]
    fn a_host_that_takes_over_is_an_owner_again() {
        let lines = [(1, 170, "takeover_ends", r#","dead":"2","partitions":"1""#)];
        assert_eq!(phases(&lines, &[kill(100, 1)])[0].owner_again_ms, Some(70.0));
    }

    #[test]
    fn a_host_to_which_partitions_go_back_is_an_owner_again() {
        let arrived = |by, at| (by, at, "partitions_arrived", r#","host":"0","partitions":"2""#);
        let lines =
            [arrived(2, 140), arrived(1, 150), (1, 170, "takeover_ends", r#","dead":"2","partitions":"1""#)];
        assert_eq!(phases(&lines, &[kill(100, 1)])[0].owner_again_ms, Some(50.0));
    }
}
