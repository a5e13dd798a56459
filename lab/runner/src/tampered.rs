// SPDX-License-Identifier: Apache-2.0
//! The lab's own processes on nodes, whose answers a verdict rests on. A product that is root beside them may trace them, or write to their memory, by the
//! very right with which an agent finds a pod's network (`PTRACE_MODE`, ptrace(2)): nothing forbids it, so it is looked for at the end of each scenario,
//! while they live.
//!
//! * `TracerPid` of `/proc/PID/status` names who traces a process now.
//! * A page of a program that somebody has written to is no page of its file any more (`Anonymous` of `/proc/PID/smaps`), also where the old content was put
//!   back: whoever puts code into a process has to write it somewhere that may be executed.
//!
//! Not found: data that was written without a tracer, and a tracer who has left without a trace in the code.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Executable mappings that are the kernel's.
const OF_KERNEL: [&str; 2] = ["[vdso]", "[vsyscall]"];

/// The first process of this program that somebody traces or has written to: what was done, and to whom.
///
/// # Errors
/// The program or the list of processes cannot be read.
pub fn look(program: &Path) -> io::Result<Option<String>> {
    let own = identity(program)?;
    for entry in fs::read_dir("/proc")? {
        let process = entry?.path();
        let is_own = |process: &Path| identity(&process.join("exe")).is_ok_and(|found| found == own);
        if !is_own(&process) {
            continue;
        }
        // One that has ended meanwhile answers nobody.
        let Ok(status) = fs::read_to_string(process.join("status")) else { continue };
        let tracer = tracer(&status).map(|id| PathBuf::from("/proc").join(id));
        // The lab traces its own plugins: a kernel that lacks something.
        let stranger = tracer.filter(|tracer| !is_own(tracer));
        let Ok(mappings) = fs::read_to_string(process.join("smaps")) else { continue };
        let what = match (stranger, written(&mappings)) {
            (Some(tracer), _) => format!("was traced by {}", words(&tracer)),
            (None, Some(mapping)) => format!("was written to in memory ({mapping})"),
            (None, None) => continue,
        };
        return Ok(Some(format!("{what}, in the process {}", words(&process))));
    }
    Ok(None)
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(path).map(|found| (found.dev(), found.ino()))
}

/// Its command line.
fn words(process: &Path) -> String {
    let line = fs::read(process.join("cmdline")).unwrap_or_default();
    let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    let line = words.join(" ");
    let name = process.file_name().unwrap_or_default().display();
    format!("{name} ({})", line.trim_end())
}

/// Who traces a process with this `/proc/PID/status`.
fn tracer(status: &str) -> Option<&str> {
    status.lines().find_map(|line| line.strip_prefix("TracerPid:")).map(str::trim).filter(|id| *id != "0")
}

/// The first executable mapping of `/proc/PID/smaps` that is not what its file says: its header line.
fn written(mappings: &str) -> Option<&str> {
    let mut executable = None;
    for line in mappings.lines() {
        let mut words = line.split_ascii_whitespace();
        let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if !first.ends_with(':') {
            // ADDRESSES PERMISSIONS OFFSET DEVICE INODE PATH
            let path = words.nth(3);
            let is_code = second.contains('x') && !path.is_some_and(|path| OF_KERNEL.contains(&path));
            executable = is_code.then_some(line);
            // Nobody's file, or the heap or a stack.
            if is_code && !path.is_some_and(|path| path.starts_with('/')) {
                return executable;
            }
        } else if first == "Anonymous:" && second != "0" && executable.is_some() {
            return executable;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_is_not_its_files_is_found_and_data_is_not() {
        let code = "55d0c0000000-55d0c0200000 r-xp 00001000 00:2a 7    /run/cnilab-own/workload";
        let data = "55d0c0200000-55d0c0210000 rw-p 00201000 00:2a 7    /run/cnilab-own/workload";
        let rest = "7ffe00000000-7ffe00002000 r-xp 00000000 00:00 0    [vdso]";
        let injected = "7f0000000000-7f0000001000 rwxp 00000000 00:00 0";
        let with = |code_pages: u32, more: &str| {
            format!(
                "{code}\nSize: 2048 kB\nAnonymous: {code_pages} kB\n{data}\nAnonymous: 64 kB\n{rest}\nAnonymous: 4 kB\n{more}"
            )
        };
        for (mappings, found) in
            [(with(0, ""), None), (with(4, ""), Some(code)), (with(0, injected), Some(injected))]
        {
            assert_eq!(written(&mappings), found, "{mappings}");
        }
    }

    #[test]
    fn a_tracer_is_one_with_a_number() {
        assert_eq!(tracer("Name:\tworkload\nTracerPid:\t0\nUid:\t0"), None);
        assert_eq!(tracer("Name:\tworkload\nTracerPid:\t17\nUid:\t0"), Some("17"));
    }
}
