use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use crate::http::Access;
use serde::Serialize;
use tidegate_operator::page::{Page, Tone, View};

/// The console's addresses, as it prints them when it starts.
#[derive(Debug, Serialize)]
pub(super) struct ConsoleLink {
    stack: String,
    /// The page's address, without the token.
    url: String,
    /// The address that logs a browser in: the URL, and in its fragment the token if the console made it.
    link: String,
    /// The reason why others could read along; none if they cannot.
    warning: Option<String>,
}

impl ConsoleLink {
    /// The addresses of a console. A token that it was given may be in a log or on a screen only where
    /// whoever gave it puts it.
    pub(super) fn of(stack: &str, access: &Access, is_token_given: bool) -> Self {
        let url = match &access.public_url {
            Some(url) => format!("{}/", url.trim_end_matches('/')),
            None => format!("http://{}/", reachable(access.listen)),
        };
        let link = match access.tokens.holders() {
            // Behind the #: no server and no log sees it.
            [own] if !is_token_given => format!("{url}login#token={}", own.token.reveal()),
            _ => url.clone(),
        };
        let is_open = !access.listen.ip().is_loopback() && !access.is_https();
        let warning = is_open.then(|| {
            format!(
                "{url} is not encrypted: whoever is on the way can read the token. Listen on loopback, and put a proxy with TLS before it (--public-url https://…, --trusted-proxy)"
            )
        });
        Self { stack: stack.to_owned(), url, link, warning }
    }
}

/// An address at which a listener answers: one on every address is named by that of the network, as others
/// reach it.
fn reachable(listen: SocketAddr) -> SocketAddr {
    if !listen.ip().is_unspecified() {
        return listen;
    }
    let (any, other, this): (IpAddr, IpAddr, IpAddr) = if listen.is_ipv4() {
        (Ipv4Addr::UNSPECIFIED.into(), [192, 0, 2, 1].into(), Ipv4Addr::LOCALHOST.into())
    } else {
        let other = [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1_u16];
        (Ipv6Addr::UNSPECIFIED.into(), other.into(), Ipv6Addr::LOCALHOST.into())
    };
    // Connecting a UDP socket sends nothing: the system only chooses the address that it would use.
    let chosen = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((other, 9))?;
        socket.local_addr()
    });
    SocketAddr::new(chosen.map_or(this, |address| address.ip()), listen.port())
}

impl View for ConsoleLink {
    fn view(&self, page: &mut Page) {
        page.line(Tone::Plain, format!("The console of {}: {}", self.stack, self.link));
        if let Some(warning) = &self.warning {
            page.line(Tone::Warning, warning);
        }
        page.line(Tone::Faint, "Ctrl-C ends it; what it shows goes on without it.");
    }
}

#[cfg(test)]
mod tests {
    use crate::http::Token;

    use super::*;

    fn access(listen: &str, public_url: Option<&str>) -> Access {
        Access {
            listen: listen.parse().unwrap(),
            tokens: Token::random().into(),
            public_url: public_url.map(str::to_owned),
            trusted_proxies: Vec::new(),
        }
    }

    #[test]
    fn a_token_that_was_given_is_printed_nowhere() {
        let access = access("127.0.0.1:7878", None);
        let token = access.tokens.holders()[0].token.reveal();
        let printed = |is_token_given| {
            let link = ConsoleLink::of("mail", &access, is_token_given);
            format!("{}{:?}", serde_json::to_string(&link).unwrap(), Page::of(&link))
        };
        assert!(printed(false).contains(&format!("http://127.0.0.1:7878/login#token={token}")));
        let given = printed(true);
        assert!(given.contains("http://127.0.0.1:7878/") && !given.contains(token), "{given}");
    }

    #[test]
    fn who_listens_to_others_without_tls_is_warned_and_told_where_they_reach_it() {
        let of = |listen, public_url| ConsoleLink::of("mail", &access(listen, public_url), true);
        for open in ["0.0.0.0:7878", "[::]:7878", "192.0.2.7:7878"] {
            let link = of(open, None);
            let warning = link.warning.unwrap();
            assert!(warning.starts_with(&link.url) && warning.contains("https://"), "{warning}");
            let named: SocketAddr =
                link.url["http://".len()..].trim_end_matches('/').parse().unwrap();
            assert!(!named.ip().is_unspecified() && named.port() == 7878, "{named}");
        }
        assert!(of("192.0.2.7:7878", Some("http://mail.example")).warning.is_some());
        for encrypted in ["https://mail.example", "HTTPS://mail.example"] {
            assert_eq!(of("192.0.2.7:7878", Some(encrypted)).warning, None);
        }
        assert_eq!(of("127.0.0.1:7878", None).warning, None);
    }
}
