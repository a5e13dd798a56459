// SPDX-License-Identifier: Apache-2.0
//! An allocator for a process that lives for a millisecond: memory comes from one static block and is never given back. A system's
//! allocator asks the kernel for every few pages and returns them, which is a tenth of a pod's set-up time.
//!
//! Allocations beyond the block come from the system's allocator. As no byte of the block is handed out twice, no thread ever reads
//! what another wrote there before: nothing has to be ordered, and what is handed out is zero.

#![expect(unsafe_code, reason = "an allocator hands out pointers")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where the block begins in memory: any smaller alignment of an offset is one of the address, too.
const ALIGNMENT: usize = 64;

#[repr(align(64))]
struct Block<const N: usize>(UnsafeCell<[u8; N]>);

/// An allocator of `N` bytes. As a static it lies in memory that costs nothing until it is used; its own field comes first, so that it
/// is on a page that is used anyway.
#[repr(C)]
pub struct Arena<const N: usize> {
    /// Offset of the first byte that was never handed out. It never shrinks.
    top: AtomicUsize,
    block: Block<N>,
}

// SAFETY: `block` is only reached through pointers to ranges that `take` and `extend` handed out, each byte once.
unsafe impl<const N: usize> Sync for Arena<N> {}

impl<const N: usize> Arena<N> {
    /// An empty one.
    #[must_use]
    pub const fn new() -> Self {
        Self { top: AtomicUsize::new(0), block: Block(UnsafeCell::new([0; N])) }
    }

    fn base(&self) -> *mut u8 {
        self.block.0.get().cast()
    }

    /// Where in the block `pointer` lies.
    fn offset(&self, pointer: *mut u8) -> Option<usize> {
        pointer.addr().checked_sub(self.base().addr()).filter(|offset| *offset < N)
    }

