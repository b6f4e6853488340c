//! Selects and sorts the collections of the list.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::domain::{Attribute, Key, Kind};
use crate::engine::history::View;
use crate::engine::{Entry, Serving, Snapshot};
use crate::http::authorize::Allowed;
use crate::http::ui::frame::{Visit, with_query};

/// The number of collections on a page.
pub(crate) const PAGE_LEN: usize = 100;

/// The filters, the order and the page of the list.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListSelection {
    pub(crate) text: String,
    kind: Option<Kind>,
    mark: Option<Mark>,
    pub(crate) sort: Sort,
    pub(crate) descending: bool,
    /// Counted from 1. There may be fewer pages.
    pub(crate) page: usize,
}

/// A mark of collections to filter by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Uncommitted,
    Broken,
}

impl Mark {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Uncommitted => "uncommitted",
            Self::Broken => "broken",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Uncommitted, Self::Broken].into_iter().find(|mark| mark.as_str() == text)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Sort {
    #[default]
    Key,
    Name,
    Kind,
    Directory,
    /// The time of the last change.
    Change,
}

impl Sort {
    const ALL: [Self; 5] = [Self::Key, Self::Name, Self::Kind, Self::Directory, Self::Change];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Name => "name",
            Self::Kind => "kind",
            Self::Directory => "directory",
            Self::Change => "change",
        }
    }

    /// The text that a row is sorted by.
    fn text<'a>(self, row: &Row<'a>) -> &'a str {
        let Row::Served(entry) = row else { return "" };
        match self {
            Self::Key | Self::Change => "",
            Self::Name => entry.collection.text(&Attribute::Name).unwrap_or_default(),
            Self::Kind => entry.collection.kind().as_str(),
            Self::Directory => entry.collection.text(&Attribute::Directory).unwrap_or_default(),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Row<'a> {
    Served(&'a Arc<Entry>),
    /// A file that was never valid, so nothing is served for it.
    Broken(&'a Key),
}

impl<'a> Row<'a> {
    pub(crate) fn key(&self) -> &'a Key {
        match self {
            Self::Served(entry) => entry.collection.key(),
            Self::Broken(key) => key,
        }
    }
}

/// A page of the list.
pub(crate) struct Selection<'a> {
    /// The number of the page: that of the last one, if a later one was requested.
    pub(crate) page: usize,
    pub(crate) rows: Vec<Row<'a>>,
    /// The number of collections that match.
    pub(crate) total: usize,
    /// The number of collections without filters.
    pub(crate) all: usize,
}

/// The history, as far as the visitor may see it.
#[derive(Clone, Copy)]
pub(crate) struct Changes<'a> {
    pub(crate) view: &'a View,
    pub(crate) audit: &'a Allowed,
    pub(crate) until: Option<crate::domain::Revision>,
}

impl ListSelection {
    pub(crate) fn of(visit: &Visit<'_>) -> Self {
        let (sort, descending) = match visit.asked("sort").unwrap_or_default() {
            text if text.starts_with('-') => (text.trim_start_matches('-'), true),
            text => (text, false),
        };
        Self {
            text: visit.asked("q").unwrap_or_default().to_owned(),
            kind: visit.asked("kind").and_then(Kind::parse),
            mark: visit.asked("mark").and_then(Mark::parse),
            sort: Sort::ALL.into_iter().find(|it| it.as_str() == sort).unwrap_or_default(),
            descending,
            page: visit.asked("page").and_then(|page| page.parse().ok()).unwrap_or(1),
        }
    }

    fn is_everything(&self) -> bool {
        self.text.is_empty() && self.kind.is_none() && self.mark.is_none()
    }

    fn matches(&self, row: &Row<'_>, snapshot: &Snapshot, text: &str) -> bool {
        let is_edited = || snapshot.hand_edits.keys.contains(row.key());
        match row {
            Row::Served(entry) => {
                let collection = &entry.collection;
                self.kind.is_none_or(|kind| collection.kind() == kind)
                    && match self.mark {
                        None => true,
                        Some(Mark::Uncommitted) => entry.uncommitted || is_edited(),
                        Some(Mark::Broken) => entry.problem.is_some(),
                    }
                    && [
                        Some(collection.key().as_str()),
                        collection.text(&Attribute::Name),
                        collection.text(&Attribute::Directory),
                    ]
                    .into_iter()
                    .flatten()
                    .any(|it| contains_ignoring_case(it, text))
            }
            Row::Broken(key) => {
                self.kind.is_none()
                    && (self.mark != Some(Mark::Uncommitted) || is_edited())
                    && contains_ignoring_case(key.as_str(), text)
            }
        }
    }

    pub(crate) fn mark_is(&self, name: &str) -> bool {
        self.mark.is_some_and(|mark| mark.as_str() == name)
    }

    pub(crate) fn kind_is(&self, name: &str) -> bool {
        self.kind.is_some_and(|kind| kind.as_str() == name)
    }

