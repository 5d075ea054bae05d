//! Reads whole lists, page by page, within limits of pages, items, bytes and time. A list beyond a limit is an error,
//! and is never cut silently. A repeated cursor (the server's name for the next page) is an error as well, except for
//! the empty cursor of a server without pages.

use std::{collections::HashSet, time::Duration};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::{Value, json, value::RawValue};
use tokio::time::timeout;

use crate::{
    catalog::{Listed, ListedTool, ParamHeaders, UnusableTool},
    link::{Link, bounds::Bound, channel::NewRequest, decode, error::LinkError, framing::envelope::depth_exceeds},
    mcp::codes::METHOD_NOT_FOUND,
    spec::{Era, Limits, Setting},
    text::quote,
};

const TOOLS: &str = "tools/list";

/// A list in the form in which it is stored while its server does not run.
#[derive(serde::Serialize, serde::Deserialize)]
struct StoredList<'a> {
    /// Whether the server requires headers that repeat some arguments of a call.
    headers: bool,
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
}

impl Listed {
    /// Restores a list from the bytes of [`Listed::bytes_to_store`], without a connection. Returns `None` if the bytes
    /// have another form.
    pub(crate) fn from_stored(bytes: &[u8], limits: &Limits) -> Option<Self> {
        let stored_list: StoredList<'_> = serde_json::from_slice(bytes).ok()?;
        let mut tool_list = Self::default();
        tool_list.add_tools(&stored_list.tools, stored_list.headers, limits, &mut HashSet::new());
        Some(tool_list)
    }

    /// Adds tools. A tool that cannot be parsed is listed as unusable, and does not affect the others. `seen_names`
    /// contains the names of the tools so far.
    fn add_tools(
        &mut self,
        items: &[&RawValue],
        needs_headers: bool,
        limits: &Limits,
        seen_names: &mut HashSet<String>,
    ) {
        for raw in items {
            match check_depth(raw, limits).and_then(|()| decode_tool(raw, needs_headers)) {
                Ok(tool) if seen_names.insert(tool.tool.name.clone()) => self.tools.push(tool),
                Ok(tool) => self.unusable.push(UnusableTool::new(&tool.tool.name, "its name comes twice")),
                Err(why) => self.unusable.push(UnusableTool::new(&item_name(raw), &why)),
            }
        }
    }
}

impl Link {
    /// Lists all tools. A tool that cannot be parsed is listed as unusable, and does not affect the others. If
    /// `keep_raw` is set, stores the raw list in [`Listed::bytes_to_store`].
    pub(crate) async fn list_tools(&self, keep_raw: bool) -> Result<Listed, LinkError> {
        let mut listed = Listed::default();
        let declares_tools = self.session().capabilities.tools.is_some();
        if self.session().era == Era::Legacy && !declares_tools {
            return Ok(listed);
        }
        self.channel().inbound.tools_changed.note_listing();
        let mut seen_names = HashSet::new();
        let (mut fresh_for, mut raw_tools) = (None, Vec::new());
        let needs_headers = self.needs_param_headers();
        let pages = self.request_pages(TOOLS, "tools", |page, items| {
            let ttl = ttl(page);
            fresh_for = Some(fresh_for.map_or(ttl, |shortest: Duration| shortest.min(ttl)));
            listed.add_tools(items, needs_headers, self.limits(), &mut seen_names);
            if keep_raw {
                raw_tools.extend(items.iter().map(|raw| (*raw).to_owned()));
            }
        });
        match pages.await {
            // The server declares no tools and has none.
            Err(LinkError::Rpc(error)) if !declares_tools && error.code == METHOD_NOT_FOUND => {}
            pages => pages?,
        }
        // The shortest time of all pages; zero if no page was read.
        listed.fresh_for = fresh_for.unwrap_or_default();
        let stored_list = keep_raw
            .then(|| StoredList { headers: needs_headers, tools: raw_tools.iter().map(|raw| &**raw).collect() });
        listed.bytes_to_store = stored_list.and_then(|list| serde_json::to_vec(&list).ok()).map(Bytes::from);
        Ok(listed)
    }

