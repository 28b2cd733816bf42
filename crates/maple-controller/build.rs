//! Embeds the page: the files of `page/dist`, which `make web` builds. Without them the crate has no page, and is built
//! all the same. They are in the crate's folder so that they are in its package, and nobody needs Node to build that.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=page");
    println!("cargo::rustc-check-cfg=cfg(has_page)");
    let folder = |name| env::var_os(name).map(PathBuf::from).ok_or_else(|| io::Error::other(format!("no {name}")));
    let dist = folder("CARGO_MANIFEST_DIR")?.join("page/dist");
    let mut files = Vec::new();
    if dist.join("index.html").is_file() {
        println!("cargo::rustc-cfg=has_page");
        list(&dist, &mut files)?;
    }
    files.sort();
    let mut source = String::from("&[\n");
    for file in &files {
        let path = file.strip_prefix(&dist).map_err(io::Error::other)?;
        // `{:?}` writes a Rust literal.
        let _ = writeln!(
            source,
            "PageFile {{ path: {:?}, kind: {:?}, bytes: include_bytes!({:?}) }},",
            format!("/{}", path.display()),
            kind(file)?,
            file
        );
    }
    source += "]\n";
    fs::write(folder("OUT_DIR")?.join("page.rs"), source)
}

/// Lists the files of a folder and of those in it.
fn list(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns the content type of a file.
fn kind(file: &Path) -> io::Result<&'static str> {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("html") => Ok("text/html; charset=utf-8"),
        Some("js") => Ok("text/javascript; charset=utf-8"),
        Some("css") => Ok("text/css; charset=utf-8"),
        Some("svg") => Ok("image/svg+xml"),
        _ => Err(io::Error::other(format!("{}: the page has no files of this type", file.display()))),
    }
}
