//! migrating
