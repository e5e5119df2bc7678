use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Request, StatusCode, header};
use axum::response::Response;
use futures_util::StreamExt as _;
use futures_util::future::LocalBoxFuture;
use serde_json::{Value, json};
use tidegate_delivery::ports::Clock as _;
use tower::ServiceExt as _;

use super::*;
use crate::tests::{Log, on, world};

mod alerts;
mod answers;

const TOKEN: &str = "correct-horse-battery-staple";

/// Access by tokens, if any, in the form of a file.
fn access(listen: &str, tokens: Option<&str>) -> Access {
    Access {
        listen: listen.parse().unwrap(),
        tokens: tokens.map(|tokens| tokens.parse().unwrap()).unwrap_or_default(),
        public_url: None,
        trusted_proxies: Vec::new(),
    }
}

#[test]
fn a_trusted_proxy_is_known_in_its_ipv6_form_too() {
    let proxy = |ip: &str| ip.parse().unwrap();
    let access = Access { trusted_proxies: vec![proxy("10.0.0.1")], ..access("[::]:80", None) };
    assert!(access.is_trusted(proxy("::ffff:10.0.0.1")) && access.is_trusted(proxy("10.0.0.1")));
    assert!(!access.is_trusted(proxy("::ffff:10.0.0.2")));
}

fn about() -> About {
    About {
        stack: "simulated".to_owned(),
        region: "nowhere".to_owned(),
        is_local: true,
        channel: tidegate_core::channel::Channel::Email,
        ses_price: None,
        operator: "ops".to_owned(),
        shows_addresses: false,
    }
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// A request as a client sends it; headers as `name: value`.
async fn send(app: &Arc<App>, method: &str, path: &str, headers: &[&str], body: Value) -> Response {
    let mut request = Request::builder().method(method).uri(path);
    for header in headers {
        let (name, value) = header.split_once(": ").unwrap();
        request = request.header(name, value);
    }
    if !headers.iter().any(|header| header.starts_with("host: ")) {
        request = request.header(header::HOST, "localhost:7878");
    }
    let request = request.header(header::CONTENT_TYPE, "application/json");
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    let peer = IpAddr::from([127, 0, 0, 1]);
    let router = router(app)
        .layer(axum::Extension(ConnectInfo(peer)))
        .layer(axum::Extension(super::serve::Excuses::default()));
    router.oneshot(request.body(body).unwrap()).await.unwrap()
}

async fn call(app: &Arc<App>, method: &str, path: &str, headers: &[&str], body: Value) -> Answer {
    let (parts, body) = send(app, method, path, headers, body).await.into_parts();
    let is_stream =
        parts.headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
    let body = if is_stream { Vec::new() } else { to_bytes(body, 1 << 24).await.unwrap().to_vec() };
    let body = String::from_utf8_lossy(&body).into_owned();
    Answer { status: parts.status, headers: parts.headers, body }
}

/// A console on a stack in memory, for as long as `script` takes.
fn console<'a>(access: Access, script: impl AsyncFnOnce(Arc<App>) + 'a) -> LocalBoxFuture<'a, ()> {
    Box::pin(async {
        let world = world();
        let now = EpochMillis::from(world.universe.clock().wall());
        on(&world, async |shared| {
            script(App::new(shared, access, about(), Box::new(move || now)).unwrap()).await;
        })
        .await;
    })
}

async fn csrf(app: &Arc<App>, headers: &[&str]) -> String {
    let session = call(app, "GET", "/api/session", headers, Value::Null).await;
    format!("x-tidegate-csrf: {}", session.json()["csrf"].as_str().unwrap())
}

fn pause() -> Value {
    json!({"action": "pause", "campaign": "big", "reason": "typo", "by": "ada"})
}

#[test]
fn what_others_can_reach_needs_a_token() {
    assert_eq!(access("127.0.0.1:7878", None).check(), Ok(()));
    assert_eq!(access("[::1]:7878", None).check(), Ok(()));
    for open in ["0.0.0.0:7878", "192.0.2.1:7878", "[::]:7878"] {
        assert!(matches!(access(open, None).check(), Err(AccessError::NoToken(_))), "{open}");
        assert_eq!(access(open, Some(TOKEN)).check(), Ok(()));
    }
    let public_url = Some("mail.example".to_owned());
    assert!(Access { public_url, ..access("127.0.0.1:1", None) }.check().is_err());
}

