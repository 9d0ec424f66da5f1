//! The streams over TLS on a port, by kube-rs.

use evenkeel_cluster::serve::ServeOptions;
use kube::config::{KubeConfigOptions, Kubeconfig};

use super::*;

/// How long a step may take in real time.
const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn kube_rs_uses_them_over_https() {
    let cluster = Cluster::builder().start().await.unwrap();
    let server = cluster.serve(ServeOptions::default()).await.unwrap();
    let kubeconfig = Kubeconfig::from_yaml(server.kubeconfig()).unwrap();
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(server.run(async { drop(stopped.await) }));
    let pods: Api<Pod> = Api::default_namespaced(kube::Client::try_from(config).unwrap());

    cluster.tell_pods(PodRule::new(Behaviour::new().log("hello")));
    cluster.on_exec(PodSelector::all(), |mut exec: Exec| async move {
        let typed = exec.read_stdin().await.unwrap();
        exec.print(typed).await;
        7
    });
    cluster.serve_pods(PodSelector::all(), 8080, echo);
    pod(&cluster, "web", &["web"]).await;
    let steps = async {
        assert_eq!(pods.logs("web", &LogParams::default()).await.unwrap(), "hello\n");
        let mut process = pods.exec("web", ["cat"], &AttachParams::default().stdin(true)).await.unwrap();
        let mut stdin = process.stdin().unwrap();
        stdin.write_all(b"typed").await.unwrap();
        stdin.shutdown().await.unwrap();
        assert_eq!(outcome(process).await, ("typed".to_owned(), String::new(), "7".to_owned()));
        let mut forwarder = pods.portforward("web", &[8080]).await.unwrap();
        let mut stream = forwarder.take_stream(8080).unwrap();
        stream.write_all(b"GET /a HTTP/1.1\r\nhost: web\r\nconnection: close\r\n\r\n").await.unwrap();
        assert!(read(&mut stream).await.ends_with("GET /a by web"));
        let follow = LogParams { follow: true, ..Default::default() };
        let mut lines = pods.log_stream("web", &follow).await.unwrap().lines();
        assert_eq!(lines.next().await.unwrap().unwrap(), "hello");
        // An open command does not keep the server from stopping.
        let open = pods.exec("web", ["cat"], &AttachParams::default().stdin(true)).await.unwrap();
        stop.send(()).unwrap();
        serving.await.unwrap();
        drop(open);
    };
    tokio::time::timeout(LIMIT, steps).await.expect("each step takes a moment");
}
