//! The room that the bodies of requests share.

use std::sync::Arc;

use crate::http::budgets::room::{Reservation, Room, Taker};
use crate::http::jsonapi::error::ApiError;
use crate::telemetry::Limit;

/// The bytes of each body that are not counted. A small write thus has room whatever others send. On as many
/// connections as there may be, uncounted bytes take no more memory than the counted ones may.
const FREE_BYTES: usize = 16 * 1_024;

/// Unknown senders share one part in this many of the whole room, and get no other.
const STRANGERS_PART: usize = 8;

#[derive(Debug, Clone)]
pub(crate) enum Sender {
    Known(Taker),
    /// A sender that is not signed in, or that claims to sign a notice.
    Stranger(Taker),
}

/// The bodies under way, counted as their bytes arrive.
#[derive(Debug)]
pub(crate) struct Bodies {
    known: Arc<Room>,
    strangers: Arc<Room>,
}

impl Bodies {
    pub(crate) fn new(bytes_max: usize) -> Self {
        let of_strangers = bytes_max / STRANGERS_PART;
        Self { known: Room::of(bytes_max - of_strangers), strangers: Room::of(of_strangers) }
    }

    /// The room of a body of which nothing has arrived yet.
    pub(crate) fn room(&self, sender: Sender) -> BodyRoom {
        BodyRoom(match sender {
            Sender::Known(taker) => self.known.place(taker),
            Sender::Stranger(taker) => self.strangers.place(taker),
        })
    }
}

#[derive(Debug)]
pub(crate) struct BodyRoom(Reservation);

impl BodyRoom {
    /// Makes room for a body of which this many bytes have arrived.
    ///
    /// # Errors
    ///
    /// 503 when the bodies of all requests take too much, or those of unknown senders, or those of this sender.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), ApiError> {
        if self.0.grow_to(bytes.saturating_sub(FREE_BYTES)) {
            return Ok(());
        }
        let detail = "The bodies of all requests together are more than this service takes; try again.";
        Err(ApiError::unavailable(detail).reaching(Limit::BodiesBytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Actor;

    fn named(name: &str) -> Sender {
        Sender::Known(Taker::Named(Actor::new(name, "")))
    }

    fn stranger() -> Sender {
        Sender::Stranger(Taker::Unnamed(None))
    }

    /// Takes room for a body of this many counted bytes, or returns the status of the refusal.
    fn taken(bodies: &Bodies, sender: Sender, bytes: usize) -> Result<BodyRoom, u16> {
        let mut room = bodies.room(sender);
        room.grow_to(FREE_BYTES + bytes).map_err(|error| error.status().as_u16())?;
        Ok(room)
    }

    #[test]
    fn bodies_have_their_room_together() {
        let bodies = Bodies::new(8_000);
        let held = taken(&bodies, named("Mara"), 5_000).unwrap();
        assert_eq!(taken(&bodies, named("Ben"), 5_000).unwrap_err(), 503);
        drop(held);
        taken(&bodies, named("Ben"), 7_000).unwrap();
    }

    #[test]
    fn nobody_takes_the_room_of_all_bodies_from_the_others() {
        let bodies = Bodies::new(80_000);
        let of_mara: Vec<_> = std::iter::from_fn(|| taken(&bodies, named("Mara"), 1_000).ok()).collect();
        assert_eq!(of_mara.len(), 35, "half of what strangers leave");
        taken(&bodies, named("Ben"), 10_000).unwrap();
    }

    #[test]
    fn strangers_take_no_room_of_others_and_a_small_body_always_has_some() {
        let bodies = Bodies::new(8_000);
        let _strangers = taken(&bodies, stranger(), 1_000).unwrap();
        assert_eq!(taken(&bodies, stranger(), 1).unwrap_err(), 503);
        let _known = taken(&bodies, named("Mara"), 7_000).unwrap();
        assert_eq!(taken(&bodies, named("Ben"), 1).unwrap_err(), 503);
        for sender in [named("Ben"), stranger()] {
            taken(&bodies, sender, 0).unwrap();
        }
    }
}
