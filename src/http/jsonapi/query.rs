//! Query parameters, parsed once: what a path does not know is refused, never ignored.
//!
//! | parameter | where | meaning |
//! |---|---|---|
//! | `fields[TYPE]=a,b` | wherever resources are answered | only these attributes |
//! | `sort=-name,id` | list | `id`, `name`, `type`, `directory`; `-` descends; ties end by id |
//! | `filter[type]`, `filter[name]`, `filter[directory]` | list | exact, all of them |
//! | `page[...]` | list, events | see [`page`](super::page) |
//! | `asOf=R` | list, collection | as it was |
//! | `filter[...]` | events | see [`EventQuery`] |

use std::borrow::Cow;
use std::collections::HashMap;

use percent_encoding::percent_decode;

use super::error::{ApiError, Code, ErrorObject};
use super::page::{self, EventPage, Page};
use super::past::EVENT;
use super::sort::Sort;
use crate::domain::{Attribute, Collection};
use crate::engine::history::{Action, Origin};

/// The page that explains which sorts can't be paged.
const UNSUPPORTED_SORT: &str = "https://jsonapi.org/profiles/ethanresnick/cursor-pagination/unsupported-sort";

/// The query of a request: names and values, decoded, in order.
#[derive(Debug, Default)]
pub(in crate::http) struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Decodes a query as HTML forms encode it: `+` is a blank, brackets raw or encoded.
    ///
    /// # Errors
    ///
    /// 400 when it is not UTF-8.
    pub(in crate::http) fn parse(raw: &str) -> Result<Self, ApiError> {
        let mut pairs = Vec::new();
        for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            pairs.push((decoded(name)?, decoded(value)?));
        }
        Ok(Self { pairs })
    }

    /// Whether nothing is asked.
    pub(in crate::http) const fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The same query with other `page[...]` parameters, encoded.
    pub(in crate::http) fn with_page(&self, page: &[(&str, String)]) -> String {
        let kept = self.pairs.iter().filter(|(name, _)| !name.starts_with("page["));
        form_urlencoded::Serializer::new(String::new()).extend_pairs(kept).extend_pairs(page).finish()
    }

    /// The first value of a parameter.
    pub(in crate::http) fn first(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    fn has_pages(&self) -> bool {
        self.pairs.iter().any(|(name, _)| name.starts_with("page["))
    }
}

fn decoded(text: &str) -> Result<String, ApiError> {
    let text = if text.contains('+') { Cow::Owned(text.replace('+', " ")) } else { Cow::Borrowed(text) };
    let decoded = percent_decode(text.as_bytes()).decode_utf8();
    decoded.map(Cow::into_owned).map_err(|_| {
        ApiError::new(Code::BAD_REQUEST, "The query is not UTF-8 once its percent signs are decoded.")
    })
}

/// The attributes that are wanted of one resource type.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::http) struct Wanted(Vec<String>);

impl Wanted {
    /// Whether this attribute is wanted.
    pub(in crate::http) fn names(&self, attribute: &str) -> bool {
        self.0.iter().any(|name| name == attribute)
    }
}

/// Sparse fieldsets: which attributes are wanted of which type; all of a type that is not named.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::http) struct Fields {
    by_type: Vec<(String, Wanted)>,
}

impl Fields {
    /// The attributes wanted of a type, `None` for all.
    pub(in crate::http) fn wanted(&self, resource_type: &str) -> Option<&Wanted> {
        self.by_type.iter().find(|(name, _)| name == resource_type).map(|(_, wanted)| wanted)
    }

    /// Whether everything is wanted of everything.
    pub(in crate::http) fn is_empty(&self) -> bool {
        self.by_type.is_empty()
    }

    fn add(&mut self, resource_type: &str, value: &str) {
        let names = value.split(',').filter(|name| !name.is_empty()).map(str::to_owned);
        self.by_type.push((resource_type.to_owned(), Wanted(names.collect())));
    }
}

/// The resource types of collections.
pub(in crate::http) const COLLECTION_TYPES: &[&str] = &["document-collection", "media-collection"];

/// Reads the query of a path that answers with resources of these types, and knows nothing else.
///
/// # Errors
///
/// 400 with every parameter that is not understood.
pub(in crate::http) fn fields(query: &Query, types: &[&str]) -> Result<Fields, ApiError> {
    fields_beside(query, types, &[])
}

