//! Prepares `serve --team`: makes the world of each tenant from the tenant's own folder, and the worlds of its members.
//!
//! A team has tenants, each with servers and data of its own, and each tenant has members: people and services. A world
//! is a host with its rules, questions and events. The front door is the part of the daemon at which members sign in.

use std::{
    collections::BTreeMap,
    error::Error,
    ffi::{OsStr, OsString},
    fs,
    io::ErrorKind,
    net::SocketAddr,
    num::NonZeroU32,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio_util::{sync::CancellationToken, task::TaskTracker};
use toolrack_auth::TokenKey;
use toolrack_config::{Environment, Loaded, Places, Request};
use toolrack_daemon::{
    DeleteMemberValues, MakeWorld, NoWorld, OwnServers, Parts, Questions, ReplicaOptions, Team, Vault, WorldKind,
    WorldParts, discovery_name, gateway::AnyClient,
};
use toolrack_host::{
    Caller, Policy, Principal, Way,
    egress::{Egress, SystemLookup},
};
use toolrack_store::{Space, Store, StoreError};
use toolrack_team::{
    Authority, FrontDoor, Issuers, StoreTable, TeamFile, Tenant, TenantQuotas, audit_export::AuditExporter,
    holder_of_member,
};

use super::{
    ServeArgs, WorldOptions, agent_world_maker, audit_export, model_chooser,
    sessions::{UserParts, session_world_maker},
    sign_in_starter, start_world,
};
use crate::{
    args::Global,
    context::{CommandLine, Context, DatabaseChoice, MemberParts, Surroundings},
    credentials::{MemberCredentials, MemberServerStore},
    database::{
        self, DatabaseServer,
        link::{self, Link},
    },
    error::{Exit, Failure, in_words, with_causes},
    models::ModelContext,
    rules::LiveRules,
    screen::Screen,
    secrets, team_file,
    verbs::talk::ask::rules,
};

/// Reads the team file at `path`, and prepares everything that serves the team. The database of `context` has the
/// members.
///
/// # Errors
/// When the file cannot be used, there is no database, rows were not moved into it yet, or the secret of the sign-in
/// has no value.
pub(super) async fn prepare(
    path: &Path,
    args: &ServeArgs,
    world_options: &WorldOptions,
    context: &Context,
) -> Result<ServedTeam, Failure> {
    let file = Arc::new(team_file::read(path)?);
    let replica = match args.replica.as_deref() {
        Some(&address) => Some(replica_at(address, args.grace, &file, context).await?),
        None => None,
    };
    let tenant_database = TenantDatabase::new(path, context)?;
    tenant_database.link_folders(&file, context).await?;
    let client_secret = client_secret(&file, context).await?;
    let store = context.store()?.with_team().await.map_err(|error| database::unusable(&error))?;
    let http_client_failure = |error: &dyn Error| Failure::new(Exit::Other, "NO_CLIENT", with_causes(error));
    // The front door checks every request of the team.
    let door = FrontDoor::with_egress(Arc::clone(&file), client_secret, store.clone(), context.egress());
    let door = door.map_err(|error| http_client_failure(&error))?;
    let mut authority = Authority::new(store).with_refusals(Arc::clone(door.refusals()));
    if !file.issuers.is_empty() {
        let issuers = Issuers::new(Arc::clone(&file), context.egress(), Arc::clone(door.refusals()));
        authority = authority.with_issuers(issuers.map_err(|error| http_client_failure(&error))?);
    }
    let tenants: BTreeMap<_, _> = file.tenants.iter().map(|tenant| (tenant.id.clone(), tenant.clone())).collect();
    let tenant_ids = tenants.keys().cloned().collect();
    let exporter = audit_export::exporter(&file, tenant_database.server.clone(), context).await?;
    let audit_export = exporter.as_ref().map(AuditExporter::status);
    let delete_values = member_forgetter(tenants.clone(), tenant_database.clone());
    let (authority, make_tenant_world) =
        (Arc::new(authority), tenant_world_maker(tenants, tenant_database, world_options, context));
    let team = Team { tenants: tenant_ids, authority, door, make_tenant_world, delete_values, audit_export };
    Ok(ServedTeam { team, replica, exporter })
}

/// The team, and what the daemon runs in addition.
pub(super) struct ServedTeam {
    pub(super) team: Team,
    /// With `--replica`: how this daemon works together with the other replicas.
    pub(super) replica: Option<ReplicaOptions>,
    /// Exports the audit logs, if the team file has `[audit_export]`.
    pub(super) exporter: Option<AuditExporter>,
}

/// Returns the options of this daemon as the replica at `address`, with the times that the team file sets. `grace` is
/// how long calls may still run when the daemon ends.
async fn replica_at(
    address: SocketAddr,
    grace: Duration,
    file: &TeamFile,
    context: &Context,
) -> Result<ReplicaOptions, Failure> {
    let Some(table) = &file.store else {
        return Err(Failure::usage("--replica needs a database that the replicas share: [store] of the team file")
            .hint("docs/guide/teams.md has an example"));
    };
    if context.secret_store().variable().is_none() {
        let message = "TOOLRACK_SECRET_KEY is not set, so the keys to the secrets of tenants are in the folders of the tenants: \
            all replicas must share these folders";
        context.screen.warning(message);
    }
    // Only heartbeats use this connection, so that none of them waits for a free one.
    let one_connection = StoreTable { most_connections: Some(NonZeroU32::MIN), ..table.clone() };
    let heartbeats = DatabaseServer::connect(&one_connection, &context.environment).await?.daemon_store().await?;
    let heartbeats = heartbeats.with_team().await.map_err(|error| database::unusable(&error))?;
    let defaults = ReplicaOptions::at(address, heartbeats);
    let times = file.replicas;
    let heartbeat_timeout = times.heartbeat_timeout.unwrap_or(defaults.heartbeat_timeout);
    // A replica is the home of the tenants that it serves. The tenants can get another home when the replica has ended
    // and finished its calls, or when the other replicas remove a replica that died.
    let default_takeover = defaults.takeover_timeout.max(grace + 2 * heartbeat_timeout);
    let takeover_timeout = times.takeover_timeout.unwrap_or(default_takeover);
    Ok(ReplicaOptions { heartbeat_timeout, takeover_timeout, ..defaults })
}

/// The database with the rows of the tenants: a database server, or a file in each tenant's folder.
#[derive(Clone)]
struct TenantDatabase {
    /// The full path of the team file, without symbolic links.
    team_file: PathBuf,
    /// `None` for files.
    server: Option<DatabaseServer>,
}

impl TenantDatabase {
    fn new(team_file: &Path, context: &Context) -> Result<Self, Failure> {
        let server = context.database_server().cloned();
        let team_file = team_file.canonicalize().map_err(|error| {
            Failure::config(format!("the team file {} cannot be used: {}", team_file.display(), in_words(&error)))
        })?;
        Ok(Self { team_file, server })
    }

    /// Writes a link to the server into the folder of the daemon, and into each folder of a tenant that exists. With
    /// the link, other commands find the rows on the server. Does nothing if the rows are in files.
    async fn link_folders(&self, file: &TeamFile, context: &Context) -> Result<(), Failure> {
        if self.server.is_none() {
            return Ok(());
        }
        link::write_if_moved(context.places.data(), &Link { team: self.team_file.clone(), tenant: None }).await?;
        for tenant in file.tenants.iter().filter(|tenant| tenant.home.exists()) {
            self.link_home(tenant).await?;
        }
        Ok(())
    }

    /// Writes a link to the server into the folder of `tenant`.
    async fn link_home(&self, tenant: &Tenant) -> Result<(), Failure> {
        let link = Link { team: self.team_file.clone(), tenant: Some(tenant.id.clone()) };
        link::write_if_moved(Places::under(&tenant.home).data(), &link).await
    }

    /// Returns where the world of `tenant` has its rows. If that is the server, first links the tenant's folder to it.
    async fn choose_database(&self, tenant: &Tenant) -> Result<DatabaseChoice<'static>, Failure> {
        let Some(server) = &self.server else { return Ok(DatabaseChoice::InDataFolder) };
        self.link_home(tenant).await?;
        Ok(DatabaseChoice::AlreadyOpen(server.store(&tenant.id).await?.into()))
    }
}

