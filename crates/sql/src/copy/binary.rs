//! The binary format: a signature, then for each row a count and for each field a length and its bytes.
//!
//! ```text
//!   "PGCOPY\n\xff\r\n\0"  i32 flags  i32 length, extension  { i16 count { i32 length, bytes } }  i16 -1
//! ```

use super::{Fields, Progress, Step, bad};
use crate::error::Result;

/// What every stream begins with.
pub(super) const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Reads the header as if it were a row.
pub(super) fn header(bytes: &[u8]) -> Result<Step> {
    let compared = bytes.len().min(SIGNATURE.len());
    if bytes[..compared] != SIGNATURE[..compared] {
        return Err(bad("COPY file signature not recognized"));
    }
    let (Some(flags), Some(extension)) = (i32_at(bytes, 11), i32_at(bytes, 15)) else {
        return Ok(Step::More);
    };
    if flags.cast_unsigned() >> 16 != 0 {
        return Err(bad("unrecognized critical flags in COPY file header"));
    }
    let extension = usize::try_from(extension);
    let extension = extension.map_err(|_| bad("invalid COPY file header (wrong length)"))?;
    Ok(if bytes.len() >= 19 + extension { Step::Row(19 + extension) } else { Step::More })
}

/// Reads one row, from the field on that `progress` says.
pub(super) fn step(bytes: &[u8], fields: &mut Fields, progress: &mut Progress) -> Result<Step> {
    let Some(count) = bytes.first_chunk() else { return Ok(Step::More) };
    let count = i16::from_be_bytes(*count);
    if count == -1 {
        return Ok(Step::End);
    }
    progress.at = progress.at.max(2);
    while fields.ranges.len() < usize::try_from(count).unwrap_or(0) {
        let Some(length) = i32_at(bytes, progress.at) else { return Ok(Step::More) };
        let (at, start) = (progress.at + 4, fields.bytes.len());
        progress.at = at;
        if length != -1 {
            let length = usize::try_from(length).map_err(|_| bad("invalid field size"))?;
            let Some(field) = bytes.get(at..at + length) else {
                progress.at -= 4;
                return Ok(Step::More);
            };
            fields.bytes.extend_from_slice(field);
            progress.at += length;
        }
        fields.end(start, length == -1);
    }
    Ok(Step::Row(progress.at))
}
