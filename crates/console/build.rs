//! Compresses and hashes the page's files, and writes the list of them that `src/http/assets.rs` includes.
//!
//! All files are served below `/assets/VERSION/`, where VERSION is a hash of them all: a browser may keep them
//! for ever, and a new version of the console has other addresses. Modules import each other by relative
//! addresses, so only the HTML files need to name the version.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

/// Files of other kinds, such as licences, are not served.
const KINDS: [(&str, &str); 4] = [
    ("css", "text/css; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("svg", "image/svg+xml"),
];
/// The line in index.html before which the modules are named, so that a browser loads them side by side and not
/// one import after the other.
const MAIN: &str = "  <script type=\"module\" src=\"/assets/js/main.js\">";

struct Asset {
    name: String,
    kind: &'static str,
    bytes: Vec<u8>,
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=assets");
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("assets");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut assets = Vec::new();
    read(&root, &root, &mut assets)?;
    assets.sort_by(|a, b| a.name.cmp(&b.name));
    let mut all = Sha256::new();
    for asset in &assets {
        all.update(format!("{} {}\n", asset.name, asset.bytes.len()));
        all.update(&asset.bytes);
    }
    let version = URL_SAFE_NO_PAD.encode(&all.finalize()[..9]);
    let modules = preloads(&assets);
    let mut list = format!("const VERSION: &str = {version:?};\nstatic ASSETS: &[Asset] = &[\n");
    for (place, asset) in assets.iter_mut().enumerate() {
        if asset.kind.starts_with("text/html") {
            let html =
                std::str::from_utf8(&asset.bytes)?.replace(MAIN, &format!("{modules}{MAIN}"));
            asset.bytes = html.replace("\"/assets/", &format!("\"/assets/{version}/")).into_bytes();
        }
        fs::write(out.join(format!("{place}.plain")), &asset.bytes)?;
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&asset.bytes)?;
        fs::write(out.join(format!("{place}.gz")), encoder.finish()?)?;
        let tag = URL_SAFE_NO_PAD.encode(&Sha256::digest(&asset.bytes)[..15]);
        writeln!(
            list,
            "Asset {{ name: {:?}, kind: {:?}, tag: \"\\\"{tag}\\\"\", plain: {}, gzip: {} }},",
            asset.name,
            asset.kind,
            included(place, "plain"),
            included(place, "gz"),
        )?;
    }
    fs::write(out.join("assets.rs"), list + "];\n")?;
    Ok(())
}

fn included(place: usize, form: &str) -> String {
    format!("include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{place}.{form}\"))")
}

fn read(root: &Path, folder: &Path, into: &mut Vec<Asset>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read(root, &path, into)?;
            continue;
        }
        let extension = path.extension().and_then(|extension| extension.to_str());
        let Some((_, kind)) = KINDS.iter().find(|(known, _)| Some(*known) == extension) else {
            continue;
        };
        let name = path.strip_prefix(root)?.to_string_lossy().into_owned();
        into.push(Asset { name, kind, bytes: fs::read(&path)? });
    }
    Ok(())
}

/// The modules of the page, which main.js imports, directly or through others.
fn preloads(assets: &[Asset]) -> String {
    let others = ["js/login.js", "js/main.js", "js/theme.js", "js/types.js"];
    let names = assets.iter().map(|asset| asset.name.as_str());
    let modules = names.filter(|name| name.starts_with("js/") && !others.contains(name));
    modules.fold(String::new(), |lines, name| {
        lines + "  <link rel=\"modulepreload\" href=\"/assets/" + name + "\">\n"
    })
}
