//! The keyword classes of PostgreSQL 15 (kwlist.h): which words may stand as names where.
//!
//! 1. A word in no list may be anything.
//! 2. Lists are sorted: they are searched by halves.

/// Never a name unless quoted.
const RESERVED: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "column",
    "constraint",
    "create",
    "current_catalog",
    "current_date",
    "current_role",
    "current_time",
    "current_timestamp",
    "current_user",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "from",
    "grant",
    "group",
    "having",
    "in",
    "initially",
    "intersect",
    "into",
    "lateral",
    "leading",
    "limit",
    "localtime",
    "localtimestamp",
    "not",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "placing",
    "primary",
    "references",
    "returning",
    "select",
    "session_user",
    "some",
    "symmetric",
    "table",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "variadic",
    "when",
    "where",
    "window",
    "with",
];

/// May name functions and types, not columns or tables.
const FUNCTION_OR_TYPE: &[&str] = &[
    "authorization",
    "binary",
    "collation",
    "concurrently",
    "cross",
    "current_schema",
    "freeze",
    "full",
    "ilike",
    "inner",
    "is",
    "isnull",
    "join",
    "left",
    "like",
    "natural",
    "notnull",
    "outer",
    "overlaps",
    "right",
    "similar",
    "tablesample",
    "verbose",
];

/// May name columns, not functions or types.
const COLUMN_ONLY: &[&str] = &[
    "between",
    "bigint",
    "bit",
    "boolean",
    "char",
    "character",
    "coalesce",
    "dec",
    "decimal",
    "exists",
    "extract",
    "float",
    "greatest",
    "grouping",
    "inout",
    "int",
    "integer",
    "interval",
    "least",
    "national",
    "nchar",
    "none",
    "normalize",
    "nullif",
    "numeric",
    "out",
    "overlay",
    "position",
    "precision",
    "real",
    "row",
    "setof",
    "smallint",
    "substring",
    "time",
    "timestamp",
    "treat",
    "trim",
    "values",
    "varchar",
    "xmlattributes",
    "xmlconcat",
    "xmlelement",
    "xmlexists",
    "xmlforest",
    "xmlnamespaces",
    "xmlparse",
    "xmlpi",
    "xmlroot",
    "xmlserialize",
    "xmltable",
];

/// Not a label unless AS stands before it.
const NEEDS_AS: &[&str] = &[
    "array",
    "as",
    "char",
    "character",
    "create",
    "day",
    "except",
    "fetch",
    "filter",
    "for",
    "from",
    "grant",
    "group",
    "having",
    "hour",
    "intersect",
    "into",
    "isnull",
    "limit",
    "minute",
    "month",
    "notnull",
    "offset",
    "on",
    "order",
    "over",
    "overlaps",
    "precision",
    "returning",
    "second",
    "to",
    "union",
    "varying",
    "where",
    "window",
    "with",
    "within",
    "without",
    "year",
];

fn within(list: &[&str], word: &str) -> bool {
    list.binary_search(&word).is_ok()
}

/// All words of these lists: (word, its class as `pg_get_keywords` says it, whether it may be a label without
/// AS).
pub(crate) fn keywords() -> impl Iterator<Item = (&'static str, char, bool)> {
    let lists = [(RESERVED, 'R'), (FUNCTION_OR_TYPE, 'T'), (COLUMN_ONLY, 'C')];
    let words = lists.into_iter().flat_map(|(list, class)| list.iter().map(move |word| (*word, class)));
    words.map(|(word, class)| (word, class, may_be_bare_label(word)))
}

pub(crate) fn is_reserved(word: &str) -> bool {
    within(RESERVED, word)
}

/// May the unquoted word name a column, a table or an alias?
pub(crate) fn may_name_column(word: &str) -> bool {
    !within(RESERVED, word) && !within(FUNCTION_OR_TYPE, word)
}

/// May the unquoted word name a function or a type?
pub(crate) fn may_name_function(word: &str) -> bool {
    !within(RESERVED, word) && !within(COLUMN_ONLY, word)
}

/// May the unquoted word be a column's label without AS?
pub(crate) fn may_be_bare_label(word: &str) -> bool {
    !within(NEEDS_AS, word)
}

/// Must the word be quoted when it is shown as an identifier (`quote_ident`)?
pub(crate) fn needs_quotes(word: &str) -> bool {
    within(RESERVED, word) || within(FUNCTION_OR_TYPE, word) || within(COLUMN_ONLY, word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted() {
        for list in [RESERVED, FUNCTION_OR_TYPE, COLUMN_ONLY, NEEDS_AS] {
            assert!(list.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}
