//! What a table is: columns, keys, placement, indexes. Plain data, checked by [`TableSchema::layout`].
//!
//! Invariants of a checked schema:
//! 1. Names are unique and not empty; a row has at most 65535 bytes, a key at most 64.
//! 2. The partition columns are part of the primary key, so that every primary key says where its row lives.
//! 3. Columns of the primary key and of unique indexes are not nullable.

use crate::tables::column::ColumnType;
use crate::tables::layout::TableLayout;

/// A column of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// Name, unique in the table.
    pub name: String,
    /// Type of its values.
    pub ty: ColumnType,
    /// Whether NULL is a value.
    pub nullable: bool,
}

/// A column of a secondary index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexColumn {
    /// Which column of the table, counted from 0.
    pub column: usize,
    /// Larger values first.
    pub descending: bool,
}

/// A secondary index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexSchema {
    /// Name, unique in the table.
    pub name: String,
    /// What it is sorted by.
    pub columns: Vec<IndexColumn>,
    /// Whether two rows must differ in its columns.
    pub unique: bool,
    /// The columns that say where an entry lives, if it does not live with its row (see
    /// [`crate::IndexLayout`]); `None`: the index's first column.
    pub partition_by: Option<Vec<usize>>,
}

/// A table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableSchema {
    /// Name of the table.
    pub name: String,
    /// Columns, in the order of the row's bytes.
    pub columns: Vec<Column>,
    /// Columns of the primary key, in key order.
    pub primary_key: Vec<usize>,
    /// The columns that say in which partition a row lives; `None`: the first column of the primary key. One
    /// integer column places rows by its value modulo the number of partitions, anything else by a hash.
    pub partition_by: Option<Vec<usize>>,
    /// Every host has a copy and nobody changes it after it has been loaded.
    pub replicated: bool,
    /// Secondary indexes.
    pub indexes: Vec<IndexSchema>,
}

/// Why a table cannot be as described.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// A table, column or index without a name.
    #[error("table \"{table}\": a {what} without a name")]
    NoName {
        /// The table.
        table: String,
        /// What has no name.
        what: &'static str,
    },
    /// Two columns or two indexes of one name.
    #[error("table \"{table}\": two {what} are called \"{name}\"")]
    DuplicateName {
        /// The table.
        table: String,
        /// What there are two of.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A key without columns.
    #[error("table \"{table}\": \"{key}\" has no columns")]
    EmptyKey {
        /// The table.
        table: String,
        /// The index, or `primary key`, or `partition by`.
        key: String,
    },
    /// A column occurs twice in a key.
    #[error("table \"{table}\": column \"{column}\" is twice in \"{key}\"")]
    RepeatedColumn {
        /// The table.
        table: String,
        /// The index, or `primary key`, or `partition by`.
        key: String,
        /// The column.
        column: String,
    },
    /// A key names a column that is not there.
    #[error("table \"{table}\": \"{key}\" names column {column} of {columns}")]
    NoSuchColumn {
        /// The table.
        table: String,
        /// The index, or `primary key`, or `partition by`.
        key: String,
        /// The column's number.
        column: usize,
        /// How many the table has.
        columns: usize,
    },
    /// A column that must not be nullable is.
    #[error("table \"{table}\": column \"{column}\" of \"{key}\" is nullable")]
    NullableKey {
        /// The table.
        table: String,
        /// The index, or `primary key`.
        key: String,
        /// The column.
        column: String,
    },
    /// A partition column is not in the key.
    #[error("table \"{table}\": partition column \"{column}\" is not in \"{key}\"")]
    PartitionNotInKey {
        /// The table.
        table: String,
        /// The index, or `primary key`.
        key: String,
        /// The column.
        column: String,
    },
    /// A key is too wide.
    #[error("table \"{table}\": \"{key}\" is {bytes} bytes wide, at most {most} are possible")]
    KeyTooWide {
        /// The table.
        table: String,
        /// The index, or `primary key`.
        key: String,
        /// Its width.
        bytes: usize,
        /// The widest possible.
        most: usize,
    },
    /// A row is too long.
    #[error("table \"{table}\": a row has {bytes} bytes, at most {most} are possible")]
    RowTooLong {
        /// The table.
        table: String,
        /// Bytes of a row.
        bytes: usize,
        /// The longest possible.
        most: usize,
    },
}

impl TableSchema {
    /// A table without columns.
    pub fn new(name: &str) -> TableSchema {
        TableSchema {
            name: name.to_string(),
            columns: Vec::new(),
            primary_key: Vec::new(),
            partition_by: None,
            replicated: false,
            indexes: Vec::new(),
        }
    }

    /// Adds a column that is not nullable.
    #[must_use]
    pub fn column(mut self, name: &str, ty: ColumnType) -> TableSchema {
        self.columns.push(Column { name: name.to_string(), ty, nullable: false });
        self
    }

