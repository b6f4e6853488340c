//! A journal in memory, with faults on demand.
