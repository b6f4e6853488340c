//! Order and pages of the list.
//!
//! Three styles, each asked for by its own parameters:
//!
//! | style | parameters | ends |
//! |---|---|---|
//! | offset | `page[offset]`, `page[limit]` | links at the ends are left out |
//! | number | `page[number]` from 1, `page[size]` | links at the ends are left out |
//! | cursor | `page[size]`, `page[after]` or `page[before]` | links at the ends are `null` |
//!
//! A cursor holds the sort values of an item and not its place, so walking on works although the
//! item is gone or others have come. An empty `page[after]` stands before the first item and an
//! empty `page[before]` behind the last one.
//!
//! Nothing here copies the catalog: in the order of the keys a page is walked to, in any other
//! order references are sorted.

use std::cmp::Ordering;
use std::sync::Arc;

use super::cursor::Cursor;
use super::document::resource_type;
use super::error::{Code, ErrorObject};
use super::json;
use super::query::{Query, text_of};
use crate::domain::{Attribute, Catalog};
use crate::engine::Entry;

/// The most items on a page, and how many there are when nobody says.
pub(in crate::http) const PAGE_SIZE_MAX: usize = 100;

const RANGE_NOT_SUPPORTED: &str =
    "https://jsonapi.org/profiles/ethanresnick/cursor-pagination/range-pagination-not-supported";
const MAX_SIZE_EXCEEDED: &str =
    "https://jsonapi.org/profiles/ethanresnick/cursor-pagination/max-size-exceeded";

/// What lists can be sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Id,
    Name,
    Type,
    Directory,
}

impl Field {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "id" => Some(Self::Id),
            "name" => Some(Self::Name),
            "type" => Some(Self::Type),
            "directory" => Some(Self::Directory),
            _ => None,
        }
    }

    /// What an entry is sorted by; an attribute that is missing sorts as the empty text.
    fn of(self, entry: &Entry) -> &str {
        let collection = &entry.collection;
        match self {
            Self::Id => collection.key().as_str(),
            Self::Name => text_of(collection, &Attribute::Name).unwrap_or_default(),
            Self::Type => resource_type(collection.kind()),
            Self::Directory => text_of(collection, &Attribute::Directory).unwrap_or_default(),
        }
    }
}

/// The order of a list; ties end by id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::http) struct Sort {
    /// Fields and whether they descend; nothing after the id, which is never tied.
    fields: Vec<(Field, bool)>,
}

impl Sort {
    /// Parses the parameter `sort`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut sort = Self::default();
        for part in text.split(',') {
            let (name, descends) = part.strip_prefix('-').map_or((part, false), |name| (name, true));
            let field = Field::parse(name).ok_or_else(|| {
                format!("{name:?} can't be sorted by; `id`, `name`, `type` and `directory` can")
            })?;
            let known = sort.fields.iter().any(|(before, _)| matches!(before, Field::Id) || *before == field);
            if !known {
                sort.fields.push((field, descends));
            }
        }
        Ok(sort)
    }

    /// Whether this is the order of the keys, in which the catalog stands anyway.
    fn is_natural(&self) -> bool {
        matches!(self.fields.as_slice(), [] | [(Field::Id, false)])
    }

    /// The order in words, so that a cursor fits only the order that it was made for.
    pub(super) fn shown(&self) -> String {
        self.fields
            .iter()
            .map(|(field, descends)| format!("{}{field:?},", if *descends { "-" } else { "" }))
            .collect()
    }

    /// How many values place an entry, beside its key.
    pub(super) fn value_count(&self) -> usize {
        self.fields.len()
    }

    /// The values that place an entry, beside its key.
    pub(super) fn values(&self, entry: &Entry) -> Vec<String> {
        self.fields.iter().map(|(field, _)| field.of(entry).to_owned()).collect()
    }

    fn compare(&self, one: &Entry, two: &Entry) -> Ordering {
        let by_fields = self.fields.iter().map(|(field, descends)| {
            let order = field.of(one).cmp(field.of(two));
            if *descends { order.reverse() } else { order }
        });
        by_fields
            .fold(Ordering::Equal, Ordering::then)
            .then_with(|| one.collection.key().cmp(two.collection.key()))
    }

    /// Where an entry stands seen from a cursor of this order.
    fn compare_to(&self, entry: &Entry, cursor: &Cursor) -> Ordering {
        let by_fields = self.fields.iter().zip(cursor.values()).map(|((field, descends), value)| {
            let order = field.of(entry).cmp(value.as_str());
            if *descends { order.reverse() } else { order }
        });
        by_fields.fold(Ordering::Equal, Ordering::then).then_with(|| entry.collection.key().cmp(cursor.key()))
    }
}

