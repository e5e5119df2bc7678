//! The menu of stacks: lists them, and opens consoles of others beside the first.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::http::{Access, StackMenu, StackRequest, bind};
use crate::open::{ConsoleError, OpenConsole};
use futures_util::StreamExt as _;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use tidegate_core::in_full;
use tidegate_operator::redact::AddressVisibility;
use tokio::sync::{mpsc, watch};

use super::args::{ConsoleArgs, default_memory};
use tidegate_operator::shell::CommandError;

/// Requests that may wait.
const REQUESTS: usize = 8;

/// Serves the menu of a console, and the consoles that are opened from it.
pub(super) struct OtherStacks<'a> {
    pub(super) args: &'a ConsoleArgs,
    /// How the first console is reached.
    pub(super) access: Access,
    pub(super) addresses: AddressVisibility,
    requests: mpsc::Sender<StackRequest>,
    /// The consoles' addresses, by stack; none while one is being opened.
    opened: RefCell<BTreeMap<String, Option<String>>>,
}

impl<'a> OtherStacks<'a> {
    /// Beside the console of `this`, which is reached at `url`.
    pub(super) fn new(
        args: &'a ConsoleArgs,
        access: Access,
        addresses: AddressVisibility,
        this: &str,
    ) -> (Self, mpsc::Receiver<StackRequest>) {
        let (requests, asked) = mpsc::channel(REQUESTS);
        let url = format!("http://{}/", access.listen);
        let opened = RefCell::new(BTreeMap::from([(this.to_owned(), Some(url))]));
        (Self { args, access, addresses, requests, opened }, asked)
    }

    /// The menu of a console of `this`.
    pub(super) fn menu(&self, this: &str) -> StackMenu {
        let can_open = self.access.listen.ip().is_loopback() && self.access.public_url.is_none();
        StackMenu { this: this.to_owned(), requests: self.requests.clone(), can_open }
    }

    /// Answers requests, and serves what they open, until `end` is true.
    pub(super) async fn serve(
        &self,
        mut asked: mpsc::Receiver<StackRequest>,
        end: watch::Receiver<bool>,
    ) {
        let mut under_way: FuturesUnordered<LocalBoxFuture<'_, ()>> = FuturesUnordered::new();
        let mut ended = end.clone();
        loop {
            tokio::select! {
                _ = ended.wait_for(|end| *end) => break,
                Some(request) = asked.recv() => {
                    under_way.push(Box::pin(self.answer(request, end.clone())));
                }
                Some(()) = under_way.next(), if !under_way.is_empty() => {}
            }
        }
        while under_way.next().await.is_some() {}
    }

    async fn answer(&self, request: StackRequest, end: watch::Receiver<bool>) {
        // A failed send of an answer means that the page has gone, and is ignored.
        match request {
            StackRequest::List(answer) => {
                let names = self.args.on.stack.names().await;
                let _ = answer.send(names.map_err(|error| in_full(&error)));
            }
            StackRequest::Open(name, answer) => {
                let known = self.opened.borrow().get(&name).cloned();
                if let Some(url) = known {
                    let opening = || format!("a console of {name} is being opened");
                    let _ = answer.send(url.ok_or_else(opening));
                    return;
                }
                self.opened.borrow_mut().insert(name.clone(), None);
                let opened = Box::pin(self.open(&name)).await;
                let url = opened.as_ref().map(|(url, _)| url.clone());
                match &url {
                    Ok(url) => self.opened.borrow_mut().insert(name, Some(url.clone())),
                    Err(_) => self.opened.borrow_mut().remove(&name),
                };
                let _ = answer.send(url.map_err(|error| in_full(error)));
                if let Ok((url, console)) = opened {
                    tracing::info!(url, "a console was opened from the menu");
                    let stop = || {
                        let mut end = end.clone();
                        async move { drop(end.wait_for(|end| *end).await) }
                    };
                    Box::pin(console.serve(stop)).await;
                }
            }
        }
    }

    /// A console of another stack, at a free port, for whoever may use the first.
    async fn open(&self, name: &str) -> Result<(String, OpenConsole), CommandError> {
        let stack = self.args.on.stack.named(name).open().await?;
        let free = SocketAddr::new(self.access.listen.ip(), 0);
        let failed = |source| CommandError::Listen { address: free, source };
        let listener = bind(free).map_err(failed)?;
        let listen = listener.local_addr().map_err(failed)?;
        let access = Access { listen, ..self.access.clone() };
        let memory = (!self.args.no_memory).then(|| default_memory(&stack)).flatten();
        let memory = memory.and_then(|path| ConsoleArgs::remember(&path, &stack));
        let menu = Some(self.menu(name));
        let limits = self.args.limits.of_streams();
        let shown = self.args.shown_of(&stack, self.addresses);
        let opened = OpenConsole::open(&stack, listener, access, limits, memory, shown, menu);
        let console = Box::pin(opened).await.map_err(refused_or_out_of_reach)?;
        Ok((format!("http://{listen}/"), console))
    }
}

pub(super) fn refused_or_out_of_reach(error: ConsoleError) -> CommandError {
    match error {
        ConsoleError::Port(error) => CommandError::Service(error),
        ConsoleError::Access(error) => CommandError::Refused(Box::new(error)),
    }
}
