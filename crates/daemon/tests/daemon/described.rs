//! The requests that each route of the published description refuses. The rows are made from the description, so no
//! route is left out.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::up::{Up, fake};

/// An operation of the description, with the parameters of its path filled in.
struct Operation {
    method: Method,
    /// The path as the description has it.
    template: String,
    takes_body: bool,
    needs_token: bool,
    takes_query: bool,
}

impl Operation {
    /// The path, with `part` for each parameter.
    fn path(&self, part: &str) -> String {
        let filled = self.template.split('/').map(|piece| if piece.starts_with('{') { part } else { piece });
        filled.collect::<Vec<_>>().join("/")
    }

    fn has_parts(&self) -> bool {
        self.template.contains('{')
    }

    /// A body that the daemon can read, if the operation has a body.
    fn body(&self) -> Option<Value> {
        let known = match &*self.template {
            "/api/v1/servers" => json!({ "name": "x", "entry": { "command": "x" }, "dry_run": true }),
            "/api/v1/servers/{name}" => json!({ "entry": {} }),
            "/api/v1/servers/{name}/prompts/get" => json!({ "name": "greet" }),
            "/api/v1/servers/{name}/resources/read" => json!({ "uri": "fake://note" }),
            "/api/v1/servers/{name}/sign-in/address" => json!({ "address": "http://127.0.0.1:1/" }),
            "/api/v1/me/credentials/{name}" => json!({ "value": "x" }),
            "/api/v1/me/servers/{name}" => json!({ "url": "https://mcp.example/" }),
            "/api/v1/members/{member}" => json!({ "role": "user" }),
            "/api/v1/approvals/{id}" => json!({ "answer": "once" }),
            _ => json!({}),
        };
        self.takes_body.then_some(known)
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.template)
    }
}

fn described() -> Value {
    serde_json::from_str(&toolrack_daemon::openapi()).unwrap()
}

fn operations() -> Vec<Operation> {
    let mut operations = Vec::new();
    for (template, item) in described()["paths"].as_object().unwrap() {
        for (method, described) in item.as_object().unwrap() {
            let Ok(method) = method.to_uppercase().parse::<Method>() else { continue };
            let parameters = described["parameters"].as_array().cloned().unwrap_or_default();
            operations.push(Operation {
                method,
                template: template.clone(),
                takes_body: described.get("requestBody").is_some(),
                needs_token: described["security"] != json!([{}]),
                takes_query: parameters.iter().any(|parameter| parameter["in"] == "query"),
            });
        }
    }
    assert!(operations.len() > 50, "{}", operations.len());
    operations
}

/// Sends a request, and returns the status, the code and the message of the error.
async fn refused(request: RequestBuilder, what: &str) -> (u16, String, String) {
    let response = request.send().await.unwrap_or_else(|error| panic!("{what}: {error}"));
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    let error: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{what}: {status} {text}"));
    let word = |name: &str| error["error"][name].as_str().unwrap_or_else(|| panic!("{what}: {error}")).to_owned();
    (status, word("code"), word("message"))
}

/// Collects the schemas to which the description refers.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
            members.values().for_each(|member| references(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn every_reference_of_the_description_leads_to_a_schema() {
    let (described, mut found) = (described(), Vec::new());
    references(&described, &mut found);
    assert!(found.len() > 100, "{}", found.len());
    found.retain(|reference| described.pointer(reference.trim_start_matches('#')).is_none());
    assert_eq!(found, [""; 0], "a type of a query needs `#[param(inline)]`");
}

#[tokio::test]
async fn every_address_but_the_two_for_monitors_wants_the_token_of_this_launch() {
    let up = Up::with(&[]).await;
    for operation in operations() {
        let url = format!("{}{}", up.url, operation.path("x"));
        let request = || up.client.request(operation.method.clone(), &url);
        if !operation.needs_token {
            assert_eq!(request().send().await.unwrap().status(), 200, "{operation}");
            continue;
        }
        for given in ["", "Bearer", "Bearer kez", "Bearer key2", "Bearer KEY", "Basic key", "key"] {
            let request = if given.is_empty() { request() } else { request().header("authorization", given) };
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), 401, "{operation} {given}");
            assert!(response.headers().contains_key("www-authenticate"), "{operation} {given}");
        }
        let foreign = request().bearer_auth("key").header("origin", "http://127.0.0.1:1");
        let (status, code, _) = refused(foreign, &operation.to_string()).await;
        assert_eq!((status, &*code), (403, "WRONG_ORIGIN"), "{operation}");
    }
    up.down().await;
}