/// Opens the store of a tenant: on `server`, or without one, the file in the tenant's folder. Returns `None` if there
/// is no such file, because the tenant was never used.
pub(crate) async fn open_tenant_store(
    tenant: &Tenant,
    server: Option<&DatabaseServer>,
) -> Result<Option<Store>, Failure> {
    if let Some(server) = server {
        return server.store(&tenant.id).await.map(Some);
    }
    let path = database::file(&Places::under(&tenant.home));
    if !path.exists() {
        return Ok(None);
    }
    Store::open(path).await.map(Some).map_err(|error| database::unusable(&error))
}

/// Returns the function that deletes what is stored for a removed member of a tenant.
fn member_forgetter(tenants: BTreeMap<String, Tenant>, tenant_database: TenantDatabase) -> DeleteMemberValues {
    Box::new(move |tenant, member| {
        let (tenant, tenant_database) = (tenants.get(&tenant).cloned(), tenant_database.clone());
        Box::pin(async move {
            match tenant {
                Some(tenant) => forget_member(&tenant, &tenant_database, &member).await,
                None => Err("the team file has no such tenant".to_owned()),
            }
        })
    })
}

/// Deletes what is stored for `member`: the rows in the database of the tenant, and the member's folder.
async fn forget_member(tenant: &Tenant, tenant_database: &TenantDatabase, member: &str) -> Result<(), String> {
    let server = tenant_database.server.as_ref();
    if let Some(store) = open_tenant_store(tenant, server).await.map_err(|failure| failure.message)? {
        let result = forget_rows(&store, member).await;
        store.close().await;
        result.map_err(|error| with_causes(&error))?;
    }
    // The member's parts are made in the same folder: `context::members`.
    let folder = Places::under(&tenant.home).data().join("people").join(member);
    let remove_result = tokio::task::spawn_blocking(move || fs::remove_dir_all(folder)).await;
    match remove_result.map_err(|error| error.to_string())? {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(in_words(&error)),
        _ => Ok(()),
    }
}

