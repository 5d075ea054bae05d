//! Runs `toolrack team replicas`, which lists the daemons that serve the team together, and how many tenants each
//! serves.

use serde::Serialize;
use toolrack_host::text;
use toolrack_store::ReplicaHomes;

use super::{args::ReplicasArgs, team_store};
use crate::{
    context::Context,
    database,
    error::{Exit, Failure},
    render::{Cell, Tone, columns, count},
    team_file,
};

/// `team replicas --json`.
#[derive(Debug, Serialize)]
struct ReplicasDocument {
    replicas: Vec<ShownReplica>,
}

#[derive(Debug, Serialize)]
struct ShownReplica {
    /// The replica gets a new id each time that it joins the others.
    id: String,
    /// The address at which the other replicas reach it.
    address: String,
    /// How many heartbeats it has written.
    heartbeats: i64,
    /// How many tenants it serves.
    tenants: i64,
}

impl From<ReplicaHomes> for ShownReplica {
    fn from(ReplicaHomes { last: last_heartbeat, tenants }: ReplicaHomes) -> Self {
        let (replica, heartbeats) = (last_heartbeat.replica, last_heartbeat.number);
        Self { id: replica.id, address: replica.address, heartbeats, tenants }
    }
}

pub(super) async fn run(args: &ReplicasArgs, context: &Context) -> Result<Exit, Failure> {
    // Only refuses a broken file: `Context` has opened the database that the file names.
    team_file::read(&args.team)?;
    let replica_homes = team_store(context).await?.replica_homes().await.map_err(|error| database::unusable(&error))?;
    let replicas: Vec<ShownReplica> = replica_homes.into_iter().map(ShownReplica::from).collect();
    if context.screen.prints_json() {
        context.screen.document(&ReplicasDocument { replicas }).await?;
        return Ok(Exit::Ok);
    }
    if replicas.is_empty() {
        context.screen.note("no replica serves this team; `toolrack serve --team FILE --replica ADDRESS` starts one");
    }
    context.screen.page(page(&replicas)).await?;
    Ok(Exit::Ok)
}

/// Returns a line for each replica.
fn page(replicas: &[ShownReplica]) -> String {
    let line = |replica: &ShownReplica| {
        vec![
            Cell::new(Tone::Strong, text::for_line(&replica.address).into_owned()),
            // The database counts in signed numbers, but never below zero.
            Cell::new(Tone::Plain, count(usize::try_from(replica.tenants).unwrap_or_default(), "tenant")),
            Cell::new(Tone::Faint, format!("heartbeat {}", replica.heartbeats)),
        ]
    };
    columns(&replicas.iter().map(line).collect::<Vec<_>>()).join("\n")
}
