//! Which column may have been meant by one that is not there, as PostgreSQL guesses it: by how many letters
//! its name, and that of its table, differ from what was written.

use super::Scope;

/// Letters that may differ.
const FAR: usize = 3;

/// The nearest columns (table, column) that were found, at most two, and how far they are.
struct Nearest<'s> {
    distance: usize,
    found: Vec<(&'s str, &'s str)>,
}

impl<'s> Nearest<'s> {
    fn consider(&mut self, table: &'s str, column: &'s str, wanted: &str, penalty: usize) {
        if penalty > self.distance {
            return;
        }
        let distance = letters_between(column, wanted);
        let most = (self.distance + 1).saturating_sub(penalty);
        if distance > most || distance > wanted.len() / 2 {
            return;
        }
        let distance = distance + penalty;
        if distance < self.distance {
            self.distance = distance;
            self.found = vec![(table, column)];
        } else if distance == self.distance {
            match self.found.len() {
                0 if distance > FAR => {}
                // As good as no guess at all.
                2 => {
                    self.found.clear();
                    self.distance = distance.saturating_sub(1);
                }
                _ => self.found.push((table, column)),
            }
        }
    }
}

/// The hint about a column that is not there; `table` is the name before it.
pub(super) fn column(scope: &Scope<'_>, table: Option<&str>, name: &str) -> Option<String> {
    let mut nearest = Nearest { distance: FAR + 1, found: Vec::new() };
    for level in std::iter::successors(Some(scope), |scope| scope.parent) {
        for entry in level.entries.iter().filter(|entry| !entry.written.using) {
            let penalty = table.map_or(0, |table| letters_between(table, &entry.name).min(FAR + 2));
            if entry.columns.iter().any(|column| column.name == name) {
                let place = "but it cannot be referenced from this part of the query.";
                let own = &entry.name;
                return Some(format!("There is a column named \"{name}\" in table \"{own}\", {place}"));
            }
            for column in &entry.columns {
                nearest.consider(&entry.name, &column.name, name, penalty);
            }
        }
    }
    let shown = |(table, column): (&str, &str)| format!("the column \"{table}.{column}\"");
    match nearest.found.as_slice() {
        [only] => Some(format!("Perhaps you meant to reference {}.", shown(*only))),
        [one, other] => Some(format!("Perhaps you meant to reference {} or {}.", shown(*one), shown(*other))),
        _ => None,
    }
}

/// How many letters are to be put in, taken out or changed to make one name of the other.
fn letters_between(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, letter) in one.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, its) in other.iter().enumerate() {
            let changed = corner + usize::from(letter != *its);
            corner = row[j + 1];
            row[j + 1] = changed.min(corner + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::letters_between;

    #[test]
    fn letters_are_counted() {
        assert_eq!(letters_between("uunique1", "unique1"), 1);
        assert_eq!(letters_between("kitten", "sitting"), 3);
        assert_eq!(letters_between("", "abc"), 3);
    }
}
