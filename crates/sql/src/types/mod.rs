//! Types: their oids, names and properties.
//!
//! Built-in types have PostgreSQL's oids and are read from a table made from its catalog
//! (`func/data/types.tsv`). Types that users create (enums, domains, rows) are known to the catalog, which
//! stands behind the trait [`Types`].

pub mod array;
pub mod binary;
pub mod bits;
pub(crate) mod bytea;
pub mod context;
pub mod costs;
pub mod datetime;
pub mod inet;
pub mod json;
pub mod jsonpath;
pub mod mac;
pub mod modifier;
pub mod money;
pub mod numeric;
pub mod numeric_math;
pub mod order;
pub mod text;
pub mod value;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Number of a type (or another object of the catalog), PostgreSQL's where it is built in.
pub type Oid = u32;

/// Oids of built-in types.
#[allow(missing_docs, reason = "names are PostgreSQL's types; an array has _ARRAY behind its element")]
pub mod oid {
    use super::Oid;

    pub const BOOL: Oid = 16;
    pub const BYTEA: Oid = 17;
    pub const CHAR: Oid = 18;
    pub const NAME: Oid = 19;
    pub const INT8: Oid = 20;
    pub const INT2: Oid = 21;
    pub const INT2VECTOR: Oid = 22;
    pub const INT4: Oid = 23;
    pub const REGPROC: Oid = 24;
    pub const TEXT: Oid = 25;
    pub const OID: Oid = 26;
    pub const TID: Oid = 27;
    pub const XID: Oid = 28;
    pub const CID: Oid = 29;
    pub const OIDVECTOR: Oid = 30;
    pub const JSON: Oid = 114;
    pub const PG_NODE_TREE: Oid = 194;
    pub const JSON_ARRAY: Oid = 199;
    pub const FLOAT4: Oid = 700;
    pub const FLOAT8: Oid = 701;
    pub const UNKNOWN: Oid = 705;
    pub const BOOL_ARRAY: Oid = 1000;
    pub const BYTEA_ARRAY: Oid = 1001;
    pub const CHAR_ARRAY: Oid = 1002;
    pub const NAME_ARRAY: Oid = 1003;
    pub const INT2_ARRAY: Oid = 1005;
    pub const INT4_ARRAY: Oid = 1007;
    pub const TEXT_ARRAY: Oid = 1009;
    pub const BPCHAR_ARRAY: Oid = 1014;
    pub const VARCHAR_ARRAY: Oid = 1015;
    pub const INT8_ARRAY: Oid = 1016;
    pub const FLOAT4_ARRAY: Oid = 1021;
    pub const FLOAT8_ARRAY: Oid = 1022;
    pub const OID_ARRAY: Oid = 1028;
    pub const CIDR: Oid = 650;
    pub const MACADDR8: Oid = 774;
    pub const MONEY: Oid = 790;
    pub const MACADDR: Oid = 829;
    pub const INET: Oid = 869;
    pub const ACLITEM: Oid = 1033;
    pub const ACLITEM_ARRAY: Oid = 1034;
    pub const BPCHAR: Oid = 1042;
    pub const VARCHAR: Oid = 1043;
    pub const DATE: Oid = 1082;
    pub const TIME: Oid = 1083;
    pub const TIMESTAMP: Oid = 1114;
    pub const TIMESTAMP_ARRAY: Oid = 1115;
    pub const DATE_ARRAY: Oid = 1182;
    pub const TIME_ARRAY: Oid = 1183;
    pub const TIMESTAMPTZ: Oid = 1184;
    pub const TIMESTAMPTZ_ARRAY: Oid = 1185;
    pub const INTERVAL: Oid = 1186;
    pub const INTERVAL_ARRAY: Oid = 1187;
    pub const NUMERIC_ARRAY: Oid = 1231;
    pub const CSTRING_ARRAY: Oid = 1263;
    pub const TIMETZ: Oid = 1266;
    pub const TIMETZ_ARRAY: Oid = 1270;
    pub const BIT: Oid = 1560;
    pub const BIT_ARRAY: Oid = 1561;
    pub const VARBIT: Oid = 1562;
    pub const NUMERIC: Oid = 1700;
    pub const REFCURSOR: Oid = 1790;
    pub const REGPROCEDURE: Oid = 2202;
    pub const REGOPER: Oid = 2203;
    pub const REGOPERATOR: Oid = 2204;
    pub const REGCLASS: Oid = 2205;
    pub const REGTYPE: Oid = 2206;
    pub const RECORD: Oid = 2249;
    pub const CSTRING: Oid = 2275;
    pub const ANY: Oid = 2276;
    pub const ANYARRAY: Oid = 2277;
    pub const VOID: Oid = 2278;
    pub const TRIGGER: Oid = 2279;
    pub const ANYELEMENT: Oid = 2283;
    pub const RECORD_ARRAY: Oid = 2287;
    pub const ANYNONARRAY: Oid = 2776;
    pub const UUID: Oid = 2950;
    pub const UUID_ARRAY: Oid = 2951;
    pub const PG_LSN: Oid = 3220;
    pub const ANYENUM: Oid = 3500;
    pub const REGCONFIG: Oid = 3734;
    pub const REGDICTIONARY: Oid = 3769;
    pub const JSONB: Oid = 3802;
    pub const JSONB_ARRAY: Oid = 3807;
    pub const JSONPATH: Oid = 4072;
    pub const REGNAMESPACE: Oid = 4089;
    pub const REGROLE: Oid = 4096;
    pub const REGCOLLATION: Oid = 4191;
    pub const XID8: Oid = 5069;
    pub const ANYCOMPATIBLE: Oid = 5077;
    pub const ANYCOMPATIBLEARRAY: Oid = 5078;
    pub const ANYCOMPATIBLENONARRAY: Oid = 5079;
}

