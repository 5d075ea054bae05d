//! The responses of the fast server, which does as little work as the protocol allows, so that a benchmark measures the
//! client.

use std::fmt::Write;

use serde::Deserialize;
use serde_json::value::RawValue;
use toolrack_host::mcp::codes::{INVALID_PARAMS, METHOD_NOT_FOUND};

/// The tools and the era of the server.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// The number of tools in addition to the three that can be called.
    pub tools: usize,
    /// The number of these tools on a page of a list; 0 puts all on one page.
    pub page: usize,
    /// Whether the server speaks only 2026-07-28; otherwise it speaks only older versions.
    pub is_modern: bool,
}

impl Default for Offer {
    fn default() -> Self {
        Self { tools: 20, page: 0, is_modern: false }
    }
}

/// One request, with only the fields that matter.
#[derive(Debug, Deserialize)]
pub struct Request<'a> {
    /// Absent in a notification.
    #[serde(borrow)]
    pub id: Option<&'a RawValue>,
    /// Absent in a response.
    #[serde(default, borrow)]
    pub method: Option<&'a str>,
    #[serde(default)]
    params: Params,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Params {
    name: String,
    arguments: Arguments,
    cursor: Option<String>,
    #[serde(rename = "protocolVersion")]
    version: Option<String>,
    #[serde(rename = "_meta")]
    meta: Meta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Arguments {
    text: String,
    bytes: usize,
    steps: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Meta {
    #[serde(rename = "progressToken")]
    token: Option<Box<RawValue>>,
}

/// What the server sends for one request.
#[derive(Debug, Default)]
pub struct Answer {
    /// Notifications before the response.
    pub events: Vec<String>,
    /// The response; `None` for a notification or a response of the client, which need none.
    pub response: Option<String>,
}

impl Request<'_> {
    /// Returns the answer of a server with this `offer`.
    #[must_use]
    pub fn answer(&self, offer: Offer) -> Answer {
        let (Some(id), Some(method)) = (self.id, self.method) else {
            return Answer::default();
        };
        let mut events = Vec::new();
        let result = match method {
            "server/discover" if offer.is_modern => Ok(DISCOVERED.to_owned()),
            "initialize" if !offer.is_modern => {
                let version = self.params.version.as_deref().unwrap_or("2025-11-25");
                Ok(format!(
                    r#"{{"protocolVersion":"{version}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"fast","version":"1"}}}}"#
                ))
            }
            "ping" if !offer.is_modern => Ok("{}".to_owned()),
            "tools/list" => Ok(self.page(offer)),
            "tools/call" => self.call(offer, &mut events),
            _ => Err((METHOD_NOT_FOUND, "Method not found")),
        };
        let response = match result {
            Ok(result) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
            Err((code, message)) => {
                format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#)
            }
        };
        Answer { events, response: Some(response) }
    }

    fn page(&self, offer: Offer) -> String {
        let start: usize = self.params.cursor.as_ref().and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
        let page = if offer.page == 0 { usize::MAX } else { offer.page };
        let end = offer.tools.min(start.saturating_add(page));
        let mut out = String::from(r#"{"tools":["#);
        if start == 0 {
            out += CALLABLE;
        }
        for index in start..end {
            if index > start {
                out.push(',');
            }
            let _ = write!(out, r#"{{"name":"tool_{index:04}","description":"{DESCRIPTION}","inputSchema":{SCHEMA}}}"#);
        }
        out.push(']');
        if end < offer.tools {
            let _ = write!(out, r#","nextCursor":"{end}""#);
        }
        if offer.is_modern {
            out += r#","ttlMs":0,"cacheScope":"private","resultType":"complete""#;
        }
        out.push('}');
        // If no tool follows the first three, remove the comma after them.
        if start == 0 && end == 0 { out.replacen(",]", "]", 1) } else { out }
    }

    fn call(&self, offer: Offer, events: &mut Vec<String>) -> Result<String, (i64, &'static str)> {
        let Params { name, arguments, meta, .. } = &self.params;
        let text = match name.as_str() {
            "echo" => serde_json::Value::from(arguments.text.as_str()).to_string(),
            "text" => format!("\"{}\"", "x".repeat(arguments.bytes)),
            "progress" => {
                if let Some(token) = &meta.token {
                    let total = arguments.steps;
                    events.extend((1..=total).map(|step| {
                        format!(
                            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{step},"total":{total}}}}}"#
                        )
                    }));
                }
                r#""done""#.to_owned()
            }
            _ => return Err((INVALID_PARAMS, "Unknown tool")),
        };
        let kind = if offer.is_modern { r#","resultType":"complete""# } else { "" };
        Ok(format!(r#"{{"content":[{{"type":"text","text":{text}}}]{kind}}}"#))
    }
}

/// The discovery result of a server of 2026-07-28.
const DISCOVERED: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"fast","version":"1"}}}"#;

