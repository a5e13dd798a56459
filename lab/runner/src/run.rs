// SPDX-License-Identifier: Apache-2.0
//! A run, inside the sandbox: probes, scenarios, reports.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use crate::tier::{self, Session, netns};
use anyhow::Context as _;
use cluster::{NodeIdentity, Probe};
use cucumber::{Cucumber, WriterExt as _, cli, event, gherkin, runner};
use futures::future::BoxFuture;
use futures::{FutureExt as _, TryFutureExt as _, stream};

use crate::board::{self, Board, Lines, Show};
use crate::catalogue::{self, Catalogue, Depth, Entry};
use crate::conclusion::{End, LEFT_OUT, conclude, in_order};
use crate::exit::Exit;
use crate::journal::Journal;
use crate::ledger::Ledger;
use crate::mutants::progress::Progress;
use crate::plan::{Place, Plan, Sut};
use crate::report::{Header, On};
use crate::sealed::{self, Sealed};
use crate::shared::{IN_A_CLUSTER, Shared, access, name};
use crate::steps::marks;
use crate::steps::world::{Lab, LabWorld};
use crate::sweep::{self, Cell, Measured, Sweep};
use crate::termination::Termination;
use crate::verdict::{Class, Record, Verdict};
use crate::writer::Writer;
use crate::{evidence, probe, pulse, stress};

/// Runs a plan to its end, or to an interruption.
pub(crate) async fn run(
    plan: Plan,
    place: Place,
    sealed: Sealed,
    journal: Option<Journal>,
) -> anyhow::Result<Exit> {
    let mut termination = Termination::listen()?;
    pulse::watch();
    let plan = Arc::new(plan);
    if place.is_sandbox() {
        netns::set_loopback_up(netns::OWN.as_ref()).await.context("cannot bring lo up")?;
    }
    let selected = Catalogue::of(&plan.root, &plan.args)?;
    let ids = selected.ids(&plan.root)?;
    let catalogue = Arc::new(expanded(&plan, selected));
    let shared = tokio::select! {
        shared = Shared::stand(&plan) => shared?,
        () = termination.came() => return give_up(&plan, termination).await,
    };
    let (session, tier) = shared.as_ref().map_or((None, tier::NETNS), |all| (Some(&all.session), all.tier));
    let on = match look(session, tier, &place).await {
        Ok(on) => on,
        Err(error) => return give_up(&plan, termination).await.and(Err(error)),
    };
    let (plan, probes) = (found(plan, &on.nodes), on.probes.clone());
    let mut header = Header::new(&plan, &place, on, ids)?;
    let blank = blank(&catalogue, Verdict::Skipped, LEFT_OUT);
    let ledger = ledger(journal, &header, &blank)?;
    board::say(&header.line());

    let started = Instant::now();
    let sealed = Arc::new(sealed);
    let lab = Lab::new(Arc::clone(&plan), Arc::clone(&catalogue), ledger.clone(), session.cloned(), sealed);
    let interrupted = {
        let played = Box::pin(played(&lab, &probes));
        tokio::select! {
            () = played => false,
            () = termination.came() => true,
        }
    };
    let seconds = started.elapsed().as_secs_f64();
    let records = sealed::judged(in_order(blank, ledger.records()), lab.sealed.broken().as_ref());
    let unchanged = compare(session.filter(|_| is_guest(&plan) && !interrupted), &mut header).await;
    // A cluster that the run has started ends with it.
    let ended = match &shared {
        Some(Shared { session, started: None, .. }) => {
            to_the_end(session.end().err_into().boxed(), interrupted, &mut termination).await
        }
        _ => Ok(()),
    };
    let end = match (&ended, &unchanged) {
        _ if interrupted => End::Interrupted,
        (Ok(()), Ok(())) => End::Whole,
        _ => End::Faulty,
    };
    let measured = measured(&plan, &catalogue, &ledger, &header, &records);
    let exit = conclude(&plan, header, records, seconds, end)?;
    measured?;
    ended?;
    unchanged?;
    if plan.args.keep && end != End::Interrupted {
        board::say(&format!("kept: nsenter -t {} -p -m -n; Ctrl-C ends it", place.outer_pid));
        termination.came().await;
    }
    Ok(exit)
}

/// The scenarios that a run plays of those that are selected: each once, several times, or with defects.
fn expanded(plan: &Plan, selected: Catalogue) -> Catalogue {
    let depth = if plan.args.quick { Depth::OneScenario } else { Depth::EveryScenario };
    match (&plan.mutants, plan.args.stress) {
        (Some(mutants), _) => selected.with_mutants(&mutants.played, depth, &mutants.controls),
        (None, Some(times)) => selected.repeated(times),
        (None, None) => selected,
    }
}

