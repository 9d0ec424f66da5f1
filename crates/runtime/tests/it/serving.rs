//! Health, readiness and metrics, over HTTP.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::{Fault, Matcher};
use evenkeel_runtime::{Action, Controller, Ctx, Error, Manager};
use k8s_openapi::api::core::v1::ConfigMap;

use crate::managing::{embedded, manager};
use crate::map;

#[tokio::test]
async fn health_readiness_and_metrics_are_served() {
    for filled in [true, false] {
        let cluster = embedded(6).await;
        if !filled {
            cluster.fail(Matcher::any().kind::<ConfigMap>(), Fault::InternalError, usize::MAX);
        }
        // The listener is bound here: a port that was free a moment ago may be taken by now.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let controller = Controller::new("served", |_: Arc<ConfigMap>, _: Ctx| async {
            Ok::<_, Error>(Action::await_change())
        });
        let manager = manager(&cluster)
            .controller(controller)
            .serve_on(listener)
            .health_check("disk", || Err("full".into()))
            .ready_check("peers", || Ok(()));
        let _running = tokio::spawn(manager.run_until(std::future::pending()));
        if filled {
            cluster.settled().await;
        }
        let health = page(address, "/healthz").await;
        assert!(health.starts_with("HTTP/1.1 500") && health.contains("[-]disk failed: full"), "{health}");
        let ready = page(address, "/readyz").await;
        let wanted = match filled {
            true => ("HTTP/1.1 200", "[+]caches ok"),
            false => ("HTTP/1.1 500", "[-]caches failed: the cache of ConfigMap in default is not filled"),
        };
        assert!(ready.starts_with(wanted.0) && ready.contains(wanted.1), "{ready}");
        assert!(ready.contains("[+]peers ok"), "{ready}");
        assert!(page(address, "/metrics").await.contains("workqueue_depth"));
    }
}

/// Probes come from the node and scrapes from elsewhere: each can have a port of its own.
#[tokio::test]
async fn metrics_may_have_a_port_of_their_own() {
    let cluster = crate::quiet(7).await;
    let [probes, metrics] = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let [at_probes, at_metrics] = [&probes, &metrics].map(|listener| listener.local_addr().unwrap());
    let manager = manager(&cluster).serve_on(probes).serve_metrics_on(metrics);
    let objects = manager.manifests("op", "ops").image("op:1").objects();
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["livenessProbe"]["httpGet"]["port"], at_probes.port());
    assert_eq!(container["ports"][1]["containerPort"], at_metrics.port());
    let _running = tokio::spawn(manager.run_until(std::future::pending()));
    for (address, has, has_not) in [(at_probes, "/healthz", "/metrics"), (at_metrics, "/metrics", "/readyz")]
    {
        assert!(page(address, has).await.starts_with("HTTP/1.1 200"), "{has}");
        assert!(page(address, has_not).await.starts_with("HTTP/1.1 404"), "{has_not}");
    }
}

/// An address that is taken is a fatal error, of the probes and of the metrics.
#[tokio::test]
async fn an_address_that_is_taken_ends_the_manager_with_its_name() {
    let cluster = crate::quiet(10).await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    type Serve = fn(Manager, std::net::SocketAddr) -> Manager;
    let ways: [(&str, Serve); 2] = [("http", Manager::serve), ("http of metrics", Manager::serve_metrics)];
    for (part, serve) in ways {
        let manager = serve(manager(&cluster), address);
        let running =
            tokio::time::timeout(Duration::from_secs(30), manager.run_until(std::future::pending()));
        let error = running.await.expect("it ends").unwrap_err();
        assert_eq!(error.part, part);
        assert!(error.to_string().contains("in use"), "{error}");
    }
}

/// A stop closes the port and its connections without waiting for clients that keep a connection open.
#[tokio::test]
async fn a_stop_closes_the_port_and_its_connections() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let cluster = crate::quiet(12).await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let manager = manager(&cluster).serve_on(listener).grace_period(Duration::from_secs(600));
    let running = tokio::spawn(manager.run_until(async { drop(stopped.await) }));
    let mut kept = tokio::net::TcpStream::connect(address).await.unwrap();
    kept.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    assert!(kept.read(&mut [0; 1024]).await.unwrap() > 0);
    drop(stop);
    let soon = Duration::from_secs(30);
    tokio::time::timeout(soon, running).await.expect("it does not wait").unwrap().unwrap();
    // Nothing but the answer to the first request may be left.
    let mut rest = Vec::new();
    let _ = tokio::time::timeout(soon, kept.read_to_end(&mut rest)).await.expect("it is closed");
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

/// Requests a page from a manager.
pub(crate) async fn page(address: std::net::SocketAddr, path: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// After a crash, no connection is served any more.
#[tokio::test]
async fn connections_end_with_a_manager_that_is_dropped() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let cluster = crate::quiet(13).await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let running = tokio::spawn(manager(&cluster).serve_on(listener).run_until(std::future::pending()));
    let mut kept = tokio::net::TcpStream::connect(address).await.unwrap();
    kept.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    assert!(kept.read(&mut [0; 1024]).await.unwrap() > 0);
    running.abort();
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(30), kept.read_to_end(&mut rest));
    let _ = closed.await.expect("it is closed");
}

/// An error while accepting a connection used to end the whole operator.
#[cfg(unix)]
#[tokio::test]
async fn a_connection_that_cannot_be_accepted_does_not_end_the_manager() {
    let cluster = embedded(14).await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    // From now on every accept fails.
    let socket = std::os::fd::OwnedFd::from(listener.try_clone().unwrap());
    std::net::TcpStream::from(socket).shutdown(std::net::Shutdown::Both).unwrap();
    let (seen, mut reconciled) = tokio::sync::mpsc::unbounded_channel();
    let controller = Controller::new("works", move |_: Arc<ConfigMap>, _: Ctx| {
        let told = seen.send(());
        async move { told.map(|()| Action::await_change()).map_err(|error| Error::message(error.to_string())) }
    });
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let manager = manager(&cluster).serve_on(listener).controller(controller);
    let running = tokio::spawn(manager.run_until(async { drop(stopped.await) }));
    for at in 0..3 {
        cluster.apply(map("one", at)).await.unwrap();
        reconciled.recv().await.unwrap();
    }
    drop(stop);
    running.await.unwrap().unwrap();
}
