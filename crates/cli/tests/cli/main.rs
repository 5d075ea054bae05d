//! The binary, run as a user or a script runs it: in its own home, against the fake server.
//!
//! Outputs are snapshots. What differs from run to run (folders, times) is replaced before they are compared.

#[cfg(test)]
mod add;
#[cfg(test)]
mod answers;
#[cfg(test)]
mod approvals;
#[cfg(test)]
mod ask;
#[cfg(test)]
mod asked;
#[cfg(test)]
mod audit;
#[cfg(test)]
mod background;
#[cfg(test)]
mod builtin;
#[cfg(test)]
mod call;
#[cfg(test)]
mod canaries;
#[cfg(test)]
mod chat;
#[cfg(test)]
mod clients;
#[cfg(test)]
mod code;
#[cfg(test)]
mod completions;
#[cfg(test)]
mod config;
#[cfg(test)]
mod connect;
#[cfg(test)]
mod container;
#[cfg(test)]
mod dashboard;
#[cfg(test)]
mod deploy;
#[cfg(test)]
mod diagnose;
#[cfg(test)]
mod egress;
#[cfg(test)]
mod exits;
#[cfg(test)]
mod field;
#[cfg(test)]
mod gateway;
#[cfg(test)]
mod given;
#[cfg(test)]
mod help;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod import;
#[cfg(test)]
mod keychain;
#[cfg(test)]
mod kills;
#[cfg(test)]
mod lists;
#[cfg(test)]
mod local_sockets;
#[cfg(test)]
mod manage;
#[cfg(test)]
mod mentions;
#[cfg(test)]
mod model_settings;
#[cfg(test)]
mod on_terminal;
#[cfg(test)]
mod once;
#[cfg(test)]
mod output;
#[cfg(test)]
mod pins;
#[cfg(test)]
mod policy;
#[cfg(test)]
mod progress;
#[cfg(test)]
mod provider;
#[cfg(test)]
mod quotas;
#[cfg(test)]
mod rack;
#[cfg(test)]
mod readme;
#[cfg(test)]
mod real_model;
#[cfg(test)]
mod recipes;
#[cfg(test)]
mod recordings;
#[cfg(test)]
mod replicas;
#[cfg(test)]
mod resize;
#[cfg(test)]
mod rotation;
#[cfg(test)]
mod run_folders;
#[cfg(test)]
mod sampling;
#[cfg(test)]
mod sandbox;
#[cfg(test)]
mod secret;
#[cfg(test)]
mod session_servers;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod shapes;
#[cfg(test)]
mod sign_in;
#[cfg(test)]
mod signals;
#[cfg(test)]
mod supervised;
#[cfg(test)]
mod team;
#[cfg(test)]
mod team_admin;
#[cfg(test)]
mod team_approvals;
#[cfg(test)]
mod team_backup;
#[cfg(test)]
mod team_exports;
#[cfg(test)]
mod team_own;
#[cfg(test)]
mod team_person;
#[cfg(test)]
mod team_postgres;
#[cfg(test)]
mod team_removed;
#[cfg(test)]
mod team_replicas;
#[cfg(test)]
mod team_servers;
#[cfg(test)]
mod team_shares;
#[cfg(test)]
mod terminal;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod tool_settings;
#[cfg(test)]
mod trust;
#[cfg(test)]
mod warm;
