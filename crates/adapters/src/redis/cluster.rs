//! A cluster's answers about where keys are. All keys of a call have one hash tag, so they are on one node, and
//! its address is all that is remembered of the cluster.

use std::net::IpAddr;

use crate::redis::error::LinkError;

/// The address of a server: of the URL, or of the node that a cluster named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeAddress {
    /// A name or an address; an IPv6 address without its brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// A cluster's answer that another node has the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    /// From now on.
    Moved(NodeAddress),
    /// For this call alone: the keys are about to move there.
    Ask(NodeAddress),
}

impl Redirect {
    /// The answer of the node at `asked`; none if `error` is no such answer.
    pub(crate) fn of(error: &LinkError, asked: &NodeAddress) -> Option<Self> {
        let LinkError::Server(error) = error else { return None };
        let node = NodeAddress::named(error.redirect_node()?.0, asked)?;
        let moved = error.code() == Some("MOVED");
        Some(if moved { Self::Moved(node) } else { Self::Ask(node) })
    }
}

impl NodeAddress {
    /// Reads `HOST:PORT`. A host that the cluster does not know (empty, or `?`) is the one that was `asked`.
    fn named(text: &str, asked: &Self) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = if ["", "?"].contains(&host) { &asked.host } else { host };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Some(Self { host, port: port.parse().ok()? })
    }

    /// The name that the node's certificate must have. A cluster may name nodes by address, and certificates
    /// have names: then it is the `url_host`, as all nodes of a cluster have certificates for it.
    pub(crate) fn certified<'a>(&'a self, url_host: &'a str) -> &'a str {
        let is_address = |host: &str| host.parse::<IpAddr>().is_ok();
        if is_address(&self.host) && !is_address(url_host) { url_host } else { &self.host }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: &str, port: u16) -> NodeAddress {
        NodeAddress { host: host.to_owned(), port }
    }

    #[test]
    fn a_node_is_read_as_clusters_write_it() {
        let asked = node("cache.example", 6379);
        for (text, host, port) in [
            ("10.0.0.7:7001", "10.0.0.7", 7_001),
            ("node-2.cache.example:6380", "node-2.cache.example", 6_380),
            ("2001:db8::1:7000", "2001:db8::1", 7_000),
            ("[2001:db8::1]:7000", "2001:db8::1", 7_000),
            (":7002", "cache.example", 7_002),
            ("?:7003", "cache.example", 7_003),
        ] {
            assert_eq!(NodeAddress::named(text, &asked), Some(node(host, port)), "{text}");
        }
        for wrong in ["", "host", "host:", "host:x", "host:65536"] {
            assert_eq!(NodeAddress::named(wrong, &asked), None, "{wrong}");
        }
    }

    #[test]
    fn the_certificate_of_a_node_named_by_address_is_checked_against_the_name_in_the_url() {
        for (host, url, checked) in [
            ("10.0.0.7", "cache.example", "cache.example"),
            ("10.0.0.7", "10.0.0.1", "10.0.0.7"),
            ("node-2.cache.example", "cache.example", "node-2.cache.example"),
        ] {
            assert_eq!(node(host, 1).certified(url), checked, "{host}");
        }
    }
}
