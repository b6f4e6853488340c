//! Request bodies: collected up to a limit, or discarded in a way that lets the client receive the answer.
//!
//! `warp::body::content_length_limit` answers 411 to a chunked body, so the limit is enforced here, where the bytes
//! arrive. A client that is still sending when the connection closes may lose the answer, so an unwanted body is read
//! and dropped, within separate limits.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use warp::Stream;
use warp::http::HeaderMap;
use warp::http::header::EXPECT;

use crate::config::RequestLimits;
use crate::http::budgets::bodies::BodyReservation;
use crate::http::header::content_length;
use crate::http::jsonapi::error::{ApiError, Code};
use crate::telemetry::Limit;

pub(crate) use crate::http::budgets::bodies::Sender;

/// How long a client may pause while sending an unwanted body before the rest is abandoned.
const DISCARD_PAUSE_MAX: Duration = Duration::from_millis(200);

/// A body that is not read yet, or not completely.
pub(crate) struct Body {
    chunks: Option<Box<dyn Chunks>>,
    /// The declared length.
    declared_bytes: usize,
    /// Whether the client waits for `100 Continue` before it sends anything (RFC 9110 section 10.1.1).
    is_held_back: bool,
    /// Whether the rest was abandoned because it did not arrive in time.
    is_given_up: bool,
    /// The body's share of the budget for all bodies, once it is complete, until the request is answered.
    reservation: Option<BodyReservation>,
}

/// A source of chunks.
trait Chunks: Send {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>>;
}

/// The client disconnected or broke the framing.
struct Broken;

impl<S, B, E> Chunks for S
where
    S: Stream<Item = Result<B, E>> + Send + Unpin,
    B: Buf,
{
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        let chunk = Pin::new(self).poll_next(cx);
        chunk.map(|chunk| {
            chunk.map(|chunk| chunk.map(|mut buf| buf.copy_to_bytes(buf.remaining())).map_err(|_| Broken))
        })
    }
}

struct SingleChunk(Option<Bytes>);

impl Chunks for SingleChunk {
    fn poll(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        Poll::Ready(self.0.take().filter(|bytes| !bytes.is_empty()).map(Ok))
    }
}

/// How reading a body ended.
enum End {
    /// The body is complete.
    Complete(Bytes),
    /// The body is longer than allowed.
    TooLong,
    /// The budget for all bodies is exhausted.
    NoRoom(ApiError),
    /// The body stopped before its end.
    Broken,
}

impl Body {
    pub(crate) const fn none() -> Self {
        Self { chunks: None, declared_bytes: 0, is_held_back: false, is_given_up: false, reservation: None }
    }

    /// A body that has arrived already.
    pub(crate) fn whole(bytes: Bytes) -> Self {
        let declared_bytes = bytes.len();
        Self { chunks: Some(Box::new(SingleChunk(Some(bytes)))), declared_bytes, ..Self::none() }
    }

