//! Finds the stacks that run on this machine, by the file that each local run writes into its folder.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use aws_config::Region;
use aws_credential_types::Credentials;
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;

use super::error::StackError;
use crate::aws::Clients;

/// The file in a run's folder.
const FILE: &str = "stack.json";
/// A local port either answers at once, or nothing listens on it.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// The address and credentials of a stack on this machine, as they are written to the run's folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalEndpoint {
    pub stack: String,
    /// The address of the local AWS, such as `http://127.0.0.1:4566`.
    pub endpoint: String,
    pub region: String,
    /// Access key id and secret access key alike: a local AWS checks neither.
    pub key: String,
}

impl LocalEndpoint {
    pub async fn clients(&self) -> Clients {
        let keys = Credentials::new(&self.key, &self.key, None, None, "local");
        let loader = Clients::loader().endpoint_url(&self.endpoint).credentials_provider(keys);
        Clients::of(loader.region(Region::new(self.region.clone())).load().await)
    }

    /// Writes it into the folder of its run.
    ///
    /// # Errors
    /// The system's.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let text = serde_json::to_string_pretty(self).map_err(io::Error::other)?;
        fs::write(folder.join(FILE), text)
    }

    async fn answers(&self) -> bool {
        let address = self.endpoint.trim_start_matches("http://");
        let connected = tokio::time::timeout(ANSWERS_WITHIN, TcpStream::connect(address)).await;
        matches!(connected, Ok(Ok(_)))
    }
}

/// Where Tidegate's programs keep state for this user: `$XDG_STATE_HOME/tidegate`, or
/// `~/.local/state/tidegate` (XDG Base Directory Specification). None without a home.
fn state_folder() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || Some(Path::new(&std::env::var_os("HOME")?).join(".local/state"));
    let folder = state.filter(|path| path.is_absolute()).or_else(home)?;
    Some(folder.join("tidegate"))
}

/// A local run, whether its stack still runs or not.
#[derive(Clone, Debug)]
pub struct KnownRun {
    /// Such as `run-20261120-203607`.
    pub name: String,
    pub folder: PathBuf,
    pub began: SystemTime,
    pub endpoint: LocalEndpoint,
    /// Whether the local AWS answers.
    pub answers: bool,
}

/// A folder with the folders of local runs, or links to them.
#[derive(Clone, Debug)]
pub struct LocalRuns(PathBuf);