/// The page that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::http) enum Page {
    /// So many items after so many others.
    Offset {
        /// How many items are left out.
        offset: usize,
        /// How many items there are at most.
        limit: usize,
    },
    /// Pages with numbers, from 1.
    Number {
        /// Which one.
        number: usize,
        /// How many items it has at most.
        size: usize,
    },
    /// The items right after a place.
    After {
        /// The place; `None` before the first item.
        cursor: Option<Cursor>,
        /// How many items there are at most.
        size: usize,
    },
    /// The items right before a place.
    Before {
        /// The place; `None` behind the last item.
        cursor: Option<Cursor>,
        /// How many items there are at most.
        size: usize,
    },
}

impl Page {
    /// Whether the page is one that the cursor pagination profile describes.
    pub(in crate::http) const fn is_cursor(&self) -> bool {
        matches!(self, Self::After { .. } | Self::Before { .. })
    }
}

/// The `page[...]` parameters as they come.
#[derive(Debug, Default)]
pub(super) struct Parameters<'a> {
    offset: Option<&'a str>,
    limit: Option<&'a str>,
    number: Option<&'a str>,
    size: Option<&'a str>,
    after: Option<&'a str>,
    before: Option<&'a str>,
}

impl<'a> Parameters<'a> {
    /// Takes a parameter; `false` if there is none of this name.
    pub(super) fn set(&mut self, member: &str, value: &'a str) -> bool {
        let slot = match member {
            "offset" => &mut self.offset,
            "limit" => &mut self.limit,
            "number" => &mut self.number,
            "size" => &mut self.size,
            "after" => &mut self.after,
            "before" => &mut self.before,
            _ => return false,
        };
        *slot = Some(value);
        true
    }

    /// Makes a page of them; `None` without any.
    pub(super) fn finish(self, sort: &Sort, cursor_profile: bool) -> Result<Option<Page>, Vec<ErrorObject>> {
        let mut faults = Vec::new();
        let page = if self.after.is_some() || self.before.is_some() {
            stray(
                &mut faults,
                "a cursor page",
                &[("page[offset]", self.offset), ("page[limit]", self.limit), ("page[number]", self.number)],
            );
            self.cursor(sort, cursor_profile, &mut faults)
        } else if self.number.is_some() {
            stray(
                &mut faults,
                "a numbered page",
                &[("page[offset]", self.offset), ("page[limit]", self.limit)],
            );
            let number = count(&mut faults, "page[number]", self.number, 1).unwrap_or(1);
            Page::Number { number, size: self.page_size(false, &mut faults) }
        } else if self.size.is_some() {
            stray(
                &mut faults,
                "a cursor page",
                &[("page[offset]", self.offset), ("page[limit]", self.limit)],
            );
            Page::After { cursor: None, size: self.page_size(cursor_profile, &mut faults) }
        } else if self.offset.is_some() || self.limit.is_some() {
            let offset = count(&mut faults, "page[offset]", self.offset, 0).unwrap_or(0);
            let limit = count(&mut faults, "page[limit]", self.limit, 1).unwrap_or(PAGE_SIZE_MAX);
            Page::Offset { offset, limit: limit.min(PAGE_SIZE_MAX) }
        } else {
            return Ok(None);
        };
        if faults.is_empty() { Ok(Some(page)) } else { Err(faults) }
    }

    fn cursor(&self, sort: &Sort, profile: bool, faults: &mut Vec<ErrorObject>) -> Page {
        let size = self.page_size(profile, faults);
        if self.after.is_some() && self.before.is_some() {
            faults.push(
                invalid("page[before]", "a page begins after an item or ends before one, not both")
                    .explained_at(RANGE_NOT_SUPPORTED),
            );
        }
        match (self.after, self.before) {
            (None, Some(before)) => {
                Page::Before { cursor: parsed("page[before]", before, sort, faults), size }
            }
            (after, _) => {
                Page::After { cursor: parsed("page[after]", after.unwrap_or_default(), sort, faults), size }
            }
        }
    }