    /// A range of `layout` that nobody had before.
    fn take(&self, layout: Layout) -> Option<*mut u8> {
        if layout.align() > ALIGNMENT {
            return None;
        }
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            let start = top.checked_next_multiple_of(layout.align())?;
            let end = start.checked_add(layout.size()).filter(|end| *end <= N)?;
            match self.top.compare_exchange_weak(top, end, Ordering::Relaxed, Ordering::Relaxed) {
                // SAFETY: `start <= end <= N`, so the pointer is inside of the block or one past it.
                Ok(_) => return Some(unsafe { self.base().add(start) }),
                Err(other) => top = other,
            }
        }
    }

    /// Adds what follows the range from `start` to `end` to it, if nobody has that yet.
    fn extend(&self, start: usize, end: usize, new_size: usize) -> bool {
        let Some(wanted) = start.checked_add(new_size).filter(|wanted| *wanted <= N) else { return false };
        self.top.compare_exchange(end, wanted, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl<const N: usize> Default for Arena<N> {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: `take` and `extend` hand out ranges that fit the layout and overlap no other; a block of the system's is known by its address, and
// goes back to the system alone.
unsafe impl<const N: usize> GlobalAlloc for Arena<N> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        self.take(layout).unwrap_or_else(|| unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        self.take(layout).unwrap_or_else(|| unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if self.offset(pointer).is_none() {
            // SAFETY: the caller's promise; what is not in our block is the system's.
            unsafe { System.dealloc(pointer, layout) };
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let Some(start) = self.offset(pointer) else {
            // SAFETY: the caller's promise; what is not in our block is the system's.
            return unsafe { System.realloc(pointer, layout, new_size) };
        };
        if new_size <= layout.size() || self.extend(start, start + layout.size(), new_size) {
            return pointer;
        }
        // SAFETY: the caller promises that the new size, with the old alignment, is a valid layout.
        let wanted = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        // SAFETY: the caller promises that it is not empty.
        let new = unsafe { self.alloc(wanted) };
        if !new.is_null() {
            // SAFETY: both are in use and apart, and the old one is the shorter one.
            unsafe { ptr::copy_nonoverlapping(pointer, new, layout.size()) };
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    /// An allocation as its offset in the arena, `None` for one of the system's, which is given back.
    fn place<const N: usize>(arena: &Arena<N>, layout: Layout) -> Option<usize> {
        // SAFETY: no layout here is empty, and what is given back is not used.
        unsafe {
            let pointer = arena.alloc(layout);
            assert!(!pointer.is_null());
            assert_eq!(pointer.addr() % layout.align(), 0);
            let place = arena.offset(pointer);
            if place.is_none() {
                arena.dealloc(pointer, layout);
            }
            place
        }
    }

    #[test]
    fn blocks_lie_behind_each_other_aligned_as_asked() {
        let arena = Box::new(Arena::<8192>::new());
        assert_eq!(place(&arena, layout(3, 1)), Some(0));
        assert_eq!(place(&arena, layout(8, 8)), Some(8));
        assert_eq!(place(&arena, layout(1, 1)), Some(16));
        assert_eq!(place(&arena, layout(1, 64)), Some(64));
    }

    #[test]
    fn what_does_not_fit_comes_from_the_system() {
        let arena = Box::new(Arena::<8192>::new());
        assert_eq!(place(&arena, layout(8193, 1)), None);
        assert_eq!(place(&arena, layout(1, 128)), None, "an alignment above the arena's own");
        assert_eq!(place(&arena, layout(8192, 1)), Some(0));
        assert_eq!(place(&arena, layout(1, 1)), None);
    }

    #[test]
    fn no_byte_is_handed_out_twice() {
        let arena = Box::new(Arena::<4096>::new());
        let (small, other) = (layout(16, 8), layout(32, 8));
        // SAFETY: each block is given back once, with its own layout.
        unsafe {
            let first = arena.alloc(small);
            arena.dealloc(first, small);
            assert_eq!(place(&arena, other), Some(16));
        }
    }

    #[test]
    fn the_block_on_top_grows_where_it_is_and_others_are_copied() {
        let arena = Box::new(Arena::<256>::new());
        // SAFETY: sizes and layouts belong to the blocks, and no block is used after it moved.
        unsafe {
            let first = arena.alloc(layout(8, 1));
            ptr::write_bytes(first, 7, 8);
            assert_eq!(arena.realloc(first, layout(8, 1), 16), first);
            let second = arena.alloc(layout(8, 1));
            assert_eq!(arena.realloc(first, layout(16, 1), 4), first, "shorter stays");
            let moved = arena.realloc(first, layout(4, 1), 32);
            assert_eq!((arena.offset(second), arena.offset(moved)), (Some(16), Some(24)));
            assert_eq!(std::slice::from_raw_parts(moved, 4), [7; 4]);
            let out = arena.realloc(moved, layout(32, 1), 300);
            assert_eq!(arena.offset(out), None);
            assert_eq!(std::slice::from_raw_parts(out, 4), [7; 4]);
            let out = arena.realloc(out, layout(300, 1), 600);
            assert_eq!(std::slice::from_raw_parts(out, 4), [7; 4]);
            arena.dealloc(out, layout(600, 1));
        }
    }

    #[test]
    fn zeroed_is_zero_where_a_block_shrank_and_went() {
        let arena = Box::new(Arena::<256>::new());
        let (short, long) = (layout(40, 1), layout(200, 1));
        // SAFETY: each block is given back once, with its own layout.
        unsafe {
            let dirty = arena.alloc(short);
            ptr::write_bytes(dirty, 0xff, 40);
            assert_eq!(arena.realloc(dirty, short, 20), dirty);
            arena.dealloc(dirty, layout(20, 1));
            let clean = arena.alloc_zeroed(long);
            assert_eq!(std::slice::from_raw_parts(clean, 200), [0; 200]);
        }
    }

    #[test]
    fn threads_never_share_a_byte() {
        let arena = Box::new(Arena::<65536>::new());
        std::thread::scope(|scope| {
            for mark in 1..=4_u8 {
                let arena = &arena;
                scope.spawn(move || {
                    let mut kept = Vec::new();
                    for round in 0..500_usize {
                        let layout = layout(1 + round % 48, 1 << (round % 4));
                        // SAFETY: each block is used by this thread alone until it is given back, once.
                        unsafe {
                            let block = arena.alloc_zeroed(layout);
                            let bytes = std::slice::from_raw_parts_mut(block, layout.size());
                            assert!(bytes.iter().all(|byte| *byte == 0));
                            bytes.fill(mark);
                            if round % 3 == 0 { arena.dealloc(block, layout) } else { kept.push(bytes) }
                        }
                    }
                    assert!(kept.iter().all(|bytes| bytes.iter().all(|byte| *byte == mark)));
                });
            }
        });
    }
}
