//! The contract matrix: for every row, what its columns promise, through the real front end on the memory engine. A new row brings its
//! tests with it: it only needs an example request.

mod authorization;
mod bad_input;
mod batch;
mod conditions;
mod content;
mod copies;
mod cors;
mod encryption;
mod examples;
mod file_copies;
mod files;
mod held;
mod kept;
mod outside;
mod pages;
mod past;
mod printed;
mod rows;
mod shares;
mod smb_clients;
mod staged_leases;
mod strangers;
mod structured;
mod tables;
mod tags;
mod tokens;
mod website;
