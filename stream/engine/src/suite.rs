//! What every engine must do.
