//! What all pages have in common: the visitor, the revision shown, the navigation and the links.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::domain::{Key, Revision};
use crate::engine::VisibleState;
use crate::engine::history::View;
use crate::http::authorize::Action;
use crate::http::jsonapi::error::ApiError;
use crate::http::jsonapi::query::{AS_OF, Query, as_part};
use crate::http::request::call::Call;
use crate::http::routes::revision_text;
use crate::http::ui::Ui;
use crate::http::ui::assets::{ICON, SCRIPT, STYLE};
use crate::http::ui::words::{ShownTime, short};

/// Percent-encoded in a query: everything but letters, digits and `-._~`.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nav {
    Collections,
    Timeline,
    Compare,
    Problems,
    About,
    Elsewhere,
}

/// The past revision that a page shows.
#[derive(Debug, Clone)]
pub(crate) struct ShownAsOf {
    /// The text that names it in the query.
    pub(crate) text: String,
    pub(crate) revision: Revision,
    pub(crate) at: Option<ShownTime>,
}

impl ShownAsOf {
    pub(crate) fn short(&self) -> String {
        short(&self.revision.to_string()).to_owned()
    }
}

pub(crate) struct Visit<'a> {
    pub(crate) ui: &'a Ui,
    pub(crate) call: &'a Call<'a>,
    pub(crate) query: Query,
    pub(crate) as_of: Option<ShownAsOf>,
}

impl<'a> Visit<'a> {
    /// Reads what every page needs.
    ///
    /// # Errors
    ///
    /// Those of a revision that does not exist, or that the visitor may not see.
    pub(crate) async fn begin(ui: &'a Ui, call: &'a Call<'a>) -> Result<Self, ApiError> {
        let mut visit = Self { ui, call, query: call.query()?, as_of: None };
        if let Some(text) = visit.asked(AS_OF) {
            call.authorize(Action::ListPast).await?;
            let as_of = resolved(call, text.to_owned()).await?;
            call.record_page_revision(Some(as_of.revision));
            visit.as_of = Some(as_of);
        }
        Ok(visit)
    }

    /// Returns a parameter, unless it is blank.
    pub(crate) fn asked(&self, name: &str) -> Option<&str> {
        self.query.first(name).map(str::trim).filter(|text| !text.is_empty())
    }

    /// Returns the history for what a page can do without; `None` at once while it is read for the first time.
    pub(crate) async fn history_at_hand(&self) -> Option<View> {
        self.call.context.history.as_ref()?.view().await.ok()
    }

    pub(crate) async fn frame(&self, title: impl Into<String>, nav: Nav) -> Frame {
        let mut frame = Frame::of(self.ui, self.call, title, nav).await;
        frame.as_of.clone_from(&self.as_of);
        frame
    }

    /// The frame of a page that follows changes, unless it shows the past.
    pub(crate) async fn live_frame(&self, title: impl Into<String>, nav: Nav, key: Option<&Key>) -> Frame {
        let frame = self.frame(title, nav).await;
        if self.as_of.is_some() {
            return frame;
        }
        let allowed = self.call.authorize(Action::Follow { key }).await.ok();
        let snapshot = self.call.snapshot().ok();
        let token = allowed.zip(snapshot).map(|(allowed, snapshot)| {
            VisibleState::of(&snapshot, allowed.visible_keys(key)).token.to_string()
        });
        Frame { live: token.map(|token| Live { token, key: key.map(Key::to_string) }), ..frame }
    }
}

async fn resolved(call: &Call<'_>, text: String) -> Result<ShownAsOf, ApiError> {
    let view = call.history_view().await?;
    call.query_history(move || {
        let revision =
            view.resolve(&revision_text(&text)).map_err(|error| ApiError::from(error).parameter(AS_OF))?;
        let at = view.time_of(revision).ok().map(ShownTime);
        Ok(ShownAsOf { text, revision, at })
    })
    .await
}

/// What a page follows.
#[derive(Debug)]
pub(crate) struct Live {
    /// The sync token of what the page shows.
    pub(crate) token: String,
    /// The collection, if it is only one.
    pub(crate) key: Option<String>,
}

/// What surrounds the content of every page.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) title: String,
    pub(crate) nav: Nav,
    /// The path of all pages, without a trailing `/`.
    pub(crate) base: String,
    /// The path of this page, below `base`.
    pub(crate) path: String,
    /// The other parameters, which the control that selects a revision keeps.
    pub(crate) kept: Vec<(String, String)>,
    pub(crate) as_of: Option<ShownAsOf>,
    pub(crate) problems: usize,
    pub(crate) live: Option<Live>,
    pub(crate) visitor: Visitor,
}

