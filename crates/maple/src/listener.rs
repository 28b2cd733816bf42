//! Listeners: programs besides a policy that hear what happens in the network, and do not affect rules.

/// Creates both ends of a listener.
///
/// ```
/// use maple::field::{Cond, Constraint, Field};
///
/// // To hear of each ARP packet, and of all ports and switches.
/// let arp = Cond::default().and(Constraint::exact(Field::EthType, 0x0806));
/// assert!(maple::listener::subscribe(vec![arp.clone()]).is_ok());
/// assert!(maple::listener::subscribe(vec![arp; 65]).is_err(), "a packet has a bit for each of 64 conditions");
/// ```
#[doc(inline)]
pub use maple_controller::listener::subscribe;

/// The end of a listener that a program gives to its [`App`](crate::App).
///
/// ```
/// use maple::prelude::*;
///
/// let (subscription, listener) = maple::listener::subscribe(Vec::new())?;
/// let app = App::new(|_: &Packet, net: &Net| net.flood()).subscription(subscription);
/// assert_eq!(app.options().subscriptions.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(inline)]
pub use maple_controller::listener::Subscription;

/// The end of a listener that a program waits at.
///
/// ```
/// use std::time::Duration;
///
/// let (subscription, listener) = maple::listener::subscribe(Vec::new())?;
/// assert!(listener.next(Duration::ZERO).is_err());
/// assert_eq!(listener.lost(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(inline)]
pub use maple_controller::listener::Listener;

/// An event that a listener receives: a packet, or a change of a port or a switch.
///
/// ```
/// use maple::listener::NetworkEvent;
/// use maple::net::Dpid;
///
/// fn text(happening: &NetworkEvent) -> String {
///     match happening {
///         NetworkEvent::SwitchUp(switch) => format!("switch {switch} is there"),
///         NetworkEvent::Port { at, is_up: false, .. } => format!("port {at} is down"),
///         other => format!("{other:?}"),
///     }
/// }
/// assert_eq!(text(&NetworkEvent::SwitchUp(Dpid(1))), "switch 0000000000000001 is there");
/// ```
#[doc(inline)]
pub use maple_controller::listener::NetworkEvent;

/// The reason why [`Listener::next`] returns without an event.
///
/// ```
/// use std::time::Duration;
///
/// let (subscription, listener) = maple::listener::subscribe(Vec::new())?;
/// assert_eq!(listener.next(Duration::ZERO), Err(maple::listener::ListenerError::Timeout));
/// drop(subscription);
/// assert_eq!(listener.next(Duration::ZERO), Err(maple::listener::ListenerError::Ended));
/// # Ok::<(), maple::listener::TooManyConditions>(())
/// ```
#[doc(inline)]
pub use maple_controller::listener::ListenerError;

/// The error of [`subscribe`] for more conditions than listeners may have.
///
/// ```
/// let error: maple::listener::TooManyConditions = maple::listener::subscribe(vec![maple::field::Cond::default(); 65]).unwrap_err();
/// assert_eq!(error.to_string(), "listeners can have at most 64 conditions together, not 65");
/// ```
#[doc(inline)]
pub use maple_controller::listener::TooManyConditions;

/// A packet that a listener receives.
///
/// ```
/// use maple::listener::{ListenerPacket, NetworkEvent};
/// use maple::net::Dpid;
///
/// fn packet(event: NetworkEvent) -> Option<ListenerPacket> {
///     if let NetworkEvent::Packet(packet) = event { Some(packet) } else { None }
/// }
/// assert_eq!(packet(NetworkEvent::SwitchUp(Dpid(1))), None);
/// ```
#[doc(inline)]
pub use maple_core::engine::ListenerPacket;

/// The kind of change of a port: it was added, deleted or modified.
///
/// ```
/// use maple::listener::{NetworkEvent, PortReason};
/// use maple::net::Dpid;
///
/// fn is_removal(event: &NetworkEvent) -> bool {
///     matches!(event, NetworkEvent::Port { reason: PortReason::Delete, .. })
/// }
/// assert!(!is_removal(&NetworkEvent::SwitchUp(Dpid(1))));
/// ```
#[doc(inline)]
pub use maple_wire::msg::PortReason;
