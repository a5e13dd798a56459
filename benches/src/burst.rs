// SPDX-License-Identifier: Apache-2.0
//! Many pods at once, as after a drain: all of them, a fixed number at a time.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::contender::SetUp;
use crate::pod::PodNamespace;

/// Sets up `pods` fresh pods, `width` at a time, and says how long the whole took.
pub fn burst(contender: &dyn SetUp, pods: usize, width: usize) -> Result<Duration> {
    let waiting = (0..pods).map(|_| PodNamespace::create()).collect::<Result<Vec<_>>>()?;
    let queue = Mutex::new(waiting.iter());
    let start = Instant::now();
    thread::scope(|scope| {
        let worker = || -> Result<()> {
            loop {
                let next = queue.lock().map_err(|_| anyhow!("a worker panicked"))?.next();
                let Some(pod) = next else { return Ok(()) };
                contender.set_up(pod)?;
            }
        };
        let workers: Vec<_> = (0..width).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| anyhow!("a worker panicked"))?)
    })?;
    Ok(start.elapsed())
}