#[tokio::test]
async fn every_route_with_a_body_refuses_a_body_that_does_not_fit_its_description() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    let before = up.file();
    let large = format!("{{\"name\": \"{}\"}}", "x".repeat(4 * 1024 * 1024));
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    let json = Some("application/json");
    let rows: [(Option<&str>, &[u8], u16, &str); 14] = [
        (json, b"", 400, "BAD_BODY"),
        (json, b"{", 400, "BAD_BODY"),
        (json, b"null", 400, "BAD_BODY"),
        (json, b"7", 400, "BAD_BODY"),
        (json, b"\"fake\"", 400, "BAD_BODY"),
        (json, b"[]", 400, "BAD_BODY"),
        (json, b"{\"no_such_member\": 1}", 400, "BAD_BODY"),
        (json, b"{} {}", 400, "BAD_BODY"),
        (json, b"{\"name\": \"\xff\"}", 400, "BAD_BODY"),
        (json, deep.as_bytes(), 400, "BAD_BODY"),
        (json, large.as_bytes(), 413, "TOO_LARGE"),
        (None, b"{}", 415, "NOT_JSON"),
        (Some("text/plain"), b"{}", 415, "NOT_JSON"),
        (Some("application/x-www-form-urlencoded"), b"name=fake", 415, "NOT_JSON"),
    ];
    for operation in operations().iter().filter(|operation| operation.takes_body) {
        for (kind, body, status, code) in rows {
            let mut request = up.request(operation.method.clone(), &operation.path("fake")).body(body.to_vec());
            if let Some(kind) = kind {
                request = request.header("content-type", kind);
            }
            let what = format!("{operation} {kind:?} {}", String::from_utf8_lossy(&body[..body.len().min(40)]));
            let (found, word, message) = refused(request, &what).await;
            assert_eq!((found, &*word), (status, code), "{what}: {message}");
            assert!(status != 413 || message.contains("4194304 bytes"), "{what}: {message}");
        }
    }
    assert_eq!((up.file(), up.get("/api/v1/overview").await["calls"]["total"].clone()), (before, json!(0)));
    up.down().await;
}

#[tokio::test]
async fn a_query_that_is_not_described_is_refused_at_every_address_that_takes_one() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    for operation in operations().iter().filter(|operation| operation.takes_query) {
        for query in ["no_such=1", "limit=1&no_such=1"] {
            let request = up.request(operation.method.clone(), &format!("{}?{query}", operation.path("fake")));
            let (status, code, message) = refused(request, &operation.to_string()).await;
            assert_eq!((status, &*code), (400, "BAD_QUERY"), "{operation} {query}: {message}");
        }
    }
    for (method, path, queries) in [
        (
            Method::GET,
            "/api/v1/tools",
            &["limit=-1", "limit=1.5", "limit=", "limit=1&limit=2", "limit=99999999999999999999"][..],
        ),
        (Method::GET, "/api/v1/servers/fake/logs", &["limit=all", "limit=-1"]),
        (Method::GET, "/api/v1/sessions", &["limit=many", "q=a&q=b"]),
        (Method::GET, "/api/v1/sessions/last", &["after=x", "after=-1", "limit=x"]),
        (Method::GET, "/api/v1/sessions/last/export", &["format=pdf", "format=MD", "format="]),
        (
            Method::GET,
            "/api/v1/audit",
            &["since=yesterday", "since=2026-11-22", "since=", "denied=maybe", "before=-1", "limit=x"],
        ),
        (Method::DELETE, "/api/v1/servers/fake", &["dry_run=perhaps", "dry_run=1", "dry_run="]),
        (Method::DELETE, "/api/v1/answers", &["server=a&server=b"]),
    ] {
        for query in queries {
            let request = up.request(method.clone(), &format!("{path}?{query}"));
            let (status, code, message) = refused(request, path).await;
            assert_eq!((status, &*code), (400, "BAD_QUERY"), "{path} {query}: {message}");
        }
    }
    assert_eq!(up.get("/api/v1/servers/fake").await["name"], "fake", "what could not be read removed nothing");
    up.down().await;
}

