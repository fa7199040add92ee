//! Shared bytes that become a shared text where they are: a text of a gigabyte is not copied to be one.

use std::str::Utf8Error;
use std::sync::Arc;

/// The text that these bytes are.
///
/// # Errors
/// If they are no UTF-8.
pub fn shared_text(bytes: Arc<[u8]>) -> Result<Arc<str>, Utf8Error> {
    std::str::from_utf8(&bytes)?;
    // SAFETY: A `str` is a slice of bytes that are UTF-8, which these are, and they stay what they are for as
    // long as they are shared. Both have the same length, alignment and metadata, so the pointer is that of
    // an `Arc<str>`.
    Ok(unsafe { Arc::from_raw(Arc::into_raw(bytes) as *const str) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_a_text_where_they_are() {
        let bytes: Arc<[u8]> = "h\u{e9}".as_bytes().into();
        let at = bytes.as_ptr();
        let text = shared_text(bytes).expect("it is UTF-8");
        assert_eq!((&*text, text.as_ptr()), ("h\u{e9}", at));
        assert_eq!(&*shared_text(Arc::new([])).expect("nothing is UTF-8"), "");
        assert!(shared_text(Arc::new([0xe9])).is_err());
    }
}
