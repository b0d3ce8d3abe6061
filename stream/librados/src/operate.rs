//! `Objects` by librados: steps become one compound operation.

use std::ffi::{CStr, c_char, c_int};
use std::ptr;
use std::sync::Arc;

use crate::connect::{Connection, Librados, name};
use crate::flight::fly;
use crate::library::{Handle, Library};
use crate::slot::{Slot, check_key, columns};
use crate::{BoxFuture, Look, Objects, OpError, Order, Pool, Seen, Step};

impl Objects for Librados {
    fn write(&self, pool: Pool, object: &str, steps: Vec<Step>) -> BoxFuture<'static, Result<u64, OpError>> {
        Box::pin(write(self.connection.clone(), pool, object.to_owned(), steps))
    }

    fn read(&self, pool: Pool, object: &str, steps: Vec<Look>) -> BoxFuture<'static, Result<Seen, OpError>> {
        Box::pin(read(self.connection.clone(), pool, object.to_owned(), steps))
    }
}

async fn write(connection: Arc<Connection>, pool: Pool, object: String, mut steps: Vec<Step>) -> Result<u64, OpError> {
    let object = name(&object)?;
    if steps.is_empty() {
        return Err(OpError::Failed { why: "no steps".to_owned() });
    }
    steps.iter().try_for_each(check)?;
    guards_first(&mut steps);
    let bytes = steps.iter().map(step_bytes).sum();
    let landed = fly(&connection, pool, bytes, Vec::new(), |completion, _| {
        send_write(&connection, pool, &object, &steps, completion)
    });
    landed.await.map(|landed| landed.version)
}

async fn read(connection: Arc<Connection>, pool: Pool, object: String, steps: Vec<Look>) -> Result<Seen, OpError> {
    let object = name(&object)?;
    let count = steps.len();
    let slots = steps.into_iter().map(|look| Slot::new(connection.library, look)).collect::<Result<Vec<_>, _>>()?;
    let bytes = slots.iter().map(Slot::bytes).sum();
    let landed = fly(&connection, pool, bytes, slots, |completion, slots| {
        send_read(&connection, pool, &object, slots, count, completion)
    });
    let landed = landed.await?;
    let found = landed.slots.into_iter().map(Slot::found).collect::<Result<_, _>>()?;
    Ok(Seen { version: landed.version, found })
}

/// Refuses what librados cannot be asked for.
fn check(step: &Step) -> Result<(), OpError> {
    match step {
        Step::AttributeIs { name: attribute, .. } => name(attribute).map(drop),
        Step::SetAttribute { name: attribute, .. } | Step::RemoveAttribute { name: attribute } => {
            name(attribute).map(drop)
        }
        Step::Compare { order: Order::Less | Order::Greater, value, .. } if !value.is_ascii() => {
            Err(OpError::Failed { why: format!("a byte above 0x7f in {value:?}, which OSDs order as they like") })
        }
        Step::Compare { key, .. } => check_key(key),
        Step::Put(pairs) => pairs.iter().try_for_each(|(key, _)| check_key(key)),
        Step::Delete(keys) => keys.iter().try_for_each(check_key),
        Step::Exists | Step::Create { .. } | Step::Version(_) | Step::WriteAll(_) | Step::Remove => Ok(()),
    }
}

/// RADOS takes the steps one after another, so that a guard after `Create` would find the object there: guards go
/// first.
fn guards_first(steps: &mut [Step]) {
    steps.sort_by_key(|step| match step {
        Step::Exists | Step::Version(_) | Step::AttributeIs { .. } | Step::Compare { .. } => 0,
        Step::Create { exclusive: true } => 1,
        _ => 2,
    });
}

/// What a step sends; more than half of an operation's memory.
fn step_bytes(step: &Step) -> usize {
    match step {
        Step::AttributeIs { value, .. } | Step::SetAttribute { value, .. } | Step::WriteAll(value) => value.len(),
        Step::Compare { key, value, .. } => key.len() + value.len(),
        Step::Put(pairs) => pairs.iter().map(|(key, value)| key.len() + value.len()).sum(),
        Step::Delete(keys) => keys.iter().map(|key| key.len()).sum(),
        Step::Exists | Step::Create { .. } | Step::Version(_) | Step::RemoveAttribute { .. } | Step::Remove => 0,
    }
}

