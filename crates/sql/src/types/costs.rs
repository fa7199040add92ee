//! What planning goes by: what things cost, which ways may be taken, and how far orders of joins are tried.
//!
//! The names and defaults are PostgreSQL's, and so is the unit, a page that is read in order. What they mean
//! here: rows lie in memory, many to a page, so a page at random stands for one look-up by an index, of which
//! [`LOOKUPS`] cost as much; a row that another host has costs `liger.foreign_row_cost` besides.

/// So many look-ups by an index cost what `random_page_cost` says.
pub const LOOKUPS: f64 = 64.0;
/// What a way costs besides that is switched off.
pub const DISABLED: f64 = 1e10;

/// Costs, and which ways are there.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// `seq_page_cost`: 8 kB of rows in order.
    pub page: f64,
    /// `random_page_cost`: [`LOOKUPS`] look-ups.
    pub random_page: f64,
    /// `cpu_tuple_cost`: a row.
    pub row: f64,
    /// `cpu_index_tuple_cost`: an entry of an index.
    pub entry: f64,
    /// `cpu_operator_cost`: an operator or function.
    pub operator: f64,
    /// `liger.foreign_row_cost`: what a row costs besides that another host has.
    pub foreign_row: f64,
    /// `enable_seqscan`.
    pub full_scans: bool,
    /// `enable_indexscan`.
    pub index_scans: bool,
    /// `enable_bitmapscan`: several ways by indexes together.
    pub bitmap_scans: bool,
    /// `enable_hashjoin`.
    pub hash_joins: bool,
    /// `enable_nestloop`.
    pub loops: bool,
    /// `from_collapse_limit`.
    pub from_limit: usize,
    /// `join_collapse_limit`.
    pub join_limit: usize,
    /// `geqo_threshold`: from so many relations on the order is found step by step.
    pub greedy_from: usize,
    /// `geqo`.
    pub greedy: bool,
    /// `default_statistics_target`.
    pub target: usize,
}

impl Default for Costs {
    fn default() -> Costs {
        Costs {
            page: 1.0,
            random_page: 4.0,
            row: 0.01,
            entry: 0.005,
            operator: 0.0025,
            foreign_row: 0.03,
            full_scans: true,
            index_scans: true,
            bitmap_scans: true,
            hash_joins: true,
            loops: true,
            from_limit: 8,
            join_limit: 8,
            greedy_from: 12,
            greedy: true,
            target: 100,
        }
    }
}

impl Costs {
    /// The settings that it is made of.
    pub const NAMES: [&'static str; 16] = [
        "seq_page_cost",
        "random_page_cost",
        "cpu_tuple_cost",
        "cpu_index_tuple_cost",
        "cpu_operator_cost",
        "liger.foreign_row_cost",
        "enable_seqscan",
        "enable_indexscan",
        "enable_bitmapscan",
        "enable_hashjoin",
        "enable_nestloop",
        "from_collapse_limit",
        "join_collapse_limit",
        "geqo_threshold",
        "geqo",
        "default_statistics_target",
    ];

    /// Takes the value of a setting; another one is passed over.
    pub fn apply(&mut self, name: &str, value: &str) {
        let (real, whole) = (value.parse::<f64>().ok(), value.parse::<usize>().ok());
        let put = |to: &mut f64| *to = real.unwrap_or(*to);
        let count = |to: &mut usize| *to = whole.unwrap_or(*to);
        let on = value == "on";
        match name {
            "seq_page_cost" => put(&mut self.page),
            "random_page_cost" => put(&mut self.random_page),
            "cpu_tuple_cost" => put(&mut self.row),
            "cpu_index_tuple_cost" => put(&mut self.entry),
            "cpu_operator_cost" => put(&mut self.operator),
            "liger.foreign_row_cost" => put(&mut self.foreign_row),
            "enable_seqscan" => self.full_scans = on,
            "enable_indexscan" => self.index_scans = on,
            "enable_bitmapscan" => self.bitmap_scans = on,
            "enable_hashjoin" => self.hash_joins = on,
            "enable_nestloop" => self.loops = on,
            "from_collapse_limit" => count(&mut self.from_limit),
            "join_collapse_limit" => count(&mut self.join_limit),
            "geqo_threshold" => count(&mut self.greedy_from),
            "geqo" => self.greedy = on,
            "default_statistics_target" => count(&mut self.target),
            _ => {}
        }
    }

    /// One look-up by an index.
    pub fn lookup(&self) -> f64 {
        self.random_page / LOOKUPS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_changes_something() {
        for name in Costs::NAMES {
            let mut costs = Costs::default();
            costs.apply(name, "7");
            costs.apply(name, "off");
            assert_ne!(costs, Costs::default(), "{name}");
        }
    }
}
