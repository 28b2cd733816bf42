//! Programs that ask successive questions to the packet as one list.

use std::collections::HashMap;
use std::sync::Arc;

use maple_core::policy::{Net, PacketHandle, Policy, PolicyError, SamplePacket};
use maple_core::route::Route;
use maple_core::trace::{Cond, CondList, Range};
use maple_wire::Constraint;

use super::program::{Program, Question};

/// A program whose chains of questions to the packet are lists.
pub struct Listed {
    /// The program, boxed so that its nodes keep their addresses.
    program: Box<Program>,
    /// The chains, by the address of the question that each begins with.
    chains: HashMap<usize, Chain>,
    samples: Vec<SamplePacket>,
}

struct Chain {
    list: Arc<CondList>,
    /// The number of its question, for each condition.
    question_of: Vec<usize>,
}

impl Listed {
    /// Creates the policy. `samples` are packets that it decides beforehand.
    pub fn new(program: Program, samples: Vec<SamplePacket>) -> Listed {
        let program = Box::new(program);
        let (mut open, mut chains) = (vec![&*program], HashMap::new());
        while let Some(program) = open.pop() {
            if let Some(chain) = Chain::starting_at(program) {
                chains.insert(address(program), chain);
            }
            open.extend(program.children());
        }
        Listed { program, chains, samples }
    }
}

impl Chain {
    /// Returns the chain of questions to the packet that begins here.
    fn starting_at(first: &Program) -> Option<Chain> {
        let (mut conds, mut question_of, mut at) = (Vec::new(), Vec::new(), first);
        for number in 0.. {
            let Some((question, no)) = asked(at) else { break };
            for cond in CondList::with_prerequisites(&question) {
                conds.push(cond);
                question_of.push(number);
            }
            at = no;
        }
        let is_chain = question_of.last().is_some_and(|last| *last > 0);
        is_chain.then(|| Chain { list: Arc::new(CondList::new(conds.into_iter().map(Arc::new))), question_of })
    }
}

fn address(program: &Program) -> usize {
    std::ptr::from_ref(program).addr()
}

/// Returns a program's question to the packet, and how it continues if the answer is no.
fn asked(program: &Program) -> Option<(Cond, &Program)> {
    let Program::Ask { question, no, .. } = program else { return None };
    let cond = match *question {
        Question::Equals { field, value, mask } => Cond::default().and(Constraint { field, value, mask }),
        Question::InRange { field, lo, hi } => Cond::default().within(Range { field, lo, hi }),
        Question::Present(field) => Cond::default().and(Constraint { field, value: 0, mask: 0 }),
        _ => return None,
    };
    Some((cond, no))
}

impl Policy for Listed {
    fn decide(&self, pkt: &PacketHandle, net: &Net) -> Result<Route, PolicyError> {
        let ask_list = |program: &Program| {
            let chain = self.chains.get(&address(program))?;
            let first = pkt.first_of(&chain.list, |_| None);
            Some(first.map_or(Err(chain.length()), |place| Ok(chain.question_of[place])))
        };
        self.program.decide_by(pkt, net, &ask_list)
    }

    fn samples(&self) -> Vec<SamplePacket> {
        self.samples.clone()
    }
}

impl Chain {
    fn length(&self) -> usize {
        self.question_of.last().map_or(0, |last| last + 1)
    }
}
