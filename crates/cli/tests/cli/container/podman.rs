//! Servers in real containers, of Podman.

mod needs_podman {
    use std::{
        fs,
        path::{Path, PathBuf},
        process::Command,
        time::{Duration, Instant},
    };

    use serde_json::{Value, json};
    use toolrack_testkit::fake_server_path;

    use super::super::{STUBBORN, endless};
    use crate::rack::Rack;

    const IMAGE: &str = "localhost/fake:1";

    /// A home with its own store of images, which has one image: the fake server with its libraries.
    struct Engine {
        rack: Rack,
    }

    impl Engine {
        fn new() -> Self {
            let rack = Rack::new();
            let root = rack.home.root().canonicalize().unwrap();
            // Podman raises limits by default, which root in a sandbox may not do. `runc` works in more sandboxes than `crun`.
            let runtime = if is_on_path("runc") { "runtime = \"runc\"\n" } else { "" };
            let containers = format!(
                "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=1024:1024\"]\n\
                 [engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n{runtime}"
            );
            let containers = rack.home.write("containers.conf", containers);
            let storage = format!(
                "[storage]\ndriver = \"vfs\"\ngraphroot = \"{0}/store\"\nrunroot = \"{0}/run\"\n",
                root.display()
            );
            let storage = rack.home.write("storage.conf", storage);
            let rack = rack
                .env("CONTAINERS_CONF", containers.to_str().unwrap())
                .env("CONTAINERS_STORAGE_CONF", storage.to_str().unwrap());
            let engine = Self { rack };
            let files = root.join("files");
            for file in libraries_of(fake_server_path()) {
                let target = files.join(file.strip_prefix("/").unwrap());
                fs::create_dir_all(target.parent().unwrap()).unwrap();
                fs::copy(&file, target).unwrap();
            }
            fs::copy(fake_server_path(), files.join("fake-server")).unwrap();
            let tar = root.join("image.tar");
            let packed = Command::new("tar").arg("-C").arg(&files).arg("-cf").arg(&tar).arg(".").status().unwrap();
            assert!(packed.success());
            engine.podman(&["import", tar.to_str().unwrap(), IMAGE]);
            engine
        }