/// The visitor of a page and their permissions.
#[derive(Debug)]
pub(crate) struct Visitor {
    /// Their name, unless everyone may do everything.
    pub(crate) who: Option<String>,
    pub(crate) can_audit: bool,
    pub(crate) can_read: bool,
    pub(crate) signed_in: bool,
    /// The token that a form sends back.
    pub(crate) token: String,
}

impl Visitor {
    async fn of(ui: &Ui, call: &Call<'_>) -> Self {
        let guarded = !call.context.access.guard.is_open();
        Self {
            who: call.identity().await.ok().filter(|_| guarded).map(|it| it.actor.name().to_owned()),
            can_audit: call.authorize(Action::ListEvents { key: None }).await.is_ok(),
            can_read: call.authorize(Action::List).await.is_ok(),
            signed_in: ui.sessions.of(call).is_some(),
            token: ui.form_token(call),
        }
    }
}

impl Frame {
    /// The frame of a page about the present.
    pub(crate) async fn of(ui: &Ui, call: &Call<'_>, title: impl Into<String>, nav: Nav) -> Self {
        let query = call.query().unwrap_or_default();
        let kept = query.pairs().filter(|(name, _)| *name != AS_OF);
        Self {
            title: title.into(),
            nav,
            base: format!("{}/ui", call.context.settings.base_path.as_str()),
            path: format!("/{}", call.page_path().unwrap_or_default()),
            kept: kept.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            as_of: None,
            problems: problems(call).await,
            live: None,
            visitor: Visitor::of(ui, call).await,
        }
    }

    /// The address of a page as of the same revision. `below` may have a query.
    pub(crate) fn to(&self, below: &str) -> String {
        let Some(as_of) = &self.as_of else { return self.now(below) };
        let sign = if below.contains('?') { '&' } else { '?' };
        format!("{}{sign}{AS_OF}={}", self.now(below), encoded(&as_of.text))
    }

    /// The address of a page that shows the present.
    pub(crate) fn now(&self, below: &str) -> String {
        format!("{}{below}", self.base)
    }

    /// The address of this page showing the present.
    pub(crate) fn here_now(&self) -> String {
        let kept: Vec<_> = self.kept.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        self.now(&with_query(&self.path, &kept))
    }

    /// The address of a page of a collection.
    pub(crate) fn collection(&self, key: &str, below: &str) -> String {
        self.to(&format!("/collections/{key}{below}"))
    }

    /// The address of a collection as it was at another revision.
    pub(crate) fn at(&self, key: &str, revision: &str) -> String {
        self.now(&format!("/collections/{key}?{AS_OF}={revision}"))
    }

    /// The address of the page that confirms restoring a collection to a revision.
    pub(crate) fn restore(&self, key: &str, revision: &str) -> String {
        self.now(&format!("/collections/{key}/restore?revision={revision}"))
    }

    pub(crate) fn event(&self, id: &str) -> String {
        self.to(&format!("/events/{id}"))
    }

    /// The address of all events of an actor.
    pub(crate) fn by(&self, actor: &str) -> String {
        self.to(&with_query("/events", &[("actor", as_part(actor))]))
    }

    /// The address of the changes that a revision made to a collection.
    pub(crate) fn compare(&self, revision: &str, key: &str) -> String {
        let before = format!("{revision}~1");
        let asked = [("from", before), ("to", revision.to_owned()), ("key", key.to_owned())];
        self.to(&with_query("/compare", &asked))
    }

    fn asset(&self, name: &str) -> String {
        format!("{}/assets/{name}", self.base)
    }

    pub(crate) fn style(&self) -> String {
        self.asset(&STYLE.name)
    }

    pub(crate) fn script(&self) -> String {
        self.asset(&SCRIPT.name)
    }

    pub(crate) fn icon(&self) -> String {
        self.asset(&ICON.name)
    }
}

/// The number of files with a problem that the visitor may see.
async fn problems(call: &Call<'_>) -> usize {
    let (Ok(allowed), Ok(snapshot)) = (call.authorize(Action::ReadProblems).await, call.snapshot()) else {
        return 0;
    };
    snapshot.problems.values().filter(|problem| allowed.sees_file(problem.collection.as_ref())).count()
}

/// Adds a query to a path, with those parameters that have a value.
pub(crate) fn with_query(path: &str, parameters: &[(&str, String)]) -> String {
    let mut address = path.to_owned();
    for (name, value) in parameters.iter().filter(|(_, value)| !value.is_empty()) {
        address.push(if address.contains('?') { '&' } else { '?' });
        address.push_str(&format!("{}={}", encoded(name), encoded(value)));
    }
    address
}

/// Percent-encodes a text for a path or a query.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}
