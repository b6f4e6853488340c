//! Entity tags and the preconditions that name them (RFC 9110 sections 8.8.3 and 13.1).

use warp::http::header::{IF_MATCH, IF_NONE_MATCH};
use warp::http::{HeaderMap, HeaderName};

use crate::engine::{Condition, Entry, Tags};
use crate::http::jsonapi::error::{ApiError, Code, ErrorObject};

/// Reads the preconditions of a request.
///
/// `If-Match` uses strong comparison, so a weak tag in it matches nothing. `If-None-Match` uses weak comparison, so
/// the weakness mark is ignored (all tags of this service are strong).
///
/// # Errors
///
/// 400 when a header is not a list of tags: a misread precondition would not be enforced.
pub(crate) fn condition(headers: &HeaderMap) -> Result<Condition, ApiError> {
    // Most requests have neither header, and comparing names costs less than a lookup.
    if !headers.keys().any(|name| *name == IF_MATCH || *name == IF_NONE_MATCH) {
        return Ok(Condition::default());
    }
    let if_match = tags(headers, &IF_MATCH, "If-Match", Weak::NamesNothing)?;
    let if_none_match = tags(headers, &IF_NONE_MATCH, "If-None-Match", Weak::NamesTheStrong)?;
    Ok(Condition { if_match, if_none_match, merge_attributes: false })
}

/// Parses the value of `If-Match` when it is given in a document; `None` if it is malformed, or names nothing at all.
pub(crate) fn if_match(text: &str) -> Option<Tags> {
    let names_any = !text.trim_matches([' ', '\t', ',']).is_empty();
    parsed(text, Weak::NamesNothing).filter(|_| names_any)
}

/// Returns the name of the header whose precondition fails.
pub(crate) fn failed(condition: &Condition, entry: Option<&Entry>) -> &'static str {
    let if_match = Condition { if_match: condition.if_match.clone(), ..Condition::default() };
    if if_match.holds(entry) { "If-None-Match" } else { "If-Match" }
}

/// Whether a list contains this tag.
pub(crate) fn lists(tags: &Tags, tag: &str) -> bool {
    match tags {
        Tags::Any => true,
        Tags::OneOf(listed) => listed.iter().any(|one| one == tag),
    }
}

/// How a weak tag in a list is treated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weak {
    /// It matches nothing.
    NamesNothing,
    /// It matches like a strong tag.
    NamesTheStrong,
}

fn tags(
    headers: &HeaderMap,
    name: &HeaderName,
    shown: &'static str,
    weak: Weak,
) -> Result<Option<Tags>, ApiError> {
    let mut listed = None;
    for value in headers.get_all(name) {
        let text = std::str::from_utf8(value.as_bytes()).ok();
        let Some(tags) = text.and_then(|text| parsed(text, weak)) else {
            let detail = "expected `*` or a list of entity tags in double quotes";
            return Err(ErrorObject::new(Code::BAD_REQUEST, detail).at_header(shown).into());
        };
        listed = Some(match (listed, tags) {
            (None, tags) => tags,
            (Some(Tags::OneOf(mut all)), Tags::OneOf(more)) => {
                all.extend(more);
                Tags::OneOf(all)
            }
            (Some(Tags::Any), _) | (Some(_), Tags::Any) => Tags::Any,
        });
    }
    Ok(listed)
}

/// Parses `*` or a list of tags, which may be empty; `None` if it is malformed.
fn parsed(text: &str, weak: Weak) -> Option<Tags> {
    let mut rest = text.trim_matches([' ', '\t']);
    if rest == "*" {
        return Some(Tags::Any);
    }
    let mut tags = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if rest.is_empty() {
            return Some(Tags::OneOf(tags));
        }
        let is_weak = rest.starts_with("W/");
        let opened = rest.strip_prefix("W/").unwrap_or(rest).strip_prefix('"')?;
        let (tag, after) = opened.split_once('"')?;
        rest = after.trim_start_matches([' ', '\t']);
        if !(rest.is_empty() || rest.starts_with(',')) {
            return None;
        }
        if !is_weak || weak == Weak::NamesTheStrong {
            tags.push(tag.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use warp::http::HeaderValue;

    use super::*;

    fn read(name: HeaderName, values: &[&str]) -> Option<Option<Tags>> {
        let headers: HeaderMap = values
            .iter()
            .map(|value| (name.clone(), HeaderValue::from_bytes(value.as_bytes()).unwrap()))
            .collect();
        let condition = condition(&headers).ok()?;
        Some(if name == IF_MATCH { condition.if_match } else { condition.if_none_match })
    }

    fn one_of(tags: &[&str]) -> Option<Option<Tags>> {
        Some(Some(Tags::OneOf(tags.iter().map(|tag| (*tag).to_owned()).collect())))
    }

    #[test]
    fn lists_of_tags_are_read() {
        for (values, tags) in [
            (&[][..], Some(None)),
            (&["*"], Some(Some(Tags::Any))),
            (&["\"a\""], one_of(&["a"])),
            (&[" \"a\" , \"b,c\" ,, \"\" "], one_of(&["a", "b,c", ""])),
            (&["\"a\"", "\"b\""], one_of(&["a", "b"])),
            (&["\"a\"", "*"], Some(Some(Tags::Any))),
            (&["W/\"a\""], one_of(&[])),
            (&["W/\"a\", \"b\""], one_of(&["b"])),
            (&["a"], None),
            (&["\"a"], None),
            (&["\"a\"\"b\""], None),
            (&["\"a\" \"b\""], None),
            (&["w/\"a\""], None),
            (&["*, \"a\""], None),
            (&[""], one_of(&[])),
            (&[" ,"], one_of(&[])),
            (&["", "\"a\""], one_of(&["a"])),
        ] {
            assert_eq!(read(IF_MATCH, values), tags, "{values:?}");
        }
    }

    #[test]
    fn a_document_says_what_it_builds_on() {
        assert_eq!(if_match("\"a\""), one_of(&["a"]).flatten());
        assert_eq!(if_match("W/\"a\""), one_of(&[]).flatten());
        for nothing in ["", " , "] {
            assert_eq!(if_match(nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn a_weak_tag_is_good_enough_for_not_modified() {
        assert_eq!(read(IF_NONE_MATCH, &["W/\"a\", \"b\""]), one_of(&["a", "b"]));
    }
}
