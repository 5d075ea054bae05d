//! Inserts, replaces and removes a member of an object in a text, without changing any other byte.

use std::ops::Range;

use serde_json::Value as Json;

use super::render::{Layout, Style, property, value as render};
use crate::{
    dialect::json::comment_length,
    node::{Member, Node},
};

/// Appends `value` to `text`, which is empty or has only comments.
pub(super) fn create(text: &str, value: &Json) -> String {
    let style = Style::of(text);
    let mut out = text.trim_end().to_owned();
    if !out.is_empty() {
        out.push_str(style.newline);
    }
    out.push_str(&render(value, &style, &Layout::Lines(String::new())));
    out + style.newline
}

/// Adds the member `name` at the end of `object`.
pub(super) fn insert(text: &str, object: &Node, name: &str, value: &Json) -> String {
    let style = Style::of(text);
    let close = object.at.end - 1;
    let object_indent = indent_at(text, object.at.start);
    let Some(last) = object.members().and_then(<[Member]>::last) else {
        return insert_first(text, object, name, value, &style);
    };
    let tail = &text[last.node.at.end..close];
    let comma = find_comma(text, last.node.at.end..close);
    let on_one_line = !text[object.at.start..last.name_at.start].contains('\n') && !tail.contains('\n');
    let mut out;
    if on_one_line {
        out = text[..comma.map_or(last.node.at.end, |comma| comma + 1)].to_owned();
        out.push_str(if comma.is_some() { " " } else { ", " });
        out.push_str(&property(name, value, &style, &Layout::OneLine));
        out.push_str(if comma.is_some() { "," } else { "" });
        out.push_str(&text[comma.map_or(last.node.at.end, |comma| comma + 1)..]);
        return out;
    }
    let indent = indent_if_first_on_line(text, last.name_at.start)
        .map_or_else(|| format!("{object_indent}{}", style.indent_step), str::to_owned);
    out = text[..last.node.at.end].to_owned();
    out.push_str(if comma.is_some() { "" } else { "," });
    let kept_tail = tail.trim_end();
    out.push_str(kept_tail);
    out.push_str(style.newline);
    out.push_str(&indent);
    out.push_str(&property(name, value, &style, &Layout::Lines(indent)));
    out.push_str(if comma.is_some() { "," } else { "" });
    let space = &tail[kept_tail.len()..];
    if space.contains('\n') {
        out.push_str(space);
    } else {
        out.push_str(style.newline);
        out.push_str(object_indent);
    }
    out + &text[close..]
}

/// Adds the first member of an object that is empty or has only comments.
fn insert_first(text: &str, object: &Node, name: &str, value: &Json, style: &Style) -> String {
    let close = object.at.end - 1;
    let object_indent = indent_at(text, object.at.start);
    let indent = format!("{object_indent}{}", style.indent_step);
    let mut out = text[..object.at.start + 1].to_owned();
    out.push_str(text[object.at.start + 1..close].trim_end());
    out.push_str(style.newline);
    out.push_str(&indent);
    out.push_str(&property(name, value, style, &Layout::Lines(indent)));
    out.push_str(style.newline);
    out.push_str(object_indent);
    out + &text[close..]
}

/// Gives `member` another value, on one line or on several, as the old value is written.
pub(super) fn replace(text: &str, member: &Member, value: &Json) -> String {
    let at = &member.node.at;
    let layout = if text[at.clone()].contains('\n') || indent_if_first_on_line(text, member.name_at.start).is_some() {
        Layout::Lines(indent_at(text, member.name_at.start).to_owned())
    } else {
        Layout::OneLine
    };
    let value = render(value, &Style::of(text), &layout);
    format!("{}{value}{}", &text[..at.start], &text[at.end..])
}

