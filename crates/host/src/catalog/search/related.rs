//! Synonyms: words that people use interchangeably. A task says "remove the folder", the tool is called
//! `delete_directory`.
//!
//! The table has only words about computers in general, and about no particular server. A word also finds the tools of
//! its related words, with a lower weight. All forms of a word count as one: they have the same *stem*.

use std::{collections::HashMap, sync::LazyLock};

use super::words;

/// Groups of interchangeable words.
const SYNONYM_GROUPS: &[&str] = &[
    "delete remove erase discard destroy trash drop",
    "create add make new insert",
    "update edit change modify alter set adjust",
    "list show enumerate display all every",
    "get fetch retrieve read obtain load",
    "find search look lookup locate discover query",
    "view show see display read open",
    "write save store put",
    "send post submit publish",
    "run execute launch start trigger invoke",
    "stop cancel kill abort terminate end",
    "close shut quit exit",
    "move rename relocate",
    "copy duplicate clone",
    "merge combine join",
    "download fetch save",
    "upload push attach",
    "undo revert reset restore rollback",
    "compare diff difference change",
    "check status verify inspect",
    "enable activate on",
    "disable deactivate off",
    "reply respond answer comment",
    "comment remark note feedback",
    "assign responsible owner",
    "convert transform translate",
    "calculate compute sum add total",
    "wait pause sleep delay",
    "click press tap hit push",
    "type enter fill input write",
    "choose select pick option dropdown",
    "scroll hover mouse",
    "screenshot capture snapshot picture image",
    "picture image photo",
    "video movie clip film",
    "folder directory dir",
    "file document",
    "repository repo project",
    "branch fork",
    "commit revision change",
    "history log past previous",
    "stage index add",
    "issue bug ticket problem",
    "release version",
    "label tag",
    "star favorite favourite bookmark",
    "workflow action ci pipeline job build",
    "vulnerability security advisory cve",
    "secret password credential token leak",
    "notification alert inbox unread",
    "user person people member profile account",
    "team group organization org",
    "colleague collaborator coworker member",
    "message chat dm",
    "channel room",
    "emoji reaction",
    "discussion conversation thread",
    "website webpage page site web",
    "internet web online",
    "url link address website",
    "navigate visit go open",
    "back previous",
    "javascript js script code",
    "console log",
    "request network http",
    "news headline article",
    "nearby near around local",
    "restaurant shop business place cafe",
    "summary summarize summarise overview digest",
    "database db sql table",
    "query sql select",
    "row record entry item",
    "schema structure column",
    "size big large",
    "tree structure hierarchy",
    "info information metadata detail property attribute",
    "content text body",
    "time clock date today now hour",
    "timezone zone",
    "remember memory store memorize",
    "forget delete remove",
    "relation relationship link connection",
    "think reason plan solve",
    "print echo repeat",
    "environment env variable",
    "permission access right allowed",
    "email mail",
];

/// Questions, abbreviations and shell commands: the first word of a line matches the other words of the line, but these
/// do not match the first word.
const ONE_WAY_SYNONYMS: &[&str] = &[
    "who user member person people",
    "where locate search find",
    "when time date",
    "mkdir create directory",
    "rm delete remove",
    "mv move rename",
    "cp copy",
    "ls list directory",
    "cat read file",
    "grep search",
    "curl fetch download request",
    "pr pullrequest",
    "plus sum add",
    "latitude longitude coordinate",
    "whoami me myself",
];

/// Returns the stems of the words that are related to a stem.
pub(super) fn related(stem: &str) -> &'static [String] {
    static RELATED_BY_STEM: LazyLock<HashMap<String, Vec<String>>> = LazyLock::new(|| {
        let mut by_stem: HashMap<String, Vec<String>> = HashMap::new();
        let mut relate = |word: &str, others: &mut dyn Iterator<Item = &str>| {
            let neighbours = by_stem.entry(words::stem(word)).or_default();
            for other in others.filter(|other| *other != word).map(words::stem) {
                if !neighbours.contains(&other) {
                    neighbours.push(other);
                }
            }
        };
        for line in SYNONYM_GROUPS {
            line.split(' ').for_each(|word| relate(word, &mut line.split(' ')));
        }
        for line in ONE_WAY_SYNONYMS {
            if let Some((word, others)) = line.split_once(' ') {
                relate(word, &mut others.split(' '));
            }
        }
        by_stem
    });
    RELATED_BY_STEM.get(stem).map_or(&[], Vec::as_slice)
}
