//! Kinds of a policy: each policy has one name, which configuration and measurements use. The name, the kind and
//! what is built of it stand in one table beside the policies themselves.

/// An enum whose variants have names, in the order in which they are shown.
macro_rules! named_kinds {
    (
        $(#[$meta:meta])*
        pub enum $kinds:ident { $($(#[$doc:meta])* $kind:ident = $name:literal,)* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $kinds { $($(#[$doc])* $kind,)* }

        impl $kinds {
            /// Every one.
            pub const ALL: &'static [$kinds] = &[$($kinds::$kind),*];
            /// Their names, in the same order.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// The name.
            pub const fn name(self) -> &'static str {
                match self { $($kinds::$kind => $name),* }
            }

            /// The one of this name.
            pub fn named(name: &str) -> Option<$kinds> {
                $kinds::ALL.iter().copied().find(|kind| kind.name() == name)
            }
        }

        impl std::fmt::Display for $kinds {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.name())
            }
        }
    };
}

pub(crate) use named_kinds;
