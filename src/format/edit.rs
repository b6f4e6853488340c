//! Edits.
use super::Edited;
use crate::domain::Collection;
pub(super) fn edit(_old: &[u8], _before: &Collection, after: &Collection) -> Edited {
    Edited { bytes: super::write(after), fallback: Some("TEMP".into()) }
}
