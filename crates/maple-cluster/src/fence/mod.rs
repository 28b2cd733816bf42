//! The role of this controller at one switch, on one connection: what to ask, and whether it may change the switch.
//!
//! ```text
//!   connected, and            generation?                        slave?
//!   no generation known ────► asks NOCHANGE ── its own ──► asks SLAVE ─────────► slave
//!   a generation known, or 1.0 ──────────────────────────────────┘                │ lead
//!   it leads ──────────────────────────────────────────────────► asks MASTER ◄────┘
//!                                                                     │ granted ──► master
//!                                                                     └ refused: overtaken
//! ```
//!
//! The switch's latest word counts. A reply, an error and a status come in the order in which the switch said them, and
//! one reply is awaited for each request, so a reply to an old request is distinguished from one to the latest. A grant
//! is taken only as the answer to the latest request for a role. Whatever says that the controller is no master is
//! taken at once.

use std::collections::VecDeque;

use maple_wire::msg::{Experimenter, Role};
use maple_wire::{Message, Version};

/// `OFPET_ROLE_REQUEST_FAILED` and `OFPRRFC_STALE`.
const STALE: (u16, u16) = (11, 0);
/// `OFPBRC_IS_SLAVE` of 1.3, and `OFPBRC_EPERM`, by which Open vSwitch says the same in 1.0.
const IS_SLAVE: (u16, u16) = (1, 10);
const EPERM: (u16, u16) = (1, 5);

/// News about the role of a controller at a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceChange {
    /// The controller is master, in this generation.
    Master(u64),
    /// The controller is not master any more, and changes nothing from now on.
    Lost,
    /// The switch has seen this generation, which is greater than the controller's own. Somebody else is or was master.
    Overtaken(u64),
    /// The switch has no roles: it refuses requests for them.
    Unsupported,
}

/// A request that is not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Slave,
    Master(u64),
    /// Which generation the switch has seen.
    Generation,
}

/// The role of a controller at one switch, from when the connection is open.
#[derive(Clone, Debug)]
pub struct Fence {
    version: Version,
    /// The generation in which this controller leads, if it does.
    own_generation: Option<u64>,
    /// The latest generation that is known here, from the store or from the switch.
    latest: Option<u64>,
    /// The requests that are not answered, in order.
    asked: VecDeque<Asked>,
    /// The generation in which the switch has made this controller master.
    mastery: Option<u64>,
}

impl Fence {
    /// Creates the fence of a connection on which nothing was sent but a hello. Returns the request to send before
    /// anything else. `latest` is the latest generation of a master that is known, `own_generation` that of this
    /// controller, if it is master by the store.
    pub fn new(version: Version, latest: Option<u64>, own_generation: Option<u64>) -> (Fence, Vec<Message>) {
        let mut fence = Fence {
            version,
            own_generation,
            latest: latest.max(own_generation),
            asked: VecDeque::new(),
            mastery: None,
        };
        let mut out = Vec::new();
        fence.ask_for_place(&mut out);
        (fence, out)
    }

    /// Returns the generation in which this controller is master here by the switch's latest word. Only then may it
    /// change the switch.
    pub fn mastery(&self) -> Option<u64> {
        self.mastery
    }

    /// Notes that the controller has become master by the store, in this generation. Returns what to send. Until the
    /// switch has granted it, the controller is not master there, also if it was in a former generation: somebody else
    /// may have been in between.
    pub fn lead(&mut self, generation: u64) -> (Vec<Message>, Option<FenceChange>) {
        let mut out = Vec::new();
        if self.own_generation == Some(generation) {
            return (out, None);
        }
        self.own_generation = Some(generation);
        self.latest = self.latest.max(self.own_generation);
        let lost = self.mastery.take().map(|_| FenceChange::Lost);
        self.ask_for_place(&mut out);
        (out, lost)
    }

    /// Notes that the controller is not master by the store. `latest` is the generation of who is, if it is known.
    /// Returns what to send.
    pub fn follow(&mut self, latest: Option<u64>) -> (Vec<Message>, Option<FenceChange>) {
        let mut out = Vec::new();
        self.latest = self.latest.max(latest);
        if self.own_generation.take().is_none() {
            return (out, None);
        }
        let lost = self.mastery.take().map(|_| FenceChange::Lost);
        self.ask_for_place(&mut out);
        (out, lost)
    }

    /// Reports whether this controller leads, is not master here, and waits for no answer. Whoever asks without a
    /// generation unseats a master, and nobody asks again in its place.
    pub fn is_unseated(&self) -> bool {
        self.own_generation.is_some() && self.mastery.is_none() && self.asked.is_empty()
    }

    /// Asks again to be master, if the controller is unseated. Returns what to send.
    pub fn ask_again(&mut self) -> Vec<Message> {
        let mut out = Vec::new();
        if self.is_unseated() {
            self.ask_for_place(&mut out);
        }
        out
    }

