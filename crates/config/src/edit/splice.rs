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
    let style = Style::detect(text);
    let mut new_text = text.trim_end().to_owned();
    if !new_text.is_empty() {
        new_text.push_str(style.newline);
    }
    new_text.push_str(&render(value, &style, &Layout::Lines(String::new())));
    new_text + style.newline
}

/// Adds the member `name` at the end of `object`.
pub(super) fn insert(text: &str, object: &Node, name: &str, value: &Json) -> String {
    let style = Style::detect(text);
    let closing_brace = object.span.end - 1;
    let object_indent = indent_at(text, object.span.start);
    let Some(last_member) = object.members().and_then(<[Member]>::last) else {
        return insert_first(text, object, name, value, &style);
    };
    let text_after_last = &text[last_member.node.span.end..closing_brace];
    let comma = find_comma(text, last_member.node.span.end..closing_brace);
    let on_one_line =
        !text[object.span.start..last_member.name_span.start].contains('\n') && !text_after_last.contains('\n');
    let mut new_text;
    if on_one_line {
        new_text = text[..comma.map_or(last_member.node.span.end, |comma| comma + 1)].to_owned();
        new_text.push_str(if comma.is_some() { " " } else { ", " });
        new_text.push_str(&property(name, value, &style, &Layout::OneLine));
        new_text.push_str(if comma.is_some() { "," } else { "" });
        new_text.push_str(&text[comma.map_or(last_member.node.span.end, |comma| comma + 1)..]);
        return new_text;
    }
    let indent = indent_if_first_on_line(text, last_member.name_span.start)
        .map_or_else(|| format!("{object_indent}{}", style.indent_step), str::to_owned);
    new_text = text[..last_member.node.span.end].to_owned();
    new_text.push_str(if comma.is_some() { "" } else { "," });
    let comments_after_last = text_after_last.trim_end();
    new_text.push_str(comments_after_last);
    new_text.push_str(style.newline);
    new_text.push_str(&indent);
    new_text.push_str(&property(name, value, &style, &Layout::Lines(indent)));
    new_text.push_str(if comma.is_some() { "," } else { "" });
    let following_space = &text_after_last[comments_after_last.len()..];
    if following_space.contains('\n') {
        new_text.push_str(following_space);
    } else {
        new_text.push_str(style.newline);
        new_text.push_str(object_indent);
    }
    new_text + &text[closing_brace..]
}

/// Adds the first member of an object that is empty or has only comments.
fn insert_first(text: &str, object: &Node, name: &str, value: &Json, style: &Style) -> String {
    let closing_brace = object.span.end - 1;
    let object_indent = indent_at(text, object.span.start);
    let indent = format!("{object_indent}{}", style.indent_step);
    let mut new_text = text[..object.span.start + 1].to_owned();
    new_text.push_str(text[object.span.start + 1..closing_brace].trim_end());
    new_text.push_str(style.newline);
    new_text.push_str(&indent);
    new_text.push_str(&property(name, value, style, &Layout::Lines(indent)));
    new_text.push_str(style.newline);
    new_text.push_str(object_indent);
    new_text + &text[closing_brace..]
}

/// Gives `member` another value. It is written on several lines if the old value is, or if the member begins a line.
pub(super) fn replace(text: &str, member: &Member, value: &Json) -> String {
    let span = &member.node.span;
    let layout = if text[span.clone()].contains('\n') || indent_if_first_on_line(text, member.name_span.start).is_some()
    {
        Layout::Lines(indent_at(text, member.name_span.start).to_owned())
    } else {
        Layout::OneLine
    };
    let value = render(value, &Style::detect(text), &layout);
    format!("{}{value}{}", &text[..span.start], &text[span.end..])
}

