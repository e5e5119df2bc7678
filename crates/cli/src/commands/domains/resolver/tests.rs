use simple_dns::ResourceRecord;
use simple_dns::rdata::MX;
use tidegate_operate::domains::{DomainCounts, Found, ProviderTable, look_up};
use tokio::net::TcpListener;

use super::*;

/// A resolver as unkind as those of hotels: it answers by the first label of the domain.
struct FakeDns {
    address: SocketAddr,
}

impl FakeDns {
    async fn start() -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let udp = UdpSocket::bind(address).await.unwrap();
        tokio::spawn(async move {
            let mut buffer = [0; 512];
            loop {
                let (length, from) = udp.recv_from(&mut buffer).await.unwrap();
                for packet in over_udp(&buffer[..length]) {
                    udp.send_to(&packet, from).await.unwrap();
                }
            }
        });
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = tcp.accept().await.unwrap();
                let mut query = vec![0; stream.read_u16().await.unwrap().into()];
                stream.read_exact(&mut query).await.unwrap();
                let answer = reply(&query, |_| {});
                stream.write_u16(answer.len().try_into().unwrap()).await.unwrap();
                stream.write_all(&answer).await.unwrap();
            }
        });
        Self { address }
    }

    fn resolver(&self, patience: Duration) -> Resolver {
        Resolver { servers: vec![self.address], patience }
    }
}

fn label(query: &[u8]) -> String {
    let domain = Packet::parse(query).unwrap().questions[0].qname.to_string();
    domain.split('.').next().unwrap().to_owned()
}

fn over_udp(query: &[u8]) -> Vec<Vec<u8>> {
    let forged = || reply(query, |packet| packet.set_id(packet.id().wrapping_add(1)));
    let coded = |code| reply(query, |packet| *packet.rcode_mut() = code);
    match &*label(query) {
        "silent" => vec![],
        "garbage" => vec![b"no packet at all".to_vec(), vec![]],
        "forged" => vec![forged()],
        "raced" => vec![forged(), b"\xff\xff".to_vec(), query.to_vec(), reply(query, |_| {})],
        "large" => vec![reply(query, |packet| packet.set_flags(PacketFlag::TRUNCATION))],
        "cut" => {
            let whole = reply(query, |packet| packet.set_flags(PacketFlag::TRUNCATION));
            vec![whole[..whole.len() - 3].to_vec()]
        }
        "gone" => vec![coded(RCODE::NameError)],
        "broken" => vec![coded(RCODE::ServerFailure)],
        _ => vec![reply(query, |_| {})],
    }
}

/// The answer with two MX records, the preferred one last; none for `bare`, the root for `null`.
fn reply(query: &[u8], change: impl Fn(&mut Packet<'_>)) -> Vec<u8> {
    let query = Packet::parse(query).unwrap();
    let mut packet = Packet::new_reply(query.id());
    packet.questions.clone_from(&query.questions);
    let label = query.questions[0].qname.to_string();
    let record = |preference, host| {
        let rdata = RData::MX(MX { preference, exchange: Name::new(host).unwrap() });
        ResourceRecord::new(query.questions[0].qname.clone(), CLASS::IN, 60, rdata)
    };
    match label.split('.').next().unwrap() {
        "bare" => {}
        "null" => packet.answers.push(record(0, "")),
        _ => packet.answers.extend([record(20, "alt.example"), record(10, "ASPMX.L.google.com")]),
    }
    change(&mut packet);
    packet.build_bytes_vec_compressed().unwrap()
}

fn both() -> Vec<String> {
    vec!["aspmx.l.google.com".to_owned(), "alt.example".to_owned()]
}

#[tokio::test]
async fn answers_are_read_also_truncated_ones_and_after_those_of_others() {
    let dns = FakeDns::start().await;
    let resolver = dns.resolver(Duration::from_secs(20));
    for (domain, expected) in [
        ("hosted.example", Ok(both())),
        ("large.example", Ok(both())),
        ("cut.example", Ok(both())),
        ("raced.example", Ok(both())),
        ("bare.example", Ok(vec![])),
        ("null.example", Ok(vec![String::new()])),
        ("gone.example", Err(LookupError::NoDomain)),
        ("broken.example", Err(LookupError::Refused("ServerFailure".to_owned()))),
        (&format!("{}.example", "a".repeat(64)), Err(LookupError::NoDomain)),
    ] {
        assert_eq!(resolver.of_domain(domain).await, expected, "{domain}");
    }
}

#[tokio::test]
async fn a_resolver_that_does_not_answer_is_given_up() {
    let dns = FakeDns::start().await;
    let resolver = dns.resolver(Duration::from_millis(20));
    assert_eq!(resolver.of_domain("silent.example").await, Err(LookupError::Silent));
    let resolver = dns.resolver(Duration::from_millis(300));
    for domain in ["garbage.example", "forged.example"] {
        assert_eq!(resolver.of_domain(domain).await, Err(LookupError::Unreadable), "{domain}");
    }
}

#[tokio::test]
async fn the_next_resolver_is_asked_where_one_fails() {
    let dns = FakeDns::start().await;
    // Nobody listens at its port any more.
    let gone = UdpSocket::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let servers = vec![gone, dns.address];
    let resolver = Resolver { servers, patience: Duration::from_secs(20) };
    assert_eq!(resolver.of_domain("hosted.example").await, Ok(both()));
}

#[tokio::test]
async fn many_domains_are_looked_up_side_by_side_whatever_becomes_of_some() {
    let dns = FakeDns::start().await;
    let resolver = dns.resolver(Duration::from_millis(300));
    let mut list: Vec<String> = (0..500).map(|n| format!("d{n}.example")).collect();
    list.extend(["silent.example", "garbage.example", "gmail.com"].map(str::to_owned));
    let mut counts = DomainCounts::default();
    counts.read("list", None, list.join("\n").as_bytes()).unwrap();
    let mut found = Found::new();
    let take = |domain: &str, answer| drop(found.insert(domain.to_owned(), answer));
    look_up(&counts, &ProviderTable::shipped(), &resolver, take).await;
    assert_eq!(found.len(), 502, "gmail.com is known");
    assert_eq!(found["silent.example"], Err(LookupError::Silent));
}

#[test]
fn resolvers_come_from_resolv_conf_or_from_the_option() {
    let text = "# DHCP\nsearch example.org\nnameserver 192.0.2.1\n nameserver\t2001:db8::1 \noptions edns0\nnameserver no-ip\n";
    assert_eq!(
        servers(text),
        ["192.0.2.1:53", "[2001:db8::1]:53"].map(|text| text.parse().unwrap())
    );
    for (text, address) in
        [("9.9.9.9", "9.9.9.9:53"), ("::1", "[::1]:53"), ("[::1]:5353", "[::1]:5353")]
    {
        assert_eq!(text.parse(), Ok(ResolverAddress(address.parse().unwrap())));
    }
    assert!("dns.example".parse::<ResolverAddress>().unwrap_err().contains("an IP address"));
}
