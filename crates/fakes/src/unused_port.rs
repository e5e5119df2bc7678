use std::io::{self, Read as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

/// A port on loopback for a program that is given its number and binds it later, within a minute.
///
/// The kernel may give a port that was only bound and closed to the next process that asks for any port. Here the
/// side that holds the port closes a connection first, so the port stays in `TIME_WAIT` (a minute on Linux): nobody
/// gets it but a server that asks for this number with `SO_REUSEADDR`, as servers do.
///
/// ```
/// let port = tidegate_fakes::unused_port()?;
/// let server = std::net::TcpListener::bind(("127.0.0.1", port))?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// The system's.
pub fn unused_port() -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let mut client = TcpStream::connect(address)?;
    drop(listener.accept()?);
    // Until the other side has closed.
    client.read_to_end(&mut Vec::new())?;
    Ok(address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unused_port_is_given_to_nobody_who_asks_for_any() {
        let unused: Vec<u16> = (0..200).map(|_| unused_port().unwrap()).collect();
        for _ in 0..20_000 {
            let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            assert!(!unused.contains(&other.local_addr().unwrap().port()));
        }
        for port in unused {
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        }
    }
}
