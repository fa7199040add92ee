//! A text with all edits: what is put before and behind ranges, which lie apart or one in the other.

use std::ops::Range;

/// What is put around a range of the text; around an empty one, what is put there.
#[derive(Debug)]
pub struct Edit {
    pub number: u32,
    pub range: Range<usize>,
    pub before: String,
    pub behind: String,
}

/// The text with its edits, and where each of them stands then.
pub fn rewrite(text: &str, edits: &[Edit]) -> (String, Vec<(u32, Range<usize>)>) {
    let mut inward: Vec<&Edit> = edits.iter().collect();
    // What is only put there comes before all that begins there, and what is longer before what is shorter.
    inward.sort_by_key(|edit| {
        (edit.range.start, !edit.range.is_empty(), usize::MAX - edit.range.end, edit.number)
    });
    let (mut out, mut done, mut places) = (String::new(), 0, Vec::new());
    let mut open: Vec<(&Edit, usize)> = Vec::new();
    let mut rest = inward.into_iter().peekable();
    loop {
        let ends = open.last().map(|(edit, _)| edit.range.end);
        let starts = rest.peek().map(|edit| edit.range.start);
        let closes = match (ends, starts) {
            (None, None) => break,
            (Some(end), Some(start)) => end <= start,
            (end, _) => end.is_some(),
        };
        let at = if closes { ends } else { starts }.expect("one of them is there");
        out.push_str(&text[done..at]);
        done = at;
        if closes {
            let (edit, began) = open.pop().expect("it is open");
            out.push_str(&edit.behind);
            places.push((edit.number, began..out.len()));
        } else {
            let edit = rest.next().expect("it was there");
            open.push((edit, out.len()));
            out.push_str(&edit.before);
        }
    }
    out.push_str(&text[done..]);
    (out, places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_lie_one_in_the_other() {
        let edit = |number, range, before: &str, behind: &str| Edit {
            number,
            range,
            before: before.to_string(),
            behind: behind.to_string(),
        };
        let edits = [
            edit(1, 3..4, "<", ">"),
            edit(2, 2..4, "[", "]"),
            edit(3, 2..2, "!", ""),
            edit(4, 4..4, "?", ""),
            edit(5, 0..6, "(", ")"),
        ];
        let (text, places) = rewrite("abcdef", &edits);
        assert_eq!(text, "(ab![c<d>]?ef)");
        let texts: Vec<(u32, &str)> = places.into_iter().map(|(number, at)| (number, &text[at])).collect();
        assert_eq!(texts, [(3, "!"), (1, "<d>"), (2, "[c<d>]"), (4, "?"), (5, "(ab![c<d>]?ef)")]);
    }
}
