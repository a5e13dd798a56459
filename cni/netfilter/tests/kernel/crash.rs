// SPDX-License-Identifier: Apache-2.0
//! Killed at any system call, a process that programs a namespace leaves the old rules or the new ones, never a mix; and who does it again
//! gets what was wanted.

use std::fmt;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use netfilter::address::{HELPER, Rtnetlink};
use netfilter::backend::Backend;
use netfilter::program::{Options, Request, program};
use netfilter::{Wish, read};
use nix::sys::ptrace::{self, Options as Trace};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use redirect::ruleset::Id;

use crate::parity::shape;
use crate::policy;
use crate::world::{Users, World};
use crate::{Case, Needs, rules};
use rig::link::up;
use rig::process::command;

pub(crate) const CASES: &[Case] = &[
    Case(
        "a_kill_at_any_system_call_leaves_a_fresh_namespace_without_rules_or_with_all",
        Needs::Namespace,
        fresh,
    ),
    Case("a_kill_at_any_system_call_leaves_the_old_rules_or_the_new_ones", Needs::Namespace, replacing),
    Case("a_kill_at_any_system_call_leaves_the_rules_of_one_back_end", Needs::Namespace, another_back_end),
];

/// Wanted state of a namespace.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Goal {
    backend: Backend,
    what: &'static str,
}

/// The back ends whose work is a transaction.
const BACKENDS: [Backend; 2] = [Backend::NftCompat, Backend::Nft];

/// Processes killed at once: most of the time goes by waiting for the kernel.
const AT_ONCE: usize = 8;

/// As most pods are redirected.
const ORDINARY: &str = "ordinary";
/// With TPROXY, its routes, and everything else.
const FULL: &str = "full";

impl fmt::Display for Goal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.backend, self.what)
    }
}

impl Goal {
    /// From a command line.
    pub(crate) fn read(backend: &str, what: &str) -> Self {
        let backend = Backend::ALL.into_iter().find(|known| known.name() == backend).unwrap();
        Self { backend, what: [ORDINARY, FULL].into_iter().find(|known| *known == what).unwrap() }
    }

    /// Request to the library, with the proxy running as this user.
    pub(crate) fn request(self, user: u32) -> Request {
        let mut config = if self.what == FULL { rules::full_config() } else { rules::config() };
        config.proxy_uids = vec![Id::Number(user)];
        config.proxy_gids = vec![Id::Number(user)];
        Request { config, wish: Wish::Only(self.backend), recorded: None, options: Options::default() }
    }
}

/// A namespace's transition.
struct Play {
    world: World,
    before: Option<Goal>,
    wanted: Goal,
}

/// Content of a namespace: rules and their prerequisites.
#[derive(Debug, Clone, PartialEq, Eq)]
struct State {
    rules: Vec<String>,
    ground: Vec<String>,
}

impl State {
    fn here() -> Self {
        let mut ground = policy::listing();
        // The kernel's own entries come late.
        ground.retain(|line| line.contains("fwmark") || line.contains("table 133 "));
        let helper =
            Rtnetlink::open().unwrap().list().unwrap().into_iter().find(|address| address.ip == HELPER);
        ground.extend(helper.map(|address| format!("{address:?}")));
        Self { rules: shape(&read().unwrap()), ground }
    }

    /// Checks what a killed process left.
    fn check(&self, what: &str, old: &Self, new: &Self) {
        if self.rules == new.rules {
            let stands = |line| self.ground.contains(line);
            assert!(new.ground.iter().all(stands), "{what}: the new rules lack ground: {:?}", self.ground);
        } else {
            assert_eq!(self.rules, old.rules, "{what}: neither the old rules nor the new ones");
        }
        let known = |line| old.ground.contains(line) || new.ground.contains(line);
        assert!(self.ground.iter().all(known), "{what}: {:?}", self.ground);
    }
}

impl Play {
    fn user(&self) -> u32 {
        if self.world.users == Users::Any { 1337 } else { 0 }
    }

