//! Answers a server's questions: elicitation, sampling, roots. In the legacy era (MCP 2025-11-25 and older), a question
//! is a request of the server; in the modern era (2026-07-28), it is part of an answer that requires input. An asker is
//! the part of the program that puts a question to a user, or to a model.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::timeout;
use url::Url;

use crate::{
    ask::{Abilities, Elicitation, Elicited, SharedAsker},
    egress::Guard,
    mcp::codes::{INVALID_PARAMS, METHOD_NOT_FOUND, REJECTED, SERVER_ERROR},
    page::{self, BadPage},
    spec::{Era, ServerName},
    text::quote,
};

/// The longest time that one answer may take.
const LONGEST_ANSWER: Duration = Duration::from_secs(600);

/// The method of sampling.
pub(crate) const SAMPLING: &str = "sampling/createMessage";

/// The server that asks, and the pages that it may ask the user to open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Questioner<'a> {
    pub(crate) server: &'a ServerName,
    pub(crate) page_guard: Option<&'a Guard>,
    /// The abilities that the client declared to the server when it connected.
    pub(crate) abilities: Abilities,
}

/// The refusal of a question, as a JSON-RPC error.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) code: i64,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The refusal of a request that cannot be answered now.
    pub(crate) fn busy(message: impl Into<String>) -> Self {
        Self::new(SERVER_ERROR, message)
    }

    pub(crate) fn unknown_caller() -> Self {
        Self::new(
            REJECTED,
            "calls of several people are under way, and the request does not say which of them it belongs to: run one \
             server for each person (`share` = `user`)",
        )
    }

    pub(crate) fn unanswered() -> Self {
        Self::new(REJECTED, "no person answered in time")
    }
}

/// Returns the client capabilities. They tell a server of this era which questions it may ask.
pub(crate) fn capabilities(abilities: Abilities, era: Era) -> Value {
    let mut declared_capabilities = Map::new();
    let mut task_requests = Map::new();
    let mut elicitation = Map::new();
    if abilities.forms {
        elicitation.insert("form".into(), json!({}));
    }
    if abilities.urls {
        elicitation.insert("url".into(), json!({}));
    }
    if !elicitation.is_empty() {
        declared_capabilities.insert("elicitation".into(), Value::Object(elicitation));
        task_requests.insert("elicitation".into(), json!({"create": {}}));
    }
    if abilities.sampling {
        declared_capabilities.insert("sampling".into(), json!({}));
        task_requests.insert("sampling".into(), json!({"createMessage": {}}));
    }
    if abilities.roots {
        declared_capabilities.insert("roots".into(), json!({}));
    }
    if era == Era::Legacy && !task_requests.is_empty() {
        declared_capabilities.insert("tasks".into(), json!({"list": {}, "cancel": {}, "requests": task_requests}));
    }
    Value::Object(declared_capabilities)
}

/// Answers one question, within ten minutes. Refuses a question at once if the asker lacks an ability that it needs.
pub(crate) async fn answer(
    asker: &SharedAsker,
    questioner: Questioner<'_>,
    method: &str,
    params: &Value,
) -> Result<Value, Refusal> {
    timeout(LONGEST_ANSWER, ask(asker, questioner, method, params)).await.unwrap_or_else(|_| Err(Refusal::unanswered()))
}

async fn ask(asker: &SharedAsker, questioner: Questioner<'_>, method: &str, params: &Value) -> Result<Value, Refusal> {
    let abilities = asker.abilities();
    match method {
        "elicitation/create" => elicit(asker, questioner, params).await,
        SAMPLING if abilities.sampling => {
            if params.get("tools").is_some_and(|tools| !tools.is_null()) {
                return Err(Refusal::new(INVALID_PARAMS, "sampling with tools is not supported"));
            }
            asker
                .sample(questioner.server.clone(), params.clone())
                .await
                .map_err(|refused| Refusal::new(REJECTED, refused.to_string()))
        }
        // The client declared sampling when it connected, so the answer is a rejection instead of "method not found".
        SAMPLING if questioner.abilities.sampling => Err(Refusal::new(
            REJECTED,
            "sampling was refused: the client that made the call has no model to answer with",
        )),
        "roots/list" if abilities.roots => Ok(json!({"roots": asker.roots(questioner.server.clone()).await})),
        _ => Err(Refusal::new(METHOD_NOT_FOUND, format!("{} is not supported", quote(method)))),
    }
}

