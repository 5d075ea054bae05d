//! Checks the headers of a request, and that they agree with its body.

use std::net::IpAddr;

use axum::http::{HeaderMap, StatusCode, header};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::{Map, Value};
use toolrack_host::Era;
use url::Url;

use super::super::{
    Gateway,
    methods::{ClientCaller, client_name},
    protocol_names::{LEGACY_VERSIONS, META_CAPABILITIES, META_CLIENT, META_VERSION, MODERN_VERSION},
    refusal::{Refusal, quoted},
    relay,
    session::ClientInfo,
};

pub(super) const VERSION_HEADER: &str = "mcp-protocol-version";
const METHOD_HEADER: &str = "mcp-method";
const NAME_HEADER: &str = "mcp-name";

/// The value of a header as text. An error if it is not ASCII, or if the header occurs twice.
pub(super) fn header_text<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    match (value.to_str(), values.next()) {
        (Ok(text), None) => Ok(Some(text)),
        _ => Err(Refusal::header_mismatch(format!("{name} occurs twice, or is not ASCII"))),
    }
}

/// Refuses requests of foreign web pages, even if they use a name that points at this machine (DNS rebinding).
pub(super) fn check_host_and_origin(headers: &HeaderMap, hosts: &[String]) -> Result<(), Refusal> {
    let forbidden = |what: &str| {
        Refusal::invalid_request(format!("this endpoint does not accept {what} of this request"))
            .status(StatusCode::FORBIDDEN)
    };
    for name in [header::HOST, header::ORIGIN] {
        if headers.get_all(&name).iter().nth(1).is_some() {
            let refusal = Refusal::invalid_request(format!("there is more than one header {name}"));
            return Err(refusal.status(StatusCode::BAD_REQUEST));
        }
    }
    if let Some(host) = headers.get(header::HOST) {
        let host = host.to_str().ok().and_then(|host| Url::parse(&format!("http://{host}/")).ok());
        if !host.is_some_and(|url| is_own_host(&url, hosts)) {
            return Err(forbidden("the Host"));
        }
    }
    if let Some(origin) = headers.get(header::ORIGIN) {
        let origin = origin.to_str().ok().and_then(|origin| Url::parse(origin).ok());
        if !origin.is_some_and(|url| matches!(url.scheme(), "http" | "https") && is_own_host(&url, hosts)) {
            return Err(forbidden("the Origin"));
        }
    }
    Ok(())
}

/// Whether the host of a URL is this machine, or one of `hosts`, which are names with or without a port.
fn is_own_host(url: &Url, hosts: &[String]) -> bool {
    let Some(host) = url.host_str() else { return false };
    let unbracketed = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = host == "localhost" || unbracketed.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let with_port = url.port().map(|port| format!("{host}:{port}"));
    let is_allowed = |allowed: &String| {
        let matches = |name: &str| allowed.eq_ignore_ascii_case(name);
        matches(host) || matches(unbracketed) || with_port.as_deref().is_some_and(matches)
    };
    is_loopback || hosts.iter().any(is_allowed)
}

/// Refuses a body that is not JSON.
pub(super) fn require_json(headers: &HeaderMap) -> Result<(), Refusal> {
    let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    if media_type.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Refusal::invalid_request("the Content-Type is not application/json").status(StatusCode::UNSUPPORTED_MEDIA_TYPE))
}

/// Whether the client accepts the media type `kind/subtype`. A client without `Accept` accepts anything.
pub(super) fn accepts(headers: &HeaderMap, kind: &str, subtype: &str) -> bool {
    let mut accept_headers = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).peekable();
    if accept_headers.peek().is_none() {
        return true;
    }
    accept_headers.flat_map(|value| value.split(',')).any(|range| {
        let range = range.split(';').next().unwrap_or_default().trim();
        let (range_kind, range_subtype) = range.split_once('/').unwrap_or((range, ""));
        (range_kind == "*" || range_kind.eq_ignore_ascii_case(kind))
            && (range_subtype == "*" || range_subtype.eq_ignore_ascii_case(subtype))
    })
}

/// The parameters that headers repeat.
#[derive(Debug, Default, Deserialize)]
struct Params {
    #[serde(rename = "_meta", default)]
    meta: Option<Map<String, Value>>,
    #[serde(default)]
    name: Value,
    #[serde(default)]
    uri: Value,
}

/// What a request says about itself, in its parameters and in its headers. Both must agree.
#[derive(Debug)]
pub(super) struct Claims<'h> {
    params: Params,
    headers: &'h HeaderMap,
}