    /// Reads a list other than that of the tools, item by item. Leaves out items that cannot be parsed, and returns
    /// their number as the second value. Like a call, this counts as a use of the server and as one of the requests
    /// that may be under way at once.
    pub(crate) async fn list<T: DeserializeOwned + Send>(
        &self,
        method: &'static str,
        field: &'static str,
    ) -> Result<(Vec<T>, usize), LinkError> {
        let (mut items, mut left_out, mut first_problem) = (Vec::new(), 0, None);
        self.request_pages(method, field, |_, raw_items| {
            for raw in raw_items {
                let parse_item = || decode::raw_object(raw).map_err(|error| format!("it cannot be read: {error}"));
                match check_depth(raw, self.limits()).and_then(|()| parse_item()) {
                    Ok(item) => items.push(item),
                    Err(why) => {
                        left_out += 1;
                        first_problem.get_or_insert_with(|| format!("{}: {why}", item_name(raw)));
                    }
                }
            }
        })
        .await?;
        if let Some(first) = first_problem {
            self.channel().inbound.warn(format!("{left_out} items of {method} are left out; the first is {first}"));
        }
        Ok((items, left_out))
    }

    /// Requests all pages of a list, and passes each page and its items to `handle_page`.
    async fn request_pages(
        &self,
        method: &'static str,
        field: &'static str,
        mut handle_page: impl FnMut(&Bytes, &[&RawValue]) + Send,
    ) -> Result<(), LinkError> {
        let time_limit = self.timeouts().list;
        let read_pages = async {
            // The task that owns the connection lists the tools, and must not wait for long calls.
            let _permit = if method == TOOLS { None } else { Some(self.request_permit().await?) };
            let meta = self.meta_for(&self.0.asker);
            let bound = Bound::of_whole_list(self.limits());
            let (mut seen_cursors, mut item_count, mut byte_count) = (HashSet::new(), 0, 0);
            let mut params = json!({});
            let mut first_page: Option<Bytes> = None;
            for _ in 0..self.limits().pages {
                let page = self.channel().request(NewRequest::new(method, &params).with_meta(&meta)).await?;
                // The empty string is a valid cursor. But a server without pages may name it where it should name none,
                // and then gives its only page again.
                if params["cursor"] == "" && first_page.as_ref() == Some(&page) {
                    return Ok(());
                }
                first_page.get_or_insert_with(|| page.clone());
                // Count the whole page with its cursor, because cursors are stored as well.
                byte_count += page.len();
                if byte_count > bound.bytes {
                    return Err(bound.too_large("LIST_TOO_LARGE", "the list, all pages together,", byte_count as u64));
                }
                let next_cursor = {
                    let decoded_page = decode::page(&page, field)?;
                    item_count += decoded_page.items.len();
                    if item_count > self.limits().items {
                        return Err(too_many_error("items", self.limits().items, Setting::MaxListItems));
                    }
                    handle_page(&page, &decoded_page.items);
                    if decoded_page.is_cut {
                        let why = "the `nextCursor` of a page is not text";
                        self.channel().inbound.warn(format!("there may be more in {method} than is shown: {why}"));
                    }
                    decoded_page.next_cursor
                };
                let Some(cursor) = next_cursor else { return Ok(()) };
                if !seen_cursors.insert(cursor.clone()) {
                    return Err(LinkError::protocol(format!("{method} gives the same cursor twice")));
                }
                params = json!({ "cursor": cursor });
            }
            Err(too_many_error("pages", self.limits().pages, Setting::MaxListPages))
        };
        timeout(time_limit, read_pages).await.unwrap_or(Err(LinkError::TimedOut {
            what: "listing",
            after: time_limit,
            setting: Setting::ListTimeout,
        }))
    }
}

/// Refuses an item of a list that nests too deep.
fn check_depth(raw: &RawValue, limits: &Limits) -> Result<(), String> {
    let max = limits.schema_depth.min(Limits::MAX_SCHEMA_DEPTH);
    // The item itself is one level.
    if depth_exceeds(raw.get().as_bytes(), max + 1) {
        return Err(format!("arrays and objects nest deeper than {max} levels in it ({})", Setting::MaxSchemaDepth));
    }
    Ok(())
}