        fn podman(&self, words: &[&str]) -> String {
            let mut command = Command::new("podman");
            self.rack.set_environment(&mut command);
            let output = command.args(words).output().unwrap();
            assert!(output.status.success(), "podman {words:?}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        }

        fn containers(&self) -> String {
            self.podman(&["ps", "--all", "--format", "{{.Names}} {{.Status}}"])
        }

        /// Waits until a container runs. Returns its name.
        fn wait_for_container(&self) -> String {
            let deadline = Instant::now() + Duration::from_secs(30);
            loop {
                let name = self.podman(&["ps", "--filter", "status=running", "--format", "{{.Names}}"]);
                if !name.trim().is_empty() {
                    return name.trim().to_owned();
                }
                assert!(Instant::now() < deadline, "no container runs");
                std::thread::sleep(Duration::from_millis(20));
            }
        }

        fn wait_until_empty(&self) {
            let deadline = Instant::now() + Duration::from_secs(20);
            while !self.containers().trim().is_empty() {
                assert!(Instant::now() < deadline, "containers remain: {}", self.containers());
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// Removes the containers of a failed test.
    impl Drop for Engine {
        fn drop(&mut self) {
            let mut command = Command::new("podman");
            self.rack.set_environment(&mut command);
            let _ = command.args(["rm", "--all", "--force"]).output();
        }
    }

    #[expect(clippy::disallowed_methods, reason = "how tests find programs")]
    fn is_on_path(program: &str) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    }

    /// The full paths of the shared libraries of a program, including its loader.
    fn libraries_of(program: &Path) -> Vec<PathBuf> {
        let output = Command::new("ldd").arg(program).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
    }

    fn entry(options: &[&str], container: &Value) -> Value {
        let args = [&["stdio"], options].concat();
        json!({ "command": "/fake-server", "args": args, "container": container })
    }

    fn podman() -> Value {
        json!({ "image": IMAGE, "engine": "podman", "pull": "never" })
    }

    #[test]
    fn a_server_in_a_container_works_with_the_bounds_that_were_asked_for() {
        let engine = Engine::new();
        let mut entry = entry(&[], &podman());
        entry["env"] = json!({ "MY_TOKEN": "canary-in-env", "LINES": "two\nlines" });
        engine.rack.configure(&[("box", entry)]);
        let names = engine.rack.run(&["call", "box/env"]).ends_with(0).stdout;
        assert!(names.contains("MY_TOKEN") && !names.contains("TOOLRACK_HOME"), "{names}");
        let lines = engine.rack.run(&["call", "box/env", "name=LINES"]).ends_with(0).stdout;
        assert!(lines.contains("two") && lines.contains("lines"), "{lines}");
        let mut host = endless(&engine.rack);
        let inspected = engine.podman(&["inspect", &engine.wait_for_container()]);
        let inspected: Value = serde_json::from_str(&inspected).unwrap();
        let bounds = &inspected[0]["HostConfig"];
        assert_eq!(bounds["NetworkMode"], "none");
        assert_eq!(bounds["ReadonlyRootfs"], true);
        assert_eq!(bounds["PidsLimit"], 128);
        assert_eq!(bounds["Memory"], 1 << 30);
        assert_eq!(bounds["SecurityOpt"], json!(["no-new-privileges"]));
        assert_eq!(bounds["Binds"], json!([]));
        assert!(inspected[0]["EffectiveCaps"].as_array().is_none_or(Vec::is_empty), "{inspected}");
        assert!(!inspected[0]["Config"]["CreateCommand"].to_string().contains("canary"), "{inspected}");
        host.kill().unwrap();
        host.wait().unwrap();
        engine.wait_until_empty();
    }

    #[test]
    fn no_container_survives_a_killed_host() {
        let engine = Engine::new();
        engine.rack.configure(&[("box", entry(STUBBORN, &podman()))]);
        let mut host = endless(&engine.rack);
        let name = engine.wait_for_container();
        let pid = engine.podman(&["inspect", "--format", "{{.State.Pid}}", &name]);
        host.kill().unwrap();
        host.wait().unwrap();
        engine.wait_until_empty();
        assert!(!Path::new(&format!("/proc/{}", pid.trim())).exists());
    }

    #[test]
    fn no_container_remains_when_the_command_has_ended() {
        let engine = Engine::new();
        let mut stubborn = entry(STUBBORN, &podman());
        stubborn["shutdown_timeout"] = json!("100ms");
        engine.rack.configure(&[("box", entry(&[], &podman())), ("stubborn", stubborn)]);
        for server in ["box", "stubborn"] {
            let ran = engine.rack.run(&["call", &format!("{server}/echo"), "text=hello"]).ends_with(0);
            assert!(ran.stdout.contains("hello"), "{ran}");
            assert_eq!(engine.containers().trim(), "", "{server}");
        }
    }

    #[test]
    fn a_missing_image_is_reported() {
        let engine = Engine::new();
        let no_image = json!({ "image": "localhost/none:1", "engine": "podman", "pull": "never" });
        engine.rack.configure(&[("image", entry(&[], &no_image))]);
        let error = engine.rack.run(&["--json", "call", "image/echo", "text=x"]).ends_with(4).error();
        assert_eq!(error["code"], "CONTAINER_FAILED", "{error}");
        assert!(error["message"].as_str().unwrap().contains("its image is not on this machine"), "{error}");
        let doctor = engine.rack.run(&["doctor", "image"]).ends_with(4);
        assert!(doctor.stdout.contains("podman pull localhost/none:1"), "{doctor}");
        assert_eq!(engine.containers().trim(), "");
    }
}
