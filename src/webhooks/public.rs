//! Tells public addresses from private ones: the author of the list of receivers must not reach into the network that
//! the service runs in.
//!
//! Addresses are checked where the name is resolved for the connection itself, so that a name can't resolve to another
//! address between the check and its use.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// Resolves names to public addresses only.
#[derive(Debug, Default)]
pub(crate) struct PublicOnly(DefaultResolver);

/// The error for a name without a public address.
#[derive(Debug, thiserror::Error)]
#[error("the address is private, which --webhook-allow-private would allow")]
pub(crate) struct Private;

impl Resolver for PublicOnly {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut public = self.empty();
        for address in self.0.resolve(uri, config, timeout)?.iter().filter(|address| is_public(address.ip()))
        {
            public.push(*address);
        }
        if public.is_empty() { Err(ureq::Error::Other(Box::new(Private))) } else { Ok(public) }
    }
}

/// Returns whether an address is on the public internet (IANA's registries of special-purpose addresses).
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_shared = a == 100 && (64..128).contains(&b);
    let is_of_protocols = (a, b, c) == (192, 0, 0);
    let is_for_benchmarks = a == 198 && (18..20).contains(&b);
    let is_local = address.is_private() || address.is_loopback() || address.is_link_local();
    let is_none = a == 0 || a >= 240 || address.is_multicast() || address.is_documentation();
    !(is_shared || is_of_protocols || is_for_benchmarks || is_local || is_none)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    // Addresses that embed an IPv4 address: NAT64 and 6to4.
    let carried = match segments {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => Some((high, low)),
        _ => None,
    };
    if let Some((high, low)) = carried {
        return is_public_v4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)));
    }
    let is_global_unicast = segments[0] & 0xe000 == 0x2000;
    let is_for_documentation =
        (segments[0], segments[1]) == (0x2001, 0xdb8) || segments[0] == 0x3fff && segments[1] < 0x1000;
    let is_of_protocols = segments[0] == 0x2001 && segments[1] < 0x200;
    is_global_unicast && !is_for_documentation && !is_of_protocols
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_internet_are_public() {
        for private in [
            "127.0.0.1",
            "127.9.9.9",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "192.0.2.1",
            "198.18.0.1",
            "::1",
            "::",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "3fff::1",
            "::127.0.0.1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
        for public in
            ["1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]
        {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }
}
