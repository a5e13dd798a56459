// SPDX-License-Identifier: Apache-2.0
//! A thread's work: its configurations, one after the other, in namespaces of its own.

mod fated;
mod pass;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use netfilter::address::Rtnetlink;
use netfilter::{Backend, ground};
use redirect::Config;
use redirect::generate::ruleset;
use redirect::ruleset::Ruleset;
use redirect::verdict;

use crate::counters::{self, Known, Live, Place};
use crate::data::{self, Case};
use crate::derive;
use crate::exchange::{self, MORE_PATIENCE, PATIENCE, Proxy, Seen};
use crate::expect;
use crate::fates::Fates;
use crate::findings::Findings;
use crate::flow::Pod;
use crate::forget;
use crate::net::Net;
use crate::packet::{Kind, Spec};
use crate::random::Random;
use crate::writer::{Refusal, Writer};
use pass::Pass;

/// Maximum lag of a counter behind the event that ended a packet's course.
const SETTLING: Duration = Duration::from_millis(50);

/// Timeout for a new link.
const LINK: Duration = Duration::from_secs(10);

/// Findings of one kind that suffice to know that a configuration is wrong.
const ENOUGH: usize = 5;

/// Ports of senders: no rule names one by itself, and each packet has the next, so that conntrack takes it for a new one.
const PORTS: std::ops::Range<u16> = 20_000..60_000;

#[derive(Debug)]
pub struct Plan {
    /// Programs the pods.
    pub writer: Box<dyn Writer>,
    /// Through which back end.
    pub backend: Backend,
    /// The configurations.
    pub cases: Vec<Case>,
    /// Minimum number of packets for each.
    pub packets: usize,
    /// Threads.
    pub lanes: usize,
    /// Determines the packets and their order.
    pub seed: u64,
    /// A thread with so many findings takes no further configuration.
    pub enough: usize,
    pub judge: Judge,
}

/// Who says what should become of a packet.
#[derive(Debug, Clone)]
pub enum Judge {
    /// Our evaluator of the rules that our generator makes; it knows the counters of rules as well.
    Evaluator,
    /// Fates with rules that others wrote.
    Recorded(Fates),
    /// Fates are recorded.
    Nobody,
}

impl Plan {
    /// The plan with only those configurations that its writer can be asked for.
    #[must_use]
    pub fn possible(mut self) -> Self {
        self.cases.retain(|case| self.writer.can_ask_for(&case.config));
        self
    }
}

/// Sends every packet of every configuration, on as many threads as the plan says.
pub fn run(plan: &Plan) -> anyhow::Result<Findings> {
    let started = Instant::now();
    let queue = Mutex::new(plan.cases.iter());
    let next = || queue.lock().ok().and_then(|mut cases| cases.next());
    let lanes: Vec<anyhow::Result<Findings>> = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..plan.lanes).map(|_| scope.spawn(|| lane(plan, &next))).collect();
        let end = |lane: std::thread::ScopedJoinHandle<'_, _>| {
            lane.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a lane panicked")))
        };
        lanes.into_iter().map(end).collect()
    });
    let mut findings = Findings { backend: plan.backend.to_string(), ..Findings::default() };
    for lane in lanes {
        findings.add(lane?);
    }
    findings.seconds = started.elapsed().as_secs_f64();
    Ok(findings)
}

fn lane<'p>(plan: &'p Plan, next: &dyn Fn() -> Option<&'p Case>) -> anyhow::Result<Findings> {
    let mut lane = Lane {
        plan,
        net: Net::make()?,
        rtnetlink: Rtnetlink::open()?,
        port: PORTS.start,
        findings: Findings::default(),
    };
    lane.warm_up()?;
    while lane.findings.wrong() < plan.enough
        && let Some(case) = next()
    {
        let judged = match plan.judge {
            Judge::Evaluator => lane.case(case),
            Judge::Recorded(_) | Judge::Nobody => lane.fated(case),
        };
        judged.with_context(|| format!("configuration {:?} through {}", case.name, plan.backend))?;
    }
    Ok(lane.findings)
}

struct Lane<'p> {
    plan: &'p Plan,
    net: Net,
    rtnetlink: Rtnetlink,
    port: u16,
    findings: Findings,
}

