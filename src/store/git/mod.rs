//! The journal on a git repository.
