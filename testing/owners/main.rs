//! Several gateways: one of them owns a share, requests on it are its, whichever gateway they reach. And what requests cost in operations of
//! the cluster.

mod cost;
mod gateway;
mod rest;
mod smb;
