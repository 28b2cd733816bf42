//! `maple top`: what a running controller does, in a terminal: rates, who sends most, drops by line, errors, switches.
//!
//! ```text
//!  controller ──► reading (a thread, each second) ──► picture: tables of text and numbers ──► draw   (a terminal)
//!                                                        keys ──► view: which table, order, filter ┘  plain  (--once)
//! ```
//!
//! A picture knows no terminal, so tests draw it into memory.

mod alternate_screen;
mod draw;
mod picture;
mod plain;
mod reading;
mod view;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::Args;
use crossbeam_channel::{Receiver, bounded};
use maple_controller::control::socket::AskError;

use self::alternate_screen::{Happening, TopScreen};
use self::draw::draw;
use self::picture::{Picture, Trends};
use self::reading::Reading;
use self::view::{KeyOutcome, View};
use crate::options::controller_to_ask;
use crate::output::{is_watched, print_text};
use crate::show::hint;

/// The time between two readings. Chosen: figures that change more often can't be read.
const EVERY: Duration = Duration::from_secs(1);

/// `maple top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Print one picture as text, and end; as always where standard output is not a terminal
    #[arg(long)]
    once: bool,
    /// The controller's Unix socket [default: as for `maple run`]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

/// Shows a controller until the user has seen enough.
///
/// # Errors
/// If there is no controller at the start, or if the terminal fails.
pub fn main(args: TopArgs) -> anyhow::Result<u8> {
    if args.once || !is_watched() || !std::io::stdin().is_terminal() {
        return once(args.control);
    }
    let readings = readings(args.control)?;
    let mut top = Top::default();
    // Without a controller there is nothing to show, and the reason is better read where the command stands.
    top.take(Ok(readings.recv()?.map_err(hint)?));
    let mut screen = TopScreen::open()?;
    loop {
        screen.draw(|frame| draw(frame, &mut top))?;
        // Until something is to be drawn.
        loop {
            let news: Vec<_> = readings.try_iter().collect();
            let is_new = !news.is_empty();
            news.into_iter().for_each(|reading| top.take(reading));
            match screen.wait()? {
                Happening::Key(key) => match top.view.press(key) {
                    KeyOutcome::Quit => return Ok(0),
                    KeyOutcome::Changed => break,
                    KeyOutcome::Nothing => {}
                },
                Happening::Resized => break,
                Happening::Signal(number) => return Ok(128 + number),
                Happening::Nothing => {}
            }
            if is_new {
                break;
            }
        }
    }
}

/// Prints one picture as text.
fn once(control: Option<PathBuf>) -> anyhow::Result<u8> {
    let controller = controller_to_ask(control, None);
    let before = Reading::take(&*controller).map_err(hint)?;
    std::thread::sleep(EVERY);
    let now = Reading::take(&*controller).map_err(hint)?;
    print_text(&plain::text(&Picture::new(&now, Some(&before))))?;
    Ok(0)
}

/// Starts to read a controller each second, in a thread that ends with the process or with the receiver.
fn readings(control: Option<PathBuf>) -> std::io::Result<Receiver<Result<Reading, AskError>>> {
    let (sender, receiver) = bounded(1);
    let work = move || {
        let controller = controller_to_ask(control, None);
        while sender.send(Reading::take(&*controller)).is_ok() {
            std::thread::sleep(EVERY);
        }
    };
    std::thread::Builder::new().name("top".into()).spawn(work)?;
    Ok(receiver)
}

/// The picture, and the user's view of it.
#[derive(Default)]
struct Top {
    latest: Option<Reading>,
    picture: Picture,
    trends: Trends,
    view: View,
    /// Since when the controller does not answer, and why.
    lost: Option<(SystemTime, String)>,
}

impl Top {
    /// Takes the next reading, or the reason why there is none. The picture before stays then.
    fn take(&mut self, reading: Result<Reading, AskError>) {
        match reading {
            Ok(now) => {
                self.picture = Picture::new(&now, self.latest.as_ref());
                self.trends.add(&self.picture.rates);
                (self.latest, self.lost) = (Some(now), None);
            }
            Err(error) => {
                // Rates over the time without a controller would mean nothing.
                self.latest = None;
                let since = self.lost.take().map_or_else(SystemTime::now, |(since, _)| since);
                self.lost = Some((since, error.to_string()));
            }
        }
    }
}
