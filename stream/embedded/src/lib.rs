//! The default engine; see FORMAT.md beside it.
