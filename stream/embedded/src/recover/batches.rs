//! The batches of a journal of fjall, and the order they say they have.
//!
//! ```text
//! batch  01 | u32 items | u64 sequence number        the checksum does not cover these
//!        02 | u8 kind | u8 compression | u64 keyspace | u16 key | u32 value | u32 stored value | key | stored value
//!        04 | u64 keyspace                           or this: all of a keyspace goes
//!        03 | u64 checksum | "FJL" 03
//! ```
//! (fjall 3.1.13, `journal/entry.rs`; little endian.) By its sequence number fjall decides which of two values is the newer and whether a
//! batch is in its tables already. A wrong one would bring old values back, or lose a batch, without a word.

use bytes::Buf;

/// Where each batch begins and its sequence number, as far as there are whole batches.
pub fn sequence(content: &[u8]) -> impl Iterator<Item = (usize, u64)> + '_ {
    let mut rest = content;
    std::iter::from_fn(move || {
        let at = content.len() - rest.len();
        let number = take_batch(&mut rest)?;
        Some((at, number))
    })
}

fn take_batch(rest: &mut &[u8]) -> Option<u64> {
    let mut number = None;
    loop {
        match (rest.try_get_u8().ok()?, number) {
            (1, None) => {
                rest.try_get_u32_le().ok()?;
                number = Some(rest.try_get_u64_le().ok()?);
            }
            (2, Some(_)) => {
                skip(rest, 1 + 1 + 8)?;
                let key = usize::from(rest.try_get_u16_le().ok()?);
                rest.try_get_u32_le().ok()?;
                let value = rest.try_get_u32_le().ok()? as usize;
                skip(rest, key + value)?;
            }
            (4, Some(_)) => skip(rest, 8)?,
            (3, Some(number)) => {
                skip(rest, 8 + 4)?;
                return Some(number);
            }
            _ => return None,
        }
    }
}

fn skip(rest: &mut &[u8], bytes: usize) -> Option<()> {
    *rest = rest.get(bytes..)?;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(number: u64, items: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut out = vec![1];
        out.extend((items.len() as u32).to_le_bytes());
        out.extend(number.to_le_bytes());
        for (key, value) in items {
            out.extend([2, 0, 0]);
            out.extend(7u64.to_le_bytes());
            out.extend((key.len() as u16).to_le_bytes());
            out.extend([(value.len() as u32).to_le_bytes(); 2].concat());
            out.extend([*key, *value].concat());
        }
        out.extend([3, 0, 0, 0, 0, 0, 0, 0, 0]);
        out.extend(b"FJL\x03");
        out
    }

    #[test]
    fn batches_are_found_up_to_the_first_that_is_not_whole() {
        let (a, b) = (batch(5, &[(b"k", b"value"), (b"", b"")]), batch(9, &[]));
        let file = [a.clone(), b.clone(), vec![0; 100]].concat();
        assert_eq!(sequence(&file).collect::<Vec<_>>(), [(0, 5), (a.len(), 9)]);
        for end in 0..a.len() + b.len() {
            let whole = usize::from(end >= a.len());
            assert_eq!(sequence(&file[..end]).count(), whole, "cut at {end}");
        }
    }
}
