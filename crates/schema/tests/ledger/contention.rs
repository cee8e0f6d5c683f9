//! contention
