//! Shares of several gateways: one of them owns a share, requests on it are its, whichever gateway they reach.

mod gateway;
mod rest;
mod smb;
