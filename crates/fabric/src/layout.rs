//! Byte layouts that leave a host, declared once.
//!
//! [`layout!`] declares a struct with the offset of every field and its total size, and proves at compile
//! time that the offsets are right, that there is no padding, and that every bit pattern is a value (so that
//! damaged memory can be read and then checked). No pointer, reference, bool or enum can occur in one.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A plain layout: no padding, no pointer, any bytes are a value.
pub trait Layout: FromBytes + IntoBytes + Immutable + KnownLayout + Copy {}

impl<T: FromBytes + IntoBytes + Immutable + KnownLayout + Copy> Layout for T {}

/// Declares a shared byte layout.
///
/// ```
/// liger_fabric::layout! {
///     /// Head of a message.
///     pub struct Head: 16 {
///         /// Which message this is.
///         0 => pub sequence: u64,
///         /// Bytes that follow.
///         8 => pub length: u32,
///         /// What it says.
///         12 => pub kind: u32,
///     }
/// }
/// assert_eq!(std::mem::size_of::<Head>(), 16);
/// ```
#[macro_export]
macro_rules! layout {
    ($(#[$meta:meta])* $vis:vis struct $name:ident : $size:literal {
        $($(#[$fmeta:meta])* $offset:literal => $fvis:vis $field:ident : $ty:ty,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[derive($crate::zerocopy::FromBytes, $crate::zerocopy::IntoBytes)]
        #[derive($crate::zerocopy::KnownLayout, $crate::zerocopy::Immutable)]
        #[zerocopy(crate = "::liger_fabric::zerocopy")]
        #[repr(C)]
        $vis struct $name { $($(#[$fmeta])* $fvis $field: $ty,)* }
        const _: () = {
            assert!(::core::mem::size_of::<$name>() == $size, "size");
            $(assert!(::core::mem::offset_of!($name, $field) == $offset, "offset");)*
        };
    };
}
