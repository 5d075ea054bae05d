//! Resolves values as a host does by default: it leaves every string unchanged, and adds inherited variables.

use std::ffi::OsString;

use futures::future::BoxFuture;

use super::{ChildPlan, ResolveError, Resolver, Verbatim};
use crate::spec::{Http, InheritEnv, ServerName, Stdio, affects_engine_client, passes_to_the_client};

/// Resolves values as [`Verbatim`] does. Child processes also inherit those variables of this list that their spec
/// selects.
pub(crate) struct InheritingResolver(pub(crate) Vec<(OsString, OsString)>);

impl InheritingResolver {
    /// Adds the inherited variables to `plan`.
    fn add_inherited(&self, spec: &Stdio, plan: &mut ChildPlan) {
        for (name, value) in &self.0 {
            // The client of a container engine runs on this machine, and needs some variables that the server does not.
            let is_inherited =
                spec.inherit_env.passes(name, value) || (plan.container.is_some() && passes_to_the_client(name, value));
            if is_inherited && !plan.env.iter().any(|(other, _)| other == name) {
                plan.env.push((name.clone(), value.clone()));
            }
        }
        // A container inherits only named variables.
        if let (Some(container), InheritEnv::Names(names)) = (&mut plan.container, &spec.inherit_env) {
            let is_set = |variable: &String| self.0.iter().any(|(name, _)| name == variable.as_str());
            let inherited_names = names.iter().filter(|name| is_set(name) && !affects_engine_client(name));
            container.variables.extend(inherited_names.cloned());
            container.variables.sort();
            container.variables.dedup();
        }
    }
}

impl Resolver for InheritingResolver {
    fn stdio<'a>(&'a self, server: &'a ServerName, spec: &'a Stdio) -> BoxFuture<'a, Result<ChildPlan, ResolveError>> {
        Box::pin(async move {
            let mut plan = Verbatim.stdio(server, spec).await?;
            self.add_inherited(spec, &mut plan);
            Ok(plan)
        })
    }

    fn url<'a>(&'a self, server: &'a ServerName, spec: &'a Http) -> BoxFuture<'a, Result<String, ResolveError>> {
        Verbatim.url(server, spec)
    }

    fn headers<'a>(
        &'a self,
        server: &'a ServerName,
        spec: &'a Http,
    ) -> BoxFuture<'a, Result<Vec<(String, String)>, ResolveError>> {
        Verbatim.headers(server, spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Container;

    #[tokio::test]
    async fn a_container_gets_only_named_variables_and_the_engine_s_client_what_it_needs() {
        let variables = ["PATH", "DOCKER_HOST", "TEAM", "TOKEN"].map(|name| (name.into(), "there".into()));
        let names = ["TEAM", "ABSENT", "DOCKER_HOST"].map(str::to_owned).to_vec();
        let spec = Stdio {
            env: [("MODE".to_owned(), "fast".to_owned())].into(),
            inherit_env: InheritEnv::Names(names),
            container: Some(Box::new(Container::default())),
            ..Stdio::default()
        };
        let plan = InheritingResolver(variables.to_vec()).stdio(&ServerName::new("a").unwrap(), &spec).await.unwrap();
        let given: Vec<_> = plan.env.iter().map(|(name, _)| name.to_str().unwrap()).collect();
        assert_eq!(given, ["MODE", "PATH", "DOCKER_HOST", "TEAM"]);
        assert_eq!(plan.container.unwrap().variables, ["MODE", "TEAM"]);
    }
}
