//! Makes the parts of a member's world (a host with its rules and secrets, for one member of a tenant). Some parts are
//! those of the tenant, others belong to the member alone.

use std::{ffi::OsString, fs, io, os::unix::fs::DirBuilderExt as _, path::PathBuf, sync::Arc};

use toolrack_auth::SignIn;
use toolrack_config::{Environment, Interpolate, UnsetPolicy};
use toolrack_host::{Host, Principal};

use super::{Context, HostParts, hosts::Loan, opening::sign_in_builder};
use crate::{credentials::MemberCredentials, secrets::SecretStore};

/// The parts that the members of a tenant share.
#[derive(Debug)]
pub(crate) struct MemberPartsFactory {
    secret_store: Arc<SecretStore>,
    secrets: Arc<Interpolate>,
    environment: Environment,
    /// The working folders of the tenant's servers, which the configuration names.
    own_folders: PathBuf,
    /// The parent of the folders of the members.
    member_folders: PathBuf,
    host_parts: HostParts,
    lender: Host,
}

/// The parts that only one member of a tenant has.
#[derive(Debug)]
pub(crate) struct MemberParts {
    pub(crate) environment: Environment,
    /// Fills in the placeholders of the member's servers.
    pub(crate) secrets: Arc<Interpolate>,
    pub(crate) sign_in: SignIn,
    pub(crate) host_parts: HostParts,
    pub(crate) credentials: Arc<MemberCredentials>,
}

impl Context {
    /// Returns a factory for the parts of the tenant's members. `self` is the tenant's context.
    pub(crate) fn member_parts_factory(&self) -> MemberPartsFactory {
        MemberPartsFactory {
            secret_store: Arc::clone(&self.secret_store),
            secrets: self.secrets(),
            environment: self.environment.clone(),
            own_folders: self.places.own_folders(),
            member_folders: self.places.data().join("people"),
            host_parts: self.host_parts(),
            lender: self.host(),
        }
    }
}

impl MemberPartsFactory {
    /// Creates the parts of one member. The home folder, working folders and sandboxes of the member's servers are
    /// below the member's folder.
    ///
    /// # Errors
    /// When that folder cannot be made.
    pub(crate) fn create_parts(&self, member: &Principal) -> io::Result<MemberParts> {
        let key = &*member.key();
        let home = self.member_folders.join(key);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&home)?;
        let other_variables = self.environment.iter().filter(|(name, _)| *name != "HOME");
        let other_variables = other_variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let environment =
            Environment::new(other_variables.chain([(OsString::from("HOME"), home.clone().into_os_string())]));
        let credentials = Arc::new(MemberCredentials::new(Arc::clone(&self.secret_store), key));
        let secrets = Interpolate::new(environment.clone(), UnsetPolicy::Error)
            .with_secrets(Arc::<MemberCredentials>::clone(&credentials))
            .with_homes(home.join("sandbox"))
            .with_own_folders_in(home.join("cwd"), self.own_folders.clone())
            .also_concealing(Arc::clone(&self.secrets));
        let secrets = Arc::new(secrets);
        let audit = Arc::new(self.host_parts.audit.for_member(Arc::clone(&secrets)));
        // A member has no command line that could give a server.
        let one_off = None;
        let sign_in = sign_in_builder(&self.secret_store, &secrets, &self.host_parts.egress, &audit, one_off);
        // No tenant is named, because the store holds only the tokens of this one.
        let sign_in = sign_in.owner("", key).build();
        let host_parts = HostParts {
            secrets: Arc::clone(&secrets),
            sign_in: sign_in.clone(),
            audit,
            is_shared: false,
            loan: Some(Loan { lender: self.lender.clone(), principal: member.clone() }),
            ..self.host_parts.clone()
        };
        Ok(MemberParts { environment, secrets, sign_in, host_parts, credentials })
    }
}
