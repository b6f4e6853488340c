//! The memory of the process: what the binary allocates with, which is no matter of the library.
//!
//! mimalloc gives memory back a moment after it was freed, when the thread that freed it allocates again. A
//! thread that has read much and then rests for long would keep what it took for a moment.

/// Gives back what the calling thread has freed, after work that took much.
pub(crate) fn give_back() {
    const AT_ONCE: bool = true;
    // SAFETY: `mi_collect` may be called at any time, and by any thread.
    #[expect(unsafe_code, reason = "the allocator is C")]
    unsafe {
        libmimalloc_sys::mi_collect(AT_ONCE);
    }
}
