//! Bodies that are documents: small, and taken whole.

use contract::{ErrorCode, Refusal};
use partition::Failure;

use crate::wire::{Body, BodyError};

/// All of a body, whose largest size the operation's row has set.
pub async fn receive(body: &mut Body<'_>) -> Result<Vec<u8>, Failure> {
    let mut received = Vec::new();
    loop {
        match body.next(64 * 1024).await {
            Ok(Some(bytes)) => received.extend_from_slice(&bytes),
            Ok(None) => return Ok(received),
            Err(error) => return Err(not_received(&error).into()),
        }
    }
}

pub fn too_large(bytes_max: u64) -> Refusal {
    Refusal::from(ErrorCode::RequestBodyTooLarge).with("MaxLimit", bytes_max.to_string())
}

pub fn not_received(error: &BodyError) -> Refusal {
    match error {
        BodyError::TooLarge { bytes_max } => too_large(*bytes_max),
        BodyError::Stalled => ErrorCode::OperationTimedOut.into(),
        // Nobody may be there to read it.
        _ => Refusal::from(ErrorCode::InvalidInput).with("Reason", error.to_string()),
    }
}
