//! Bytes to meaning and back.