/// Shows the user a form, or asks the user to open a page.
async fn elicit(asker: &SharedAsker, questioner: Questioner<'_>, params: &Value) -> Result<Value, Refusal> {
    let abilities = asker.abilities();
    let message = params["message"].as_str().unwrap_or_default().to_owned();
    let (question, schema) = match params["mode"].as_str().unwrap_or("form") {
        "form" if abilities.forms => {
            let schema = params["requestedSchema"].clone();
            if !schema["properties"].is_object() {
                return Err(Refusal::new(INVALID_PARAMS, "requestedSchema has no properties"));
            }
            let question = Elicitation::Form { message, schema: schema.clone() };
            (question, Some(schema))
        }
        "url" if abilities.urls => {
            let url = checked_page_url(params["url"].as_str().unwrap_or_default(), questioner.page_guard)?;
            let id = params["elicitationId"].as_str().map(ToOwned::to_owned);
            (Elicitation::Url { message, url, id }, None)
        }
        mode => {
            let mode = quote(mode);
            return Err(Refusal::new(INVALID_PARAMS, format!("elicitation of mode {mode} is not supported")));
        }
    };
    Ok(match (asker.elicit(questioner.server.clone(), question).await, schema) {
        (Elicited::Accept(fields), Some(schema)) => {
            json!({"action": "accept", "content": with_defaults(fields, &schema)})
        }
        (Elicited::Accept(_), None) => json!({"action": "accept"}),
        (Elicited::Decline, _) => json!({"action": "decline"}),
        (Elicited::Cancel, _) => json!({"action": "cancel"}),
    })
}

/// Returns a URL that may be shown to the user: parsed and written again, so that the shown text is unambiguous. A page
/// on this machine or in the local network is shown only if the server is there as well: a server elsewhere could use
/// the user's browser, for example, to change the settings of a router.
fn checked_page_url(url: &str, page_guard: Option<&Guard>) -> Result<String, Refusal> {
    let bad_scheme = || Refusal::new(INVALID_PARAMS, "only https URLs, or http on loopback, are shown");
    let url = Url::parse(url).map_err(|_| bad_scheme())?;
    page::judge(&url).map_err(|why| match why {
        BadPage::Scheme | BadPage::NoHost => bad_scheme(),
        why => Refusal::new(INVALID_PARAMS, format!("the page is not shown: {why}")),
    })?;
    let is_loopback = match url.host().ok_or_else(bad_scheme)? {
        url::Host::Domain(name) => name == "localhost",
        url::Host::Ipv4(ip) => ip.is_loopback(),
        url::Host::Ipv6(ip) => ip.is_loopback(),
    };
    // `judge` accepts http for every host.
    if url.scheme() != "https" && !(url.scheme() == "http" && is_loopback) {
        return Err(bad_scheme());
    }
    match page_guard.map(|guard| guard.check(&url)) {
        Some(Err(refused)) => Err(Refusal::new(INVALID_PARAMS, refused.to_string())),
        _ => Ok(url.to_string()),
    }
}

/// Sets missing fields to the schema's defaults (SEP-1034).
fn with_defaults(mut fields: Map<String, Value>, schema: &Value) -> Map<String, Value> {
    if let Some(properties) = schema["properties"].as_object() {
        for (name, property) in properties {
            if let Some(default) = property.get("default")
                && !fields.contains_key(name)
            {
                fields.insert(name.clone(), default.clone());
            }
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Egress;

    #[test]
    fn fields_left_out_get_the_defaults_and_given_ones_stay() {
        let schema = json!({"properties": {"name": {"default": "John"}, "age": {"default": 30}, "x": {}}});
        let given = json!({"age": 7}).as_object().cloned().unwrap();
        assert_eq!(Value::Object(with_defaults(given, &schema)), json!({"name": "John", "age": 7}));
    }

    #[test]
    fn only_web_urls_are_shown() {
        let with_userinfo = "https://good.example@evil.example/";
        for bad in ["javascript:alert(1)", "file:///etc/passwd", "http://example.com/", "x", "data:,x", with_userinfo] {
            assert!(checked_page_url(bad, None).is_err(), "{bad}");
        }
        assert_eq!(checked_page_url("https://a.example/x y", None).unwrap(), "https://a.example/x%20y");
        assert!(checked_page_url("http://127.0.0.1:80/", None).is_ok());
        assert!(checked_page_url("http://[::1]/", None).is_ok());
    }

    #[test]
    fn a_page_cannot_be_nearer_than_the_server_that_asks_for_it() {
        let egress = Egress::default();
        let far = egress.guard_for_server(&Url::parse("https://mcp.example.com/mcp").unwrap());
        let near = egress.guard_for_server(&Url::parse("http://localhost:9/mcp").unwrap());
        for inside in ["http://localhost:8080/admin", "https://192.168.1.1/reset", "https://169.254.169.254/"] {
            let refused = checked_page_url(inside, Some(&far)).unwrap_err();
            assert!(refused.message.contains("the egress rules refuse "), "{inside}: {refused:?}");
        }
        assert!(checked_page_url("http://localhost:8080/admin", Some(&near)).is_ok());
        assert!(checked_page_url("http://localhost:8080/admin", Some(&egress.guard_for_local_programs())).is_ok());
        assert!(checked_page_url("https://mcp.example.com/visit", Some(&far)).is_ok());
    }

    #[test]
    fn the_host_declares_only_what_it_can_do() {
        assert_eq!(capabilities(Abilities::NONE, Era::Legacy), json!({}));
        let all = capabilities(Abilities::ALL, Era::Legacy);
        assert_eq!(all["elicitation"], json!({"form": {}, "url": {}}));
        assert!(all["tasks"]["requests"]["sampling"].is_object());
        assert!(capabilities(Abilities::ALL, Era::Modern).get("tasks").is_none());
    }
}
