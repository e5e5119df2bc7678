//! Asks the system's resolver for MX records, over UDP, and over TCP where an answer is truncated (RFC 1035, 4.2).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, Question, RCODE, TYPE, header_buffer};
use tidegate_operate::domains::{LookupError, MailExchangers};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::shell::CommandError;

/// The system's list of resolvers (resolv.conf(5)).
const SYSTEM: &str = "/etc/resolv.conf";
/// Tries of one domain, at the resolvers in turn.
const TRIES: usize = 3;
/// Longest wait for one answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longer than any answer over UDP to a question without EDNS, which is 512 bytes.
const LONGEST: usize = 4_096;

/// The resolvers to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resolver {
    servers: Vec<SocketAddr>,
    patience: Duration,
}

/// The address of a resolver: `9.9.9.9`, `[2620:fe::fe]:53`; port 53 unless given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResolverAddress(SocketAddr);

impl FromStr for ResolverAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let with_port = || text.parse::<IpAddr>().ok().map(|ip| SocketAddr::from((ip, 53)));
        let address = text.parse().ok().or_else(with_port);
        address
            .map(Self)
            .ok_or("allowed is an IP address with or without a port: 9.9.9.9, [::1]:5353")
    }
}

impl Resolver {
    /// That address, or those of the system.
    ///
    /// # Errors
    /// `/etc/resolv.conf` that cannot be read, or names none.
    pub(super) fn new(asked: Option<ResolverAddress>) -> Result<Self, CommandError> {
        if let Some(ResolverAddress(server)) = asked {
            return Ok(Self { servers: vec![server], patience: PATIENCE });
        }
        let text = std::fs::read_to_string(SYSTEM).map_err(|source| CommandError::File {
            path: Path::new(SYSTEM).to_owned(),
            doing: "cannot be read; --resolver IP names a resolver",
            source,
        })?;
        let servers = servers(&text);
        if servers.is_empty() {
            let said = format!("{SYSTEM} names no resolver; --resolver IP does");
            return Err(CommandError::Input(said));
        }
        Ok(Self { servers, patience: PATIENCE })
    }

    async fn ask(&self, server: SocketAddr, asked: &Asked<'_>) -> Result<Answer, LookupError> {
        let own = match server {
            SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        };
        // A port and an id of its own: what others send is not taken for the answer.
        let socket = UdpSocket::bind((own, 0)).await.map_err(unreachable)?;
        socket.connect(server).await.map_err(unreachable)?;
        socket.send(&asked.bytes).await.map_err(unreachable)?;
        let mut answer = Err(LookupError::Silent);
        let mut buffer = vec![0; LONGEST];
        let listen = async {
            loop {
                match socket.recv(&mut buffer).await {
                    Ok(length) => match asked.answer(&buffer[..length]) {
                        Some(found) => break answer = Ok(found),
                        None => answer = Err(LookupError::Unreadable),
                    },
                    Err(error) => break answer = Err(unreachable(error)),
                }
            }
        };
        // Its end is told by the answer.
        let _ = timeout(self.patience, listen).await;
        match answer {
            Ok(Answer::Truncated) => {
                let whole = timeout(self.patience, asked.over_tcp(server)).await;
                whole.unwrap_or(Err(LookupError::Silent))
            }
            answer => answer,
        }
    }
}

impl MailExchangers for Resolver {
    async fn of_domain(&self, domain: &str) -> Result<Vec<String>, LookupError> {
        let asked = Asked::new(domain, rand::random())?;
        let mut last = LookupError::Silent;
        for server in self.servers.iter().cycle().take(TRIES) {
            match self.ask(*server, &asked).await {
                Ok(Answer::Hosts(hosts)) => return Ok(hosts),
                Ok(Answer::NoDomain) => return Err(LookupError::NoDomain),
                Ok(Answer::Refused(code)) => last = LookupError::Refused(code),
                Ok(Answer::Truncated) => last = LookupError::Unreadable,
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "map_err gives it")]
fn unreachable(error: io::Error) -> LookupError {
    LookupError::Unreachable(error.to_string())
}

/// One question, as it is sent.
struct Asked<'a> {
    domain: Name<'a>,
    id: u16,
    bytes: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Hosts(Vec<String>),
    NoDomain,
    Refused(String),
    Truncated,
}

impl<'a> Asked<'a> {
    fn new(domain: &'a str, id: u16) -> Result<Self, LookupError> {
        let no_name = |_| LookupError::NoDomain;
        let domain = Name::new(domain).map_err(no_name)?;
        let mut query = Packet::new_query(id);
        query.set_flags(PacketFlag::RECURSION_DESIRED);
        let question = Question::new(domain.clone(), TYPE::MX.into(), CLASS::IN.into(), false);
        query.questions.push(question);
        let bytes = query.build_bytes_vec().map_err(no_name)?;
        Ok(Self { domain, id, bytes })
    }

    /// The answer in a packet; `None` if it is none to this question.
    fn answer(&self, packet: &[u8]) -> Option<Answer> {
        // Some resolvers cut a record in the middle, so that such a packet cannot be parsed.
        let cut = PacketFlag::RESPONSE | PacketFlag::TRUNCATION;
        if header_buffer::id(packet) == Ok(self.id)
            && header_buffer::has_flags(packet, cut) == Ok(true)
        {
            return Some(Answer::Truncated);
        }
        let packet = Packet::parse(packet).ok()?;
        let is_answer = packet.has_flags(PacketFlag::RESPONSE) && packet.id() == self.id;
        let asked = packet.questions.first().filter(|_| is_answer)?;
        if asked.qname != self.domain || asked.qtype != TYPE::MX.into() {
            return None;
        }
        Some(match packet.rcode() {
            RCODE::NoError => Answer::Hosts(hosts(&packet)),
            RCODE::NameError => Answer::NoDomain,
            code => Answer::Refused(format!("{code:?}")),
        })
    }

    async fn over_tcp(&self, server: SocketAddr) -> Result<Answer, LookupError> {
        let mut stream = TcpStream::connect(server).await.map_err(unreachable)?;
        let length = u16::try_from(self.bytes.len()).unwrap_or(u16::MAX).to_be_bytes();
        stream.write_all(&[&length, &*self.bytes].concat()).await.map_err(unreachable)?;
        let length = stream.read_u16().await.map_err(unreachable)?;
        let mut packet = vec![0; length.into()];
        stream.read_exact(&mut packet).await.map_err(unreachable)?;
        self.answer(&packet).ok_or(LookupError::Unreadable)
    }
}

/// The hosts of the MX records of an answer, the preferred one first. A host without a name says that the domain
/// takes no mail (RFC 7505).
fn hosts(packet: &Packet<'_>) -> Vec<String> {
    let mut hosts: Vec<(u16, String)> = packet
        .answers
        .iter()
        .filter_map(|record| match &record.rdata {
            RData::MX(mx) => Some((mx.preference, mx.exchange.to_string().to_ascii_lowercase())),
            _ => None,
        })
        .collect();
    hosts.sort();
    hosts.into_iter().map(|(_, host)| host).collect()
}

/// The resolvers that a resolv.conf names.
fn servers(text: &str) -> Vec<SocketAddr> {
    let server = |line: &str| {
        let mut words = line.split_whitespace();
        let address = words.next().filter(|word| *word == "nameserver").and(words.next())?;
        Some(SocketAddr::from((address.parse::<IpAddr>().ok()?, 53)))
    };
    text.lines().filter_map(server).collect()
}

#[cfg(test)]
mod tests;
