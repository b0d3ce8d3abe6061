//! Simulation: clients, faults, crashes and clock jumps from one seed, on one thread, checked against a reference model.
//!
//! How a run goes:
//!
//! 1. A seed becomes a `plan`: how many clients and gateways, which faults how often, what the clients like to do.
//! 2. The clients (`client`, and a module per subject: `containers`, `blob`, `queue`, `table`, `file`, `smb`) speak HTTP and SMB over
//!    pipes (`wire`) to the real front ends, rules and turns (`gateway`), several of which may share one store. Between those and
//!    the memory engine sits an engine that is slow, fails, hides outcomes and races (`faulty`). Which task runs next is drawn from
//!    the seed (`executor`).
//! 3. What was asked and answered is a `history`. When the clients are done, a fresh server is asked for everything that is left.
//! 4. `check` looks for an order of all calls that explains every answer by the subject's model.
//!
//! Nothing here knows real time, real chance or another thread, so a seed repeats its run to the last event.

pub mod blob;
pub mod body;
pub mod broken;
pub mod chance;
pub mod check;
pub mod client;
pub mod containers;
pub mod executor;
pub mod faulty;
pub mod file;
pub mod gateway;
pub mod history;
pub mod lease;
pub mod panics;
pub mod plan;
pub mod queue;
pub mod run;
pub mod smb;
pub mod summary;
pub mod table;
pub mod wire;

pub use run::{Failure, run};
pub use summary::Summary;