impl<'h> Claims<'h> {
    pub(super) fn read(params: &str, headers: &'h HeaderMap) -> Self {
        // Malformed parameters count as missing here, and are refused later in either era.
        Self { params: serde_json::from_str(params).unwrap_or_default(), headers }
    }

    fn meta(&self, key: &str) -> Option<&Value> {
        self.params.meta.as_ref()?.get(key)
    }

    /// The era of the request. An error if it has a version that the gateway does not know.
    pub(super) fn era(&self) -> Result<Era, Refusal> {
        match header_text(self.headers, VERSION_HEADER)? {
            // `check_modern` compares this version with the header.
            _ if self.meta(META_VERSION).is_some() => Ok(Era::Modern),
            Some(MODERN_VERSION) => Ok(Era::Modern),
            Some(version) if !LEGACY_VERSIONS.contains(&version) => Err(Refusal::unsupported_version(version)),
            _ => Ok(Era::Legacy),
        }
    }

    /// Checks what every request of 2026-07-28 must have. Returns what its client says about itself.
    pub(super) fn check_modern(&self, method: &str) -> Result<ClientInfo, Refusal> {
        let (version, client) = self.required_meta()?;
        require_header(self.headers, VERSION_HEADER, version)?;
        if version != MODERN_VERSION {
            return Err(Refusal::unsupported_version(version));
        }
        require_header(self.headers, METHOD_HEADER, method)?;
        let name = match method {
            "tools/call" | "prompts/get" => &self.params.name,
            "resources/read" => &self.params.uri,
            _ => return Ok(client),
        };
        if let Some(name) = name.as_str() {
            require_header(self.headers, NAME_HEADER, name)?;
        }
        Ok(client)
    }

    fn required_meta(&self) -> Result<(&str, ClientInfo), Refusal> {
        required_meta(self.params.meta.as_ref())
    }
}

/// The fields of `_meta` that every request of 2026-07-28 must have: its version, and what its client can do. The name
/// of the client is optional.
fn required_meta(meta: Option<&Map<String, Value>>) -> Result<(&str, ClientInfo), Refusal> {
    let missing_field = |key: &str| Refusal::malformed_meta(format!("_meta lacks {key}"));
    let version = meta.and_then(|meta| meta.get(META_VERSION)).and_then(Value::as_str);
    let version = version.ok_or_else(|| missing_field(META_VERSION))?;
    let capabilities = meta.and_then(|meta| meta.get(META_CAPABILITIES)).and_then(Value::as_object);
    let capabilities = capabilities.ok_or_else(|| missing_field(META_CAPABILITIES))?;
    let name = meta.and_then(|meta| meta.get(META_CLIENT)?.get("name")?.as_str()).map(client_name);
    Ok((version, ClientInfo { abilities: relay::abilities(capabilities), name, may_batch: false }))
}

/// Checks the parameters of a request that has no headers, for example over stdio. Returns what its client says about
/// itself. `None` if the parameters have no `_meta` of 2026-07-28.
pub(in super::super) fn modern_client(params: &str) -> Option<Result<ClientInfo, Refusal>> {
    let params: Params = serde_json::from_str(params).unwrap_or_default();
    let meta = params.meta.as_ref();
    meta.filter(|meta| meta.contains_key(META_VERSION))?;
    Some(match required_meta(meta) {
        Ok((version, _)) if version != MODERN_VERSION => Err(Refusal::unsupported_version(version)),
        other => other.map(|(_, client)| client),
    })
}

/// Refuses a request in which a header is missing, or differs from the value `expected` in the body.
fn require_header(headers: &HeaderMap, name: &str, expected_value: &str) -> Result<(), Refusal> {
    let received_value =
        header_text(headers, name)?.ok_or_else(|| Refusal::header_mismatch(format!("{name} is missing")))?;
    if decode(received_value).as_deref() == Some(expected_value) {
        return Ok(());
    }
    let (received_value, expected_value) = (quoted(received_value), quoted(expected_value));
    Err(Refusal::header_mismatch(format!("{name} is {received_value}, but the body says {expected_value}")))
}

/// Decodes the value of a header: MCP writes a text that a header cannot contain as `=?base64?…?=`. `None` if the part
/// inside is not UTF-8 in Base64.
fn decode(value: &str) -> Option<String> {
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        None => Some(value.to_owned()),
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
    }
}