/// A type with its modifier: `numeric(10,2)`, `varchar(20)`, `timestamp(3)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Type {
    /// The type.
    pub oid: Oid,
    /// PostgreSQL's encoding of what stands in parentheses, or -1 for nothing.
    pub modifier: i32,
}

impl Type {
    /// The type without a modifier.
    pub const fn of(oid: Oid) -> Type {
        Type { oid, modifier: -1 }
    }

    /// `varchar(length)`.
    pub const fn varchar(length: i32) -> Type {
        Type { oid: oid::VARCHAR, modifier: length + 4 }
    }

    /// `char(length)`.
    pub const fn bpchar(length: i32) -> Type {
        Type { oid: oid::BPCHAR, modifier: length + 4 }
    }

    /// `numeric(precision, scale)`.
    pub const fn numeric(precision: i32, scale: i32) -> Type {
        Type { oid: oid::NUMERIC, modifier: ((precision << 16) | (scale & 0x7ff)) + 4 }
    }

    /// Precision and scale of a numeric with a modifier.
    pub const fn precision_scale(self) -> Option<(i32, i32)> {
        if self.modifier < 4 {
            return None;
        }
        let packed = self.modifier - 4;
        Some(((packed >> 16) & 0xffff, ((packed & 0x7ff) ^ 1024) - 1024))
    }
}

/// What kind of type it is: the letters of PostgreSQL's `pg_type.typtype`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum TypeKind {
    Base,
    Composite,
    Domain,
    Enum,
    Pseudo,
}

impl TypeKind {
    /// `pg_type.typtype`.
    pub const fn letter(self) -> char {
        match self {
            TypeKind::Base => 'b',
            TypeKind::Composite => 'c',
            TypeKind::Domain => 'd',
            TypeKind::Enum => 'e',
            TypeKind::Pseudo => 'p',
        }
    }
}

