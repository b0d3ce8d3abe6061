//! The functions of librados that are called, found in the library at run time: one program runs with Ceph and without.

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

const NAME: &str = "librados.so.2";

/// A connection, a pool's context, an operation, a completion or an iterator: librados owns what is behind it.
pub(crate) type Handle = *mut c_void;

pub(crate) type OnComplete = extern "C" fn(completion: Handle, argument: *mut c_void);
pub(crate) type OnNotify = extern "C" fn(
    argument: *mut c_void,
    notify_id: u64,
    watch: u64,
    notifier: u64,
    payload: *mut c_void,
    payload_bytes: usize,
);
pub(crate) type OnBroken = extern "C" fn(argument: *mut c_void, watch: u64, code: c_int);

/// `struct timeval` of 64-bit Linux.
#[repr(C)]
pub(crate) struct TimeValue {
    pub seconds: i64,
    pub microseconds: i64,
}

macro_rules! functions {
    ($($name:ident($($argument:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        pub(crate) struct Library {
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// What the pointers above point into.
            _library: libloading::Library,
        }

        impl Library {
            fn load() -> Result<Library, libloading::Error> {
                // SAFETY: what librados runs when it is loaded asks nothing of its callers; the types below are those
                // of librados.h, and the pointers do not outlive the library beside them.
                unsafe {
                    let library = libloading::Library::new(NAME)?;
                    Ok(Library {
                        $($name: *library.get(concat!(stringify!($name), "\0").as_bytes())?,)*
                        _library: library,
                    })
                }
            }
        }
    };
}

functions! {
    rados_create2(*mut Handle, *const c_char, *const c_char, u64) -> c_int;
    rados_conf_read_file(Handle, *const c_char) -> c_int;
    rados_conf_set(Handle, *const c_char, *const c_char) -> c_int;
    rados_conf_get(Handle, *const c_char, *mut c_char, usize) -> c_int;
    rados_connect(Handle) -> c_int;
    rados_shutdown(Handle);
    rados_get_instance_id(Handle) -> u64;
    rados_buffer_free(*mut c_char);

    rados_ioctx_create(Handle, *const c_char, *mut Handle) -> c_int;
    rados_ioctx_destroy(Handle);
    rados_stat(Handle, *const c_char, *mut u64, *mut i64) -> c_int;
    rados_ioctx_set_namespace(Handle, *const c_char);
    rados_set_pool_full_try(Handle);

    rados_aio_create_completion2(*mut c_void, Option<OnComplete>, *mut Handle) -> c_int;
    rados_aio_get_return_value(Handle) -> c_int;
    rados_aio_get_version(Handle) -> u64;
    rados_aio_release(Handle);

    rados_create_write_op() -> Handle;
    rados_release_write_op(Handle);
    rados_write_op_assert_exists(Handle);
    rados_write_op_assert_version(Handle, u64);
    rados_write_op_cmpxattr(Handle, *const c_char, u8, *const c_char, usize);
    rados_write_op_omap_cmp2(Handle, *const c_char, u8, *const c_char, usize, usize, *mut c_int);
    rados_write_op_create(Handle, c_int, *const c_char);
    rados_write_op_setxattr(Handle, *const c_char, *const c_char, usize);
    rados_write_op_rmxattr(Handle, *const c_char);
    rados_write_op_omap_set2(Handle, *const *const c_char, *const *const c_char, *const usize, *const usize, usize);
    rados_write_op_omap_rm_keys2(Handle, *const *const c_char, *const usize, usize);
    rados_write_op_write_full(Handle, *const c_char, usize);
    rados_write_op_remove(Handle);
    rados_aio_write_op_operate(Handle, Handle, Handle, *const c_char, *mut c_void, c_int) -> c_int;

    rados_create_read_op() -> Handle;
    rados_release_read_op(Handle);
    rados_read_op_assert_exists(Handle);
    rados_read_op_read(Handle, u64, usize, *mut c_char, *mut usize, *mut c_int);
    rados_read_op_getxattrs(Handle, *mut Handle, *mut c_int);
    rados_read_op_omap_get_vals2(Handle, *const c_char, *const c_char, u64, *mut Handle, *mut u8, *mut c_int);
    rados_read_op_omap_get_vals_by_keys2(Handle, *const *const c_char, usize, *const usize, *mut Handle, *mut c_int);
    rados_aio_read_op_operate(Handle, Handle, Handle, *const c_char, c_int) -> c_int;
    rados_omap_get_next2(Handle, *mut *mut c_char, *mut *mut c_char, *mut usize, *mut usize) -> c_int;
    rados_omap_get_end(Handle);
    rados_getxattrs_next(Handle, *mut *const c_char, *mut *const c_char, *mut usize) -> c_int;
    rados_getxattrs_end(Handle);

    rados_exec(Handle, *const c_char, *const c_char, *const c_char, *const c_char, usize, *mut c_char, usize) -> c_int;
    rados_lock_exclusive(
        Handle, *const c_char, *const c_char, *const c_char, *const c_char, *mut TimeValue, u8,
    ) -> c_int;
    rados_lock_shared(
        Handle, *const c_char, *const c_char, *const c_char, *const c_char, *const c_char, *mut TimeValue, u8,
    ) -> c_int;
    rados_unlock(Handle, *const c_char, *const c_char, *const c_char) -> c_int;
    rados_break_lock(Handle, *const c_char, *const c_char, *const c_char, *const c_char) -> c_int;

    rados_watch3(Handle, *const c_char, *mut u64, Option<OnNotify>, Option<OnBroken>, u32, *mut c_void) -> c_int;
    rados_watch_check(Handle, u64) -> c_int;
    rados_unwatch2(Handle, u64) -> c_int;
    rados_watch_flush(Handle) -> c_int;
    rados_notify2(Handle, *const c_char, *const c_char, c_int, u64, *mut *mut c_char, *mut usize) -> c_int;
    rados_notify_ack(Handle, *const c_char, u64, u64, *const c_char, c_int) -> c_int;
}

static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();

/// Was librados asked for in this process?
pub fn is_loaded() -> bool {
    LIBRARY.get().is_some_and(Result::is_ok)
}

/// Ends the process here and now. The usual way out would run the destructors of librados' statics, while its threads may still be
/// using them: that ends in a crash now and then. Nothing of ours is left to do by then.
pub fn end_process(is_well: bool) -> ! {
    unsafe extern "C" {
        safe fn _exit(code: c_int) -> !;
    }
    _exit(c_int::from(!is_well))
}

/// The library, loaded once for the whole process and never given back: its threads outlive whoever asked for it.
pub(crate) fn library() -> Result<&'static Library, String> {
    let loaded = LIBRARY.get_or_init(|| Library::load().map_err(|error| error.to_string()));
    loaded.as_ref().map_err(|why| {
        format!(
            "{NAME} cannot be loaded ({why}): install Ceph's client library, release 16 or later, \
             Debian package librados2"
        )
    })
}