/// What scenarios are played on: this machine, or the nodes of a cluster.
async fn look(session: Option<&Session>, tier: &'static str, place: &Place) -> anyhow::Result<On> {
    Ok(match session {
        Some(session) => On {
            tier,
            probes: probe::of_session(session).await,
            back_end: "of the cluster".to_owned(),
            nodes: session.identities().await?,
        },
        None => On {
            tier,
            probes: probe::gather(place).await?,
            back_end: probe::back_end().await?,
            nodes: Vec::new(),
        },
    })
}

/// The ledger of a run, whose journal begins with it where the outer process reads one.
fn ledger(journal: Option<Journal>, header: &Header, blank: &[Record]) -> anyhow::Result<Ledger> {
    let Some(journal) = journal else { return Ok(Ledger::default()) };
    journal.begin(header, blank.to_owned())?;
    Ok(Ledger::with(journal))
}

/// True if the product is what a cluster has.
fn is_guest(plan: &Plan) -> bool {
    plan.args.kubeconfig.is_some() && plan.args.agent_image.is_none()
}

/// The plan, with the product that was found on nodes where nobody has named one.
fn found(plan: Arc<Plan>, nodes: &[NodeIdentity]) -> Arc<Plan> {
    if !is_guest(&plan) {
        return plan;
    }
    Arc::new(Plan { sut: Sut::of_cluster(nodes), ..(*plan).clone() })
}

/// Fails if nodes of a session, or what is installed there, are no longer what the header says, and enters what they are.
async fn compare(session: Option<&Session>, header: &mut Header) -> anyhow::Result<()> {
    let Some(session) = session else { return Ok(()) };
    let nodes = session.identities().await.context("nobody knows what the nodes have at the end")?;
    if nodes == header.nodes {
        return Ok(());
    }
    let changed = nodes.iter().filter(|node| !header.nodes.contains(node)).map(|node| node.name.clone());
    let changed = changed.collect::<Vec<_>>().join(", ");
    header.nodes_at_end = nodes;
    anyhow::bail!(
        "what is installed on the nodes changed during the run ({changed}): header.nodes and header.nodes_at_end of the report"
    )
}

/// Ends a run before its first scenario. Nothing but the label says what it has made in somebody's cluster.
async fn give_up(plan: &Plan, mut termination: Termination) -> anyhow::Result<Exit> {
    if let Some(access) = access(&plan.args) {
        let name = name(plan);
        let removed = tier::clean(&access, Some(&name), IN_A_CLUSTER).map_ok(drop).err_into();
        to_the_end(removed.boxed(), true, &mut termination).await?;
    }
    Ok(Exit::Interrupted)
}

/// Waits until what the run made in somebody's cluster is removed, which may take minutes. Whoever insists ends the wait.
async fn to_the_end(
    mut removed: BoxFuture<'_, anyhow::Result<()>>,
    interrupted: bool,
    termination: &mut Termination,
) -> anyhow::Result<()> {
    let failed = "cannot remove what the run made in the cluster";
    if !interrupted {
        tokio::select! {
            removed = &mut removed => return removed.context(failed),
            () = termination.came() => {}
        }
    }
    // A terminal that has gone is no reason to stop.
    let _ = writeln!(
        std::io::stderr(),
        "cnilab: removing what the run made in the cluster; one more Ctrl-C leaves it there"
    );
    tokio::select! {
        removed = &mut removed => removed.context(failed),
        () = termination.came_from_somebody() => anyhow::bail!(
            "what the run made in the cluster is still there, and its nodes may be as a scenario left them: cnilab clean --kubeconfig FILE"
        ),
    }
}

/// Tells what the cells of a sweep measured.
fn measured(
    plan: &Plan,
    catalogue: &Catalogue,
    ledger: &Ledger,
    header: &Header,
    records: &[Record],
) -> anyhow::Result<()> {
    let Some(wanted) = &plan.args.sweep else { return Ok(()) };
    let mut outcomes = ledger.measured();
    let sweep = Sweep::read(&plan.root, &wanted.name)?;
    let of_title = |name: &str| {
        sweep.cells().find(|(situation, policy, late)| sweep::title(situation, policy, *late) == name)
    };
    let cell = |record: &Record| {
        let entry = catalogue.entries.iter().find(|entry| entry.id == record.id)?;
        let (situation, policy, late) = of_title(&entry.scenario.name)?;
        let outcome = outcomes.remove(&record.id);
        let reason = record.reason.as_deref().unwrap_or_default();
        let why = outcome.is_none().then(|| format!("{}: {reason}", record.verdict.word()));
        Some(Cell { situation: situation.name.clone(), policy: policy.name.clone(), late, outcome, why })
    };
    let cells: Vec<Cell> = records.iter().filter_map(cell).collect();
    let measured = Measured {
        product: plan.sut.product.name.clone(),
        version: plan.sut.product.version.clone(),
        kernel: header.kernel.clone(),
        jobs: header.jobs,
        cells,
    };
    board::say(&sweep::tell(&plan.root, wanted, measured, &plan.report_dir)?);
    Ok(())
}