    /// Asks for the role that this controller should have here.
    fn ask_for_place(&mut self, out: &mut Vec<Message>) {
        match (self.own_generation, self.latest) {
            (Some(generation), _) => self.ask(Asked::Master(generation), out),
            // A generation made up could be too small, or lock everybody out.
            (None, None) if self.version == Version::Of13 => self.ask(Asked::Generation, out),
            (None, _) => self.ask(Asked::Slave, out),
        }
    }

    fn ask(&mut self, asked: Asked, out: &mut Vec<Message>) {
        let (number, nicira, generation_id) = match asked {
            Asked::Slave => (Role::SLAVE, 2u32, self.latest.unwrap_or(0)),
            Asked::Master(generation) => (Role::MASTER, 1, generation),
            Asked::Generation => (Role::NOCHANGE, 0, 0),
        };
        self.asked.push_back(asked);
        out.push(match self.version {
            Version::Of13 => Message::RoleRequest(Role { role: number, generation_id }),
            Version::Of10 => {
                let body = [Role::NICIRA_REQUEST, nicira].iter().flat_map(|word| word.to_be_bytes()).collect();
                Message::Experimenter(Experimenter { id: Experimenter::NICIRA, body })
            }
        });
    }

    /// Takes a message of the switch that is about roles. Returns what to send, and what has changed. Other messages
    /// change nothing. An error is one of these if it answers a request for a role (`is_of_role`), or if it says that a
    /// change was refused because the controller is a slave.
    pub fn on_message(&mut self, message: &Message, is_of_role: bool) -> (Vec<Message>, Option<FenceChange>) {
        let mut out = Vec::new();
        let change = match message {
            Message::RoleReply(role) => self.on_answer(role.role == Role::MASTER, Some(role.generation_id), &mut out),
            Message::Experimenter(Experimenter { id: Experimenter::NICIRA, body }) => match words(body)[..] {
                [Role::NICIRA_REPLY, role] => self.on_answer(role == 1, None, &mut out),
                _ => None,
            },
            Message::Experimenter(Experimenter { id: Experimenter::ONF, body }) => match words(body)[..] {
                [Role::ONF_STATUS, Role::SLAVE | Role::EQUAL, _, high, low] => {
                    self.on_lost(Some(u64::from(high) << 32 | u64::from(low)))
                }
                _ => None,
            },
            Message::Error(error) if is_of_role => self.on_refused((error.kind, error.code), &mut out),
            Message::Error(error) if self.is_of_slaves((error.kind, error.code)) => self.on_lost(None),
            _ => None,
        };
        (out, change)
    }

    /// Reports whether an error says that a change was refused because the controller is a slave.
    fn is_of_slaves(&self, error: (u16, u16)) -> bool {
        error == if self.version == Version::Of10 { EPERM } else { IS_SLAVE }
    }

    fn on_answer(&mut self, is_master: bool, generation: Option<u64>, out: &mut Vec<Message>) -> Option<FenceChange> {
        let asked = self.asked.pop_front()?;
        match asked {
            Asked::Master(generation)
                if is_master && self.own_generation == Some(generation) && !self.asks_for_role() =>
            {
                self.mastery = Some(generation);
                Some(FenceChange::Master(generation))
            }
            Asked::Generation => {
                // A switch that has seen none says the greatest number; 0 is good for it.
                let seen = generation.filter(|seen| *seen != u64::MAX).unwrap_or(0);
                self.latest = self.latest.max(Some(seen));
                match self.own_generation {
                    Some(own) if own < seen => return Some(FenceChange::Overtaken(seen)),
                    Some(_) => {}
                    None => self.ask(Asked::Slave, out),
                }
                None
            }
            Asked::Slave | Asked::Master(_) => None,
        }
    }

    /// Reports whether a request is open that changes the role.
    fn asks_for_role(&self) -> bool {
        self.asked.iter().any(|asked| matches!(asked, Asked::Slave | Asked::Master(_)))
    }

    fn on_lost(&mut self, generation: Option<u64>) -> Option<FenceChange> {
        self.latest = self.latest.max(generation);
        self.mastery.take().map(|_| FenceChange::Lost)
    }

    fn on_refused(&mut self, error: (u16, u16), out: &mut Vec<Message>) -> Option<FenceChange> {
        let asked = self.asked.pop_front()?;
        let lost = match asked {
            Asked::Master(_) => self.mastery.take().map(|_| FenceChange::Lost),
            Asked::Slave | Asked::Generation => None,
        };
        if error != STALE {
            return Some(FenceChange::Unsupported);
        }
        // The switch knows a greater generation; its answer says which.
        self.ask(Asked::Generation, out);
        lost
    }
}

fn words(body: &[u8]) -> Vec<u32> {
    body.chunks_exact(4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]])).collect()
}

#[cfg(test)]
mod tests;
