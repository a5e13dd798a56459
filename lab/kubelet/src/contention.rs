// SPDX-License-Identifier: Apache-2.0
//! Contention: how long a process was runnable and had no core, as the kernel counted it for that process.
//!
//! The second number of `/proc/PID/schedstat` (Documentation/scheduler/sched-stats.rst) is the main thread's. It is read when the process has
//! ended and nobody has waited for it yet; its further threads and its children are gone by then, so theirs excuses nothing.

use std::fs;
use std::io;
use std::process::Output;
use std::time::Duration;

use cluster::{Bounded, bounded};
use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Child;

/// Bytes of a read: those of a pipe.
const PIECE: usize = 1 << 16;

/// Waits for a process; returns its output, of which each stream is bounded, and how long it waited for a core.
pub(crate) async fn wait_with_output(mut child: Child) -> io::Result<(Output, Duration)> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr) = tokio::join!(all(stdout), all(stderr));
    let waited = without_core(&schedstat_of_ended(child.id()).await);
    let status = child.wait().await?;
    Ok((Output { status, stdout: stdout?, stderr: stderr? }, waited))
}

async fn all(stream: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut output = Bounded::new(bounded::OUTPUT);
    if let Some(mut stream) = stream {
        let mut piece = vec![0; PIECE];
        loop {
            match stream.read(&mut piece).await? {
                0 => break,
                read => output.push(&piece[..read]),
            }
        }
    }
    Ok(output.bytes())
}

/// Waits for its end, which is near once it has closed its output. Empty where the kernel does not tell.
async fn schedstat_of_ended(process: Option<u32>) -> String {
    let Some(pid) = process.and_then(|number| i32::try_from(number).ok()).map(Pid::from_raw) else {
        return String::new();
    };
    let ended = move || {
        let how = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        while waitid(Id::Pid(pid), how) == Err(Errno::EINTR) {}
        fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default()
    };
    tokio::task::spawn_blocking(ended).await.unwrap_or_default()
}

/// Time on a core, time in a queue for one, both in nanoseconds, and the number of times on a core.
fn without_core(schedstat: &str) -> Duration {
    let queued = schedstat.split_whitespace().nth(1).and_then(|number| number.parse().ok());
    Duration::from_nanos(queued.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use tokio::io::AsyncWriteExt as _;
    use tokio::process::Command;

    use super::*;

    #[test]
    fn what_the_kernel_tells_is_read() {
        assert_eq!(without_core("12 2500000 3\n"), Duration::from_micros(2500));
        assert_eq!(without_core(""), Duration::ZERO);
    }

    fn listing() -> Command {
        let mut command = Command::new("/proc/self/exe");
        command.args(["--list"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    #[tokio::test]
    async fn output_without_an_end_is_read_to_its_end_and_bounded() {
        let (mut writer, reader) = tokio::io::duplex(PIECE);
        let written = tokio::spawn(async move {
            for _ in 0..100 {
                writer.write_all(&[b'x'; PIECE]).await.unwrap();
            }
            writer.write_all(b"thread 'main' panicked").await.unwrap();
        });
        let bytes = all(Some(reader)).await.unwrap();
        written.await.unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.len() < bounded::OUTPUT + 64, "{}", text.len());
        let left_out = 100 * PIECE + 22 - bounded::OUTPUT;
        assert!(text.contains(&format!("… {left_out} bytes left out …")));
        assert!(text.ends_with("thread 'main' panicked"));
    }

    #[tokio::test]
    async fn output_is_whole() {
        let (output, _) = wait_with_output(listing().spawn().unwrap()).await.unwrap();
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stdout).contains("output_is_whole"));
    }

    /// Where a core is idle a process need not wait at all; what every process has had is time on one.
    #[tokio::test]
    async fn a_process_is_asked_once_it_has_ended() {
        if !std::path::Path::new("/proc/self/schedstat").exists() {
            return;
        }
        let child = listing().stdout(Stdio::null()).spawn().unwrap();
        let schedstat = schedstat_of_ended(child.id()).await;
        let on_core = schedstat.split_whitespace().next().and_then(|number| number.parse::<u64>().ok());
        assert!(on_core.is_some_and(|nanoseconds| nanoseconds > 0), "{schedstat:?}");
    }
}
