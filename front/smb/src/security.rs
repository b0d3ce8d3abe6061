//! Who a client is and how its messages are kept from others: signatures, encryption, NTLM.
//!
//! Everything here is a function of its arguments: no socket, no clock, no chance.

pub mod acceptor;
pub mod kdf;
pub mod ntlm;
pub mod seal;
pub mod sign;
pub mod spnego;

#[cfg(test)]
mod vectors;
