//! A byte budget shared so that no caller can take all of it from the others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::Actor;

/// The caller that takes bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum BudgetUser {
    /// A named caller, wherever it connects from.
    Named(Actor),
    /// Callers without a name, by their network if they have an address.
    Unnamed(Option<IpAddr>),
}

/// The bytes that all callers share. A caller's first reservation may take all that is left. Each further one must
/// leave the others at least as much as the caller then has in total.
#[derive(Debug)]
pub(crate) struct SharedBudget {
    bytes_max: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    bytes: usize,
    by: HashMap<BudgetUser, usize>,
}

impl SharedBudget {
    pub(crate) fn of(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, taken: Mutex::default() })
    }

    /// Creates an empty reservation.
    pub(crate) fn empty_reservation(self: &Arc<Self>, user: BudgetUser) -> Reservation {
        Reservation { budget: Arc::clone(self), user, bytes: 0 }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        // A panic can't leave it half-updated.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part of the budget that one body or answer has. Released on drop.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<SharedBudget>,
    user: BudgetUser,
    bytes: usize,
}

impl Reservation {
    /// Grows the reservation to this many bytes, or to the whole budget if that is less. Leaves it unchanged and
    /// returns `false` if too little is left.
    #[must_use]
    pub(crate) fn grow_to(&mut self, bytes: usize) -> bool {
        let bytes = bytes.min(self.budget.bytes_max);
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return true;
        }
        let mut taken = self.budget.taken();
        let theirs = taken.by.get(&self.user).copied().unwrap_or(0);
        let left = (self.budget.bytes_max - taken.bytes).checked_sub(more);
        let fits = left.is_some_and(|left| theirs == self.bytes || theirs + more <= left);
        if fits {
            taken.bytes += more;
            *taken.by.entry(self.user.clone()).or_default() += more;
            self.bytes = bytes;
        }
        fits
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut taken = self.budget.taken();
        taken.bytes -= self.bytes;
        let theirs = taken.by.get_mut(&self.user).expect("whoever has a reservation is noted");
        *theirs -= self.bytes;
        if *theirs == 0 {
            taken.by.remove(&self.user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> BudgetUser {
        BudgetUser::Named(Actor::new(name, ""))
    }

    fn take(budget: &Arc<SharedBudget>, name: &str, bytes: usize) -> Option<Reservation> {
        let mut reservation = budget.empty_reservation(user(name));
        reservation.grow_to(bytes).then_some(reservation)
    }

    #[test]
    fn nobody_takes_more_than_is_left_for_the_others() {
        let budget = SharedBudget::of(100);
        let mut mara: Vec<_> = (0..5).map(|_| take(&budget, "Mara", 10).unwrap()).collect();
        assert!(take(&budget, "Mara", 10).is_none(), "she has half of it");
        let ben: Vec<_> = (0..2).map(|_| take(&budget, "Ben", 10).unwrap()).collect();
        assert!(take(&budget, "Ben", 10).is_none(), "he would leave less than he has");
        assert!(take(&budget, "Ada", 30).is_some(), "whoever comes first may have all that is left");
        drop(ben);
        assert!(take(&budget, "Mara", 1).is_none());
        mara.truncate(2);
        assert!(take(&budget, "Mara", 30).is_some());
    }

    #[test]
    fn the_only_place_of_somebody_may_have_all_of_it_and_gives_it_back() {
        let budget = SharedBudget::of(100);
        let mut reservation = take(&budget, "Mara", 60).unwrap();
        assert!(reservation.grow_to(1_000));
        assert!(take(&budget, "Ben", 1).is_none());
        drop(reservation);
        assert!(take(&budget, "Ben", 100).is_some());
        assert!(budget.taken().by.is_empty());
    }
}
