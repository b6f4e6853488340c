//! Media folders: that of the whole site, and those of collections, where they are outside of the collection.

use std::collections::HashSet;

use crate::domain::{Attribute, Catalog, Collection, Directory, Key, Kind, Value};
use crate::exchange::decap::{inner_path, url};
use crate::exchange::source::is_numbered;
use crate::exchange::{ImportOptions, ImportSource};
use crate::format::foreign::{ForeignNode, Position};

/// The media folders of collections, imported after all keys of collections are known.
#[derive(Default)]
pub(super) struct Folders {
    own: Vec<Folder>,
}

struct Folder {
    key: Key,
    path: String,
    url: Option<Value>,
    at: Position,
}

/// Reports whether a collection's media folder is outside of the collection, relative to the repository's root.
pub(super) fn is_own(media_folder: &ForeignNode) -> bool {
    media_folder.as_text().is_some_and(|path| path.starts_with('/'))
}

impl Folders {
    /// Records the media folder of a collection, if it has one of its own.
    pub(super) fn note(&mut self, key: &Key, collection: &ForeignNode) {
        let Some(folder) = collection.get("media_folder").filter(|folder| is_own(folder)) else { return };
        let Ok(key) = Key::parse(&format!("{key}-media")) else { return };
        let path = inner_path(folder.as_text().unwrap_or_default()).to_owned();
        let url = collection.get_non_null("public_folder").and_then(url);
        self.own.push(Folder { key, path, url, at: folder.at });
    }

    /// Imports them all, that of the site first.
    pub(super) fn import_all(
        self,
        source: &mut ImportSource,
        root: &ForeignNode,
        options: &ImportOptions,
        there: &Catalog,
    ) {
        let site = root.get_non_null("media_folder").map(|folder| Folder {
            key: options.media_key.clone(),
            path: inner_path(folder.as_text().unwrap_or_default()).to_owned(),
            url: root.get_non_null("public_folder").and_then(url),
            at: folder.at,
        });
        site.into_iter().chain(self.own).for_each(|folder| folder.import(source, there));
    }
}

impl Folder {
    /// Returns the key that the folder has from an earlier import in which another collection had the wanted key.
    fn known(&self, there: &Catalog) -> Option<Key> {
        if there.get(self.key.as_str()).is_some_and(|it| it.kind() == Kind::Media) {
            return None;
        }
        let is_it = |it: &&Collection| {
            is_numbered(it.key(), &self.key)
                && it.kind() == Kind::Media
                && it.get(&Attribute::Directory).and_then(Value::as_text) == Some(&*self.path)
        };
        let after = there.after(&self.key).map(|it| &**it);
        let mut longer = after.take_while(|it| it.key().as_str().starts_with(self.key.as_str()));
        longer.find(is_it).map(|it| it.key().clone())
    }

    fn import(self, source: &mut ImportSource, there: &Catalog) {
        if let Err(why) = Directory::parse(&self.path) {
            source.skipped.push((self.key.to_string(), format!("media_folder: {why}")));
            return;
        }
        let key = source.free(self.known(there).as_ref().unwrap_or(&self.key), &HashSet::new());
        if key != self.key {
            source.notes.push(self.at.fault(format!("the media collection {} becomes {key}", self.key)));
        }
        let all = [
            ("directory", Some(Value::from(self.path))),
            ("recursive", Some(Value::Bool(true))),
            ("url", self.url),
        ];
        let attributes = all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        source.add_candidate(key, Kind::Media, attributes.collect(), self.at, |_| self.at);
    }
}
