//! The options of a controller that is one of several.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use maple_controller::cluster::{ClusterOptions, PeerOptions, PeerTlsFiles};
use maple_etcd::{Address, Config, Credentials, Endpoint, TlsFiles};

use crate::usage_error::OrUsageError as _;
use crate::values::{member_name, peer_address};

/// The options about the cluster.
#[derive(Clone, Debug, Default, Args)]
pub struct ClusterArgs {
    /// The etcd of a cluster of controllers, and the cluster's name: etcd://HOST:PORT,HOST:PORT,…/NAME. This controller
    /// is then one of several of the same switches
    #[arg(long, value_name = "ADDRESS", requires = "name")]
    pub cluster: Option<Address>,
    /// The name of this controller in the cluster, which no other one has
    #[arg(long, value_name = "NAME", requires = "cluster", value_parser = member_name)]
    pub name: Option<String>,
    /// The authorities that sign the certificates of etcd's servers; without it, connections to etcd are in the clear
    /// (PEM)
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
    /// Listen here for the other controllers, which get what this one has decided while it is master, so that a
    /// take-over changes no rule. They reach it at this host. Needs certificates, unless the address is of this machine
    /// alone
    #[arg(long, value_name = "HOST:PORT", requires = "cluster", value_parser = peer_address)]
    pub cluster_listen: Option<Endpoint>,
    /// The authorities that sign the certificates of the controllers, for each other (PEM) [default: --cluster-ca]
    #[arg(long, value_name = "FILE", requires_all = ["cluster_listen_cert", "cluster_listen"])]
    pub cluster_listen_ca: Option<PathBuf>,
    /// The certificate of this controller for the others (PEM) [default: --cluster-cert]
    #[arg(long, value_name = "FILE", requires_all = ["cluster_listen_key", "cluster_listen_ca"])]
    pub cluster_listen_cert: Option<PathBuf>,
    /// The private key of --cluster-listen-cert (PEM) [default: --cluster-key]
    #[arg(long, value_name = "FILE", requires = "cluster_listen_cert")]
    pub cluster_listen_key: Option<PathBuf>,
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
        let peers = self.peers();
        peers.as_ref().map_or(Ok(()), PeerOptions::check).or_usage_error()?;
        Ok(Some(ClusterOptions { peers, ..ClusterOptions::new(etcd, &address.name, name) }))
    }

    /// Returns how the other controllers reach this one, if they do: with its own certificate for them, or that for
    /// etcd.
    fn peers(&self) -> Option<PeerOptions> {
        let of_listen = (&self.cluster_listen_ca, &self.cluster_listen_cert, &self.cluster_listen_key);
        let of_etcd = (&self.cluster_ca, &self.cluster_cert, &self.cluster_key);
        let files = [of_listen, of_etcd].into_iter().find_map(|files| match files {
            (Some(authorities), Some(certificate), Some(key)) => Some(PeerTlsFiles {
                authorities: authorities.clone(),
                certificate: certificate.clone(),
                key: key.clone(),
            }),
            _ => None,
        });
        Some(PeerOptions { address: self.cluster_listen.clone()?, tls: files })
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
    fn controllers_reach_each_other_with_certificates_of_their_own_or_with_those_for_etcd() {
        let listen = Some(Endpoint { host: "a".into(), port: 6654 });
        let file = |name: &str| Some(PathBuf::from(name));
        let bare = ClusterArgs { cluster_listen: listen.clone(), ..ClusterArgs::default() };
        assert_eq!(bare.peers().map(|peers| (Some(peers.address), peers.tls)), Some((listen, None)));
        let of_etcd =
            ClusterArgs { cluster_ca: file("1"), cluster_cert: file("2"), cluster_key: file("3"), ..bare.clone() };
        let certificate = |args: &ClusterArgs| args.peers().and_then(|peers| peers.tls).map(|files| files.certificate);
        assert_eq!(certificate(&of_etcd), file("2"));
        let own = ClusterArgs {
            cluster_listen_ca: file("4"),
            cluster_listen_cert: file("5"),
            cluster_listen_key: file("6"),
            ..of_etcd
        };
        assert_eq!(certificate(&own), file("5"));
        assert!(ClusterArgs { cluster_listen: None, ..own }.peers().is_none());
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("password"), "secret\n").expect("a file");
        let everywhere = Some(Endpoint { host: "192.0.2.1".into(), port: 6654 });
        let error = ClusterArgs { cluster_listen: everywhere, ..args(folder.path()) }.options();
        let error = format!("{:#}", error.expect_err("everybody could listen"));
        assert!(error.starts_with("192.0.2.1:6654 is not an address of this machine alone"), "{error}");
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
