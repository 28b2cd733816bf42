//! The files that Maple keeps, and which of them fail.
//!
//! The code that writes a file reports here when that fails and when it works again. The controller publishes it as a
//! notice ([`crate::notice`]) and as a metric, and shows it in `maple show controller` and `maple doctor`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Mutex, MutexGuard};

/// A file that Maple writes, or reads again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeptFile {
    /// Tables and variables, and what the next run needs to know of leaves and surroundings.
    State,
    /// The recording of this run.
    Recording,
    /// The log, where standard output or standard error is a file.
    Log,
    /// The file of switches, to which trust on first use adds certificates.
    Switches,
    /// The certificates of the controller and of authorities.
    Certificates,
    /// The control socket.
    ControlSocket,
    /// The tokens of the HTTP API.
    Tokens,
    /// The folder of the timeline.
    Timeline,
}

impl KeptFile {
    /// Returns the name in metrics and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            KeptFile::State => "state",
            KeptFile::Recording => "recording",
            KeptFile::Log => "log",
            KeptFile::Switches => "switches",
            KeptFile::Certificates => "certificates",
            KeptFile::ControlSocket => "control-socket",
            KeptFile::Tokens => "tokens",
            KeptFile::Timeline => "timeline",
        }
    }

    /// Returns the noun phrase of this file for messages.
    const fn noun(self) -> &'static str {
        match self {
            KeptFile::State => "the state file",
            KeptFile::Recording => "the recording",
            KeptFile::Log => "the log",
            KeptFile::Switches => "the file of switches",
            KeptFile::Certificates => "the certificates",
            KeptFile::ControlSocket => "the control socket",
            KeptFile::Tokens => "the tokens of the HTTP API",
            KeptFile::Timeline => "the timeline",
        }
    }

    /// Returns the consequence of a failure, for messages.
    const fn consequence(self) -> &'static str {
        match self {
            KeptFile::State => "what changes waits in memory; a restart before it is written loses it",
            KeptFile::Recording => "what comes waits in memory as long as there is room; then the recording ends",
            KeptFile::Log => "its newest lines are in `maple show log`",
            KeptFile::Switches => {
                "new certificates are trusted in memory; a restart before they are written forgets them"
            }
            KeptFile::Certificates => "TLS goes on with the certificates as they were",
            KeptFile::ControlSocket => "other programs don't find the controller",
            KeptFile::Tokens => "the tokens that were read before go on",
            KeptFile::Timeline => {
                "what happens waits in memory as long as there is room, once the folder has been read"
            }
        }
    }
}

/// A change of a file's condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileNews {
    /// The file.
    pub file: KeptFile,
    /// Its path.
    pub path: PathBuf,
    /// The new condition.
    pub condition: Condition,
}

/// The condition of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The file can't be kept, for this reason. Maple tries again and again.
    Fails(String),
    /// The file is given up, for this reason.
    Ended(String),
    /// The file is in order again, after failing for this time. The text says what else happened, if anything.
    Mended(Duration, String),
}

impl fmt::Display for FileNews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (noun, path) = (self.file.noun(), self.path.display());
        match &self.condition {
            Condition::Fails(why) => write!(f, "{noun} {path}: {why}; {}", self.file.consequence()),
            Condition::Ended(why) => write!(f, "{noun} {path} has ended: {why}"),
            Condition::Mended(after, how) => {
                write!(f, "{noun} {path} is in order again, after {:.1} s{how}", after.as_secs_f64())
            }
        }
    }
}

/// The status of a file, for metrics and the control socket.
#[derive(Clone, Debug)]
pub(crate) struct FileStatus {
    pub file: KeptFile,
    pub path: PathBuf,
    /// The reason why it can't be kept, and the time since when.
    pub trouble: Option<(String, SystemTime)>,
}

/// The kept files of a controller. Clones share one list.
#[derive(Clone, Default)]
pub struct KeptFiles(Arc<SharedFiles>);

#[derive(Default)]
struct SharedFiles {
    files: Mutex<BTreeMap<KeptFile, KeptEntry>>,
    teller: OnceLock<Box<dyn Fn(FileNews) + Send + Sync>>,
}

struct KeptEntry {
    path: PathBuf,
    trouble: Option<Trouble>,
}

struct Trouble {
    condition: Condition,
    since: Instant,
    at: SystemTime,
}

impl Trouble {
    fn why(&self) -> &str {
        match &self.condition {
            Condition::Fails(why) | Condition::Ended(why) | Condition::Mended(_, why) => why,
        }
    }
}

impl fmt::Debug for KeptFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all()).finish()
    }
}

impl KeptFiles {
    /// Adds a file. It counts as in order until a failure is reported.
    pub fn keep(&self, file: KeptFile, path: &Path) {
        self.lock().entry(file).or_insert_with(|| KeptEntry { path: path.to_owned(), trouble: None });
    }

