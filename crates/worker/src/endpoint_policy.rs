//! Which URLs may be talked to (DESIGN rule 11). Asked on every lease, not only on intake.

use std::net::{IpAddr, SocketAddr};

use url::{Host, Url};

/// What is allowed beyond `https` to public names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndpointPolicy {
    /// Hosts (names or addresses, as they stand in the URL) that may be reached by plain `http` and
    /// may be private: the in-house servers an operator knows.
    pub trusted_hosts: Vec<String>,
}

/// A name that leads nowhere we may talk to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ForbiddenName(String);

impl EndpointPolicy {
    /// May this URL be talked to?
    ///
    /// # Errors
    /// The reason why not, one sentence that never repeats a credential.
    pub(crate) fn check(&self, url: &str) -> Result<(), String> {
        let url =
            Url::parse(url).map_err(|error| format!("The registration's URL cannot be read: {error}."))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("The registration's URL holds a user name or a password.".to_owned());
        }
        let Some(host) = url.host() else {
            return Err("The registration's URL names no host.".to_owned());
        };
        if self.trusts(&host.to_string()) {
            return match url.scheme() {
                "http" | "https" => Ok(()),
                other => Err(format!("The registration's URL is {other}, not https.")),
            };
        }
        if url.scheme() != "https" {
            return Err(format!(
                "The registration's URL is {}, not https, and {host} is not a trusted host.",
                url.scheme()
            ));
        }
        match host {
            Host::Domain(name) if name.eq_ignore_ascii_case("localhost") || name.ends_with(".localhost") => {
                Err(format!("{name} is this machine, and not a trusted host."))
            }
            Host::Domain(_) => Ok(()),
            Host::Ipv4(address) => refuse_unless_public(IpAddr::V4(address)),
            Host::Ipv6(address) => refuse_unless_public(IpAddr::V6(address)),
        }
    }

    /// The addresses of `name` that may be connected to. Asked by the resolver, so that what was
    /// checked is what is connected to, whatever the name leads to a moment later.
    pub(crate) fn admit(
        &self,
        name: &str,
        found: impl Iterator<Item = SocketAddr>,
    ) -> Result<Vec<SocketAddr>, ForbiddenName> {
        let mut refused = None;
        let admitted: Vec<SocketAddr> = found
            .filter(|address| {
                if self.trusts(name) {
                    return true;
                }
                let public = refuse_unless_public(address.ip());
                let admitted = public.is_ok();
                refused = public.err().or(refused.take());
                admitted
            })
            .collect();
        match (admitted.is_empty(), refused) {
            (true, Some(reason)) => {
                Err(ForbiddenName(format!("{name} leads to a forbidden address: {reason}")))
            }
            _ => Ok(admitted),
        }
    }

    fn trusts(&self, host: &str) -> bool {
        self.trusted_hosts.iter().any(|trusted| trusted.eq_ignore_ascii_case(host))
    }
}

fn refuse_unless_public(address: IpAddr) -> Result<(), String> {
    let public = match address.to_canonical() {
        IpAddr::V4(v4) => {
            !(v4.is_private()
                || v4.is_loopback()
                || v4.is_link_local()
                || v4.is_multicast()
                || v4.is_broadcast()
                || v4.is_documentation()
                || v4.octets()[0] == 0
                || (v4.octets()[0] == 100 && (64..128).contains(&v4.octets()[1])))
        }
        IpAddr::V6(v6) => {
            !(v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_multicast()
                || v6.is_unique_local()
                || v6.is_unicast_link_local())
        }
    };
    if public { Ok(()) } else { Err(format!("{address} is not a public address, and not a trusted host.")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(trusted: &[&str], url: &str) -> Result<(), String> {
        EndpointPolicy { trusted_hosts: trusted.iter().map(|&host| host.to_owned()).collect() }.check(url)
    }

    #[test]
    fn https_to_a_public_name_is_allowed() {
        assert_eq!(check(&[], "https://mcp.example.com/mcp"), Ok(()));
    }

    #[test]
    fn plain_http_and_private_addresses_need_a_trusted_host() {
        for url in [
            "http://mcp.example.com/mcp",
            "https://127.0.0.1/mcp",
            "https://2130706433/mcp",
            "https://0x7f.1/mcp",
            "https://10.1.2.3/mcp",
            "https://169.254.169.254/latest",
            "https://100.64.0.1/",
            "https://[::1]/mcp",
            "https://[::ffff:127.0.0.1]/mcp",
            "https://[fd00::1]/mcp",
            "https://localhost/mcp",
            "ftp://mcp.example.com/mcp",
        ] {
            assert!(check(&[], url).is_err(), "{url} was allowed");
        }
        assert_eq!(check(&["127.0.0.1"], "http://127.0.0.1:8080/mcp"), Ok(()));
        assert!(check(&["127.0.0.1"], "http://127.0.0.2:8080/mcp").is_err());
        assert!(check(&["127.0.0.1"], "file://127.0.0.1/etc/passwd").is_err());
    }

    #[test]
    fn a_credential_in_a_url_is_refused_and_not_repeated() {
        let reason = check(&["h"], "https://user:hunter2@h/mcp").unwrap_err();
        assert!(!reason.contains("hunter2"), "{reason}");
    }
}