/// Deletes the values, answers, quota uses and tokens of `member`. Decrypts no secret, and so needs no key.
async fn forget_rows(store: &Store, member: &str) -> Result<(), StoreError> {
    // The names of a member's values begin with the member and a slash.
    store.delete_member_values(&format!("{member}/"), &Caller::local(Way::Daemon)).await?;
    store.forget_answers_of(member).await?;
    store.forget_quota_uses(&holder_of_member(member)).await?;
    for name in store.sealed_names(Space::Token).await? {
        if TokenKey::from_text(&name).is_some_and(|key| key.user == member) {
            store.remove_sealed(Space::Token, &name).await?;
        }
    }
    Ok(())
}

/// Returns the value of `client_secret` in `[sign_in]`, with its placeholder resolved, if the file sets it.
async fn client_secret(file: &TeamFile, context: &Context) -> Result<Option<String>, Failure> {
    let Some(text) = file.sign_in.as_ref().and_then(|sign_in| sign_in.client_secret.as_deref()) else {
        return Ok(None);
    };
    let is_secret = true;
    let secret = context.secrets().setting("sign_in.client_secret of the team file", text, is_secret).await;
    secret.map(Some).map_err(|error| Failure::config(with_causes(&error)).hint("docs/guide/teams.md has an example"))
}

/// Returns the function that makes the world of a tenant from the tenant's own folder. From `context`, a tenant gets
/// only the key to secrets and the variables that [`tenant_environment`] passes on.
fn tenant_world_maker(
    tenants: BTreeMap<String, Tenant>,
    tenant_database: TenantDatabase,
    world_options: &WorldOptions,
    context: &Context,
) -> MakeWorld {
    let (environment, world_options) = (context.environment.clone(), world_options.clone());
    let key = context.secret_store().variable().map(OsStr::to_owned);
    Box::new(move |id, _member| {
        let (tenant, world_options, tenant_database) =
            (tenants.get(&id).cloned(), world_options.clone(), tenant_database.clone());
        let environment = tenant.as_ref().map(|tenant| tenant_environment(tenant, &environment, key.as_deref()));
        Box::pin(async move {
            let (Some(tenant), Some(environment)) = (tenant, environment) else {
                return Err(NoWorld { message: format!("the team has no tenant `{id}`"), hint: None });
            };
            make_tenant_world(tenant, environment, world_options, &tenant_database).await.map_err(|failure| {
                // The operator reads the reason in the log; members must not get paths of the machine.
                tracing::error!("the tenant `{id}` cannot be served: {}", failure.message);
                let message = format!("the servers of the tenant `{id}` cannot be started now");
                NoWorld { message, hint: Some("the operator of the daemon finds the reason in its log".to_owned()) }
            })
        })
    })
}