/// The same of a path that takes other parameters too, which somebody else reads.
///
/// # Errors
///
/// 400 with every parameter that is not understood.
pub(in crate::http) fn fields_beside(
    query: &Query,
    types: &[&str],
    others: &[&str],
) -> Result<Fields, ApiError> {
    let mut fields = Fields::default();
    let mut faults = repeated(query);
    for (name, value) in &query.pairs {
        match member(name) {
            ("fields", Some(resource_type)) if types.contains(&resource_type) => {
                fields.add(resource_type, value);
            }
            _ if others.contains(&name.as_str()) => {}
            _ => faults.push(not_understood(name)),
        }
    }
    if faults.is_empty() { Ok(fields) } else { Err(faults.into()) }
}

/// Reads the query of a path that takes no parameter.
///
/// # Errors
///
/// 400 with every parameter.
pub(in crate::http) fn none(query: &Query) -> Result<(), ApiError> {
    fields(query, &[]).map(|_| ())
}

/// What is asked of a list.
#[derive(Debug, Default)]
pub(in crate::http) struct ListQuery {
    pub(in crate::http) fields: Fields,
    pub(in crate::http) sort: Sort,
    pub(in crate::http) filter: Filter,
    pub(in crate::http) page: Option<Page>,
}

/// Reads the query of the list of collections.
///
/// # Errors
///
/// 400 with everything that is not understood.
pub(in crate::http) fn list(query: &Query, cursor_profile: bool) -> Result<ListQuery, ApiError> {
    let mut list = ListQuery::default();
    let mut faults = repeated(query);
    let mut page = page::Parameters::default();
    for (name, value) in &query.pairs {
        match member(name) {
            ("fields", Some(resource_type)) if COLLECTION_TYPES.contains(&resource_type) => {
                list.fields.add(resource_type, value);
            }
            ("sort", None) => match Sort::parse(value) {
                Ok(sort) => list.sort = sort,
                Err(message) => faults.push(unsorted(message, query.has_pages())),
            },
            ("filter", Some("type")) => list.filter.resource_type = Some(value.clone()),
            ("filter", Some("name")) => list.filter.name = Some(value.clone()),
            ("filter", Some("directory")) => list.filter.directory = Some(value.clone()),
            ("page", Some(member)) if page.set(member, value) => {}
            (AS_OF, None) => {}
            _ => faults.push(not_understood(name)),
        }
    }
    match page.finish(&list.sort, cursor_profile) {
        Ok(page) => list.page = page,
        Err(found) => faults.extend(found),
    }
    if faults.is_empty() { Ok(list) } else { Err(faults.into()) }
}

/// The parameter that asks for how it was.
pub(in crate::http) const AS_OF: &str = "asOf";

/// What is asked of a list of events.
#[derive(Debug, Default)]
pub(in crate::http) struct EventQuery {
    pub(in crate::http) fields: Fields,
    pub(in crate::http) action: Option<Action>,
    pub(in crate::http) actor: Option<String>,
    pub(in crate::http) origin: Option<Origin>,
    /// A revision or a time, as text.
    pub(in crate::http) since: Option<String>,
    /// A revision or a time, as text.
    pub(in crate::http) until: Option<String>,
    pub(in crate::http) page: EventPage,
}

/// Which events a path can be asked for.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) struct EventScope {
    /// Those of a collection; the caller reads the parameter.
    pub(in crate::http) collection: bool,
    /// Those of a page, and not of a stream.
    pub(in crate::http) pages: bool,
    /// Under the cursor pagination profile.
    pub(in crate::http) cursor_profile: bool,
}

/// Reads the query of a list of events.
///
/// # Errors
///
/// 400 with everything that is not understood.
pub(in crate::http) fn events(query: &Query, scope: EventScope) -> Result<EventQuery, ApiError> {
    let mut asked = EventQuery::default();
    let mut faults = repeated(query);
    let mut page = page::Parameters::default();
    for (name, value) in &query.pairs {
        match member(name) {
            ("fields", Some(EVENT)) => asked.fields.add(EVENT, value),
            ("filter", Some("collection")) if scope.collection => {}
            ("filter", Some("action")) => match Action::parse(value) {
                Some(action) => asked.action = Some(action),
                None => faults.push(unknown_word(name, value, "created, updated or deleted")),
            },
            ("filter", Some("origin")) => match Origin::parse(value) {
                Some(origin) => asked.origin = Some(origin),
                None => faults.push(unknown_word(name, value, "api, work-tree or git")),
            },
            ("filter", Some("actor")) => asked.actor = Some(value.clone()),
            ("filter", Some("since")) => asked.since = Some(value.clone()),
            ("filter", Some("until")) => asked.until = Some(value.clone()),
            ("page", Some(member @ ("size" | "after" | "before"))) if scope.pages => {
                page.set(member, value);
            }
            _ => faults.push(not_understood(name)),
        }
    }
    match page.finish_events(scope.cursor_profile) {
        Ok(page) => asked.page = page,
        Err(found) => faults.extend(found),
    }
    if faults.is_empty() { Ok(asked) } else { Err(faults.into()) }
}

