// SPDX-License-Identifier: Apache-2.0
//! Stand-ins for the world, for tests.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use netfilter::address::AddressError;
use netfilter::backend::{Backend, Choice, Reason};
use netfilter::ground::GroundError;
use netfilter::guest::GuestError;
use netfilter::program::{Open, ProgramError, Programmed, Request};
use netfilter::route::PolicyRoutes;
use netfilter::{Applied, ApplyError, LookError, NetnsError, ReadError, Wish};
use protocol::agent::{RequestKind, Response};
use redirect::config::Mode;
use redirect::found::FoundRules;
use redirect::sandbox::GuestLinks;

use crate::agent::{self, Agent, AgentError};
use crate::clock::Clock;
use crate::http::{Api, Connection, HttpError, HttpResponse};
use crate::kernel::{CheckError, Kernel, Namespace};
use crate::kubeconfig::Endpoint;

/// A clock that moves only when somebody waits or pushes it.
pub(crate) struct FakeClock {
    now: Cell<Duration>,
    /// Every wait, in order.
    pub(crate) waits: RefCell<Vec<Duration>>,
    /// Value of [`Clock::noise`].
    pub(crate) noise: u64,
}

impl FakeClock {
    pub(crate) fn new() -> Self {
        Self { now: Cell::new(Duration::from_secs(1000)), waits: RefCell::default(), noise: 0 }
    }

    pub(crate) fn advance(&self, time: Duration) {
        self.now.set(self.now.get() + time);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Duration {
        self.now.get()
    }

    fn wall(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_770_000_000)
    }

    fn wait(&self, time: Duration) {
        self.waits.borrow_mut().push(time);
        self.advance(time);
    }

    fn noise(&self) -> u64 {
        self.noise
    }
}

/// An agent that says one thing, and notes what it is asked and told.
pub(crate) struct FakeAgent {
    pub(crate) answer: fn() -> Result<Response, AgentError>,
    pub(crate) heard: RefCell<Vec<RequestKind>>,
}

impl Agent for FakeAgent {
    fn send(
        &self,
        _: &Path,
        kind: RequestKind,
        _: Duration,
    ) -> Result<Box<dyn agent::PendingAnswer + '_>, AgentError> {
        self.heard.borrow_mut().push(kind);
        match (self.answer)() {
            Err(error @ (AgentError::Absent | AgentError::Stranger { .. })) => Err(error),
            answer => Ok(Box::new(FakeAnswer(answer))),
        }
    }
}

struct FakeAnswer(Result<Response, AgentError>);

impl agent::PendingAnswer for FakeAnswer {
    fn wait(self: Box<Self>) -> Result<Response, AgentError> {
        self.0
    }
}

/// An API server that gives one answer, and counts requests.
pub(crate) struct FakeApi {
    pub(crate) answer: fn() -> Result<HttpResponse, HttpError>,
    pub(crate) requests: Rc<Cell<usize>>,
}

impl Api for FakeApi {
    fn open(&self, _: &Endpoint) -> Result<Box<dyn Connection>, HttpError> {
        Ok(Box::new(FakeConnection { answer: self.answer, requests: Rc::clone(&self.requests) }))
    }
}

struct FakeConnection {
    answer: fn() -> Result<HttpResponse, HttpError>,
    requests: Rc<Cell<usize>>,
}

impl Connection for FakeConnection {
    fn get(&mut self, _: &str, _: Duration) -> Result<HttpResponse, HttpError> {
        self.requests.set(self.requests.get() + 1);
        (self.answer)()
    }
}

/// State of the only namespace of a [`FakeKernel`].
#[derive(Clone)]
pub(crate) struct FakeSite {
    pub(crate) path: &'static str,
    pub(crate) own: bool,
    pub(crate) addresses: Vec<&'static str>,
    pub(crate) ours: bool,
    pub(crate) found: FoundRules,
    pub(crate) fails: bool,
    pub(crate) links: GuestLinks,
}

/// A kernel with one namespace, that notes what is done in it.
pub(crate) struct FakeKernel {
    pub(crate) site: FakeSite,
    pub(crate) done: Rc<RefCell<Vec<&'static str>>>,
}

impl Kernel for FakeKernel {
    fn open(&self, path: &Path) -> Result<Box<dyn Namespace>, NetnsError> {
        if path == Path::new(self.site.path) {
            return Ok(Box::new(FakeNamespace { site: self.site.clone(), done: Rc::clone(&self.done) }));
        }
        Err(NetnsError::Open { path: path.to_owned(), reason: io::ErrorKind::NotFound.into() })
    }

    fn open_of_node(&self, path: &Path) -> Result<Box<dyn Namespace>, NetnsError> {
        self.open(path)
    }
}

struct FakeNamespace {
    site: FakeSite,
    done: Rc<RefCell<Vec<&'static str>>>,
}

impl FakeNamespace {
    fn note(&self, what: &'static str) {
        self.done.borrow_mut().push(what);
    }
}

impl Namespace for FakeNamespace {
    fn is_own(&self) -> Result<bool, NetnsError> {
        Ok(self.site.own)
    }

    fn enter(&self) -> Result<(), NetnsError> {
        self.note("enter");
        Ok(())
    }

    fn addresses(&self) -> Result<Vec<IpAddr>, AddressError> {
        Ok(self.site.addresses.iter().map(|text| text.parse().unwrap()).collect())
    }

    fn program(&self, request: Request) -> Result<Programmed, ProgramError> {
        if self.site.fails {
            return Err(ApplyError::NoNfTables.into());
        }
        if request.config.ipv6 {
            self.note("address");
        }
        if request.config.mode == Mode::Tproxy {
            self.note("routes");
        }
        self.note("rules");
        let usual = Choice { backend: Backend::NftCompat, reason: Reason::Usual };
        let choice = match request.wish {
            Wish::Only(backend) => Choice { backend, reason: Reason::Asked },
            Wish::Auto => request.recorded.unwrap_or(usual),
        };
        Ok(Programmed {
            choice,
            applied: Applied::Created,
            unsandboxed: None,
            is_fresh: true,
            open: Open::NotAsked,
        })
    }

    fn found(&self) -> Result<FoundRules, LookError> {
        Ok(self.site.found.clone())
    }

    fn has_policy_routes(&self, _: PolicyRoutes) -> Result<bool, GroundError> {
        Ok(false)
    }

    fn guest_links(&self) -> Result<GuestLinks, GuestError> {
        Ok(self.site.links.clone())
    }

    fn has_rules_of_ours(&self) -> Result<bool, CheckError> {
        self.note("look");
        let unreadable = || LookError::from(ReadError::Busy { attempts: 1 }).into();
        if self.site.fails { Err(unreadable()) } else { Ok(self.site.ours) }
    }
}
