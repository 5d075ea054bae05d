//! Creates the hosts of this program. A host connects to servers and runs the calls of their tools. Its gate decides
//! which calls may run, and its asker asks the user.

use std::{fmt, sync::Arc};

use toolrack_auth::SignIn;
use toolrack_config::{Interpolate, SecretGate};
use toolrack_host::{Egress, Gate, Host, OnMessage, Principal, SharedAsker, Tracer, supervisor::Supervisor};
use toolrack_store::{ArtifactFolder, Store};
use toolrack_team::TenantQuotas;

use super::{Context, tape::Tape};
use crate::{audit::AuditRecorder, concealing::ConcealingStore, log_keeper::LogKeeper};

/// The supervisor: the program that runs between the host and a stdio server.
const SUPERVISOR: &str = "toolrack-supervisor";

/// The parts that the hosts of one user share.
#[derive(Clone)]
pub(crate) struct HostParts {
    pub(super) store: Option<Store>,
    pub(super) secrets: Arc<Interpolate>,
    pub(super) sign_in: SignIn,
    pub(super) artifacts: ArtifactFolder,
    pub(super) egress: Egress,
    pub(super) tracer: Option<Arc<dyn Tracer>>,
    pub(super) audit: Arc<AuditRecorder>,
    /// Whether the user's answers may be stored. This is false for a one-off server, which the command line gives for
    /// one command. A stored answer would also apply to the next one-off server, which may be another program.
    pub(super) keeps_answers: bool,
    /// The recording that `record` writes or `replay` reads.
    pub(super) tape: Option<Tape>,
    /// Counts what each caller uses.
    pub(super) quotas: TenantQuotas,
    /// Shows the protocol messages of servers (`-vv`).
    pub(super) on_message: Option<OnMessage>,
    /// Whether members of a tenant share the servers.
    pub(super) is_shared: bool,
    /// The servers that the host of a member or of a session borrows; `None` for other hosts.
    pub(super) loan: Option<Loan>,
}

/// The servers that a host borrows from another one.
#[derive(Clone, Debug)]
pub(super) struct Loan {
    /// The host that lends its servers.
    pub(super) lender: Host,
    /// The principal (the user or member) whose servers these are.
    pub(super) principal: Principal,
}

impl fmt::Debug for HostParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostParts").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Context {
    /// Returns the quotas, which count what each caller uses.
    pub(crate) fn quotas(&self) -> &TenantQuotas {
        &self.host_parts.quotas
    }
}

impl HostParts {
    /// Returns the parts for the hosts of sessions, to which `lender` lends the servers of `principal`.
    pub(crate) fn borrowing(&self, lender: Host, principal: Principal) -> Self {
        Self { loan: Some(Loan { lender, principal }), ..self.clone() }
    }

    /// Creates a host without servers. `gate` decides which calls run, but a secret of one server goes to another only
    /// if the user agrees. `asker` answers the questions. `agent` is the agent that the audit log names, if the host
    /// serves a single one; without it, the log names the agent of `--agent`.
    pub(crate) fn create_host(&self, gate: Arc<dyn Gate>, asker: SharedAsker, agent: Option<&str>) -> Host {
        let secrets = || Arc::clone(&self.secrets);
        let mut builder = Host::builder()
            .client("toolrack", env!("CARGO_PKG_VERSION"))
            .supervisor(supervisor())
            .resolver(secrets())
            .authorizer(Arc::new(self.sign_in.clone()))
            .asker(asker)
            .artifacts(Arc::new(ConcealingStore::new(self.artifacts.clone(), secrets())))
            .gate(Arc::new(SecretGate::new(gate, secrets())))
            .egress(self.egress.clone())
            .quotas(Arc::new(self.quotas.clone()))
            // The output of a shared server may be about another member's call, so errors must leave it out.
            .private_output(self.is_shared);
        if let Some(tape) = &self.tape {
            builder = tape.apply_to(builder);
        }
        if let Some(loan) = &self.loan {
            builder = builder.lender(loan.lender.clone(), loan.principal.clone());
        }
        if let Some(on_message) = &self.on_message {
            builder = builder.on_message(Arc::clone(on_message));
        }
        if let Some(store) = self.store_unless_replaying() {
            let memory = Arc::new(ConcealingStore::new(store.clone(), secrets()));
            if self.tape.is_none() && self.loan.is_none() {
                // Hosts with a recording or a loan use no stored lists of tools. A recording must contain everything
                // that a server says, and a server may offer some tools to one member or session alone.
                builder = builder.memory(Arc::<ConcealingStore<Store>>::clone(&memory));
            }
            builder = builder.pins(memory);
            if self.keeps_answers {
                builder = builder.answers(Arc::new(store.clone()));
            }
        }
        if let Some(witness) = self.audit.witness(agent).filter(|_| self.store_unless_replaying().is_some()) {
            builder = builder.witness(witness);
        }
        if let Some(tracer) = &self.tracer {
            builder = builder.tracer(Arc::clone(tracer));
        }
        builder.build()
    }

    /// Returns the database, unless a recording replaces all servers: a replay has nothing new to store.
    fn store_unless_replaying(&self) -> Option<&Store> {
        self.store.as_ref().filter(|_| !Tape::is_replay(self.tape.as_ref()))
    }

    /// Starts to store the log lines of the servers of `host`; `None` without a database.
    pub(crate) fn start_log_keeper(&self, host: &Host) -> Option<LogKeeper> {
        let store = self.store_unless_replaying()?.clone();
        Some(LogKeeper::start(host, store, Arc::clone(&self.secrets)))
    }
}

/// Returns the supervisor in the folder of this program; this program itself if there is none.
fn supervisor() -> Supervisor {
    let file = std::env::current_exe().and_then(|program| std::fs::File::open(program.with_file_name(SUPERVISOR)));
    let file = file.ok().filter(|file| file.metadata().is_ok_and(|metadata| metadata.is_file()));
    file.and_then(|file| Supervisor::in_file(file).ok()).unwrap_or_else(Supervisor::this_program)
}
