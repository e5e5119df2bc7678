//! Finds the stacks that run on this machine, by the file that each local run writes into its folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aws_config::Region;
use aws_credential_types::Credentials;
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;

use super::error::StackError;
use crate::Clients;

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

    /// The newest of the runs below `runs` that answers, and its folder.
    ///
    /// # Errors
    /// [`StackError::NoLocal`].
    pub async fn newest(runs: &Path) -> Result<(Self, PathBuf), StackError> {
        for folder in newest_first(runs) {
            let written = fs::read_to_string(folder.join(FILE)).ok();
            let endpoint = written.and_then(|text| serde_json::from_str::<Self>(&text).ok());
            if let Some(endpoint) = endpoint
                && endpoint.answers().await
            {
                return Ok((endpoint, folder));
            }
        }
        Err(StackError::NoLocal { runs: runs.to_owned() })
    }

    async fn answers(&self) -> bool {
        let address = self.endpoint.trim_start_matches("http://");
        let connected = tokio::time::timeout(ANSWERS_WITHIN, TcpStream::connect(address)).await;
        matches!(connected, Ok(Ok(_)))
    }
}

/// The folder itself, since a run can be told to write there, then the runs in it. Their names
/// contain the time, so they sort by it.
fn newest_first(runs: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(runs).map(|entries| entries.flatten().map(|entry| entry.path()));
    let mut folders: Vec<PathBuf> = entries.map(Iterator::collect).unwrap_or_default();
    folders.sort_unstable_by(|a, b| b.cmp(a));
    folders.insert(0, runs.to_owned());
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn of_several_runs_the_newest_that_answers_is_taken() {
        let runs = std::env::temp_dir().join(format!("tidegate-runs-{}", std::process::id()));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let alive = format!("http://{}", listener.local_addr().unwrap());
        let gone = "http://127.0.0.1:9".to_owned();
        let runs_of = [("run-1", &alive), ("run-2", &alive), ("run-3", &gone)];
        for (name, endpoint) in runs_of {
            let folder = runs.join(name);
            fs::create_dir_all(&folder).unwrap();
            let run = LocalEndpoint {
                stack: name.to_owned(),
                endpoint: endpoint.clone(),
                region: "us-east-1".to_owned(),
                key: "test".to_owned(),
            };
            run.write(&folder).unwrap();
        }
        let (found, folder) = LocalEndpoint::newest(&runs).await.unwrap();
        drop(listener);
        let none = LocalEndpoint::newest(&runs).await;
        fs::remove_dir_all(&runs).unwrap();
        assert_eq!((found.stack.as_str(), folder), ("run-2", runs.join("run-2")));
        assert!(matches!(none, Err(StackError::NoLocal { .. })));
    }
}
