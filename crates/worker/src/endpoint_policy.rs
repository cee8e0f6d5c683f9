//! Which URLs may be talked to (DESIGN rule 11). Asked on every lease, not only on intake.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

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
            Host::Domain(name) if is_this_machine(name) => {
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

fn is_this_machine(name: &str) -> bool {
    // A name may end with the root's dot.
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

fn refuse_unless_public(address: IpAddr) -> Result<(), String> {
    let public = match address.to_canonical() {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    };
    if public { Ok(()) } else { Err(format!("{address} is not a public address, and not a trusted host.")) }
}

/// What the IANA registry of special-purpose addresses (RFC 6890) does not call globally reachable.
fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || a == 0
        // Shared by carriers, protocol assignments, benchmarks, and the reserved rest.
        || (a == 100 && (64..128).contains(&b))
        || (a, b, c) == (192, 0, 0)
        || (a == 198 && (18..20).contains(&b))
        || a >= 240)
}

/// Unicast that is routed (2000::/3), less what hides an IPv4 address or is for examples. All else,
/// loopback, link-local, unique-local, multicast and NAT64 (64:ff9b::/96) among it, is not.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    first & 0xe000 == 0x2000
        // Teredo and other protocol assignments (2001::/23), documentation, 6to4, documentation.
        && !(first == 0x2001 && second < 0x200)
        && !(first == 0x2001 && second == 0xdb8)
        && first != 0x2002
        && !(first == 0x3fff && second < 0x1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(trusted: &[&str], url: &str) -> Result<(), String> {
        EndpointPolicy { trusted_hosts: trusted.iter().map(|&host| host.to_owned()).collect() }.check(url)
    }

    #[test]
    fn https_to_a_public_name_is_allowed() {
        for url in [
            "https://mcp.example.com/mcp",
            "https://notlocalhost/mcp",
            "https://93.184.215.14/mcp",
            "https://192.0.1.1/mcp",
            "https://[2606:2800:21f:cb07::1]/mcp",
            "https://[::ffff:93.184.215.14]/mcp",
        ] {
            assert_eq!(check(&[], url), Ok(()), "{url}");
        }
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
            "https://[fe80::1]/mcp",
            "https://[ff02::1]/mcp",
            "https://[64:ff9b::7f00:1]/mcp",
            "https://[2002:7f00:1::]/mcp",
            "https://[2001::1]/mcp",
            "https://[2001:db8::1]/mcp",
            "https://0.0.0.0/mcp",
            "https://0300.0250.1/mcp",
            "https://127.1/mcp",
            "https://192.0.0.1/mcp",
            "https://198.18.0.1/mcp",
            "https://224.0.0.1/mcp",
            "https://240.0.0.1/mcp",
            "https://255.255.255.255/mcp",
            "https://localhost/mcp",
            "https://LOCALHOST./mcp",
            "https://a.localhost/mcp",
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

    #[test]
    fn of_the_addresses_of_a_name_only_the_public_ones_are_connected_to() {
        let public: SocketAddr = "93.184.215.14:0".parse().unwrap();
        let private: SocketAddr = "10.0.0.1:0".parse().unwrap();
        let admit = |trusted: &[&str], found: &[SocketAddr]| {
            let trusted_hosts = trusted.iter().map(|&host| host.to_owned()).collect();
            EndpointPolicy { trusted_hosts }.admit("h.example", found.iter().copied())
        };
        assert_eq!(admit(&[], &[private, public]), Ok(vec![public]));
        assert_eq!(admit(&["H.example"], &[private]), Ok(vec![private]));
        assert_eq!(admit(&[], &[]), Ok(vec![]), "a name without addresses is no forbidden one");
        let refused = admit(&["10.0.0.1"], &[private]).unwrap_err().to_string();
        assert!(refused.contains("h.example leads to a forbidden address: 10.0.0.1"), "{refused}");
    }
}
