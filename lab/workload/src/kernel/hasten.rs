// SPDX-License-Identifier: Apache-2.0
//! Lets a program's time pass faster: what it reads of clocks is changed when the call returns, what it waits for when the call begins, and put
//! back when that returns. At exec the vDSO is hidden, so that clocks are read by system calls.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::SystemTime;

use nix::errno::Errno;
use nix::libc::{self, c_long, user_regs_struct};
use nix::sys::ptrace;
use nix::unistd::Pid;

use super::clock::{self, Clock, Pace};
use super::memory::{read_exact, read_word, write_exact, write_word};

/// Units of `struct timespec` and `struct timeval`, in nanoseconds.
const TIMESPEC: i128 = 1;
const TIMEVAL: i128 = 1000;

/// Auxiliary vector: end, ignored entry, address of the vDSO.
const AT_NULL: u64 = 0;
const AT_IGNORE: u64 = 1;
const AT_SYSINFO_EHDR: u64 = 33;
/// More entries than any stack has before it.
const MOST_WORDS: u64 = 1 << 20;

/// Commands of `futex` without its flags, and the flag of its clock.
const FUTEX_COMMAND: u64 = 0x7f;
const FUTEX_WAIT: u64 = 0;
const FUTEX_WAIT_BITSET: u64 = 9;
const FUTEX_REALTIME: u64 = 256;

/// A wait with a time-out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// Milliseconds in a register.
    Millis(Register),
    /// Time from now, at an address.
    For { at: u64, unit: i128 },
    /// Time of a clock, at an address.
    Until { at: u64, clock: Clock },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Register {
    Rdx,
    R10,
}

/// A clock that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    At {
        at: u64,
        unit: i128,
        clock: Clock,
    },
    /// `time`: seconds in the result, and at an address unless that is zero.
    Seconds {
        at: u64,
    },
}

/// A call: its number and arguments.
#[derive(Debug, Clone, Copy)]
struct Call {
    number: c_long,
    arguments: [u64; 5],
}

impl Call {
    fn of(registers: &user_regs_struct) -> Self {
        let user_regs_struct { rdi, rsi, rdx, r10, r8, .. } = *registers;
        Self { number: registers.orig_rax.cast_signed(), arguments: [rdi, rsi, rdx, r10, r8] }
    }
}

/// Effect of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Effect {
    None,
    Reads(Reading),
    Waits(Vec<Wait>),
}

/// Action at a call's return.
enum Undo {
    Show(Reading),
    Register(Register, u64),
    Memory(u64, [u8; 16]),
}

/// A program whose time passes faster.
pub(super) struct Hastened {
    times: NonZeroU32,
    /// Clocks when the program read them first, in nanoseconds.
    began: HashMap<libc::clockid_t, i128>,
    /// Clocks of timers, by their descriptors.
    timers: HashMap<u64, Clock>,
    under_way: HashMap<Pid, Vec<Undo>>,
}

impl Hastened {
    pub(super) fn new(times: NonZeroU32) -> Self {
        Self { times, began: HashMap::new(), timers: HashMap::new(), under_way: HashMap::new() }
    }

    /// Pace of a clock that reads `now`, or that was read before.
    fn pace(&mut self, clock: Clock, now: i128) -> Pace {
        Pace { times: self.times, began: *self.began.entry(clock.number()).or_insert(now) }
    }

    /// Takes in a call that begins, and changes what it waits for.
    pub(super) fn begins(&mut self, pid: Pid, registers: &mut user_regs_struct) -> Result<(), Errno> {
        let undo = match self.effect(Call::of(registers)) {
            Effect::None => return Ok(()),
            Effect::Reads(reading) => vec![Undo::Show(reading)],
            Effect::Waits(waits) => {
                let undo = waits.into_iter().map(|wait| self.shorten(pid, registers, wait));
                undo.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect()
            }
        };
        self.under_way.insert(pid, undo);
        Ok(())
    }

    /// Changes what a call that returns has read, and puts back what it waited for.
    pub(super) fn returns(&mut self, pid: Pid, registers: &mut user_regs_struct) -> Result<(), Errno> {
        self.made_timer(registers);
        for undo in self.under_way.remove(&pid).into_iter().flatten() {
            match undo {
                Undo::Register(register, value) => {
                    *place(registers, register) = value;
                    ptrace::setregs(pid, *registers)?;
                }
                Undo::Memory(at, bytes) => write_exact(pid, at, bytes)?,
                Undo::Show(reading) if registers.rax.cast_signed() >= 0 => {
                    self.show(pid, registers, reading)?
                }
                Undo::Show(_) => {}
            }
        }
        Ok(())
    }

