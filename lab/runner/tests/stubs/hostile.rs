// SPDX-License-Identifier: Apache-2.0
//! A CNI plugin that does to the lab what no product should, and is otherwise the right one, which lies beside it as `istio-iptables`.
//! `tests/fooled.rs` compiles it with what it does in `DOES`.

use std::ffi::{CString, c_char, c_ulong, c_void};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, exit};
use std::{env, fs, io};

const MS_REMOUNT: c_ulong = 32;
const S_IFBLK: u32 = 0o060_000;
const PTRACE_SEIZE: u32 = 0x4206;

unsafe extern "C" {
    fn mount(
        source: *const c_char,
        target: *const c_char,
        kind: *const c_char,
        flags: c_ulong,
        data: *const c_void,
    ) -> i32;
    fn mknod(path: *const c_char, mode: u32, device: u64) -> i32;
    fn ptrace(request: u32, process: i32, address: *mut c_void, data: *mut c_void) -> i64;
    fn fork() -> i32;
    fn dup2(from: i32, to: i32) -> i32;
    fn pause() -> i32;
}

fn main() {
    if env::var("CNI_COMMAND").as_deref() == Ok("ADD") {
        match env!("DOES") {
            "look" => look(),
            "disk" => disk(),
            "touch" => touch().unwrap_or_else(|error| fail(&format!("touched nothing: {error}"))),
            "replace" => replace().unwrap_or_else(|error| fail(&format!("replaced nothing: {error}"))),
            "trace" => trace(),
            "patch" => patch().unwrap_or_else(|error| fail(&format!("patched nothing: {error}"))),
            other => fail(other),
        }
    }
    let right = env::current_exe().unwrap().with_file_name("istio-iptables");
    fail(&Command::new(right).exec().to_string());
}

/// Fails if anything of the lab is to be seen.
fn look() {
    let names = |path: &str| -> Vec<String> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let command = fs::read_to_string("/proc/1/cmdline").unwrap_or_default();
    if command.split('\0').next() == Some("cnilab") {
        fail(&format!("the first process is {command}"));
    }
    for place in [env!("SOURCES"), "/root", "/home"] {
        if Path::new(place).exists() {
            fail(&format!("{place} is there"));
        }
    }
    let clusters = names("/run/cnilab");
    let nodes: Vec<_> = clusters.iter().flat_map(|name| names(&format!("/run/cnilab/{name}"))).collect();
    if clusters.len() != 1 || nodes.len() != 1 {
        fail(&format!("clusters {clusters:?}, nodes {nodes:?}"));
    }
    if let Some(suite) = names("/run").into_iter().find(|name| name.contains("suite")) {
        fail(&format!("{suite} is there"));
    }
}

/// Fails if the machine's disk could be mounted: if there could be a device of its own.
fn disk() {
    let at = "/tmp/disk";
    let path = CString::new(at).unwrap();
    // The first SCSI disk (`SCSI_DISK0_MAJOR`), whether there is one or not.
    if unsafe { mknod(path.as_ptr(), S_IFBLK | 0o600, 8 << 8) } == 0 {
        fail(&format!("{at} is a disk"));
    }
}

/// Leaves a child behind that traces the node's first process, which is the lab's.
fn trace() {
    // SAFETY: this process has one thread.
    if unsafe { fork() } != 0 {
        return;
    }
    let nowhere = fs::File::options().write(true).open("/dev/null").unwrap();
    let none = std::ptr::null_mut();
    // SAFETY: seizing takes neither address nor data, the descriptors are this process' own.
    unsafe {
        dup2(nowhere.as_raw_fd(), 1);
        dup2(nowhere.as_raw_fd(), 2);
        ptrace(PTRACE_SEIZE, 1, none, none);
        loop {
            pause();
        }
    }
}

/// Writes to the code of the node's first process, and puts back what was there.
fn patch() -> io::Result<()> {
    let maps = fs::read_to_string("/proc/1/maps")?;
    let code = maps.lines().find(|line| line.contains("r-xp")).unwrap();
    let at = u64::from_str_radix(code.split('-').next().unwrap(), 16).unwrap();
    let memory = fs::File::options().read(true).write(true).open("/proc/1/mem")?;
    let mut byte = [0];
    memory.read_exact_at(&mut byte, at)?;
    memory.write_all_at(&[!byte[0]], at)?;
    memory.write_all_at(&byte, at)
}

/// Makes the lab's program, to which the network's first plugin is a link, writable for everybody.
fn touch() -> io::Result<()> {
    let of = |directory: &str| Path::new(directory).join("lab-net");
    let link = env::var("CNI_PATH").unwrap().split(':').map(of).find(|path| path.exists());
    let program = fs::canonicalize(link.unwrap())?;
    make_writable(&program)?;
    fs::set_permissions(program, fs::Permissions::from_mode(0o777))
}

/// Replaces this very plugin by the right one.
fn replace() -> io::Result<()> {
    // The name of what another call has replaced ends with " (deleted)".
    let own = env::current_exe()?.with_file_name("istio-cni");
    make_writable(own.parent().unwrap())?;
    let fresh = own.with_extension(std::process::id().to_string());
    fs::copy(own.with_file_name("istio-iptables"), &fresh)?;
    fs::rename(fresh, own)
}

fn make_writable(mounted: &Path) -> io::Result<()> {
    let at = CString::new(mounted.to_str().unwrap())?;
    let nothing = std::ptr::null();
    // SAFETY: the string outlives the call.
    let done = unsafe { mount(nothing, at.as_ptr(), nothing, MS_REMOUNT, nothing.cast()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn fail(why: &str) -> ! {
    println!(r#"{{"cniVersion":"1.0.0","code":99,"msg":{why:?}}}"#);
    exit(1)
}
