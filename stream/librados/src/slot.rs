//! Where librados puts what a step of a read finds.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

use bytes::Bytes;

use crate::errno::op_error;
use crate::library::{Handle, Library};
use crate::{Found, Look, OpError};

/// One step of a read. It is made before the read is sent, stays where it is, and is read when the read is done.
pub(crate) struct Slot {
    library: &'static Library,
    look: Look,
    code: c_int,
    /// Of keys and values, or of attributes.
    entries: Handle,
    more: u8,
    buffer: Vec<u8>,
    read: usize,
}

// SAFETY: nothing that librados puts into a slot belongs to a thread.
unsafe impl Send for Slot {}

impl Slot {
    /// The step is one that librados can be asked for: no key holds a zero byte, and there is memory for the bytes.
    pub fn new(library: &'static Library, look: Look) -> Result<Slot, OpError> {
        let mut buffer = Vec::new();
        match &look {
            Look::Keys(keys) => keys.iter().try_for_each(check_key)?,
            Look::Range { after, prefix, .. } => check_key(after).and_then(|()| check_key(prefix))?,
            Look::Bytes { bytes, .. } => buffer
                .try_reserve_exact(*bytes)
                .map_err(|_| OpError::Failed { why: format!("no memory for {bytes} bytes") })?,
            Look::Attributes => {}
        }
        Ok(Slot { library, look, code: 0, entries: ptr::null_mut(), more: 0, buffer, read: 0 })
    }

    /// How much the step brings, as far as that is known before.
    pub fn bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Adds the step to a read operation.
    ///
    /// # Safety
    /// The operation is one of librados'; the slot stays where it is, untouched, until the operation is done.
    pub unsafe fn ask(slot: *mut Slot, operation: Handle) {
        // SAFETY: by the caller's promise the places given to librados live until it is done; it copies keys at once.
        unsafe {
            let library = (*slot).library;
            let (entries, code) = (&raw mut (*slot).entries, &raw mut (*slot).code);
            let look: *const Look = &raw const (*slot).look;
            match &*look {
                Look::Keys(keys) => {
                    let (keys, lengths) = columns(keys.iter());
                    let ask = library.rados_read_op_omap_get_vals_by_keys2;
                    ask(operation, keys.as_ptr(), keys.len(), lengths.as_ptr(), entries, code);
                }
                Look::Range { after, prefix, limit } => {
                    let (after, prefix) = (checked_key(after), checked_key(prefix));
                    let ask = library.rados_read_op_omap_get_vals2;
                    ask(operation, after.as_ptr(), prefix.as_ptr(), *limit, entries, &raw mut (*slot).more, code);
                }
                // A length of zero would mean the whole object.
                Look::Bytes { bytes: 0, .. } => (library.rados_read_op_assert_exists)(operation),
                Look::Bytes { offset, bytes } => {
                    let buffer = (&mut *slot).buffer.as_mut_ptr().cast::<c_char>();
                    (library.rados_read_op_read)(operation, *offset, *bytes, buffer, &raw mut (*slot).read, code);
                }
                Look::Attributes => (library.rados_read_op_getxattrs)(operation, entries, code),
            }
        }
    }

    /// What was found, once the whole operation has succeeded.
    pub fn found(mut self) -> Result<Found, OpError> {
        if self.code < 0 {
            return Err(op_error(self.code));
        }
        Ok(match self.look {
            Look::Keys(_) => Found::Entries(self.pairs()?),
            Look::Range { .. } => Found::Page { entries: self.pairs()?, more: self.more != 0 },
            Look::Bytes { .. } => {
                let mut buffer = std::mem::take(&mut self.buffer);
                // SAFETY: librados has filled so many bytes, and never more than there is room for.
                unsafe { buffer.set_len(self.read.min(buffer.capacity())) };
                Found::Bytes(Bytes::from(buffer))
            }
            Look::Attributes => Found::Attributes(self.attributes()?),
        })
    }

    fn pairs(&mut self) -> Result<Vec<(Bytes, Bytes)>, OpError> {
        let mut pairs = Vec::new();
        loop {
            let (mut key, mut value, mut key_bytes, mut value_bytes) = (ptr::null_mut(), ptr::null_mut(), 0, 0);
            // SAFETY: the operation succeeded, so the iterator stands at its first entry or further on.
            let code = unsafe {
                (self.library.rados_omap_get_next2)(
                    self.entries,
                    &mut key,
                    &mut value,
                    &mut key_bytes,
                    &mut value_bytes,
                )
            };
            if code < 0 {
                return Err(op_error(code));
            }
            if key.is_null() {
                return Ok(pairs);
            }
            // SAFETY: both are the iterator's until it ends, and so long.
            pairs.push(unsafe { (copied(key, key_bytes), copied(value, value_bytes)) });
        }
    }

    fn attributes(&mut self) -> Result<Vec<(String, Bytes)>, OpError> {
        let mut attributes = Vec::new();
        loop {
            let (mut name, mut value, mut bytes) = (ptr::null(), ptr::null(), 0);
            // SAFETY: the operation succeeded, so the iterator stands at its first entry or further on.
            let code = unsafe { (self.library.rados_getxattrs_next)(self.entries, &mut name, &mut value, &mut bytes) };
            if code < 0 {
                return Err(op_error(code));
            }
            if name.is_null() {
                attributes.sort();
                return Ok(attributes);
            }
            // SAFETY: both are the iterator's until it goes on; a name ends with a zero, a value is so long.
            attributes.push(unsafe { (CStr::from_ptr(name).to_string_lossy().into_owned(), copied(value, bytes)) });
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.entries.is_null() {
            return;
        }
        // SAFETY: the iterator is ours, whether the operation succeeded or not, and this is its end.
        unsafe {
            match self.look {
                Look::Attributes => (self.library.rados_getxattrs_end)(self.entries),
                _ => (self.library.rados_omap_get_end)(self.entries),
            }
        }
    }
}

/// # Safety
/// There are so many bytes, or none and no place for them.
pub(crate) unsafe fn copied(bytes: *const c_char, length: usize) -> Bytes {
    if bytes.is_null() || length == 0 {
        return Bytes::new();
    }
    // SAFETY: by the caller's promise.
    Bytes::copy_from_slice(unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) })
}

/// Places and lengths, as librados takes lists of byte strings.
pub(crate) fn columns<'a>(items: impl ExactSizeIterator<Item = &'a Bytes>) -> (Vec<*const c_char>, Vec<usize>) {
    items.map(|item| (item.as_ptr().cast::<c_char>(), item.len())).unzip()
}

/// Keys hold no zero byte: a scan takes its beginning as a string that ends with one.
pub(crate) fn check_key(key: &Bytes) -> Result<(), OpError> {
    if key.contains(&0) {
        return Err(OpError::Failed { why: format!("a zero byte in the key {key:?}") });
    }
    Ok(())
}

fn checked_key(key: &Bytes) -> CString {
    CString::new(&key[..]).expect("`new` has looked for zero bytes")
}