/// Removes `member` from `object`, with its comma and with a comment that follows on the same line. Comments above it
/// stay.
pub(super) fn remove(text: &str, object: &Node, member: &Member) -> String {
    // `object` has members, and `member` is one of them.
    let members = object.members().unwrap_or_default();
    let index = members.iter().position(|other| other.name_at == member.name_at).unwrap_or_default();
    let before = index.checked_sub(1).and_then(|index| members.get(index));
    let after = members.get(index + 1);
    let close = object.at.end - 1;
    let (start, end) = (member.name_at.start, member.node.at.end);
    let comma = find_comma(text, end..after.map_or(close, |after| after.name_at.start));
    let end = comma.map_or(end, |comma| comma + 1);
    let has_own_lines = indent_if_first_on_line(text, start).is_some() && line_rest_length(text, end).is_some();

    let mut cuts = Vec::new();
    if has_own_lines {
        // Cut from the end of the line above, so that the text below keeps the line end before it.
        let line_start = start - indent_at(text, start).len();
        let rest = line_rest_length(text, end).unwrap_or_default();
        cuts.push(before_newline(text, line_start)..end + rest);
    } else {
        let space = text[end..].len() - text[end..].trim_start_matches([' ', '\t']).len();
        cuts.push(start..if after.is_some() { end + space } else { end });
    }
    if let (None, Some(before)) = (comma, before) {
        // The removed member was the last one: the member before it needs no comma any more.
        let gap = before.node.at.end..start;
        cuts.extend(find_comma(text, gap).map(|comma| {
            let only_space = text[comma + 1..start].chars().all(|c| matches!(c, ' ' | '\t'));
            comma..if only_space { start } else { comma + 1 }
        }));
    }
    let out = cut(text, cuts);
    match members.len() {
        1 => tidy_empty(&out, object.at.start),
        _ => out,
    }
}

/// Shortens the object that begins at `open` to `{}`, if only white space is left in it.
fn tidy_empty(text: &str, open: usize) -> String {
    let inside = &text[open + 1..];
    let rest = inside.trim_start();
    if rest.starts_with('}') { format!("{}{rest}", &text[..open + 1]) } else { text.to_owned() }
}

/// Returns `text` without `cuts`, which may overlap.
fn cut(text: &str, mut cuts: Vec<Range<usize>>) -> String {
    cuts.sort_by_key(|cut| cut.start);
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    for cut in cuts {
        out.push_str(&text[copied..cut.start.max(copied)]);
        copied = cut.end.max(copied);
    }
    out + &text[copied..]
}

/// Returns the white space with which the line of `at` begins, up to `at`.
fn indent_at(text: &str, at: usize) -> &str {
    let line_start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let line = &text[line_start..at];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// Returns the indentation before `at`, if there is nothing else before it on its line.
fn indent_if_first_on_line(text: &str, at: usize) -> Option<&str> {
    let indent = indent_at(text, at);
    let before = text[..at].strip_suffix(indent)?;
    before.ends_with('\n').then_some(indent)
}

/// Returns the position before the line end that precedes `line_start`.
fn before_newline(text: &str, line_start: usize) -> usize {
    let before = &text[..line_start];
    let before = before.strip_suffix('\n').unwrap_or(before);
    before.strip_suffix('\r').unwrap_or(before).len()
}

/// Returns the length of the rest of the line after `at`; `None` if more than white space and a comment is there, or if
/// the line is the last one of the file.
fn line_rest_length(text: &str, at: usize) -> Option<usize> {
    let line = text[at..].split('\n').next().unwrap_or_default();
    let line = line.strip_suffix('\r').unwrap_or(line);
    let rest = line.trim_start();
    let is_comment = comment_length(rest).is_some_and(|length| {
        let is_closed = rest.starts_with("//") || (length >= "/**/".len() && rest[..length].ends_with("*/"));
        is_closed && rest[length..].trim().is_empty()
    });
    // A carriage return alone ends a comment too, so the text after it could be more than a comment.
    let is_whole_line = text.len() > at + line.len() && !line.contains('\r');
    (is_whole_line && (rest.is_empty() || is_comment)).then_some(line.len())
}

/// Returns the position of the comma in `gap`, the text between two values. A comma in a comment does not count.
fn find_comma(text: &str, gap: Range<usize>) -> Option<usize> {
    let mut at = gap.start;
    while at < gap.end {
        let rest = &text[at..gap.end];
        if rest.starts_with(',') {
            return Some(at);
        }
        let character = rest.chars().next().map_or(1, char::len_utf8);
        at += comment_length(rest).unwrap_or(character);
    }
    None
}

#[cfg(test)]
mod tests;