/// Makes the world of `tenant`, and its folder if there is none.
async fn make_tenant_world(
    tenant: Tenant,
    environment: Environment,
    world_options: WorldOptions,
    tenant_database: &TenantDatabase,
) -> Result<WorldParts, Failure> {
    let home = &tenant.home;
    let result = fs::DirBuilder::new().recursive(true).mode(0o700).create(home);
    result.map_err(|error| {
        let message = format!("the folder {} cannot be made: {}", home.display(), in_words(&error));
        Failure::new(Exit::Other, "NO_HOME", message)
    })?;
    let global = Global { no_input: true, ..Global::default() };
    let screen = Arc::new(Screen::new(&global, &environment));
    let database_choice = tenant_database.choose_database(&tenant).await?;
    let surroundings = Surroundings { environment, folder: home.clone(), screen, tracer: None };
    let context =
        Context::open(CommandLine { global, ..CommandLine::default() }, surroundings, database_choice).await?;
    let context = Arc::new(context.for_tenant(TenantQuotas::new(&tenant.id, tenant.limits.clone())));
    // Fails without a database, because there would be no audit log.
    let quota_writer = QuotaWriter::start(context.quotas(), context.store()?).await?;
    // No server starts under this empty policy: `before_applying` first sets the rules of the tenant's files.
    let mut parts = start_world(&world_options, &context, Arc::new(LiveRules::new(Policy::default())))?;
    // Leave the program's own servers out: they could read the folder, which has the tenant's database and key.
    parts.request.built_in.clear();
    (parts.kind, parts.credentials) =
        (WorldKind::Tenant, MemberCredentials::finder_of_all(Arc::clone(context.secret_store())));
    parts.own_servers = own_servers(&tenant, &context).await?;
    let make_agent_world = Some(agent_world_maker(&world_options, &context, WorldKind::AgentOfTenant));
    let make_member_world = Some(member_world_maker(&world_options, &context, &parts));
    let after_end = async move {
        quota_writer.end().await;
        context.close().await;
        if let Ok(store) = context.store() {
            store.close().await;
        }
    };
    Ok(WorldParts {
        parts,
        make_agent_world,
        make_member_world,
        make_session_world: None,
        after_end: Box::pin(after_end),
    })
}

/// The task that stores how much of each quota was used.
struct QuotaWriter {
    end_token: CancellationToken,
    task: TaskTracker,
}

impl QuotaWriter {
    /// Lets `quotas` continue from the use that the store has, and starts the task that stores further use.
    async fn start(quotas: &TenantQuotas, store: &Store) -> Result<Self, Failure> {
        quotas.resume(store).await.map_err(|error| database::unusable(&error))?;
        let (end_token, task) = (CancellationToken::new(), TaskTracker::new());
        task.spawn(quotas.clone().save_until(store.clone(), end_token.clone()));
        task.close();
        Ok(Self { end_token, task })
    }

    /// Stores what is not stored yet, and ends the task.
    async fn end(self) {
        self.end_token.cancel();
        self.task.wait().await;
    }
}

/// Returns the servers that members of the tenant have added for themselves, or `None` if the team file lets them add
/// none.
async fn own_servers(tenant: &Tenant, context: &Context) -> Result<Option<Arc<OwnServers>>, Failure> {
    let Some(settings) = &tenant.own_servers else { return Ok(None) };
    let added_servers = Arc::new(MemberServerStore::new(Arc::clone(context.secret_store())));
    let egress = Egress::new(settings.egress(), Arc::new(SystemLookup));
    let own_servers = OwnServers::new(settings.most.get().into(), egress, added_servers).await;
    let own_servers = own_servers.map_err(|why| Failure::new(Exit::Other, "NO_OWN_SERVERS", why))?;
    Ok(Some(Arc::new(own_servers)))
}

/// Returns the function that makes the world of a member of the tenant. The member gets a host and some other parts
/// alone; the tenant's host lends its servers to that host.
fn member_world_maker(world_options: &WorldOptions, context: &Context, tenant_parts: &Parts) -> MakeWorld {
    let (member_parts_factory, world_options, model_context) =
        (Arc::new(context.member_parts_factory()), world_options.clone(), context.model_context());
    let tenant_parts = TenantParts {
        request: tenant_parts.request.clone(),
        store: tenant_parts.store.clone(),
        questions: tenant_parts.questions.clone(),
        quotas: tenant_parts.quotas.clone(),
        vault: Arc::clone(&tenant_parts.vault),
        own_servers: tenant_parts.own_servers.clone(),
    };
    Box::new(move |_id, member| {
        let (member_parts_factory, world_options, model_context) =
            (Arc::clone(&member_parts_factory), world_options.clone(), model_context.clone());
        let tenant_parts = tenant_parts.clone();
        Box::pin(async move {
            let Some(member) = member else {
                return Err(NoWorld { message: "only a member has servers of their own".to_owned(), hint: None });
            };
            let member_parts = member_parts_factory.create_parts(&member).map_err(|error| {
                tracing::error!("the folder of a member cannot be made: {}", in_words(&error));
                let message = "your own servers cannot be started now".to_owned();
                NoWorld { message, hint: Some("the operator of the daemon finds the reason in its log".to_owned()) }
            })?;
            Ok(make_member_world(member_parts, member, &world_options, model_context, tenant_parts))
        })
    })
}

