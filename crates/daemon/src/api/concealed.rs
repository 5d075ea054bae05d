//! Hides secrets in the output of the control API, because servers can repeat the secrets that they received: in
//! results, errors, stderr and descriptions. [`conceal_answer`] searches all answers, and [`to_concealed_json`] the
//! events of streams.

use std::borrow::Cow;

use axum::{
    Extension, Json,
    body::{Body, to_bytes},
    extract::Request,
    http::header::{CONTENT_LENGTH, CONTENT_TYPE},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use serde::Serialize;
use serde_json::{Map, Value};
use toolrack_config::Interpolate;
use toolrack_host::text::map_texts;

use super::{ApiError, WorldExtension};
use crate::world::World;

/// The maximum size of an answer. Answers consist of bounded parts and stay far below this.
const MAX_ANSWER_BYTES: usize = 256 * 1024 * 1024;

/// Marks an answer that was already searched: when it was made, or by the world to which this world passed the request.
#[derive(Clone, Copy)]
struct AlreadyConcealed;

/// Answers `request`, and replaces each secret in a JSON body by `***`.
pub(super) async fn conceal_answer(Extension(world): WorldExtension, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    if response.extensions().get::<AlreadyConcealed>().is_some() {
        return response;
    }
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if !content_type.is_some_and(|content_type| content_type.starts_with("application/json")) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    // `to_bytes` copies nothing here, because the body is already one piece in memory.
    let Ok(body) = to_bytes(body, MAX_ANSWER_BYTES).await else {
        return ApiError::internal("the answer is too large to be looked through for secrets").into_response();
    };
    head.extensions.insert(AlreadyConcealed);
    match str::from_utf8(&body).map(|text| conceal_for_world(&world, text)) {
        Ok(Cow::Borrowed(_)) => Response::from_parts(head, Body::from(body)),
        Ok(Cow::Owned(concealed)) => {
            head.headers.remove(CONTENT_LENGTH);
            Response::from_parts(head, Body::from(concealed))
        }
        Err(_) => ApiError::internal("the answer is not text").into_response(),
    }
}

/// Returns `value` as an answer, with `***` for each secret. Its fields `plain_fields` stay unchanged, because they
/// show the user what to agree to.
pub(super) fn answer_with_plain_fields(world: &World, plain_fields: &[&str], value: &impl Serialize) -> Response {
    // The conversions below cannot fail: an answer is an object, and has only texts as keys.
    let mut value = serde_json::to_value(value).unwrap_or_default();
    let take_field = |field: &&str| Some(((*field).to_owned(), value.get_mut(*field)?.take()));
    let plain_values: Vec<_> = plain_fields.iter().filter_map(take_field).collect();
    let mut answer: Map<String, Value> = serde_json::from_str(&to_concealed_json(world, &value)).unwrap_or_default();
    answer.extend(plain_values);
    let mut response = Json(answer).into_response();
    response.extensions_mut().insert(AlreadyConcealed);
    response
}

/// `value` as JSON, with `***` for each secret in its texts.
pub(super) fn to_concealed_json(world: &World, value: &impl Serialize) -> String {
    // Cannot fail, because an answer has only texts as keys.
    let text = serde_json::to_string(value).unwrap_or_default();
    match conceal_for_world(world, &text) {
        Cow::Owned(concealed) => concealed,
        Cow::Borrowed(_) => text,
    }
}

/// `text`, which is JSON, with `***` for each secret that the world (the host with its configuration) knows.
fn conceal_for_world<'t>(world: &World, text: &'t str) -> Cow<'t, str> {
    let loaded = world.loaded();
    conceal_in_json(text, &world.secrets, |text| loaded.entry(text).is_some())
}

/// Returns `text`, which is JSON, with `***` for each secret. Most answers contain no secret: they are searched once,
/// and neither copied nor parsed. In other answers only the JSON strings are changed, so that the result stays JSON for
/// any secret. Strings that `is_name` recognizes as the name of a server stay, even if a password is the same word,
/// because a server could not be used without its name.
fn conceal_in_json<'t>(text: &'t str, secrets: &Interpolate, is_name: impl Fn(&str) -> bool) -> Cow<'t, str> {
    if let Cow::Borrowed(_) = secrets.conceal(text) {
        return Cow::Borrowed(text);
    }
    // A text that is not JSON after all becomes `null`, which reveals nothing.
    let mut value: Value = serde_json::from_str(text).unwrap_or_default();
    map_texts(&mut value, &|text| if is_name(text) { Cow::Borrowed(text) } else { secrets.conceal(text) });
    Cow::Owned(value.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolrack_config::{Environment, UnsetPolicy};

    use super::*;

    fn secrets(secrets: &[&str]) -> Interpolate {
        let known = Interpolate::new(Environment::new(std::iter::empty::<(String, String)>()), UnsetPolicy::Error);
        secrets.iter().for_each(|secret| known.add_secret(secret));
        known
    }

    #[test]
    fn an_answer_without_secrets_is_not_copied() {
        let shown = conceal_in_json(r#"{"a":"b"}"#, &secrets(&["hunter2-hunter2"]), |_| false);
        assert!(matches!(shown, Cow::Borrowed(_)));
    }

    #[test]
    fn a_concealed_answer_stays_json_for_any_secret() {
        let secrets = secrets(&["12345678", r#"a"b\cdefg"#, r#"","error"#]);
        let text =
            json!({ "bytes": 12_345_678, "message": "for 12345678", "error": r#"of a"b\cdefg"#, "x": "" }).to_string();
        let shown: Value = serde_json::from_str(&conceal_in_json(&text, &secrets, |_| false)).unwrap();
        assert_eq!(shown, json!({ "bytes": 12_345_678, "message": "for ***", "error": "of ***", "x": "" }));
    }

    #[test]
    fn a_result_is_searched_for_secrets_at_every_depth() {
        let secret = "p\"ä/word-1";
        let secrets = secrets(&[secret]);
        let every = secret.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
        let lines = "cCLDpC93b3\n\tJkLTE=";
        for written in [&every, &json!({ "t": secret }).to_string().replace('ä', "\\u00e4"), lines] {
            let text = json!({ "text": written, "inner": json!([written]).to_string() }).to_string();
            let shown: Value = serde_json::from_str(&conceal_in_json(&text, &secrets, |_| false)).unwrap();
            let inner = shown["inner"].as_str().unwrap();
            for shown in [shown["text"].as_str().unwrap(), inner] {
                assert!(
                    shown.contains("***") && !shown.contains("word") && !shown.contains("0072"),
                    "{written}: {shown}"
                );
                assert!(!shown.contains("JkLT"), "{shown}");
            }
            assert!(serde_json::from_str::<Value>(inner).is_ok(), "{inner}");
        }
    }

    #[test]
    fn a_server_whose_password_is_its_name_keeps_its_name() {
        let text = r#"{"name":"postgres","error":"no password postgres"}"#;
        let shown = conceal_in_json(text, &secrets(&["postgres"]), |text| text == "postgres");
        let shown: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(shown, json!({ "name": "postgres", "error": "no password ***" }));
    }
}
