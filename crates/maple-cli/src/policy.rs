//! Policies and handlers by name: built-in ones, and those in files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use maple_acl::{Finding, Forward, List};
use maple_controller::control::plan::Fingerprint;
use maple_controller::log::Level;
use maple_controller::policy_record::PolicyIdentity;
use maple_controller::record::PolicySource;
use maple_controller::{ControllerOptions, Handle};
use maple_core::Composition;
use maple_core::state::{Store, Write};

use crate::builtin;
use crate::logging::print_plain;
use crate::usage_error::{OrUsageError as _, usage_error};

/// A loaded policy or handler, in the options of a controller with its state.
pub enum Loaded {
    /// A policy.
    Policy(ControllerOptions),
    /// Handlers.
    Handlers(ControllerOptions),
}

/// A place in a policy's source that seems to read something that Maple cannot track, or that only waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspicion {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// A description of what the policy reads, and of what to use instead.
    pub text: String,
    /// Whether it reads something that Maple cannot track.
    pub is_untracked: bool,
}

/// The suffixes of files that can be part of a policy.
const SUFFIXES: [&str; 3] = ["py", "yaml", "yml"];

/// Loads policies and handlers in another language than Rust.
pub trait PolicyLoader: Sync {
    /// Loads the policy or handler `name`, or the only one, from a file. A run of it may take at most `time_limit`.
    ///
    /// # Errors
    /// If the file has no such policy or handler, or fails to load.
    fn load(&self, file: &Path, name: Option<&str>, time_limit: Duration) -> anyhow::Result<Loaded>;

    /// Loads a policy that will replace the running one, from the same file or another. Its neighbours are loaded again
    /// too. Until [`PolicyLoader::adopted`] or [`PolicyLoader::refused`], everything else in the policy's file does not
    /// run.
    ///
    /// # Errors
    /// If the file has no such policy, fails to load, or has something besides the policy that only a restart can
    /// change. Then nothing has changed.
    fn load_again(&self, file: &Path, name: Option<&str>, time_limit: Duration) -> anyhow::Result<Loaded> {
        let _ = (file, name, time_limit);
        anyhow::bail!("this `maple` can't load policies again")
    }

    /// Loads a policy of a recording, or one to compare with it. Several can be loaded. Nothing of their files runs
    /// besides the policies: no thread, no timer, no listener.
    ///
    /// # Errors
    /// If the file has no such policy, or fails to load.
    fn load_for_replay(&self, file: &Path, name: Option<&str>, time_limit: Duration) -> anyhow::Result<Loaded> {
        self.load(file, name, time_limit)
    }

    /// Directs writes that files make while this thread loads them to this store; `None`: to the store of the
    /// controller.
    fn write_to(&self, store: Option<Arc<Store>>) {
        let _ = store;
    }

    /// Confirms that the policy that was loaded again runs.
    fn adopted(&self) {}

    /// Reports that the policy before the last adopted one runs again.
    fn rolled_back(&self) {}

    /// Reports that the policy that was loaded again does not run, and is discarded.
    fn refused(&self) {}

    /// Searches the source of a policy for reads of something that Maple cannot track.
    ///
    /// # Errors
    /// If the source cannot be read.
    fn inspect(&self, file: &Path, name: Option<&str>) -> anyhow::Result<Vec<Suspicion>> {
        let _ = (file, name);
        Ok(Vec::new())
    }

    /// Runs `maple acl import` with these arguments. Returns the exit status.
    ///
    /// # Errors
    /// If this `maple` has no importers.
    fn import_lists(&self, arguments: &[OsString]) -> anyhow::Result<u8> {
        let _ = arguments;
        anyhow::bail!("this `maple` has no importers")
    }

    /// Runs `maple test` with these arguments. Returns the exit status.
    ///
    /// # Errors
    /// If policies have no tests in this language, or if their runner is missing.
    fn run_tests(&self, arguments: &[OsString]) -> anyhow::Result<u8> {
        let _ = arguments;
        anyhow::bail!("this `maple` has no tests of policies")
    }

    /// Redirects what policies print to standard error, so that standard output has only the findings.
    ///
    /// # Errors
    /// If the language's output can't be redirected.
    fn print_aside(&self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Announces that this thread will load and run a policy. Until [`PolicyLoader::started`] or
    /// [`PolicyLoader::ended`], threads that the policy's file starts must not use the store, because the state file is
    /// loaded meanwhile.
    fn starting(&self);

    /// Reports that the controller runs. Commits to the store must be passed to it.
    fn started(&self, controller: Handle);

    /// Reports that the run that [`PolicyLoader::starting`] announced has ended or failed.
    fn ended(&self);
}

/// A policy's name on the command line.
pub enum PolicyName {
    /// A built-in policy.
    Builtin(String),
    /// A policy in a file: the one called `name`, or the only one.
    File { file: PathBuf, name: Option<String> },
}

impl PolicyName {
    /// Returns the file and the name in it, if the policy is a program and not an access list.
    pub fn program(&self) -> Option<(&Path, Option<&str>)> {
        match self {
            PolicyName::File { file, name } if !is_access_list(file) => Some((file, name.as_deref())),
            _ => None,
        }
    }

