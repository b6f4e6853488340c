//! Reads submitted forms, and refuses those of other sites.

use std::collections::HashMap;

use warp::http::HeaderValue;
use warp::http::header::CONTENT_TYPE;

use crate::http::browser::sites::{SEC_FETCH_SITE, is_foreign};
use crate::http::jsonapi::error::{ApiError, Code};
use crate::http::request::body::{Body, Sender};
use crate::http::request::call::Call;
use crate::http::ui::frame::Visit;

/// The field of the token against cross-site request forgery.
const TOKEN: &str = "token";

/// Maximum fields in a form: more than anyone types, and few enough to be processed between two answers.
const FIELDS_MAX: usize = 10_000;

/// The media type of a form.
const MEDIA_TYPE: &str = "application/x-www-form-urlencoded";

#[derive(Debug, Default)]
pub(crate) struct PostedForm {
    pairs: Vec<(String, String)>,
    /// The index of the first field of each name.
    places: HashMap<String, usize>,
    /// Whether it has the current form token. A form from before a restart does not, and is only shown again.
    pub(crate) is_ours: bool,
}

impl PostedForm {
    /// Reads a form from this sender.
    ///
    /// # Errors
    ///
    /// 403 for a form of another site, 415 if it is not a form, and the errors of a body.
    pub(crate) async fn read(visit: &Visit<'_>, sender: Sender, body: &mut Body) -> Result<Self, ApiError> {
        check_site(visit.call)?;
        let content_type = visit.call.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let essence = content_type.and_then(|it| it.split(';').next()).unwrap_or_default();
        if !essence.trim().eq_ignore_ascii_case(MEDIA_TYPE) {
            let detail = format!("A page takes forms: {MEDIA_TYPE}.");
            return Err(ApiError::new(Code::UNSUPPORTED_MEDIA_TYPE, detail));
        }
        let bytes = visit.call.collect_of(sender, body).await?;
        if !has_few_fields(&bytes) {
            let detail =
                format!("A form has at most {FIELDS_MAX} fields; what has more is written over the API.");
            return Err(ApiError::new(Code::PAYLOAD_TOO_LARGE, detail));
        }
        let pairs = form_urlencoded::parse(&bytes).map(|(name, value)| (name.into_owned(), unix(&value)));
        let mut posted = Self::new(pairs);
        posted.is_ours = posted.get(TOKEN) == visit.ui.form_token(visit.call);
        Ok(posted)
    }

    fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        let pairs: Vec<_> = pairs.into_iter().collect();
        let mut places = HashMap::with_capacity(pairs.len());
        for (at, (name, _)) in pairs.iter().enumerate() {
            places.entry(name.clone()).or_insert(at);
        }
        Self { pairs, places, is_ours: false }
    }

    #[cfg(test)]
    pub(crate) fn with(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { is_ours: true, ..Self::new(pairs) }
    }

    /// Returns the value of a field; empty if it was not sent.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.find(name).unwrap_or_default()
    }

    pub(crate) fn find(&self, name: &str) -> Option<&str> {
        self.places.get(name).map(|&at| self.pairs[at].1.as_str())
    }

    /// Returns the fields whose names begin with `prefix`, in order: the rest of each name, and the value.
    pub(crate) fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.pairs.iter().filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value.as_str())))
    }
}

/// Reports whether a text is a form as a browser encodes it, and small enough to keep.
pub(crate) fn is_form(text: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"*-._+&=%".contains(byte);
    text.iter().all(is_plain) && has_few_fields(text)
}

fn has_few_fields(form: &[u8]) -> bool {
    form.iter().filter(|byte| **byte == b'&').count() < FIELDS_MAX
}

/// Removes the CR of line ends: browsers send CR LF.
fn unix(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// Refuses a form that a page of another site sent, in every variant.
pub(crate) fn check_site(call: &Call<'_>) -> Result<(), ApiError> {
    let headers = call.headers();
    let site = headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes);
    if site.is_none_or(|site| matches!(site, b"same-origin" | b"none")) && !is_foreign(headers) {
        return Ok(());
    }
    let detail =
        "Another site sent this form, so nothing was done. Open the page here and send it from there.";
    Err(ApiError::new(Code::FORBIDDEN, detail))
}

/// Returns a text that can't be guessed.
pub(crate) fn random_token() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    format!("{:032x}", u128::from_ne_bytes(bytes))
}
