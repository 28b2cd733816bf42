//! A network together with the controller of the same process, to which commands can put questions.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{TryRecvError, sync_channel};
use std::time::Instant;

use clap::Parser;
use maple_controller::Handle;
use maple_controller::control::socket::{AskError, Reach};
use maple_emulator::commands::{CommandError, Ground};
use maple_emulator::emulated::EmulatedNetwork;
use maple_emulator::time::Nanoseconds;
use parking_lot::Mutex;

use super::IDLE;
use crate::explain::ExplainArgs;
use crate::options::ShowArgs;
use crate::signal::take_interrupt;
use crate::state::StateArgs;
use crate::{explain, show, state};

/// A network in real time, and Ctrl-C.
pub struct GroundWithController<'a, G> {
    pub ground: &'a mut G,
    pub controller: Option<&'a Handle>,
}

/// The commands of `maple` that the controller of this process answers.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, name = "maple", disable_help_subcommand = true, max_term_width = 100)]
pub enum ControllerCommand {
    Show(ShowArgs),
    Explain(Box<ExplainArgs>),
    State(StateArgs),
}

impl ControllerCommand {
    fn parse_words(words: &[String]) -> Result<ControllerCommand, CommandError> {
        ControllerCommand::try_parse_from(words)
            .map_err(|error| CommandError::Wrong(error.to_string().trim_end().to_owned()))
    }

    fn ask(self, controller: &dyn Reach) -> anyhow::Result<u8> {
        match self {
            ControllerCommand::Show(args) => show::main(args, Some(controller)),
            ControllerCommand::Explain(args) => explain::ask_controller(&args, Some(controller)),
            ControllerCommand::State(args) => state::main(args, Some(controller)),
        }
    }
}

impl<G: Ground> Ground for GroundWithController<'_, G> {
    fn with<R: Send + 'static>(
        &mut self,
        f: impl FnOnce(&mut EmulatedNetwork) -> R + Send + 'static,
    ) -> Result<R, CommandError> {
        self.ground.with(f)
    }

    fn pass(&mut self, span: Nanoseconds) -> Result<(), CommandError> {
        let begun = Instant::now();
        loop {
            if take_interrupt() {
                return Err(CommandError::Interrupted);
            }
            let left = span.saturating_sub(begun.elapsed().as_nanos() as Nanoseconds);
            self.ground.pass(left.min(IDLE.as_nanos() as Nanoseconds))?;
            if left <= IDLE.as_nanos() as Nanoseconds {
                return Ok(());
            }
        }
    }

    fn can_ask(&self, words: &[String]) -> Option<Result<(), CommandError>> {
        self.controller.map(|_| ControllerCommand::parse_words(words).map(drop))
    }

    /// Asks in a thread of its own: some questions have endless answers, and the network must continue.
    fn ask(&mut self, words: &[String]) -> Result<String, CommandError> {
        let question = ControllerCommand::parse_words(words)?;
        let Some(controller) = self.controller else { return Ok(String::new()) };
        let own = OwnController { controller: controller.clone(), last: Arc::default() };
        let (sender, done) = sync_channel(1);
        let asked = own.clone();
        let asks = move || {
            // After Ctrl-C nobody waits for the answer.
            let _ = sender.send(question.ask(&asked));
        };
        let thread = std::thread::Builder::new().name("console-ask".into()).spawn(asks);
        thread.map_err(|error| CommandError::Failed(error.to_string()))?;
        loop {
            match done.try_recv() {
                Ok(Ok(_)) => return Ok(String::new()),
                Ok(Err(error)) => return Err(CommandError::Failed(format!("{error:#}"))),
                Err(TryRecvError::Disconnected) => return Err(CommandError::Failed("the question failed".into())),
                Err(TryRecvError::Empty) => self.pass(1_000_000).inspect_err(|_| own.hang_up())?,
            }
        }
    }
}

/// The controller of this process. Closing its last connection ends a question.
#[derive(Clone)]
struct OwnController {
    controller: Handle,
    last: Arc<Mutex<Connection>>,
}

#[derive(Default)]
struct Connection {
    stream: Option<UnixStream>,
    is_over: bool,
}

impl OwnController {
    fn hang_up(&self) {
        let mut last = self.last.lock();
        last.is_over = true;
        if let Some(stream) = last.stream.take() {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Reach for OwnController {
    fn connect(&self) -> Result<UnixStream, AskError> {
        let mut last = self.last.lock();
        if last.is_over {
            return Err(AskError::Closed);
        }
        let stream = self.controller.connect()?;
        last.stream = Some(stream.try_clone()?);
        Ok(stream)
    }
}
