//! The byte budget that the bodies of requests share.

use std::sync::Arc;

use crate::http::budgets::shared_budget::{BudgetUser, Reservation, SharedBudget};
use crate::http::jsonapi::error::ApiError;
use crate::telemetry::Limit;

/// The bytes of each body that are not counted. A small write thus has room whatever others send. On as many
/// connections as there may be, uncounted bytes take no more memory than the counted ones may.
const FREE_BYTES: usize = 16 * 1_024;

/// Unknown senders share one part in this many of the whole budget, and get no other.
const STRANGERS_PART: usize = 8;

#[derive(Debug, Clone)]
pub(crate) enum Sender {
    Known(BudgetUser),
    /// A sender that is not signed in, or that claims to sign a notice.
    Stranger(BudgetUser),
}

/// The bodies under way, counted as their bytes arrive.
#[derive(Debug)]
pub(crate) struct BodyBudget {
    known: Arc<SharedBudget>,
    strangers: Arc<SharedBudget>,
}

impl BodyBudget {
    pub(crate) fn new(bytes_max: usize) -> Self {
        let of_strangers = bytes_max / STRANGERS_PART;
        Self { known: SharedBudget::of(bytes_max - of_strangers), strangers: SharedBudget::of(of_strangers) }
    }

    /// The reservation of a body of which nothing has arrived yet.
    pub(crate) fn empty_reservation(&self, sender: Sender) -> BodyReservation {
        BodyReservation(match sender {
            Sender::Known(user) => self.known.empty_reservation(user),
            Sender::Stranger(user) => self.strangers.empty_reservation(user),
        })
    }
}

#[derive(Debug)]
pub(crate) struct BodyReservation(Reservation);

impl BodyReservation {
    /// Reserves bytes for a body of which this many bytes have arrived.
    ///
    /// # Errors
    ///
    /// 503 when the bodies of all requests take too much, or those of unknown senders, or those of this sender.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), ApiError> {
        if self.0.grow_to(bytes.saturating_sub(FREE_BYTES)) {
            return Ok(());
        }
        let detail = "The bodies of all requests together are more than this service takes; try again.";
        Err(ApiError::unavailable(detail).with_limit(Limit::BodiesBytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Actor;

    fn named(name: &str) -> Sender {
        Sender::Known(BudgetUser::Named(Actor::new(name, "")))
    }

    fn stranger() -> Sender {
        Sender::Stranger(BudgetUser::Unnamed(None))
    }

    /// Reserves bytes for a body of this many counted bytes, or returns the status of the refusal.
    fn taken(bodies: &BodyBudget, sender: Sender, bytes: usize) -> Result<BodyReservation, u16> {
        let mut reservation = bodies.empty_reservation(sender);
        reservation.grow_to(FREE_BYTES + bytes).map_err(|error| error.status().as_u16())?;
        Ok(reservation)
    }

    #[test]
    fn bodies_have_their_room_together() {
        let bodies = BodyBudget::new(8_000);
        let held = taken(&bodies, named("Mara"), 5_000).unwrap();
        assert_eq!(taken(&bodies, named("Ben"), 5_000).unwrap_err(), 503);
        drop(held);
        taken(&bodies, named("Ben"), 7_000).unwrap();
    }

    #[test]
    fn nobody_takes_the_room_of_all_bodies_from_the_others() {
        let bodies = BodyBudget::new(80_000);
        let of_mara: Vec<_> = std::iter::from_fn(|| taken(&bodies, named("Mara"), 1_000).ok()).collect();
        assert_eq!(of_mara.len(), 35, "half of what strangers leave");
        taken(&bodies, named("Ben"), 10_000).unwrap();
    }

    #[test]
    fn strangers_take_no_room_of_others_and_a_small_body_always_has_some() {
        let bodies = BodyBudget::new(8_000);
        let _strangers = taken(&bodies, stranger(), 1_000).unwrap();
        assert_eq!(taken(&bodies, stranger(), 1).unwrap_err(), 503);
        let _known = taken(&bodies, named("Mara"), 7_000).unwrap();
        assert_eq!(taken(&bodies, named("Ben"), 1).unwrap_err(), 503);
        for sender in [named("Ben"), stranger()] {
            taken(&bodies, sender, 0).unwrap();
        }
    }
}