/// Removes `member` from `object`, with its comma and with a comment that follows on the same line. Comments above it
/// stay.
pub(super) fn remove(text: &str, object: &Node, member: &Member) -> String {
    // `object` has members, and `member` is one of them.
    let members = object.members().unwrap_or_default();
    let index = members.iter().position(|other| other.name_span == member.name_span).unwrap_or_default();
    let previous_member = index.checked_sub(1).and_then(|index| members.get(index));
    let next_member = members.get(index + 1);
    let closing_brace = object.span.end - 1;
    let (start, end) = (member.name_span.start, member.node.span.end);
    let comma = find_comma(text, end..next_member.map_or(closing_brace, |next_member| next_member.name_span.start));
    let end = comma.map_or(end, |comma| comma + 1);
    let has_own_lines = indent_if_first_on_line(text, start).is_some() && line_rest_length(text, end).is_some();

    let mut cuts = Vec::new();
    if has_own_lines {
        // Cut from the end of the line above to the end of the last line, so that the line end after the member stays.
        let line_start = start - indent_at(text, start).len();
        let line_rest = line_rest_length(text, end).unwrap_or_default();
        cuts.push(before_newline(text, line_start)..end + line_rest);
    } else {
        let following_space = text[end..].len() - text[end..].trim_start_matches([' ', '\t']).len();
        cuts.push(start..if next_member.is_some() { end + following_space } else { end });
    }
    if let (None, Some(previous_member)) = (comma, previous_member) {
        // The removed member was the last one: the member before it needs no comma any more.
        let gap = previous_member.node.span.end..start;
        cuts.extend(find_comma(text, gap).map(|comma| {
            let only_space = text[comma + 1..start].chars().all(|c| matches!(c, ' ' | '\t'));
            comma..if only_space { start } else { comma + 1 }
        }));
    }
    let new_text = cut(text, cuts);
    match members.len() {
        1 => tidy_empty(&new_text, object.span.start),
        _ => new_text,
    }
}

/// Shortens the object that begins at `object_start` to `{}`, if only white space is left in it.
fn tidy_empty(text: &str, object_start: usize) -> String {
    let text_inside = &text[object_start + 1..];
    let rest = text_inside.trim_start();
    if rest.starts_with('}') { format!("{}{rest}", &text[..object_start + 1]) } else { text.to_owned() }
}

/// Returns `text` without `cuts`, which may overlap.
fn cut(text: &str, mut cuts: Vec<Range<usize>>) -> String {
    cuts.sort_by_key(|cut| cut.start);
    let mut remaining_text = String::with_capacity(text.len());
    let mut copied_up_to = 0;
    for cut in cuts {
        remaining_text.push_str(&text[copied_up_to..cut.start.max(copied_up_to)]);
        copied_up_to = cut.end.max(copied_up_to);
    }
    remaining_text + &text[copied_up_to..]
}

/// Returns the white space with which the line of `offset` begins, up to `offset`.
fn indent_at(text: &str, offset: usize) -> &str {
    let line_start = text[..offset].rfind('\n').map_or(0, |newline| newline + 1);
    let line = &text[line_start..offset];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// Returns the indentation before `offset`; `None` if anything else is before it on its line.
fn indent_if_first_on_line(text: &str, offset: usize) -> Option<&str> {
    let indent = indent_at(text, offset);
    let text_before_indent = text[..offset].strip_suffix(indent)?;
    text_before_indent.ends_with('\n').then_some(indent)
}

/// Returns the position before the line end that precedes `line_start`.
fn before_newline(text: &str, line_start: usize) -> usize {
    let text_before = &text[..line_start];
    let text_before = text_before.strip_suffix('\n').unwrap_or(text_before);
    text_before.strip_suffix('\r').unwrap_or(text_before).len()
}

/// Returns the length of the rest of the line after `offset`. `None` if the rest has more than white space and a
/// comment, or if the line is the last one of the file.
fn line_rest_length(text: &str, offset: usize) -> Option<usize> {
    let line = text[offset..].split('\n').next().unwrap_or_default();
    let line = line.strip_suffix('\r').unwrap_or(line);
    let trimmed_line = line.trim_start();
    let is_comment = comment_length(trimmed_line).is_some_and(|length| {
        let is_closed =
            trimmed_line.starts_with("//") || (length >= "/**/".len() && trimmed_line[..length].ends_with("*/"));
        is_closed && trimmed_line[length..].trim().is_empty()
    });
    // A carriage return alone ends a comment too, so the text after it could be more than a comment.
    let is_whole_line = text.len() > offset + line.len() && !line.contains('\r');
    (is_whole_line && (trimmed_line.is_empty() || is_comment)).then_some(line.len())
}

/// Returns the position of the comma in `gap`, the text between two values. A comma in a comment does not count.
fn find_comma(text: &str, gap: Range<usize>) -> Option<usize> {
    let mut offset = gap.start;
    while offset < gap.end {
        let rest = &text[offset..gap.end];
        if rest.starts_with(',') {
            return Some(offset);
        }
        let character = rest.chars().next().map_or(1, char::len_utf8);
        offset += comment_length(rest).unwrap_or(character);
    }
    None
}

#[cfg(test)]
mod tests;
