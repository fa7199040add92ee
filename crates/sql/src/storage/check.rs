//! Check.