/// What is to be known of a type; fields as in PostgreSQL's `pg_type`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeInfo {
    /// The type.
    pub oid: Oid,
    /// Its name in the catalog (`int4`, `_int4`).
    pub name: Cow<'static, str>,
    /// Bytes of a value, or -1 where they differ.
    pub len: i16,
    /// Whether PostgreSQL passes it by value.
    pub by_value: bool,
    /// What kind of type.
    pub kind: TypeKind,
    /// One letter: A array, B bool, D date, E enum, N number, P pseudo, S string, T interval, U other,
    /// X unknown.
    pub category: char,
    /// Whether it is preferred among the types of its category.
    pub preferred: bool,
    /// Between elements of an array of it.
    pub delimiter: char,
    /// Type of the elements of an array (and of int2vector and the like), or 0.
    pub element: Oid,
    /// Type of arrays of it, or 0.
    pub array: Oid,
    /// c, s, i or d.
    pub align: char,
    /// p, e, m or x.
    pub storage: char,
    /// Collation: 100 (default), 950 ("C") or 0.
    pub collation: Oid,
    /// The type under a domain, or 0.
    pub base: Oid,
    /// Oids of the functions for input, output, receive and send.
    pub functions: [Oid; 4],
}

impl TypeInfo {
    /// Whether it is an array in the proper sense (not int2vector, oidvector).
    pub fn is_array(&self) -> bool {
        self.category == 'A'
            && self.len == -1
            && self.element != 0
            && !matches!(self.oid, oid::INT2VECTOR | oid::OIDVECTOR)
    }
}

/// Where types are looked up: the built-in ones, and in the catalog those that users create.
pub trait Types {
    /// The type with this oid.
    fn type_info(&self, oid: Oid) -> Option<Cow<'_, TypeInfo>>;

    /// A user's type as it has to be written: quoted, and with its schema where its name alone does not find
    /// it.
    fn shown(&self, _oid: Oid) -> Option<String> {
        None
    }

    /// The type of arrays of `element`, or 0.
    fn array_of(&self, element: Oid) -> Oid {
        self.type_info(element).map_or(0, |info| info.array)
    }

    /// The type of the elements if `array` is an array, or 0.
    fn element_of(&self, array: Oid) -> Oid {
        self.type_info(array).map_or(0, |info| if info.is_array() { info.element } else { 0 })
    }

    /// The type itself, or the one under a domain.
    fn base_of(&self, mut oid: Oid) -> Oid {
        while let Some(info) = self.type_info(oid).filter(|info| info.kind == TypeKind::Domain) {
            oid = info.base;
        }
        oid
    }
}

/// The built-in types alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuiltinTypes;

impl Types for BuiltinTypes {
    fn type_info(&self, oid: Oid) -> Option<Cow<'_, TypeInfo>> {
        builtin(oid).map(Cow::Borrowed)
    }
}

struct Builtins {
    types: BTreeMap<Oid, TypeInfo>,
    names: BTreeMap<&'static str, Oid>,
}

fn builtins() -> &'static Builtins {
    static BUILTINS: OnceLock<Builtins> = OnceLock::new();
    BUILTINS.get_or_init(|| {
        let rows = include_str!("../func/data/types.tsv").lines();
        let types: BTreeMap<Oid, TypeInfo> = rows.map(parse_type).map(|t| (t.oid, t)).collect();
        let names = include_str!("../func/data/types.tsv").lines();
        let names = names.map(|row| row.split('\t').nth(1).expect("a type has a name"));
        let names = names.zip(types.keys()).map(|(name, oid)| (name, *oid)).collect();
        Builtins { types, names }
    })
}

fn parse_type(row: &'static str) -> TypeInfo {
    let fields: Vec<&'static str> = row.split('\t').collect();
    let number = |i: usize| fields[i].parse().expect("a number in types.tsv");
    let letter = |i: usize| fields[i].chars().next().expect("a letter in types.tsv");
    TypeInfo {
        oid: number(0),
        name: Cow::Borrowed(fields[1]),
        len: fields[2].parse().expect("a length in types.tsv"),
        by_value: fields[3] == "t",
        kind: match fields[4] {
            "p" => TypeKind::Pseudo,
            _ => TypeKind::Base,
        },
        category: letter(5),
        preferred: fields[6] == "t",
        delimiter: letter(7),
        element: number(8),
        array: number(9),
        align: letter(10),
        storage: letter(11),
        collation: number(12),
        base: 0,
        functions: [number(13), number(14), number(15), number(16)],
    }
}