fn unknown_word(name: &str, value: &str, words: &str) -> ErrorObject {
    ErrorObject::new(Code::INVALID_DATA, format!("expected {words}, found {value:?}")).parameter(name)
}

/// Splits `family[member]`.
fn member(name: &str) -> (&str, Option<&str>) {
    match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
        Some((family, member)) => (family, Some(member)),
        None => (name, None),
    }
}

fn repeated(query: &Query) -> Vec<ErrorObject> {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let again = query.pairs.iter().filter(|(name, _)| {
        let times = seen.entry(name).or_default();
        *times += 1;
        *times == 2
    });
    let fault = |name: &str| {
        ErrorObject::new(Code::BAD_REQUEST, "the parameter is there more than once").parameter(name)
    };
    again.map(|(name, _)| fault(name)).collect()
}

fn not_understood(name: &str) -> ErrorObject {
    let detail = if name == "include" {
        "there are no relationships to include"
    } else {
        "this path does not understand the parameter"
    };
    ErrorObject::new(Code::BAD_REQUEST, detail).parameter(name)
}

fn unsorted(message: String, paged: bool) -> ErrorObject {
    let fault = ErrorObject::new(Code::BAD_REQUEST, message).parameter("sort");
    if paged { fault.explained_at(UNSUPPORTED_SORT) } else { fault }
}

/// Which collections are wanted: those that match exactly, in everything that is asked for.
#[derive(Debug, Default)]
pub(in crate::http) struct Filter {
    resource_type: Option<String>,
    name: Option<String>,
    directory: Option<String>,
}

impl Filter {
    /// Whether everything matches.
    pub(in crate::http) const fn is_empty(&self) -> bool {
        self.resource_type.is_none() && self.name.is_none() && self.directory.is_none()
    }

    /// Whether this collection matches.
    pub(in crate::http) fn matches(&self, collection: &Collection) -> bool {
        let kind = collection.kind();
        let is = |wanted: &Option<String>, attribute| {
            wanted.as_deref().is_none_or(|wanted| text_of(collection, attribute) == Some(wanted))
        };
        self.resource_type
            .as_deref()
            .is_none_or(|wanted| wanted == kind.as_str() || wanted == super::document::resource_type(kind))
            && is(&self.name, &Attribute::Name)
            && is(&self.directory, &Attribute::Directory)
    }
}

/// An attribute that is a text.
pub(super) fn text_of<'a>(collection: &'a Collection, attribute: &Attribute) -> Option<&'a str> {
    collection.get(attribute).and_then(|value| value.as_text())
}

#[cfg(test)]
mod tests {
    use super::super::error::Source;
    use super::*;

