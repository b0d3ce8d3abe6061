//! What the services promise, as data. Depends on nothing; everything else reads its facts here.

pub mod attributes;
pub mod errors;
pub mod limits;
pub mod names;
pub mod operations;
pub mod rights;
pub mod roles;
pub mod versions;

pub use errors::{ErrorCode, Refusal};
pub use operations::{Operation, OperationId, Service};
pub use versions::ApiVersion;