    /// The body that follows these header fields.
    pub(crate) fn announced<S, B, E>(headers: &HeaderMap, stream: S) -> Self
    where
        S: Stream<Item = Result<B, E>> + Send + Unpin + 'static,
        B: Buf + 'static,
        E: 'static,
    {
        Self {
            chunks: Some(Box::new(stream)),
            declared_bytes: content_length(headers).unwrap_or(0),
            is_held_back: headers
                .get(EXPECT)
                .is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"100-continue")),
            ..Self::none()
        }
    }

    /// Whether there is anything to read.
    pub(crate) const fn has_unread(&self) -> bool {
        self.chunks.is_some()
    }

    /// Whether the rest of the body is left unread, so that the connection must close after the answer.
    pub(crate) const fn must_close_connection(&self) -> bool {
        self.chunks.is_some() || self.is_given_up
    }

    /// Whether the client still waits for `100 Continue`.
    pub(crate) const fn awaits_continue(&self) -> bool {
        self.is_held_back
    }

    /// Reads the whole body.
    ///
    /// # Errors
    ///
    /// 413 when it is too long, 408 when it takes too long, 400 when it ends early, 503 when the budget is exhausted.
    pub(crate) async fn collect(
        &mut self,
        limits: &RequestLimits,
        mut reservation: BodyReservation,
    ) -> Result<Bytes, ApiError> {
        let bytes_max = limits.body_bytes_max;
        match tokio::time::timeout(limits.body_wait_max(), self.read(bytes_max, &mut reservation)).await {
            Ok(End::Complete(bytes)) => {
                self.reservation = Some(reservation);
                Ok(bytes)
            }
            Ok(End::TooLong) => {
                let detail = format!("A body has at most {bytes_max} bytes.");
                Err(ApiError::new(Code::PAYLOAD_TOO_LARGE, detail).with_limit(Limit::BodyBytes))
            }
            Ok(End::NoRoom(error)) => Err(error),
            Ok(End::Broken) => Err(ApiError::new(
                Code::BAD_REQUEST,
                "The body ended early, or its chunks are not well-formed.",
            )),
            Err(_) => {
                // The rest is abandoned.
                self.chunks = None;
                self.is_given_up = true;
                let limit_ms = limits.body_wait_ms_max;
                let detail = format!("The body did not arrive within {limit_ms} ms.");
                Err(ApiError::new(Code::REQUEST_TIMEOUT, detail).with_limit(Limit::BodyWait))
            }
        }
    }

    async fn read(&mut self, bytes_max: usize, reservation: &mut BodyReservation) -> End {
        if self.declared_bytes > bytes_max {
            return End::TooLong;
        }
        let Some(first) = self.next().await else { return End::Complete(Bytes::new()) };
        let Ok(first) = first else { return End::Broken };
        let mut take = |bytes: usize| match bytes <= bytes_max {
            true => reservation.grow_to(bytes).map_err(End::NoRoom),
            false => Err(End::TooLong),
        };
        if let Err(end) = take(first.len()) {
            return end;
        }
        let mut next = self.next().await;
        if next.is_none() {
            return End::Complete(first);
        }
        let mut all = BytesMut::from(first);
        while let Some(chunk) = next {
            let Ok(chunk) = chunk else { return End::Broken };
            if let Err(end) = take(all.len() + chunk.len()) {
                return end;
            }
            all.extend_from_slice(&chunk);
            next = self.next().await;
        }
        End::Complete(all.freeze())
    }

    /// Reads and drops the rest, so that the client receives the answer.
    pub(crate) async fn discard(&mut self, limits: &RequestLimits) {
        if !self.has_unread() || self.is_held_back || self.declared_bytes > limits.discard_bytes_max {
            return;
        }
        let all = async {
            let mut left = limits.discard_bytes_max;
            while let Ok(Some(Ok(chunk))) = tokio::time::timeout(DISCARD_PAUSE_MAX, self.next()).await {
                let Some(rest) = left.checked_sub(chunk.len()) else { return };
                left = rest;
            }
        };
        // A timeout counts like a body that is too long: the connection closes before the rest arrives.
        let _ = tokio::time::timeout(limits.body_wait_max(), all).await;
    }

    async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        let chunks = self.chunks.as_mut()?;
        // Polling the body makes hyper send `100 Continue`.
        self.is_held_back = false;
        let chunk = poll_fn(|cx| chunks.poll(cx)).await;
        if !matches!(chunk, Some(Ok(_))) {
            self.chunks = None;
        }
        chunk
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;

    use warp::http::HeaderValue;
    use warp::http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};

    use super::*;
    use crate::domain::Actor;
    use crate::http::budgets::bodies::BodyBudget;
    use crate::http::budgets::shared_budget::BudgetUser;

    /// Chunks that have arrived already, followed by the end or by silence.
    struct Given(VecDeque<Bytes>, bool);

    impl Stream for Given {
        type Item = Result<Bytes, Infallible>;

        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            match self.0.pop_front() {
                Some(chunk) => Poll::Ready(Some(Ok(chunk))),
                None if self.1 => Poll::Ready(None),
                None => Poll::Pending,
            }
        }
    }

    const BYTES_MAX: usize = 1_000;

    fn body(sizes: &[usize], ends: bool) -> Body {
        let chunks = sizes.iter().map(|size| Bytes::from(vec![b'x'; *size])).collect();
        let mut headers = HeaderMap::new();
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        Body::announced(&headers, Given(chunks, ends))
    }

    fn reservation(bodies: &BodyBudget) -> BodyReservation {
        bodies.empty_reservation(Sender::Known(BudgetUser::Named(Actor::anonymous())))
    }

    async fn read(sizes: &[usize], ends: bool) -> Result<usize, u16> {
        let limits =
            RequestLimits { body_bytes_max: BYTES_MAX, body_wait_ms_max: 1, ..RequestLimits::DEFAULT };
        let mut body = body(sizes, ends);
        let result = body.collect(&limits, reservation(&BodyBudget::new(limits.bodies_bytes_max))).await;
        result.map(|bytes| bytes.len()).map_err(|error| error.status().as_u16())
    }

    #[tokio::test]
    async fn a_body_of_any_framing_is_taken_up_to_the_limit() {
        const MAX: usize = BYTES_MAX;
        for (sizes, ends, result) in [
            (&[][..], true, Ok(0)),
            (&[7], true, Ok(7)),
            (&[MAX], true, Ok(MAX)),
            (&[MAX - 1, 1], true, Ok(MAX)),
            (&[MAX + 1], true, Err(413)),
            (&[MAX, 1], true, Err(413)),
            (&[1, 1, MAX], true, Err(413)),
            (&[1], false, Err(408)),
            (&[], false, Err(408)),
        ] {
            assert_eq!(read(sizes, ends).await, result, "{sizes:?}");
        }
    }

    #[tokio::test]
    async fn a_body_has_its_room_until_the_request_is_answered() {
        let (limits, bodies) = (RequestLimits::DEFAULT, BodyBudget::new(80_000));
        let mut held = body(&[30_000, 30_000], true);
        held.collect(&limits, reservation(&bodies)).await.unwrap();
        let mut other = body(&[30_000, 30_000], true);
        let refused = other.collect(&limits, reservation(&bodies)).await.unwrap_err();
        assert_eq!((refused.status().as_u16(), refused.limit()), (503, Some(Limit::BodiesBytes)));
        drop(held);
        body(&[30_000, 30_000], true).collect(&limits, reservation(&bodies)).await.unwrap();
    }

    #[tokio::test]
    async fn an_unwanted_body_is_read_to_its_end() {
        let mut unwanted = body(&[100, 100], true);
        unwanted.discard(&RequestLimits::DEFAULT).await;
        assert!(!unwanted.has_unread());
        let mut endless = body(&[100, 100, 100], true);
        endless.discard(&RequestLimits { discard_bytes_max: 150, ..RequestLimits::DEFAULT }).await;
        assert!(endless.has_unread());
    }

    #[tokio::test]
    async fn a_body_is_held_back_until_it_is_asked_for() {
        let limits = RequestLimits { body_bytes_max: BYTES_MAX, ..RequestLimits::DEFAULT };
        for (expected, is_held_back) in [("100-continue", true), ("100-Continue", true), ("more", false)] {
            let mut headers = HeaderMap::new();
            headers.insert(EXPECT, HeaderValue::from_static(expected));
            let chunks = [BYTES_MAX, 1, 1].map(|size| Bytes::from(vec![b'x'; size]));
            let mut body = Body::announced(&headers, Given(chunks.into(), true));
            assert_eq!(body.awaits_continue(), is_held_back, "{expected}");
            let refused = body
                .collect(&limits, reservation(&BodyBudget::new(limits.bodies_bytes_max)))
                .await
                .unwrap_err();
            assert_eq!(refused.status().as_u16(), 413);
            body.discard(&limits).await;
            assert!(!body.has_unread(), "the client is sending by then");
        }
    }

    #[tokio::test]
    async fn nobody_waits_for_an_unwanted_body_that_never_comes() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("99999999999"));
        let mut lie = Body::announced(&headers, Given(VecDeque::new(), false));
        let limits = RequestLimits::DEFAULT;
        let refused =
            lie.collect(&limits, reservation(&BodyBudget::new(limits.bodies_bytes_max))).await.unwrap_err();
        assert_eq!(refused.status().as_u16(), 413);
        lie.discard(&RequestLimits::DEFAULT).await;
        assert!(lie.has_unread());
        let mut silent = body(&[], false);
        let asked = std::time::Instant::now();
        silent.discard(&RequestLimits::DEFAULT).await;
        assert!(asked.elapsed() < RequestLimits::DEFAULT.body_wait_max());
    }
}
