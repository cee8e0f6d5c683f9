//! Names the template database: a hash of everything that decides what a migrated database looks like.
//!
//! Taken at build time, because `david_schema::migrate` also holds the files as they were at build time.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{fs, io};

fn main() -> io::Result<()> {
    let workspace = Path::new("../..");
    let mut files = BTreeMap::new();
    for dir in ["migrations", "sql"] {
        println!("cargo::rerun-if-changed=../../{dir}");
        collect(&workspace.join(dir), &mut files)?;
    }
    // Stable for one toolchain, which is all a cache key needs.
    let mut hasher = DefaultHasher::new();
    files.hash(&mut hasher);
    println!("cargo::rustc-env=DAVID_TEMPLATE_HASH={:016x}", hasher.finish());
    Ok(())
}

fn collect(dir: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> io::Result<()> {
    if !dir.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.insert(path.clone(), fs::read(&path)?);
        }
    }
    Ok(())
}
