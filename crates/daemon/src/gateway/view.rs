//! The view of a client of the gateway (one MCP server in front of all others): which tools of the catalog it sees. The
//! catalog is the immutable list of the tools of all servers; a change makes a new one. The gateway, the client's query
//! and the client's profile each select tools; the client sees the tools that all of them select.

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::StatusCode;
use toolrack_host::{Catalog, CatalogTool, Era, Pattern, Selection, ServerName, ToolProfile};
use url::form_urlencoded;

use super::{
    options::GatewayOptions,
    refusal::{Refusal, quoted},
};
use crate::profiles::{FollowedProfile, Profiles};

/// The maximum number of views that the gateway remembers, with the pages that were made for them.
const MAX_VIEWS: usize = 64;
/// The maximum number of pages of one view that are kept until the tools change.
const MAX_PAGES: usize = 64;
/// The maximum number of patterns or servers in one parameter of a query.
const MAX_WORDS: usize = 256;

/// The parameters of a client's query that select tools, in their order.
type QueryParams = Vec<(&'static str, String)>;

/// The key of a page: the era (2026-07-28, or older), and the last item of the page before.
type PageKey = (Era, Option<String>);

/// The tools of one catalog as one client lists them, page by page. Pages are only added, so that readers need no lock.
#[derive(Debug)]
struct Pages {
    /// The version of the catalog.
    version: u64,
    /// The profile as it was when the pages were made.
    profile: Option<Arc<ToolProfile>>,
    /// The page that a client listed first. The others follow it in the order in which clients listed them.
    first: OnceLock<Box<Page>>,
}

/// A page.
#[derive(Debug)]
struct Page {
    key: PageKey,
    /// The result object.
    rendered: Bytes,
    /// The page that a client listed after this one.
    next: OnceLock<Box<Page>>,
}

impl Pages {
    fn new(version: u64, profile: Option<Arc<ToolProfile>>) -> Self {
        Self { version, profile, first: OnceLock::new() }
    }

    /// Whether the pages show the catalog of this `version` through `profile`. Profiles are compared by address,
    /// because a changed profile is a new `Arc`.
    fn are_current_for(&self, version: u64, profile: Option<&Arc<ToolProfile>>) -> bool {
        self.version == version && self.profile.as_ref().map(Arc::as_ptr) == profile.map(Arc::as_ptr)
    }

    /// The page with this key, which `render` makes if it is not kept. Beyond [`MAX_PAGES`], pages are not kept.
    fn page(&self, key: PageKey, render: impl Fn(Option<&str>) -> Bytes) -> Bytes {
        let rendered = || render(key.1.as_deref());
        let mut slot = &self.first;
        for _ in 0..MAX_PAGES {
            let make_page = || Box::new(Page { key: key.clone(), rendered: rendered(), next: OnceLock::new() });
            let page = slot.get_or_init(make_page);
            if page.key == key {
                return page.rendered.clone();
            }
            slot = &page.next;
        }
        rendered()
    }
}

/// The view of one client.
#[derive(Debug)]
pub(super) struct View {
    params: QueryParams,
    selections: Vec<Selection>,
    profile: Option<FollowedProfile>,
    pages: ArcSwap<Pages>,
}

impl View {
    fn new(params: QueryParams, selections: Vec<Selection>, profile: Option<FollowedProfile>) -> Arc<Self> {
        // No page is kept yet, so any version will do.
        let pages = ArcSwap::from_pointee(Pages::new(/* version */ 0, /* profile */ None));
        Arc::new(Self { params, selections, profile, pages })
    }

    /// Returns whether `other` was requested with the same text. Views are not compared by their addresses, because a
    /// view that was dropped from the cache is made a second time.
    pub(super) fn is_same_view(&self, other: &Self) -> bool {
        self.params == other.params
    }

    /// The name of the profile, if the view has one.
    pub(super) fn profile(&self) -> Option<&Arc<str>> {
        self.profile.as_ref().map(|profile| &profile.name)
    }

    /// Returns what the view shows at this moment: profiles can change while it is in use.
    pub(super) fn snapshot(&self) -> ViewSnapshot<'_> {
        ViewSnapshot { selections: &self.selections, profile: self.profile.as_ref().map(FollowedProfile::current) }
    }

    /// The page with this key, of the catalog with this `version`. If the page is not kept, `render` makes it, once:
    /// clients that list at the same moment wait for each other.
    pub(super) fn page(
        &self,
        version: u64,
        key: PageKey,
        render: impl Fn(&ViewSnapshot<'_>, Option<&str>) -> Bytes,
    ) -> Bytes {
        let snapshot = self.snapshot();
        let render = |after: Option<&str>| render(&snapshot, after);
        let are_current = |pages: &Pages| pages.are_current_for(version, snapshot.profile.as_ref());
        let stored_pages = self.pages.load_full();
        if are_current(&stored_pages) {
            return stored_pages.page(key, render);
        }
        let fresh_pages = Arc::new(Pages::new(version, snapshot.profile.clone()));
        let previous_pages = self.pages.compare_and_swap(&stored_pages, Arc::clone(&fresh_pages));
        // Another client may have stored the same version meanwhile.
        let pages = if are_current(&previous_pages) { &previous_pages } else { &fresh_pages };
        pages.page(key, render)
    }

    /// Whether the view can show anything of this server.
    pub(super) fn may_have(&self, server: &ServerName) -> bool {
        self.snapshot().may_have(server)
    }
}

/// What a view shows at one moment.
#[derive(Debug)]
pub(super) struct ViewSnapshot<'v> {
    selections: &'v [Selection],
    profile: Option<Arc<ToolProfile>>,
}

