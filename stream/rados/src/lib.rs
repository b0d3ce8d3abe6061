//! The engine on Ceph RADOS.