/// Runs all scenarios, and then what did not pass, as often as it may.
async fn played(lab: &Arc<Lab>, probes: &[Probe]) {
    scenarios(lab, probes).await;
    for retry in 1..=lab.plan.args.retries.unwrap_or(0) {
        let due = stress::due(&lab.ledger.records());
        if due.is_empty() {
            return;
        }
        let ids: Vec<_> = due.iter().map(String::as_str).collect();
        board::say(&format!("did not pass, and run once more ({retry}): {}", ids.join(", ")));
        scenarios(&lab.of(lab.catalogue.again(&due, retry + 1)), probes).await;
    }
}

/// Runs every selected scenario that can run here; the others are entered with the reason.
async fn scenarios(lab: &Arc<Lab>, probes: &[Probe]) {
    let Lab { plan, catalogue, ledger, .. } = &**lab;
    let board: Box<dyn Show> = match &plan.mutants {
        Some(_) => Box::new(Progress::new(catalogue)),
        None if Lines::fit(plan.jobs) => Box::new(Lines),
        None => Box::new(Board::new(&catalogue.groups())),
    };
    let mut writer = Writer::new(Arc::clone(catalogue), ledger.clone(), board);
    let mut features = catalogue.features.clone();
    for feature in &mut features {
        let all = std::mem::take(&mut feature.scenarios);
        for scenario in all {
            let entry = catalogue.find(feature, &scenario);
            let is_remote = lab.session.is_some();
            match entry.and_then(|entry| cannot_run(entry, &plan.sut, probes, is_remote)) {
                Some(record) => writer.enter(record),
                None => feature.scenarios.push(scenario),
            }
        }
        plan.drawn().into_iter().for_each(|drawn| drawn.rename(feature));
    }
    let features = catalogue::in_turn(features);
    let (before, after) = (Arc::clone(lab), Arc::clone(lab));
    let runner = runner::Basic::default()
        .steps(marks::collection())
        .max_concurrent_scenarios(plan.jobs)
        .before(move |feature, _, scenario, world: &mut LabWorld| {
            world.begin(&before, feature, scenario);
            async {}.boxed_local()
        })
        .after(move |feature, _, scenario, finished, world| {
            let lab = Arc::clone(&after);
            async move { evidence::conclude(&lab, feature, scenario, failed(finished), world).await }
                .boxed_local()
        });
    Cucumber::<LabWorld, _, (), _, _>::custom(Parsed(features), runner, writer.fail_on_skipped())
        .with_default_cli()
        .run(())
        .await;
}

/// Record of a scenario that cannot run here, or with these binaries.
fn cannot_run(entry: &Entry, sut: &Sut, probes: &[Probe], is_remote: bool) -> Option<Record> {
    let (verdict, class, why) = match sut.product.refusal(&entry.tags) {
        Some((verdict, why)) => (verdict, Class::Product, why),
        None => {
            let (class, why) = probe::unmet(entry, probes, is_remote)?;
            (Verdict::Inapplicable, class, why)
        }
    };
    Some(Record { class: Some(class), ..entry.record(verdict, Some(why)) })
}

fn failed(finished: &event::ScenarioFinished) -> bool {
    !matches!(finished, event::ScenarioFinished::StepPassed)
}

/// Parsed features.
struct Parsed(Vec<gherkin::Feature>);

impl cucumber::Parser<()> for Parsed {
    type Cli = cli::Empty;
    type Output = stream::Iter<std::vec::IntoIter<cucumber::parser::Result<gherkin::Feature>>>;

    fn parse(self, (): (), _: cli::Empty) -> Self::Output {
        stream::iter(self.0.into_iter().map(Ok).collect::<Vec<_>>())
    }
}

