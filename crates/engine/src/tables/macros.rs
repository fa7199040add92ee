//! Tables known at compile time.

/// Declares a table as a module: a typed handle per column, the row's length, and the schema.
///
/// Column names become lower case in the schema. After the columns, in this order and each but the first
/// optional: `primary key (..);`, `partition by (..);`, `replicated;`, and any number of `index` or
/// `unique index` lines, whose columns may be `desc`.
///
/// ```
/// use liger_engine::{Key, NewRow, table};
///
/// table! {
///     /// Orders of a warehouse.
///     pub mod orders: "orders" {
///         W_ID: SmallInt,
///         ID: Int,
///         CUSTOMER: Text<16>,
///         CARRIER: Null<SmallInt>,
///     }
///     primary key (W_ID, ID);
///     index "orders_by_customer" (W_ID, CUSTOMER, ID desc);
/// }
///
/// let mut row = NewRow::new(orders::ROW_LEN);
/// row.set(orders::W_ID, 3).set(orders::ID, 7).set(orders::CUSTOMER, "BAR");
/// assert_eq!(row.row().get(orders::CUSTOMER), "BAR");
/// assert_eq!(row.row().get(orders::CARRIER), None);
///
/// let layout = orders::schema().layout().expect("a valid schema");
/// assert_eq!(layout.primary.key_of(row.bytes()), Key::build().i16(3).i32(7).finish());
/// let by_customer = Key::build().i16(3).text("BAR", 16).descending(|key| key.col(orders::ID, 7)).finish();
/// assert_eq!(layout.indexes[0].key.key_of(row.bytes()), by_customer);
/// ```
#[macro_export]
macro_rules! table {
    (
        $(#[$meta:meta])*
        $vis:vis mod $module:ident : $name:literal { $($(#[$cmeta:meta])* $column:ident : $ty:ty),+ $(,)? }
        primary key ($($key:ident),+ $(,)?);
        $(partition by ($($by:ident),+ $(,)?);)?
        $(replicated $(@$replicated:tt)?;)?
        $($(unique $(@$unique:tt)?)? index $index:literal ($($part:ident $($desc:ident)?),+ $(,)?);)*
    ) => {
        $(#[$meta])*
        $vis mod $module {
            #[allow(unused_imports)]
            use $crate::{BigInt, Bool, Bytes, Decimal, Int, Null, SmallInt, Text, Timestamp};

            #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
            enum Number { $($column),+ }

            const TYPES: &[($crate::ColumnType, bool)] =
                &[$((<$ty as $crate::ColType>::TYPE, <$ty as $crate::ColType>::NULLABLE)),+];

            $(
                #[doc = concat!("The column `", stringify!($column), "`.")]
                $(#[$cmeta])*
                pub const $column: $crate::Col<$ty> = $crate::Col::new(TYPES, Number::$column as usize);
            )+

            /// Name of the table.
            pub const NAME: &str = $name;

            /// Bytes of a row.
            pub const ROW_LEN: usize = $crate::row_len(TYPES);

            /// What the table is.
            pub fn schema() -> $crate::TableSchema {
                let names = [$(stringify!($column)),+];
                let mut schema = $crate::TableSchema::new($name);
                for (name, (ty, nullable)) in names.into_iter().zip(TYPES) {
                    let name = name.to_ascii_lowercase();
                    schema.columns.push($crate::Column { name, ty: *ty, nullable: *nullable });
                }
                schema.primary_key = vec![$(Number::$key as usize),+];
                $(schema.partition_by = Some(vec![$(Number::$by as usize),+]);)?
                $(schema.replicated = true; $(stringify!($replicated);)?)?
                $(
                    let unique = $crate::table!(@flag $(unique $(@$unique)?)?);
                    let columns = [$((Number::$part as usize, $crate::table!(@desc $($desc)?))),+];
                    schema = schema.index($index, unique, &columns);
                )*
                schema
            }
        }
    };
    (@flag) => { false };
    (@flag unique) => { true };
    (@desc) => { false };
    (@desc desc) => { true };
}
