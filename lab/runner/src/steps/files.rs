// SPDX-License-Identifier: Apache-2.0
//! Files of the node, by the hand that the tier has there. Paths are the node's own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cluster::hand::{Change, Event, Hand, HandError, Kind, Signal, Writing};
use cluster::{Node, NodePaths, PodName};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect};
use crate::tier::Tier;

/// Deadline of a removal.
const ABSENT: Duration = Duration::from_secs(5);

/// The first node, for its files.
#[derive(Debug)]
pub struct Files {
    /// Its hand.
    pub hand: Arc<dyn Hand>,
    /// Its directories.
    pub paths: NodePaths,
    /// The tier's factor of deadlines.
    patience: u32,
}

/// A wrong file is a fault of the system under test, a failing hand is none.
pub fn wrong(error: HandError) -> Stop {
    match error {
        HandError::Refused { .. } => Stop::wrong(error.to_string()),
        HandError::Lab(error) => error.into(),
    }
}

/// The node that steps mean.
pub async fn files(world: &mut LabWorld) -> Result<Files, Stop> {
    let tier = world.cluster().await?;
    Files::of(&tier, tier.node()?).await
}

/// A container's process: a number, and the hand of the node that gave it.
#[derive(Debug)]
pub struct Process {
    /// Hand of its node.
    pub hand: Arc<dyn Hand>,
    /// Number on that node.
    pub number: u32,
}

/// The process of a container that runs.
pub async fn process(world: &mut LabWorld, pod: &PodName, container: &str) -> Result<Process, Stop> {
    let tier = world.cluster().await?;
    let workload = tier.starting(pod).await?;
    let number = workload
        .process(container)
        .await?
        .ok_or_else(|| Stop::wrong(format!("{} does not run", pod.name)))?;
    Ok(Process { hand: workload.hand().await?, number })
}

impl Process {
    /// A file of it in the node's `/proc`.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        Path::new("/proc").join(self.number.to_string()).join(name)
    }

    /// Sends it a signal.
    pub async fn signal(&self, signal: Signal) -> Step {
        Ok(self.hand.signal(self.number, signal).await?)
    }
}

impl Files {
    /// A node's.
    pub async fn of(tier: &Tier, node: &dyn Node) -> Result<Self, Stop> {
        Ok(Self { hand: node.hand().await?, paths: node.directories(), patience: tier.patience() })
    }

    /// The file of a pod's network namespace, as the node names it.
    pub fn namespace(&self, netns: &str) -> PathBuf {
        self.paths.netns_dir.join(Path::new(netns).file_name().unwrap_or_default())
    }

    /// Text that has to be there.
    pub async fn text(&self, path: &Path) -> Result<String, Stop> {
        let bytes = self.hand.read(path).await.map_err(wrong)?;
        String::from_utf8(bytes).map_err(|error| Stop::wrong(format!("{}: {error}", path.display())))
    }

    /// JSON that has to be there.
    pub async fn json(&self, path: &Path) -> Result<Value, Stop> {
        let text = self.text(path).await?;
        serde_json::from_str(&text)
            .map_err(|error| Stop::wrong(format!("{}: {error}: {text}", path.display())))
    }

    /// Atomic write, as by a well-behaved writer.
    pub async fn write(&self, path: &Path, content: impl AsRef<[u8]>) -> Step {
        Ok(self.hand.write(path, content.as_ref(), Writing::WHOLE).await?)
    }

    /// True if something is at the path, whatever a link there leads to.
    pub async fn exists(&self, path: &Path) -> Result<bool, Stop> {
        Ok(self.hand.look(path).await?.is_some())
    }

    /// Waits until nothing is at a path, and then watches it for so long: nothing comes there.
    pub async fn absent(&self, path: &Path, window: Duration) -> Step {
        self.until(ABSENT, &[path], async || match self.exists(path).await? {
            true => Err(Stop::wrong(format!("{} is there", path.display()))),
            false => Ok(()),
        })
        .await?;
        let end = Instant::now() + window * self.patience;
        loop {
            let mut watch = self.hand.watch(path).await?;
            if self.exists(path).await? {
                return Err(Stop::wrong(format!("{} is there again", path.display())));
            }
            match timeout_at(end, watch.next()).await {
                Ok(change) => {
                    let again = || format!("{} was there again", path.display());
                    expect(!came(path, &change?), again)?;
                }
                Err(_) => return Ok(()),
            }
        }
    }