    /// Reports that a file can't be kept. The news is published once, until the file is mended.
    pub fn fails(&self, file: KeptFile, path: &Path, why: impl Into<String>) {
        self.trouble(file, path, Condition::Fails(why.into()));
    }

    /// Reports that a file is given up.
    pub fn ended(&self, file: KeptFile, path: &Path, why: impl Into<String>) {
        self.trouble(file, path, Condition::Ended(why.into()));
    }

    fn trouble(&self, file: KeptFile, path: &Path, condition: Condition) {
        let mut files = self.lock();
        let kept = files.entry(file).or_insert_with(|| KeptEntry { path: path.to_owned(), trouble: None });
        let has_ended = matches!(condition, Condition::Ended(_));
        let is_new = match &mut kept.trouble {
            Some(there) => {
                let was_over = matches!(there.condition, Condition::Ended(_));
                there.condition = condition.clone();
                has_ended && !was_over
            }
            none => {
                let (since, at) = (Instant::now(), SystemTime::now());
                *none = Some(Trouble { condition: condition.clone(), since, at });
                true
            }
        };
        let path = kept.path.clone();
        drop(files);
        if is_new {
            self.report(FileNews { file, path, condition });
        }
    }

    /// Reports that a file is in order again; does nothing if it was before. `how`: further news for people, beginning
    /// with `; `, mostly empty.
    pub fn mended(&self, file: KeptFile, how: &str) {
        let mut files = self.lock();
        let Some(kept) = files.get_mut(&file) else { return };
        let Some(trouble) = kept.trouble.take() else { return };
        let condition = Condition::Mended(trouble.since.elapsed(), how.to_owned());
        let news = FileNews { file, path: kept.path.clone(), condition };
        drop(files);
        self.report(news);
    }

    /// Reports whether a file can't be kept.
    pub fn is_failing(&self, file: KeptFile) -> bool {
        self.lock().get(&file).is_some_and(|kept| kept.trouble.is_some())
    }

    /// Makes `teller` the receiver of news of files. It receives at once the failures that are known already.
    pub(crate) fn report_to(&self, teller: impl Fn(FileNews) + Send + Sync + 'static) {
        if self.0.teller.set(Box::new(teller)).is_ok() {
            self.troubles().into_iter().for_each(|(_, news)| self.report(news));
        }
    }

    /// Returns the files that fail, each with the time since when.
    pub(crate) fn troubles(&self) -> Vec<(SystemTime, FileNews)> {
        let failing = |(file, kept): (&KeptFile, &KeptEntry)| {
            let trouble = kept.trouble.as_ref()?;
            let condition = trouble.condition.clone();
            Some((trouble.at, FileNews { file: *file, path: kept.path.clone(), condition }))
        };
        self.lock().iter().filter_map(failing).collect()
    }

    /// Returns the status of all files.
    pub(crate) fn all(&self) -> Vec<FileStatus> {
        let status = |(file, kept): (&KeptFile, &KeptEntry)| {
            let trouble = kept.trouble.as_ref().map(|trouble| (trouble.why().to_owned(), trouble.at));
            FileStatus { file: *file, path: kept.path.clone(), trouble }
        };
        self.lock().iter().map(status).collect()
    }

    fn report(&self, news: FileNews) {
        match self.0.teller.get() {
            Some(teller) => teller(news),
            // `report_to` publishes it when there is a receiver.
            None => tracing::debug!("{news}"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<KeptFile, KeptEntry>> {
        self.0.files.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_reported_once_until_it_is_mended_and_to_those_who_come_late_too() {
        let (files, reported) = (KeptFiles::default(), Arc::<Mutex<Vec<String>>>::default());
        let path = Path::new("/s");
        files.keep(KeptFile::State, path);
        files.mended(KeptFile::State, "");
        files.fails(KeptFile::State, path, "full");
        let to = Arc::clone(&reported);
        files.report_to(move |news| to.lock().push(news.to_string()));
        files.fails(KeptFile::State, path, "still full");
        let status = files.all().remove(0);
        assert_eq!((status.file, status.trouble.map(|(why, _)| why)), (KeptFile::State, Some("still full".into())));
        assert!(files.is_failing(KeptFile::State) && !files.is_failing(KeptFile::Log));
        files.mended(KeptFile::State, "; it was replaced");
        files.mended(KeptFile::State, "");
        files.fails(KeptFile::Recording, Path::new("/r"), "full");
        files.ended(KeptFile::Recording, Path::new("/r"), "no room");
        files.ended(KeptFile::Recording, Path::new("/r"), "no room");
        let reported = reported.lock();
        assert_eq!(
            reported[0],
            "the state file /s: full; what changes waits in memory; a restart before it is written loses it"
        );
        let (before, after) = reported[1].split_once(" s;").expect("a time");
        assert!(before.starts_with("the state file /s is in order again, after 0.") && after == " it was replaced");
        assert_eq!(reported[3], "the recording /r has ended: no room");
        assert_eq!(reported.len(), 4);
    }
}
