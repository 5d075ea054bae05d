//! Names are looked up where connections are made, and what they must not lead to is left out there.

use std::{fmt, io, net::SocketAddr};

use futures::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::{Guard, IpAddr, Proxy};

/// Who looks names up.
pub trait Lookup: Send + Sync {
    /// The addresses of `name`, best first.
    ///
    /// # Errors
    /// When there is nobody to ask, or nobody of that name.
    fn addresses<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// As every program of this machine looks them up: its `hosts` file, its name servers.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn addresses<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect()) })
    }
}

/// Gives a client the addresses that its guard allows: there are no others that it could connect to.
pub(super) struct Names(pub(super) Guard);

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Names").field(&self.0).finish()
    }
}

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.0.clone();
        Box::pin(async move {
            let name = name.as_str();
            let found = guard.lookup.addresses(name).await?;
            // With a proxy of the operator's, its own is the only name that is looked up here.
            let is_proxy = matches!(&guard.rules.proxy, Proxy::At(proxy) if proxy.host_str() == Some(name));
            let mut refused = None;
            let mut allowed = Vec::with_capacity(found.len());
            for address in found {
                match guard.judge(name, address) {
                    Err(why) if !is_proxy => refused = Some(why),
                    _ => allowed.push(SocketAddr::new(address, 0)),
                }
            }
            match refused.filter(|_| allowed.is_empty()) {
                Some(why) => Err(guard.refused(name.to_owned(), why).into()),
                None => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}
