//! The labels of the next switches, as a holder keeps them.

use std::sync::Arc;

use maple_wire::PortNo;

use super::{Acquire, Holder, LabelEffect, News, Suffix};
use crate::network::Location;

/// One label for each link that packets leave by.
#[derive(Clone, Debug, Default)]
pub(crate) struct OnwardLabels {
    links: Vec<Link>,
}

#[derive(Clone, Debug)]
struct Link {
    port: PortNo,
    far: Location,
    suffix: Arc<Suffix>,
    label: Option<u16>,
    ready: bool,
}

impl OnwardLabels {
    /// Creates labels for these suffixes, none of which has an id yet.
    pub fn new(links: impl Iterator<Item = (PortNo, Location, Arc<Suffix>)>) -> OnwardLabels {
        let link = |(port, far, suffix)| Link { port, far, suffix, label: None, ready: false };
        OnwardLabels { links: links.map(link).collect() }
    }

    /// Asks for all labels.
    pub fn ask(&self, holder: impl Fn(PortNo) -> Holder, out: &mut Vec<LabelEffect>) {
        let ask = |link: &Link| {
            let (at, suffix) = (link.far, Arc::clone(&link.suffix));
            LabelEffect::Ask(Acquire { at, suffix, holder: holder(link.port) })
        };
        out.extend(self.links.iter().map(ask));
    }

    /// Gives all labels back. `confirmed` says that the switch has confirmed that no rule leads to them any more.
    pub fn release(&mut self, holder: impl Fn(PortNo) -> Holder, confirmed: bool, out: &mut Vec<LabelEffect>) {
        for link in &mut self.links {
            (link.label, link.ready) = (None, false);
            out.push(LabelEffect::Release { at: link.far.switch, holder: holder(link.port), confirmed });
        }
    }

    /// Records news about the label for a port.
    pub fn learn(&mut self, port: PortNo, news: &News) {
        let Some(link) = self.links.iter_mut().find(|link| link.port == port) else { return };
        match news {
            News::Allocated(label) => link.label = Some(*label),
            News::Ready => link.ready = true,
            News::Refused(_) => link.ready = false,
        }
    }

    /// Reports whether packets may be sent: all labels are ready.
    pub fn is_ready(&self) -> bool {
        self.links.iter().all(|link| link.ready)
    }

    /// Returns ports and labels, once all labels are known.
    pub fn labels(&self) -> Option<Vec<(PortNo, u16)>> {
        self.links.iter().map(|link| Some((link.port, link.label?))).collect()
    }
}