impl LocalRuns {
    /// The runs below `folder`, or the one that was told to write there.
    pub fn below(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// All runs of this user, wherever their folders are: links below [`state_folder`].
    pub fn of_user() -> Self {
        Self(state_folder().unwrap_or_else(|| ".local".into()).join("runs"))
    }

    /// The folder of all runs and links.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Adds a run by a link to `folder`, and returns its name: the folder's, with a number where another
    /// run has it. Removes links to folders that are gone.
    ///
    /// # Errors
    /// The system's.
    pub fn add(&self, folder: &Path) -> io::Result<String> {
        fs::create_dir_all(&self.0)?;
        for entry in fs::read_dir(&self.0)?.flatten() {
            if !entry.path().exists() {
                fs::remove_file(entry.path())?;
            }
        }
        let folder = folder.canonicalize()?;
        let name = folder.file_name().map_or_else(String::new, |name| name.display().to_string());
        let numbered = (2_u32..).map(|number| format!("{name}-{number}"));
        for name in std::iter::once(name.clone()).chain(numbered) {
            let link = self.0.join(&name);
            match symlink(&folder, &link) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if link.canonicalize().is_ok_and(|known| known == folder) {
                        return Ok(name);
                    }
                }
                linked => return linked.map(|()| name),
            }
        }
        Ok(name)
    }

    /// The runs, the newest first.
    pub async fn list(&self) -> Vec<KnownRun> {
        let entries = fs::read_dir(&self.0);
        let entries = entries.map(|entries| entries.flatten().map(|entry| entry.path()));
        let mut folders: Vec<PathBuf> = entries.map(Iterator::collect).unwrap_or_default();
        folders.push(self.0.clone());
        let mut runs = Vec::new();
        for folder in folders {
            let file = folder.join(FILE);
            let endpoint = fs::read_to_string(&file).ok();
            let endpoint =
                endpoint.and_then(|text| serde_json::from_str::<LocalEndpoint>(&text).ok());
            let began = fs::metadata(&file).and_then(|meta| meta.modified());
            let (Some(endpoint), Ok(began)) = (endpoint, began) else { continue };
            let name =
                folder.file_name().map_or_else(String::new, |name| name.display().to_string());
            let answers = endpoint.answers().await;
            let folder = folder.canonicalize().unwrap_or(folder);
            runs.push(KnownRun { name, folder, began, endpoint, answers });
        }
        runs.sort_by(|a, b| (b.began, &b.name).cmp(&(a.began, &a.name)));
        runs
    }

    /// The run called `name`, or the newest that answers.
    ///
    /// # Errors
    /// [`StackError::NoLocal`], [`StackError::NoRun`] and [`StackError::RunEnded`].
    pub async fn select(&self, name: Option<&str>) -> Result<KnownRun, StackError> {
        let mut runs = self.list().await;
        let Some(name) = name else {
            let alive = runs.into_iter().find(|run| run.answers);
            return alive.ok_or_else(|| StackError::NoLocal { runs: self.0.clone() });
        };
        match runs.iter().position(|run| run.name == name) {
            Some(at) if runs[at].answers => Ok(runs.swap_remove(at)),
            Some(at) => Err(StackError::RunEnded {
                name: name.to_owned(),
                folder: runs.swap_remove(at).folder,
            }),
            None => {
                let alive = runs.into_iter().filter(|run| run.answers).map(|run| run.name);
                Err(StackError::NoRun { name: name.to_owned(), known: alive.collect() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(folder: &Path, endpoint: &str) {
        fs::create_dir_all(folder).unwrap();
        let run = LocalEndpoint {
            stack: "tidegate".to_owned(),
            endpoint: endpoint.to_owned(),
            region: "us-east-1".to_owned(),
            key: "test".to_owned(),
        };
        run.write(folder).unwrap();
    }

    #[tokio::test]
    async fn of_several_runs_the_newest_that_answers_is_taken_or_the_one_that_is_named() {
        let folder = std::env::temp_dir().join(format!("tidegate-runs-{}", std::process::id()));
        let runs = LocalRuns::below(folder.join("links"));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let alive = format!("http://{}", listener.local_addr().unwrap());
        let mut names = Vec::new();
        for (place, endpoint) in [
            ("a/run-1", alive.as_str()),
            ("b/run-2", &alive),
            ("c/run-2", &alive),
            ("a/run-3", "http://127.0.0.1:9"),
            ("a/gone", &alive),
        ] {
            run(&folder.join(place), endpoint);
            names.push(runs.add(&folder.join(place)).unwrap());
        }
        let again = runs.add(&folder.join("c/run-2")).unwrap();
        fs::remove_dir_all(folder.join("a/gone")).unwrap();
        let newest = runs.select(None).await;
        let named = runs.select(Some("run-1")).await;
        let ended = runs.select(Some("run-3")).await;
        let unknown = runs.select(Some("run-9")).await;
        let own = LocalRuns::below(folder.join("b/run-2")).select(None).await;
        drop(listener);
        let none = runs.select(None).await;
        runs.add(&folder.join("a/run-1")).unwrap();
        let left = fs::read_dir(folder.join("links")).unwrap().count();
        let real = folder.canonicalize().unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(names, ["run-1", "run-2", "run-2-2", "run-3", "gone"]);
        assert_eq!((again.as_str(), left), ("run-2-2", 4), "a link to nothing is removed");
        assert_eq!(newest.unwrap().folder, real.join("c/run-2"));
        assert_eq!(named.unwrap().folder, real.join("a/run-1"));
        assert_eq!(own.unwrap().name, "run-2");
        assert!(matches!(ended, Err(StackError::RunEnded { .. })));
        assert!(matches!(none, Err(StackError::NoLocal { .. })));
        let said = unknown.unwrap_err().to_string();
        assert!(said.starts_with("no local run is called run-9; there run: run-2-2"), "{said}");
    }
}