    fn show(&mut self, pid: Pid, registers: &mut user_regs_struct, reading: Reading) -> Result<(), Errno> {
        match reading {
            Reading::At { at, unit, clock } => {
                let Some(real) = read_exact(pid, at).and_then(|bytes| clock::decode(bytes, unit)) else {
                    return Ok(());
                };
                write_exact(pid, at, clock::encode(self.pace(clock, real).shown(real), unit))
            }
            Reading::Seconds { at } => {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                let now = clock::nanos(now);
                let shown = self.pace(Clock::Realtime, now).shown(now) / clock::SECOND;
                registers.rax = u64::try_from(shown).unwrap_or_default();
                ptrace::setregs(pid, *registers)?;
                if at == 0 { Ok(()) } else { write_word(pid, at, registers.rax) }
            }
        }
    }

    /// Shortens a wait; what undoes that.
    fn shorten(
        &mut self,
        pid: Pid,
        registers: &mut user_regs_struct,
        wait: Wait,
    ) -> Result<Option<Undo>, Errno> {
        let (at, unit, clock) = match wait {
            Wait::Millis(register) => {
                let former = *place(registers, register);
                *place(registers, register) = clock::shorter_millis(former, self.times);
                ptrace::setregs(pid, *registers)?;
                return Ok(Some(Undo::Register(register, former)));
            }
            Wait::For { at, unit } => (at, unit, None),
            Wait::Until { at, clock } => (at, TIMESPEC, Some(clock)),
        };
        if at == 0 {
            return Ok(None);
        }
        let Some(former) = read_exact(pid, at) else { return Ok(None) };
        let Some(time) = clock::decode(former, unit) else { return Ok(None) };
        let real = match clock {
            None => clock::shorter(time, self.times),
            // Zero disarms a timer.
            Some(_) if time == 0 => 0,
            Some(clock) => self.pace(clock, time).real(time),
        };
        write_exact(pid, at, clock::encode(real, unit))?;
        Ok(Some(Undo::Memory(at, former)))
    }

    fn effect(&self, call: Call) -> Effect {
        let [rdi, rsi, rdx, r10, r8] = call.arguments;
        let spec = |at: u64| Wait::For { at, unit: TIMESPEC };
        let waits = |wait: Wait| Effect::Waits(vec![wait]);
        match call.number {
            libc::SYS_clock_gettime => Clock::of(rdi)
                .map_or(Effect::None, |clock| Effect::Reads(Reading::At { at: rsi, unit: TIMESPEC, clock })),
            libc::SYS_gettimeofday if rdi != 0 => {
                Effect::Reads(Reading::At { at: rdi, unit: TIMEVAL, clock: Clock::Realtime })
            }
            libc::SYS_time => Effect::Reads(Reading::Seconds { at: rdi }),
            libc::SYS_nanosleep => waits(spec(rdi)),
            libc::SYS_clock_nanosleep => waits(timer_wait(Clock::of(rdi), rsi, rdx)),
            libc::SYS_epoll_wait | libc::SYS_epoll_pwait => waits(Wait::Millis(Register::R10)),
            libc::SYS_poll => waits(Wait::Millis(Register::Rdx)),
            libc::SYS_epoll_pwait2 => waits(spec(r10)),
            libc::SYS_ppoll | libc::SYS_rt_sigtimedwait => waits(spec(rdx)),
            libc::SYS_pselect6 => waits(spec(r8)),
            libc::SYS_select => waits(Wait::For { at: r8, unit: TIMEVAL }),
            libc::SYS_futex => futex(rsi, r10),
            libc::SYS_setsockopt if is_timeout(rsi, rdx) => waits(Wait::For { at: r10, unit: TIMEVAL }),
            libc::SYS_timerfd_settime => {
                // Its descriptor may be older than the tracer: then the clock is the usual one.
                let clock = self.timers.get(&rdi).copied().unwrap_or(Clock::Monotonic(libc::CLOCK_MONOTONIC));
                let first = rdx.saturating_add(16);
                Effect::Waits(vec![spec(rdx), timer_wait(Some(clock), rsi, first)])
            }
            _ => Effect::None,
        }
    }

    /// Notes the clock of a new timer.
    fn made_timer(&mut self, registers: &user_regs_struct) {
        let call = Call::of(registers);
        if call.number == libc::SYS_timerfd_create
            && let Some(clock) = Clock::of(registers.rdi)
        {
            self.timers.insert(registers.rax, clock);
        }
    }
}

