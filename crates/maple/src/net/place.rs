//! Places as arguments of questions about the network.

use maple_core::network::Location;
use maple_core::run::HostLocation;

/// A place as an argument of [`Net`](crate::Net): a [`Location`], the [`HostLocation`] of a host, or `None` for a host
/// that was not found.
///
/// ```
/// use maple::testing::*;
/// use maple::net::Place;
///
/// /// The path to the first place that is up.
/// fn to_either(net: &Net, from: impl Place + Copy, places: [Location; 2]) -> Route {
///     let up = places.into_iter().find(|at| net.is_up(*at));
///     net.shortest_path(from, up)
/// }
///
/// let bench = Bench::new().switch(1, 1..=2);
/// let (a, b) = (bench.port(1, 1), bench.port(1, 2));
/// bench.run(|_, net| assert_eq!(to_either(net, a, [b, a]).explicit_hops().count(), 1));
/// ```
pub trait Place {
    /// Returns switch and port; `None` if there is no place. Reads `in_port` if the packet's source is there.
    ///
    /// ```
    /// # use maple::{net::Location, testing::Bench};
    /// use maple::net::Place as _;
    ///
    /// # let bench = Bench::new().switch(1, 1..=2);
    /// # bench.run(|pkt, net| {
    /// let absent = net.locate(pkt.eth_src());
    /// assert_eq!(absent.place(), None);
    /// # });
    /// ```
    fn place(self) -> Option<Location>;

    /// Returns the place as the start of a path, of which the switch counts; `None` if there is no place. Records no
    /// read of a field.
    ///
    /// ```
    /// # use maple::testing::Bench;
    /// use maple::net::Place as _;
    ///
    /// # let bench = Bench::new().switch(1, 1..=2);
    /// let at = bench.port(1, 2);
    /// assert_eq!(at.start().map(|start| start.switch), Some(at.switch));
    /// ```
    fn start(self) -> Option<Location>;

    /// Returns the place as the end of a path; `None` if there is no place. Records nothing of a destination that a
    /// look-up found: the path may lead to whatever it finds.
    ///
    /// ```
    /// # use maple::testing::Bench;
    /// use maple::net::Place as _;
    ///
    /// # let bench = Bench::new().switch(1, 1..=2);
    /// let at = bench.port(1, 2);
    /// assert_eq!(at.end().and_then(|end| end.known()), Some(at));
    /// ```
    fn end<'n>(self) -> Option<HostLocation<'n>>
    where
        Self: 'n;
}

impl Place for Location {
    fn place(self) -> Option<Location> {
        Some(self)
    }

    fn start(self) -> Option<Location> {
        Some(self)
    }

    fn end<'n>(self) -> Option<HostLocation<'n>> {
        Some(self.into())
    }
}

impl Place for HostLocation<'_> {
    #[track_caller]
    fn place(self) -> Option<Location> {
        Some(self.location())
    }

    #[track_caller]
    fn start(self) -> Option<Location> {
        Some(HostLocation::start(self))
    }

    fn end<'n>(self) -> Option<HostLocation<'n>>
    where
        Self: 'n,
    {
        Some(self)
    }
}

impl<P: Place> Place for Option<P> {
    #[track_caller]
    fn place(self) -> Option<Location> {
        self?.place()
    }

    #[track_caller]
    fn start(self) -> Option<Location> {
        self?.start()
    }

    fn end<'n>(self) -> Option<HostLocation<'n>>
    where
        Self: 'n,
    {
        self?.end()
    }
}
