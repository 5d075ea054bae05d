//! Builds HTTP clients that connect only where the [egress](crate::egress) rules allow it. They resolve a name when
//! they make a connection, and leave out forbidden addresses.

use std::{fmt, net::SocketAddr, sync::Arc};

use reqwest::{
    Client, ClientBuilder,
    dns::{Addrs, Name, Resolve, Resolving},
};

use super::tls;
use crate::egress::{Guard, Proxy};

impl Guard {
    /// Builds a client that obeys the rules of this guard and uses the guard's proxy.
    ///
    /// # Errors
    /// When the proxy or the client cannot be used.
    pub fn client(&self, builder: ClientBuilder) -> reqwest::Result<Client> {
        let builder = match self.proxy() {
            Proxy::At(url) => builder.no_proxy().proxy(reqwest::Proxy::all(url.clone())?),
            Proxy::Environment => builder,
            Proxy::Off => builder.no_proxy(),
        };
        let builder = match tls::config() {
            Ok(config) => builder.tls_backend_preconfigured(config),
            // The client then fails to read the certificates as well, and its error says why.
            Err(_) => builder,
        };
        builder.dns_resolver(Arc::new(GuardedResolver(self.clone()))).build()
    }
}

/// Resolves names to the addresses that the guard allows, so that a client cannot connect to any other.
pub(crate) struct GuardedResolver(pub(crate) Guard);

impl fmt::Debug for GuardedResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GuardedResolver").field(&self.0).finish()
    }
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.0.clone();
        Box::pin(async move {
            let addresses = guard.lookup().addresses(name.as_str()).await?;
            let allowed_addresses = guard.allowed_addresses(name.as_str(), addresses)?;
            // The client replaces port 0 by the port of the URL.
            Ok(Box::new(allowed_addresses.into_iter().map(|address| SocketAddr::new(address, 0))) as Addrs)
        })
    }
}
