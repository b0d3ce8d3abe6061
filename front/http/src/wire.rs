//! HTTP/1.1 as bytes: heads, bodies, connections.
//!
//! Our own, over `httparse`, because the services keep what general servers throw away: the case of metadata names (they come back in
//! listings and headers as they were sent), the path exactly as it was encoded (it is signed), and the reason phrase (it is the
//! error message). See docs/decisions/0005-http.md. Strict where strangers could profit from leniency: one Content-Length, no
//! Transfer-Encoding but `chunked`, never both, no folded headers.

mod body;
mod connection;
mod head;
pub mod link;
mod pace;
mod response;

pub use body::{Body, BodyError, Transport};
pub use connection::{Connection, Limits, serve, turn_away};
pub use head::{BodyKind, Head, HeadError, Names};
pub use response::{Pieces, Response, ResponseBody};
