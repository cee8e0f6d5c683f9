//! The macros read these folders while they compile; cargo does not know.

fn main() {
    println!("cargo::rerun-if-changed=../../sql");
    println!("cargo::rerun-if-changed=../../migrations");
    println!("cargo::rerun-if-changed=../../.sqlx");
}
