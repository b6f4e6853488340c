//! Differences of a file as unified diff text, for `git apply` and for people.

use std::time::Instant;

use similar::TextDiff;

use crate::format::FILE_BYTES_MAX;

/// Number of context lines around a change, as in git.
const CONTEXT_LINES: usize = 3;

/// Returns git's header of a file difference, the only part that shows the creation or deletion of an empty file.
pub(crate) fn header(path: &str, is_new: bool, is_deleted: bool) -> String {
    let mode = match (is_new, is_deleted) {
        (true, _) => "new file mode 100644\n",
        (false, true) => "deleted file mode 100644\n",
        (false, false) => "",
    };
    format!("diff --git {} {}\n{mode}", quoted(&format!("a/{path}")), quoted(&format!("b/{path}")))
}

/// Returns the difference between two contents of a file as unified diff text.
///
/// If the shortest difference is not found by `until`, the remainder is shown as replaced.
pub(crate) fn unified(path: &str, before: Option<&[u8]>, after: Option<&[u8]>, until: Instant) -> String {
    let name = |side: &str, content: Option<&[u8]>| match content {
        Some(_) => quoted(&format!("{side}/{path}")),
        None => "/dev/null".to_owned(),
    };
    let (old_name, new_name) = (name("a", before), name("b", after));
    let text = |content: Option<&[u8]>| match content {
        Some(bytes) if bytes.contains(&0) || bytes.len() > FILE_BYTES_MAX => None,
        Some(bytes) => String::from_utf8(bytes.to_vec()).ok(),
        None => Some(String::new()),
    };
    match (text(before), text(after)) {
        (Some(old), Some(new)) if old != new => TextDiff::configure()
            .deadline(until)
            .diff_lines(&old, &new)
            .unified_diff()
            .context_radius(CONTEXT_LINES)
            .header(&old_name, &new_name)
            .to_string(),
        // An empty file was created or deleted: there is no line to show.
        (Some(_), Some(_)) => String::new(),
        (None, _) | (_, None) => format!("Binary files {old_name} and {new_name} differ\n"),
    }
}

/// Quotes a name as git does if it contains characters that would break a line (`quote_c_style`).
pub(crate) fn quoted(name: &str) -> String {
    let special = |c: char| c.is_control() || matches!(c, '"' | '\\');
    if !name.contains(special) {
        return name.to_owned();
    }
    let mut quoted = String::from("\"");
    for byte in name.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', byte as char]),
            0x20..=0x7e => quoted.push(byte as char),
            _ => quoted.push_str(&format!("\\{byte:03o}")),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn unified(path: &str, before: Option<&[u8]>, after: Option<&[u8]>) -> String {
        super::unified(path, before, after, Instant::now() + Duration::from_secs(3_600))
    }

    /// Returns the lines `len - 1, …, 0`, or the same lines in an order that has nothing in common with it.
    fn lines(len: usize, is_mixed: bool) -> Vec<u8> {
        let number = |at: usize| if is_mixed { at * 7_919 % len } else { len - 1 - at };
        (0..len).map(|at| format!("{}\n", number(at))).collect::<String>().into_bytes()
    }

    /// Finding the shortest difference of these contents takes seconds, and minutes in a debug build.
    #[test]
    fn a_difference_that_is_hard_to_find_is_told_in_time_and_whole() {
        let (before, after) = (lines(10_501, false), lines(10_501, true));
        let began = Instant::now();
        let diff = super::unified("a", Some(&before), Some(&after), began);
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        let side = |sign: &str| {
            let other = if sign == "-" { "+" } else { "-" };
            let lines = diff.lines().skip(3).filter(|line| !line.starts_with(other));
            lines.map(|line| format!("{}\n", &line[1..])).collect::<String>().into_bytes()
        };
        assert!(side("-") == before && side("+") == after, "what it tells leads from one to the other");
    }

    #[test]
    fn a_unified_difference_names_both_sides() {
        assert_eq!(
            unified("c/a.yaml", Some(b"one\ntwo\n"), Some(b"one\nthree")),
            "--- a/c/a.yaml\n+++ b/c/a.yaml\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n\\ No newline at end of file\n"
        );
        assert_eq!(unified("a.yaml", None, Some(b"x\n")), "--- /dev/null\n+++ b/a.yaml\n@@ -0,0 +1 @@\n+x\n");
        assert_eq!(header("a", true, false), "diff --git a/a b/a\nnew file mode 100644\n");
        assert_eq!(unified("a", Some(b"\0"), None), "Binary files a/a and /dev/null differ\n");
        assert_eq!(quoted("a/\"x\"\n"), "\"a/\\\"x\\\"\\012\"");
    }
}
