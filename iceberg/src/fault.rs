//! What is wrong with a piece of a table: its path, what was found there, and what to do about it.
//! A fault concerns one object of one table. Nothing here logs, counts or asks again.

/// A variant says what the caller should do; the text says what a person should know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The bytes are not what their format says. Fetch them once more from the origin itself; if
    /// they stay so, the table's owner has to restore or drop the object.
    #[error("{path}: damaged: {what}")]
    Damaged {
        /// The object, verbatim as the table names it.
        path: Box<str>,
        /// What was found instead of what was due.
        what: Box<str>,
    },
    /// More than this build holds. Leave the object out; its bytes are cached as any other's.
    #[error("{path}: too large: {what} exceed {limit}")]
    TooLarge {
        /// The object, verbatim as the table names it.
        path: Box<str>,
        /// What there is too much of, in the plural, with its unit.
        what: Box<str>,
        /// How much of it is taken.
        limit: u64,
    },
    /// Sound, as far as can be told, but of a kind that this build does not read: encrypted, or of
    /// a later format. Leave the object out; its bytes are cached as any other's.
    #[error("{path}: not read here: {what}")]
    Unsupported {
        /// The object, verbatim as the table names it.
        path: Box<str>,
        /// The kind.
        what: Box<str>,
    },
    /// The object cannot be had: it is gone, forbidden, or not where it can be read. Whoever reads the
    /// table fails on it too; its owner has to restore it, or to allow it to be read.
    #[error("{path}: cannot be read: {what}")]
    Unreadable {
        /// The object, verbatim as the table names it.
        path: Box<str>,
        /// What the store says.
        what: Box<str>,
    },
    /// Two pieces of the table say different things, and the object at `path` is the one that is
    /// not believed. Tell the operator: the program that wrote it errs.
    #[error("{path}: contradicted: {what}")]
    Contradicted {
        /// The object that is not believed.
        path: Box<str>,
        /// What it says, and what says otherwise.
        what: Box<str>,
    },
}

impl Fault {
    /// A [`Fault::Damaged`].
    pub fn damaged(path: &str, what: impl Into<Box<str>>) -> Fault {
        Fault::Damaged { path: path.into(), what: what.into() }
    }

    /// A [`Fault::TooLarge`].
    pub fn too_large(path: &str, what: impl Into<Box<str>>, limit: u64) -> Fault {
        Fault::TooLarge { path: path.into(), what: what.into(), limit }
    }

    /// A [`Fault::Unsupported`].
    pub fn unsupported(path: &str, what: impl Into<Box<str>>) -> Fault {
        Fault::Unsupported { path: path.into(), what: what.into() }
    }

    /// A [`Fault::Unreadable`].
    pub fn unreadable(path: &str, what: impl Into<Box<str>>) -> Fault {
        Fault::Unreadable { path: path.into(), what: what.into() }
    }

    /// A [`Fault::Contradicted`].
    pub fn contradicted(path: &str, what: impl Into<Box<str>>) -> Fault {
        Fault::Contradicted { path: path.into(), what: what.into() }
    }

    /// The object that the fault concerns.
    pub fn path(&self) -> &str {
        match self {
            Fault::Damaged { path, .. }
            | Fault::TooLarge { path, .. }
            | Fault::Unsupported { path, .. }
            | Fault::Unreadable { path, .. }
            | Fault::Contradicted { path, .. } => path,
        }
    }
}

/// Faults of one document, the first few: a file with a million bad elements has one cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    kept: Vec<Fault>,
    more: u64,
}

impl Faults {
    /// Faults that are kept one by one; the rest is only counted.
    pub const FAULTS_MAX: usize = 16;

    /// Takes one more.
    pub fn push(&mut self, fault: Fault) {
        if self.kept.len() < Self::FAULTS_MAX {
            self.kept.push(fault);
        } else {
            self.more += 1;
        }
    }

    /// Takes the fault of what failed, and gives what did not.
    pub fn keep<T>(&mut self, result: Result<T, Fault>) -> Option<T> {
        result.map_err(|fault| self.push(fault)).ok()
    }

    /// Those that were kept, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.kept.iter()
    }

    /// How many there were, those that were not kept included.
    pub fn count(&self) -> u64 {
        self.kept.len() as u64 + self.more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_names_its_object_what_was_found_and_the_limit() {
        let fault = Fault::too_large("s3://b/a#1.avro", "entries", 7);
        assert_eq!(fault.to_string(), "s3://b/a#1.avro: too large: entries exceed 7");
        assert_eq!(fault.path(), "s3://b/a#1.avro");
    }

    #[test]
    fn a_flood_of_faults_is_counted_and_not_kept() {
        let mut faults = Faults::default();
        (0..1000).for_each(|_| faults.push(Fault::damaged("a", "b")));
        assert_eq!((faults.iter().count(), faults.count()), (Faults::FAULTS_MAX, 1000));
    }
}
