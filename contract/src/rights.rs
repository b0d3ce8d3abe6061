//! The rights an access mask is made of (MS-SMB2 2.2.13.1).

pub const READ_DATA: u32 = 0x1;
pub const WRITE_DATA: u32 = 0x2;
pub const APPEND_DATA: u32 = 0x4;
pub const EXECUTE: u32 = 0x20;
pub const READ_ATTRIBUTES: u32 = 0x80;
pub const WRITE_ATTRIBUTES: u32 = 0x100;
pub const DELETE: u32 = 0x1_0000;
pub const READ_CONTROL: u32 = 0x2_0000;
pub const WRITE_DAC: u32 = 0x4_0000;
pub const WRITE_OWNER: u32 = 0x8_0000;
pub const SYNCHRONIZE: u32 = 0x10_0000;
/// Everything there is on a file.
pub const ALL: u32 = 0x1F_01FF;
