//! A list in S3, such as `s3://bucket/november.csv`: it is fetched to a file below `.tidegate`, and read from there.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use tidegate_core::store::Location;

use super::SendArgs;
use crate::page::Tone;
use crate::shell::{CommandError, CommandResult, Shell};

/// The options with the file that has the list; `None` if they name no list in S3.
pub(super) async fn fetched(args: &SendArgs, shell: &Shell) -> CommandResult<Option<SendArgs>> {
    let Some(url) = args.file.to_str().filter(|file| file.starts_with("s3://")) else {
        return Ok(None);
    };
    let refused = |problem: &str| {
        CommandError::Input(format!("{url}: {problem}; allowed is a file, or s3://BUCKET/KEY"))
    };
    let (bucket, key) = url["s3://".len()..].split_once('/').unwrap_or_default();
    let is_path = key.split('/').all(|part| !["", ".", ".."].contains(&part));
    let location = Location::parse(&format!("s3://{bucket}")).filter(|_| is_path);
    let location = location.ok_or_else(|| refused("is no object's address"))?;
    let file: PathBuf = Path::new(".tidegate/s3").join(bucket).join(key);
    let failed = CommandError::of_file(&file, "cannot be written");
    let store = args.on.stack.open().await?.clients().store(location).patient();
    let said = format!("Fetching the list to {} …", file.display());
    shell.output.remark(Tone::Faint, said);
    let missing = || refused("is not there");
    let (mut bytes, version) = store.part(key, 0).await?.ok_or_else(missing)?;
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(&failed)?;
    }
    // Addresses: the owner's alone.
    let options =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&file);
    let (mut to, mut from) = (options.map_err(&failed)?, 0);
    while !bytes.is_empty() {
        to.write_all(&bytes).map_err(&failed)?;
        from += bytes.len() as u64;
        let (next, of) = store.part(key, from).await?.ok_or_else(missing)?;
        if !next.is_empty() && of != version {
            return Err(refused("changed while it was fetched: run the command again"));
        }
        bytes = next;
    }
    Ok(Some(SendArgs { file: file.clone(), ..args.clone() }))
}
