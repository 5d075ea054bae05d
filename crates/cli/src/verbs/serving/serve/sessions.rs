//! Makes a world (a host with its rules, questions and events) for each session of an MCP client. Its host runs the
//! servers that run once for each session. All other parts come from the world of the session's user: the user of the
//! machine, or a member of a tenant of a team.

use std::sync::Arc;

use toolrack_auth::SignIn;
use toolrack_config::{Environment, Interpolate, Loaded, Request};
use toolrack_daemon::{
    CredentialsOf, MakeWorld, Parts, Questions, Vault, WorldKind, WorldParts, discovery_name, gateway::AnyClient,
};
use toolrack_host::{Policy, Principal};
use toolrack_store::Store;
use toolrack_team::TenantQuotas;

use super::{WorldOptions, model_chooser, sign_in_starter};
use crate::{
    context::{Context, HostParts},
    credentials::MachineCredentials,
    log_keeper::LogKeeper,
    models::ModelContext,
    rules::LiveRules,
    secrets::SecretStore,
    verbs::talk::ask::rules,
};

/// The parts that the sessions of one user share.
pub(super) struct UserParts {
    pub(super) world_options: WorldOptions,
    pub(super) model_context: ModelContext,
    /// Makes hosts that borrow the servers of the user's host.
    pub(super) host_parts: HostParts,
    pub(super) sign_in: SignIn,
    pub(super) credentials: Arc<dyn Fn() -> CredentialsOf + Send + Sync>,
    /// The user, if it is a member of a tenant and not the user of the machine.
    pub(super) member: Option<Principal>,
    pub(super) request: Request,
    pub(super) environment: Environment,
    pub(super) store: Option<Store>,
    pub(super) secrets: Arc<Interpolate>,
    pub(super) vault: Arc<dyn Vault>,
    pub(super) questions: Questions,
    pub(super) quotas: TenantQuotas,
}

impl UserParts {
    /// Returns the parts of the user of the machine.
    pub(super) fn of_machine(world_options: &WorldOptions, context: &Context, parts: &Parts) -> Self {
        let secret_store = Arc::clone(context.secret_store());
        Self {
            world_options: world_options.clone(),
            model_context: context.model_context(),
            host_parts: context.host_parts().borrowing(parts.host.clone(), Principal::LOCAL),
            sign_in: context.sign_in().clone(),
            credentials: Arc::new(move || MachineCredentials::finder(Arc::<SecretStore>::clone(&secret_store))),
            member: None,
            request: parts.request.clone(),
            environment: parts.environment.clone(),
            store: parts.store.clone(),
            secrets: Arc::clone(&parts.secrets),
            vault: Arc::clone(&parts.vault),
            questions: parts.questions.clone(),
            quotas: parts.quotas.clone(),
        }
    }

    fn make_session_world(&self) -> WorldParts {
        // No server starts under this empty policy: `before_applying` first sets the rules of the files.
        let gate = Arc::new(LiveRules::new(Policy::default()));
        let asker = Arc::new(AnyClient::with_fallback(Arc::new(self.questions.clone())));
        let agent = None;
        let host = self.host_parts.create_host(Arc::<LiveRules>::clone(&gate), asker, agent);
        // The log lines of a member's servers are stored nowhere.
        let log_keeper = self.member.is_none().then(|| self.host_parts.start_log_keeper(&host)).flatten();
        let (host_for_naming, log_sources, typed_rules) =
            (host.clone(), log_keeper.as_ref().map(LogKeeper::sources), self.world_options.rules.clone());
        let parts = Parts {
            host,
            request: self.request.clone(),
            watcher: self.world_options.watcher.clone(),
            environment: self.environment.clone(),
            store: self.store.clone(),
            secrets: Arc::clone(&self.secrets),
            vault: Arc::clone(&self.vault),
            questions: self.questions.clone(),
            quotas: self.quotas.clone(),
            models: model_chooser(self.world_options.model.clone(), self.model_context.clone()),
            sign_ins: sign_in_starter(self.sign_in.clone(), Arc::clone(&self.secrets)),
            kind: WorldKind::Session(self.member.clone()),
            credentials: (self.credentials)(),
            own_servers: None,
            before_applying: Box::new(move |loaded: &Loaded| {
                gate.replace(rules(&typed_rules, loaded, &[&discovery_name(&loaded.desired)]));
                if let Some(log_sources) = &log_sources {
                    log_sources.add(&loaded.desired);
                }
                host_for_naming.set_naming(loaded.settings.tools.naming.clone());
            }),
        };
        let after_end = async move {
            if let Some(log_keeper) = log_keeper {
                log_keeper.close().await;
            }
        };
        WorldParts {
            parts,
            make_agent_world: None,
            make_member_world: None,
            make_session_world: None,
            after_end: Box::pin(after_end),
        }
    }
}

/// Returns the function that makes the world of a session of a user.
pub(super) fn session_world_maker(user_parts: UserParts) -> MakeWorld {
    Box::new(move |_id, _member| {
        let world_parts = user_parts.make_session_world();
        Box::pin(async move { Ok(world_parts) })
    })
}
