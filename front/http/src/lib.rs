//! The HTTP front end: bytes to commands, outcomes to bytes.
//!
//! The life of a request, one verb a stage: accept (`listen`), read (`wire`), address and route (`address`, `route`), authorize
//! (`auth`), parse (`blob/…`), admit and execute (the partition layer), render (`blob/…`, `respond`).

pub mod account;
mod address;
mod app;
mod auth;
mod blob;
mod body;
mod content;
mod copied;
pub mod copies;
mod cors;
mod dispatch;
pub mod events;
mod file;
mod forward;
mod hash;
pub mod issuer;
mod kept;
mod lease;
mod listen;
mod listing;
mod multipart;
pub mod observe;
mod peers;
mod policies;
mod query;
mod queue;
mod request;
mod respond;
mod route;
mod service;
mod settings;
pub mod source;
mod structured;
pub mod table;
pub mod tokens;
pub mod trace;
mod website;
pub mod wire;
mod xml;

/// Tokens, and what signs requests, for programs that are no server.
pub mod client {
    pub use crate::auth::explain::Explanation;
    pub use crate::auth::token::{Judged, Unsigned, Visit, Wanted, authorization, judge, make};
    pub use crate::query::{percent_decode, percent_encode};
}

pub use app::{AccountsSource, App};
pub use auth::on_behalf::OnBehalf;
pub use listen::{Doors, Host, ListenError, Listener, Served, ServiceConnection, Services};
pub use query::percent_decode;
pub use settings::Bell;
