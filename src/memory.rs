//! The allocator of the process, which only the binary chooses.
//!
//! mimalloc returns memory to the system a while after it was freed, when the thread that freed it allocates again. A
//! thread that rests after reading much would keep memory that it needed only briefly.

/// Returns to the system what the calling thread has freed, after work that took much memory.
pub(crate) fn give_back() {
    const AT_ONCE: bool = true;
    // SAFETY: `mi_collect` may be called at any time, and by any thread.
    #[expect(unsafe_code, reason = "the allocator is C")]
    unsafe {
        libmimalloc_sys::mi_collect(AT_ONCE);
    }
}