    /// Adds a nullable column.
    #[must_use]
    pub fn nullable_column(mut self, name: &str, ty: ColumnType) -> TableSchema {
        self.columns.push(Column { name: name.to_string(), ty, nullable: true });
        self
    }

    /// Sets the primary key, by column numbers.
    #[must_use]
    pub fn primary_key(mut self, columns: &[usize]) -> TableSchema {
        self.primary_key = columns.to_vec();
        self
    }

    /// Sets the partition columns, by column numbers.
    #[must_use]
    pub fn partition_by(mut self, columns: &[usize]) -> TableSchema {
        self.partition_by = Some(columns.to_vec());
        self
    }

    /// Makes it a replicated table.
    #[must_use]
    pub fn replicated(mut self) -> TableSchema {
        self.replicated = true;
        self
    }

    /// Adds a secondary index over columns given as (number, descending).
    #[must_use]
    pub fn index(mut self, name: &str, unique: bool, columns: &[(usize, bool)]) -> TableSchema {
        let columns =
            columns.iter().map(|&(column, descending)| IndexColumn { column, descending }).collect();
        self.indexes.push(IndexSchema { name: name.to_string(), columns, unique, partition_by: None });
        self
    }

    /// The number of the column called `name`.
    pub fn column_number(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// The partition columns.
    pub fn partition_columns(&self) -> &[usize] {
        self.partition_by.as_deref().unwrap_or(&self.primary_key[..1])
    }

    /// Checks the schema.
    pub fn validate(&self) -> Result<(), SchemaError> {
        self.layout().map(|_| ())
    }

    /// Checks the schema and computes its byte layouts.
    pub fn layout(&self) -> Result<TableLayout, SchemaError> {
        self.check_names()?;
        let primary = "primary key";
        self.check_key(primary, &self.primary_key, true)?;
        self.check_partitioning(primary, self.partition_columns(), &self.primary_key)?;
        for index in &self.indexes {
            let columns: Vec<usize> = index.columns.iter().map(|part| part.column).collect();
            self.check_key(&index.name, &columns, index.unique)?;
            self.check_partitioning(&index.name, index.partition_columns(), &columns)?;
        }
        let layout = TableLayout::new(self)?;
        assert_eq!(layout.columns.len(), self.columns.len(), "each column has a place");
        assert_eq!(layout.indexes.len(), self.indexes.len(), "each index has a layout");
        Ok(layout)
    }

    fn check_names(&self) -> Result<(), SchemaError> {
        let columns: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        let indexes: Vec<&str> = self.indexes.iter().map(|index| index.name.as_str()).collect();
        for (what, whats, names) in [
            ("table", "tables", vec![self.name.as_str()]),
            ("column", "columns", columns),
            ("index", "indexes", indexes),
        ] {
            for (i, name) in names.iter().enumerate() {
                if name.is_empty() {
                    return Err(SchemaError::NoName { table: self.name.clone(), what });
                }
                if names[..i].contains(name) {
                    let (table, name) = (self.name.clone(), name.to_string());
                    return Err(SchemaError::DuplicateName { table, what: whats, name });
                }
            }
        }
        Ok(())
    }

    /// Checks that `columns` exist, are not empty, do not repeat, and are not nullable where `unique`.
    fn check_key(&self, key: &str, columns: &[usize], unique: bool) -> Result<(), SchemaError> {
        let table = || self.name.clone();
        if columns.is_empty() {
            return Err(SchemaError::EmptyKey { table: table(), key: key.to_string() });
        }
        for (i, &number) in columns.iter().enumerate() {
            let Some(column) = self.columns.get(number) else {
                let columns = self.columns.len();
                return Err(SchemaError::NoSuchColumn {
                    table: table(),
                    key: key.to_string(),
                    column: number,
                    columns,
                });
            };
            let (key, column_name) = (key.to_string(), column.name.clone());
            if columns[..i].contains(&number) {
                return Err(SchemaError::RepeatedColumn { table: table(), key, column: column_name });
            }
            if unique && column.nullable {
                return Err(SchemaError::NullableKey { table: table(), key, column: column_name });
            }
        }
        Ok(())
    }

    fn check_partitioning(&self, key: &str, by: &[usize], columns: &[usize]) -> Result<(), SchemaError> {
        debug_assert!(!columns.is_empty(), "the key was checked before");
        self.check_key("partition by", by, false)?;
        match by.iter().find(|column| !columns.contains(column)) {
            Some(&outside) => Err(SchemaError::PartitionNotInKey {
                table: self.name.clone(),
                key: key.to_string(),
                column: self.columns[outside].name.clone(),
            }),
            None => Ok(()),
        }
    }
}

impl IndexSchema {
    /// The columns that say where an entry lives if it does not live with its row.
    pub fn partition_columns(&self) -> &[usize] {
        match &self.partition_by {
            Some(columns) => columns,
            None => std::slice::from_ref(&self.columns[0].column),
        }
    }
}
