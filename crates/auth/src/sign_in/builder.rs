//! Builds a [`SignIn`]: its token store, its browser, and the functions that the program provides.

use std::{fmt, sync::Arc};

use tokio_util::task::TaskTracker;
use toolrack_host::{Egress, Resolver, ServerName, Verbatim, Witness};

use super::{Inner, SecretListener, SignIn, SignInHint};
use crate::{browser::Browser, guarded_http::GuardedHttpMaker, store::TokenStore};

/// Builds a [`SignIn`].
#[must_use]
pub struct SignInBuilder {
    store: Arc<dyn TokenStore>,
    resolver: Arc<dyn Resolver>,
    browser: Option<Arc<dyn Browser>>,
    tenant: String,
    user: String,
    sign_in_hint: Box<SignInHint>,
    secret_listener: Box<SecretListener>,
    witness: Option<Arc<dyn Witness>>,
    egress: Egress,
}

impl fmt::Debug for SignInBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignInBuilder").finish_non_exhaustive()
    }
}

impl SignInBuilder {
    /// Sets the resolver that fills in the placeholders in the `oauth` of a server's entry (its configuration).
    /// Default: placeholders stay as they are.
    pub fn resolver(mut self, resolver: Arc<dyn Resolver>) -> Self {
        self.resolver = resolver;
        self
    }

    /// Sets the owner of the tokens: a tenant, and a user within it. Both are empty by default, for a program with one
    /// user.
    pub fn owner(mut self, tenant: impl Into<String>, user: impl Into<String>) -> Self {
        (self.tenant, self.user) = (tenant.into(), user.into());
        self
    }

    /// Sets the browser in which the user signs in when a server requires it. Default: none; such a server waits until
    /// the user has [signed in](SignIn::login).
    ///
    /// Set the [start-up time](toolrack_host::spec::Timeouts::startup) in the server's entry to some minutes. If the
    /// user needs longer than that, the host tries again and shows the page again.
    pub fn browser(mut self, browser: Arc<dyn Browser>) -> Self {
        self.browser = Some(browser);
        self
    }

    /// Sets the function that returns the advice on how to sign in to a server: one line, such as `toolrack login
    /// sentry`. It gets the scopes that the sign-in has to request, if any. Default: "sign in to `SERVER`".
    pub fn sign_in_hint(mut self, hint: impl Fn(&ServerName, &[String]) -> String + Send + Sync + 'static) -> Self {
        self.sign_in_hint = Box::new(hint);
        self
    }

    /// Sets a function that gets every token and secret before it is used. The program can then keep it out of logs and
    /// off the screen, because a server can repeat a secret that it got. Default: secrets are passed to no function.
    pub fn secrets(mut self, listener: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.secret_listener = Box::new(listener);
        self
    }

    /// Sets the witness (the observer that writes the audit log) of sign-ins, sign-outs and failures. Default: none.
    pub fn witness(mut self, witness: Arc<dyn Witness>) -> Self {
        self.witness = Some(witness);
        self
    }

    /// Sets the egress rules (which addresses requests may reach) for requests to authorization servers. Default:
    /// [`Profile::Local`](toolrack_host::egress::Profile::Local).
    pub fn egress(mut self, egress: Egress) -> Self {
        self.egress = egress;
        self
    }

    /// Builds the [`SignIn`].
    #[must_use]
    pub fn build(self) -> SignIn {
        let Self { store, resolver, browser, tenant, user, sign_in_hint, secret_listener, witness, egress } = self;
        let tasks = TaskTracker::new();
        // A closed tracker still accepts tasks. It is closed here, because `wait` returns only on a closed tracker.
        tasks.close();
        SignIn(Arc::new(Inner {
            store,
            resolver,
            browser,
            tenant,
            user,
            sign_in_hint,
            secret_listener,
            witness,
            http_maker: GuardedHttpMaker::new(egress),
            slots: Default::default(),
            tasks,
        }))
    }
}

impl SignIn {
    /// Returns a builder of a [`SignIn`] that keeps its tokens in `store`.
    pub fn builder(store: Arc<dyn TokenStore>) -> SignInBuilder {
        SignInBuilder {
            store,
            resolver: Arc::new(Verbatim),
            browser: None,
            tenant: String::new(),
            user: String::new(),
            sign_in_hint: Box::new(|server, _| format!("sign in to `{server}`")),
            secret_listener: Box::new(|_| {}),
            witness: None,
            egress: Egress::default(),
        }
    }
}
