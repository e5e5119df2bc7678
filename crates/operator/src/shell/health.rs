//! Whether a server answers: the health check of a container, in which there is no other program to ask.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{CommandEnd, CommandError, CommandResult};

const PATIENCE: Duration = Duration::from_secs(5);

/// Asks the server at `address` for `path`. Any first byte is an answer: one that wants TLS sends its alert.
///
/// # Errors
/// [`CommandError::NoAnswer`].
pub async fn check_health(address: SocketAddr, path: &str) -> CommandResult {
    let asked = async {
        let mut stream = TcpStream::connect(address).await?;
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        stream.read_u8().await
    };
    let answer = timeout(PATIENCE, asked).await.unwrap_or_else(|late| Err(late.into()));
    answer.map_err(|source| CommandError::NoAnswer { address, source })?;
    Ok(CommandEnd::Done)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_server_that_answers_is_well_and_one_that_is_silent_or_gone_is_not() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr().unwrap();
        let answering = async {
            let (mut client, _) = server.accept().await.unwrap();
            client.write_all(b"H").await.unwrap();
            let (closed, _) = server.accept().await.unwrap();
            drop(closed);
        };
        let asking = async {
            assert!(check_health(address, "/health").await.is_ok());
            let error = check_health(address, "/health").await.unwrap_err();
            assert_eq!(error.exit_code(), 3);
        };
        tokio::join!(answering, asking);
        drop(server);
        let error = check_health(address, "/health").await.unwrap_err();
        assert_eq!(error.to_string(), format!("nothing answers at {address}"));
    }
}
