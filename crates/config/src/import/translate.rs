//! Translates an entry (the configuration of one server) of another program into an entry of Toolrack. `tables` has the
//! meaning of each field, and `texts` translates placeholders.

use std::{borrow::Cow, ops::Range};

use serde_json::Number;
use toolrack_host::{ServerName, text::for_line};

use super::{
    Client, Origin, env_file,
    tables::{Meaning, UrlTransport, address_rank, meaning},
    texts::TextTranslator,
};
use crate::{
    document::Document,
    entry::{Report, canonical},
    home::{below_home, is_full_or_placeholder},
    node::{Member, Node, Value},
    placeholder::{BareName, is_variable_name},
    problem::Problem,
    suggest::intended_name,
};

/// The longest time that Toolrack accepts, in seconds: a day.
const MAX_SECONDS: f64 = 24.0 * 60.0 * 60.0;

/// The units of times in the files of other programs, in seconds.
const SECOND: f64 = 1.0;
const MILLISECOND: f64 = 0.001;

/// An entry in Toolrack's form, each field with its place in the other program's file.
#[derive(Debug)]
pub(super) struct Translated {
    pub(super) entry: Member,
    pub(super) notes: Vec<String>,
}

/// Translates the entry `raw_entry`. If it is not an object, reports an error. [`decode`](crate::entry::decode) checks
/// the values later.
pub(super) fn entry(origin: &Origin<'_>, raw_entry: &Member, report: &mut Report<'_>) -> Option<Translated> {
    let Some(members) = raw_entry.node.members() else {
        let message = format!("an entry must be an object, not {}", raw_entry.node.kind());
        report.add(Problem::error(message), &raw_entry.node.span);
        return None;
    };
    let mut translation = Translation {
        texts: TextTranslator::new(origin),
        fields: Vec::new(),
        address: None,
        type_member: None,
        env_file: Vec::new(),
    };
    let name = translation.valid_name(&raw_entry.name);
    for member in members.iter().filter(|member| !matches!(member.node.value, Value::Null)) {
        translation.translate_field(member);
    }
    translation.add_env_file();
    translation.add_type();
    translation.apply_disabled_servers(&raw_entry.name, &raw_entry.name_span);
    let Translation { texts, fields, .. } = translation;
    let node = Node { span: raw_entry.node.span.clone(), value: Value::Map(fields) };
    let entry = Member { name: name.into_owned(), name_span: raw_entry.name_span.clone(), node };
    Some(Translated { entry, notes: texts.notes })
}

/// An entry that is being translated.
struct Translation<'a> {
    texts: TextTranslator<'a>,
    /// The fields of Toolrack's entry that are known so far.
    fields: Vec<Member>,
    /// The rank of the strongest address so far (a lower rank is stronger), and the transport that its field implies.
    address: Option<(usize, UrlTransport)>,
    /// The member `type`.
    type_member: Option<Member>,
    /// The variables of an env file. They wait until `env` is known, because variables in `env` override them.
    env_file: Vec<Member>,
}