#[tokio::test]
async fn a_route_has_only_the_documented_methods() {
    let up = Up::with(&[]).await;
    let all = operations();
    for operation in &all {
        let methods = [Method::GET, Method::POST, Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS];
        let has =
            |method: &Method| all.iter().any(|other| other.template == operation.template && other.method == *method);
        for method in methods.into_iter().filter(|method| !has(method)) {
            let what = format!("{method} {}", operation.template);
            let (status, code, _) = refused(up.request(method, &operation.path("x")), &what).await;
            assert_eq!((status, &*code), (405, "METHOD_NOT_ALLOWED"), "{what}");
        }
        // Another segment, or another case, makes another path.
        for path in [format!("{}/more/of/it", operation.path("x")), operation.path("x").to_uppercase()] {
            let (status, code, _) = refused(up.request(operation.method.clone(), &path), &path).await;
            assert_eq!((status, &*code), (404, "NOT_FOUND"), "{path}");
        }
    }
    up.down().await;
}

/// Percent-encoded path segments that no client of ours writes.
const ODD: &[&str] = &[
    "%00",
    "%0d%0aset-cookie:%20a=b",
    "%1b%5b31mred",
    "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "%2F",
    "%3Cscript%3E",
    "%25%66%66",
    "%e2%80%aetxt.exe",
    "%f0%9f%90%99",
    "q1-00000000",
    "coder:q1-00000000",
    "' OR 1=1 --",
];

#[tokio::test]
async fn an_unknown_id_has_a_safe_error_for_any_text() {
    let up = Up::with(&[("fake", fake(&[]))]).await;
    let before = up.file();
    let long = "x".repeat(5_000);
    for operation in operations().iter().filter(|operation| operation.has_parts()) {
        let request = |part: &str| {
            let request = up.request(operation.method.clone(), &operation.path(part));
            match operation.body() {
                Some(body) => request.json(&body),
                None => request,
            }
        };
        for part in ODD.iter().copied().chain([&*long]) {
            let what = format!("{operation} {}", &part[..part.len().min(30)]);
            let (status, _, message) = refused(request(part), &what).await;
            assert_eq!(status, 404, "{what}: {message}");
            assert!(message.len() < 1_000, "{what}: {message}");
            let hidden = |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            assert!(!message.contains(hidden), "{what}: {message:?}");
        }
        for part in ["%ff", "a%c0%af", "%ed%a0%80"] {
            let (status, code, _) = refused(request(part), &operation.to_string()).await;
            assert_eq!((status, &*code), (400, "BAD_PATH"), "{operation} {part}");
        }
    }
    for part in ODD {
        let what = format!("the world of {part}");
        let inside = up.request(Method::GET, &format!("/agents/{part}/api/v1/servers"));
        let (status, code, message) = refused(inside, &what).await;
        assert_eq!((status, &*code, message.contains(char::is_control)), (404, "UNKNOWN_AGENT", false), "{what}");
    }
    assert_eq!(up.file(), before);
    up.down().await;
}
