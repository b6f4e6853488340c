//! The query of the collection list.

use crate::domain::{Attribute, Collection, Kind};
use crate::http::jsonapi::error::{Code, ErrorExtras, ErrorObject};
use crate::http::jsonapi::page;
use crate::http::jsonapi::page::PageQuery;
use crate::http::jsonapi::page::sort::Sort;
use crate::http::jsonapi::query::{
    ApiError, COLLECTION_TYPES, Fields, Query, fields_of, member, not_understood, repeated,
};
use crate::http::jsonapi::resource_type::resource_type;

/// The page that explains unsupported sort orders of a paged list.
const UNSUPPORTED_SORT: &str = "https://jsonapi.org/profiles/ethanresnick/cursor-pagination/unsupported-sort";

/// The parameters of the list, except `asOf` and those for attributes and pages.
const KNOWN: [&str; 4] = ["sort", FILTER_TYPE, "filter[name]", "filter[directory]"];

#[derive(Debug, Default)]
pub(crate) struct ListQuery {
    pub(crate) fields: Fields,
    pub(crate) sort: Sort,
    pub(crate) filter: Filter,
    pub(crate) page: Option<PageQuery>,
}

/// Parses the query of the collection list.
///
/// # Errors
///
/// 400 with all invalid parameters.
pub(crate) fn list(query: &Query, cursor_profile: bool) -> Result<ListQuery, ApiError> {
    let mut list = ListQuery::default();
    let mut faults = repeated(query);
    let mut page = page::PageParameters::default();
    for (name, value) in &query.pairs {
        match member(name) {
            ("fields", Some(resource_type)) if COLLECTION_TYPES.contains(&resource_type) => {
                list.fields.add(resource_type, value);
            }
            ("sort", None) => match Sort::parse(value) {
                Ok(sort) => list.sort = sort,
                Err(message) => faults.push(unsorted(message, query.has_pages())),
            },
            _ if name == FILTER_TYPE => list.filter.resource_type = Some(value.clone()),
            ("filter", Some("name")) => list.filter.name = Some(value.clone()),
            ("filter", Some("directory")) => list.filter.directory = Some(value.clone()),
            _ if page.set(name, value) => {}
            (AS_OF, None) => {}
            _ => {
                let others = KNOWN.into_iter().chain(page::NAMES).chain([AS_OF]).map(str::to_owned);
                faults.push(not_understood(
                    name,
                    &fields_of(COLLECTION_TYPES).chain(others).collect::<Vec<_>>(),
                ));
            }
        }
    }
    match page.finish(&list.sort, cursor_profile) {
        Ok(page) => list.page = page,
        Err(found) => faults.extend(found),
    }
    if faults.is_empty() { Ok(list) } else { Err(faults.into()) }
}

/// The parameter that selects collections of one kind.
pub(crate) const FILTER_TYPE: &str = "filter[type]";

/// The parameter that selects a past state.
pub(crate) const AS_OF: &str = "asOf";

fn unsorted(message: String, paged: bool) -> ErrorObject {
    let fault = ErrorObject::new(Code::BAD_REQUEST, message).parameter("sort");
    let kind_link = paged.then_some(UNSUPPORTED_SORT);
    fault.with(ErrorExtras { kind_link, ..ErrorExtras::default() })
}

/// Selects the collections that match all given values exactly.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    resource_type: Option<String>,
    name: Option<String>,
    directory: Option<String>,
}

impl Filter {
    /// Whether every collection matches.
    pub(crate) const fn is_empty(&self) -> bool {
        self.resource_type.is_none() && self.name.is_none() && self.directory.is_none()
    }

    pub(crate) fn matches(&self, collection: &Collection) -> bool {
        let kind = collection.kind();
        let is = |wanted: &Option<String>, attribute| {
            wanted.as_deref().is_none_or(|wanted| collection.text(attribute) == Some(wanted))
        };
        self.resource_type.as_deref().is_none_or(|wanted| is_type(wanted, kind))
            && is(&self.name, &Attribute::Name)
            && is(&self.directory, &Attribute::Directory)
    }
}

/// Whether a value of `filter[type]` names this kind.
pub(crate) fn is_type(wanted: &str, kind: Kind) -> bool {
    wanted == kind.as_str() || wanted == resource_type(kind)
}
