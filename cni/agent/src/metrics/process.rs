// SPDX-License-Identifier: Apache-2.0
//! `process_*`: the metrics of a process that Prometheus' client libraries have. This library has none, so they come from `/proc/self` at each scrape.

use std::fs;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use super::Registrar;

/// Clock ticks of a second in `/proc/PID/stat` (`USER_HZ`, the same on each architecture that we build for).
const TICKS: f64 = 100.0;

/// Gauges of the process.
#[derive(Debug, Clone, Default)]
pub(super) struct Process {
    cpu: Counter<f64, AtomicU64>,
    memory: Gauge,
    files: Gauge,
    since: Gauge<f64, AtomicU64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Usage {
    /// Seconds of processor time.
    cpu: f64,
    /// Bytes of resident memory.
    memory: i64,
    /// Start, in seconds since 1970.
    since: f64,
}

impl Process {
    pub(super) fn register(&self, add: &mut Registrar<'_>) {
        add.metric("process_cpu_seconds", "Processor time, user and system, in seconds", &self.cpu);
        add.metric("process_resident_memory_bytes", "Resident memory in bytes", &self.memory);
        add.metric("process_open_fds", "Open file descriptors", &self.files);
        add.metric("process_start_time_seconds", "Start of the process, in seconds since 1970", &self.since);
    }

    /// Reads them anew. What cannot be read stays as it was.
    pub(super) fn look(&self) {
        if let Ok(entries) = fs::read_dir("/proc/self/fd") {
            // Without the one that lists them.
            self.files.set(i64::try_from(entries.count()).unwrap_or(i64::MAX) - 1);
        }
        let text = |path: &str| fs::read_to_string(path).ok();
        let files = (text("/proc/self/stat"), text("/proc/self/status"), text("/proc/stat"));
        let (Some(own), Some(status), Some(system)) = files else { return };
        if let Some(usage) = read(&own, &status, &system) {
            self.cpu.inc_by((usage.cpu - self.cpu.get()).max(0.0));
            self.memory.set(usage.memory);
            self.since.set(usage.since);
        }
    }
}

/// Usage by `stat` and `status` of `/proc/PID`, and `/proc/stat` (proc(5)); the name of a program may hold anything, so fields are counted behind it.
fn read(own: &str, status: &str, system: &str) -> Option<Usage> {
    let (_, fields) = own.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    // The first of these is field 3.
    let number = |field: usize| fields.get(field - 3)?.parse::<u32>().ok().map(f64::from);
    let boot = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse::<u32>().ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes = resident.trim().strip_suffix(" kB")?.parse::<i64>().ok()?;
    Some(Usage {
        cpu: (number(14)? + number(15)?) / TICKS,
        memory: kilobytes.saturating_mul(1024),
        since: f64::from(boot) + number(22)? / TICKS,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_the_manual_behind_any_name() {
        let mut fields: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
        fields[0] = "S".to_owned();
        let own = format!("1 (a) S (x) {}", fields.join(" "));
        let system = "cpu 1 2 3\nbtime 1000\nprocesses 7\n";
        let status = "Name:\ta\nVmRSS:\t     24 kB\n";
        let usage = read(&own, status, system).unwrap();
        assert_eq!(usage, Usage { cpu: 0.29, memory: 24 * 1024, since: 1000.22 });
        for broken in ["", "1 (a)", "1 (a) S 1 2 3"] {
            assert_eq!(read(broken, status, system), None, "{broken:?}");
        }
        assert_eq!(read(&own, status, "cpu 1"), None);
        assert_eq!(read(&own, "Name:\ta", system), None);
    }

    #[test]
    fn this_process_has_used_something() {
        let process = Process::default();
        process.look();
        assert!(process.memory.get() > 1 << 16 && process.files.get() > 0 && process.since.get() > 1e9);
    }
}
