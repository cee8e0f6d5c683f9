//! leasing
