//! Resolves the names of hosts to addresses.

use std::io;

use futures::future::BoxFuture;

use super::IpAddr;

/// Resolves names.
pub trait Lookup: Send + Sync {
    /// Returns the addresses of `name`, best first.
    ///
    /// # Errors
    /// If there is no name server to ask, or no such name.
    fn addresses<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// Resolves names like every program of this machine: with its `hosts` file and its name servers.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn addresses<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        // The port 0 stands for none: only the addresses are used.
        Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect()) })
    }
}