/// The built-in type with this oid.
pub fn builtin(oid: Oid) -> Option<&'static TypeInfo> {
    builtins().types.get(&oid)
}

/// All built-in types in the order of their oids.
pub fn builtin_types() -> impl Iterator<Item = &'static TypeInfo> {
    builtins().types.values()
}

/// The built-in type with this name in the catalog, or the name that SQL has for it (`integer`,
/// `double precision`), in lower case and without a modifier; `name[]` is an array.
pub fn builtin_by_name(name: &str) -> Option<&'static TypeInfo> {
    if let Some(element) = name.strip_suffix("[]") {
        return builtin(builtin_by_name(element.trim_end_matches("[]"))?.array);
    }
    let name = SQL_NAMES.iter().find(|(sql, _)| *sql == name).map_or(name, |(_, catalog)| catalog);
    builtin(*builtins().names.get(name)?)
}

/// Names that SQL has for built-in types whose name in the catalog differs; the first one of a type is the
/// one that PostgreSQL prints.
pub const SQL_NAMES: &[(&str, &str)] = &[
    ("boolean", "bool"),
    ("smallint", "int2"),
    ("integer", "int4"),
    ("int", "int4"),
    ("bigint", "int8"),
    ("real", "float4"),
    ("double precision", "float8"),
    ("float", "float8"),
    ("numeric", "numeric"),
    ("decimal", "numeric"),
    ("dec", "numeric"),
    ("character varying", "varchar"),
    ("char varying", "varchar"),
    ("character", "bpchar"),
    ("\"char\"", "char"),
    ("bit varying", "varbit"),
    ("time without time zone", "time"),
    ("time with time zone", "timetz"),
    ("timestamp without time zone", "timestamp"),
    ("timestamp with time zone", "timestamptz"),
];

/// The name of a built-in type as PostgreSQL's `format_type` prints it, with its modifier.
pub fn format_builtin(ty: Type) -> Option<String> {
    let info = builtin(ty.oid)?;
    if info.is_array() {
        return Some(format_builtin(Type { oid: info.element, modifier: ty.modifier })? + "[]");
    }
    let printed = SQL_NAMES.iter().find(|(_, catalog)| *catalog == info.name);
    let name = printed.map_or(&*info.name, |(sql, _)| sql);
    let modifier = ty.modifier;
    Some(match ty.oid {
        _ if modifier < 0 => name.to_string(),
        oid::VARCHAR | oid::BPCHAR => format!("{name}({})", modifier - 4),
        oid::BIT | oid::VARBIT => format!("{name}({modifier})"),
        oid::NUMERIC => {
            let (precision, scale) = ty.precision_scale().unwrap_or_default();
            format!("{name}({precision},{scale})")
        }
        oid::TIME | oid::TIMETZ | oid::TIMESTAMP | oid::TIMESTAMPTZ => match name.split_once(' ') {
            Some((first, rest)) => format!("{first}({modifier}) {rest}"),
            None => format!("{name}({modifier})"),
        },
        oid::INTERVAL => name.to_string() + &datetime::interval::fields_of(modifier),
        _ => name.to_string(),
    })
}

/// Names of types as error messages print them, with commas between.
pub fn text_of_types(types: &dyn Types, oids: &[Oid]) -> String {
    let name = |oid: &Oid| {
        format_builtin(Type::of(*oid)).or_else(|| types.shown(*oid)).unwrap_or_else(|| oid.to_string())
    };
    oids.iter().map(name).collect::<Vec<_>>().join(", ")
}