/// Every selected scenario in the order of the files, before it has ended.
fn blank(catalogue: &Catalogue, verdict: Verdict, reason: &str) -> Vec<Record> {
    catalogue.entries.iter().map(|entry| entry.record(verdict, Some(reason.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use crate::cli::{RunArgs, Selection};
    use crate::conclusion::folded;

    use super::*;

    const FEATURE: &str = "\
Feature: The harness itself

  Scenario: a line that nobody understands
    Given something that no step says

  Scenario: a step without what it needs
    Given its label \"a\" is \"b\"

  Scenario: a comparison that does not hold
    Given pod \"cart\" of the mesh
    Then each packet was got by whom the evaluator says, as what it says

  Scenario: one that asks nothing
    Given pod \"cart\" of the mesh

  Scenario: nor does one that chooses a pod
    Given pod \"cart\" of the mesh
    Then \"cart\" is meant

  Scenario: nor does one without a step

  @ipv6
  Scenario: one that cannot run here
    Given pod \"cart\" of the mesh

  @istio-iptables
  Scenario: one that these binaries do not claim
    Given pod \"cart\" of the mesh
";

    fn plan(root: &Path, retries: Option<u16>) -> Arc<Plan> {
        let sut = Sut::of_cluster(&[]);
        Arc::new(Plan {
            args: RunArgs { retries, ..RunArgs::default() },
            root: root.to_owned(),
            report_dir: root.to_owned(),
            sut,
            without_musl: None,
            mutants: None,
            real: None,
            workload: PathBuf::new(),
            seed: 1,
            jobs: 2,
            checkout: None,
            journal: None,
        })
    }

    async fn verdicts(retries: Option<u16>) -> Vec<Record> {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("features/harness")).unwrap();
        std::fs::write(root.path().join("features/harness/self.feature"), FEATURE).unwrap();
        let catalogue = Arc::new(Catalogue::read(root.path(), &Selection::default()).unwrap());
        let ledger = Ledger::default();
        let probes = [Probe { need: "ipv6".into(), met: false, evidence: "none here".into(), absent: false }];
        let plan = plan(root.path(), retries);
        let lab = Lab::new(Arc::clone(&plan), Arc::clone(&catalogue), ledger.clone(), None, Arc::default());
        played(&lab, &probes).await;
        folded(&plan.args, in_order(blank(&catalogue, Verdict::Skipped, LEFT_OUT), ledger.records()))
    }

    #[tokio::test]
    async fn what_did_not_pass_is_run_again_and_counted() {
        let (once, records) = (verdicts(None).await, verdicts(Some(2)).await);
        let ids =
            |records: &[Record]| records.iter().map(|one| (one.id.clone(), one.verdict)).collect::<Vec<_>>();
        assert_eq!(ids(&records), ids(&once), "it never passed");
        let counts: Vec<_> =
            records.iter().map(|one| one.runs.as_ref().map_or(1, |runs| runs.count)).collect();
        assert_eq!(counts, [3, 3, 3, 3, 3, 1, 1, 1], "what cannot run here, or has no step, ran once");
    }

    #[tokio::test]
    async fn every_ending_of_a_scenario_gets_its_verdict() {
        let records = verdicts(None).await;
        let verdicts: Vec<Verdict> = records.iter().map(|record| record.verdict).collect();
        assert_eq!(
            verdicts,
            [
                Verdict::Inconclusive,
                Verdict::Inconclusive,
                Verdict::Inconclusive,
                Verdict::Inconclusive,
                Verdict::Inconclusive,
                Verdict::Inconclusive,
                Verdict::Inapplicable,
                Verdict::Unsupported
            ]
        );
        let reason = |at: usize| records[at].reason.clone().unwrap_or_default();
        assert!(reason(0).contains("no step of this lab matches"), "{}", reason(0));
        assert!(reason(1).contains("no step has introduced pod"), "{}", reason(1));
        for asks_nothing in 3..6 {
            assert!(
                reason(asks_nothing).contains("no expectation was evaluated"),
                "{}",
                reason(asks_nothing)
            );
        }
        assert_eq!(reason(6), "no ipv6: none here");
        let classes = [5, 6, 7].map(|at| records[at].class);
        assert_eq!(classes, [None, Some(Class::Machine), Some(Class::Product)]);
        assert_eq!(records[0].step.as_deref(), Some("Given something that no step says"));
        let ran = |at: usize| records[at].steps.iter().map(|one| one.step.as_str()).collect::<Vec<_>>();
        let pod = "Given pod \"cart\" of the mesh";
        let comparison = "Then each packet was got by whom the evaluator says, as what it says";
        assert_eq!((ran(2), ran(3), ran(6)), (vec![pod, comparison], vec![pod], vec![]));
        let within = records[2].steps.iter().map(|one| one.seconds).sum::<f64>() <= records[2].seconds;
        assert!(within, "{:?} in {} s", records[2].steps, records[2].seconds);
    }

    #[tokio::test]
    async fn what_an_interruption_left_out_was_skipped() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("features")).unwrap();
        std::fs::write(root.path().join("features/self.feature"), FEATURE).unwrap();
        let catalogue = Catalogue::read(root.path(), &Selection::default()).unwrap();
        let records = in_order(blank(&catalogue, Verdict::Skipped, LEFT_OUT), Vec::new());
        assert!(records.iter().all(|record| record.verdict == Verdict::Skipped));
        assert_eq!(records.len(), 8);
    }
}