/// Checks the headers of a tool call: a tool can demand that headers repeat some of its arguments. An error if such a
/// header is missing or differs from its argument.
pub(super) fn require_matching_headers(
    gateway: &Gateway,
    caller: &ClientCaller,
    params: &str,
    headers: &HeaderMap,
) -> Result<(), Refusal> {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    #[derive(Default, Deserialize)]
    struct Arguments {
        #[serde(default)]
        arguments: Option<Map<String, Value>>,
    }
    let catalog = gateway.0.host.catalog();
    // Malformed parameters and an unknown name are refused later.
    let Ok(Named { name }) = serde_json::from_str(params) else { return Ok(()) };
    let Ok(tool) = gateway.find_tool(&catalog, &caller.view, &name) else { return Ok(()) };
    if !tool.may_mirror() {
        return Ok(());
    }
    let Arguments { arguments } = serde_json::from_str(params).unwrap_or_default();
    for (name, expected_value) in tool.mirrored_headers(&arguments.unwrap_or_default()) {
        let received_value = header_text(headers, name.as_str())?;
        let expected_value = expected_value.as_ref().and_then(|expected_value| expected_value.to_str().ok());
        match (received_value, expected_value) {
            (None, None) => {}
            (Some(received_value), Some(expected_value)) if values_match(received_value, expected_value) => {}
            (None, Some(_)) => return Err(Refusal::header_mismatch(format!("{name} is missing"))),
            _ => return Err(Refusal::header_mismatch(format!("{name} does not match the body"))),
        }
    }
    Ok(())
}

/// Whether the values of a header and of an argument are equal, as texts or as numbers.
fn values_match(received_value: &str, expected_value: &str) -> bool {
    let (Some(received_value), Some(expected_value)) = (decode(received_value), decode(expected_value)) else {
        return false;
    };
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    received_value == expected_value
        || number(&received_value).is_some_and(|received_value| number(&expected_value) == Some(received_value))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(of: &[(&str, &str)]) -> HeaderMap {
        of.iter()
            .map(|(name, value)| {
                (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
            })
            .collect()
    }

    #[test]
    fn only_names_of_this_machine_and_allowed_hosts_are_accepted() {
        let allowed = ["rack.example".to_owned(), "other.example:8080".to_owned()];
        for (host, origin, is_accepted) in [
            ("127.0.0.1:80", None, true),
            ("localhost", Some("http://localhost:3000"), true),
            ("[::1]:9", Some("http://[::1]"), true),
            ("Rack.Example:443", Some("https://rack.example"), true),
            ("other.example:8080", None, true),
            ("other.example:80", None, false),
            ("evil.example", None, false),
            ("127.0.0.1", Some("http://evil.example"), false),
            ("127.0.0.1", Some("null"), false),
            ("127.0.0.1.evil.example", None, false),
            ("localhost@evil.example", None, false),
        ] {
            let mut all = vec![("host", host)];
            all.extend(origin.map(|origin| ("origin", origin)));
            assert_eq!(check_host_and_origin(&headers(&all), &allowed).is_ok(), is_accepted, "{host} {origin:?}");
        }
    }

    #[test]
    fn a_request_with_two_hosts_or_two_origins_is_refused() {
        for (one, other) in [
            (("host", "localhost"), ("host", "evil.example")),
            (("origin", "http://localhost"), ("origin", "http://localhost")),
        ] {
            let mut both = headers(&[("host", "localhost"), one]);
            both.append(HeaderName::from_static(other.0), HeaderValue::from_static(other.1));
            assert!(check_host_and_origin(&both, &[]).is_err(), "{other:?}");
        }
    }

    #[test]
    fn media_types_are_accepted_by_name_and_by_star() {
        for (accept, is_accepted) in [
            ("application/json, text/event-stream", true),
            ("*/*", true),
            ("text/*;q=0.5, application/JSON", true),
            ("application/json", false),
        ] {
            let headers = headers(&[("accept", accept)]);
            let both = accepts(&headers, "application", "json") && accepts(&headers, "text", "event-stream");
            assert_eq!(both, is_accepted, "{accept}");
        }
        assert!(accepts(&HeaderMap::new(), "text", "event-stream"));
    }

    #[test]
    fn numbers_are_compared_as_numbers_and_encoded_text_as_text() {
        assert!(values_match("42.0", "42"));
        assert!(values_match("=?base64?SGVsbG8=?=", "Hello"));
        assert!(!values_match("=?base64?***?=", "***"));
        assert!(!values_match("nan", "NaN"));
    }
}