    fn page_size(&self, refuse_large: bool, faults: &mut Vec<ErrorObject>) -> usize {
        let size = count(faults, "page[size]", self.size, 1).unwrap_or(PAGE_SIZE_MAX);
        if refuse_large && size > PAGE_SIZE_MAX {
            faults.push(
                invalid("page[size]", format!("a page has at most {PAGE_SIZE_MAX} items"))
                    .explained_at(MAX_SIZE_EXCEEDED)
                    .with_page_size_max(PAGE_SIZE_MAX),
            );
        }
        size.min(PAGE_SIZE_MAX)
    }
}

fn invalid(name: &'static str, detail: impl Into<String>) -> ErrorObject {
    ErrorObject::new(Code::INVALID_DATA, detail.into()).parameter(name)
}

fn stray(faults: &mut Vec<ErrorObject>, page: &str, parameters: &[(&'static str, Option<&str>)]) {
    for (name, _) in parameters.iter().filter(|(_, value)| value.is_some()) {
        faults.push(invalid(name, format!("this does not go together with {page}")));
    }
}

/// Reads a decimal number; one that is too large for the machine is as large as can be.
fn count(
    faults: &mut Vec<ErrorObject>,
    name: &'static str,
    text: Option<&str>,
    least: usize,
) -> Option<usize> {
    let text = text?;
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        faults.push(invalid(name, format!("expected a decimal number, found {text:?}")));
        return None;
    }
    let number = text.parse().unwrap_or(usize::MAX);
    if number < least {
        faults.push(invalid(name, format!("expected at least {least}, found {text}")));
        return None;
    }
    Some(number)
}

fn parsed(name: &'static str, text: &str, sort: &Sort, faults: &mut Vec<ErrorObject>) -> Option<Cursor> {
    if text.is_empty() {
        return None;
    }
    let cursor = Cursor::decode(text, sort);
    if cursor.is_none() {
        faults.push(invalid(name, "this is no cursor of a list in this order"));
    }
    cursor
}

/// Collections in an order, some of them left out.
pub(in crate::http) struct Listing<'a> {
    catalog: &'a Catalog<Arc<Entry>>,
    wanted: &'a dyn Fn(&Entry) -> bool,
    all_wanted: bool,
    sort: &'a Sort,
    /// In every other order than that of the keys: what is wanted, in order.
    sorted: Option<Vec<&'a Arc<Entry>>>,
}

impl<'a> Listing<'a> {
    /// Everything that is wanted, in order; `all_wanted` spares the counting.
    pub(in crate::http) fn new(
        catalog: &'a Catalog<Arc<Entry>>,
        sort: &'a Sort,
        wanted: &'a dyn Fn(&Entry) -> bool,
        all_wanted: bool,
    ) -> Self {
        let sorted = (!sort.is_natural()).then(|| {
            let mut entries: Vec<_> = catalog.iter().filter(|entry| wanted(entry)).collect();
            entries.sort_unstable_by(|one, two| sort.compare(one, two));
            entries
        });
        Self { catalog, wanted, all_wanted, sort, sorted }
    }

    /// Everything, in order.
    pub(in crate::http) fn iter(&self) -> Box<dyn Iterator<Item = &'a Arc<Entry>> + '_> {
        self.after(None)
    }

    fn total(&self) -> usize {
        match &self.sorted {
            Some(entries) => entries.len(),
            None if self.all_wanted => self.catalog.len(),
            None => self.iter().count(),
        }
    }

