//! Cells of a table for a spreadsheet.

use crate::domain::Value;

/// A value as a cell: a text as it is, anything else as JSON.
#[must_use]
pub fn cell(value: &Value) -> String {
    value.as_text().map_or_else(|| value.to_string(), text)
}

/// A text as a cell, with an apostrophe before what a spreadsheet would take for a formula
/// (OWASP, "CSV Injection").
#[must_use]
pub fn text(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if is_formula { format!("'{text}") } else { text.to_owned() }
}