fn send_write(connection: &Connection, pool: Pool, object: &CStr, steps: &[Step], completion: Handle) -> c_int {
    let library = connection.library;
    // SAFETY: the operation is used here only; librados copies all that the steps point to, and keeps what it needs of
    // the operation when it is sent. The completion has not been used before.
    unsafe {
        let operation = (library.rados_create_write_op)();
        if !steps.iter().any(|step| matches!(step, Step::Exists)) && steps.iter().any(needs_object) {
            (library.rados_write_op_assert_exists)(operation);
        }
        for step in steps {
            add_step(library, operation, step);
        }
        let (pool, object) = (connection.pool(pool), object.as_ptr());
        let code = (library.rados_aio_write_op_operate)(operation, pool, completion, object, ptr::null_mut(), 0);
        (library.rados_release_write_op)(operation);
        code
    }
}

/// # Safety
/// The operation is one of the library's, and has not been sent.
unsafe fn add_step(library: &Library, operation: Handle, step: &Step) {
    let chars = |bytes: &[u8]| bytes.as_ptr().cast::<c_char>();
    let named = |text: &str| name(text).expect("`check` has looked for zero bytes");
    // SAFETY: lengths are those of the slices beside them; names end with a zero and live until the end of the line.
    unsafe {
        match step {
            Step::Exists => (library.rados_write_op_assert_exists)(operation),
            Step::Create { exclusive } => {
                (library.rados_write_op_create)(operation, c_int::from(*exclusive), ptr::null())
            }
            // RADOS refuses to look for version 0. No object has it, nor the last of all numbers.
            Step::Version(0) => (library.rados_write_op_assert_version)(operation, u64::MAX),
            Step::Version(version) => (library.rados_write_op_assert_version)(operation, *version),
            Step::AttributeIs { name, value } => {
                let name = named(name);
                (library.rados_write_op_cmpxattr)(
                    operation,
                    name.as_ptr(),
                    comparison(Order::Equal),
                    chars(value),
                    value.len(),
                );
            }
            Step::Compare { key, order, value } => {
                let compare = library.rados_write_op_omap_cmp2;
                compare(
                    operation,
                    chars(key),
                    comparison(*order),
                    chars(value),
                    key.len(),
                    value.len(),
                    ptr::null_mut(),
                );
            }
            Step::SetAttribute { name, value } => {
                (library.rados_write_op_setxattr)(operation, named(name).as_ptr(), chars(value), value.len());
            }
            Step::RemoveAttribute { name } => (library.rados_write_op_rmxattr)(operation, named(name).as_ptr()),
            Step::Put(pairs) => {
                let (keys, key_lengths) = columns(pairs.iter().map(|(key, _)| key));
                let (values, lengths) = columns(pairs.iter().map(|(_, value)| value));
                let put = library.rados_write_op_omap_set2;
                put(operation, keys.as_ptr(), values.as_ptr(), key_lengths.as_ptr(), lengths.as_ptr(), pairs.len());
            }
            Step::Delete(keys) => {
                let (keys, lengths) = columns(keys.iter());
                (library.rados_write_op_omap_rm_keys2)(operation, keys.as_ptr(), lengths.as_ptr(), keys.len());
            }
            Step::WriteAll(bytes) => (library.rados_write_op_write_full)(operation, chars(bytes), bytes.len()),
            Step::Remove => (library.rados_write_op_remove)(operation),
        }
    }
}

/// Whether the step compares what is in the object: RADOS would compare with nothing where there is none.
fn needs_object(step: &Step) -> bool {
    matches!(step, Step::Version(_) | Step::AttributeIs { .. } | Step::Compare { .. })
}

/// LIBRADOS_CMPXATTR_OP_…
fn comparison(order: Order) -> u8 {
    match order {
        Order::Equal => 1,
        Order::Greater => 3,
        Order::Less => 5,
    }
}

fn send_read(
    connection: &Connection,
    pool: Pool,
    object: &CStr,
    slots: *mut Slot,
    count: usize,
    completion: Handle,
) -> c_int {
    let library = connection.library;
    // SAFETY: the slots are those of the flight, which keeps them until librados is done; the rest as in `send_write`.
    unsafe {
        let operation = (library.rados_create_read_op)();
        if count == 0 {
            // An operation has at least one step.
            (library.rados_read_op_assert_exists)(operation);
        }
        for index in 0..count {
            Slot::ask(slots.add(index), operation);
        }
        let code =
            (library.rados_aio_read_op_operate)(operation, connection.pool(pool), completion, object.as_ptr(), 0);
        (library.rados_release_read_op)(operation);
        code
    }
}
