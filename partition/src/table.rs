//! The Table service: tables, entities and their transactions, queries.

pub mod entity;
pub mod filter;
pub mod plan;
pub mod query;
pub mod tables;
pub mod value;