/// `TIMER_ABSTIME` and `TFD_TIMER_ABSTIME` are the same bit.
fn timer_wait(clock: Option<Clock>, flags: u64, at: u64) -> Wait {
    match clock {
        Some(clock) if flags & 1 != 0 => Wait::Until { at, clock },
        _ => Wait::For { at, unit: TIMESPEC },
    }
}

fn futex(operation: u64, at: u64) -> Effect {
    let clock = match operation & FUTEX_REALTIME {
        0 => Clock::Monotonic(libc::CLOCK_MONOTONIC),
        _ => Clock::Realtime,
    };
    match operation & FUTEX_COMMAND {
        FUTEX_WAIT => Effect::Waits(vec![Wait::For { at, unit: TIMESPEC }]),
        FUTEX_WAIT_BITSET => Effect::Waits(vec![Wait::Until { at, clock }]),
        _ => Effect::None,
    }
}

/// True for `SO_RCVTIMEO` and `SO_SNDTIMEO`.
fn is_timeout(level: u64, name: u64) -> bool {
    let is = |name: u64, of: i32| u64::try_from(of) == Ok(name);
    is(level, libc::SOL_SOCKET) && (is(name, libc::SO_RCVTIMEO) || is(name, libc::SO_SNDTIMEO))
}

fn place(registers: &mut user_regs_struct, register: Register) -> &mut u64 {
    match register {
        Register::Rdx => &mut registers.rdx,
        Register::R10 => &mut registers.r10,
    }
}

/// Hides the vDSO from a program that has not run its first instruction: libc and Go then ask the kernel for the time.
pub(super) fn hide_vdso(pid: Pid) -> Result<(), Errno> {
    let word = |at: u64| read_word(pid, at);
    let mut at = ptrace::getregs(pid)?.rsp;
    let end = at.saturating_add(MOST_WORDS);
    // Number of arguments, arguments, null, environment, null.
    at = at.saturating_add((word(at)?.saturating_add(2)) * 8);
    while at < end && word(at)? != 0 {
        at += 8;
    }
    at += 8;
    while at < end {
        match word(at)? {
            AT_NULL => return Ok(()),
            AT_SYSINFO_EHDR => write_word(pid, at, AT_IGNORE)?,
            _ => {}
        }
        at += 16;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: c_long, arguments: [u64; 5]) -> Effect {
        Hastened::new(NonZeroU32::MIN).effect(Call { number, arguments })
    }

    #[test]
    fn each_call_that_reads_or_waits_is_known() {
        let monotonic = Clock::Monotonic(libc::CLOCK_MONOTONIC);
        let reads = |at, unit, clock| Effect::Reads(Reading::At { at, unit, clock });
        let spec = |at| Wait::For { at, unit: TIMESPEC };
        let waits = |wait| Effect::Waits(vec![wait]);
        assert_eq!(call(libc::SYS_clock_gettime, [1, 64, 0, 0, 0]), reads(64, TIMESPEC, monotonic));
        assert_eq!(call(libc::SYS_clock_gettime, [2, 64, 0, 0, 0]), Effect::None);
        assert_eq!(call(libc::SYS_gettimeofday, [64, 0, 0, 0, 0]), reads(64, TIMEVAL, Clock::Realtime));
        assert_eq!(call(libc::SYS_epoll_wait, [3, 64, 1, 9, 0]), waits(Wait::Millis(Register::R10)));
        assert_eq!(call(libc::SYS_futex, [64, 0x80, 1, 128, 0]), waits(spec(128)));
        assert_eq!(
            call(libc::SYS_futex, [64, 0x89, 1, 128, 0]),
            waits(Wait::Until { at: 128, clock: monotonic })
        );
        let realtime = waits(Wait::Until { at: 128, clock: Clock::Realtime });
        assert_eq!(call(libc::SYS_futex, [64, 0x189, 1, 128, 0]), realtime);
        assert_eq!(call(libc::SYS_futex, [64, 0x81, 1, 128, 0]), Effect::None, "a wake");
        assert_eq!(call(libc::SYS_clock_nanosleep, [1, 0, 128, 0, 0]), waits(spec(128)));
        let absolute = waits(Wait::Until { at: 128, clock: monotonic });
        assert_eq!(call(libc::SYS_clock_nanosleep, [1, 1, 128, 0, 0]), absolute);
        let timer = Effect::Waits(vec![spec(128), Wait::Until { at: 144, clock: monotonic }]);
        assert_eq!(call(libc::SYS_timerfd_settime, [5, 1, 128, 0, 0]), timer);
        assert_eq!(call(libc::SYS_read, [0; 5]), Effect::None);
    }
}
