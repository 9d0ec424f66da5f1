//! `evenkeel snapshot save` and `evenkeel up --restore`, from one process to another.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::kube::api::{Api, PostParams};
use evenkeel::kube::config::{AuthInfo, Kubeconfig};

use crate::up::{Up, evenkeel, refused};

fn save(kubeconfig: &Path, file: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(["snapshot", "save"]).arg(file).arg("--kubeconfig").arg(kubeconfig);
    command
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the path is text")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_saved_cluster_is_restored_in_memory_and_on_disk() {
    let up = Up::start(&["--nodes", "0"]);
    let maps: Api<ConfigMap> = Api::default_namespaced(up.client().await);
    let mut map = ConfigMap::default();
    map.metadata.name = Some("kept".to_owned());
    let made = maps.create(&PostParams::default(), &map).await.expect("it is created");

    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.snap");
    let Output { status, stdout, stderr } =
        save(&up.folder.path().join("kubeconfig"), &file).output().expect("the binary runs");
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    let line = String::from_utf8(stdout).expect("it is text");
    assert!(line.starts_with(&format!("saved {}: revision ", file.display())), "{line}");
    let metadata = std::fs::metadata(&file).expect("it was written");
    assert!(line.contains(&format!("{} bytes", metadata.len())), "{line}");
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(folder.path()).expect("it is a folder").count(), 1, "nothing else is left");
    up.end();

    let dir = folder.path().join("data");
    for (args, again) in [
        (vec!["--restore", text(&file)], false),
        (vec!["--restore", text(&file), "--data-dir", text(&dir)], false),
        (vec!["--data-dir", text(&dir)], true),
    ] {
        let restored = Up::start(&[&["--nodes", "0"], args.as_slice()].concat());
        let maps: Api<ConfigMap> = Api::default_namespaced(restored.client().await);
        let found = maps.get("kept").await.expect("it is there");
        assert_eq!(found, made, "again: {again}");
        restored.end();
    }

    let up = tempfile::tempdir().expect("a folder");
    let restore = |file: &Path, dir: &Path| {
        let args = ["--bind", "127.0.0.1:0", "--restore", text(file), "--data-dir", text(dir)];
        refused(evenkeel(up.path(), &args))
    };
    let error = restore(&file, &dir);
    assert!(
        error.contains("holds a store already") && error.contains("hint: start without --restore"),
        "{error}"
    );

    let mut bytes = std::fs::read(&file).expect("it is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).expect("it is ours");
    let other = folder.path().join("other");
    let error = restore(&file, &other);
    assert!(error.contains("the snapshot is damaged at byte ") && error.contains("hint: "), "{error}");
    assert!(!other.exists(), "nothing is written");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_and_what_does_not_answer_leave_no_file() {
    let up = Up::start(&["--nodes", "0", "--no-controllers"]);
    let folder = tempfile::tempdir().expect("a folder");
    let mut kubeconfig = Kubeconfig::read_from(up.folder.path().join("kubeconfig")).expect("it was written");
    for user in &mut kubeconfig.auth_infos {
        user.auth_info = Some(AuthInfo::default());
    }
    let path = folder.path().join("anonymous");
    // The kubeconfig is JSON, which is valid YAML.
    std::fs::write(&path, serde_json::to_string(&kubeconfig).expect("it can be written"))
        .expect("it is ours");
    let file = folder.path().join("a.snap");
    let error = refused(save(&path, &file));
    assert!(error.contains("403") && error.contains("hint: the user needs permission to get"), "{error}");
    up.end();
    let error = refused(save(&path, &file));
    assert!(
        error.contains("cannot ask the server for a snapshot") && error.contains("hint: is `evenkeel up`"),
        "{error}"
    );
    let error = refused(save(&folder.path().join("none"), &file));
    assert!(error.starts_with("error: cannot read ") && error.contains("hint: is `evenkeel up`"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("it is a folder").count(), 1, "the kubeconfig alone");
}
