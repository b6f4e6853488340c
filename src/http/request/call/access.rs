//! Authentication and authorization of a request, and the reading of its body, which depends on them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use crate::domain::Actor;
use crate::http::authorize::{Action, Allowed, Denied, Identity};
use crate::http::browser::sites::check_site;
use crate::http::budgets::bodies::Sender;
use crate::http::budgets::shared_budget::BudgetUser;
use crate::http::context::AccessRules;
use crate::http::jsonapi::error::{ApiError, Code, ErrorObject};
use crate::http::request::body::Body;
use crate::http::request::call::Call;
use crate::http::request::caller::{Caller, ask, identify};

/// The error detail for writes on a read-only instance.
pub(crate) const FOLLOWER_WRITES_NOTHING: &str =
    "This instance follows others and takes no writes (--follow).";

impl Call<'_> {
    /// Refuses a request for an unknown host if the service is open and bound to a loopback address.
    ///
    /// # Errors
    ///
    /// 421.
    pub(crate) fn check_host(&self) -> Result<(), ApiError> {
        let AccessRules { guard, hosts, .. } = &self.context.access;
        match self.head.host().filter(|_| guard.is_open()) {
            Some(host) => hosts.check(host),
            None => Ok(()),
        }
    }

    /// Refuses a write that a web page of another site sends to a service without tokens.
    ///
    /// # Errors
    ///
    /// 403.
    pub(crate) fn check_site(&self) -> Result<(), ApiError> {
        let AccessRules { guard, cors, .. } = &self.context.access;
        if guard.is_open() { check_site(cors, self.method(), self.headers()) } else { Ok(()) }
    }

    /// Withholds an answer that was not authorized.
    ///
    /// # Errors
    ///
    /// 500 when the route needs authorization and its handler did not ask for it, or ignored the refusal.
    pub(crate) fn check_authorized(&self) -> Result<(), ApiError> {
        let is_open = self.matched.get().is_some_and(|matched| matched.actions.is_none());
        if is_open || self.permission.is_given.load(Ordering::Relaxed) {
            return Ok(());
        }
        tracing::error!(route = self.route(), "BUG: nobody has allowed this answer");
        Err(ApiError::internal())
    }

    /// Whether the authorizer may be asked about this action: the first one must be one of the route's.
    fn may_ask(&self, action: &Action<'_>) -> bool {
        let is_first = !self.permission.is_asked.swap(true, Ordering::Relaxed);
        let actions = self.matched.get().and_then(|matched| matched.actions);
        !is_first || actions.is_none_or(|is_one| is_one(action))
    }

    /// Returns the identity of the sender, as the authorizer determines it; the authorizer is asked only once.
    ///
    /// # Errors
    ///
    /// The authorizer's error; 500 if it panics.
    pub(crate) async fn identity(&self) -> Result<&Identity, ApiError> {
        let asked = || identify(&self.context.access.guard, &self.head, &self.id);
        Ok(self.identity.get_or_try_init(asked).await?)
    }

    /// Asks the authorizer, if any, who the sender is, unless that is known, and whether the action is allowed. An
    /// open authorizer knows no senders and serves most reads, so it is asked only the second question.
    ///
    /// # Errors
    ///
    /// The authorizer's error; 500 if it panics; 403 for a write on an instance that follows others.
    pub(crate) async fn authorize(&self, action: Action<'_>) -> Result<Allowed, ApiError> {
        if !self.may_ask(&action) {
            tracing::error!(route = self.route(), ?action, "BUG: the table of routes has no such action");
            return Err(ApiError::internal());
        }
        if self.context.is_follower() && action.is_write() {
            return Err(ErrorObject::new(Code::FORBIDDEN, FOLLOWER_WRITES_NOTHING).into());
        }
        let answer = self.ask(action).await;
        self.context
            .telemetry
            .metrics
            .iter()
            .for_each(|metrics| metrics.authorized(&action, answer.as_ref().map(drop)));
        let allowed = answer?;
        self.permission.is_given.store(true, Ordering::Relaxed);
        Ok(allowed)
    }

    async fn ask(&self, action: Action<'_>) -> Result<Allowed, Denied> {
        let Self { context, head, id, .. } = self;
        if !context.access.guard.is_open() {
            self.identity.get_or_try_init(|| identify(&context.access.guard, head, id)).await?;
        }
        ask(&context.access.guard, head, id, action).await
    }

    /// Reads the whole body of a write if the authorizer knows the sender and the sender may write at all; nothing
    /// that other senders send is kept.
    ///
    /// # Errors
    ///
    /// The outer errors are those of [`identity`](Self::identity). The inner errors, those of [`Body::collect`], are
    /// only for an authorized client, so they are reported after authorization.
    pub(crate) async fn collect(&self, body: &mut Body) -> Result<Result<Bytes, ApiError>, ApiError> {
        let sender = self.known_sender().await?;
        if self.context.is_follower() || !self.identity().await?.may_write {
            // Authorization reports the reason.
            return Ok(Err(Denied::forbidden().into()));
        }
        Ok(self.collect_of(sender, body).await)
    }

    /// Returns the sender of the request if the authorizer knows it.
    ///
    /// # Errors
    ///
    /// Those of [`identity`](Self::identity).
    pub(crate) async fn known_sender(&self) -> Result<Sender, ApiError> {
        self.identity().await?;
        Ok(Sender::Known(self.budget_user()))
    }

    /// Returns the sender of a request that needs no authentication.
    pub(crate) fn unknown_sender(&self) -> Sender {
        Sender::Stranger(BudgetUser::Unnamed(self.head.connection.network()))
    }

    /// Returns the sender as far as it is known; for an open service, which identifies no one, the anonymous actor.
    pub(super) fn known_actor(&self) -> Option<&Actor> {
        static ANYBODY: Actor = Actor::anonymous();
        let asked = self.identity.get().map(|identity| &identity.actor);
        asked.or_else(|| self.context.access.guard.is_open().then_some(&ANYBODY))
    }

    /// Returns who is charged for the request's use of the budgets: the caller if known, or else its network.
    pub(super) fn budget_user(&self) -> BudgetUser {
        let actor = self.identity.get().map(|identity| &identity.actor);
        match actor.filter(|actor| **actor != Actor::anonymous()) {
            Some(actor) => BudgetUser::Named(actor.clone()),
            None => BudgetUser::Unnamed(self.head.connection.network()),
        }
    }

    /// Reads the whole body from this sender.
    ///
    /// # Errors
    ///
    /// Those of [`Body::collect`].
    pub(crate) async fn collect_of(&self, sender: Sender, body: &mut Body) -> Result<Bytes, ApiError> {
        body.collect(&self.context.settings.limits.requests, self.budgets.bodies.empty_reservation(sender))
            .await
    }

    /// Returns the sender of the request, for repeated authorization while the answer is streamed.
    pub(crate) fn caller(&self) -> Caller {
        let Self { context, head, id, .. } = self;
        Caller {
            guard: context.access.guard.clone(),
            metrics: context.telemetry.metrics.clone(),
            head: Arc::clone(head),
            id: id.clone(),
            clock: context.clock,
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;
    use crate::http::authorize::Actions;
    use crate::http::budgets::Budgets;
    use crate::http::request::head::Head;
    use crate::http::request::id::RequestId;
    use crate::http::testing::{context, key};

    #[tokio::test]
    async fn an_answer_leaves_only_after_its_route_s_action_was_allowed() {
        let context = context();
        let limits = &context.settings.limits;
        let budgets = Budgets::of(&limits.requests, &limits.answers);
        let call = || {
            let (head, _) = Head::split_request(Request::new(String::new()), Arc::default());
            let id = RequestId::of(&head.headers, context.clock);
            Call::new(&context, &budgets, Arc::new(head), id)
        };
        let key = key("posts");
        let reads: Actions = |action| matches!(action, Action::Read { .. });

        let asked = call();
        asked.record_route("/collections/{key}", Some(reads));
        assert!(asked.check_authorized().is_err(), "its handler forgot to ask");
        asked.authorize(Action::Read { key: &key }).await.unwrap();
        asked.check_authorized().unwrap();
        asked.authorize(Action::ReadPast { key: &key }).await.expect("what else is asked is its own affair");

        let mistaken = call();
        mistaken.record_route("/collections/{key}", Some(reads));
        assert!(mistaken.authorize(Action::List).await.is_err(), "another action than the table's");
        assert!(mistaken.check_authorized().is_err(), "its handler did not heed that");

        let open = call();
        open.record_route("/livez", None);
        open.check_authorized().unwrap();
    }
}