    /// Forward from a place.
    fn after<'s>(&'s self, cursor: Option<&'s Cursor>) -> Box<dyn Iterator<Item = &'a Arc<Entry>> + 's> {
        let wanted = |entry: &&'a Arc<Entry>| (self.wanted)(entry);
        match (&self.sorted, cursor) {
            (Some(entries), None) => Box::new(entries.iter().copied()),
            (Some(entries), Some(cursor)) => {
                let start = entries.partition_point(|it| self.sort.compare_to(it, cursor).is_le());
                Box::new(entries[start..].iter().copied())
            }
            (None, None) => Box::new(self.catalog.iter().filter(wanted)),
            (None, Some(cursor)) => Box::new(self.catalog.after(cursor.key()).filter(wanted)),
        }
    }

    /// Backward from a place.
    fn before<'s>(&'s self, cursor: Option<&'s Cursor>) -> Box<dyn Iterator<Item = &'a Arc<Entry>> + 's> {
        let wanted = |entry: &&'a Arc<Entry>| (self.wanted)(entry);
        match (&self.sorted, cursor) {
            (Some(entries), None) => Box::new(entries.iter().rev().copied()),
            (Some(entries), Some(cursor)) => {
                let end = entries.partition_point(|it| self.sort.compare_to(it, cursor).is_lt());
                Box::new(entries[..end].iter().rev().copied())
            }
            (None, None) => Box::new(self.catalog.iter().rev().filter(wanted)),
            (None, Some(cursor)) => Box::new(self.catalog.before(cursor.key()).rev().filter(wanted)),
        }
    }

    /// The items of a page, and the queries that lead on from it.
    pub(in crate::http) fn cut(&self, page: &Page) -> Cut<'a> {
        let total = self.total();
        match page {
            Page::Offset { offset, limit } => self.window(*offset, *limit, total, |offset, limit| {
                vec![("page[offset]", offset.to_string()), ("page[limit]", limit.to_string())]
            }),
            Page::Number { number, size } => {
                let offset = (number - 1).saturating_mul(*size);
                self.window(offset, *size, total, |offset, size| {
                    vec![("page[number]", (offset / size + 1).to_string()), ("page[size]", size.to_string())]
                })
            }
            Page::After { cursor, size } => {
                let items = self.after(cursor.as_ref()).take(*size).collect();
                self.around(items, page, *size, total)
            }
            Page::Before { cursor, size } => {
                let mut items: Vec<_> = self.before(cursor.as_ref()).take(*size).collect();
                items.reverse();
                self.around(items, page, *size, total)
            }
        }
    }

    fn window(
        &self,
        offset: usize,
        size: usize,
        total: usize,
        at: impl Fn(usize, usize) -> Parameter,
    ) -> Cut<'a> {
        let items: Vec<_> = self.iter().skip(offset).take(size).collect();
        let last = total.saturating_sub(1) / size * size;
        let links = Links {
            this: at(offset, size),
            first: at(0, size),
            last: at(last, size),
            prev: (offset > 0).then(|| at(offset.saturating_sub(size).min(last), size)),
            next: (offset.saturating_add(size) < total).then(|| at(offset + size, size)),
            null_at_the_ends: false,
        };
        Cut { items, total, links }
    }

    fn around(&self, items: Vec<&'a Arc<Entry>>, page: &Page, size: usize, total: usize) -> Cut<'a> {
        let sized = |name: &'static str, value: String| vec![(name, value), ("page[size]", size.to_string())];
        let cursor_of = |entry: &Entry| Cursor::of(entry, self.sort);
        let first = items.first().map(|entry| cursor_of(entry));
        let last = items.last().map(|entry| cursor_of(entry));
        // An empty page stands behind everything or before everything.
        let (prev, next) = match (&first, &last, page) {
            (Some(first), Some(last), _) => (
                self.before(Some(first)).next().map(|_| first.encode(self.sort)),
                self.after(Some(last)).next().map(|_| last.encode(self.sort)),
            ),
            (_, _, Page::After { .. }) => ((total > 0).then(String::new), None),
            (_, _, Page::Before { .. } | Page::Offset { .. } | Page::Number { .. }) => {
                (None, (total > 0).then(String::new))
            }
        };
        let place =
            |cursor: &Option<Cursor>| cursor.as_ref().map_or_else(String::new, |it| it.encode(self.sort));
        let this = match page {
            Page::Before { cursor, .. } => sized("page[before]", place(cursor)),
            Page::After { cursor: None, .. } | Page::Offset { .. } | Page::Number { .. } => {
                vec![("page[size]", size.to_string())]
            }
            Page::After { cursor, .. } => sized("page[after]", place(cursor)),
        };
        let links = Links {
            this,
            first: vec![("page[size]", size.to_string())],
            last: sized("page[before]", String::new()),
            prev: prev.map(|cursor| sized("page[before]", cursor)),
            next: next.map(|cursor| sized("page[after]", cursor)),
            null_at_the_ends: true,
        };
        Cut { items, total, links }
    }
}