/// The tools that can be called, with a comma after each.
const CALLABLE: &str = concat!(
    r#"{"name":"echo","description":"Returns the text.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}},"#,
    r#"{"name":"text","description":"Returns so many bytes.","inputSchema":{"type":"object","properties":{"bytes":{"type":"integer"}},"required":["bytes"]}},"#,
    r#"{"name":"progress","description":"Reports so many steps.","inputSchema":{"type":"object","properties":{"steps":{"type":"integer"}},"required":["steps"]}},"#
);

/// A description as long as that of a real tool. `peers/tool.json` repeats it and the schema, for the agents of others.
const DESCRIPTION: &str = "Creates a new issue in the given repository, with a title, a body in Markdown and any number of labels, and returns its number and its URL.";

/// A schema as large as that of a real tool.
const SCHEMA: &str = r#"{"type":"object","properties":{"owner":{"type":"string","description":"The owner of the repository"},"repo":{"type":"string","description":"The name of the repository"},"title":{"type":"string","minLength":1,"maxLength":256},"body":{"type":"string","description":"Markdown"},"labels":{"type":"array","items":{"type":"string"},"maxItems":100},"state":{"enum":["open","closed"],"default":"open"}},"required":["owner","repo","title"],"additionalProperties":false}"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agents_of_others_have_the_same_tools() {
        let of_others: serde_json::Value = serde_json::from_str(include_str!("../peers/tool.json")).unwrap();
        let schema: serde_json::Value = serde_json::from_str(SCHEMA).unwrap();
        assert_eq!((of_others["description"].as_str(), &of_others["schema"]), (Some(DESCRIPTION), &schema));
    }

    fn answered(request: &str, offer: Offer) -> serde_json::Value {
        let request: Request<'_> = serde_json::from_str(request).unwrap();
        serde_json::from_str(&request.answer(offer).response.unwrap()).unwrap()
    }

    #[test]
    fn pages_hold_every_tool_once() {
        for (tools, page, pages) in [(0, 0, 1), (1, 0, 1), (5, 2, 3), (6, 2, 3)] {
            let offer = Offer { tools, page, is_modern: false };
            let (mut names, mut cursor, mut count) = (Vec::new(), String::new(), 0);
            loop {
                let request = format!(r#"{{"id":1,"method":"tools/list","params":{{{cursor}}}}}"#);
                let answer = answered(&request, offer);
                names.extend(answer["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].to_string()));
                count += 1;
                match answer["result"]["nextCursor"].as_str() {
                    Some(next) => cursor = format!(r#""cursor":"{next}""#),
                    None => break,
                }
            }
            names.sort();
            names.dedup();
            assert_eq!((names.len(), count), (tools + 3, pages), "{tools} by {page}");
        }
    }

    #[test]
    fn the_fake_server_speaks_only_the_given_era() {
        for is_modern in [false, true] {
            let offer = Offer { is_modern, ..Offer::default() };
            let answer = |method: &str| answered(&format!(r#"{{"id":1,"method":"{method}"}}"#), offer);
            assert_eq!(answer("server/discover")["result"]["supportedVersions"][0] == "2026-07-28", is_modern);
            assert_eq!(answer("initialize")["result"].is_object(), !is_modern);
            assert_eq!(answer("tools/list")["result"]["resultType"] == "complete", is_modern);
        }
    }

    #[test]
    fn progress_goes_to_the_caller_that_asked_for_it() {
        let request = r#"{"id":1,"method":"tools/call","params":{"name":"progress","arguments":{"steps":3},"_meta":{"progressToken":7}}}"#;
        let request: Request<'_> = serde_json::from_str(request).unwrap();
        let events = request.answer(Offer::default()).events;
        assert_eq!(events.len(), 3);
        assert!(events[2].contains(r#""progressToken":7,"progress":3,"total":3"#), "{}", events[2]);
    }
}
