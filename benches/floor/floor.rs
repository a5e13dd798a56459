// SPDX-License-Identifier: Apache-2.0
//! The floor: the least that any process can do to redirect a pod. No libc, no start-up code, no heap: it enters the namespace
//! given as its first argument, sends one constant nf_tables transaction and reads one reply. Built by the benches with a
//! bare `rustc` call (`floor::build`), so it is no member of the workspace.
//!
//! Exit code: 0 if the kernel acknowledged, else the system call that failed (1 open, 2 setns, 3 socket, 4 send, 5 receive)
//! or 6 if the transaction was refused.
#![no_std]
#![no_main]

use core::arch::{asm, naked_asm};
use core::mem::MaybeUninit;

/// The transaction, encoded by `netfilter::encode` when the floor is built.
static BATCH: &[u8] = include_bytes!(env!("FLOOR_BATCH"));

const CLONE_NEWNET: usize = 0x4000_0000;
const AF_NETLINK: usize = 16;
const SOCK_RAW_CLOEXEC: usize = 3 | 0o2_000_000;
const NETLINK_NETFILTER: usize = 12;

#[cfg(target_arch = "x86_64")]
mod nr {
    pub const OPEN: usize = 2;
    pub const SOCKET: usize = 41;
    pub const SENDTO: usize = 44;
    pub const RECVFROM: usize = 45;
    pub const EXIT: usize = 60;
    pub const SETNS: usize = 308;
}

fn call(number: usize, arguments: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the x86_64 Linux system call convention; every pointer passed below outlives its call.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result,
            in("rdi") arguments[0], in("rsi") arguments[1], in("rdx") arguments[2],
            in("r10") arguments[3], in("r8") arguments[4], in("r9") arguments[5],
            out("rcx") _, out("r11") _);
    }
    result
}

fn exit(code: usize) -> ! {
    loop {
        call(nr::EXIT, [code, 0, 0, 0, 0, 0]);
    }
}

fn checked(code: usize, result: isize) -> usize {
    if result < 0 { exit(code) } else { result as usize }
}

/// Hands the initial stack pointer to [`floor`].
#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn _start() -> ! {
    naked_asm!("mov rdi, rsp", "and rsp, -16", "call {floor}", "ud2", floor = sym floor)
}

extern "C" fn floor(stack: *const usize) -> ! {
    // SAFETY: the kernel puts argc, then argv[0], argv[1] on the initial stack.
    let path = unsafe { *stack.add(2) };
    let namespace = checked(1, call(nr::OPEN, [path, 0, 0, 0, 0, 0]));
    checked(2, call(nr::SETNS, [namespace, CLONE_NEWNET, 0, 0, 0, 0]));
    let socket = checked(3, call(nr::SOCKET, [AF_NETLINK, SOCK_RAW_CLOEXEC, NETLINK_NETFILTER, 0, 0, 0]));
    checked(4, call(nr::SENDTO, [socket, BATCH.as_ptr() as usize, BATCH.len(), 0, 0, 0]));
    let mut reply = MaybeUninit::<[u8; 512]>::uninit();
    let length = checked(5, call(nr::RECVFROM, [socket, reply.as_mut_ptr() as usize, 512, 0, 0, 0]));
    // SAFETY: an nlmsgerr is a 16-byte header and the errno; at least 20 bytes were just written.
    let refused = length < 20 || unsafe { *reply.as_ptr().cast::<i32>().add(4) } != 0;
    exit(if refused { 6 } else { 0 })
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit(7)
}