impl Lane<'_> {
    /// Sends packets until some get through: a new link takes its time.
    fn warm_up(&mut self) -> anyhow::Result<()> {
        let proxy = Proxy::listen(&Config::default())?;
        let deadline = Instant::now() + LINK;
        for spec in derive::probes() {
            let mut is_answered = false;
            while !is_answered {
                anyhow::ensure!(Instant::now() < deadline, "{spec} did not get through without any rule");
                self.port += 1;
                let seen = exchange::send(&self.net, &proxy, &spec, self.port, Some(PATIENCE))?;
                is_answered = matches!(seen, Seen::Got { is_answered: true, .. });
            }
        }
        Ok(())
    }

    fn case(&mut self, case: &Case) -> anyhow::Result<()> {
        let backend = self.plan.backend;
        let mut config = Config { dialect: backend.dialect(), ..case.config.clone() };
        forget::rules(backend)?;
        forget::connections()?;
        let named = ruleset(&config)?;
        if !data::names(&named).is_empty() {
            self.is_refused(case, &config, &named)?;
            config = data::numbered(&config);
        }
        self.findings.pods += 1;
        if let Err(Refusal(why)) = self.plan.writer.program(&case.name, &config, backend)? {
            self.findings.astray.push(format!("{} {}: {why}", self.plan.backend, case.name));
            return Ok(());
        }
        let rules = ruleset(&config)?;
        let known = counters::known(&rules);
        let mut random = Random::new(self.plan.seed, &case.name);
        let specs = derive::packets(&config, &rules, self.plan.packets, &mut random);
        let before = counters::read(backend)?;
        let (astray, disagreements) = (self.findings.astray.len(), self.findings.disagreements.len());
        self.strangers(case, &known, &before);
        let pod = expect::pod(&config);
        let mut pass = Pass {
            case,
            judge: verdict::Judge::new(&rules),
            pod: &pod,
            proxy: &Proxy::listen(&config).context("cannot listen as the proxy")?,
            known: &known,
            counters: before,
            live: Live::open(backend)?,
            met: BTreeSet::new(),
            senders: BTreeSet::new(),
            settling: SETTLING,
        };
        for spec in &specs {
            if self.findings.astray.len() >= astray + ENOUGH {
                break;
            }
            // Counters that are known to be wrong do not end it: what becomes of packets is the point.
            let counts = self.findings.disagreements.len() < disagreements + ENOUGH;
            pass.settling = if counts { SETTLING } else { Duration::ZERO };
            self.packet(&mut pass, spec).with_context(|| spec.to_string())?;
        }
        if self.findings.disagreements.len() < disagreements + ENOUGH {
            self.others(&pass, &counters::read(backend)?);
        }
        self.findings.cover(&known, &pass.met);
        if let Some(routes) = ground::policy_routes(&config) {
            self.rtnetlink.remove_policy_routes(routes)?;
        }
        Ok(())
    }

    /// A name is nothing that a kernel can hold: whoever writes rules over netlink must say so by name.
    fn is_refused(&mut self, case: &Case, config: &Config, named: &Ruleset) -> anyhow::Result<()> {
        let backend = self.plan.backend;
        if self.plan.writer.knows_names() || !matches!(backend, Backend::NftCompat | Backend::Nft) {
            return Ok(());
        }
        let names = data::names(named);
        let said = self.plan.writer.program(&case.name, config, backend)?;
        match &said {
            Err(Refusal(why)) if names.iter().any(|name| why.contains(name)) => self.findings.refused += 1,
            _ => {
                let text =
                    format!("{backend} {}: the names {names:?} must be refused, but: {said:?}", case.name);
                self.findings.astray.push(text);
            }
        }
        Ok(())
    }

    /// Records missing and unexpected rules.
    fn strangers(&mut self, case: &Case, known: &[Known], live: &[(Place, u64)]) {
        let wanted: BTreeSet<&Place> = known.iter().map(|rule| &rule.place).collect();
        let there: BTreeSet<&Place> = live.iter().map(|(place, _)| place).collect();
        for place in wanted.symmetric_difference(&there) {
            let what =
                if wanted.contains(place) { "is wanted and not there" } else { "is there and not wanted" };
            let text = format!("{} {}: rule {place} {what}", self.plan.backend, case.name);
            self.findings.disagreements.push(text);
        }
    }

    /// Records rules that moved without a packet of their family.
    fn others(&mut self, pass: &Pass<'_>, live: &[(Place, u64)]) {
        for ((place, before), (_, now)) in
            pass.counters.iter().zip(live).filter(|(before, now)| before != now)
        {
            let name = &pass.case.name;
            let text =
                format!("{} {name}: rule {place} went from {before} to {now} by itself", self.plan.backend);
            self.findings.disagreements.push(text);
        }
    }

    fn packet(&mut self, pass: &mut Pass<'_>, spec: &Spec) -> anyhow::Result<()> {
        let port = spec.source_port.unwrap_or_else(|| self.next_port(pass.pod, spec));
        let sender = (spec.family(), spec.kind == Kind::Udp, port);
        if pass.senders.contains(&sender) {
            // The kernel looks through the whole machine's connections for that.
            forget::connections()?;
            pass.senders.clear();
        }
        pass.senders.insert(sender);
        let course = expect::course(&pass.judge, pass.pod, spec, port);
        let expected = expect::expect(self.plan.backend.dialect(), spec, port, &course);
        // The first one that is astray may only be late. Where one is, all others are believed sooner.
        let patience = if self.findings.astray.is_empty() { MORE_PATIENCE } else { PATIENCE };
        let patience = course.is_answered.then_some(patience);
        let seen = exchange::send(&self.net, pass.proxy, spec, port, patience)?;
        let moved = pass.moved(self.plan.backend.dialect(), spec.family(), &expected)?;
        self.findings.packets += 1;
        *self.findings.outcomes.entry(expected.word).or_default() += 1;
        let is_astray = !expect::agrees(&expected.seen, &seen);
        if is_astray || (moved != expected.moved && !pass.settling.is_zero()) {
            let text = pass.describe(self.plan, spec, &expected, &seen, &moved);
            let findings = &mut self.findings;
            let kind = if is_astray { &mut findings.astray } else { &mut findings.disagreements };
            kind.push(text);
        }
        pass.met.extend(moved);
        Ok(())
    }

    /// A port that nobody in this exchange listens on.
    fn next_port(&mut self, pod: &Pod, spec: &Spec) -> u16 {
        loop {
            self.port = if self.port + 1 < PORTS.end { self.port + 1 } else { PORTS.start };
            if !pod.proxy_ports.contains(&self.port) && spec.destination.port() != self.port {
                return self.port;
            }
        }
    }
}