impl ViewSnapshot<'_> {
    /// Whether a client with this view sees the tool.
    pub(super) fn has(&self, tool: &CatalogTool) -> bool {
        self.selections.iter().all(|selection| selection.has(tool))
            && self.profile.as_ref().is_none_or(|profile| profile.has(tool))
    }

    fn may_have(&self, server: &ServerName) -> bool {
        self.selections.iter().all(|selection| selection.may_have(server))
            && self.profile.as_ref().is_none_or(|profile| profile.may_have(server))
    }

    /// The name by which a client calls this tool.
    pub(super) fn name_of<'a>(&'a self, tool: &'a CatalogTool) -> &'a str {
        self.profile.as_ref().map_or(&tool.name, |profile| profile.name_of(tool))
    }

    /// The description of the tool that a client with this view gets.
    pub(super) fn description_of<'a>(&'a self, tool: &'a CatalogTool) -> Option<&'a str> {
        match &self.profile {
            Some(profile) => profile.description_of(tool),
            None => tool.tool().description.as_deref(),
        }
    }

    /// The tool that a client calls by `name`. Finds tools in quarantine (tools whose definition changed) as well. They
    /// are not listed, but a client may know such a tool from before, and must learn why its call is refused.
    pub(super) fn find<'c>(&self, catalog: &'c Catalog, name: &str) -> Option<&'c CatalogTool> {
        let found = match &self.profile {
            Some(profile) => profile.find(catalog, name),
            None => catalog.get(name).or_else(|| catalog.quarantined_tool(name)),
        };
        found.filter(|tool| self.has(tool))
    }

    /// The selector by which the host knows the tool that a client calls by `name`, whether or not the tool exists.
    pub(super) fn selector<'n>(&self, name: &'n str) -> Cow<'n, str> {
        let selector = self.profile.as_ref().and_then(|profile| profile.selector(name));
        selector.map_or(Cow::Borrowed(name), Cow::Owned)
    }
}

/// All views of a gateway.
#[derive(Debug)]
pub(super) struct Views {
    base_selection: Selection,
    profiles: Profiles,
    default_view: Arc<View>,
    /// The most recently requested views.
    views: ArcSwap<Vec<Arc<View>>>,
}

impl Views {
    pub(super) fn new(options: &GatewayOptions) -> Self {
        let profiles = options.profiles.clone();
        let profile = options.profile.clone().map(|name| FollowedProfile { name, profiles: profiles.clone() });
        Self {
            base_selection: options.selection.clone(),
            profiles,
            default_view: View::new(QueryParams::new(), vec![options.selection.clone()], profile),
            views: ArcSwap::default(),
        }
    }

    /// The view of a client whose query selects nothing.
    pub(super) fn default_view(&self) -> Arc<View> {
        self.default_view.clone()
    }

    /// The view that the query of a URL selects. Equal queries share a view.
    ///
    /// # Errors
    /// When the query cannot be understood, or names a profile that does not exist.
    pub(super) fn for_query(&self, query: Option<&str>) -> Result<Arc<View>, Refusal> {
        let params = parse_query(query);
        if params.is_empty() {
            return Ok(self.default_view());
        }
        if let Some(view) = self.views.load().iter().find(|view| view.params == params) {
            // A default profile may be gone, because no client has asked for it.
            let profile_param = params.iter().find(|(key, _)| *key == "profile");
            return profile_param.map_or(Ok(()), |(_, name)| self.profile(name).map(drop)).map(|()| view.clone());
        }
        let (mut selections, mut profile) = (vec![self.base_selection.clone()], None);
        for (key, value) in &params {
            match *key {
                "profile" if profile.is_some() => {
                    return Err(Refusal::invalid_request("a request has one profile".to_owned()));
                }
                "profile" => profile = Some(self.profile(value)?),
                key => selections.push(parse_selection(key, value)?),
            }
        }
        let profile = profile.or_else(|| self.default_view.profile.clone());
        let view = View::new(params, selections, profile);
        self.views.rcu(|views| {
            let newest = &views[views.len().saturating_sub(MAX_VIEWS - 1)..];
            newest.iter().chain([&view]).cloned().collect::<Vec<_>>()
        });
        Ok(view)
    }