/// Decodes a tool. If `needs_headers` is set, decodes as well which headers repeat the tool's arguments.
fn decode_tool(raw: &RawValue, needs_headers: bool) -> Result<ListedTool, String> {
    let tool = decode::tool(raw)?;
    let headers = if needs_headers && ParamHeaders::may_be_in(tool.input_schema.get()) {
        let schema: Value = serde_json::from_str(tool.input_schema.get())
            .map_err(|error| format!("its inputSchema cannot be read: {error}"))?;
        ParamHeaders::from_schema(&schema).map_err(|error| error.to_string())?
    } else {
        ParamHeaders::default()
    };
    Ok(ListedTool::new(tool, headers))
}

fn too_many_error(what: &str, limit: usize, setting: Setting) -> LinkError {
    LinkError::protocol(format!("the list has more than {limit} {what} ({setting})"))
}

/// Returns `ttlMs` of a list result; zero if it is absent, negative or invalid.
fn ttl(page: &Bytes) -> Duration {
    #[derive(serde::Deserialize)]
    struct Ttl {
        #[serde(rename = "ttlMs")]
        ttl: Option<i64>,
    }
    let ttl = serde_json::from_slice::<Ttl>(page).ok().and_then(|page| page.ttl);
    Duration::from_millis(ttl.and_then(|ttl| u64::try_from(ttl).ok()).unwrap_or(0))
}

fn item_name(raw: &RawValue) -> String {
    // Decode only the name: other fields may be invalid.
    #[derive(serde::Deserialize)]
    struct Named {
        name: String,
    }
    let named_item = serde_json::from_str::<Named>(raw.get());
    named_item.map_or_else(|_| "(without a name)".into(), |named_item| quote(&named_item.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(tools: &Value) -> Listed {
        let stored = json!({ "headers": false, "tools": tools }).to_string();
        Listed::from_stored(stored.as_bytes(), &Limits::default()).unwrap()
    }

    #[test]
    fn a_tool_that_cannot_be_used_is_named_with_the_reason_and_spares_the_others() {
        let tool = |name: &str| json!({ "name": name, "inputSchema": {} });
        let list = json!([tool("a"), { "name": "b\u{1b}[2J" }, { "inputSchema": {} }, tool("a"), tool("c")]);
        let listed = listed(&list);
        assert_eq!(listed.tools.iter().map(|tool| tool.tool.name.as_str()).collect::<Vec<_>>(), ["a", "c"]);
        let unusable: Vec<_> = listed.unusable.iter().map(ToString::to_string).collect();
        assert_eq!(unusable[0], r"the tool b\u{1b}[2J cannot be used: its inputSchema is not an object");
        assert!(unusable[1].starts_with("the tool (without a name) cannot be used: "), "{unusable:?}");
        assert_eq!(unusable[2], "the tool a cannot be used: its name comes twice");
        assert_eq!(unusable.len(), 3);
    }

    #[test]
    fn a_definition_that_nests_too_deep_makes_its_own_tool_unusable() {
        let max = Limits::default().schema_depth;
        let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({ "a": inner }));
        let list = json!([
            { "name": "fits", "inputSchema": nested(max) },
            { "name": "deep", "inputSchema": nested(max + 1) },
        ]);
        let listed = listed(&list);
        assert_eq!((listed.tools.len(), &*listed.unusable[0].name), (1, "deep"));
        assert!(listed.unusable[0].why.contains("max_schema_depth"), "{:?}", listed.unusable);
    }

    #[test]
    fn a_stored_list_of_another_form_is_no_list() {
        for stored in ["", "[]", r#"{"tools": []}"#, r#"{"headers": false, "tools": {}}"#] {
            assert!(Listed::from_stored(stored.as_bytes(), &Limits::default()).is_none(), "{stored}");
        }
    }

    #[test]
    fn a_list_is_fresh_for_as_long_as_its_page_says_and_else_not_at_all() {
        let of = |page: &'static str| ttl(&Bytes::from_static(page.as_bytes())).as_millis();
        assert_eq!(of(r#"{"ttlMs": 1500}"#), 1500);
        assert_eq!([of("{}"), of(r#"{"ttlMs": -1}"#), of(r#"{"ttlMs": "1500"}"#), of("[")], [0; 4]);
    }
}