    fn program(&self, goal: Goal) {
        program(&mut Rtnetlink::open().unwrap(), goal.request(self.user())).unwrap();
    }

    /// Runs `work` where the old rules are.
    fn stage<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.world.fresh(|| {
            up(&[]);
            if let Some(before) = self.before {
                self.program(before);
            }
            work()
        })
    }

    /// Programs in a process of its own that is killed when it begins its `fatal`th system call. Whether it was; with a few calls it
    /// comes to its end.
    fn killed_at(&self, fatal: usize) -> bool {
        let mut victim = self.victim();
        let pid = Pid::from_raw(victim.id().try_into().unwrap());
        let killed = stopped_at(pid, fatal);
        // It is reaped already, of which the library knows nothing.
        victim.wait().unwrap_err();
        killed
    }

    fn victim(&self) -> Child {
        let Goal { backend, what } = self.wanted;
        command(&["victim", backend.name(), what, &self.user().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Kills at each system call, one namespace after the other.
    fn run(&self) {
        let old = self.stage(State::here);
        let new = self.stage(|| {
            self.program(self.wanted);
            State::here()
        });
        assert_ne!(old.rules, new.rules, "{}", self.wanted);
        let (next, kept, changed) = (AtomicUsize::new(1), AtomicUsize::new(0), AtomicUsize::new(0));
        let kill_one = || {
            let fatal = next.fetch_add(1, Ordering::Relaxed);
            let what = format!("{} killed at system call {fatal}", self.wanted);
            self.stage(|| {
                let killed = self.killed_at(fatal);
                let left = State::here();
                let which = if left.rules == new.rules { &changed } else { &kept };
                which.fetch_add(1, Ordering::Relaxed);
                left.check(&what, &old, &new);
                self.program(self.wanted);
                assert_eq!(State::here(), new, "{what}, and done again");
                killed
            })
        };
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| while kill_one() {});
            }
        });
        let (kept, changed) = (kept.into_inner(), changed.into_inner());
        // Each worker ends with a process that nothing killed.
        assert!(
            kept > 0 && changed > AT_ONCE,
            "{}: {kept} times old rules, {changed} times new",
            self.wanted
        );
    }
}

/// Lets a process run until it begins its `fatal`th system call from now on, and kills it there; false if it ended before.
fn stopped_at(pid: Pid, fatal: usize) -> bool {
    let wait = || waitpid(pid, Some(WaitPidFlag::__WALL)).unwrap();
    assert_eq!(wait(), WaitStatus::Stopped(pid, Signal::SIGSTOP));
    ptrace::setoptions(pid, Trace::PTRACE_O_TRACESYSGOOD | Trace::PTRACE_O_EXITKILL).unwrap();
    // Each call stops twice; killed at the first stop it is not made.
    for _ in 0..2 * fatal - 1 {
        ptrace::syscall(pid, None).unwrap();
        match wait() {
            WaitStatus::PtraceSyscall(_) => {}
            WaitStatus::Exited(_, 0) => return false,
            other => panic!("{other:?}"),
        }
    }
    kill(pid, Signal::SIGKILL).unwrap();
    assert!(matches!(wait(), WaitStatus::Signaled(_, Signal::SIGKILL, _)));
    true
}

const fn goal(backend: Backend, what: &'static str) -> Goal {
    Goal { backend, what }
}

fn fresh(world: World) {
    for backend in BACKENDS {
        for what in [ORDINARY, FULL] {
            Play { world, before: None, wanted: goal(backend, what) }.run();
        }
    }
}

fn replacing(world: World) {
    for backend in BACKENDS {
        for (before, wanted) in [(ORDINARY, FULL), (FULL, ORDINARY)] {
            Play { world, before: Some(goal(backend, before)), wanted: goal(backend, wanted) }.run();
        }
    }
}

fn another_back_end(world: World) {
    for (before, wanted) in [(Backend::NftCompat, Backend::Nft), (Backend::Nft, Backend::NftCompat)] {
        Play { world, before: Some(goal(before, ORDINARY)), wanted: goal(wanted, ORDINARY) }.run();
    }
}