    /// The name of the profile of the view that the query of a URL selects, whether or not there is such a profile.
    pub(super) fn profile_for_query(&self, query: Option<&str>) -> Option<Arc<str>> {
        let profile_param = parse_query(query).into_iter().find(|(key, _)| *key == "profile");
        profile_param.map(|(_, name)| Arc::from(name)).or_else(|| self.default_view.profile().cloned())
    }

    fn profile(&self, name: &str) -> Result<FollowedProfile, Refusal> {
        self.profiles.get(name).ok_or_else(|| self.no_profile(name))?;
        Ok(FollowedProfile { name: Arc::from(name), profiles: self.profiles.clone() })
    }

    /// The refusal of a request for a profile that does not exist.
    fn no_profile(&self, name: &str) -> Refusal {
        let known_profiles = self.profiles.names();
        let known_profiles = if known_profiles.is_empty() {
            "there are none".to_owned()
        } else {
            format!("known: {}", known_profiles.join(", "))
        };
        Refusal::invalid_request(format!("no profile is called {}; {known_profiles}", quoted(name)))
            .status(StatusCode::NOT_FOUND)
    }
}

/// Reads the parameters that select tools, and ignores all others.
fn parse_query(query: Option<&str>) -> QueryParams {
    form_urlencoded::parse(query.unwrap_or_default().as_bytes())
        .filter_map(|(key, value)| {
            let key = ["tools", "servers", "profile"].into_iter().find(|parameter| *parameter == key)?;
            Some((key, value.into_owned()))
        })
        .collect()
}

/// Reads the selection in `tools` or `servers` of a query.
fn parse_selection(key: &str, value: &str) -> Result<Selection, Refusal> {
    let words: Vec<_> =
        value.split(',').map(str::trim).filter(|word| !word.is_empty()).map(ToOwned::to_owned).collect();
    if words.is_empty() || words.len() > MAX_WORDS {
        return Err(Refusal::invalid_request(format!("?{key}= takes between 1 and {MAX_WORDS} words")));
    }
    let selected = match key {
        "servers" => {
            let names = words.into_iter().map(ServerName::new).collect::<Result<Vec<_>, _>>();
            names.map(|names| Selection::all().of_servers(names)).map_err(|error| error.to_string())
        }
        _ => {
            let patterns = words.iter().map(|word| word.parse()).collect::<Result<Vec<Pattern>, _>>();
            patterns.map(|patterns| Selection::all().only(patterns)).map_err(|error| error.to_string())
        }
    };
    selected.map_err(Refusal::invalid_request)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn views() -> Views {
        let read = ToolProfile::new(Selection::all().only(["read_*".parse().unwrap()]));
        let profiles = Profiles::from(BTreeMap::from([("read".into(), read)]));
        Views::new(&GatewayOptions { profiles, ..GatewayOptions::default() })
    }

    #[test]
    fn the_same_query_is_the_same_view_and_other_keys_do_not_matter() {
        let views = views();
        let one = views.for_query(Some("tools=a%2Fb,c&token=1")).unwrap();
        assert!(Arc::ptr_eq(&one, &views.for_query(Some("token=2&tools=a/b,c")).unwrap()));
        assert!(Arc::ptr_eq(&views.default_view(), &views.for_query(Some("token=2")).unwrap()));
        assert!(Arc::ptr_eq(&views.default_view(), &views.for_query(None).unwrap()));
    }

    #[test]
    fn a_query_that_cannot_be_understood_is_refused() {
        for query in ["profile=none", "profile=read&profile=read", "tools=", "tools=%5B", "servers=a/b", "tools=/x"] {
            assert!(views().for_query(Some(query)).is_err(), "{query}");
        }
        assert!(views().for_query(Some("profile=read&servers=fs")).is_ok());
    }

    #[test]
    fn a_profile_that_was_removed_is_refused_even_if_its_view_is_remembered() {
        let views = views();
        views.for_query(Some("profile=read")).unwrap();
        views.profiles.set([].into());
        assert!(views.for_query(Some("profile=read")).is_err());
    }

    #[test]
    fn a_query_that_names_no_profile_has_the_default_profile() {
        let profiles = views().profiles;
        let views = Views::new(&GatewayOptions { profiles, profile: Some("read".into()), ..GatewayOptions::default() });
        for (query, profile) in
            [(None, "read"), (Some("tools=a"), "read"), (Some("profile=read"), "read"), (Some("profile=none"), "none")]
        {
            assert_eq!(views.profile_for_query(query).as_deref(), Some(profile), "{query:?}");
            let Ok(view) = views.for_query(query) else { continue };
            assert_eq!(view.profile().map(|name| &**name), Some(profile), "{query:?}");
        }
        views.profiles.set([].into());
        assert!(
            views.for_query(Some("tools=a")).is_ok(),
            "its client has not asked for the profile, and sees no tools"
        );
    }

    #[test]
    fn no_more_views_are_remembered_than_the_bound() {
        let views = views();
        for number in 0..200 {
            views.for_query(Some(&format!("tools=t{number}"))).unwrap();
        }
        assert_eq!(views.views.load().len(), MAX_VIEWS);
    }
}
