//! What one client sees: selections that narrow each other down.

use std::{
    collections::BTreeMap,
    iter::repeat_with,
    sync::{Arc, OnceLock},
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use toolrack_host::{CatalogTool, Era, Pattern, Selection, ServerName};
use url::form_urlencoded;

use super::{
    options::GatewayOptions,
    refusal::{Refusal, words},
};

/// Views that are remembered, and with them the lists made for them.
const KEPT: usize = 64;
/// Pages of one view that are kept until the tools change.
const KEPT_PAGES: usize = 64;
/// Patterns and servers in one query.
const MOST_WORDS: usize = 256;

/// What a client asked to see, as its query says.
type Wish = Vec<(&'static str, String)>;

/// What leads to a page: the era, and the key before it.
type PageKey = (Era, Option<String>);

/// The tools of one catalog as one client lists them, page by page.
#[derive(Debug)]
struct Pages {
    /// Of the catalog.
    version: u64,
    /// Each page is in the first free place.
    rendered: Box<[OnceLock<(PageKey, Bytes)>]>,
}

impl Pages {
    fn of(version: u64) -> Self {
        Self { version, rendered: repeat_with(OnceLock::new).take(KEPT_PAGES).collect() }
    }

    fn page(&self, key: PageKey, render: impl Fn(Option<&str>) -> Bytes) -> Bytes {
        for place in &self.rendered {
            let (known, page) = place.get_or_init(|| (key.clone(), render(key.1.as_deref())));
            if *known == key {
                return page.clone();
            }
        }
        render(key.1.as_deref())
    }
}

/// What one client sees.
#[derive(Debug)]
pub(super) struct View {
    wish: Wish,
    selections: Vec<Selection>,
    pages: ArcSwap<Pages>,
}

impl View {
    fn new(wish: Wish, selections: Vec<Selection>) -> Arc<Self> {
        Arc::new(Self { wish, selections, pages: ArcSwap::from_pointee(Pages::of(0)) })
    }

    /// Returns whether `other` was requested with the same text. Views are dropped from the cache, so the same one can
    /// be made twice.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.wish == other.wish
    }

    pub(super) fn has(&self, tool: &CatalogTool) -> bool {
        self.selections.iter().all(|selection| selection.has(tool))
    }

    /// The page of the catalog of this `version` that `era` and the key `after` lead to. `render` makes it, once:
    /// clients that list at the same moment wait for each other.
    pub(super) fn page(&self, version: u64, key: PageKey, render: impl Fn(Option<&str>) -> Bytes) -> Bytes {
        let kept = self.pages.load_full();
        if kept.version == version {
            return kept.page(key, render);
        }
        let fresh = Arc::new(Pages::of(version));
        let before = self.pages.compare_and_swap(&kept, Arc::clone(&fresh));
        // Another client may have brought the same version in this moment.
        let pages = if before.version == version { &before } else { &fresh };
        pages.page(key, render)
    }

    /// Whether the view can show anything of this server.
    pub(super) fn may_have(&self, server: &ServerName) -> bool {
        self.selections.iter().all(|selection| selection.may_have(server))
    }
}

/// All views of a gateway.
#[derive(Debug)]
pub(super) struct Views {
    base: Selection,
    presets: BTreeMap<String, Selection>,
    default_view: Arc<View>,
    /// The most recently requested views.
    views: ArcSwap<Vec<Arc<View>>>,
}

impl Views {
    pub(super) fn new(options: &GatewayOptions) -> Self {
        Self {
            base: options.selection.clone(),
            presets: options.presets.clone(),
            default_view: View::new(Wish::new(), vec![options.selection.clone()]),
            views: ArcSwap::default(),
        }
    }

    /// What a client sees whose query selects nothing.
    pub(super) fn default_view(&self) -> Arc<View> {
        self.default_view.clone()
    }

    /// What the query of a URL selects; the same query is the same view.
    pub(super) fn of(&self, query: Option<&str>) -> Result<Arc<View>, Refusal> {
        let wish: Wish = form_urlencoded::parse(query.unwrap_or_default().as_bytes())
            .filter_map(|(key, value)| {
                let key = ["tools", "servers", "preset"].into_iter().find(|known| *known == key)?;
                Some((key, value.into_owned()))
            })
            .collect();
        if wish.is_empty() {
            return Ok(self.default_view());
        }
        if let Some(view) = self.views.load().iter().find(|known| known.wish == wish) {
            return Ok(view.clone());
        }
        let mut selections = vec![self.base.clone()];
        for (key, value) in &wish {
            selections.push(self.selection(key, value)?);
        }
        let view = View::new(wish, selections);
        self.views.rcu(|kept| {
            let newest = &kept[kept.len().saturating_sub(KEPT - 1)..];
            newest.iter().chain([&view]).cloned().collect::<Vec<_>>()
        });
        Ok(view)
    }

    fn selection(&self, key: &str, value: &str) -> Result<Selection, Refusal> {
        let words_of = |value: &str| -> Vec<String> {
            value.split(',').map(str::trim).filter(|word| !word.is_empty()).map(ToOwned::to_owned).collect()
        };
        let all = words_of(value);
        if all.is_empty() || all.len() > MOST_WORDS {
            return Err(Refusal::invalid_request(format!("?{key}= takes between 1 and {MOST_WORDS} words")));
        }
        match key {
            "preset" => self.presets.get(value).cloned().ok_or_else(|| {
                let known: Vec<_> = self.presets.keys().map(String::as_str).collect();
                let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
                Refusal::invalid_request(format!("no preset is called {}; known: {known}", words(value)))
            }),
            "servers" => {
                let names = all.into_iter().map(ServerName::new).collect::<Result<Vec<_>, _>>();
                Ok(Selection::all().of_servers(names.map_err(|bad| Refusal::invalid_request(bad.to_string()))?))
            }
            _ => {
                let patterns = all.iter().map(|word| word.parse()).collect::<Result<Vec<Pattern>, _>>();
                Ok(Selection::all().only(patterns.map_err(|bad| Refusal::invalid_request(bad.to_string()))?))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn views() -> Views {
        let mut options = GatewayOptions::default();
        options.presets.insert("read".into(), Selection::all().only(["read_*".parse().unwrap()]));
        Views::new(&options)
    }

    #[test]
    fn the_same_query_is_the_same_view_and_other_keys_do_not_matter() {
        let views = views();
        let one = views.of(Some("tools=a%2Fb,c&token=1")).unwrap();
        assert!(Arc::ptr_eq(&one, &views.of(Some("token=2&tools=a/b,c")).unwrap()));
        assert!(Arc::ptr_eq(&views.default_view(), &views.of(Some("token=2")).unwrap()));
        assert!(Arc::ptr_eq(&views.default_view(), &views.of(None).unwrap()));
    }

    #[test]
    fn a_query_that_cannot_be_understood_is_refused() {
        for query in ["preset=none", "tools=", "tools=%5B", "servers=a/b", "tools=/x"] {
            assert!(views().of(Some(query)).is_err(), "{query}");
        }
        assert!(views().of(Some("preset=read&servers=fs")).is_ok());
    }

    #[test]
    fn many_queries_are_not_all_remembered() {
        let views = views();
        for number in 0..200 {
            views.of(Some(&format!("tools=t{number}"))).unwrap();
        }
        assert_eq!(views.views.load().len(), KEPT);
    }
}
