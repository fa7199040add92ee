//! In which order the actions of one ALTER TABLE are carried out: PostgreSQL's, by kind and not as written.
//!
//! 1. What is dropped goes first, then types change, then columns come, then what columns say, then keys,
//!    then the other constraints and defaults. Actions of one kind keep their order.

use crate::parse::ast::{AlterColumn, AlterTable, ConstraintKind};

/// The actions as they follow each other.
pub(super) fn in_order(actions: &[AlterTable]) -> Vec<&AlterTable> {
    let mut ordered: Vec<&AlterTable> = actions.iter().collect();
    ordered.sort_by_key(|action| pass(action));
    ordered
}

fn pass(action: &AlterTable) -> u8 {
    match action {
        AlterTable::DropColumn { .. } | AlterTable::DropConstraint { .. } => 0,
        AlterTable::AddColumn { .. } => 2,
        AlterTable::AddConstraint(constraint) => match constraint.kind {
            ConstraintKind::PrimaryKey(_)
            | ConstraintKind::Unique(..)
            | ConstraintKind::UsingIndex { .. } => 4,
            _ => 5,
        },
        AlterTable::Column(_, change) => match change {
            AlterColumn::DropDefault | AlterColumn::DropNotNull | AlterColumn::DropIdentity { .. } => 0,
            AlterColumn::Type { .. } => 1,
            AlterColumn::SetNotNull => 3,
            AlterColumn::SetDefault(..) | AlterColumn::AddIdentity { .. } => 5,
            // So that SET finds what ADD makes.
            AlterColumn::SetIdentity { .. } => 6,
            AlterColumn::Compression(_) | AlterColumn::Storage(_) | AlterColumn::Statistics(_) => 6,
        },
        _ => 6,
    }
}
