//! Tells the kind of an address: public, private, loopback and so on. The tables follow IANA's registries of special
//! addresses (RFC 6890 and its updates), and also have the addresses at which clouds provide credentials.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnet::{Ipv4Net, Ipv6Net};

/// The network or machine behind an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Public,
    Loopback,
    Private,
    /// A network behind a carrier's address translation.
    Shared,
    LinkLocal,
    /// An address at which a cloud provides a machine's credentials.
    Metadata,
    Multicast,
    Documentation,
    Unspecified,
    /// Any other address that no server uses.
    Reserved,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "a public address",
            Self::Loopback => "this machine",
            Self::Private => "an address of a private network",
            Self::Shared => "an address of a carrier's network (100.64.0.0/10)",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "where clouds keep credentials",
            Self::Multicast => "a multicast address",
            Self::Documentation => "an address for documentation only",
            Self::Unspecified => "an unspecified address",
            Self::Reserved => "a reserved address",
        })
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), bits)
}

const fn v6(address: [u16; 8], bits: u8) -> Ipv6Net {
    let [a, b, c, d, e, f, g, h] = address;
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), bits)
}

/// The kinds of IPv4 networks. The first network that contains an address counts; any other address is public.
const V4: &[(Ipv4Net, Kind)] = &[
    // AWS, Azure, Google, DigitalOcean, Oracle; AWS's containers; Alibaba; Oracle's older address.
    (v4(169, 254, 169, 254, 32), Kind::Metadata),
    (v4(169, 254, 170, 2, 32), Kind::Metadata),
    (v4(100, 100, 100, 200, 32), Kind::Metadata),
    (v4(192, 0, 0, 192, 32), Kind::Metadata),
    (v4(0, 0, 0, 0, 8), Kind::Unspecified),
    (v4(127, 0, 0, 0, 8), Kind::Loopback),
    (v4(10, 0, 0, 0, 8), Kind::Private),
    (v4(172, 16, 0, 0, 12), Kind::Private),
    (v4(192, 168, 0, 0, 16), Kind::Private),
    (v4(100, 64, 0, 0, 10), Kind::Shared),
    (v4(169, 254, 0, 0, 16), Kind::LinkLocal),
    (v4(192, 0, 2, 0, 24), Kind::Documentation),
    (v4(198, 51, 100, 0, 24), Kind::Documentation),
    (v4(203, 0, 113, 0, 24), Kind::Documentation),
    // Protocols, relays of 6to4, benchmarks.
    (v4(192, 0, 0, 0, 24), Kind::Reserved),
    (v4(192, 88, 99, 0, 24), Kind::Reserved),
    (v4(198, 18, 0, 0, 15), Kind::Reserved),
    (v4(224, 0, 0, 0, 4), Kind::Multicast),
    (v4(240, 0, 0, 0, 4), Kind::Reserved),
];

/// The kinds of IPv6 networks. The first network that contains an address counts; any other address is reserved.
const V6: &[(Ipv6Net, Kind)] = &[
    // AWS; Google.
    (v6([0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254], 128), Kind::Metadata),
    (v6([0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254], 128), Kind::Metadata),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), Kind::Unspecified),
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), Kind::Loopback),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), Kind::Private),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), Kind::LinkLocal),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), Kind::Multicast),
    (v6([0x2001, 0x0db8, 0, 0, 0, 0, 0, 0], 32), Kind::Documentation),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), Kind::Documentation),
    // Teredo, benchmarks, and identifiers that are not routed.
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), Kind::Reserved),
    // Only this eighth of all addresses is assigned.
    (v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3), Kind::Public),
];

/// RFC 6052: the IPv4 address is in the last four bytes.
const NAT64: Ipv6Net = v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96);
/// RFC 3056: the IPv4 address is in the four bytes after the first two.
const SIX_TO_FOUR: Ipv6Net = v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16);

/// Returns the effective address: the IPv4 address inside a mapped, translated or tunnelled one.
pub(super) fn effective_address(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let [a, b, c, d] = match v6.octets() {
        [.., a, b, c, d] if NAT64.contains(&v6) => [a, b, c, d],
        [_, _, a, b, c, d, ..] if SIX_TO_FOUR.contains(&v6) => [a, b, c, d],
        _ => return address.to_canonical(),
    };
    Ipv4Addr::new(a, b, c, d).into()
}

/// Returns the kind of `address`.
pub(super) fn kind(address: IpAddr) -> Kind {
    match effective_address(address) {
        IpAddr::V4(address) => {
            V4.iter().find(|(net, _)| net.contains(&address)).map_or(Kind::Public, |(_, kind)| *kind)
        }
        IpAddr::V6(address) => {
            V6.iter().find(|(net, _)| net.contains(&address)).map_or(Kind::Reserved, |(_, kind)| *kind)
        }
    }
}