    /// Parses a policy's name.
    pub fn parse(text: &str) -> PolicyName {
        if let Some(name) = text.strip_prefix("builtin:") {
            return PolicyName::Builtin(name.into());
        }
        match text.rsplit_once(".py:") {
            Some((stem, name)) => {
                PolicyName::File { file: PathBuf::from(format!("{stem}.py")), name: Some(name.into()) }
            }
            None => PolicyName::File { file: PathBuf::from(text), name: None },
        }
    }
}

fn is_access_list(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

/// Loads an access list that is the whole policy.
fn load_access_list(file: &Path) -> anyhow::Result<Loaded> {
    let list = List::load(file).and_then(List::verified).or_usage_error()?;
    list.open_replies().iter().for_each(|found| print_plain(Level::Warning, &text_of(file, found)));
    let forward = list.forward().unwrap_or_default();
    let name = match forward {
        Forward::ShortestPath => "shortest-path",
        Forward::Flood => "flood",
    };
    let allowed = Composition::single(builtin::named(name)?);
    // A packet that the list passes goes to the next policy; here there is none.
    let listed = maple_acl::composition(&[list], allowed);
    let policy = match forward {
        Forward::ShortestPath => listed,
        // This test comes first, so that a switch has two rules for it, not two for each entry.
        Forward::Flood => Composition::single(builtin::ask_for_reserved()).then(listed),
    };
    let mut options = ControllerOptions::new(Arc::new(policy));
    // Floods need no locations of hosts, so no packet has to come to the controller for them.
    options.engine.track_hosts = forward != Forward::Flood;
    Ok(Loaded::Policy(options))
}

/// Writes a finding with its place.
fn text_of(file: &Path, found: &Finding) -> String {
    format!("{}:{}: {}", file.display(), found.place.line, found.text)
}

/// Loads a policy that will replace the running one.
///
/// # Errors
/// If the file can't be read or fails to load, or if it has something that only a restart can change.
pub fn load_again(policy: &str, limit: Duration, loader: Option<&dyn PolicyLoader>) -> anyhow::Result<Loaded> {
    match (PolicyName::parse(policy).program(), loader) {
        (Some((file, name)), Some(loader)) => {
            std::fs::metadata(file).with_context(|| format!("can't read {}", file.display()))?;
            loader.load_again(file, name, limit)
        }
        _ => load(policy, limit, loader),
    }
}

/// Loads a policy that will replace the running one. Writes that its file makes while it is loaded go to `store`.
///
/// # Errors
/// If the policy can't be loaded.
pub fn load_aside(
    store: &Arc<Store>,
    policy: &str,
    limit: Duration,
    loader: Option<&dyn PolicyLoader>,
) -> anyhow::Result<Loaded> {
    if matches!(PolicyName::parse(policy), PolicyName::Builtin(_)) {
        store.update(|_| vec![Write::CostName(builtin::COSTS.into())]);
    }
    let write_to = |store: Option<&Arc<Store>>| {
        loader.into_iter().for_each(|loader| loader.write_to(store.map(Arc::clone)));
    };
    store.begin_versions();
    write_to(Some(store));
    let loaded = load_again(policy, limit, loader);
    write_to(None);
    loaded
}

/// Loads a policy of a recording, or one to compare with it. Writes that its file makes while it is loaded go to
/// `store`.
///
/// # Errors
/// If the policy can't be loaded.
pub fn load_for_replay(
    store: &Arc<Store>,
    policy: &str,
    limit: Duration,
    loader: Option<&dyn PolicyLoader>,
) -> anyhow::Result<Loaded> {
    let parsed = PolicyName::parse(policy);
    let (Some((file, name)), Some(loader)) = (parsed.program(), loader) else { return load(policy, limit, loader) };
    std::fs::metadata(file).with_context(|| format!("can't read {}", file.display())).or_usage_error()?;
    loader.write_to(Some(Arc::clone(store)));
    let loaded = loader.load_for_replay(file, name, limit);
    loader.write_to(None);
    loaded
}

/// Returns the most important findings of `maple check` about a policy.
pub fn suspicions(policy: &str, loader: Option<&dyn PolicyLoader>) -> Vec<String> {
    let parsed = PolicyName::parse(policy);
    if let PolicyName::File { file, name: None } = &parsed
        && is_access_list(file)
    {
        let found = List::load(file).map(|list| list.open_replies()).unwrap_or_default();
        return found.iter().map(|found| text_of(file, found)).collect();
    }
    let (Some((file, inner)), Some(loader)) = (parsed.program(), loader) else { return Vec::new() };
    // Faults of the file are reported when it is loaded.
    let found = loader.inspect(file, inner).unwrap_or_default();
    found.iter().map(|found| format!("{}:{}: {}", found.file, found.line, found.text)).collect()
}

/// Returns the time of the latest change of the policy's files: its own, or one in the same folder.
pub fn newest(policy: &str) -> Option<SystemTime> {
    let files = files(policy)?.into_iter();
    files.filter_map(|path| std::fs::metadata(path).and_then(|about| about.modified()).ok()).max()
}

/// Returns the policy's name for a program that runs in another folder.
///
/// # Errors
/// If the working folder is unknown.
pub fn absolute(policy: &str) -> anyhow::Result<String> {
    Ok(match PolicyName::parse(policy) {
        PolicyName::Builtin(_) => policy.to_owned(),
        PolicyName::File { file, name } => {
            let file = std::path::absolute(file)?.display().to_string();
            name.map_or(file.clone(), |name| format!("{file}:{name}"))
        }
    })
}

/// Returns the identity of a policy: its name for any working folder, and the present content of its files.
///
/// # Errors
/// If a file of the policy can't be read.
pub fn identity(policy: &str) -> anyhow::Result<PolicyIdentity> {
    Ok(PolicyIdentity { name: absolute(policy)?, hash: sources(policy)? })
}

/// Returns a fingerprint of the policy's files.
///
/// # Errors
/// If a file of the policy can't be read.
pub fn sources(policy: &str) -> anyhow::Result<Fingerprint> {
    let policy = absolute(policy)?;
    let mut files = files(&policy).unwrap_or_default();
    files.sort();
    let mut parts = vec![policy.as_bytes().to_vec()];
    for file in files {
        let content = std::fs::read(&file).with_context(|| format!("can't read {}", file.display()))?;
        parts.extend([file.into_os_string().into_encoded_bytes(), content]);
    }
    Ok(Fingerprint::from_parts(parts))
}

/// Returns the source of a policy with all its files, for a recording.
///
/// # Errors
/// If a file of the policy can't be read.
pub fn source(policy: &str) -> anyhow::Result<PolicySource> {
    let PolicyName::File { file, name } = PolicyName::parse(policy) else {
        return Ok(PolicySource::Builtin(policy.into()));
    };
    let mut all = files(policy).unwrap_or_default();
    all.sort();
    let read = |path: PathBuf| {
        let own = path.file_name().map(PathBuf::from).unwrap_or_default();
        let content = std::fs::read(&path).with_context(|| format!("can't read {}", path.display()))?;
        Ok((own, content))
    };
    let files = all.into_iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
    let own = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = name.map_or_else(|| own.clone(), |name| format!("{own}:{name}"));
    Ok(PolicySource::Files { name, files })
}

/// Returns the files that may be part of a policy: its own, and for a program those in the same folder. `None` for a
/// policy without a file.
fn files(policy: &str) -> Option<Vec<PathBuf>> {
    let PolicyName::File { file, .. } = PolicyName::parse(policy) else { return None };
    if is_access_list(&file) {
        return Some(vec![file]);
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_part = |path: &PathBuf| path.extension().is_some_and(|suffix| SUFFIXES.iter().any(|known| suffix == *known));
    Some(std::fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path())).filter(is_part).collect())
}

/// Loads the policy or handler with this name.
///
/// # Errors
/// If there is no such policy or handler, or if it can't be loaded.
pub fn load(policy: &str, limit: Duration, loader: Option<&dyn PolicyLoader>) -> anyhow::Result<Loaded> {
    let (file, name) = match PolicyName::parse(policy) {
        PolicyName::Builtin(name) => {
            let options = ControllerOptions::new(builtin::named(&name).or_usage_error()?);
            // Links without a cost of this name have cost 1.
            options.store.update(|_| vec![Write::CostName(builtin::COSTS.into())]);
            return Ok(Loaded::Policy(options));
        }
        PolicyName::File { file, name } => (file, name),
    };
    if is_access_list(&file) {
        return load_access_list(&file);
    }
    if file.extension().is_none_or(|extension| extension != "py") {
        return Err(usage_error(anyhow::anyhow!(
            "{policy:?} is not a policy: it is FILE.py, FILE.py:NAME, an access list FILE.yaml, or builtin:NAME"
        )));
    }
    std::fs::metadata(&file).with_context(|| format!("can't read {}", file.display())).or_usage_error()?;
    let loader = loader.context(
        "this `maple` was built without Python: run `pip install .` in Maple's source and use the `maple` that it \
         installs, or write the policy in Rust with maple_cli::run",
    )?;
    loader.load(&file, name.as_deref(), limit)
}