    /// The address of the list in another order or of another page.
    pub(crate) fn link(&self, sort: Sort, descending: bool, page: usize) -> String {
        let sign = if descending { "-" } else { "" };
        let is_natural = sort == Sort::Key && !descending;
        let parameters = [
            ("q", self.text.clone()),
            ("kind", self.kind.map_or("", Kind::as_str).to_owned()),
            ("mark", self.mark.map_or("", Mark::as_str).to_owned()),
            ("sort", if is_natural { String::new() } else { format!("{sign}{}", sort.as_str()) }),
            ("page", if page == 1 { String::new() } else { page.to_string() }),
        ];
        with_query("/", &parameters)
    }

    /// Returns the requested page, and the number of collections that match.
    pub(crate) fn select<'a>(
        &self,
        snapshot: &'a Snapshot,
        allowed: &Allowed,
        changes: Option<Changes<'_>>,
    ) -> Selection<'a> {
        let text = self.text.to_lowercase();
        let catalog = snapshot.catalog();
        let broken: Vec<Row<'a>> = never_valid(snapshot).filter(|row| allowed.sees(row.key())).collect();
        let page_of = |total: usize| self.page.clamp(1, total.div_ceil(PAGE_LEN).max(1));
        let first_of = |page: usize| (page - 1) * PAGE_LEN;
        if self.is_everything() && allowed.sees_all() && broken.is_empty() && self.sort == Sort::Key {
            let ordered: Box<dyn Iterator<Item = &Arc<Entry>>> =
                if self.descending { Box::new(catalog.iter().rev()) } else { Box::new(catalog.iter()) };
            let (total, page) = (catalog.len(), page_of(catalog.len()));
            let rows = ordered.skip(first_of(page)).take(PAGE_LEN).map(Row::Served).collect();
            return Selection { page, rows, total, all: total };
        }
        if let Some(changes) = changes.filter(|changes| {
            let knows_all = changes.audit.sees_all() && changes.covers(snapshot);
            self.is_everything() && allowed.sees_all() && self.sort == Sort::Change && knows_all
        }) {
            let total = catalog.len() + broken.len();
            let page = page_of(total);
            let rows = changes.page_of(snapshot, &broken, self.descending, first_of(page));
            return Selection { page, rows, total, all: total };
        }
        let mut all = broken.len();
        let served = catalog.iter().filter(|entry| allowed.sees(entry.collection.key()));
        let served = served.inspect(|_| all += 1).map(Row::Served);
        let wanted = |row: &Row<'_>| self.matches(row, snapshot, &text);
        let mut rows: Vec<Row<'a>> = served.filter(wanted).collect();
        rows.extend(broken.into_iter().filter(wanted));
        let (total, page) = (rows.len(), page_of(rows.len()));
        Selection { page, rows: self.page_of(rows, first_of(page), changes), total, all }
    }

    /// Returns the rows of a page in the requested order. Only these are sorted: of the others it is enough to
    /// know whether they come before or after.
    fn page_of<'a>(&self, rows: Vec<Row<'a>>, from: usize, changes: Option<Changes<'_>>) -> Vec<Row<'a>> {
        let end = (from + PAGE_LEN).min(rows.len());
        let ranks = match changes.filter(|_| self.sort == Sort::Change) {
            Some(changes) => changes.ranks(),
            None => HashMap::new(),
        };
        // What is not committed counts as changed last.
        let rank = |row: &Row<'_>| ranks.get(row.key()).copied().unwrap_or(u64::MAX);
        let place = |row: Row<'a>| ((rank(&row), self.sort.text(&row), row.key()), row);
        let mut rows: Vec<_> = rows.into_iter().map(place).collect();
        let order = |(one, _): &(_, _), (two, _): &(_, _)| {
            let order = Ord::cmp(one, two);
            if self.descending { order.reverse() } else { order }
        };
        if end < rows.len() {
            rows.select_nth_unstable_by(end, order);
            rows.truncate(end);
        }
        if from > 0 {
            rows.select_nth_unstable_by(from, order);
        }
        let page = &mut rows[from..];
        page.sort_unstable_by(order);
        page.iter().map(|(_, row)| *row).collect()
    }
}

impl Changes<'_> {
    /// Ranks the collections by their last change, the oldest first.
    fn ranks(self) -> HashMap<Key, u64> {
        let newest_first = self.view.keys_by_change(self.until);
        let seen = newest_first.filter(|key| self.audit.sees(key));
        seen.zip((0..u64::MAX).rev()).map(|(key, rank)| (key.clone(), rank)).collect()
    }

    /// Reports whether the history covers all commits of the snapshot.
    fn covers(self, snapshot: &Snapshot) -> bool {
        self.until.or_else(|| self.view.head()) == snapshot.revision
    }

    /// Returns a page of all collections in the order of their last change. What is not committed counts as
    /// changed last. Avoids looking at collections that are not on the page.
    fn page_of<'a>(
        self,
        snapshot: &'a Snapshot,
        broken: &[Row<'a>],
        newest_first: bool,
        from: usize,
    ) -> Vec<Row<'a>> {
        let row = |key: &Key| {
            let served = snapshot.get(key.as_str()).map(Row::Served);
            served.or_else(|| broken.iter().find(|row| row.key() == key).copied())
        };
        let uncommitted = snapshot.hand_edits.keys.iter().filter_map(row).chain(broken.iter().copied());
        let uncommitted: BTreeMap<&Key, Row<'a>> = uncommitted
            .filter(|row| self.view.last_change(row.key(), self.until).is_none())
            .map(|row| (row.key(), row))
            .collect();
        let committed = self.view.keys_by_change(self.until);
        if newest_first {
            let rows = uncommitted.into_values().rev().chain(committed.filter_map(row));
            return rows.skip(from).take(PAGE_LEN).collect();
        }
        let committed: Vec<&Key> = committed.collect();
        let rows = committed.into_iter().rev().filter_map(row).chain(uncommitted.into_values());
        rows.skip(from).take(PAGE_LEN).collect()
    }
}

