//! The stylesheet, the script and the icon. Their names contain a hash of their content, so that browsers may
//! cache them forever.

use std::sync::LazyLock;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use warp::http::header::CACHE_CONTROL;
use warp::http::{HeaderValue, StatusCode};

use crate::http::reply::Reply;

/// Lets browsers cache an asset for a year without asking again.
const IMMUTABLE: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

/// A file that pages load.
#[derive(Debug)]
pub(crate) struct Asset {
    /// The name below `assets/`.
    pub(crate) name: String,
    media_type: &'static str,
    content: &'static [u8],
}

impl Asset {
    fn new(stem: &str, ending: &str, media_type: &'static str, content: &'static [u8]) -> Self {
        let name = format!("{stem}-{:.16x}.{ending}", Sha256::digest(content));
        Self { name, media_type, content }
    }
}

pub(crate) static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("ui", "css", "text/css; charset=utf-8", include_bytes!("assets/ui.css")));

pub(crate) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("ui", "js", "text/javascript; charset=utf-8", include_bytes!("assets/ui.js"))
});

pub(crate) static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("icon", "svg", "image/svg+xml", include_bytes!("assets/icon.svg")));

/// Answers with an asset; `None` if none has this name.
pub(crate) fn find(name: &str) -> Option<Reply> {
    let asset = [&STYLE, &SCRIPT, &ICON].into_iter().find(|asset| asset.name == name)?;
    let reply = Reply::typed(StatusCode::OK, asset.media_type, Bytes::from_static(asset.content));
    Some(reply.with(CACHE_CONTROL, IMMUTABLE))
}
