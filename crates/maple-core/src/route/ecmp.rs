//! One of several routes, chosen by a few bits of the packet (equal-cost multipath).

use maple_wire::Field;

use super::Route;

/// The number of bits of a packet that choose between routes: with 8, at most 256 rules replace one rule for each flow.
pub const SPREAD_BITS: u32 = 8;

/// Returns a number whose every bit depends on all bits of the argument (the finish of SplitMix64).
fn scatter(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// Chooses one of several routes, as [`Route::ecmp`] does, for bindings that know their own source lines. `read` reads
/// a field under a mask.
///
/// ```
/// use maple_core::Route;
/// use maple_core::route::choose_by;
/// use maple_wire::{Field, PortNo};
///
/// let routes = || [1, 2].map(|port| Route::to([PortNo(port)]));
/// let chosen = |port| choose_by(routes(), |_, mask| Some(port & mask), &[Field::TcpSrc]).to_string();
/// assert!((0..20).any(|port| chosen(port) == "to 1") && (0..20).any(|port| chosen(port) == "to 2"));
/// ```
pub fn choose_by(
    routes: impl IntoIterator<Item = Route>,
    mut read: impl FnMut(Field, u128) -> Option<u128>,
    by: &[Field],
) -> Route {
    let (routes, others): (Vec<_>, Vec<_>) = routes.into_iter().enumerate().partition(|(_, r)| !r.is_unreachable());
    if routes.len() < 2 {
        // If all routes are unreachable, the first one shows why.
        return routes.into_iter().chain(others).next().map_or_else(Route::unreachable, |(_, route)| route);
    }
    let share = (SPREAD_BITS / by.len().max(1) as u32).max(1);
    let mut key = 0;
    for field in by {
        let mask = field.full_mask() & ((1 << share) - 1);
        let value = read(*field, mask).map_or(0, |value| value as u64 + 1);
        key = scatter(key ^ scatter(u64::from(field.oxm()) << 32 | value));
    }
    let score = |number: &usize| scatter(key ^ scatter(*number as u64 + 1));
    let chosen = routes.into_iter().max_by_key(|(number, _)| score(number));
    chosen.map_or_else(Route::unreachable, |(_, route)| route)
}
