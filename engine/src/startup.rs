//! startup: in the making.