#[tokio::test(start_paused = true)]
async fn an_action_of_our_page_is_done() {
    console(access("127.0.0.1:7878", None), async |app| {
        let csrf = csrf(&app, &[]).await;
        let headers =
            [csrf.as_str(), "origin: http://localhost:7878", "sec-fetch-site: same-origin"];
        let made = call(&app, "POST", "/api/steer", &headers, pause()).await;
        assert_eq!(made.status, StatusCode::OK, "{}", made.body);
        let said = made.json();
        assert_eq!(
            (&said["changed"], &said["by"]),
            (&true.into(), &"ada, by the console of ops".into())
        );
        assert_eq!(
            (&said["detail"], &said["in_force_within_s"]),
            (&"until resumed".into(), &2.into())
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_action_of_another_sites_page_is_not() {
    console(access("127.0.0.1:7878", None), async |app| {
        let csrf = csrf(&app, &[]).await;
        let csrf = csrf.as_str();
        for (headers, code) in [
            (vec![], "csrf"),
            (vec!["x-tidegate-csrf: guessed"], "csrf"),
            (vec![csrf, "origin: http://evil.example"], "forbidden"),
            (vec![csrf, "origin: null"], "forbidden"),
            (vec![csrf, "origin: http://localhost:9999"], "forbidden"),
            (vec![csrf, "sec-fetch-site: cross-site"], "forbidden"),
            (vec![csrf, "sec-fetch-site: same-site"], "forbidden"),
            // A name that was pointed at this machine.
            (
                vec![csrf, "host: evil.example:7878", "origin: http://evil.example:7878"],
                "forbidden",
            ),
        ] {
            let refused = call(&app, "POST", "/api/steer", &headers, pause()).await;
            assert_eq!(refused.status, StatusCode::FORBIDDEN, "{headers:?}");
            assert_eq!(refused.json()["code"], code, "{headers:?}");
        }
        assert_eq!(app.shared.shown.borrow().figures.status.holds, []);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn without_a_token_nobody_comes_through_a_proxy_or_by_another_name() {
    console(access("127.0.0.1:7878", None), async |app| {
        for header in
            ["x-forwarded-for: 192.0.2.1", "forwarded: for=192.0.2.1", "host: evil.example"]
        {
            let refused = call(&app, "GET", "/", &[header], Value::Null).await;
            assert_eq!(refused.status, StatusCode::FORBIDDEN, "{header}");
        }
        let page = call(&app, "GET", "/", &["host: [::1]:7878"], Value::Null).await;
        assert_eq!(page.status, StatusCode::OK);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn with_a_token_only_who_has_it_comes() {
    console(access("0.0.0.0:7878", Some(TOKEN)), async |app| {
        let page = call(&app, "GET", "/", &[], Value::Null).await;
        assert_eq!((page.status, page.header("location")), (StatusCode::SEE_OTHER, "login"));
        for path in ["/api/session", "/api/events", "/metrics"] {
            let refused = call(&app, "GET", path, &[], Value::Null).await;
            assert_eq!(refused.status, StatusCode::UNAUTHORIZED, "{path}");
        }
        let wrong = call(&app, "POST", "/api/login", &[], json!({"token": "wrong"})).await;
        assert_eq!(wrong.status, StatusCode::UNAUTHORIZED);
        let login = call(&app, "POST", "/api/login", &[], json!({"token": TOKEN})).await;
        assert_eq!(login.status, StatusCode::NO_CONTENT);
        let set = login.header("set-cookie");
        for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
            assert!(set.contains(part), "{set}");
        }
        let cookie = format!("cookie: other=1; {}", set.split(';').next().unwrap());
        let csrf = csrf(&app, &[&cookie]).await;
        let made = call(&app, "POST", "/api/steer", &[&cookie, &csrf], pause()).await;
        assert_eq!(made.status, StatusCode::OK);
        let missing = call(&app, "POST", "/api/steer", &[&cookie], pause()).await;
        assert_eq!(missing.json()["code"], "csrf");
        // A script has the token in a header, which no browser sends by itself.
        let bearer = format!("authorization: Bearer {TOKEN}");
        let metrics = call(&app, "GET", "/metrics", &[&bearer], Value::Null).await;
        assert_eq!(metrics.status, StatusCode::OK);
        let made = call(&app, "POST", "/api/steer", &[&bearer], pause()).await;
        assert_eq!(made.status, StatusCode::OK, "{}", made.body);
        let guessed =
            call(&app, "GET", "/metrics", &["authorization: Bearer x"], Value::Null).await;
        assert_eq!(guessed.status, StatusCode::UNAUTHORIZED);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn who_guesses_is_slowed_down() {
    console(access("0.0.0.0:7878", Some(TOKEN)), async |app| {
        let guess = async || call(&app, "POST", "/api/login", &[], json!({"token": "guess"})).await;
        for _ in 0..10 {
            assert_eq!(guess().await.status, StatusCode::UNAUTHORIZED);
        }
        let slowed = guess().await;
        assert_eq!(
            (slowed.status, slowed.header("retry-after")),
            (StatusCode::TOO_MANY_REQUESTS, "1")
        );
        let right = call(&app, "POST", "/api/login", &[], json!({"token": TOKEN})).await;
        assert_eq!(right.status, StatusCode::TOO_MANY_REQUESTS, "it tells a guesser nothing");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn who_guesses_in_a_header_is_slowed_down_too_and_is_in_the_log() {
    let (log, _logs) = Log::of_this_thread();
    console(access("0.0.0.0:7878", Some(TOKEN)), async |app| {
        let ask = async |token: &str| {
            let bearer = format!("authorization: bearer {token}");
            call(&app, "GET", "/metrics", &[&bearer], Value::Null).await.status
        };
        for _ in 0..10 {
            assert_eq!(ask(TOKEN).await, StatusCode::OK, "a right one counts nothing");
            assert_eq!(ask("guess").await, StatusCode::UNAUTHORIZED);
        }
        for token in ["guess", TOKEN] {
            assert_eq!(ask(token).await, StatusCode::TOO_MANY_REQUESTS);
        }
        let login = call(&app, "POST", "/api/login", &[], json!({"token": TOKEN})).await;
        assert_eq!(login.status, StatusCode::TOO_MANY_REQUESTS, "one count for both ways");
    })
    .await;
    let log = log.text();
    assert_eq!(log.matches("a wrong token client=127.0.0.1").count(), 10, "{log}");
    assert!(!log.contains(TOKEN) && !log.contains("guess"), "{log}");
}

#[tokio::test(start_paused = true)]
async fn logging_out_ends_the_session_and_its_streams() {
    console(access("0.0.0.0:7878", Some(TOKEN)), async |app| {
        let login = async || {
            let login = call(&app, "POST", "/api/login", &[], json!({"token": TOKEN})).await;
            format!("cookie: {}", login.header("set-cookie").split(';').next().unwrap())
        };
        let (one, two) = (login().await, login().await);
        let stream = async |cookie: &str| {
            let answer = send(&app, "GET", "/api/events", &[cookie], Value::Null).await;
            answer.into_body().into_data_stream()
        };
        let (mut ends, mut goes_on) = (stream(&one).await, stream(&two).await);
        let logout = call(&app, "POST", "/api/logout", &[&one], Value::Null).await;
        assert_eq!(logout.status, StatusCode::NO_CONTENT);
        assert!(
            logout.header("set-cookie").contains("Max-Age=0"),
            "{}",
            logout.header("set-cookie")
        );
        for (cookie, status) in [(&one, StatusCode::UNAUTHORIZED), (&two, StatusCode::OK)] {
            let asked = call(&app, "GET", "/api/session", &[cookie], Value::Null).await;
            assert_eq!(asked.status, status);
        }
        assert!(ends.next().await.is_none());
        assert!(goes_on.next().await.is_some());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn behind_https_the_cookie_is_sent_by_https_alone() {
    for (url, is_secure) in [
        ("https://mail.example/", true),
        ("HTTPS://Mail.example", true),
        ("http://mail.example", false),
    ] {
        let public_url = Some(url.to_owned());
        let access = Access { public_url, ..access("127.0.0.1:7878", Some(TOKEN)) };
        console(access, async |app| {
            let origin = format!("origin: {}", url.to_lowercase().trim_end_matches('/'));
            let headers = ["host: 127.0.0.1:7878", &origin, "x-forwarded-for: 192.0.2.1"];
            let login = call(&app, "POST", "/api/login", &headers, json!({"token": TOKEN})).await;
            assert_eq!(login.status, StatusCode::NO_CONTENT, "{}", login.body);
            let mut parts = login.header("set-cookie").split("; ");
            assert_eq!(parts.any(|part| part == "Secure"), is_secure, "{url}");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn another_sites_page_opens_no_stream_but_may_link_here() {
    console(access("127.0.0.1:7878", None), async |app| {
        for path in ["/api/events", "/api/session", "/metrics"] {
            let cross = call(&app, "GET", path, &["sec-fetch-site: cross-site"], Value::Null).await;
            assert_eq!(cross.status, StatusCode::FORBIDDEN, "{path}");
        }
        let led = call(&app, "GET", "/", &["sec-fetch-site: cross-site"], Value::Null).await;
        assert_eq!(led.status, StatusCode::OK);
        let own = call(&app, "GET", "/api/events", &["sec-fetch-site: same-origin"], Value::Null);
        assert_eq!(own.await.status, StatusCode::OK);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_token_that_may_look_changes_nothing_and_a_name_in_the_history_is_the_tokens() {
    let (log, _logs) = Log::of_this_thread();
    let (looks, acts) = ("incorrect-mule-tidal-clip", TOKEN);
    let tokens = format!("grace look {looks}\nada act {acts}");
    console(access("0.0.0.0:7878", Some(&tokens)), async |app| {
        let bearer = |token: &str| format!("authorization: Bearer {token}");
        let ask = async |token: &str, path: &str, body: Value| {
            let method = if body.is_null() { "GET" } else { "POST" };
            call(&app, method, path, &[&bearer(token)], body).await
        };
        for path in ["/metrics", "/api/events", "/"] {
            assert_eq!(ask(looks, path, Value::Null).await.status, StatusCode::OK, "{path}");
        }
        let why = ask(looks, "/api/why", json!({"id": "m-1"})).await;
        assert_eq!(why.status, StatusCode::OK, "{}", why.body);
        for (path, body) in [
            ("/api/steer", pause()),
            ("/api/dead/review", json!({})),
            ("/api/dead/replay", json!({"review": "r1", "reason": "x"})),
            ("/api/dead/stop", json!({})),
            ("/api/dead/discard", json!({"id": "x", "reason": "x"})),
        ] {
            let refused = ask(looks, path, body).await;
            assert_eq!(
                (refused.status, &refused.json()["code"]),
                (StatusCode::FORBIDDEN, &"role".into())
            );
        }
        assert_eq!(app.shared.shown.borrow().figures.status.holds, []);
        let who = async |token: &str| ask(token, "/api/session", Value::Null).await.json();
        let (grace, ada) = (who(looks).await, who(acts).await);
        assert_eq!([&grace["name"], &grace["role"]], ["grace", "look"]);
        assert_eq!([&ada["name"], &ada["role"]], ["ada", "act"]);

        let action =
            |by: &str| json!({"action": "pause", "campaign": "big", "reason": "typo", "by": by});
        let forged = ask(acts, "/api/steer", action("grace")).await;
        assert_eq!(
            (forged.status, &forged.json()["field"]),
            (StatusCode::BAD_REQUEST, &"by".into())
        );
        let made = ask(acts, "/api/steer", action("")).await;
        assert_eq!(made.json()["by"], "ada, by the console of ops", "{}", made.body);
    })
    .await;
    let log = log.text();
    assert!(log.contains("the token of grace may look, and change nothing"), "{log}");
}
