// SPDX-License-Identifier: Apache-2.0
//! A world of maps and buffers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use iptables::exit::Exit;
use iptables::run::run;
use iptables::world::{Kernel, World};
use netfilter::address::AddressError;
use netfilter::program::{Open, Options, Removed, Request};
use netfilter::{Applied, Backend, Choice, Netns, NetnsError, ProgramError, Programmed, Reason};
use redirect::Config;

/// Environment of a run.
pub(crate) struct Stage {
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) files: BTreeMap<PathBuf, String>,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) stdin: String,
}

/// Result of a run.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) exit: Exit,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Recorded requests to the kernel.
    pub(crate) asked: Vec<KernelCall>,
}

/// Request to the kernel.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum KernelCall {
    Enter(PathBuf),
    Program(Box<Request>),
    CleanUp(Box<Config>),
}

impl Stage {
    /// A pod with an IPv4 address, and nothing else.
    pub(crate) fn new() -> Self {
        let addresses =
            ["127.0.0.1", "10.9.0.2", "::1", "fe80::1"].map(|text| text.parse().unwrap()).to_vec();
        Self { env: BTreeMap::new(), files: BTreeMap::new(), addresses, stdin: String::new() }
    }

    pub(crate) fn with_env(mut self, variables: &[(&str, &str)]) -> Self {
        self.env.extend(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        self
    }

    pub(crate) fn with_file(mut self, path: &str, text: &str) -> Self {
        self.files.insert(path.into(), text.to_owned());
        self
    }

    pub(crate) fn with_addresses(mut self, addresses: &[&str]) -> Self {
        self.addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
        self
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Seen {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let kernel = FakeKernel { addresses: self.addresses.clone(), asked: RefCell::default() };
        let file = |path: &Path| self.files.get(path).cloned().ok_or(io::ErrorKind::NotFound.into());
        let world = World {
            env: &|name| self.env.get(name).cloned(),
            file: &file,
            stdin: &mut self.stdin.as_bytes(),
            stdout: &mut stdout,
            stderr: &mut stderr,
            kernel: &kernel,
        };
        let exit = run(world, arguments.iter().map(OsString::from));
        Seen {
            exit,
            stdout: String::from_utf8(stdout).unwrap(),
            stderr: String::from_utf8(stderr).unwrap(),
            asked: kernel.asked.into_inner(),
        }
    }

    /// Configuration in a run's request to the kernel.
    pub(crate) fn config(&self, arguments: &[&str]) -> Config {
        self.request(arguments).config
    }

    /// A run's request to the kernel.
    pub(crate) fn request(&self, arguments: &[&str]) -> Request {
        let seen = self.run(arguments);
        assert_eq!(seen.exit, Exit::Success, "{}", seen.stderr);
        match seen.asked.as_slice() {
            [KernelCall::Program(request)] => (**request).clone(),
            other => panic!("{other:?}"),
        }
    }

    /// Error of a failed run.
    pub(crate) fn failure(&self, arguments: &[&str]) -> String {
        let seen = self.run(arguments);
        assert_eq!((seen.exit, &seen.asked), (Exit::Failure, &vec![]), "{}", seen.stderr);
        seen.stderr
    }
}

struct FakeKernel {
    addresses: Vec<IpAddr>,
    asked: RefCell<Vec<KernelCall>>,
}

impl Kernel for FakeKernel {
    fn enter(&self, path: &Path) -> Result<(), NetnsError> {
        if path.starts_with("/nonexistent") {
            return Netns::open(path).map(drop);
        }
        self.asked.borrow_mut().push(KernelCall::Enter(path.to_owned()));
        Ok(())
    }

    fn addresses(&self) -> Result<Vec<IpAddr>, AddressError> {
        Ok(self.addresses.clone())
    }

    fn program(&self, request: Request) -> Result<Programmed, ProgramError> {
        self.asked.borrow_mut().push(KernelCall::Program(Box::new(request)));
        let choice = Choice { backend: Backend::NftCompat, reason: Reason::Usual };
        Ok(Programmed {
            choice,
            applied: Applied::Created,
            unsandboxed: None,
            is_fresh: true,
            open: Open::NotAsked,
        })
    }

    fn clean_up(&self, config: &Config, _: &Options) -> Result<Removed, ProgramError> {
        self.asked.borrow_mut().push(KernelCall::CleanUp(Box::new(config.clone())));
        Ok(Removed::Rules)
    }
}
