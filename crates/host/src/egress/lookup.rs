//! Who looks names up.

use std::io;

use futures::future::BoxFuture;

use super::IpAddr;

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
