// SPDX-License-Identifier: Apache-2.0
//! The start of a process that lives for a millisecond, without what the standard library does before `main`: a stack for its own
//! handler of stack overflows and what goes with it are a dozen system calls. An overflow ends the process here, too, but without a
//! word.

#![expect(unsafe_code, reason = "the C library calls main, and ignores signals for us")]

use std::ffi::{CStr, c_char, c_int};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};

/// Makes `$main`, a function from [`Arguments`] to the exit code, the program's start. The crate must be `#![no_main]`.
#[macro_export]
macro_rules! start {
    ($main:path) => {
        /// What the C library calls.
        #[unsafe(no_mangle)]
        extern "C" fn main(
            count: ::std::ffi::c_int,
            words: *const *const ::std::ffi::c_char,
        ) -> ::std::ffi::c_int {
            $crate::start::prepare();
            // SAFETY: they are what the C library passes to main.
            let arguments = unsafe { $crate::start::Arguments::new(count, words) };
            ::std::ffi::c_int::from($main(arguments))
        }
    };
}

/// The words of the command line, read when somebody asks.
#[derive(Debug, Clone, Copy)]
pub struct Arguments {
    count: c_int,
    words: *const *const c_char,
}

impl Arguments {
    /// What the C library passes to `main`.
    ///
    /// # Safety
    /// `words` must point to `count` texts that end with NUL and live as long as the process.
    #[must_use]
    pub unsafe fn new(count: c_int, words: *const *const c_char) -> Self {
        Self { count, words }
    }

    /// The words behind the program's name.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let text = |at: usize| {
            // SAFETY: whoever made the value promised that there are so many texts.
            let text = unsafe { CStr::from_ptr(*self.words.add(at)) };
            text.to_string_lossy().into_owned()
        };
        (1..usize::try_from(self.count).unwrap_or(0)).map(text).collect()
    }
}

/// Does the part of the standard library's start that matters: a write to a closed pipe is an error and not the end, and no file
/// that is opened becomes standard input, output or error by chance.
pub fn prepare() {
    const SIGPIPE: c_int = 13;
    const SIG_IGN: usize = 1;
    // SAFETY: to ignore a signal runs no code of ours.
    unsafe extern "C" {
        safe fn signal(signal: c_int, handler: usize) -> usize;
    }
    signal(SIGPIPE, SIG_IGN);
    let standard = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    let mut polled = standard.map(|file| PollFd::from_borrowed_fd(file, PollFlags::empty()));
    // Where that cannot be told, nothing is closed as far as we know.
    let _ = rustix::event::poll(&mut polled, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 }));
    for _ in polled.iter().filter(|file| file.revents().contains(PollFlags::NVAL)) {
        // The lowest number that is free, which is the closed one's.
        if let Ok(file) = rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty()) {
            std::mem::forget(file);
        }
    }
}
