//! The options of a controller that is one of several.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use maple_controller::cluster::ClusterOptions;
use maple_etcd::{Address, Config, Credentials, TlsFiles};

use crate::usage_error::OrUsageError as _;
use crate::values::member_name;

/// The options about the cluster.
#[derive(Clone, Debug, Default, Args)]
pub struct ClusterArgs {
    /// The etcd of a cluster of controllers, and the cluster's name: etcd://HOST:PORT,HOST:PORT,…/NAME. This controller is
    /// then one of several of the same switches
    #[arg(long, value_name = "ADDRESS", requires = "name")]
    pub cluster: Option<Address>,
    /// The name of this controller in the cluster, which no other one has
    #[arg(long, value_name = "NAME", requires = "cluster", value_parser = member_name)]
    pub name: Option<String>,
    /// The authorities that sign the certificates of etcd's servers; without it, connections to etcd are in the clear (PEM)
    #[arg(long, value_name = "FILE", requires = "cluster")]
    pub cluster_ca: Option<PathBuf>,
    /// The certificate for etcd, if it asks for one (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["cluster_key", "cluster_ca"])]
    pub cluster_cert: Option<PathBuf>,
    /// The private key of --cluster-cert (PEM)
    #[arg(long, value_name = "FILE", requires = "cluster_cert")]
    pub cluster_key: Option<PathBuf>,
    /// The user of etcd, if it asks for one
    #[arg(long, value_name = "USER", requires_all = ["cluster_password_file", "cluster_ca"])]
    pub cluster_user: Option<String>,
    /// File with the password of --cluster-user
    #[arg(long, value_name = "FILE", requires = "cluster_user")]
    pub cluster_password_file: Option<PathBuf>,
}

impl ClusterArgs {
    /// Returns what it takes to join the cluster; `None` if this is to be the only controller. Reads the files.
    ///
    /// # Errors
    /// If a file is missing or wrong, by its name.
    pub fn options(&self) -> anyhow::Result<Option<ClusterOptions>> {
        let (Some(address), Some(name)) = (&self.cluster, &self.name) else { return Ok(None) };
        let identity = self.cluster_cert.clone().zip(self.cluster_key.clone());
        let tls = self.cluster_ca.clone().map(|authorities| TlsFiles { authorities, identity });
        tls.as_ref().map_or(Ok(()), TlsFiles::check).or_usage_error()?;
        let credentials = match (&self.cluster_user, &self.cluster_password_file) {
            (Some(user), Some(file)) => {
                Some(Credentials { user: user.clone(), password: password(file).or_usage_error()? })
            }
            _ => None,
        };
        let etcd = Config { tls, credentials, ..Config::new(address.endpoints.clone()) };
        Ok(Some(ClusterOptions::new(etcd, &address.name, name)))
    }
}

/// Reads the first line of a file.
fn password(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file).with_context(|| format!("can't read {}", file.display()))?;
    match text.lines().next() {
        Some(password) if !password.is_empty() => Ok(password.to_owned()),
        _ => bail!("{}: the first line is to be the password, and it is empty", file.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(folder: &Path) -> ClusterArgs {
        ClusterArgs {
            cluster: Some("etcd://a:1,b/campus".parse().expect("an address")),
            name: Some("n1".into()),
            cluster_user: Some("maple".into()),
            cluster_password_file: Some(folder.join("password")),
            ..ClusterArgs::default()
        }
    }

    #[test]
    fn the_options_say_how_etcd_is_reached() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("password"), "secret\nmore\n").expect("a file");
        let options = args(folder.path()).options().expect("all is right").expect("there is a cluster");
        assert_eq!((&*options.cluster, &*options.name), ("campus", "n1"));
        let endpoints: Vec<String> = options.etcd.endpoints.iter().map(ToString::to_string).collect();
        assert_eq!(endpoints, ["a:1", "b:2379"]);
        assert_eq!(options.etcd.credentials.map(|with| with.password).as_deref(), Some("secret"));
        assert!(ClusterArgs::default().options().expect("nothing is wrong").is_none());
    }

    #[test]
    fn a_file_that_is_wrong_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = |args: &ClusterArgs| format!("{:#}", args.options().expect_err("a file is wrong"));
        let password = folder.path().join("password");
        assert!(error(&args(folder.path())).starts_with(&format!("can't read {}: ", password.display())));
        std::fs::write(&password, "\nsecret\n").expect("a file");
        assert!(error(&args(folder.path())).starts_with(&format!("{}: the first line", password.display())));
        let authority = folder.path().join("authority.pem");
        let with_tls = ClusterArgs { cluster_ca: Some(authority.clone()), ..args(folder.path()) };
        assert!(error(&with_tls).contains(&authority.display().to_string()));
    }
}
