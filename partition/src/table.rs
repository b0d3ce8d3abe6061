//! The Table service: tables, entities, transactions, queries.

pub mod filter;
pub mod plan;
pub mod value;
