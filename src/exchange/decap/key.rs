//! Keys for names that are not keys.

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use crate::domain::Key;

/// Returns the key for a name: the name itself if it is a key, else its letters and digits as lower-case ASCII with
/// `-` between, else a key with its place in the file.
pub(super) fn of(name: &str, place: usize) -> Key {
    let folded = folded(name);
    let folded = folded.get(..Key::BYTES_MAX).map_or(&*folded, |cut| cut.trim_end_matches('-'));
    Key::parse(name)
        .or_else(|_| Key::parse(folded))
        .or_else(|_| Key::parse(&format!("collection-{place}")))
        .expect("a number behind a word is a key")
}

fn folded(name: &str) -> String {
    let mut key = String::new();
    for c in name.nfkd().filter(|c| !is_combining_mark(*c)) {
        match letters(c) {
            Some(letters) => key.push_str(letters),
            None if c.is_ascii_alphanumeric() => key.push(c.to_ascii_lowercase()),
            None if key.ends_with('-') || key.is_empty() => {}
            None => key.push('-'),
        }
    }
    key.truncate(key.trim_end_matches('-').len());
    key
}

/// Transliterates Latin letters that have no decomposition (as Unicode's `Latin-ASCII` transform does).
const fn letters(c: char) -> Option<&'static str> {
    match c {
        'ß' | 'ẞ' => Some("ss"),
        'æ' | 'Æ' => Some("ae"),
        'œ' | 'Œ' => Some("oe"),
        'ø' | 'Ø' => Some("o"),
        'đ' | 'Đ' | 'ð' | 'Ð' => Some("d"),
        'ł' | 'Ł' => Some("l"),
        'þ' | 'Þ' => Some("th"),
        'ħ' | 'Ħ' => Some("h"),
        'ı' => Some("i"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_what_a_key_can_hold() {
        for (name, key) in [
            ("posts", "posts"),
            ("Posts_2.x", "Posts_2.x"),
            ("Blog Posts", "blog-posts"),
            ("  Über  uns! ", "uber-uns"),
            ("Straße & Ægir", "strasse-aegir"),
            ("posts/en", "posts-en"),
            ("news.yaml", "news-yaml"),
            ("Café n° 5", "cafe-n-5"),
            ("日记本", "collection-3"),
            ("", "collection-3"),
            ("---", "collection-3"),
            ("con", "collection-3"),
            ("日记 blog", "blog"),
        ] {
            assert_eq!(of(name, 3).as_str(), key, "{name:?}");
        }
        assert_eq!(of(&"é".repeat(200), 1).as_str(), "e".repeat(128));
    }
}
