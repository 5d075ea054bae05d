//! Pages of lists that are ordered by a key. A cursor contains the last key of the previous page, so that items that
//! are added or removed meanwhile neither repeat nor hide others.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use super::refusal::Refusal;

/// The cursor for what follows `key`. Clients must not look into it.
pub(super) fn encode(key: &str) -> String {
    URL_SAFE_NO_PAD.encode(key)
}

/// Decodes the key in a cursor.
pub(super) fn decode(cursor: Option<&str>) -> Result<Option<String>, Refusal> {
    let Some(cursor) = cursor else { return Ok(None) };
    let key = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    key.map(Some)
        .ok_or_else(|| Refusal::invalid_params("the gateway did not issue this cursor; begin again without a cursor"))
}

/// One page of items that are in the order of their keys, and the cursor for the next.
pub(super) fn page<'a, T>(
    items: impl Iterator<Item = (&'a str, T)>,
    after: Option<&str>,
    size: usize,
) -> (Vec<T>, Option<String>) {
    let mut rest = items.skip_while(|(key, _)| after.is_some_and(|after| *key <= after));
    let (mut page, mut last) = (Vec::new(), None);
    // At least one item: a client that follows the cursors of empty pages would never come to the end.
    for (key, item) in rest.by_ref().take(size.max(1)) {
        last = Some(key);
        page.push(item);
    }
    let has_more = rest.next().is_some();
    (page, last.filter(|_| has_more).map(encode))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(after: Option<&str>) -> (Vec<u8>, Option<String>) {
        page([("a", 1), ("b", 2), ("c", 3)].into_iter(), after, 2)
    }

    #[test]
    fn pages_follow_each_other_also_when_the_last_of_a_page_has_gone() {
        let (first, next) = numbers(None);
        assert_eq!(first, [1, 2]);
        let after = decode(next.as_deref()).unwrap();
        assert_eq!(numbers(after.as_deref()), (vec![3], None));
        assert_eq!(numbers(Some("bb")), (vec![3], None));
        assert_eq!(numbers(Some("z")), (vec![], None));
    }

    #[test]
    fn a_cursor_that_the_gateway_did_not_make_is_refused() {
        assert!(decode(Some("page 2")).is_err());
        assert!(decode(Some("_w")).is_err(), "not UTF-8");
    }
}
