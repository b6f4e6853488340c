//! The sort order of lists: `sort=-name,id`.

use std::cmp::Ordering;

use crate::domain::{Attribute, Key};
use crate::engine::Entry;
use crate::http::jsonapi::resource_type::resource_type;

/// A field that lists can be sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
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

    /// Returns the sort value of an entry; a missing attribute sorts as the empty text.
    fn of(self, entry: &Entry) -> &str {
        let collection = &entry.collection;
        match self {
            Self::Id => collection.key().as_str(),
            Self::Name => collection.text(&Attribute::Name).unwrap_or_default(),
            Self::Type => resource_type(collection.kind()),
            Self::Directory => collection.text(&Attribute::Directory).unwrap_or_default(),
        }
    }
}

/// The sort order of a list; ties are broken by id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Sort {
    /// The fields, and whether each is descending. No field follows the id, which is never tied, and the ascending id
    /// is left out, because it breaks ties anyway.
    fields: Vec<(Field, bool)>,
}

impl Sort {
    /// Parses the parameter `sort`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut sort = Self::default();
        let mut has_id = false;
        for part in text.split(',') {
            let (name, descends) = part.strip_prefix('-').map_or((part, false), |name| (name, true));
            let field = Field::parse(name).ok_or_else(|| {
                format!("{name:?} can't be sorted by; `id`, `name`, `type` and `directory` can")
            })?;
            let is_redundant = has_id || sort.fields.iter().any(|(before, _)| *before == field);
            has_id |= field == Field::Id;
            if !is_redundant && (field, descends) != (Field::Id, false) {
                sort.fields.push((field, descends));
            }
        }
        Ok(sort)
    }

    /// Whether this is key order, which is the order of the catalog.
    pub(crate) fn is_natural(&self) -> bool {
        self.fields.is_empty()
    }

    /// Returns a text that identifies the sort order, which binds a cursor to the order that it was made for.
    pub(crate) fn shown(&self) -> String {
        self.fields
            .iter()
            .map(|(field, descends)| format!("{}{field:?},", if *descends { "-" } else { "" }))
            .collect()
    }

    /// The number of sort values of an entry, besides its key.
    pub(crate) fn value_count(&self) -> usize {
        self.fields.len()
    }

    /// Returns the sort values of an entry, besides its key.
    pub(crate) fn values(&self, entry: &Entry) -> Vec<String> {
        self.fields.iter().map(|(field, _)| field.of(entry).to_owned()).collect()
    }

    pub(crate) fn compare(&self, one: &Entry, two: &Entry) -> Ordering {
        let values = self.fields.iter().map(|(field, _)| field.of(two));
        self.order(one, values, two.collection.key())
    }

    /// Compares an entry to these sort values and this key.
    pub(crate) fn order<'v>(
        &self,
        entry: &Entry,
        values: impl Iterator<Item = &'v str>,
        key: &Key,
    ) -> Ordering {
        let by_fields = self.fields.iter().zip(values).map(|((field, descends), value)| {
            let order = field.of(entry).cmp(value);
            if *descends { order.reverse() } else { order }
        });
        by_fields.fold(Ordering::Equal, Ordering::then).then_with(|| entry.collection.key().cmp(key))
    }
}