/// The parts that the worlds of a tenant's members get from the tenant.
#[derive(Clone)]
struct TenantParts {
    request: Request,
    store: Option<Store>,
    questions: Questions,
    quotas: TenantQuotas,
    vault: Arc<dyn Vault>,
    own_servers: Option<Arc<OwnServers>>,
}

/// Makes the world of `member` from the member's own parts and those of the tenant.
fn make_member_world(
    member_parts: MemberParts,
    member: Principal,
    world_options: &WorldOptions,
    model_context: ModelContext,
    tenant_parts: TenantParts,
) -> WorldParts {
    let TenantParts { request, store, questions, quotas, vault, own_servers } = tenant_parts;
    let MemberParts { environment, secrets, sign_in, host_parts, credentials } = member_parts;
    let questions = questions.concealing(Arc::clone(&secrets));
    // No server starts under this empty policy: `before_applying` first sets the rules of the tenant's files.
    let gate = Arc::new(LiveRules::new(Policy::default()));
    let asker = Arc::new(AnyClient::with_fallback(Arc::new(questions.clone())));
    let agent = None;
    let host = host_parts.create_host(Arc::<LiveRules>::clone(&gate), asker, agent);
    let (host_for_naming, typed_rules) = (host.clone(), world_options.rules.clone());
    let make_session_world = session_world_maker(UserParts {
        world_options: world_options.clone(),
        model_context: model_context.clone(),
        host_parts: host_parts.borrowing(host.clone(), member.clone()),
        sign_in: sign_in.clone(),
        credentials: Arc::new({
            let credentials = Arc::clone(&credentials);
            move || Arc::clone(&credentials).finder()
        }),
        member: Some(member.clone()),
        request: request.clone(),
        environment: environment.clone(),
        store: store.clone(),
        secrets: Arc::clone(&secrets),
        vault: Arc::clone(&vault),
        questions: questions.clone(),
        quotas: quotas.clone(),
    });
    let parts = Parts {
        host,
        request,
        watcher: world_options.watcher.clone(),
        environment,
        store,
        secrets: Arc::clone(&secrets),
        vault,
        questions,
        quotas,
        models: model_chooser(world_options.model.clone(), model_context),
        sign_ins: sign_in_starter(sign_in.clone(), secrets),
        kind: WorldKind::Member(member),
        credentials: credentials.finder(),
        own_servers,
        before_applying: Box::new(move |loaded: &Loaded| {
            gate.replace(rules(&typed_rules, loaded, &[&discovery_name(&loaded.desired)]));
            host_for_naming.set_naming(loaded.settings.tools.naming.clone());
        }),
    };
    let after_end = async move { sign_in.settled().await };
    let make_session_world = Some(make_session_world);
    WorldParts {
        parts,
        make_agent_world: None,
        make_member_world: None,
        make_session_world,
        after_end: Box::pin(after_end),
    }
}

/// Returns the environment of a tenant. It has some variables of the daemon: those that say nothing about the daemon's
/// user, and those that the team file names. The tenant's folder is its home. It also has the key to secrets, which
/// [`Context::open`] takes out of the environment.
fn tenant_environment(tenant: &Tenant, daemon_environment: &Environment, key: Option<&OsStr>) -> Environment {
    let is_about_no_user =
        |name: &str| matches!(name, "PATH" | "LANG" | "LANGUAGE" | "TZ" | "TMPDIR") || name.starts_with("LC_");
    let is_passed_on =
        |name: &str| is_about_no_user(name) || tenant.environment.iter().any(|named_variable| named_variable == name);
    let passed_variables = daemon_environment.iter().filter(|(name, _)| name.to_str().is_some_and(is_passed_on));
    let passed_variables = passed_variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let home = ["HOME", "TOOLRACK_HOME"].map(|name| (OsString::from(name), tenant.home.clone().into_os_string()));
    let key = key.map(|key| (OsString::from(secrets::VARIABLE), key.to_owned()));
    Environment::new(passed_variables.chain(home).chain(key))
}
