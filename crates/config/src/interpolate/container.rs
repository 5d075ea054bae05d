//! Builds the environment of a container. The client of the container engine, such as the program `podman`, starts the
//! container. The client has variables of its own, and passes some of them to the server in the container.

use toolrack_host::{
    ChildPlan, ContainerPlan, ResolveError,
    spec::{Container, InheritEnv, Mount, Stdio},
};

use super::{Interpolate, Values};
use crate::placeholder::BareName;

impl Interpolate {
    /// Gives `plan` a container. The environment of the plan is then the environment of the engine's client: the user's
    /// own folders and language, the variables that locate the engine, and the values that the client passes to the
    /// child.
    pub(super) fn add_container(
        &self,
        spec: &Stdio,
        plan: &mut ChildPlan,
        values: &Values,
        container: &Container,
    ) -> Result<(), ResolveError> {
        let mounts = container.mounts.iter().enumerate().map(|(index, mount)| {
            let field = format!("container.mounts[{index}]");
            let source = values.resolve_text_path(&field, &mount.source)?;
            if !source.starts_with('/') || Mount::gives_too_much(source.as_ref(), mount.write) {
                let message = format!(
                    "`{field}` must be the full path of a file or folder, and must not give access to the whole machine"
                );
                return Err(ResolveError::new(message));
            }
            Ok(Mount { source, ..mount.clone() })
        });
        let container = Container {
            mounts: mounts.collect::<Result<_, _>>()?,
            image: values.resolve("container.image", &container.image, BareName::Literal)?,
            ..container.clone()
        };
        let inherited_names = match &spec.inherit_env {
            InheritEnv::Names(names) => names.as_slice(),
            _ => &[],
        };
        let inherited_names = inherited_names.iter().filter(|name| values.environment.get(name).is_some());
        let mut variables: Vec<String> = spec.env.keys().chain(inherited_names).cloned().collect();
        variables.sort();
        variables.dedup();
        for (name, value) in values.environment.for_engine_clients() {
            if !plan.env.iter().any(|(other, _)| other == name) {
                plan.env.push((name.to_owned(), value.to_owned()));
            }
        }
        plan.container = Some(Box::new(ContainerPlan { container, variables }));
        Ok(())
    }
}