type Parameter = Vec<(&'static str, String)>;

/// A page that was cut out of a list.
pub(in crate::http) struct Cut<'a> {
    /// What is on the page.
    pub(in crate::http) items: Vec<&'a Arc<Entry>>,
    /// How many items there are on all pages.
    pub(in crate::http) total: usize,
    links: Links,
}

struct Links {
    this: Parameter,
    first: Parameter,
    prev: Option<Parameter>,
    next: Option<Parameter>,
    last: Parameter,
    null_at_the_ends: bool,
}

impl Cut<'_> {
    /// The links of the page as a JSON object; they keep what else was asked for.
    pub(in crate::http) fn links(&self, path: &str, query: &Query) -> Vec<u8> {
        let links = &self.links;
        let named = [
            ("self", Some(&links.this)),
            ("first", Some(&links.first)),
            ("prev", links.prev.as_ref()),
            ("next", links.next.as_ref()),
            ("last", Some(&links.last)),
        ];
        let mut out = Vec::new();
        for (name, page) in named {
            if page.is_none() && !links.null_at_the_ends {
                continue;
            }
            out.push(if out.is_empty() { b'{' } else { b',' });
            json::write_text(name, &mut out);
            out.push(b':');
            match page {
                None => out.extend_from_slice(b"null"),
                Some(page) => json::write_text(&format!("{path}?{}", query.with_page(page)), &mut out),
            }
        }
        out.push(b'}');
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::testing::entry;
    use super::super::query;
    use super::*;
    use crate::domain::Kind;

    fn catalog(items: impl IntoIterator<Item = (String, String)>) -> Catalog<Arc<Entry>> {
        items
            .into_iter()
            .enumerate()
            .map(|(index, (key, name))| {
                let kind = if index % 3 == 0 { Kind::Media } else { Kind::Document };
                if name.is_empty() { entry(&key, kind, &[]) } else { entry(&key, kind, &[("name", &name)]) }
            })
            .collect()
    }

    /// The keys on a page, its total, and its links by name.
    fn page(catalog: &Catalog<Arc<Entry>>, raw: &str) -> (Vec<String>, usize, serde_json::Value) {
        let query = Query::parse(raw).unwrap();
        let list = query::list(&query, false).unwrap_or_else(|error| panic!("{raw}: {error:?}"));
        let wanted = |entry: &Entry| list.filter.matches(&entry.collection);
        let listing = Listing::new(catalog, &list.sort, &wanted, list.filter.is_empty());
        let cut = listing.cut(&list.page.unwrap());
        let keys = cut.items.iter().map(|entry| entry.collection.key().to_string()).collect();
        (keys, cut.total, serde_json::from_slice(&cut.links("/c", &query)).unwrap())
    }

    /// Walks from a page along one link until it ends.
    fn walk(catalog: &Catalog<Arc<Entry>>, start: &str, along: &str) -> Vec<Vec<String>> {
        let mut pages = Vec::new();
        let mut raw = start.to_owned();
        loop {
            let (keys, total, links) = page(catalog, &raw);
            pages.push(keys);
            assert!(pages.len() <= total + 1, "the walk along {along} from {start} does not end");
            match links.get(along).and_then(|link| link.as_str()) {
                Some(link) => raw = link.strip_prefix("/c?").unwrap().to_owned(),
                None => return pages,
            }
        }
    }

    #[test]
    fn links_lead_on_and_end_where_the_list_ends() {
        let five = catalog(["a", "b", "c", "d", "e"].map(|key| (key.to_owned(), String::new())));
        let (keys, total, links) = page(&five, "page[offset]=2&page[limit]=2");
        assert_eq!((keys.join(""), total), ("cd".to_owned(), 5));
        assert_eq!(
            links,
            serde_json::json!({
                "self": "/c?page%5Boffset%5D=2&page%5Blimit%5D=2",
                "first": "/c?page%5Boffset%5D=0&page%5Blimit%5D=2",
                "prev": "/c?page%5Boffset%5D=0&page%5Blimit%5D=2",
                "next": "/c?page%5Boffset%5D=4&page%5Blimit%5D=2",
                "last": "/c?page%5Boffset%5D=4&page%5Blimit%5D=2",
            })
        );
        let (keys, _, links) = page(&five, "page[number]=3&page[size]=2");
        assert_eq!(keys.join(""), "e");
        assert_eq!(links["prev"], "/c?page%5Bnumber%5D=2&page%5Bsize%5D=2");
        assert_eq!(links.get("next"), None);
        let (keys, _, links) = page(&five, "page[size]=7");
        assert_eq!(keys.join(""), "abcde");
        assert!(links["prev"].is_null() && links["next"].is_null());
    }

    #[test]
    fn a_page_beyond_the_end_is_empty_and_leads_back() {
        let five = catalog(["a", "b", "c", "d", "e"].map(|key| (key.to_owned(), String::new())));
        let huge = u64::MAX.to_string();
        for raw in [
            "page[offset]=5&page[limit]=2".to_owned(),
            format!("page[offset]={huge}&page[limit]=2"),
            format!("page[number]={huge}&page[size]=2"),
        ] {
            let (keys, total, links) = page(&five, &raw);
            assert_eq!((keys.len(), total), (0, 5), "{raw}");
            assert_eq!(links.get("next"), None, "{raw}");
            let back = links["prev"].as_str().unwrap().strip_prefix("/c?").unwrap();
            assert!(!page(&five, back).0.is_empty(), "{raw}");
        }
        let none = catalog([]);
        for raw in ["page[offset]=0", "page[number]=1", "page[size]=1", "page[before]="] {
            let (keys, total, links) = page(&none, raw);
            assert_eq!((keys.len(), total), (0, 0), "{raw}");
            assert!(links.get("next").is_none_or(serde_json::Value::is_null), "{raw}");
        }
    }

    #[test]
    fn sizes_are_clamped_and_the_links_say_so() {
        let one = catalog([("a".to_owned(), String::new())]);
        for raw in ["page[limit]=101", "page[size]=1000", "page[number]=1&page[size]=99999999999999999999"] {
            let (_, _, links) = page(&one, raw);
            assert!(links["self"].as_str().unwrap().ends_with("=100"), "{raw}: {links}");
        }
    }

    #[test]
    fn a_cursor_outlives_its_item() {
        let keys = |catalog: &_, raw: &str| page(catalog, raw).0.join("");
        let mut letters = catalog(["a", "b", "c", "d"].map(|key| (key.to_owned(), format!("n{key}"))));
        for sort in ["id", "name", "-name"] {
            let (_, _, links) = page(&letters, &format!("page[size]=2&sort={sort}"));
            let next = links["next"].as_str().unwrap().strip_prefix("/c?").unwrap().to_owned();
            let expected = keys(&letters, &next);
            let gone = if sort == "-name" { "c" } else { "b" };
            let held = letters.remove(gone).unwrap();
            assert_eq!(keys(&letters, &next), expected, "{sort}");
            letters.insert(held);
        }
    }

    proptest! {
        #[test]
        fn walking_visits_every_item_once_in_any_style_and_order(
            items in prop::collection::btree_map("[a-d]{1,3}", "[ab\u{e4}\u{0}]{0,2}", 0..24),
            size in 1_usize..7,
            sort in prop::sample::select(vec!["", "sort=id&", "sort=-id&", "sort=name&", "sort=-name,id&", "sort=type,-name,-id&", "sort=directory&"]),
            filter in prop::sample::select(vec!["", "filter[type]=document&"]),
        ) {
            let catalog = catalog(items);
            let list = Query::parse(&format!("{sort}{filter}")).unwrap();
            let list = query::list(&list, false).unwrap();
            let wanted = |entry: &Entry| list.filter.matches(&entry.collection);
            let listing = Listing::new(&catalog, &list.sort, &wanted, false);
            let expected: Vec<String> = listing.iter().map(|entry| entry.collection.key().to_string()).collect();
            for page in [
                format!("page[offset]=0&page[limit]={size}"),
                format!("page[number]=1&page[size]={size}"),
                format!("page[size]={size}"),
                format!("page[after]=&page[size]={size}"),
            ] {
                let pages = walk(&catalog, &format!("{sort}{filter}{page}"), "next");
                prop_assert!(pages.iter().all(|page| page.len() <= size));
                prop_assert_eq!(pages.concat(), expected.clone(), "{}", page);
            }
            let mut pages = walk(&catalog, &format!("{sort}{filter}page[before]=&page[size]={size}"), "prev");
            pages.reverse();
            prop_assert_eq!(pages.concat(), expected);
        }
    }
}