/// The collections whose files were never valid.
fn never_valid(snapshot: &Snapshot) -> impl Iterator<Item = Row<'_>> {
    let keys = snapshot.problems.values().filter(|it| it.serving == Serving::Nothing);
    let keys = keys.filter_map(|problem| problem.collection.as_ref());
    keys.filter(|key| snapshot.get(key.as_str()).is_none()).map(Row::Broken)
}

/// Reports whether a text contains `wanted`, which is in lower case, regardless of case.
fn contains_ignoring_case(text: &str, wanted: &str) -> bool {
    if text.is_ascii() {
        let wanted = wanted.as_bytes();
        return wanted.is_empty()
            || text.as_bytes().windows(wanted.len()).any(|part| part.eq_ignore_ascii_case(wanted));
    }
    text.to_lowercase().contains(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::testing::{entry, problem, snapshot};

    #[test]
    fn a_page_in_any_order_is_that_part_of_the_sorted_list() {
        let keys: Vec<String> = (0..250).map(|n| format!("k{:03}", n * 7 % 250)).collect();
        let named = keys.iter().map(|key| {
            let name = key.chars().rev().collect::<String>();
            entry(key, if key.ends_with('1') { Kind::Media } else { Kind::Document }, &[("name", &name)])
        });
        let snapshot = snapshot(named);
        for (sort, descending) in
            [(Sort::Key, true), (Sort::Name, false), (Sort::Kind, true), (Sort::Name, true)]
        {
            let page = |page| {
                let asked = ListSelection { sort, descending, page, ..ListSelection::default() };
                let rows = asked.select(&snapshot, &Allowed::anonymous(), None).rows;
                rows.iter().map(|row| row.key().clone()).collect::<Vec<_>>()
            };
            let pages: Vec<_> = (1..=3).flat_map(page).collect();
            assert_eq!(page(usize::MAX), page(3), "the last one");
            let mut sorted: Vec<_> = snapshot.catalog().iter().map(Row::Served).collect();
            sorted.sort_by(|one, two| (sort.text(one), one.key()).cmp(&(sort.text(two), two.key())));
            if descending {
                sorted.reverse();
            }
            let sorted: Vec<_> = sorted.iter().map(|row| row.key().clone()).collect();
            assert!(pages == sorted, "{sort:?} {descending}");
        }
    }

    #[test]
    fn a_search_finds_key_name_and_directory_whatever_the_case() {
        let posts = entry("Posts", Kind::Document, &[("name", "Beiträge"), ("directory", "content/blog")]);
        let finds = |text: &str| {
            let asked = ListSelection { text: text.to_owned(), ..ListSelection::default() };
            asked.matches(&Row::Served(&posts), &Snapshot::default(), &text.to_lowercase())
        };
        assert!(finds("") && !finds("media"));
        for text in ["posts", "OST", "BEITRÄGE", "blog"] {
            assert!(finds(text), "{text}");
        }
    }

    #[test]
    fn a_file_that_never_was_valid_has_a_row_among_the_others() {
        let mut snapshot = snapshot(["a", "c"].map(|key| entry(key, Kind::Document, &[])));
        let problems = [problem("collections/b.yaml", Some("b")), problem("collections/x y.yaml", None)];
        snapshot.problems = problems.into_iter().map(|it| (it.path.clone(), it)).collect();
        let keys = |asked: &ListSelection| {
            let chosen = asked.select(&snapshot, &Allowed::anonymous(), None);
            let keys: Vec<_> = chosen.rows.iter().map(|row| row.key().to_string()).collect();
            (keys.join(" "), chosen.total, chosen.all)
        };
        let asked = ListSelection::default();
        assert_eq!(keys(&asked), ("a b c".to_owned(), 3, 3));
        assert_eq!(keys(&ListSelection { descending: true, ..asked.clone() }), ("c b a".to_owned(), 3, 3));
        assert_eq!(
            keys(&ListSelection { mark: Some(Mark::Broken), ..asked.clone() }),
            ("b".to_owned(), 1, 3)
        );
        assert_eq!(keys(&ListSelection { kind: Some(Kind::Document), ..asked }), ("a c".to_owned(), 2, 3));
    }
}
