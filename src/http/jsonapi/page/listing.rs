//! The items of a page.
//!
//! The catalog is never copied: a page in key order is found by iteration, and any other order sorts references.

use std::sync::Arc;

use crate::domain::Catalog;
use crate::engine::Entry;
use crate::http::jsonapi::page::cursor::ItemCursor;
use crate::http::jsonapi::page::links::{Links, Parameters};
use crate::http::jsonapi::page::sort::Sort;
use crate::http::jsonapi::page::{At, PageQuery};

/// Collections in a sort order, filtered.
pub(crate) struct Listing<'a> {
    catalog: &'a Catalog<Arc<Entry>>,
    wanted: &'a dyn Fn(&Entry) -> bool,
    all_wanted: bool,
    sort: &'a Sort,
    /// The matching entries, sorted; `None` in key order.
    sorted: Option<Vec<&'a Arc<Entry>>>,
}

impl<'a> Listing<'a> {
    /// Creates a listing of the matching entries; `all_wanted` avoids counting them.
    pub(crate) fn new(
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

    /// Iterates over all matching entries in order.
    pub(crate) fn iter(&self) -> Box<dyn Iterator<Item = &'a Arc<Entry>> + '_> {
        self.after(None)
    }

    fn total(&self) -> usize {
        match &self.sorted {
            Some(entries) => entries.len(),
            None if self.all_wanted => self.catalog.len(),
            None => self.iter().count(),
        }
    }

    /// Iterates forward from a position.
    fn after<'s>(&'s self, cursor: Option<&'s ItemCursor>) -> Box<dyn Iterator<Item = &'a Arc<Entry>> + 's> {
        let wanted = |entry: &&'a Arc<Entry>| (self.wanted)(entry);
        match (&self.sorted, cursor) {
            (Some(entries), None) => Box::new(entries.iter().copied()),
            (Some(entries), Some(cursor)) => {
                let start = entries.partition_point(|it| cursor.compare(it, self.sort).is_le());
                Box::new(entries[start..].iter().copied())
            }
            (None, None) => Box::new(self.catalog.iter().filter(wanted)),
            (None, Some(cursor)) => Box::new(self.catalog.after(&cursor.key).filter(wanted)),
        }
    }

    /// Iterates backward from a position.
    fn before<'s>(&'s self, cursor: Option<&'s ItemCursor>) -> Box<dyn Iterator<Item = &'a Arc<Entry>> + 's> {
        let wanted = |entry: &&'a Arc<Entry>| (self.wanted)(entry);
        match (&self.sorted, cursor) {
            (Some(entries), None) => Box::new(entries.iter().rev().copied()),
            (Some(entries), Some(cursor)) => {
                let end = entries.partition_point(|it| cursor.compare(it, self.sort).is_lt());
                Box::new(entries[..end].iter().rev().copied())
            }
            (None, None) => Box::new(self.catalog.iter().rev().filter(wanted)),
            (None, Some(cursor)) => Box::new(self.catalog.before(&cursor.key).rev().filter(wanted)),
        }
    }

    /// Returns the items of a page and its links.
    pub(crate) fn select_page(&self, page: &PageQuery) -> ListPage<'a> {
        let total = self.total();
        match page {
            PageQuery::Offset { offset, limit } => self.window(*offset, *limit, total, |offset, limit| {
                vec![("page[offset]", offset.to_string()), ("page[limit]", limit.to_string())]
            }),
            PageQuery::Number { number, size } => {
                let offset = (number - 1).saturating_mul(*size);
                self.window(offset, *size, total, |offset, size| {
                    vec![("page[number]", (offset / size + 1).to_string()), ("page[size]", size.to_string())]
                })
            }
            PageQuery::Cursor { at, size } => self.beside(at, *size, total),
        }
    }

    fn window(
        &self,
        offset: usize,
        size: usize,
        total: usize,
        at: impl Fn(usize, usize) -> Parameters,
    ) -> ListPage<'a> {
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
        ListPage { items, total, links }
    }

    fn beside(&self, at: &At<ItemCursor>, size: usize, total: usize) -> ListPage<'a> {
        let items: Vec<_> = match at {
            At::After(cursor) => self.after(cursor.as_ref()).take(size).collect(),
            At::Before(cursor) => {
                let mut items: Vec<_> = self.before(cursor.as_ref()).take(size).collect();
                items.reverse();
                items
            }
        };
        let text = |cursor: &ItemCursor| cursor.encode(self.sort);
        let ends = items.first().zip(items.last()).map(|(first, last)| {
            let (first, last) = (ItemCursor::of(first, self.sort), ItemCursor::of(last, self.sort));
            [
                self.before(Some(&first)).next().map(|_| text(&first)),
                self.after(Some(&last)).next().map(|_| text(&last)),
            ]
        });
        ListPage { items, total, links: Links::beside(at, text, size, total, ends) }
    }
}

/// One page of a list.
pub(crate) struct ListPage<'a> {
    pub(crate) items: Vec<&'a Arc<Entry>>,
    /// The number of items on all pages.
    pub(crate) total: usize,
    pub(crate) links: Links,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::Kind;
    use crate::http::jsonapi::query;
    use crate::http::jsonapi::query::Query;
    use crate::http::testing::entry;
    use crate::random::cases;

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

    /// Returns the keys on a page, the total, and the links by name.
    fn page(catalog: &Catalog<Arc<Entry>>, raw: &str) -> (Vec<String>, usize, serde_json::Value) {
        let query = Query::parse(raw).unwrap();
        let list = query::list(&query, false).unwrap_or_else(|error| panic!("{raw}: {error:?}"));
        let wanted = |entry: &Entry| list.filter.matches(&entry.collection);
        let listing = Listing::new(catalog, &list.sort, &wanted, list.filter.is_empty());
        let cut = listing.select_page(&list.page.unwrap());
        let keys = cut.items.iter().map(|entry| entry.collection.key().to_string()).collect();
        (keys, cut.total, serde_json::from_slice(&cut.links.json("/c", &query, &query)).unwrap())
    }

    /// Follows one link from page to page until it ends.
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
        #![proptest_config(cases(256))]

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