    /// The files of a directory that is there, by name.
    pub async fn all(&self, directory: &Path) -> Result<BTreeMap<String, Vec<u8>>, Stop> {
        let mut all = BTreeMap::new();
        let entries = match self.hand.list(directory).await {
            Err(error) if error.is_absence() => Vec::new(),
            listed => listed?,
        };
        for entry in entries.into_iter().filter(|entry| entry.kind != Kind::Directory) {
            match self.hand.read(&directory.join(&entry.name)).await {
                Ok(content) => drop(all.insert(entry.name, content)),
                // It went meanwhile, or is no file.
                Err(HandError::Refused { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(all)
    }

    /// Types of the plugins of a list.
    pub async fn types(&self, list: &Path) -> Result<String, Stop> {
        let list = self.json(list).await?;
        let plugins = list["plugins"].as_array().into_iter().flatten();
        let types: Vec<_> = plugins.map(|plugin| plugin["type"].as_str().unwrap_or("(none)")).collect();
        Ok(types.join(", "))
    }

    /// Everything below a directory but directories, at any depth.
    pub async fn below(&self, directory: &Path) -> Result<Vec<PathBuf>, Stop> {
        let (mut found, mut left) = (Vec::new(), vec![directory.to_owned()]);
        while let Some(directory) = left.pop() {
            let entries = match self.hand.list(&directory).await {
                Err(error) if error.is_absence() => continue,
                listed => listed?,
            };
            for entry in entries {
                let path = directory.join(&entry.name);
                if entry.kind == Kind::Directory { left.push(path) } else { found.push(path) }
            }
        }
        Ok(found)
    }

    /// Looks whenever something changes at one of the paths, until `found` finds something, or the deadline has passed, which the tier's patience
    /// stretches: then what it saw last is the reason.
    pub async fn until<T>(
        &self,
        deadline: Duration,
        paths: &[&Path],
        mut found: impl AsyncFnMut() -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        let end = Instant::now() + deadline * self.patience;
        loop {
            let mut watches = Vec::new();
            for path in paths {
                watches.push(self.hand.watch(path).await?);
            }
            match found().await {
                Err(Stop::Wrong(_)) if Instant::now() < end => {}
                ended => return ended,
            }
            let changes = watches.iter_mut().map(|watch| Box::pin(watch.next()));
            if let Ok((change, _, _)) = timeout_at(end, futures::future::select_all(changes)).await {
                change?;
            }
        }
    }
}

/// True for a change that brought something to a path.
fn came(path: &Path, change: &Change) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    matches!(change.event, Event::Created | Event::Came) && change.name.as_deref() == name.as_deref()
}

impl From<HandError> for Stop {
    fn from(error: HandError) -> Self {
        cluster::LabError::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use cluster::hand::{Answer, Follow, Handed, Work};

    use super::*;

    /// A node on which nothing ever changes.
    #[derive(Debug)]
    struct Still;

    #[async_trait]
    impl Hand for Still {
        async fn carry_out(&self, _: Work, _: Duration) -> Handed<Answer> {
            std::future::pending().await
        }

        async fn follow(&self, _: Work) -> Handed<Box<dyn Follow>> {
            Ok(Box::new(Self))
        }
    }

    #[async_trait]
    impl Follow for Still {
        async fn next(&mut self) -> Handed<Answer> {
            std::future::pending().await
        }

        async fn stop(self: Box<Self>) -> Handed<Vec<Answer>> {
            Ok(Vec::new())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slower_tier_has_longer_for_a_file() {
        let [conf_dir, bin_dir, cache_dir, run_dir, netns_dir] = Default::default();
        let paths = NodePaths { conf_dir, bin_dir, cache_dir, run_dir, netns_dir };
        let node = Files { hand: Arc::new(Still), paths, patience: 3 };
        let begin = Instant::now();
        let found = async || Err::<(), _>(Stop::wrong("it is not there"));
        node.until(Duration::from_secs(1), &[Path::new("/f")], found).await.unwrap_err();
        assert_eq!(begin.elapsed(), Duration::from_secs(3));
    }
}