impl Translation<'_> {
    fn client(&self) -> Client {
        self.texts.client()
    }

    /// Returns `name`, or a similar name if Toolrack does not accept `name` for a server.
    fn valid_name<'n>(&mut self, name: &'n str) -> Cow<'n, str> {
        if ServerName::new(name).is_ok() {
            return Cow::Borrowed(name);
        }
        let to_valid =
            |c: char| if c == '/' || for_line(c.encode_utf8(&mut [0; 4])) != c.to_string() { '-' } else { c };
        let valid_name: String = name.trim().chars().map(to_valid).collect();
        let valid_name = &valid_name[..valid_name.floor_char_boundary(ServerName::MAX_BYTES)];
        if ServerName::new(valid_name).is_err() {
            // `decode` will report the problem.
            return Cow::Borrowed(name);
        }
        let client = self.client();
        self.texts.note(format!("{client} calls it `{name}`, which is not a valid name in Toolrack"));
        Cow::Owned(valid_name.to_owned())
    }

    /// Translates one member of the entry, by its meaning in the table of the other program's fields.
    fn translate_field(&mut self, member: &Member) {
        let name = canonical(&member.name);
        let Some(meaning) = meaning(self.client(), &name) else {
            return self.leave_out_unknown(member);
        };
        match meaning {
            Meaning::Type => self.type_member = Some(member.clone()),
            Meaning::Command => self.add_command(member),
            Meaning::Texts(toolrack_name) => self.add_texts(member, toolrack_name),
            Meaning::Folder => self.add_folder(member),
            Meaning::Address(transport) => self.add_address(member, address_rank(self.client(), &name), transport),
            Meaning::Same(toolrack_name) => self.add(toolrack_name, member, member.node.value.clone()),
            Meaning::Tools(list) => {
                self.merge("tools", member, vec![positioned_member(list, member, member.node.value.clone())])
            }
            Meaning::Milliseconds(fields) => self.add_time(member, &member.name, MILLISECOND, fields),
            Meaning::Seconds(fields) => self.add_time(member, &member.name, SECOND, fields),
            Meaning::OpenCodeTimes => self.add_opencode_times(member),
            Meaning::Inherited => self.add_inherited(member),
            Meaning::VariableHeaders => self.add_variable_headers(member),
            Meaning::BearerVariable => self.add_bearer(member),
            Meaning::LeftOut(why) => self.note_left_out(&member.name, why),
            Meaning::EnvFile => self.read_env_file(member),
            Meaning::Ignored => {}
        }
    }

    /// Notes for the user that an unknown field is not imported.
    fn leave_out_unknown(&mut self, member: &Member) {
        let similar = intended_name(&member.name, ["command", "args", "env", "url", "headers", "type"]);
        let why = match similar {
            Some(similar) => format!("it is not a known field; `{similar}` may be meant"),
            None => "it is not a known field".to_owned(),
        };
        self.note_left_out(&member.name, &why);
    }

    /// Notes for the user that the other program's field `field` is not imported.
    fn note_left_out(&mut self, field: &str, why: &str) {
        self.texts.note(format!("`{field}` is left out: {why}"));
    }

    /// Adds Toolrack's field `name`, with the position of `member`. If it is set already, the first value stays.
    fn add(&mut self, name: &str, member: &Member, value: Value) {
        if self.fields.iter().any(|other| other.name == name) {
            return self.note_left_out(&member.name, "another field sets it already");
        }
        self.fields.push(positioned_member(name, member, value));
    }

    /// Adds `members` to Toolrack's field `name`, which is an object.
    fn merge(&mut self, name: &str, member: &Member, members: Vec<Member>) {
        match self.fields.iter_mut().find(|other| other.name == name).map(|other| &mut other.node.value) {
            Some(Value::Map(present_members)) => present_members.extend(members),
            Some(_) => self.note_left_out(&member.name, "another field sets it already"),
            None => self.fields.push(positioned_member(name, member, Value::Map(members))),
        }
    }

    /// Reads the program: a text, a list with its arguments, or Zed's object.
    fn add_command(&mut self, member: &Member) {
        let nodes = match &member.node.value {
            Value::List(nodes) => nodes,
            Value::Map(parts) if self.client() == Client::Zed => return self.add_zed_command(parts),
            _ => {
                let value = self.translated_value(&member.name, &member.node, BareName::Literal);
                return self.add("command", member, value);
            }
        };
        let mut values = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            let field = format!("{}[{index}]", member.name);
            values
                .push(Node { span: node.span.clone(), value: self.translated_value(&field, node, BareName::Literal) });
        }
        let arguments = values.split_off(values.len().min(1));
        let command = values.pop().map_or(Value::Text(String::new()), |node| node.value);
        self.add("command", member, command);
        if !arguments.is_empty() {
            self.add("args", member, Value::List(arguments));
        }
    }

    /// Reads the object that Zed used for `command` until 2025: `path`, `args` and `env`.
    fn add_zed_command(&mut self, parts: &[Member]) {
        for part in parts.iter().filter(|part| !matches!(part.node.value, Value::Null)) {
            match part.name.as_str() {
                "path" => self.add_command(part),
                "args" | "env" => self.add_texts(part, &part.name),
                _ => self.leave_out_unknown(part),
            }
        }
    }

    fn add_texts(&mut self, member: &Member, toolrack_name: &str) {
        let bare_name =
            if matches!(toolrack_name, "env" | "headers") { BareName::Placeholder } else { BareName::Literal };
        let value = self.translated_value(&member.name, &member.node, bare_name);
        match value {
            // An empty list or object sets nothing. Some programs write them as defaults.
            Value::List(nodes) if nodes.is_empty() => {}
            Value::Map(members) if members.is_empty() => {}
            Value::Map(members) => self.merge(toolrack_name, member, members),
            value => self.add(toolrack_name, member, value),
        }
    }

    /// Returns the value of `node` with the placeholders of all of its texts translated.
    fn translated_value(&mut self, field: &str, node: &Node, bare_name: BareName) -> Value {
        match &node.value {
            Value::Text(text) => Value::Text(self.texts.translate(field, text, bare_name)),
            Value::List(nodes) => Value::List(
                nodes
                    .iter()
                    .enumerate()
                    .map(|(index, node)| Node {
                        span: node.span.clone(),
                        value: self.translated_value(&format!("{field}[{index}]"), node, bare_name),
                    })
                    .collect(),
            ),
            Value::Map(members) => Value::Map(
                members
                    .iter()
                    .map(|member| {
                        let value = self.translated_value(&format!("{field}.{}", member.name), &member.node, bare_name);
                        positioned_member(&member.name, member, value)
                    })
                    .collect(),
            ),
            other => other.clone(),
        }
    }

    /// Translates the working folder. A relative folder in a project's file becomes absolute, because the entry goes
    /// into another file.
    fn add_folder(&mut self, member: &Member) {
        let file = self.texts.file();
        let value = match (self.translated_value(&member.name, &member.node, BareName::Literal), member.node.as_text())
        {
            (Value::Text(text), Some(original_text))
                if file.from_project && !original_text.starts_with('{') && !is_full_or_placeholder(original_text) =>
            {
                let folder: std::path::PathBuf =
                    file.folder.join(text).components().filter(|part| part.as_os_str() != ".").collect();
                let folder = folder.display().to_string();
                self.texts.note(format!("`{}` is replaced by {folder}", member.name));
                Value::Text(folder)
            }
            (value, _) => value,
        };
        self.add("cwd", member, value);
    }

    /// Reads an env file. Toolrack reads it only now, and not again when the server starts.
    fn read_env_file(&mut self, member: &Member) {
        let Some(path_text) = member.node.as_text() else {
            return self.note_left_out(&member.name, "it is not the name of a file");
        };
        let path = self.texts.translate(&member.name, path_text, BareName::Literal);
        if path.contains("${") {
            return self.note_left_out(&member.name, "only the other program can say which file it is");
        }
        let (file, path) = (self.texts.file(), path.replace("$$", "$"));
        let path = match (below_home(&path), &file.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => file.folder.join(&path),
        };
        let shown_path = path.display();
        let document = match Document::read(&path) {
            Ok(Some(document)) => document,
            Ok(None) => return self.note_left_out(&member.name, &format!("there is no file {shown_path}")),
            Err(problem) => return self.note_left_out(&member.name, &problem.message),
        };
        let variables = env_file::variables(&document.text);
        self.texts.note(format!(
            "`{}`: {} variables of {shown_path} are imported with their current values",
            member.name,
            variables.values.len()
        ));
        for name in &variables.unclosed_names {
            self.note_left_out(&format!("{}.{name}", member.name), "its quotation mark is not closed on its line");
        }
        let escaped = |value: String| Value::Text(value.replace('$', "$$"));
        self.env_file = variables
            .values
            .into_iter()
            .map(|(name, value)| positioned_member(&name, member, escaped(value)))
            .collect();
    }

    /// Adds the variables of the env file that `env` does not set.
    fn add_env_file(&mut self) {
        let mut variables = std::mem::take(&mut self.env_file);
        let env_members =
            self.fields.iter().find(|member| member.name == "env").and_then(|member| member.node.members());
        variables
            .retain(|member| !env_members.unwrap_or_default().iter().any(|env_member| env_member.name == member.name));
        if let Some(first) = variables.first().cloned() {
            self.merge("env", &first, variables);
        }
    }

    /// Uses the address in `member`, unless a field of lower rank has set an address already.
    fn add_address(&mut self, member: &Member, rank: usize, transport: UrlTransport) {
        let value = self.translated_value(&member.name, &member.node, BareName::Literal);
        match self.address {
            Some((used_rank, _)) if used_rank <= rank => {
                return self.note_left_out(&member.name, "another address takes precedence");
            }
            Some(_) => {
                self.fields.retain(|other| other.name != "url");
                self.note_left_out("url", "another address takes precedence");
            }
            None => {}
        }
        self.address = Some((rank, transport));
        self.add("url", member, value);
    }

    /// Adds the type of the server, if the entry has a type or an address. A server with a command needs none.
    fn add_type(&mut self) {
        let has_field = |name: &str| self.fields.iter().any(|member| member.name == name);
        let (has_command, url) =
            (has_field("command"), self.fields.iter().find(|member| member.name == "url").cloned());
        let Some(type_member) = self.type_member.take() else {
            // If the entry has both a program and an address, `decode` will report that.
            if let (false, Some(url), Some((_, transport))) = (has_command, &url, self.address) {
                let kind = self.guess_type(url, transport);
                self.add("type", url, Value::Text(kind.to_owned()));
            }
            return;
        };
        let Some(text) = type_member.node.as_text() else {
            return self.add("type", &type_member, type_member.node.value.clone());
        };
        let kind = match (text.to_ascii_lowercase().replace(['-', '_'], "").as_str(), &url) {
            ("stdio" | "local", _) => return self.add("type", &type_member, Value::Text("stdio".to_owned())),
            ("remote", Some(url)) => self.guess_type(url, UrlTransport::Either),
            ("http" | "streamablehttp" | "remote", _) => "http",
            ("sse", _) => "sse",
            // `decode` reports an unknown word.
            _ => text,
        };
        let kind = kind.to_owned();
        self.add("type", &type_member, Value::Text(kind));
    }

    /// Returns the type of a server with an address: the transport that the field of the address implies, or else the
    /// type that the end of the URL's path suggests.
    fn guess_type(&mut self, url: &Member, transport: UrlTransport) -> &'static str {
        let path = url.node.as_text().unwrap_or_default().split(['?', '#']).next().unwrap_or_default();
        match transport {
            UrlTransport::Http => "http",
            UrlTransport::Sse => "sse",
            UrlTransport::Either if path.trim_end_matches('/').ends_with("/sse") => {
                let client = self.client();
                self.texts
                    .note(format!("`type` is `sse`, because the address ends in `/sse`; {client} finds out by trying"));
                "sse"
            }
            UrlTransport::Either => "http",
        }
    }

    /// Sets each of Toolrack's `fields` to the time in `member`, whose unit is `unit` seconds. Notes call the other
    /// program's field `name`.
    fn add_time(&mut self, member: &Member, name: &str, unit: f64, fields: &[&str]) {
        let number = match &member.node.value {
            Value::Number(number) => number.as_f64().filter(|number| *number > 0.0),
            _ => None,
        };
        let Some(number) = number else {
            return self.note_left_out(name, "it is not a time");
        };
        // Claude Code's documentation gives 1000 ms as the minimum.
        if self.client() == Client::ClaudeCode && number < 1000.0 {
            return self.note_left_out(name, "Claude Code accepts no time below 1000 ms");
        }
        let mut seconds = number * unit;
        if seconds > MAX_SECONDS {
            self.texts.note(format!("`{name}` is shortened to 24 hours, the longest time that Toolrack accepts"));
            seconds = MAX_SECONDS;
        }
        let Some(value) = seconds_or_text(seconds) else {
            return self.note_left_out(name, "it is not a time");
        };
        for field in fields {
            self.add(field, member, value.clone());
        }
    }

    /// Reads the `timeout` of opencode, in milliseconds: a number in version 1, an object in version 2.
    fn add_opencode_times(&mut self, member: &Member) {
        let Some(times) = member.node.members() else {
            return self.add_time(member, &member.name, MILLISECOND, &["startup_timeout", "list_timeout"]);
        };
        for part in times {
            let name = format!("{}.{}", member.name, part.name);
            let fields: &[&str] = match part.name.as_str() {
                "startup" => &["startup_timeout"],
                "catalog" => &["list_timeout"],
                "execution" => &["call_timeout"],
                "request" => &["list_timeout", "call_timeout"],
                _ => {
                    self.note_left_out(&name, "it is not a known field");
                    continue;
                }
            };
            self.add_time(part, &name, MILLISECOND, fields);
        }
    }

    /// Reads the variables that the server inherits, each as a name, or as an object with the name and the source.
    fn add_inherited(&mut self, member: &Member) {
        let Value::List(nodes) = &member.node.value else {
            return self.add("inherit_env", member, member.node.value.clone());
        };
        let mut names = Vec::with_capacity(nodes.len());
        for node in nodes {
            match node.text("name") {
                Some(name) if node.text("source") == Some("remote") => {
                    self.note_left_out(&format!("{}.{name}", member.name), "it is a variable of another machine");
                }
                Some(name) => names.push(Node { span: node.span.clone(), value: Value::Text(name.to_owned()) }),
                None => names.push(node.clone()),
            }
        }
        if !names.is_empty() {
            self.add("inherit_env", member, Value::List(names));
        }
    }

    /// Reads headers whose values are the names of variables.
    fn add_variable_headers(&mut self, member: &Member) {
        let Some(members) = member.node.members() else {
            return self.add("headers", member, member.node.value.clone());
        };
        let headers = members.iter().filter_map(|header| {
            let value = self.variable_placeholder(&format!("{}.{}", member.name, header.name), &header.node, "")?;
            Some(positioned_member(&header.name, header, value))
        });
        let headers: Vec<Member> = headers.collect();
        if !headers.is_empty() {
            self.merge("headers", member, headers);
        }
    }

    /// Reads the name of the variable that holds the bearer token.
    fn add_bearer(&mut self, member: &Member) {
        if let Some(value) = self.variable_placeholder(&member.name, &member.node, "Bearer ") {
            self.merge("headers", member, vec![positioned_member("Authorization", member, value)]);
        }
    }

    /// Returns the placeholder of the variable that `node` names, after `prefix`.
    fn variable_placeholder(&mut self, field: &str, node: &Node, prefix: &str) -> Option<Value> {
        match node.as_text().filter(|name| is_variable_name(name)) {
            Some(name) => Some(Value::Text(format!("{prefix}${{{name}}}"))),
            None => {
                self.note_left_out(field, "it is not the name of a variable");
                None
            }
        }
    }

    /// Disables the entry if the other program's file disables the server `name` by a setting outside of the entry.
    fn apply_disabled_servers(&mut self, name: &str, name_span: &Range<usize>) {
        let Some((_, setting)) = self.texts.origin().disabled_servers.iter().find(|(disabled, _)| *disabled == name)
        else {
            return;
        };
        self.fields.retain(|member| !matches!(&*member.name, "enabled" | "disabled"));
        let node = Node { span: name_span.clone(), value: Value::Bool(false) };
        self.fields.push(Member { name: "enabled".to_owned(), name_span: name_span.clone(), node });
        self.texts.note(format!("`{setting}` disables this server"));
    }
}

/// Creates a member of Toolrack's format with the position of the other program's member.
fn positioned_member(name: &str, member: &Member, value: Value) -> Member {
    Member {
        name: name.to_owned(),
        name_span: member.name_span.clone(),
        node: Node { span: member.node.span.clone(), value },
    }
}

/// Returns whole seconds as a number and any other time in milliseconds: `30`, `"1500ms"`. `None` for less than a
/// millisecond.
fn seconds_or_text(seconds: f64) -> Option<Value> {
    let milliseconds = std::time::Duration::try_from_secs_f64(seconds).ok()?.as_millis();
    if milliseconds == 0 {
        return None;
    }
    let whole_seconds = u64::try_from(milliseconds / 1000).ok().filter(|_| milliseconds % 1000 == 0);
    Some(match whole_seconds {
        Some(seconds) => Value::Number(Number::from(seconds)),
        None => Value::Text(format!("{milliseconds}ms")),
    })
}
