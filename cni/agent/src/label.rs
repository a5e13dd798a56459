// SPDX-License-Identifier: Apache-2.0
//! Enums whose values have one spelling, for metrics, events and logs.

/// Enum with the spellings of its values.
macro_rules! label {
    ($(#[$about:meta])* $name:ident { $($(#[$what:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$what])* $value,)+ }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$value,)+];

            /// Its spelling.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$value => $text,)+ }
            }
        }
    };
}
pub(crate) use label;
