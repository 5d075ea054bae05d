use std::{io, path::PathBuf};

use axum::body::to_bytes;
use serde_json::{Value, json};
use toolrack_store::DatabaseProblem;

use super::*;

fn of(error: impl Into<ApiError>) -> (u16, String) {
    let error = error.into();
    (error.status().as_u16(), error.error.code)
}

fn of_database(problem: DatabaseProblem) -> StoreError {
    StoreError::Database { database: "db.internal/toolrack".to_owned(), problem, source: None }
}

#[test]
fn each_failure_of_the_database_has_its_own_status_and_code() {
    let path = || PathBuf::from("/data/toolrack.db");
    let typed = || "abcd".to_owned();
    for (error, status, code) in [
        (StoreError::UnknownSession { typed: typed() }, 404, "UNKNOWN_SESSION"),
        (StoreError::AmbiguousSession { typed: typed(), prefixes: vec![] }, 409, "AMBIGUOUS_SESSION"),
        (StoreError::Full { path: path() }, 507, "DISK_FULL"),
        (StoreError::Locked { path: path() }, 409, "DATABASE_BUSY"),
        (of_database(DatabaseProblem::Role), 500, "INTERNAL"),
        (StoreError::ReadOnly { path: path() }, 500, "INTERNAL"),
        (StoreError::Corrupt { path: path() }, 500, "INTERNAL"),
        (StoreError::Newer { path: path(), found: 9, known: 8 }, 500, "INTERNAL"),
    ] {
        let error_text = error.to_string();
        let shown = ApiError::from(error);
        assert_eq!(shown.error.message, error_text, "each status comes with what is wrong and what to do");
        assert_eq!((shown.status().as_u16(), &*shown.error.code), (status, code), "{error_text}");
    }
}

#[test]
fn while_the_database_is_away_a_member_learns_that_and_not_where_it_is() {
    for problem in [DatabaseProblem::Unreachable, DatabaseProblem::Standby, DatabaseProblem::Slow] {
        let shown = ApiError::from(of_database(problem));
        assert_eq!((shown.status().as_u16(), &*shown.error.code), (503, "DATABASE_AWAY"));
        assert!(!shown.error.message.contains("db.internal") && shown.retry_after.is_some());
    }
}

#[test]
fn a_failed_edit_has_different_errors_for_an_unwritable_and_for_a_changed_file() {
    let path = || PathBuf::from("/home/mcp.json");
    let full = EditError::Io { doing: "write", path: path(), source: io::Error::from(io::ErrorKind::StorageFull) };
    assert_eq!(of(EditFailed::Edit(full)), (507, "NOT_WRITTEN".to_owned()));
    assert_eq!(of(EditFailed::Edit(EditError::Busy { path: path() })), (409, "BUSY".to_owned()));
    assert_eq!(of(EditFailed::Unknown), (404, "UNKNOWN_SERVER".to_owned()));
    let not_agreed = ApiError::from(EditFailed::Store(StoreError::Full { path: path() }));
    assert_eq!((not_agreed.status().as_u16(), &*not_agreed.error.code), (507, "DISK_FULL"));
    assert!(not_agreed.error.hint.is_some_and(|hint| hint.starts_with("the file was changed")));
    for (no_place, hint) in [
        (NoEditTarget::CommandLine, "by hand"),
        (NoEditTarget::BuiltIn, "disabled"),
        (NoEditTarget::Several(vec![]), "--scope"),
    ] {
        let error = ApiError::from(EditFailed::NoEditTarget(no_place));
        assert_eq!((error.status().as_u16(), &*error.error.code), (409, "NOT_EDITABLE"));
        assert!(error.error.hint.is_some_and(|text| text.contains(hint)), "{hint}");
    }
}

#[test]
fn a_call_that_cannot_begin_says_whether_waiting_or_another_id_helps() {
    assert_eq!(of(NotBegun::NameInUse), (409, "ID_IN_USE".to_owned()));
    assert_eq!(of(NotBegun::TooMany(7)), (429, "TOO_MANY".to_owned()));
    assert!(ApiError::from(NotBegun::TooMany(7)).error.message.starts_with("7 calls"));
    assert_eq!(of(NotReloaded::Ending), (503, "ENDING".to_owned()));
    assert_eq!(of(NotReloaded::Rejected(vec![])), (409, "CONFIG_REJECTED".to_owned()));
}

#[tokio::test]
async fn an_error_in_json_has_only_the_documented_members() {
    for (error, expected) in [
        (ApiError::not_found("gone"), json!({ "code": "NOT_FOUND", "message": "gone" })),
        (
            ApiError::not_found("gone").hint("look").server("fs"),
            json!({ "code": "NOT_FOUND", "message": "gone", "hint": "look", "server": "fs" }),
        ),
    ] {
        let response = error.into_response();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["content-type"]),
            (404, &"application/json".parse().unwrap())
        );
        let body = to_bytes(response.into_body(), 1_000).await.unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), json!({ "error": expected }));
    }
}
