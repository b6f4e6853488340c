//! What a form sends: read, and refused where another site sent it.

use warp::http::HeaderName;
use warp::http::header::{CONTENT_TYPE, ORIGIN};

use crate::http::browser::sites;
use crate::http::jsonapi::error::{ApiError, Code};
use crate::http::request::body::Body;
use crate::http::request::call::Call;
use crate::http::ui::frame::Visit;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The field that holds the token against cross-site requests.
const TOKEN: &str = "token";

/// A form as it was sent.
#[derive(Debug, Default)]
pub(crate) struct Posted {
    pairs: Vec<(String, String)>,
    /// Whether it has the token of this process: one of before a restart has not, and nothing is done with it
    /// but to show it again.
    pub(crate) is_ours: bool,
}

impl Posted {
    /// Reads a form.
    ///
    /// # Errors
    ///
    /// 403 for one that another site sent, 415 for what is no form, and those of a body.
    pub(crate) async fn read(visit: &Visit<'_>, body: &mut Body) -> Result<Self, ApiError> {
        visit.call.identity().await?;
        Self::of_stranger(visit, body).await
    }

    /// Reads a form of somebody who need not be known.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub(crate) async fn of_stranger(visit: &Visit<'_>, body: &mut Body) -> Result<Self, ApiError> {
        check_site(visit.call)?;
        let content_type = visit.call.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if !content_type.is_some_and(|it| it.starts_with("application/x-www-form-urlencoded")) {
            let detail = "A page takes forms: application/x-www-form-urlencoded.";
            return Err(ApiError::new(Code::UNSUPPORTED_MEDIA_TYPE, detail));
        }
        let bytes = body.collect(&visit.call.context.settings.limits.requests, visit.call.budgets).await?;
        let pairs = form_urlencoded::parse(&bytes).map(|(name, value)| (name.into_owned(), unix(&value)));
        let mut posted = Self { pairs: pairs.collect(), is_ours: false };
        posted.is_ours = posted.get(TOKEN) == visit.ui.form_token(visit.call);
        Ok(posted)
    }

    /// A form with these fields.
    #[cfg(test)]
    pub(crate) fn of(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { pairs: pairs.into_iter().collect(), is_ours: true }
    }

    /// The value of a field; empty if it was not sent.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.find(name).unwrap_or_default()
    }

    /// The value of a field.
    pub(crate) fn find(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    /// The fields whose names begin so, in their order: the rest of each name, and the value.
    pub(crate) fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.pairs.iter().filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value.as_str())))
    }
}

/// Browsers end the lines of a text with CR LF, which nobody typed.
fn unix(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// Refuses a form that a page of another site sent, in every variant.
pub(crate) fn check_site(call: &Call<'_>) -> Result<(), ApiError> {
    let headers = call.headers();
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let elsewhere = text(&SEC_FETCH_SITE).is_some_and(|site| !matches!(site, "same-origin" | "none"));
    let foreign = text(&ORIGIN).is_some_and(|origin| !sites::is_own(origin, headers));
    if !elsewhere && !foreign {
        return Ok(());
    }
    let detail =
        "Another site sent this form, so nothing was done. Open the page here and send it from there.";
    Err(ApiError::new(Code::FORBIDDEN, detail))
}

/// A text that nobody can guess.
pub(crate) fn random_token() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