    /// What is not understood in the query of the list.
    fn refused(raw: &str) -> Vec<String> {
        let error = Query::parse(raw).and_then(|query| list(&query, false)).expect_err(raw);
        assert_eq!(error.status().as_u16(), 400, "{raw}");
        error
            .errors
            .iter()
            .map(|error| match &error.source {
                Some(Source::Parameter(name)) => format!("{} {name}", error.code),
                None => error.code.to_string(),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn the_parameters_of_the_list_are_understood() {
        for raw in [
            "",
            "&&",
            "fields[document-collection]=name,directory",
            "fields%5Bmedia-collection%5D=",
            "fields[document-collection]=type,nope&fields[media-collection]=accept",
            "sort=name",
            "sort=-type,directory,-id",
            "filter[type]=document&filter[name]=A+B&filter%5Bdirectory%5D=content%2Fposts",
            "page[size]=10",
            "page[after]=",
            "page[before]=&page[size]=2",
            "page[number]=2&page[size]=100",
            "page[offset]=0",
            "page[limit]=1000",
            "page[offset]=18446744073709551616&page[limit]=99999999999999999999999",
        ] {
            let query = Query::parse(raw).unwrap();
            assert!(list(&query, false).is_ok(), "{raw}: {:?}", list(&query, false));
        }
    }

    #[test]
    fn everything_else_is_refused_by_name() {
        for (raw, faults) in [
            ("include=", &["bad_request include"][..]),
            ("include=author", &["bad_request include"]),
            ("foo=1", &["bad_request foo"]),
            ("fooBar", &["bad_request fooBar"]),
            ("=1", &["bad_request "]),
            ("sort=", &["bad_request sort"]),
            ("sort=format", &["bad_request sort"]),
            ("sort=name,", &["bad_request sort"]),
            ("sort=--name", &["bad_request sort"]),
            ("sort=+name", &["bad_request sort"]),
            ("sort[name]=1", &["bad_request sort[name]"]),
            ("sort=id&sort=name", &["bad_request sort"]),
            ("a=1&a=2&a=3", &["bad_request a", "bad_request a", "bad_request a", "bad_request a"]),
            ("filter=x", &["bad_request filter"]),
            ("filter[bogus]=x", &["bad_request filter[bogus]"]),
            ("filter[]=x", &["bad_request filter[]"]),
            ("filter[type", &["bad_request filter[type"]),
            ("filter[type][x]=1", &["bad_request filter[type][x]"]),
            ("fields=name", &["bad_request fields"]),
            ("fields[_]=name", &["bad_request fields[_]"]),
            ("fields[problem]=path", &["bad_request fields[problem]"]),
            ("page=1", &["bad_request page"]),
            ("page[bogus]=1", &["bad_request page[bogus]"]),
            ("page[]=1", &["bad_request page[]"]),
            ("page[size]=0", &["invalid_data page[size]"]),
            ("page[size]=-1", &["invalid_data page[size]"]),
            ("page[size]=1.5", &["invalid_data page[size]"]),
            ("page[size]=abc", &["invalid_data page[size]"]),
            ("page[size]=", &["invalid_data page[size]"]),
            ("page[size]=%2B5", &["invalid_data page[size]"]),
            ("page[size]=+5", &["invalid_data page[size]"]),
            ("page[size]=%D9%A5", &["invalid_data page[size]"]),
            ("page[limit]=0", &["invalid_data page[limit]"]),
            ("page[offset]=-1", &["invalid_data page[offset]"]),
            ("page[number]=0", &["invalid_data page[number]"]),
            ("page[after]=nonsense", &["invalid_data page[after]"]),
            ("page[before]=%00", &["invalid_data page[before]"]),
            ("page[after]=&page[before]=", &["invalid_data page[before]"]),
            ("page[after]=&page[offset]=1", &["invalid_data page[offset]"]),
            ("page[after]=&page[limit]=1", &["invalid_data page[limit]"]),
            ("page[after]=&page[number]=1", &["invalid_data page[number]"]),
            ("page[size]=1&page[offset]=1", &["invalid_data page[offset]"]),
            ("page[number]=1&page[limit]=1", &["invalid_data page[limit]"]),
            ("page[number]=1&page[offset]=1", &["invalid_data page[offset]"]),
            ("%ff=1", &["bad_request"]),
            ("filter[name]=%c3", &["bad_request"]),
            ("filter[name]=%ed%a0%80", &["bad_request"]),
            (
                "include=a&sort=x&page[size]=0&foo=",
                &["bad_request include", "bad_request sort", "bad_request foo", "invalid_data page[size]"],
            ),
        ] {
            assert_eq!(refused(raw), faults, "{raw}");
        }
    }

    #[test]
    fn a_page_that_is_too_large_is_refused_under_the_profile_only() {
        let query = Query::parse("page[size]=101").unwrap();
        assert!(list(&query, false).is_ok());
        let error = list(&query, true).unwrap_err();
        let more = error.errors[0].more.as_ref().unwrap();
        assert_eq!(more.page_size_max, Some(100));
        assert!(more.kind_link.unwrap().ends_with("/max-size-exceeded"));
    }

    #[test]
    fn a_path_without_parameters_takes_none() {
        assert!(none(&Query::parse("&").unwrap()).is_ok());
        for raw in ["include=", "fields[document-collection]=name", "x"] {
            assert!(none(&Query::parse(raw).unwrap()).is_err(), "{raw}");
        }
    }

    #[test]
    fn links_keep_everything_but_the_page() {
        let query = Query::parse("sort=-name&page[size]=1&filter[name]=A+%26+B&page%5Bafter%5D=x").unwrap();
        assert_eq!(
            query.with_page(&[("page[offset]", "3".to_owned())]),
            "sort=-name&filter%5Bname%5D=A+%26+B&page%5Boffset%5D=3"
        );
    }
}
